//! What a stress run shows while it runs, and at its end.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use walkfuzz_stress::Verdict;
use walkfuzz_stress::run::Event;

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
        if self.terminal {
            let seconds = self.began.elapsed().as_secs_f64().max(0.001);
            let verdicts: Vec<String> = so_far
                .verdicts
                .iter()
                .map(|(name, count)| format!("{count} {name}"))
                .collect();
            self.clear();
            eprint!(
                "{} of {} cells, {} running, {:.0} walks/s, {:.0} s; {}",
                so_far.done,
                self.all,
                so_far.running,
                so_far.walks as f64 / seconds,
                seconds,
                verdicts.join(", ")
            );
        }
    }

    fn clear(&self) {
        if self.terminal {
            eprint!("\r\x1b[2K");
        }
    }

    pub(crate) fn end(&self) {
        self.clear();
    }
}
