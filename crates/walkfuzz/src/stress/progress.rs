//! What a stress run shows while it runs, and at its end.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use walkfuzz_stress::run::Event;
use walkfuzz_stress::{Verdict, report};

/// Cells done, running and left, the rate, crashes so far.
pub(crate) struct Progress {
    all: usize,
    began: Instant,
    terminal: bool,
    so_far: Mutex<SoFar>,
}

#[derive(Default)]
struct SoFar {
    done: usize,
    running: usize,
    walks: u64,
    crashes: u64,
    not_started: BTreeMap<String, usize>,
    verdicts: BTreeMap<&'static str, usize>,
}

impl Progress {
    pub(crate) fn new(all: usize, done: usize) -> Self {
        Self {
            all,
            began: Instant::now(),
            terminal: std::io::stderr().is_terminal(),
            so_far: Mutex::new(SoFar {
                done,
                ..SoFar::default()
            }),
        }
    }

    pub(crate) fn hear(&self, event: &Event<'_>) {
        let mut so_far = self.so_far.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Begins(_) => so_far.running += 1,
            Event::Ended(result) => {
                so_far.running -= 1;
                so_far.done += 1;
                so_far.walks += result.untouched.walks;
                so_far.crashes += report::crashes(result).k;
                *so_far.verdicts.entry(result.verdict.name()).or_default() += 1;
                if result.verdict != Verdict::Pass || !self.terminal {
                    self.clear();
                    eprintln!(
                        "{:<8} {}: {}",
                        result.verdict.name(),
                        result.cell,
                        result.reason
                    );
                }
            }
            Event::NotStarted(cell, why) => {
                so_far.running -= 1;
                so_far.done += 1;
                self.clear();
                eprintln!("{:<8} {cell}: {why}", "left out");
                *so_far.not_started.entry((*why).to_owned()).or_default() += 1;
            }
        }
        self.line(&so_far);
    }

    /// Does `work`, and shows meanwhile how far it is.
    pub(crate) fn show_while<T>(&self, work: impl FnOnce() -> T) -> T {
        let done = AtomicBool::new(false);
        let result = std::thread::scope(|scope| {
            let shower = self.terminal.then(|| {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        std::thread::park_timeout(Duration::from_secs(1));
                        self.line(&self.so_far.lock().unwrap_or_else(PoisonError::into_inner));
                    }
                })
            });
            let result = work();
            done.store(true, Ordering::Relaxed);
            if let Some(shower) = shower {
                shower.thread().unpark();
            }
            result
        });
        self.clear();
        result
    }

    fn line(&self, so_far: &SoFar) {
        if !self.terminal {
            return;
        }
        self.clear();
        eprint!("{}", so_far.line(self.all, self.began.elapsed()));
    }

    fn clear(&self) {
        if self.terminal {
            eprint!("\r\x1b[2K");
        }
    }
}

impl SoFar {
    /// `3 of 16 cells done, 1 running, 12 left; 10000 walks/s, 0 crashes, 30 s; 2 pass, 1 unknown`.
    fn line(&self, all: usize, time: Duration) -> String {
        let verdicts: Vec<String> = self
            .verdicts
            .iter()
            .map(|(name, count)| format!("{count} {name}"))
            .collect();
        let seconds = time.as_secs_f64().max(0.001);
        let left = all.saturating_sub(self.done + self.running);
        let mut line = format!(
            "{} of {all} cells done, {} running, {left} left; {:.0} walks/s, {} crashes, {seconds:.0} s",
            self.done,
            self.running,
            self.walks as f64 / seconds,
            self.crashes,
        );
        if !verdicts.is_empty() {
            line = format!("{line}; {}", verdicts.join(", "));
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_is_done_running_and_left() {
        let so_far = SoFar {
            done: 3,
            running: 1,
            walks: 60_000,
            crashes: 2,
            verdicts: [("pass", 2), ("fail", 1)].into(),
            ..SoFar::default()
        };
        assert_eq!(
            so_far.line(16, Duration::from_secs(30)),
            "3 of 16 cells done, 1 running, 12 left; 2000 walks/s, 2 crashes, 30 s; 1 fail, 2 pass"
        );
    }
}
