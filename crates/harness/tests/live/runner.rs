//! Runs cases in processes of their own, two at a time, and says what came of them.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use walkfuzz_harness::campaign::end_process;
use walkfuzz_jvm::Jdk;

use crate::jdks;

/// Tells a child which case it is.
const CASE: &str = "WALKFUZZ_HARNESS_TEST_CASE";
/// A case that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(90);
/// What a failed assertion ends with.
const FAILED: i32 = 101;

/// Which JDKs a case runs on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    All,
    Since(u32),
    /// What does not depend on the JVM.
    Newest,
    Never,
}

/// One test.
pub(crate) struct Case {
    name: &'static str,
    run: fn(),
    pub(crate) which: Which,
    collectors: &'static [Option<&'static str>],
    variable: Option<(&'static str, &'static str)>,
    status: i32,
}

impl Case {
    pub(crate) const fn new(name: &'static str, run: fn()) -> Self {
        Self {
            name,
            run,
            which: Which::All,
            collectors: &[None],
            variable: None,
            status: 0,
        }
    }

    pub(crate) const fn collectors(mut self, these: &'static [Option<&'static str>]) -> Self {
        self.collectors = these;
        self
    }

    pub(crate) const fn with(mut self, name: &'static str, value: &'static str) -> Self {
        self.variable = Some((name, value));
        self
    }

    /// The exit status that the case must end with.
    pub(crate) const fn ends_with(mut self, status: i32) -> Self {
        self.status = status;
        self
    }
}

/// The case that this process shall run, if it is a child.
pub(crate) fn chosen(cases: &'static [Case]) -> Option<&'static Case> {
    let name = std::env::var(CASE).ok()?;
    Some(
        cases
            .iter()
            .find(|case| case.name == name)
            .expect("a case of that name"),
    )
}

/// Runs a case and ends the process.
pub(crate) fn child(case: &Case) -> ! {
    // A failed assertion must not unwind through a held thread's handler, and a JVM cannot be left by `exit`.
    std::panic::set_hook(Box::new(|panic| {
        let _ = writeln!(std::io::stderr(), "FAILED: {panic}");
        end_process(FAILED);
    }));
    (case.run)();
    end_process(0)
}

/// This program again, as another case; for cases that consist of several processes.
pub(crate) fn again(name: &str) -> Command {
    let case = crate::CASES.iter().find(|case| case.name == name);
    command(case.expect("a case of that name"))
}

fn command(case: &Case) -> Command {
    let mut command = walkfuzz_record::machine::command(std::env::current_exe().unwrap());
    command.env(CASE, case.name).stdin(Stdio::null());
    command.envs(case.variable);
    command
}

struct Job {
    case: &'static Case,
    jdk: Jdk,
    collector: Option<&'static str>,
}

impl Job {
    fn name(&self) -> String {
        let collector = self
            .collector
            .map_or(String::new(), |name| format!(", {name}"));
        format!("{} (JDK {}{collector})", self.case.name, self.jdk.version)
    }
}

/// Runs all cases that the command line asks for.
pub(crate) fn parent(cases: &'static [Case]) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--list") {
        println!("live: test");
        return ExitCode::SUCCESS;
    }
    let words: Vec<&String> = arguments
        .iter()
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let jdks = jdks::find();
    let Some(newest) = jdks.keys().next_back().copied() else {
        println!("skip: no JDK in WALKFUZZ_TEST_JDKS, JAVA_HOME, PATH, /usr/lib/jvm or the cache");
        return ExitCode::SUCCESS;
    };
    let mut jobs = VecDeque::new();
    for case in cases {
        if !words.is_empty() && !words.iter().any(|word| case.name.contains(word.as_str())) {
            continue;
        }
        for (&feature, jdk) in &jdks {
            let wanted = match case.which {
                Which::All => true,
                Which::Since(first) => feature >= first,
                Which::Newest => feature == newest,
                Which::Never => false,
            };
            for &collector in case.collectors.iter().filter(|_| wanted) {
                if collector.is_some() && feature != newest {
                    continue;
                }
                let jdk = jdk.clone();
                jobs.push_back(Job {
                    case,
                    jdk,
                    collector,
                });
            }
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let began = Instant::now();
    let (count, jobs, failures) = (jobs.len(), Mutex::new(jobs), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some(job) = jobs.lock().unwrap().pop_front() else {
                        break;
                    };
                    if !run(&job, folder.path()) {
                        failures.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let failures = failures.into_inner();
    println!(
        "{count} cases on {} JDKs, {failures} failed, {:.0} s",
        jdks.len(),
        began.elapsed().as_secs_f64()
    );
    if failures == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn run(job: &Job, folder: &Path) -> bool {
    let name = job.name();
    let folder = folder.join(&name);
    fs::create_dir_all(&folder).unwrap();
    let log = folder.join("log");
    let began = Instant::now();
    let status = execute(job, &folder, &log);
    let text = String::from_utf8_lossy(&fs::read(&log).unwrap_or_default()).into_owned();
    let good = status.is_some_and(|status| status.code() == Some(job.case.status));
    let mut said = String::new();
    if good {
        for line in text.lines().filter(|line| line.starts_with("note:")) {
            said += &format!("    {line}\n");
        }
        print!(
            "ok      {name}, {:.1} s\n{said}",
            began.elapsed().as_secs_f64()
        );
    } else {
        let ended = status.map_or("ended after too long".to_owned(), |status| {
            status.to_string()
        });
        print!("FAILED  {name}: {ended}\n{text}");
    }
    good
}

/// `None`: it had to be ended.
fn execute(job: &Job, folder: &Path, log: &Path) -> Option<ExitStatus> {
    let output = File::create(log).unwrap();
    let mut command = command(job.case);
    command
        .current_dir(folder)
        .env("WALKFUZZ_JDK", &job.jdk.home)
        .env("WALKFUZZ_RUNS", folder.join("runs"))
        .env("WALKFUZZ_WARM_UP_MS", "200")
        .env_remove("WALKFUZZ_RUN")
        .stdout(output.try_clone().unwrap())
        .stderr(output);
    if let Some(collector) = job.collector {
        command.env("WALKFUZZ_GC", collector);
    }
    let mut child = command.spawn().unwrap();
    let began = Instant::now();
    while began.elapsed() < LIMIT {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    let _ = child.wait();
    None
}

/// Whether `status` is an end by SIGABRT.
pub(crate) fn aborted(status: ExitStatus) -> bool {
    status.signal() == Some(libc::SIGABRT)
}
