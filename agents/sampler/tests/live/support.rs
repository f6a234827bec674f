//! Java programs under the agent, as a user would run them.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use walkfuzz_jvm::{Jdk, Places};
use walkfuzz_record::{Record, RecordReader};

pub(crate) use crate::jvms::{busy, counter, releases, tally, text};

/// The JDK that walkfuzz would choose.
pub(crate) fn jdk() -> Option<Jdk> {
    let chosen = Places::from_env().choose(None);
    if let Err(error) = &chosen {
        println!("skip: {error}");
    }
    chosen.ok()
}

/// The library that this build made: cargo puts it beside the test.
fn agent() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let library = here.with_file_name("libwalkfuzz_sampler.so");
    assert!(library.is_file(), "{} was not built", library.display());
    library
}

/// One run of Busy.
pub(crate) struct Run {
    folder: tempfile::TempDir,
    command: Command,
}

impl Run {
    /// Busy with these words, under the agent with these options beside `record`; without an agent if they are empty.
    pub(crate) fn new(jdk: &Jdk, options: &str, words: &str) -> Option<Run> {
        let classes = busy()?;
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("timeout");
        command
            // Busy counts CPU time; on a machine that has other work that may take long.
            .args(["-k", "5", "900"])
            .arg(jdk.home.join("bin/java"))
            .args(["-Xmx128m", "-XX:-UsePerfData"])
            .arg(format!(
                "-XX:ErrorFile={}/hs_err.log",
                folder.path().display()
            ));
        if !options.is_empty() {
            let record = folder.path().join("record.map");
            command.arg(format!(
                "-agentpath:{}=record={},{options}",
                agent().display(),
                record.display()
            ));
        }
        command
            .arg("-cp")
            .arg(classes)
            .arg("Busy")
            .args(words.split(' '))
            .env_remove("JAVA_TOOL_OPTIONS")
            .stdin(Stdio::null());
        Some(Run { folder, command })
    }

    /// Lets it run to its end.
    pub(crate) fn output(&mut self) -> Output {
        self.command.output().unwrap()
    }

    /// Starts it, and comes back when its threads run.
    pub(crate) fn start(&mut self) -> (Child, i32) {
        use std::io::{BufRead as _, BufReader};
        self.command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.command.spawn().unwrap();
        let mut line = String::new();
        let stdout = child.stdout.as_mut().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        let children = format!("/proc/{0}/task/{0}/children", child.id());
        let java = std::fs::read_to_string(children).unwrap();
        (child, java.trim().parse().unwrap())
    }

    /// Lets it run to its end, which must be a good one, and reads the record.
    pub(crate) fn record(&mut self) -> Record {
        let output = self.output();
        assert!(
            output.status.success(),
            "{}: {}",
            output.status,
            text(&output)
        );
        assert!(text(&output).contains("done "), "{}", text(&output));
        let record = self.read();
        assert!(record.ended.is_some(), "the record was not closed");
        record
    }

    /// Reads the record as it is.
    pub(crate) fn read(&self) -> Record {
        let record = RecordReader::open(&self.record_path()).unwrap();
        assert_eq!(record.damage, []);
        record
    }

    pub(crate) fn record_path(&self) -> PathBuf {
        self.folder.path().join("record.map")
    }

    #[cfg_attr(
        not(target_arch = "x86_64"),
        expect(dead_code, reason = "only capsules are looked for")
    )]
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn summary(&self) -> serde_json::Value {
        let path = self.folder.path().join("record.map.json");
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
    }

    pub(crate) fn crash_log(&self) -> Option<String> {
        std::fs::read_to_string(self.folder.path().join("hs_err.log")).ok()
    }
}

/// Loads the agent into a running JVM with `jcmd`.
pub(crate) fn load_into(jdk: &Jdk, pid: i32, options: &str) -> Output {
    Command::new(jdk.home.join("bin/jcmd"))
        .args([&pid.to_string(), "JVMTI.agent_load"])
        .arg(agent())
        .arg(format!("\"{options}\""))
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Waits until something is so, for a busy machine's sake a long time.
pub(crate) fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..3000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("waited in vain for {what}");
}
