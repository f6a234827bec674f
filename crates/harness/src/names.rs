//! From an outcome to its signature. Symbolising costs microseconds the first time, so answers are kept by pc.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use walkfuzz_record::{Contradiction, KnownDifference, WalkOutcome};
use walkfuzz_symbols::Modules;
use walkfuzz_triage::{Kind, Signal, Signature};
use walkfuzz_walkers::Walker;

/// Signatures by (signal, pc).
pub(crate) struct Names {
    assert_poison: Option<u64>,
    oracle: Option<&'static str>,
    known: RefCell<HashMap<(i32, u64), Rc<str>>>,
}

/// Where an outcome happened, before anything is symbolised: its signal (for other kinds: the kind, negative) and its pc.
pub(crate) fn site(outcome: &WalkOutcome) -> (i32, u64) {
    match outcome {
        WalkOutcome::Fault(fault) => (fault.signal, fault.pc.0),
        WalkOutcome::Wrote(fault) => (-(outcome.kind() as i32), fault.pc.0),
        WalkOutcome::WrongFrames(contradiction) => (-(outcome.kind() as i32), contradiction.site()),
        // Each breach has a signature of its own.
        WalkOutcome::Breach(breach) => (-(outcome.kind() as i32), *breach as u64),
        other => (-(other.kind() as i32), 0),
    }
}

/// The signature of frames of `walker` that `oracle` contradicts.
pub(crate) fn wrong_frames(walker: &str, oracle: &str, found: &Contradiction) -> Signature {
    let why = found.known.map(KnownDifference::words);
    Signature::new(Kind::WrongFrames, found.place(), walker)
        .with_detail(Signature::disagreement(oracle, why))
}

/// Size of the page that a failed check touches.
const POISON_PAGE: u64 = 4096;

impl Names {
    /// `assert_poison` is the page that HotSpot touches when a check fails.
    pub(crate) fn new(assert_poison: Option<u64>) -> Self {
        Self {
            assert_poison,
            oracle: None,
            known: RefCell::default(),
        }
    }

    /// The same with the name of the walker that says which frames are wrong.
    pub(crate) fn with_oracle(self, oracle: Option<&'static str>) -> Self {
        Self { oracle, ..self }
    }

    /// The oracle's name.
    pub(crate) fn oracle(&self) -> &'static str {
        self.oracle.unwrap_or("another walker")
    }

    /// Whether the fault is HotSpot's own way to report a failed `guarantee`.
    fn is_failed_check(&self, address: u64) -> bool {
        self.assert_poison
            .is_some_and(|page| (page..page + POISON_PAGE).contains(&address))
    }

    /// The signature of an outcome that a maintainer should see, as its stable text; `None` for any other.
    pub(crate) fn signature(
        &self,
        modules: &Modules,
        walker: &dyn Walker,
        outcome: &WalkOutcome,
    ) -> Option<Rc<str>> {
        if matches!(outcome, WalkOutcome::Frames(_) | WalkOutcome::Error(_)) {
            return None;
        }
        let make = || -> Rc<str> {
            let name = walker.name();
            let signature = match outcome {
                WalkOutcome::Fault(fault) => {
                    let kind = if self.is_failed_check(fault.address.0) {
                        Kind::Guarantee
                    } else {
                        Signal::from_number(fault.signal).map_or(Kind::Breach, Kind::Signal)
                    };
                    Signature::new(kind, modules.symbolise(fault.pc).site(), name)
                }
                WalkOutcome::Wrote(fault) => {
                    Signature::new(Kind::Write, modules.symbolise(fault.pc).site(), name)
                }
                WalkOutcome::Breach(breach) => {
                    Signature::new(Kind::Breach, format!("{breach:?}").to_lowercase(), name)
                }
                WalkOutcome::WrongFrames(contradiction) => {
                    wrong_frames(name, self.oracle(), contradiction)
                }
                WalkOutcome::Hang | WalkOutcome::Frames(_) | WalkOutcome::Error(_) => {
                    Signature::new(Kind::Hang, "walk", name)
                }
            };
            signature.to_string().into()
        };
        Some(Rc::clone(
            self.known
                .borrow_mut()
                .entry(site(outcome))
                .or_insert_with(make),
        ))
    }
}
