//! Where our agents are: the libraries that JVMs load.

use std::path::{Path, PathBuf};
use std::process::Command;

use walkfuzz_context::Arch;
use walkfuzz_record::machine;

/// One of them.
#[derive(Debug)]
pub struct Agent {
    name: &'static str,
    package: &'static str,
    file: &'static str,
    /// Names the library.
    variable: &'static str,
}

/// docs/sampler.md.
pub const SAMPLER: Agent = Agent {
    name: "sampler",
    package: "walkfuzz-sampler",
    file: "libwalkfuzz_sampler.so",
    variable: "WALKFUZZ_SAMPLER",
};

/// docs/interposer.md.
pub const INTERPOSER: Agent = Agent {
    name: "interposer",
    package: "walkfuzz-interposer",
    file: "libwalkfuzz_interposer.so",
    variable: "WALKFUZZ_INTERPOSER",
};

/// Why there is no such library.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The user's variable is wrong.
    #[error("{variable} names {}, which is no file", path.display())]
    NoFile {
        /// The variable.
        variable: &'static str,
        /// What it says.
        path: PathBuf,
    },
    /// The user's library is for another machine.
    #[error("{variable} names {}, which is built for {found}: a JVM for {wanted} takes agents for {wanted}", path.display())]
    Foreign {
        /// The variable.
        variable: &'static str,
        /// What it says.
        path: PathBuf,
        /// What that is built for.
        found: String,
        /// What would fit.
        wanted: &'static str,
    },
    /// It was not built.
    #[error("{file} is not beside {}; build it in a checkout with: cargo build --release -p {package}", program.display())]
    NotBuilt {
        /// The library.
        file: &'static str,
        /// Who looked.
        program: PathBuf,
        /// What to build.
        package: &'static str,
    },
    /// Cargo cannot be started.
    #[error("cannot start cargo: {0}")]
    NoCargo(#[source] std::io::Error),
    /// It does not build.
    #[error("the {0} does not build; see above")]
    Broken(&'static str),
    /// Cargo names no library.
    #[error("cargo built no {0}")]
    Nothing(&'static str),
    /// The folder that the variable speaks of cannot be told.
    #[error("cannot read the current folder: {0}")]
    NoFolder(#[source] std::io::Error),
}

/// The nearest folder upwards that holds `fuzz/Cargo.toml` of walkfuzz's own cargo-fuzz project: a checkout.
#[must_use]
pub fn checkout(from: &Path) -> Option<&Path> {
    from.ancestors().find(|folder| {
        let manifest = std::fs::read_to_string(folder.join("fuzz/Cargo.toml"));
        manifest.is_ok_and(|text| text.contains("cargo-fuzz = true") && text.contains("walkfuzz"))
    })
}

/// What its variable names; in a checkout, what cargo builds; the library beside this program.
///
/// # Errors
/// There is none.
pub fn find(agent: &Agent) -> Result<PathBuf, AgentError> {
    let Agent {
        file,
        variable,
        package,
        ..
    } = agent;
    if let Some(path) = std::env::var_os(variable).filter(|path| !path.is_empty()) {
        return named(variable, PathBuf::from(path));
    }
    let here = std::env::current_dir().unwrap_or_default();
    if let Some(root) = checkout(&here) {
        return build(agent, root);
    }
    let program = std::env::current_exe().unwrap_or_default();
    let beside = program.with_file_name(file);
    if beside.is_file() {
        return Ok(beside);
    }
    Err(AgentError::NotBuilt {
        file,
        program,
        package,
    })
}

/// What the user named, if a JVM of this program's architecture could load it.
fn named(variable: &'static str, path: PathBuf) -> Result<PathBuf, AgentError> {
    if !path.is_file() {
        return Err(AgentError::NoFile { variable, path });
    }
    if let Some(found) = machine::foreign(&path) {
        return Err(AgentError::Foreign {
            variable,
            path,
            found,
            wanted: Arch::NATIVE.name(),
        });
    }
    std::path::absolute(&path).map_err(AgentError::NoFolder)
}

/// Builds the checkout's, which does nothing if it is up to date.
fn build(agent: &Agent, root: &Path) -> Result<PathBuf, AgentError> {
    let name = agent.name;
    eprintln!("walkfuzz: building the {name}");
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args([
            "build",
            "--release",
            "--locked",
            "--quiet",
            "--package",
            agent.package,
        ])
        .args(machine::cargo_target())
        .args(["--message-format", "json"])
        .current_dir(root)
        .stderr(std::process::Stdio::inherit())
        .output()
        .map_err(AgentError::NoCargo)?;
    if !output.status.success() {
        return Err(AgentError::Broken(name));
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let mut files = messages.lines().filter_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let names = message.get("filenames")?.as_array()?;
        let mut paths = names.iter().filter_map(|name| name.as_str());
        paths
            .find(|name| name.ends_with(agent.file))
            .map(PathBuf::from)
    });
    files.next_back().ok_or(AgentError::Nothing(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_cargo_fuzz_project_of_ours_counts() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("fuzz/corpus/deep");
        std::fs::create_dir_all(&deep).unwrap();
        std::fs::write(
            folder.path().join("fuzz/Cargo.toml"),
            "[package.metadata]\ncargo-fuzz = true\n",
        )
        .unwrap();
        assert_eq!(checkout(&deep), None);
        let ours = "[package]\nname = \"walkfuzz-fuzz\"\n[package.metadata]\ncargo-fuzz = true\n";
        std::fs::write(folder.path().join("fuzz/Cargo.toml"), ours).unwrap();
        assert_eq!(checkout(&deep), Some(folder.path()));
    }

    #[test]
    fn a_library_for_another_machine_is_refused_with_both_names() {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("libwalkfuzz_sampler.so");
        let mut elf = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        elf.truncate(64);
        std::fs::write(&library, &elf).unwrap();
        named("WALKFUZZ_SAMPLER", library.clone()).unwrap();
        let (machine, other): (u16, _) = match Arch::NATIVE {
            Arch::X86_64 => (183, "aarch64"),
            Arch::Aarch64 => (62, "x86_64"),
        };
        elf[18..20].copy_from_slice(&machine.to_le_bytes());
        std::fs::write(&library, &elf).unwrap();
        let refused = named("WALKFUZZ_SAMPLER", library).unwrap_err().to_string();
        let ours = Arch::NATIVE.name();
        let sentence = format!("is built for {other}: a JVM for {ours} takes agents for {ours}");
        assert!(refused.ends_with(&sentence), "{refused}");
        assert!(named("WALKFUZZ_SAMPLER", PathBuf::from("/nowhere.so")).is_err());
    }
}
