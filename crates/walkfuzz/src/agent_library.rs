//! Where our agents are: the libraries that JVMs load.

use std::path::{Path, PathBuf};
use std::process::Command;

use walkfuzz_context::Arch;
use walkfuzz_record::machine;

use crate::failure::Failure;

/// One of them.
pub(crate) struct Agent {
    name: &'static str,
    package: &'static str,
    file: &'static str,
    /// Names the library.
    variable: &'static str,
}

/// docs/sampler.md.
pub(crate) const SAMPLER: Agent = Agent {
    name: "sampler",
    package: "walkfuzz-sampler",
    file: "libwalkfuzz_sampler.so",
    variable: "WALKFUZZ_SAMPLER",
};

/// docs/interposer.md.
pub(crate) const INTERPOSER: Agent = Agent {
    name: "interposer",
    package: "walkfuzz-interposer",
    file: "libwalkfuzz_interposer.so",
    variable: "WALKFUZZ_INTERPOSER",
};

/// What its variable names; in a checkout, what cargo builds; the library beside this program.
pub(crate) fn find(agent: &Agent) -> Result<PathBuf, Failure> {
    let Agent {
        file,
        variable,
        package,
        ..
    } = agent;
    if let Some(path) = std::env::var_os(variable).filter(|path| !path.is_empty()) {
        let path = PathBuf::from(path);
        return named(variable, &path);
    }
    if let Ok(root) = crate::checkout::root() {
        return build(agent, &root);
    }
    let program = std::env::current_exe().unwrap_or_default();
    let beside = program.with_file_name(file);
    if beside.is_file() {
        return Ok(beside);
    }
    Err(Failure::environment(format_args!(
        "{file} is not beside {}; build it in a checkout with: cargo build --release -p {package}",
        program.display()
    )))
}

/// What the user named, if a JVM of this program's architecture could load it.
fn named(variable: &str, path: &Path) -> Result<PathBuf, Failure> {
    let shown = path.display();
    if !path.is_file() {
        return Err(Failure::usage(format_args!(
            "{variable} names {shown}, which is no file"
        )));
    }
    if let Some(foreign) = machine::foreign(path) {
        let wanted = Arch::NATIVE.name();
        return Err(Failure::usage(format_args!(
            "{variable} names {shown}, which is built for {foreign}: a JVM for {wanted} takes agents for {wanted}"
        )));
    }
    std::path::absolute(path).map_err(Failure::environment)
}

/// Builds the checkout's, which does nothing if it is up to date.
fn build(agent: &Agent, root: &Path) -> Result<PathBuf, Failure> {
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
        .map_err(|error| Failure::environment(format_args!("cannot start cargo: {error}")))?;
    if !output.status.success() {
        return Err(Failure::environment(format_args!(
            "the {name} does not build; see above"
        )));
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
    files
        .next_back()
        .ok_or_else(|| Failure::environment(format_args!("cargo built no {name}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_for_another_machine_is_refused_with_both_names() {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("libwalkfuzz_sampler.so");
        let mut elf = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        elf.truncate(64);
        std::fs::write(&library, &elf).unwrap();
        named("WALKFUZZ_SAMPLER", &library).unwrap();
        let (machine, other): (u16, _) = match Arch::NATIVE {
            Arch::X86_64 => (183, "aarch64"),
            Arch::Aarch64 => (62, "x86_64"),
        };
        elf[18..20].copy_from_slice(&machine.to_le_bytes());
        std::fs::write(&library, &elf).unwrap();
        let refused = format!("{:?}", named("WALKFUZZ_SAMPLER", &library).unwrap_err());
        let ours = Arch::NATIVE.name();
        let sentence = format!("is built for {other}: a JVM for {ours} takes agents for {ours}");
        assert!(refused.contains(&sentence), "{refused}");
        assert!(named("WALKFUZZ_SAMPLER", Path::new("/nowhere.so")).is_err());
    }
}
