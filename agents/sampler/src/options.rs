//! What the agent is told: `KEY=VALUE,KEY=VALUE,...`, with `%2C`, `%3D` and `%25` for `,`, `=` and `%` in values, and `%p` for the process id.
//!
//! Contract: pure. Every complaint is one sentence fit for a terminal that names the key.

use std::path::PathBuf;
use std::time::Duration;

use walkfuzz_jvm::unescaped;
use walkfuzz_walkers::PluginError;

use crate::chosen::{WALKERS, WalkerChoice};
use crate::clock::Clock;

/// The keys, as messages name them.
const KEYS: &str = "record, clock, interval, choose, walker, guard, steps, depth, perturb, seed, churn, start, lanes, timing, stop";
/// Shorter intervals would only make the kernel deliver signals.
const SHORTEST: Duration = Duration::from_micros(1);
const LONGEST: Duration = Duration::from_secs(3600);

/// Which threads are sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Every thread that runs.
    All,
    /// So many at random, others at every round.
    Random(u32),
}

/// What the options say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Sample.
    Sample(Box<Options>),
    /// Stop sampling and close the record.
    Stop,
}

/// How to sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Where the record goes.
    pub record: PathBuf,
    /// What makes samples.
    pub clocks: Vec<Clock>,
    /// Time between two samples of a thread that runs.
    pub interval: Duration,
    /// Which threads.
    pub choice: Choice,
    /// The code under test.
    pub walker: WalkerChoice,
    /// Whether the walker is called under crash protection.
    pub guard: bool,
    /// Single steps after each sample in Java code.
    pub steps: u32,
    /// The most frames of a walk.
    pub depth: i32,
    /// Perturbed walks after each untouched one.
    pub perturb: u32,
    /// Of everything that is drawn at random.
    pub seed: u64,
    /// How long clocks run before they are made anew.
    pub churn: Option<Duration>,
    /// How long after the JVM's start sampling begins.
    pub delay: Duration,
    /// Lanes of the record: how many handlers can be at work at once.
    pub lanes: u32,
    /// Whether handlers are timed.
    pub timing: bool,
    /// A fault that is planted in the walker (test builds).
    pub plant: Option<Plant>,
}

/// A walker that misbehaves on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// Every so many walks read an address that is not there.
    Fault(u64),
    /// Every so many walks never return.
    Hang(u64),
}

/// Whether plants can be had: never in a library for users.
pub(crate) const PLANTS: bool = cfg!(any(debug_assertions, feature = "plants"));

/// Why the options mean nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// There is no such key.
    #[error("no such option: {0}; expected {KEYS}")]
    Unknown(String),
    /// A key stands twice.
    #[error("{0} is given twice")]
    Twice(String),
    /// A value that cannot be used.
    #[error("{key}={value} means nothing: expected {expected}")]
    Value {
        /// The key.
        key: String,
        /// What it was set to.
        value: String,
        /// What it may be.
        expected: &'static str,
    },
    /// A library that cannot be one.
    #[error("walker: {0}")]
    Library(#[from] PluginError),
    /// A key that must be there is missing.
    #[error("record=PATH is missing: there is nowhere to write to")]
    NoRecord,
    /// A walker that needs a thread of the JVM to go on as it would cannot do this.
    #[error("walker={0} goes with guard=on and untouched samples alone: leave out {1}")]
    Unfit(&'static str, &'static str),
    /// Nobody would resume the loads of a walker of ours.
    #[error("walker={0} reads with loads whose faults the guard resumes: leave out guard=off")]
    Unguarded(&'static str),
    /// A `%` without meaning.
    #[error("{0} has a % that is neither %2C, %3D, %25 nor %p")]
    Escape(String),
}

impl Options {
    /// What is done unless something else is asked for.
    #[must_use]
    pub fn new(record: PathBuf) -> Self {
        Self {
            record,
            clocks: vec![Clock::Timer],
            interval: Duration::from_millis(10),
            choice: Choice::All,
            walker: WalkerChoice::Agct,
            guard: true,
            steps: 0,
            depth: 128,
            perturb: 0,
            seed: 1,
            churn: None,
            delay: Duration::ZERO,
            lanes: 64,
            timing: false,
            plant: None,
        }
    }
}

impl Wanted {
    /// Reads the options of a process whose id is `pid`.
    ///
    /// # Errors
    /// The first thing that means nothing.
    pub fn parse(text: &str, pid: u32) -> Result<Self, OptionError> {
        if text == "stop" {
            return Ok(Wanted::Stop);
        }
        let mut options = Options::new(PathBuf::new());
        let mut seen: Vec<&str> = Vec::new();
        for word in text.split(',').filter(|word| !word.is_empty()) {
            let (key, raw) = word.split_once('=').unwrap_or((word, ""));
            if seen.contains(&key) {
                return Err(OptionError::Twice(key.to_owned()));
            }
            seen.push(key);
            let value = unescaped(raw, pid).ok_or_else(|| OptionError::Escape(raw.to_owned()))?;
            options.set(key, &value)?;
        }
        if options.record.as_os_str().is_empty() {
            return Err(OptionError::NoRecord);
        }
        if let Some(walker) = options.walker.resumed().filter(|_| !options.guard) {
            return Err(OptionError::Unguarded(walker));
        }
        if let Some(walker) = options.walker.plain_alone() {
            let unfit = [
                ("guard=off", !options.guard),
                ("steps", options.steps != 0),
                ("perturb", options.perturb != 0),
                ("plant", options.plant.is_some()),
            ];
            if let Some((key, _)) = unfit.into_iter().find(|(_, given)| *given) {
                return Err(OptionError::Unfit(walker, key));
            }
        }
        Ok(Wanted::Sample(Box::new(options)))
    }
}

impl Options {
    fn set(&mut self, key: &str, value: &str) -> Result<(), OptionError> {
        let wrong = |expected| OptionError::Value {
            key: key.to_owned(),
            value: value.to_owned(),
            expected,
        };
        let number = |low: u64, high: u64, expected| {
            let number: Option<u64> = value.parse().ok();
            number
                .filter(|number| (low..=high).contains(number))
                .ok_or_else(|| wrong(expected))
        };
        let time = |expected| {
            duration(value)
                .filter(|time| (SHORTEST..=LONGEST).contains(time))
                .ok_or_else(|| wrong(expected))
        };
        match key {
            "record" => self.record = PathBuf::from(value),
            "clock" => {
                self.clocks = clocks(value).ok_or_else(|| {
                    wrong("different ones of timer, tick, itimer, cpu-timer, perf, joined by +")
                })?;
            }
            "interval" => self.interval = time("a time from 1us to 1h, such as 100us or 10ms")?,
            "choose" => {
                self.choice = choice(value).ok_or_else(|| wrong("all, one or random:N"))?;
            }
            "walker" => {
                self.walker = WalkerChoice::from_name(value)?.ok_or_else(|| wrong(WALKERS))?;
            }
            "guard" => self.guard = switch(value).ok_or_else(|| wrong("on or off"))?,
            "timing" => self.timing = switch(value).ok_or_else(|| wrong("on or off"))?,
            "steps" => self.steps = number(0, 1 << 20, "a number up to 1048576")? as u32,
            "depth" => self.depth = number(1, 2048, "a number from 1 to 2048")? as i32,
            "perturb" => self.perturb = number(0, 1024, "a number up to 1024")? as u32,
            "seed" => self.seed = number(0, u64::MAX, "a number")?,
            "churn" => self.churn = Some(time("a time from 1us to 1h, such as 100ms")?),
            "start" if value == "init" => self.delay = Duration::ZERO,
            "start" => {
                self.delay = duration(value).ok_or_else(|| wrong("init or a time such as 5s"))?;
            }
            "lanes" => self.lanes = number(2, 1024, "a number from 2 to 1024")? as u32,
            "plant" if PLANTS => {
                self.plant =
                    Some(plant(value).ok_or_else(|| wrong("fault:N or hang:N, every N walks"))?);
            }
            "stop" => return Err(wrong("nothing beside it")),
            _ => return Err(OptionError::Unknown(key.to_owned())),
        }
        Ok(())
    }
}

fn switch(value: &str) -> Option<bool> {
    match value {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    }
}

fn clocks(value: &str) -> Option<Vec<Clock>> {
    let mut clocks = Vec::new();
    for word in value.split('+') {
        let clock = Clock::from_name(word)?;
        if clocks.contains(&clock) {
            return None;
        }
        clocks.push(clock);
    }
    Some(clocks)
}

fn choice(value: &str) -> Option<Choice> {
    match value {
        "all" => Some(Choice::All),
        "one" => Some(Choice::Random(1)),
        _ => {
            let count = value.strip_prefix("random:")?.parse().ok()?;
            (count > 0).then_some(Choice::Random(count))
        }
    }
}

fn plant(value: &str) -> Option<Plant> {
    let (kind, every) = value.split_once(':')?;
    let every = every.parse().ok().filter(|every| *every > 0)?;
    match kind {
        "fault" => Some(Plant::Fault(every)),
        "hang" => Some(Plant::Hang(every)),
        _ => None,
    }
}

/// `100us`, `10ms`, `2s`, `500ns`.
fn duration(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let nanoseconds = match unit {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return None,
    };
    Some(Duration::from_nanos(number.checked_mul(nanoseconds)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Options {
        match Wanted::parse(text, 77).unwrap() {
            Wanted::Sample(options) => *options,
            Wanted::Stop => panic!("{text} stops"),
        }
    }

    fn complaint(text: &str) -> String {
        Wanted::parse(text, 77).unwrap_err().to_string()
    }

    #[test]
    fn what_the_driver_says_is_understood() {
        let options = parsed(
            "record=/runs/a%2Cb%3Dc%25/record-%p.map,clock=timer+itimer,interval=100us,choose=random:8,\
             walker=agct,guard=off,steps=64,depth=2048,perturb=16,seed=7,churn=50ms,start=2s,lanes=8",
        );
        assert_eq!(options.record, PathBuf::from("/runs/a,b=c%/record-77.map"));
        assert_eq!(options.clocks, [Clock::Timer, Clock::Itimer]);
        assert_eq!(options.interval, Duration::from_micros(100));
        assert_eq!(options.choice, Choice::Random(8));
        assert!(!options.guard);
        assert_eq!(
            (options.steps, options.depth, options.perturb),
            (64, 2048, 16)
        );
        assert_eq!((options.seed, options.lanes), (7, 8));
        assert_eq!(options.churn, Some(Duration::from_millis(50)));
        assert_eq!(options.delay, Duration::from_secs(2));
    }

    #[test]
    fn what_is_not_said_has_its_default() {
        let options = parsed("record=r");
        assert_eq!(options.clocks, [Clock::Timer]);
        assert_eq!(options.interval, Duration::from_millis(10));
        assert!(options.guard);
        assert_eq!((options.depth, options.choice), (128, Choice::All));
        assert_eq!(parsed("record=r,choose=one").choice, Choice::Random(1));
        assert_eq!(Wanted::parse("stop", 1), Ok(Wanted::Stop));
    }

    #[test]
    fn what_means_nothing_is_named() {
        assert!(
            complaint("record=r,clok=timer").starts_with("no such option: clok; expected record,")
        );
        assert!(complaint("clock=timer").contains("record=PATH is missing"));
        assert!(complaint("record=").contains("record=PATH is missing"));
        assert!(complaint("record=a,record=b").contains("record is given twice"));
        assert_eq!(
            complaint("record=r,walker=plugin:/lib.so@sha256:12"),
            "walker: 12 is no SHA-256: write PATH@sha256: and 64 hexadecimal digits"
        );
        assert!(complaint("record=a%2").contains("has a % that"));
        assert!(complaint("record=a%é").contains("has a % that"));
        for wrong in [
            "clock=sundial",
            "clock=timer+timer",
            "clock=",
            "interval=0us",
            "interval=100",
            "interval=99999999999999999999s",
            "interval=soon",
            "choose=some",
            "choose=random:0",
            "walker=asgst",
            "guard=maybe",
            "steps=-1",
            "depth=0",
            "depth=4096",
            "perturb=9999",
            "seed=x",
            "churn=0s",
            "start=later",
            "lanes=1",
            "timing=maybe",
            "plant=nothing",
            "stop=now",
        ] {
            let said = complaint(&format!("record=r,{wrong}"));
            assert!(
                said.starts_with(&format!("{wrong} means nothing")),
                "{said}"
            );
        }
    }
}
