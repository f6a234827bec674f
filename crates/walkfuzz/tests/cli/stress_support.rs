//! A small stress run: a profile of the test's own, the sampler of this build, the programs' jar.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Program, Stdio};
use std::time::{Duration, Instant};

use assert_cmd::Command;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;
use walkfuzz_jvm::Jdk;

use crate::support::{folder, jdk, json, walkfuzz};

/// A second of sampling in a small heap; what matters is what becomes of the run.
pub(crate) const TINY: &str = r#"
summary = "a test's"
[limits]
sampled = "1s"
time-out = "60s"
hang = "30s"
heap = "64m"
[minimum]
walks = 10
frames = 0.001
[matrix]
collector = ["serial"]
workload = ["queens"]
interval = ["1ms"]
"#;

/// A place for a test's runs.
pub(crate) struct Place {
    pub(crate) home: TempDir,
    pub(crate) jdk: Jdk,
}

impl Place {
    /// With [`TINY`] as `tiny.toml`, which can be inherited from; `None`, with a word, where there is no JDK.
    pub(crate) fn new() -> Option<Self> {
        let jdk = jdk()?;
        let home = folder();
        fs::write(home.path().join("tiny.toml"), TINY).unwrap();
        fs::copy(programs(), home.path().join("app.jar")).unwrap();
        Some(Self { home, jdk })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Another profile; its path.
    pub(crate) fn profile(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    /// `walkfuzz` in this folder, with this build's sampler.
    pub(crate) fn walkfuzz(&self) -> Command {
        let mut command = walkfuzz();
        command
            .current_dir(self.home.path())
            .env("WALKFUZZ_SAMPLER", sampler())
            .env("WALKFUZZ_JDK", &self.jdk.home)
            .env("JAVA_HOME", &self.jdk.home)
            .env_remove("JAVA_TOOL_OPTIONS");
        command
    }

    /// `walkfuzz stress` with the profile `tiny.toml`, or with what `words` say.
    pub(crate) fn stress(&self, words: &[&str]) -> Command {
        let mut command = self.walkfuzz();
        command.arg("stress");
        for default in [["--runs", "runs"], ["--profile", "tiny.toml"]] {
            if !words.contains(&default[0]) && !words.contains(&"--resume") {
                command.args(default);
            }
        }
        command.args(words);
        command
    }

    /// The JVM's command, as a shell takes it, that runs a program of the jar that lies here.
    pub(crate) fn java(&self, words: &str) -> String {
        let java = self.jdk.home.join("bin/java");
        format!(
            "'{}' -Xmx64m -cp app.jar walkfuzz.programs.Main {words}",
            java.display()
        )
    }

    /// The report of a shell's command under the sampler, and the program's exit code.
    pub(crate) fn command(&self, options: &[&str], script: &str) -> (i32, Value) {
        let mut words = vec!["--json"];
        words.extend(options);
        words.extend(["--", "sh", "-c", script]);
        let output = self.stress(&words).output().unwrap();
        assert!(
            !output.stdout.is_empty(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        (output.status.code().unwrap(), json(&output.stdout))
    }

    /// The only run folder under `runs`.
    pub(crate) fn run(&self, runs: &str) -> PathBuf {
        let mut entries = fs::read_dir(self.path(runs)).unwrap().flatten();
        let path = entries.next().unwrap().path();
        assert!(entries.next().is_none(), "one run in {runs}");
        path
    }
}

pub(crate) fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../stress/workloads/programs/programs.jar")
}

/// The library that this build made: cargo puts it beside the test.
fn sampler() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let library = here.with_file_name("libwalkfuzz_sampler.so");
    assert!(library.is_file(), "{} was not built", library.display());
    library
}

/// Whether a process lives. Its entry stays until somebody has waited for it.
pub(crate) fn lives(pid: &str) -> bool {
    fs::read_to_string(format!("/proc/{}/stat", pid.trim()))
        .is_ok_and(|stat| !stat.contains(") Z ") && !stat.contains(") X "))
}

/// Far more than anything here takes; machines may be busy.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A run in the background; its program writes its JVM's pid to the file `pid`.
pub(crate) struct Background {
    pub(crate) run: Child,
    pub(crate) program: String,
}

impl Background {
    pub(crate) fn start(place: &Place, script: &str) -> Self {
        let stress = place.stress(&["--", "sh", "-c", script]);
        let mut command = Program::new(stress.get_program());
        command
            .args(stress.get_args())
            .current_dir(place.home.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        for (name, value) in stress.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let run = command.spawn().unwrap();
        let file = place.path("pid");
        let read = |file: &Path| fs::read_to_string(file).unwrap_or_default();
        until("the program runs", || read(&file).ends_with('\n'));
        let program = read(&file).trim().to_owned();
        fs::remove_file(&file).unwrap();
        assert!(lives(&program));
        Self { run, program }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.run.id().cast_signed()), signal).unwrap();
    }
}
