//! Busy programs under the agent, with a profiler that was made for the test.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use walkfuzz_jvm::Jdk;
use walkfuzz_record::{Record, RecordReader};
use walkfuzz_symbols::Modules;

use crate::jvms::{busy, text};

/// The library that this build made: cargo puts it beside the test.
pub(crate) fn agent() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let library = here.with_file_name("libwalkfuzz_interposer.so");
    assert!(library.is_file(), "{} was not built", library.display());
    library
}

/// tests/c/planted.c as a library, compiled with this word; `None`, with a word, where nothing compiles.
pub(crate) fn profiler(kind: &str) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/planted.c");
    let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("libplanted_{kind}.so"));
    let made = Command::new("cc")
        .args([
            "-shared",
            "-fPIC",
            "-O1",
            "-fno-omit-frame-pointer",
            "-pthread",
            "-o",
        ])
        .arg(&library)
        .arg(format!("-D{kind}"))
        .arg(source)
        .output();
    let Ok(made) = made else {
        println!("skip: there is no cc");
        return None;
    };
    assert!(made.status.success(), "{}", text(&made));
    Some(library)
}

/// One run of Busy under the agent.
pub(crate) struct Run {
    folder: tempfile::TempDir,
    command: Command,
}

impl Run {
    /// With these options beside `record`; `None`, with a word, where nothing compiles.
    pub(crate) fn new(jdk: &Jdk, options: &str, words: &str) -> Option<Run> {
        let classes = busy()?;
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().display();
        let mut command = Command::new("timeout");
        command
            .args(["-k", "5", "600"])
            .arg(jdk.home.join("bin/java"))
            .args(["-Xmx128m", "-XX:-UsePerfData"])
            .arg(format!("-XX:ErrorFile={at}/hs_err.log"))
            .arg(format!(
                "-agentpath:{}=record={at}/record.map,{options}",
                agent().display()
            ))
            .arg("-cp")
            .arg(classes)
            .arg("Busy")
            .args(words.split(' '))
            .env_remove("JAVA_TOOL_OPTIONS")
            .stdin(Stdio::null());
        Some(Run { folder, command })
    }

    /// Gives the JVM these flags as well.
    pub(crate) fn with_flags(&mut self, flags: &str) -> &mut Self {
        self.command.env("JDK_JAVA_OPTIONS", flags);
        self
    }

    pub(crate) fn output(&mut self) -> Output {
        self.command.output().unwrap()
    }

    /// Lets it run to its end, which must be a good one, and reads the record.
    pub(crate) fn record(&mut self) -> Record {
        let output = self.output();
        let log = std::fs::read_to_string(self.folder.path().join("hs_err.log"));
        let log = log.unwrap_or_default();
        assert!(
            output.status.success(),
            "{}: {}\n{log}",
            output.status,
            text(&output)
        );
        let record = RecordReader::open(&self.folder.path().join("record.map")).unwrap();
        assert_eq!(record.damage, []);
        assert!(record.ended.is_some(), "the record was not closed");
        record
    }
}

/// Whether the library's function `name` is where all faults of the record are: their place in the page is that of the function.
pub(crate) fn faults_lie_in(record: &Record, library: &Path, name: &str) -> bool {
    let path = library.display();
    // As if it were mapped at its own addresses: places within a page are the same wherever it lies.
    let maps = format!("00000000-00100000 r-xp 00000000 00:00 1 {path}\n");
    let modules = Modules::parse(&maps);
    let table = modules.by_name(library.file_name().unwrap().to_str().unwrap());
    let symbol = table
        .and_then(|module| module.table()?.address_of(name))
        .unwrap();
    let faults = record.lanes.iter().flat_map(|lane| &lane.faults);
    let mut any = false;
    for fault in faults {
        any = true;
        if (fault.pc.0 & 0xfff).wrapping_sub(symbol & 0xfff) > 64 {
            return false;
        }
    }
    any
}
