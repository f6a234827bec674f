//! Clients in C and a program for them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use walkfuzz_jvm::Jdk;

use crate::jdks::{compile, jdks, text};

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The library that this build made: cargo puts it beside the test.
pub(crate) fn agent() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let library = test.with_file_name("libwalkfuzz_asgst_agent.so");
    assert!(library.is_file(), "{} was not built", library.display());
    library
}

/// These C files as an agent that uses the library; `None`, with a word, where they or their [`deep`] program do not compile.
pub(crate) fn client(name: &str, sources: &[&str]) -> Option<PathBuf> {
    deep()?;
    let Some(jdk) = jdks()
        .into_iter()
        .find(|jdk| jdk.home.join("include/jvmti.h").is_file())
    else {
        println!("skip: no JDK here has C headers");
        return None;
    };
    let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("lib{name}.so"));
    let made = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O1"])
        .args(["-shared", "-fPIC", "-fno-omit-frame-pointer", "-pthread"])
        .arg(format!("-I{}", jdk.home.join("include").display()))
        .arg(format!("-I{}", jdk.home.join("include/linux").display()))
        .arg(format!(
            "-I{}",
            here().join("../../crates/asgst/include").display()
        ))
        .arg("-o")
        .arg(&library)
        .args(sources.iter().map(|source| here().join(source)))
        .arg(agent())
        .output();
    let Ok(made) = made else {
        println!("skip: there is no cc");
        return None;
    };
    assert!(made.status.success(), "{}", text(&made));
    Some(library)
}

/// The folder of Deep.class, compiled once; `None`, with a word, where nothing compiles. Apart.class stands in its folder `apart`.
pub(crate) fn deep() -> Option<&'static Path> {
    static CLASSES: OnceLock<Option<PathBuf>> = OnceLock::new();
    CLASSES
        .get_or_init(|| {
            let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("deep");
            for (name, to) in [("Deep", folder.clone()), ("Apart", folder.join("apart"))] {
                compile(&here().join(format!("tests/java/{name}.java")), &to)?;
            }
            Some(folder)
        })
        .as_deref()
        .or_else(|| {
            println!("skip: no JDK here has a javac");
            None
        })
}

/// Runs Deep for so long under the library and a client with these options, to its good end.
pub(crate) fn run(
    jdk: &Jdk,
    flags: &[&str],
    client: &Path,
    options: &str,
    words: &[&str],
) -> Output {
    let output = Command::new("timeout")
        .args(["-k", "5", "600"])
        .arg(jdk.home.join("bin/java"))
        .args(["-Xmx128m", "-XX:-UsePerfData"])
        .args(flags)
        .arg(format!("-agentpath:{}", agent().display()))
        .arg(format!("-agentpath:{}={options}", client.display()))
        .arg("-cp")
        .arg(deep().unwrap())
        .arg("Deep")
        .args(words)
        .env_remove("JAVA_TOOL_OPTIONS")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(
        output.status.success() && text(&output).contains("done"),
        "JDK {}: {}: {}",
        jdk.version,
        output.status,
        text(&output)
    );
    output
}

/// Lines of "name value".
pub(crate) struct Figures(HashMap<String, u64>);

impl Figures {
    pub(crate) fn read(path: &Path) -> Self {
        let lines = std::fs::read_to_string(path).unwrap();
        let figures = lines.lines().map(|line| {
            let (name, value) = line.split_once(' ').unwrap();
            (name.to_owned(), value.parse().unwrap())
        });
        Self(figures.collect())
    }

    pub(crate) fn of(&self, name: &str) -> u64 {
        *self.0.get(name).unwrap_or_else(|| panic!("no {name}"))
    }
}
