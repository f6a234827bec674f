//! What came of walks from another thread, beside what the record holds.
//!
//! Contract: [`Counts::pair`] is signal-safe.

use std::sync::atomic::{AtomicU64, Ordering::*};

use serde::Serialize;

use super::outside::Outside;
use crate::spread::{Spread, SpreadSummary};

/// `ticks_GC_active`: a collection began or ended between the two walks of a pair.
const GC_ACTIVE: i32 = -2;
/// Codes that are told apart among differences: frames, 0 to -11, others.
const KINDS: usize = 14;

/// See the module.
#[derive(Debug)]
pub(crate) struct Counts {
    pub(crate) walks: AtomicU64,
    pub(crate) faults: AtomicU64,
    pub(crate) hangs: AtomicU64,
    pub(crate) busy: AtomicU64,
    pub(crate) late: AtomicU64,
    pub(crate) left: AtomicU64,
    pub(crate) exits_waited: AtomicU64,
    pub(crate) exits_unwaited: AtomicU64,
    equal: AtomicU64,
    ignored: AtomicU64,
    different: AtomicU64,
    silent: AtomicU64,
    kinds: [[AtomicU64; KINDS]; KINDS],
    /// How long threads wait.
    pub(crate) held: Spread,
}

/// How the two walks of a pair compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pair {
    /// The same code or the same frames.
    Equal,
    /// One side says that a collection is under way.
    Ignored,
    /// Different codes, or frames on one side only.
    OtherCode,
    /// Both gave frames, and not the same.
    OtherFrames,
}

/// What handler and other thread gave, where they differ.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Difference {
    in_handler: String,
    from_outside: String,
    pairs: u64,
}

/// The part of `RECORD.json`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct RemoteSummary {
    walker: &'static str,
    /// Walks that another thread made.
    walks: u64,
    /// Of these, those that faulted.
    faults: u64,
    /// Of these, those that were ended because they hung.
    hangs: u64,
    /// Walks that returned on both sides.
    pairs: u64,
    /// Pairs with the same code or the same frames.
    equal: u64,
    /// Pairs where one side says -2, a collection under way.
    ignored: u64,
    /// The other pairs.
    different: u64,
    /// Of the different ones, those with frames on both sides: wrong, and nothing says so.
    silently_different: u64,
    /// Samples that found another one being walked.
    busy: u64,
    /// Samples that nobody took up in time.
    late: u64,
    /// Walks whose thread waited no longer.
    left: u64,
    /// Threads that were not in the JVM's list.
    unknown_threads: u64,
    /// Times that the list changed under a search, which was made again.
    lookups_again: u64,
    /// Threads whose end waited for a walk of them.
    exits_waited: u64,
    /// Threads that ended although a walk of them had not come to its end.
    exits_unwaited: u64,
    /// Whether the walking thread holds the walked one in the JVM's key.
    sets_key: bool,
    /// Whether the mark that a walk is under way can be taken back after a fault.
    resets_mark: bool,
    /// How long threads waited for their walk; null where they do not.
    held: Option<SpreadSummary>,
    differences: Vec<Difference>,
}

impl Counts {
    pub(crate) fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            walks: zero(),
            faults: zero(),
            hangs: zero(),
            busy: zero(),
            late: zero(),
            left: zero(),
            exits_waited: zero(),
            exits_unwaited: zero(),
            equal: zero(),
            ignored: zero(),
            different: zero(),
            silent: zero(),
            kinds: [const { [const { AtomicU64::new(0) }; KINDS] }; KINDS],
            held: Spread::new(),
        }
    }

    /// Counts a pair.
    pub(crate) fn pair(&self, pair: Pair, in_handler: i32, from_outside: i32) {
        match pair {
            Pair::Equal => &self.equal,
            Pair::Ignored => &self.ignored,
            Pair::OtherCode | Pair::OtherFrames => &self.different,
        }
        .fetch_add(1, Relaxed);
        if pair == Pair::OtherFrames {
            self.silent.fetch_add(1, Relaxed);
        }
        if matches!(pair, Pair::OtherCode | Pair::OtherFrames) {
            self.kinds[kind(in_handler)][kind(from_outside)].fetch_add(1, Relaxed);
        }
    }

    pub(crate) fn summary(&self, outside: &Outside, tick_hz: u64) -> RemoteSummary {
        let agct = outside.as_agct();
        let get = |count: &AtomicU64| count.load(Relaxed);
        let (equal, ignored, different) =
            (get(&self.equal), get(&self.ignored), get(&self.different));
        let mut differences = Vec::new();
        for (row, counts) in self.kinds.iter().enumerate() {
            for (column, count) in counts.iter().enumerate() {
                let pairs = get(count);
                if pairs != 0 {
                    differences.push(Difference {
                        in_handler: word(row),
                        from_outside: word(column),
                        pairs,
                    });
                }
            }
        }
        RemoteSummary {
            walker: outside.walker().name(),
            walks: get(&self.walks),
            faults: get(&self.faults),
            hangs: get(&self.hangs),
            pairs: equal + ignored + different,
            equal,
            ignored,
            different,
            silently_different: get(&self.silent),
            busy: get(&self.busy),
            late: get(&self.late),
            left: get(&self.left),
            unknown_threads: agct.map_or(0, |(walker, _)| walker.unknown()),
            lookups_again: agct.map_or(0, |(walker, _)| walker.retries()),
            exits_waited: get(&self.exits_waited),
            exits_unwaited: get(&self.exits_unwaited),
            sets_key: agct.is_some_and(|(_, facts)| facts.needs_key()),
            resets_mark: agct.is_some_and(|(_, facts)| facts.knows_mark()),
            held: outside
                .holds()
                .then(|| self.held.summary(tick_hz))
                .flatten(),
            differences,
        }
    }
}

impl Pair {
    /// Of what the walks returned, and whether their frames are the same.
    pub(crate) fn of(in_handler: i32, from_outside: i32, same_frames: bool) -> Self {
        match (in_handler, from_outside) {
            (GC_ACTIVE, _) | (_, GC_ACTIVE) => Pair::Ignored,
            (one, other) if one > 0 && other > 0 => match same_frames {
                true => Pair::Equal,
                false => Pair::OtherFrames,
            },
            (one, other) if one == other => Pair::Equal,
            _ => Pair::OtherCode,
        }
    }
}

fn kind(code: i32) -> usize {
    match code {
        1.. => 0,
        -11..=0 => 1 + code.unsigned_abs() as usize,
        _ => KINDS - 1,
    }
}

fn word(kind: usize) -> String {
    match kind {
        0 => "frames".to_owned(),
        kind if kind < KINDS - 1 => format!("-{}", kind - 1).replace("-0", "0"),
        _ => "other".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs() {
        assert_eq!(Pair::of(5, 5, true), Pair::Equal);
        assert_eq!(Pair::of(5, 5, false), Pair::OtherFrames);
        assert_eq!(Pair::of(5, 4, false), Pair::OtherFrames);
        assert_eq!(Pair::of(-3, -3, false), Pair::Equal);
        assert_eq!(Pair::of(-3, 5, false), Pair::OtherCode);
        assert_eq!(Pair::of(-2, 5, false), Pair::Ignored);
        assert_eq!(Pair::of(5, -2, false), Pair::Ignored);
        let words: Vec<String> = [3, 0, -1, -11, -12].map(|code| word(kind(code))).into();
        assert_eq!(words, ["frames", "0", "-1", "-11", "other"]);
    }
}
