//! The command that brings a finding back: the JVM and the session as they were, and the input.

use std::path::Path;

use walkfuzz_context::Arch;
use walkfuzz_jvm::Version;
use walkfuzz_record::machine::cargo_target;

use crate::settings::VARIABLES;

/// Variables that decide which JVM is walked and how.
const DECISIVE: [&str; 10] = [
    "WALKFUZZ_GC",
    "WALKFUZZ_HEAP",
    "WALKFUZZ_JAVA_OPTIONS",
    "WALKFUZZ_WALKER",
    "WALKFUZZ_ORACLE",
    "WALKFUZZ_ENGINE",
    "WALKFUZZ_SEED",
    "WALKFUZZ_THREADS",
    "WALKFUZZ_WARM_UP_MS",
    "WALKFUZZ_HANG_MS",
];

/// The command that runs one artifact again on a JDK of `version`; `variable` looks a variable of this process up.
pub(crate) fn command(
    version: &str,
    artifact: &Path,
    variable: impl Fn(&str) -> Option<String>,
) -> String {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty());
    // A folder is kept: what has the same version elsewhere need not be the same build.
    let jdk = match set("WALKFUZZ_JDK").filter(|jdk| jdk.contains('/')) {
        Some(folder) => {
            std::path::absolute(&folder).map_or(folder, |folder| folder.display().to_string())
        }
        None => Version::release(version).to_owned(),
    };
    let mut words = vec![format!("WALKFUZZ_JDK={}", quoted(&jdk))];
    for name in DECISIVE {
        let default = VARIABLES.iter().find(|(known, ..)| *known == name);
        if let Some(value) = set(name)
            && default.is_none_or(|(_, default, _)| *default != value)
        {
            words.push(format!("{name}={}", quoted(&value)));
        }
    }
    let target = cargo_target();
    if !target.is_empty() {
        // It says which emulator, linker and libraries.
        words.push(format!("scripts/on-{}", Arch::NATIVE.name()));
    }
    words.push("cargo fuzz run -s none".to_owned());
    words.extend(target);
    words.push("walk_ucontext".to_owned());
    words.push(quoted(&artifact.display().to_string()));
    words.join(" ")
}

/// One word for a shell.
#[must_use]
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(variables: &[(&str, &str)]) -> String {
        command("17.0.15+6-Debian", Path::new("/runs/a b/1"), |name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    /// The fuzzer with an input, as this machine calls it.
    fn run(input: &str) -> String {
        match walkfuzz_record::machine::emulator() {
            None => format!("cargo fuzz run -s none walk_ucontext {input}"),
            Some(_) => {
                let arch = Arch::NATIVE.name();
                format!(
                    "scripts/on-{arch} cargo fuzz run -s none --target {arch}-unknown-linux-gnu \
                     walk_ucontext {input}"
                )
            }
        }
    }

    #[test]
    fn the_command_holds_what_differs_from_the_defaults() {
        assert_eq!(
            with(&[("WALKFUZZ_ENGINE", "live"), ("WALKFUZZ_GC", "")]),
            format!("WALKFUZZ_JDK=17.0.15 {}", run("'/runs/a b/1'"))
        );
        assert_eq!(
            with(&[
                ("WALKFUZZ_JDK", "17"),
                ("WALKFUZZ_GC", "z"),
                ("WALKFUZZ_HEAP", "64m"),
                ("WALKFUZZ_JAVA_OPTIONS", "-XX:+UseX -Da=b"),
                ("WALKFUZZ_ENGINE", "step"),
                ("WALKFUZZ_SEED", "7"),
            ]),
            format!(
                "WALKFUZZ_JDK=17.0.15 WALKFUZZ_GC=z WALKFUZZ_HEAP=64m \
                 WALKFUZZ_JAVA_OPTIONS='-XX:+UseX -Da=b' WALKFUZZ_ENGINE=step WALKFUZZ_SEED=7 {}",
                run("'/runs/a b/1'")
            )
        );
    }

    #[test]
    fn a_folder_stays_the_folder() {
        assert!(
            with(&[("WALKFUZZ_JDK", "/opt/my jdk")]).starts_with("WALKFUZZ_JDK='/opt/my jdk' ")
        );
    }

    #[test]
    fn a_shell_reads_the_words_back() {
        for word in [
            "plain",
            "",
            "a b",
            "it's",
            "$HOME `x` \"y\"",
            "*?[]~#&;|<>\\",
        ] {
            let output = std::process::Command::new("sh")
                .arg("-c")
                .arg(format!("printf %s {}", quoted(word)))
                .output()
                .unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stdout), word);
        }
    }
}
