//! `walkfuzz corpus add`: an entry made of a finding.

use jiff::Timestamp;
use walkfuzz_context::Arch;
use walkfuzz_jvm::{Places, Version};
use walkfuzz_record::Finding;
use walkfuzz_record::finding::hex_bytes;
use walkfuzz_triage::corpus::{Entry, EntryJdk, Expected, SCHEMA, State, check_name};

use crate::corpus::args::AddArgs;
use crate::corpus::capsule;
use crate::failure::Failure;
use crate::finding::find_finding;
use crate::variants::subject::Subject;

pub(crate) fn run(args: &AddArgs) -> Result<(), Failure> {
    let (run, finding) = find_finding(&args.finding, &args.runs)?;
    let name = args.name.clone().unwrap_or_else(|| name_of(&finding));
    check_name(&name).map_err(Failure::usage)?;
    let taken = State::ALL
        .into_iter()
        .map(|state| {
            args.corpus
                .join(state.folder())
                .join(format!("{name}.toml"))
        })
        .find(|path| path.exists());
    if let Some(path) = taken {
        return Err(Failure::usage(format_args!(
            "{} is there already: --name gives another name",
            path.display()
        )));
    }
    let fixed = args.fixed.as_deref().map(fixed_in).transpose()?;
    let state = match fixed {
        Some(_) => State::Regression,
        None => State::Crashing,
    };
    let instruction = finding
        .site
        .as_ref()
        .and_then(|site| site.instruction.clone());
    let instruction = match (args.same_instruction, instruction) {
        (false, _) => String::new(),
        (true, Some(instruction)) => instruction,
        (true, None) => {
            return Err(Failure::usage(format_args!(
                "finding {} does not know its instruction",
                finding.id
            )));
        }
    };
    let issue = match (&*args.issue, finding.known.first()) {
        ("", Some(known)) if known.versions == "affected" => known.id.clone(),
        (given, _) => given.to_owned(),
    };
    let collector = finding.jvm.collector.clone();
    let capsule = match args.no_capsule {
        true => None,
        false => capsule::of_finding(&run, &finding)?,
    };
    let subject = Subject::of_finding(Some(run), &finding)?;
    let entry = Entry {
        name,
        schema: SCHEMA,
        title: finding.title.clone(),
        issue,
        signature: finding.signature.clone(),
        instruction,
        tier: finding.tier.clone(),
        expected: state.expected(),
        since: Timestamp::now().strftime("%Y-%m-%d").to_string(),
        engine: finding.engine.clone(),
        kind: subject.kind.map_or("", |kind| kind.name()).to_owned(),
        offset: subject.offset.map_or("", |offset| offset.name()).to_owned(),
        moments: args.moments,
        misses: 0,
        input: hex_bytes(&subject.batch.to_bytes()),
        perturbation: subject.perturbation(),
        jdk: Some(EntryJdk {
            version: Version::release(&finding.jvm.version).to_owned(),
            build_id: finding.jvm.build_id.clone(),
            collector: if collector == "default" {
                String::new()
            } else {
                collector
            },
        }),
        fixed,
    };
    debug_assert_ne!(entry.expected, Expected::Walks);
    let folder = args.corpus.join(state.folder());
    let path = entry.write(&folder).map_err(Failure::environment)?;
    let mut text = format!("{}\n", path.display());
    if let Some(capsule) = capsule {
        let path = capsule::write(&capsule, &folder, &entry.name)?;
        text.push_str(&format!("{}\n", path.display()));
    }
    crate::print(text.as_bytes())
}

/// The JDK that has the fix, with its build id if it is installed.
fn fixed_in(version: &str) -> Result<EntryJdk, Failure> {
    let Some(wanted) = Version::parse(version).filter(|version| version.feature() > 0) else {
        return Err(Failure::usage(format_args!(
            "--fixed {version} is no version such as 17.0.9"
        )));
    };
    let jdks = crate::variants::every_jdk(&Places::from_env());
    let build = jdks.into_iter().find(|jdk| jdk.version.is_a(&wanted));
    Ok(EntryJdk {
        version: Version::release(version).to_owned(),
        build_id: build.map_or_else(String::new, |jdk| jdk.identity),
        collector: String::new(),
    })
}

/// `jdk-17.0.7-frame.safe_for_sender-321812653c41`, cut to what a name may be.
fn name_of(finding: &Finding) -> String {
    let function = finding.signature.split('|').nth(1).unwrap_or_default();
    let function = function.replace("::", ".");
    let function: String = function
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || "._-".contains(c) {
                c
            } else {
                '-'
            }
        })
        .take(48)
        .collect();
    let arch = Arch::NATIVE.name();
    let digits: String = finding.id.chars().take(6).collect();
    format!(
        "{}-{function}-{digits}-{arch}",
        Version::release(&finding.jvm.version)
    )
}
