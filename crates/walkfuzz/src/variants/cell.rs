//! One cell: a JDK, a collector and a compiler mode, in a child process that tries the walks and says a line of JSON every now and then,
//! because its JVM may die any time.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use std::os::unix::process::ExitStatusExt as _;
use walkfuzz_harness::{HarnessError, Mode, Session, Trial, Tried, interrupt};
use walkfuzz_jvm::{Collector, Jdk};
use walkfuzz_record::finding::hex_bytes;
use walkfuzz_record::{CellState, KOfN, RunFolder, VariantCell, VariantSite};
use walkfuzz_triage::corpus::bytes_of_hex;
use walkfuzz_triage::{CrashLog, Ended, Exit, Signature};

use walkfuzz_context::witness::OffsetClass;
use walkfuzz_context::{Batch, BlobKind};
use walkfuzz_harness::campaign::end_process;

use crate::child::myself;
use crate::failure::{ENVIRONMENT, Failure, USAGE};
use crate::variants::args::CompilerMode;
use crate::variants::subject::Subject;

/// JVMs that may die before a cell is given up.
const DEATHS: u64 = 4;
/// Time for the start of a JVM, -Xcomp's included.
const START: Duration = Duration::from_secs(90);
/// Share of control walks that must succeed for a cell to have walked at all.
const SANE: f64 = 0.1;

/// Where a finding is tried.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) jdk: Jdk,
    pub(crate) collector: Option<Collector>,
    pub(crate) mode: CompilerMode,
}

/// What a child is asked for, in one argument.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Request {
    batch: String,
    kind: Option<String>,
    offset: Option<String>,
    signature: String,
    instruction: String,
    moments: u64,
    enough: u64,
    seconds: f64,
    patience: f64,
    seed: u64,
}

/// What a child says.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Said {
    again: KOfN,
    others: u64,
    controls: KOfN,
    frozen: Option<KOfN>,
    sites: Vec<VariantSite>,
}

impl From<&Tried> for Said {
    fn from(tried: &Tried) -> Self {
        Self {
            again: tried.again,
            others: tried.others,
            controls: tried.controls,
            frozen: tried.frozen,
            sites: tried
                .sites
                .iter()
                .map(|site| VariantSite {
                    signature: site.signature.clone(),
                    instruction: site.instruction.clone(),
                    moments: site.moments,
                    wanted: site.wanted,
                })
                .collect(),
        }
    }
}

impl Said {
    fn add(&mut self, other: &Said) {
        let sum = |a: KOfN, b: KOfN| KOfN::new(a.k + b.k, a.of + b.of);
        self.again = sum(self.again, other.again);
        self.controls = sum(self.controls, other.controls);
        self.others += other.others;
        self.frozen = self.frozen.or(other.frozen);
        for site in &other.sites {
            let same = |known: &&mut VariantSite| {
                known.signature == site.signature && known.instruction == site.instruction
            };
            match self.sites.iter_mut().find(same) {
                Some(known) => known.moments += site.moments,
                None => self.sites.push(site.clone()),
            }
        }
    }
}

/// How hard a cell tries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// Moments of the class.
    pub(crate) moments: u64,
    /// How often it has to happen for no more to be tried.
    pub(crate) enough: u64,
    /// How long, after the JVM's start.
    pub(crate) time: Duration,
    /// How long to wait for the first moment of the class.
    pub(crate) patience: Duration,
}

/// Tries `subject` in a JVM.
pub(crate) fn run(
    subject: &Subject,
    place: &Place,
    effort: Effort,
) -> Result<VariantCell, Failure> {
    let time = effort.time;
    let began = Instant::now();
    let mut sum = Said::default();
    let mut deaths = 0;
    let mut last_words = None;
    while deaths < DEATHS
        && sum.again.of < effort.moments
        && sum.again.k < effort.enough
        && (deaths == 0 || began.elapsed() < time)
    {
        let folder = tempfile::tempdir().map_err(|error| {
            Failure::environment(format_args!("cannot make a temporary folder: {error}"))
        })?;
        let request = Request {
            batch: hex_bytes(&subject.batch.to_bytes()),
            kind: subject.kind.map(|kind| kind.name().to_owned()),
            offset: subject.offset.map(|offset| offset.name().to_owned()),
            signature: subject.signature.clone(),
            instruction: subject.instruction.clone(),
            moments: effort.moments - sum.again.of,
            enough: effort.enough.saturating_sub(sum.again.k).max(1),
            seconds: time.saturating_sub(began.elapsed()).as_secs_f64().max(1.0),
            patience: effort.patience.as_secs_f64(),
            seed: deaths,
        };
        let child = Watched::start(subject, place, &request, folder.path())?;
        let (said, end) = child.wait(START + time);
        sum.add(&said);
        match end {
            End::Done | End::Interrupted => break,
            End::Failed(words) => {
                last_words = Some(words);
                break;
            }
            End::Died(status) => {
                deaths += 1;
                let (signature, words) = death(folder.path(), status);
                let wanted = signature == subject.signature;
                sum.again = KOfN::new(sum.again.k + u64::from(wanted), sum.again.of + 1);
                sum.add(&Said {
                    sites: vec![VariantSite {
                        signature,
                        instruction: None,
                        moments: 1,
                        wanted,
                    }],
                    ..Said::default()
                });
                last_words = Some(format!("JVM died: {words}"));
            }
        }
    }
    Ok(cell(
        place,
        sum,
        deaths,
        last_words,
        began.elapsed().as_secs_f64(),
    ))
}

/// What a cell's numbers mean.
fn cell(
    place: &Place,
    said: Said,
    deaths: u64,
    last_words: Option<String>,
    seconds: f64,
) -> VariantCell {
    let walked = said.controls.share().unwrap_or(0.0);
    let (state, reason) = if said.again.k > 0 {
        // It happened: whatever else happened does not undo that.
        (CellState::Tried, last_words)
    } else if said.controls.of == 0 && said.others == 0 {
        let words = last_words.unwrap_or_else(|| "nothing was walked".to_owned());
        (CellState::CouldNotRun, Some(words))
    } else if said.controls.of == 0 {
        (CellState::NotMet, last_words)
    } else if walked < SANE {
        let KOfN { k, of } = said.controls;
        let vacuous = format!("vacuous: control walks failed ({k} of {of} succeeded)");
        (CellState::CouldNotRun, Some(vacuous))
    } else {
        (CellState::Tried, last_words)
    };
    VariantCell {
        jdk: place.jdk.version.to_string(),
        build_id: place.jdk.identity.clone(),
        collector: place
            .collector
            .map_or("default", Collector::name)
            .to_owned(),
        mode: place.mode.name().to_owned(),
        state,
        reason,
        again: said.again,
        frozen: said.frozen,
        others: said.others,
        controls: said.controls,
        deaths,
        sites: said.sites,
        seconds,
    }
}

/// The signature of a JVM's death, and how it died in words.
fn death(folder: &Path, status: ExitStatus) -> (String, String) {
    let exit = match (status.code(), status.signal()) {
        (_, Some(signal)) => Exit::Signal(signal),
        (code, None) => Exit::Code(code.unwrap_or(-1)),
    };
    let ended = Ended::ByItself(exit);
    let log = crash_log(folder);
    let signature = log
        .as_ref()
        .and_then(|log| log.signature(Some("agct")))
        .unwrap_or_else(|| Signature::death(&ended.describe(), in_walk(folder), "agct"));
    let words = match &log {
        Some(_) => format!("{}, {}", ended.describe(), signature.title(None)),
        None => ended.describe(),
    };
    (signature.to_string(), words)
}

/// Whether the record in the one run folder below `folder` says that a walk was under way.
fn in_walk(folder: &Path) -> bool {
    let runs = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let records = runs.filter_map(|run| RunFolder::open(&run.path()).ok()?.records().ok());
    records
        .flatten()
        .flatten()
        .any(|record| !record.in_flight().is_empty())
}

/// The JVM's crash log in the one run folder below `folder`.
fn crash_log(folder: &Path) -> Option<CrashLog> {
    let runs = std::fs::read_dir(folder).ok()?.flatten();
    let files = runs.filter_map(|run| std::fs::read_dir(run.path()).ok());
    let mut files = files.flatten().flatten().map(|file| file.path());
    let log = files.find(|path| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with("hs_err_pid"))
    })?;
    CrashLog::read(log).ok()
}

/// How a child ended.
enum End {
    Done,
    Interrupted,
    /// The JVM could not be started, or no thread could be held.
    Failed(String),
    Died(ExitStatus),
}

/// A child and the lines that it says.
struct Watched {
    child: Child,
    lines: Receiver<Said>,
    errors: std::thread::JoinHandle<String>,
}

impl Watched {
    fn start(
        subject: &Subject,
        place: &Place,
        request: &Request,
        folder: &Path,
    ) -> Result<Self, Failure> {
        let mut command: Command = myself()?;
        let text = serde_json::to_string(request).map_err(Failure::environment)?;
        command
            .args(["in-jvm", "trial", &text])
            .env("WALKFUZZ_JDK", &place.jdk.home)
            .env("WALKFUZZ_RUNS", folder)
            .env("WALKFUZZ_ENGINE", subject.engine)
            .env_remove("WALKFUZZ_RUN")
            .env_remove("WALKFUZZ_GC")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(collector) = place.collector {
            command.env("WALKFUZZ_GC", collector.name());
        }
        let mut options = std::env::var("WALKFUZZ_JAVA_OPTIONS").unwrap_or_default();
        if let Some(option) = place.mode.option() {
            let _ = write!(options, " {option}");
        }
        command.env("WALKFUZZ_JAVA_OPTIONS", options.trim());
        interrupt::catch();
        let mut child = command.spawn().map_err(|error| {
            Failure::environment(format_args!("cannot start a child process: {error}"))
        })?;
        let (sender, lines) = mpsc::channel();
        let out = child.stdout.take();
        std::thread::spawn(move || {
            for line in out
                .into_iter()
                .flat_map(|out| BufReader::new(out).lines())
                .map_while(Result::ok)
            {
                if let Ok(said) = serde_json::from_str(&line) {
                    let _ = sender.send(said);
                }
            }
        });
        let err = child.stderr.take();
        let errors = std::thread::spawn(move || {
            let mut text = Vec::new();
            if let Some(mut err) = err {
                let _ = std::io::Read::read_to_end(&mut err, &mut text);
            }
            String::from_utf8_lossy(&text).into_owned()
        });
        Ok(Self {
            child,
            lines,
            errors,
        })
    }

    /// Its last words and how it ended. It is killed after `limit`.
    fn wait(mut self, limit: Duration) -> (Said, End) {
        let began = Instant::now();
        let mut last = Said::default();
        let mut killed = false;
        loop {
            match self.lines.recv_timeout(Duration::from_millis(100)) {
                Ok(said) => last = said,
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if began.elapsed() > limit || interrupt::seen() {
                killed = true;
                let _ = self.child.kill();
                break;
            }
        }
        let status = self.child.wait();
        // What was said between the last look and the end.
        last = self.lines.iter().last().unwrap_or(last);
        let errors = self.errors.join().unwrap_or_default();
        let end = match status {
            _ if interrupt::seen() => End::Interrupted,
            _ if killed => End::Failed(format!(
                "no answer within {} s: the cell was ended",
                limit.as_secs()
            )),
            Ok(status) => match status.code() {
                Some(0) => End::Done,
                Some(code) if code == i32::from(ENVIRONMENT) || code == i32::from(USAGE) => {
                    End::Failed(reason(&errors))
                }
                _ => End::Died(status),
            },
            Err(error) => End::Failed(format!("cannot wait for it: {error}")),
        };
        (last, end)
    }
}

/// Why a child says that it could not walk: a missing collector has a name of its own.
fn reason(errors: &str) -> String {
    let line = errors
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix("error: "));
    // Where the JVM ended the process itself, it has said why: out of memory, say.
    let last = || errors.lines().rev().find(|line| !line.trim().is_empty());
    let text = line.or_else(last).unwrap_or("the JVM did not start").trim();
    let collector = errors.contains("-XX:+Use")
        || (errors.contains("Unrecognized VM option 'Use") && errors.contains("GC'"));
    if collector && (errors.contains("not supported") || errors.contains("Unrecognized VM option"))
    {
        return "no such collector".to_owned();
    }
    let short: String = text.chars().take(160).collect();
    short
}

/// The child's side: never returns with a JVM running.
pub(crate) fn in_jvm(request: &str) -> Result<(), Failure> {
    let bad = |what: &str| Failure::usage(format_args!("cannot understand the trial: {what}"));
    let request: Request =
        serde_json::from_str(request).map_err(|error| bad(&error.to_string()))?;
    let batch = bytes_of_hex(&request.batch).ok_or_else(|| bad("its batch is no hex text"))?;
    let trial = Trial {
        batch: Batch::decode(&batch),
        kind: named(request.kind.as_deref(), &BlobKind::ALL, BlobKind::name).map_err(bad)?,
        offset: named(
            request.offset.as_deref(),
            &OffsetClass::ALL,
            OffsetClass::name,
        )
        .map_err(bad)?,
        signature: request.signature,
        instruction: request.instruction,
        moments: request.moments,
        enough: request.enough,
        time: Duration::from_secs_f64(request.seconds.clamp(0.0, 1e6)),
        patience: Duration::from_secs_f64(request.patience.clamp(0.0, 1e6)),
        seed: request.seed,
    };
    let arguments: Vec<String> = std::env::args().collect();
    let mut session =
        Session::start(Mode::Merge, &arguments, None).unwrap_or_else(|error| fail(&error));
    let mut told = Instant::now();
    let tried = session.try_out(&trial, |tried| {
        if told.elapsed() > Duration::from_millis(300) {
            told = Instant::now();
            let _ = say(tried);
        }
    });
    match tried {
        Ok(tried) => end_process(if say(&tried).is_ok() {
            0
        } else {
            i32::from(ENVIRONMENT)
        }),
        Err(error) => fail(&error),
    }
}

fn fail(error: &HarnessError) -> ! {
    eprintln!("error: {error}");
    end_process(error.exit_code())
}

fn say(tried: &Tried) -> Result<(), Failure> {
    let line = serde_json::to_string(&Said::from(tried)).map_err(Failure::environment)?;
    crate::print(format!("{line}\n").as_bytes())
}

/// The value of that name, if there is a name.
pub(crate) fn named<T: Copy>(
    name: Option<&str>,
    all: &[T],
    name_of: impl Fn(T) -> &'static str,
) -> Result<Option<T>, &'static str> {
    let Some(name) = name else {
        return Ok(None);
    };
    let found = all.iter().copied().find(|value| name_of(*value) == name);
    found.map(Some).ok_or("its class has an unknown name")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_collector_has_a_name() {
        let said =
            "x\nerror: the JVM refused to start: Option -XX:+UseShenandoahGC not supported\n";
        assert_eq!(reason(said), "no such collector");
        assert_eq!(
            reason("error: it said: Unrecognized VM option 'UseZGC'\n"),
            "no such collector"
        );
        assert_eq!(reason("error: no thread came\n"), "no thread came");
        let oom = "Terminating due to java.lang.OutOfMemoryError: Java heap space\n\n";
        assert!(reason(oom).starts_with("Terminating due to"));
        assert_eq!(reason(""), "the JVM did not start");
    }

    fn place() -> Place {
        Place {
            jdk: Jdk {
                home: "/jdk".into(),
                libjvm: "/jdk/lib/server/libjvm.so".into(),
                version: walkfuzz_jvm::Version::parse("17.0.9").unwrap(),
                implementor: None,
                source: walkfuzz_jvm::Source::Named,
                arch: walkfuzz_context::Arch::NATIVE,
                build_id: None,
                identity: "00".to_owned(),
                symtab: true,
            },
            collector: None,
            mode: CompilerMode::Default,
        }
    }

    #[test]
    fn nothing_seen_is_told_from_nothing_walked() {
        let state =
            |again: (u64, u64), controls: (u64, u64), others, deaths, words: Option<&str>| {
                let said = Said {
                    again: KOfN::new(again.0, again.1),
                    controls: KOfN::new(controls.0, controls.1),
                    others,
                    ..Said::default()
                };
                let cell = cell(&place(), said, deaths, words.map(str::to_owned), 1.0);
                (cell.state, cell.reason.unwrap_or_default())
            };
        let tried = |reason: &str| (CellState::Tried, reason.to_owned());
        assert_eq!(state((3, 9), (9, 9), 0, 0, None), tried(""));
        assert_eq!(state((0, 9), (9, 9), 5, 0, None), tried(""));
        assert_eq!(state((0, 0), (0, 0), 5, 0, None).0, CellState::NotMet);
        let none = state((0, 0), (0, 0), 0, 0, Some("no such collector"));
        assert_eq!(
            none,
            (CellState::CouldNotRun, "no such collector".to_owned())
        );
        // Dead before anything was walked, and dead after all was.
        let dead = state((0, 4), (0, 0), 0, 4, Some("JVM died: x"));
        assert_eq!(dead, (CellState::CouldNotRun, "JVM died: x".to_owned()));
        assert_eq!(
            state((0, 9), (8, 8), 0, 1, Some("JVM died: x")),
            tried("JVM died: x")
        );
        // The death itself may be what was looked for.
        assert_eq!(state((1, 1), (0, 0), 0, 1, None), tried(""));
        let (vacuous, why) = state((0, 100), (3, 100), 0, 0, None);
        assert_eq!(vacuous, CellState::CouldNotRun);
        assert_eq!(why, "vacuous: control walks failed (3 of 100 succeeded)");
    }

    #[test]
    fn classes_are_looked_up_by_name() {
        let kind = |name| named(name, &BlobKind::ALL, BlobKind::name);
        assert_eq!(kind(Some("nmethod")), Ok(Some(BlobKind::Nmethod)));
        assert_eq!(kind(None), Ok(None));
        assert!(kind(Some("../x")).is_err());
    }
}
