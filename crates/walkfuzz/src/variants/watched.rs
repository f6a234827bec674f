//! A cell's child process: started for one JVM, listened to, ended when its time is over.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use walkfuzz_harness::{interrupt, walkers_of};
use walkfuzz_jvm::Collector;

use crate::child::myself;
use crate::failure::{ENVIRONMENT, Failure, USAGE};
use crate::variants::cell::Place;
use crate::variants::exchange::{Request, Said};
use crate::variants::subject::Subject;

/// How a child ended.
pub(crate) enum End {
    Done,
    Interrupted,
    /// The JVM could not be started, or no thread could be held.
    Failed(String),
    Died(ExitStatus),
}

/// A child and the lines that it says.
pub(crate) struct Watched {
    child: Child,
    lines: Receiver<Said>,
    errors: std::thread::JoinHandle<String>,
}

impl Watched {
    /// Starts it; its run folder and the JVM's crash log go into `folder`.
    pub(crate) fn start(
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
            .envs(walkers_of(&subject.signature).map_err(Failure::usage)?)
            .env_remove("WALKFUZZ_RUN")
            .env_remove("WALKFUZZ_GC")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(collector) = place.collector {
            command.env("WALKFUZZ_GC", Collector::name(collector));
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

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its last words and how it ended. It is killed after `limit`.
    pub(crate) fn wait(mut self, limit: Duration) -> (Said, End) {
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
}
