//! An entry on one JVM: which JDK that is, and what was seen there.

use walkfuzz_harness::interrupt;
use walkfuzz_jvm::{Collector, Jdk, Version};
use walkfuzz_record::{CellState, VariantCell};
use walkfuzz_triage::corpus::{Entry, EntryJdk, Observed};

use crate::failure::Failure;
use crate::variants::args::CompilerMode;
use crate::variants::cell::{self, Effort, Place};
use crate::variants::subject::Subject;

/// The JVMs that an entry speaks of.
pub(super) fn speaks_of(entry: &Entry) -> Vec<&EntryJdk> {
    entry.jdk.iter().chain(&entry.fixed).collect()
}

pub(super) fn knows_any(entry: &Entry, jdks: &[Jdk]) -> bool {
    speaks_of(entry)
        .into_iter()
        .any(|wanted| find(jdks, wanted).is_some())
}

/// The JDK of that build, or else of that version.
pub(super) fn find<'a>(jdks: &'a [Jdk], wanted: &EntryJdk) -> Option<&'a Jdk> {
    let version = Version::parse(&wanted.version)?;
    jdks.iter()
        .find(|jdk| jdk.identity == wanted.build_id)
        .or_else(|| jdks.iter().find(|jdk| jdk.version.is_a(&version)))
}

/// What was seen on one JVM, and the sentence for it.
pub(super) struct Seen {
    pub(super) observed: Observed,
    pub(super) why: String,
    pub(super) cell: Option<VariantCell>,
}

/// Tries `entry` on the JVM that `wanted` names.
pub(super) fn try_on(
    entry: &Entry,
    jdks: &[Jdk],
    wanted: &EntryJdk,
    effort: Effort,
) -> Result<Seen, Failure> {
    let Some(jdk) = find(jdks, wanted) else {
        return Ok(Seen {
            observed: Observed::Unknown,
            why: format!("needs JDK {}", wanted.version),
            cell: None,
        });
    };
    let place = Place {
        jdk: jdk.clone(),
        collector: Collector::from_name(&wanted.collector),
        mode: CompilerMode::Default,
    };
    let cell = cell::run(&Subject::of_entry(entry), &place, effort)?;
    let (k, of) = (cell.again.k, cell.again.of);
    let other = if jdk.identity == wanted.build_id || wanted.build_id.is_empty() {
        ""
    } else {
        " (another build)"
    };
    let on = format!("{}{other}", wanted.version);
    let reason = cell.reason.clone().unwrap_or_default();
    let (observed, why) = match cell.state {
        CellState::Tried if k > 0 => (Observed::Again, format!("{k} of {of} on {on}")),
        CellState::Tried if of >= effort.moments => {
            let high = cell.again.interval().high * 100.0;
            (
                Observed::NotAgain,
                format!("0 of {of} on {on} (at most {high:.2} %)"),
            )
        }
        CellState::Tried => (
            Observed::Unknown,
            format!("only {of} of {} moments tried on {on}", effort.moments),
        ),
        CellState::NotMet => (
            Observed::Unknown,
            format!("no moment of its class came up on {on}"),
        ),
        CellState::CouldNotRun | CellState::NotRun if interrupt::seen() => {
            (Observed::Unknown, "not tried live: interrupted".to_owned())
        }
        CellState::CouldNotRun | CellState::NotRun => {
            (Observed::Unknown, format!("not walked on {on}: {reason}"))
        }
    };
    Ok(Seen {
        observed,
        why,
        cell: Some(cell),
    })
}

/// How many moments without it are enough, where it happened `k` of `of` times elsewhere: it would have been missed one time in twenty.
pub(super) fn moments_that_tell(k: u64, of: u64) -> u64 {
    (of * 3).div_ceil(k.max(1))
}

#[cfg(test)]
mod tests {
    use super::moments_that_tell;

    #[test]
    fn what_happens_seldom_takes_more_moments_to_be_missed() {
        assert_eq!(moments_that_tell(5, 10), 6);
        assert_eq!(moments_that_tell(5, 1000), 600);
        assert_eq!(moments_that_tell(0, 100), 300);
    }
}
