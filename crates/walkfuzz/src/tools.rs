//! Programs that must be on PATH, their versions, and the commands that bring them.

use std::process::Command;

use crate::failure::Failure;

/// The cargo-fuzz that everything was tried with.
pub(crate) const CARGO_FUZZ: &str = "0.13.1";
/// The cargo-afl that everything was tried with.
pub(crate) const CARGO_AFL: &str = "0.18.2";
/// The oldest rustc.
pub(crate) const RUSTC: (u32, u32) = (1, 91);

/// The command that brings cargo-fuzz.
pub(crate) fn bring_cargo_fuzz() -> String {
    format!("cargo install cargo-fuzz --version {CARGO_FUZZ} --locked")
}

/// The first line that a program says, if it can be run and succeeds.
pub(crate) fn says(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Some(text.lines().next().unwrap_or_default().trim().to_owned())
}

/// The version of cargo-fuzz, if it is there.
pub(crate) fn cargo_fuzz() -> Option<String> {
    says("cargo", &["fuzz", "--version"])
}

/// Fails early where a build would fail late.
pub(crate) fn need_cargo_fuzz() -> Result<(), Failure> {
    if says("cargo", &["--version"]).is_none() {
        return Err(Failure::environment(
            "cargo is missing; bring it with: rustup default stable",
        ));
    }
    match cargo_fuzz() {
        Some(_) => Ok(()),
        None => Err(Failure::environment(format_args!(
            "cargo-fuzz is missing; bring it with: {}",
            bring_cargo_fuzz()
        ))),
    }
}

/// Major and minor version in a text such as `rustc 1.95.0 (...)`.
pub(crate) fn version_in(text: &str) -> Option<(u32, u32)> {
    let version = text
        .split_whitespace()
        .find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
    let mut parts = version.split('.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??))
}

#[cfg(test)]
mod tests {
    #[test]
    fn versions_are_read() {
        assert_eq!(
            super::version_in("rustc 1.95.0 (abc 2026-01-01)"),
            Some((1, 95))
        );
        assert_eq!(super::version_in("cargo-fuzz 0.13.1"), Some((0, 13)));
        assert_eq!(super::version_in("nothing"), None);
    }
}
