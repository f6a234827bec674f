//! Collapsed stacks, as async-profiler leaves them: a line has frames from the outermost to the top, joined by semicolons, and a count.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use walkfuzz_record::KOfN;

/// What async-profiler writes for a thread that it finds no Java frame of.
const WITHOUT_JAVA: &str = "[no_Java_frame]";

/// What a profiler reported in one run.
#[derive(Debug, Default)]
pub(crate) struct Profile {
    /// Of threads that have Java frames, or of which the profiler cannot say.
    samples: u64,
    /// Of threads that have none, the JVM's own among them, which are passed on and never perturbed.
    without_java: u64,
    errors: BTreeMap<String, u64>,
    tops: BTreeMap<String, u64>,
    outermost: BTreeMap<String, u64>,
}

/// What a profiler reported of perturbed contexts beside what it reported untouched.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Comparison {
    /// Samples of the untouched run that the profiler reports as `[no_Java_frame]`, of all. They are no errors, and in none of the shares below.
    pub(crate) untouched_without_java: KOfN,
    /// Of the perturbed run.
    pub(crate) perturbed_without_java: KOfN,
    /// Samples of the untouched run that end in an error frame.
    pub(crate) untouched_errors: KOfN,
    /// Of the perturbed run, its untouched samples included.
    pub(crate) perturbed_errors: KOfN,
    /// The perturbed run's error frames.
    pub(crate) errors: BTreeMap<String, u64>,
    /// Samples of the perturbed run whose top frame, no error, the untouched run never reported at the top.
    pub(crate) new_tops: KOfN,
    /// Samples of the perturbed run whose outermost frame, no error, the untouched run never reported as outermost: stacks that end too early, or nowhere.
    pub(crate) new_outermost: KOfN,
}

impl Profile {
    pub(crate) fn parse(text: &str) -> Self {
        let mut profile = Self::default();
        for line in text.lines() {
            let Some((stack, count)) = line.rsplit_once(' ') else {
                continue;
            };
            let Ok(count) = count.parse::<u64>() else {
                continue;
            };
            if stack.split(';').any(|frame| frame == WITHOUT_JAVA) {
                profile.without_java += count;
                continue;
            }
            profile.samples += count;
            let error = stack.split(';').find(|frame| is_error(frame));
            if let Some(error) = error {
                *profile.errors.entry(error.to_owned()).or_default() += count;
                continue;
            }
            let mut frames = stack.split(';');
            let outermost = frames.next().unwrap_or(stack);
            let top = frames.next_back().unwrap_or(outermost);
            *profile.tops.entry(top.to_owned()).or_default() += count;
            *profile.outermost.entry(outermost.to_owned()).or_default() += count;
        }
        profile
    }

    pub(crate) fn samples(&self) -> u64 {
        self.samples
    }

    fn without_java(&self) -> KOfN {
        KOfN::new(self.without_java, self.samples + self.without_java)
    }

    fn with_errors(&self) -> KOfN {
        KOfN::new(self.errors.values().sum(), self.samples)
    }

    /// `self` is of the perturbed run.
    pub(crate) fn beside(&self, untouched: &Profile) -> Comparison {
        let new = |now: &BTreeMap<String, u64>, then: &BTreeMap<String, u64>| {
            let known: BTreeSet<&String> = then.keys().collect();
            let new = now.iter().filter(|(frame, _)| !known.contains(frame));
            KOfN::new(new.map(|(_, count)| count).sum(), self.samples)
        };
        Comparison {
            untouched_without_java: untouched.without_java(),
            perturbed_without_java: self.without_java(),
            untouched_errors: untouched.with_errors(),
            perturbed_errors: self.with_errors(),
            errors: self.errors.clone(),
            new_tops: new(&self.tops, &untouched.tops),
            new_outermost: new(&self.outermost, &untouched.outermost),
        }
    }
}

/// async-profiler writes what is no frame in brackets: `[unknown_Java]`, `[break_not_walkable]`.
fn is_error(frame: &str) -> bool {
    frame.starts_with('[') && frame.ends_with(']')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_never_reported_untouched_stands_out() {
        let untouched = Profile::parse("main;a;b 7\nmain;a 2\nmain;[unknown_Java] 1\n");
        let perturbed = Profile::parse("main;a;b 5\nmain;a;c 2\nb 1\n[break_not_walkable] 2\n");
        let comparison = perturbed.beside(&untouched);
        assert_eq!(comparison.untouched_errors, KOfN::new(1, 10));
        assert_eq!(comparison.perturbed_errors, KOfN::new(2, 10));
        assert_eq!(comparison.new_tops, KOfN::new(2, 10));
        assert_eq!(comparison.new_outermost, KOfN::new(1, 10));
        assert_eq!(comparison.errors["[break_not_walkable]"], 2);
    }

    #[test]
    fn threads_without_java_are_no_errors() {
        let untouched = Profile::parse("main;a 7\nclone;[no_Java_frame] 90\n[unknown_Java] 3\n");
        let perturbed = Profile::parse("main;a 4\n[no_Java_frame] 5\n[unknown_Java] 6\n");
        let comparison = perturbed.beside(&untouched);
        assert_eq!(comparison.untouched_without_java, KOfN::new(90, 100));
        assert_eq!(comparison.perturbed_without_java, KOfN::new(5, 15));
        assert_eq!(comparison.untouched_errors, KOfN::new(3, 10));
        assert_eq!(comparison.perturbed_errors, KOfN::new(6, 10));
        assert_eq!(comparison.new_tops, KOfN::new(0, 10));
        assert!(!comparison.errors.contains_key(WITHOUT_JAVA));
    }

    #[test]
    fn lines_that_are_none_are_left_out() {
        assert_eq!(Profile::parse("\nx\nmain;a x\nmain 3\n").samples(), 3);
    }
}
