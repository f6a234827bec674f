//! One JVM whose queue is edited, from its start to its end.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use walkfuzz_context::Perturbation;
use walkfuzz_stress::process::{self, Finished};
use walkfuzz_stress::{mark, run};
use walkfuzz_triage::{CrashLog, Ended, Exit, Signature};

use super::feed::Feed;
use super::stage::Stage;
use crate::error::QueueError;

/// How long the JVM may take for the next sample: to start, too.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often it is looked whether edits were taken.
const LOOK: Duration = Duration::from_micros(500);
/// What walks the queue, as signatures name it.
const WALKER: &str = "jfr-cpu-time queue";

/// See the module.
#[derive(Debug)]
pub(super) struct Round {
    folder: PathBuf,
    feed: Feed,
    stop: Arc<AtomicBool>,
    jvm: Option<JoinHandle<std::io::Result<Finished>>>,
}

/// What became of edits.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Given {
    /// They are in elements.
    Taken,
    /// The JVM is no more.
    Over,
}

/// How a JVM ended.
#[derive(Debug)]
pub(super) struct End {
    /// What it died of; `None` if it ended well.
    pub(super) signature: Option<Signature>,
    /// The edits that it took.
    pub(super) taken: u64,
    pub(super) folder: PathBuf,
}

impl Round {
    pub(super) fn start(stage: &Stage, folder: PathBuf) -> Result<Self, QueueError> {
        std::fs::create_dir_all(&folder).map_err(|source| QueueError::File {
            path: folder.clone(),
            source,
        })?;
        let feed = Feed::new(&folder)?;
        let command = stage.command(&folder, feed.path())?;
        let mark = mark::mark(&folder.display().to_string(), std::process::id());
        let (limits, output) = (stage.profile.limits.clone(), folder.join("output.txt"));
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        let jvm = thread::spawn(move || {
            process::run(command, &mark, &limits, true, &output, || {
                asked.load(Relaxed)
            })
        });
        Ok(Self {
            folder,
            feed,
            stop,
            jvm: Some(jvm),
        })
    }

    /// Gives edits to the JVM, and waits until it has taken them.
    pub(super) fn give(&mut self, edits: &[Perturbation]) -> Result<Given, QueueError> {
        let all = self.feed.give(edits)?;
        let (mut seen, mut since) = (self.feed.taken()?, Instant::now());
        loop {
            let taken = self.feed.taken()?;
            if taken >= all {
                return Ok(Given::Taken);
            }
            if self.jvm.as_ref().is_none_or(JoinHandle::is_finished) || since.elapsed() > PATIENCE {
                return Ok(Given::Over);
            }
            if taken > seen {
                (seen, since) = (taken, Instant::now());
            }
            thread::sleep(LOOK);
        }
    }

    /// Waits for the JVM's end if it is dying, or ends it.
    pub(super) fn end(mut self) -> Result<End, QueueError> {
        let folder = std::mem::take(&mut self.folder);
        let taken = self.feed.taken()?;
        let still = self.jvm.as_ref().is_some_and(|jvm| !jvm.is_finished());
        // Who writes a crash log is let write it; the limits of `process::run` end it.
        if still && log_in(&folder).is_none() {
            self.stop.store(true, Relaxed);
        }
        let jvm = self.jvm.take().map(JoinHandle::join);
        let Some(Ok(finished)) = jvm else {
            return Err(QueueError::Start("its thread panicked".to_owned()));
        };
        let finished = finished.map_err(|error| QueueError::Start(error.to_string()))?;
        let log = log_in(&folder);
        let signature = log
            .and_then(|log| log.signature(Some(WALKER)))
            .or_else(|| match finished.ended {
                Ended::ByItself(Exit::Code(0)) | Ended::Interrupted => None,
                ended => Some(Signature::death(&ended.describe(), false, WALKER)),
            });
        Ok(End {
            signature,
            taken,
            folder,
        })
    }

    /// What the interposer said instead of beginning.
    pub(super) fn said(&self) -> String {
        let output = std::fs::read(self.folder.join("output.txt")).unwrap_or_default();
        let output = String::from_utf8_lossy(&output);
        let mut lines = output.lines();
        lines
            .find_map(|line| line.strip_prefix("walkfuzz-interposer: "))
            .unwrap_or("it did not say why")
            .to_owned()
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Round {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(jvm) = self.jvm.take() {
            // A thread that panicked has left no JVM that could be ended here.
            let _ = jvm.join();
        }
    }
}

/// The crash log, once its first lines are there.
fn log_in(folder: &Path) -> Option<CrashLog> {
    let files = std::fs::read_dir(folder).ok()?;
    let mut names = files.filter_map(|file| Some(file.ok()?.path()));
    let path = names.find(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // JFR leaves a recording of the same name.
        name.starts_with("hs_err_pid") && name.ends_with(".log")
    })?;
    Some(CrashLog::read(path).ok()?).filter(CrashLog::is_crash_log)
}

/// A line that says what a recording holds; `None` if the JVM left none.
pub(super) fn recorded(stage: &Stage, end: &End) -> Option<String> {
    let (numbers, _) =
        run::read_recordings(&stage.reader(), &end.folder, &stage.profile.limits, &|| {
            false
        })?;
    let sampling = numbers.sampling;
    Some(format!(
        "{} elements edited; {} samples recorded, {} of them biased, {} repeated; {} lost",
        end.taken, sampling.delivered, sampling.biased, sampling.repeated, sampling.lost
    ))
}
