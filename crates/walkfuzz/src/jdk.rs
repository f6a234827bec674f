//! `walkfuzz jdk`: what there is, what can be had, and bringing it.

use serde::Serialize;
use walkfuzz_context::Arch;
use walkfuzz_jvm::{
    CATALOGUE, Candidate, DEFAULT_JDK, Jdk, JvmError, Pinned, Places, install, install_for, pinned,
};

use crate::cli::JdkCommand;
use crate::failure::Failure;
use crate::table::table;

/// A JDK, or a folder that should be one, as JSON.
#[derive(Debug, Serialize)]
pub(crate) struct JdkRow {
    pub(crate) home: String,
    pub(crate) source: &'static str,
    pub(crate) usable: bool,
    /// Why not.
    pub(crate) problem: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) implementor: Option<String>,
    pub(crate) arch: Option<&'static str>,
    /// Whether libjvm exports everything that is needed; a JDK without is not usable.
    pub(crate) exports: bool,
    pub(crate) symtab: Option<bool>,
    pub(crate) build_id: Option<String>,
}

impl JdkRow {
    fn new(candidate: Candidate) -> Self {
        let home = candidate.home.display().to_string();
        let source = candidate.source.name();
        match candidate.jdk {
            Ok(jdk) => Self {
                home,
                source,
                usable: true,
                problem: None,
                version: Some(jdk.version.to_string()),
                implementor: jdk.implementor,
                arch: Some(jdk.arch.name()),
                exports: true,
                symtab: Some(jdk.symtab),
                build_id: Some(jdk.build_id.unwrap_or(jdk.identity)),
            },
            Err(error) => Self {
                home,
                source,
                usable: false,
                problem: Some(error.to_string()),
                version: None,
                implementor: None,
                arch: None,
                exports: false,
                symtab: None,
                build_id: None,
            },
        }
    }

    /// For people.
    pub(crate) fn cells(&self) -> Vec<String> {
        let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
        let state = match &self.problem {
            Some(problem) => problem.clone(),
            None => {
                let symbols = if self.symtab == Some(true) {
                    "exports and symbols"
                } else {
                    "exports, no symbol table"
                };
                format!("{symbols}, build {:.12}", text(&self.build_id))
            }
        };
        let mark = if self.usable { "ok" } else { "--" };
        vec![
            mark.to_owned(),
            text(&self.version),
            self.source.to_owned(),
            self.home.clone(),
            state,
        ]
    }
}

/// All candidates, as [`Places::discover`] orders them.
pub(crate) fn found() -> Vec<JdkRow> {
    Places::from_env()
        .discover()
        .into_iter()
        .map(JdkRow::new)
        .collect()
}

#[derive(Serialize)]
struct Offer {
    version: &'static str,
    installed: bool,
    command: String,
}

#[derive(Serialize)]
struct Listing {
    found: Vec<JdkRow>,
    installable: Vec<Offer>,
}

pub(crate) fn run(command: JdkCommand) -> Result<(), Failure> {
    match command {
        JdkCommand::List(args) => list(args.json),
        JdkCommand::Install {
            version,
            arch,
            dry_run,
        } => bring(&version, arch.map_or(Arch::NATIVE, Into::into), dry_run),
        JdkCommand::Ensure { jdk } => ensure(jdk.as_deref().filter(|jdk| !jdk.is_empty())),
    }
}

fn ours() -> impl Iterator<Item = &'static Pinned> {
    of(Arch::NATIVE)
}

fn of(arch: Arch) -> impl Iterator<Item = &'static Pinned> {
    CATALOGUE.iter().filter(move |pinned| pinned.arch == arch)
}

fn list(json: bool) -> Result<(), Failure> {
    let cache = Places::from_env().jdks();
    let offer = |pinned: &'static Pinned| Offer {
        version: pinned.version,
        installed: cache.join(pinned.version).join("release").is_file(),
        command: format!("walkfuzz jdk install {}", pinned.version),
    };
    let listing = Listing {
        found: found(),
        installable: ours().map(offer).collect(),
    };
    if json {
        return crate::print_json(&listing);
    }
    let rows: Vec<_> = listing.found.iter().map(JdkRow::cells).collect();
    let mut text = if rows.is_empty() {
        "no JDK found\n".to_owned()
    } else {
        table(&rows)
    };
    let offers: Vec<String> = listing
        .installable
        .iter()
        .map(|offer| {
            if offer.installed {
                format!("{} (installed)", offer.version)
            } else {
                offer.version.to_owned()
            }
        })
        .collect();
    text.push_str(&format!(
        "\nwalkfuzz jdk install VERSION brings: {}\n",
        offers.join(", ")
    ));
    crate::print(text.as_bytes())
}

fn bring(version: &str, arch: Arch, dry_run: bool) -> Result<(), Failure> {
    let places = Places::from_env();
    if dry_run {
        let pinned = named(version, arch)?;
        let home = places.jdks_for(arch).join(pinned.version);
        let text = format!(
            "JDK {} from {} (sha256 {}), by {}, into {}\n",
            pinned.version,
            pinned.name(),
            pinned.sha256,
            pinned.brought_by(),
            home.display()
        );
        return crate::print(text.as_bytes());
    }
    say(&install_for(version, arch, &places)?)
}

/// The package that [`install_for`] would take.
fn named(version: &str, arch: Arch) -> Result<&'static Pinned, Failure> {
    pinned(version, arch).ok_or_else(|| {
        let available = of(arch).map(|pinned| pinned.version);
        Failure::from(JvmError::NotInCatalogue {
            wanted: version.to_owned(),
            arch: arch.name(),
            available: available.collect::<Vec<_>>().join(", "),
        })
    })
}

fn ensure(wanted: Option<&str>) -> Result<(), Failure> {
    let places = Places::from_env();
    match places.choose(wanted) {
        Ok(jdk) => say(&jdk),
        Err(JvmError::NoJdk { .. }) => say(&install(DEFAULT_JDK, &places)?),
        Err(JvmError::NoSuchJdk { wanted, .. }) if pinned(&wanted, Arch::NATIVE).is_some() => {
            say(&install(&wanted, &places)?)
        }
        Err(error) => Err(error.into()),
    }
}

fn say(jdk: &Jdk) -> Result<(), Failure> {
    crate::print(format!("JDK {jdk}\n").as_bytes())
}
