//! Walks of edited memory: a class of their own, off unless asked for.
//!
//! Nothing that they show is feedback, breeds register-only walks or is counted with them: they have a record of their own (`synthetic-PID.map`
//! beside the run's), counts of their own, signatures of their own (the detail "synthetic memory") and the verdict "synthetic". A fault that the
//! same registers give without the edits is not theirs, and not counted either.

use serde::{Deserialize, Serialize};
use walkfuzz_context::generate::Rng;
use walkfuzz_context::{Address, Arch, Landscape, MemoryEdit, MemoryEdits};
use walkfuzz_engine::Snapshots;
use walkfuzz_record::finding::{MemoryChange, hex};
use walkfuzz_record::recorder::Options;
use walkfuzz_record::{Lane, Recorder, RunFolder};

use crate::error::HarnessError;

/// What a signature has as its detail.
pub(crate) const DETAIL: &str = "synthetic memory";

/// What walks of edited memory came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyntheticEffort {
    /// Walks, those from untouched registers included.
    pub walks: u64,
    /// Of those, walks that left their snapshot.
    pub left: u64,
    /// Of those, walks that faulted, hung or broke the contract, and did not without the edits.
    pub hits: u64,
    /// Batches in which the walk from untouched registers ended with another number of frames or another code than without the edits, and
    /// batches.
    pub changed: (u64, u64),
    /// Batches whose edits had no word to edit.
    pub without_place: u64,
    /// Signatures that the puppet has confirmed, and those that it has not.
    pub signatures: (usize, usize),
}

/// A word that is edited now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edited {
    pub(crate) edit: MemoryEdit,
    pub(crate) address: Address,
    pub(crate) before: u64,
    pub(crate) after: u64,
}

impl Edited {
    pub(crate) fn described(&self) -> MemoryChange {
        MemoryChange {
            edit: self.edit.to_string(),
            address: hex(self.address.0),
            before: hex(self.before),
            after: hex(self.after),
        }
    }
}

/// What a session keeps for such walks.
pub(crate) struct Synthetic {
    /// One bred batch in so many; 0: none.
    every: u64,
    seed: u64,
    /// Those of the batch that is walked.
    pub(crate) edits: MemoryEdits,
    /// What became of them; empty once they are edited back.
    pub(crate) edited: Vec<Edited>,
    pub(crate) effort: SyntheticEffort,
    record: Option<(&'static Lane, &'static Recorder)>,
}

impl Synthetic {
    pub(crate) fn new(every: u64, seed: u64) -> Self {
        Self {
            // Every batch would leave none to count them beside.
            every: if every == 1 { 2 } else { every },
            seed,
            edits: MemoryEdits::NONE,
            edited: Vec::new(),
            effort: SyntheticEffort::default(),
            record: None,
        }
    }

    /// Whether the bred batch with that number is one.
    pub(crate) fn is_due(&self, batch: u64) -> bool {
        batch.checked_rem(self.every) == Some(0)
    }

    /// New edits for the batch with that number.
    pub(crate) fn breed(&mut self, batch: u64) {
        let mut dice = Rng::new(self.seed.wrapping_add(batch));
        self.edits = MemoryEdits::generate(&mut dice, Arch::NATIVE);
    }

    /// The lane of the record for such walks, which is made when it is needed first.
    pub(crate) fn lane(
        &mut self,
        run: &RunFolder,
        options: &Options,
    ) -> Result<&'static Lane, HarnessError> {
        if let Some((lane, recorder)) = self.record {
            recorder.alive();
            return Ok(lane);
        }
        let name = format!("synthetic-{}.map", std::process::id());
        let recorder = Recorder::create(&run.path().join(name), options)?;
        // As the other record: written to until the process ends.
        let recorder: &'static Recorder = Box::leak(Box::new(recorder));
        let lane = recorder.lane(0).ok_or(HarnessError::System {
            what: "the record has no lane",
            source: std::io::Error::from_raw_os_error(libc::EINVAL),
        })?;
        self.record = Some((lane, recorder));
        Ok(lane)
    }

    /// Edits the held snapshot's memory, in words of which `is_ours` holds. Whether there was any.
    pub(crate) fn apply(
        &mut self,
        engine: &mut Snapshots,
        landscape: &impl Landscape,
        is_ours: impl Fn(Address) -> bool,
    ) -> bool {
        self.undo(engine);
        for edit in self.edits.iter() {
            let Some(address) = edit.address(landscape).filter(|address| is_ours(*address)) else {
                continue;
            };
            // What is there is known by writing something.
            let Some(before) = engine.edit_memory(address, 0) else {
                continue;
            };
            let after = edit.apply(before, landscape).unwrap_or(before);
            engine.edit_memory(address, after);
            self.edited.push(Edited {
                edit: *edit,
                address,
                before,
                after,
            });
        }
        self.edited
            .iter()
            .any(|edited| edited.before != edited.after)
    }

    /// Edits everything back.
    pub(crate) fn undo(&mut self, engine: &mut Snapshots) {
        // The last first: two edits may be of one word.
        while let Some(edited) = self.edited.pop() {
            engine.edit_memory(edited.address, edited.before);
        }
    }
}
