//! What a profiler is told: the words of `--mode`, checked here, because profilers take what they do not understand for something else.

use std::path::Path;
use std::time::Duration;

use walkfuzz_stress::profile::parse_duration;

use crate::failure::Failure;
use crate::interpose::args::ProfilerName;

const EVENTS: [&str; 4] = ["cpu", "itimer", "ctimer", "wall"];
const STACKS: [&str; 5] = ["vm", "vmx", "dwarf", "fp", "no"];
/// What `safemode` of async-profiler can turn off, as bits.
const SAFE_MODES: u32 = 127;

/// A mode that means something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mode {
    profiler: ProfilerName,
    event: String,
    interval: String,
    /// In async-profiler's words.
    more: Vec<String>,
}

impl Mode {
    /// Understands `--mode`.
    pub(crate) fn parse(profiler: ProfilerName, text: &str) -> Result<Self, Failure> {
        let events: &[&str] = match profiler {
            ProfilerName::AsyncProfiler => &EVENTS,
            ProfilerName::Jfr => &["cpu-time"],
        };
        let mut mode = Self {
            profiler,
            event: events[0].to_owned(),
            interval: "1ms".to_owned(),
            more: Vec::new(),
        };
        for word in text.split(',').filter(|word| !word.is_empty()) {
            mode.take(word, events).map_err(Failure::usage)?;
        }
        Ok(mode)
    }

    fn take(&mut self, word: &str, events: &[&str]) -> Result<(), String> {
        let wrong =
            |expected: String| format!("--mode: `{word}` means nothing; expected {expected}");
        let is_async = self.profiler == ProfilerName::AsyncProfiler;
        match word.split_once('=') {
            None if events.contains(&word) => word.clone_into(&mut self.event),
            Some(("interval", time)) => {
                let interval = parse_duration(time).map_err(|_| {
                    wrong("interval=TIME, a time such as 100us or 10ms, and not nothing".to_owned())
                })?;
                if interval < Duration::from_micros(1) {
                    return Err(wrong("an interval of 1us at least".to_owned()));
                }
                time.clone_into(&mut self.interval);
            }
            Some(("cstack", stack)) if is_async && STACKS.contains(&stack) => {
                self.more.push(word.to_owned());
            }
            Some(("cstack", _)) if is_async => {
                return Err(wrong(format!("cstack={}", STACKS.join("|"))));
            }
            Some(("features", list)) if is_async && is_list(list) => {
                self.more.push(word.to_owned());
            }
            Some(("safemode", bits))
                if is_async && bits.parse().is_ok_and(|b: u32| b <= SAFE_MODES) =>
            {
                self.more.push(word.to_owned());
            }
            _ if is_async => {
                return Err(wrong(format!(
                    "one of {}, cstack=, interval=, features= or safemode=",
                    events.join(", ")
                )));
            }
            _ => return Err(wrong(format!("{} or interval=", events.join(", ")))),
        }
        Ok(())
    }

    /// As reports have it.
    pub(crate) fn words(&self) -> String {
        let mut words = vec![self.event.clone()];
        words.extend(self.more.iter().cloned());
        words.push(format!("interval={}", self.interval));
        words.join(",")
    }

    pub(crate) fn interval(&self) -> &str {
        &self.interval
    }

    /// What async-profiler is told; its collapsed stacks go to `file`.
    pub(crate) fn for_async_profiler(&self, file: &Path) -> String {
        let more: String = self.more.iter().map(|word| format!(",{word}")).collect();
        // In nanoseconds: its own units have no blanks and no sums.
        let interval = parse_duration(&self.interval)
            .unwrap_or_default()
            .as_nanos();
        format!(
            "start,event={},interval={interval}{more},collapsed,file={}",
            self.event,
            file.display()
        )
    }
}

fn is_list(text: &str) -> bool {
    let is_word = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase());
    text.split('+').all(is_word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_means_something_reaches_the_profiler() {
        let text = "itimer,cstack=vm,interval=100us,features=stats+vtable";
        let mode = Mode::parse(ProfilerName::AsyncProfiler, text).unwrap();
        let told = mode.for_async_profiler(Path::new("/x/y"));
        let expected = "start,event=itimer,interval=100000,cstack=vm,features=stats+vtable,collapsed,file=/x/y";
        assert_eq!(told, expected);
        let mode = Mode::parse(ProfilerName::AsyncProfiler, "").unwrap();
        assert_eq!(mode.words(), "cpu,interval=1ms");
        let mode = Mode::parse(ProfilerName::Jfr, "interval=20ms").unwrap();
        assert_eq!(mode.words(), "cpu-time,interval=20ms");
    }

    #[test]
    fn what_means_nothing_is_named() {
        for (profiler, text) in [
            (ProfilerName::AsyncProfiler, "interval=0"),
            (ProfilerName::AsyncProfiler, "interval=0ms"),
            (ProfilerName::AsyncProfiler, "interval=1ns"),
            (ProfilerName::AsyncProfiler, "cstack=magic"),
            (ProfilerName::AsyncProfiler, "alloc"),
            (ProfilerName::AsyncProfiler, "features=a b"),
            (ProfilerName::AsyncProfiler, "file=/etc/passwd"),
            (ProfilerName::Jfr, "cstack=vm"),
            (ProfilerName::Jfr, "cpu"),
        ] {
            let failure = Mode::parse(profiler, text).unwrap_err();
            assert_eq!(failure.code, crate::failure::USAGE, "{text}");
            assert!(failure.message.contains(text), "{}", failure.message);
        }
    }
}
