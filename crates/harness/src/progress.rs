//! The lines that a running session prints.

use std::time::{Duration, Instant};

use walkfuzz_record::{Counter, Lane, RunFacts};

use crate::hunt::Found;
use crate::session::Mode;

/// Time between two lines.
const EVERY: Duration = Duration::from_secs(5);

/// Prints a line every few seconds, and knows when a park has passed.
pub(crate) struct Progress {
    loud: bool,
    parks: u64,
    last: Instant,
    walks: u64,
}

impl Progress {
    pub(crate) fn new(mode: Mode, facts: &RunFacts, timings: &[(&'static str, Duration)]) -> Self {
        let parts: Vec<String> = timings
            .iter()
            .map(|(what, time)| format!("{what} {:.0} ms", time.as_secs_f64() * 1e3))
            .collect();
        eprintln!(
            "walkfuzz: JDK {}, {} collector; {}",
            facts.jvm.version,
            facts.jvm.collector,
            parts.join(", ")
        );
        Self {
            loud: mode == Mode::Survey,
            parks: 0,
            last: Instant::now(),
            walks: 0,
        }
    }

    /// Whether there are more parks than when it was last asked.
    #[inline]
    pub(crate) fn saw_park(&mut self, parks: u64) -> bool {
        let more = parks > self.parks;
        self.parks = parks;
        more
    }

    /// Prints a line if it is time to.
    pub(crate) fn print(&mut self, lane: &Lane, found: Found, elapsed: Duration) {
        let since = self.last.elapsed();
        if !self.loud || since < EVERY {
            return;
        }
        let walks = lane.walks();
        let rate = (walks - self.walks) as f64 / since.as_secs_f64();
        self.last = Instant::now();
        self.walks = walks;
        let (tried, succeeded) = (
            lane.counter(Counter::ControlsTried),
            lane.counter(Counter::ControlsSucceeded),
        );
        let [t0, t1, t2, t3, t4] = found.tiers;
        let last_new = found.last_new.map_or_else(
            || "never".to_owned(),
            |at| format!("{} s ago", at.elapsed().as_secs()),
        );
        let blocks = match lane.counter(Counter::BlocksPlanted) {
            0 => String::new(),
            planted => format!(
                " | blocks {} of {planted}",
                lane.counter(Counter::BlocksSeen)
            ),
        };
        eprintln!(
            "walkfuzz: {:>4} s {:>8.1} M walks {:>5.2} M/s | controls {:.1} % of {} | faults {} | signatures {} \
             (T0 {t0} T1 {t1} T2 {t2} T3 {t3} T4 {t4}), {} examined, last new {last_new}{blocks}",
            elapsed.as_secs(),
            walks as f64 / 1e6,
            rate / 1e6,
            100.0 * succeeded as f64 / tried.max(1) as f64,
            tried,
            lane.counter(Counter::Recoveries),
            found.signatures,
            found.examined,
        );
    }
}
