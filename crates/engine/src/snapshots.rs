//! The capsule engine: moments are snapshots in files, walked in this process without a JVM.
//!
//! Nothing is held and nothing else moves: the same walks of the same snapshots end the same each time. It has no races and
//! one thread to a snapshot. A walk that leaves the snapshot's memory has no outcome; it is counted apart.

use std::cell::RefCell;
use std::rc::Rc;

use walkfuzz_capsule::capture::Ground;
use walkfuzz_capsule::resident::Resident;
use walkfuzz_capsule::{CaptureError, Ended as End, Outcome};
use walkfuzz_context::{Address, Registers};
use walkfuzz_guard::{Fault, FaultKind, register_thread};
use walkfuzz_record::{Code, Generation};
use walkfuzz_walkers::{
    Call, Ended, Frame, Start, ThreadHandle, TraceBuffer, Walked, Walker, ticks,
};

use crate::error::EngineError;
use crate::live::Counts;
use crate::moment::{Elsewhere, Moment};
use crate::worker::cpu_nanoseconds;
use crate::{Engine, Request};

/// How many places where walks left their snapshot are remembered until somebody asks.
const LEFT: usize = 1024;

/// The capsule engine.
pub struct Snapshots {
    moment: Moment,
    shared: Rc<RefCell<Stage>>,
    shown: Option<usize>,
    moments: u64,
    cpu_at_start: u64,
}

struct Stage {
    resident: Resident,
    left: Vec<Address>,
    left_count: u64,
    /// A hash over the outcomes of all walks, in order.
    chain: u64,
}

impl Stage {
    fn link(&mut self, end: &End) {
        const PRIME: u64 = 0x0000_0100_0000_01b3;
        let mut add =
            |word: u64| self.chain = (self.chain ^ word).wrapping_mul(PRIME).rotate_left(23);
        match end {
            End::Outcome(Outcome::Frames(outcome)) => {
                add(1);
                add(u64::from(outcome.frames.cast_unsigned()));
                add(outcome.hash);
                add(u64::from(outcome.near_misses));
            }
            End::Outcome(Outcome::Fault(outcome)) => {
                add(2);
                add(u64::from(outcome.signal.cast_unsigned()));
                add(u64::from(outcome.code.cast_unsigned()));
                add(outcome.address.0);
                add(u64::from(outcome.near_misses));
                outcome.registers.words.iter().for_each(|word| add(*word));
            }
            End::Hang => add(3),
            End::MissingPage(address) => {
                add(4);
                add(address.0);
            }
            End::SystemCall(number) => {
                add(5);
                add(number.cast_unsigned());
            }
        }
    }
}

impl Snapshots {
    /// Walks the snapshots that are in `resident`.
    ///
    /// # Errors
    /// There is none.
    pub fn new(resident: Resident) -> Result<Self, EngineError> {
        if resident.is_empty() {
            return Err(EngineError::NoSnapshot);
        }
        let slot = register_thread().map_err(|_| EngineError::NoSnapshot)?;
        let shared = Rc::new(RefCell::new(Stage {
            resident,
            left: Vec::with_capacity(LEFT),
            left_count: 0,
            chain: 0,
        }));
        let moment = Moment::elsewhere(Box::new(Walks(Rc::clone(&shared))), slot);
        Ok(Self {
            moment,
            shared,
            shown: None,
            moments: 0,
            cpu_at_start: cpu_nanoseconds(own_thread()),
        })
    }

    /// How many snapshots there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.borrow().resident.len()
    }

    /// Never: an engine has at least one.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A hash over how all walks so far ended, in order, to the last register: equal walks have equal chains.
    #[must_use]
    pub fn chain(&self) -> u64 {
        self.shared.borrow().chain
    }

    /// Makes `word` what walks of the held snapshot find at an address; what they found before. See [`Resident::edit`].
    pub fn edit_memory(&mut self, address: Address, word: u64) -> Option<u64> {
        self.shared.borrow_mut().resident.edit(address, word)
    }

    /// Work with a puppet over the snapshot of that number, as it was taken: the judge of its walks.
    ///
    /// # Errors
    /// When there can be no puppet.
    pub fn on_ground<T>(
        &self,
        snapshot: usize,
        work: impl FnOnce(Ground<'_>) -> T,
    ) -> Result<T, CaptureError> {
        let stage = self.shared.borrow();
        Ok(work(stage.resident.ground(snapshot)?))
    }

    /// Walks that left their snapshot, and where the first of them since this was asked last read.
    pub fn left(&mut self, mut visit: impl FnMut(Address)) -> u64 {
        let mut stage = self.shared.borrow_mut();
        stage.left.drain(..).for_each(&mut visit);
        stage.left_count
    }
}

fn own_thread() -> i32 {
    // SAFETY: no preconditions.
    unsafe { libc::gettid() }
}

impl Engine for Snapshots {
    fn name(&self) -> &'static str {
        "capsule"
    }

    /// `request.worker` is the snapshot's number, modulo how many there are; the other wishes cannot be met.
    fn visit(
        &mut self,
        request: &Request<'_>,
        visitor: &mut dyn FnMut(&mut Moment),
    ) -> Result<(), EngineError> {
        let index = request.worker.unwrap_or(0);
        if self.shown != Some(index) {
            let mut stage = self.shared.borrow_mut();
            stage
                .resident
                .show(index)
                .map_err(|error| EngineError::Snapshot(error.to_string()))?;
            if let Some(untouched) = stage.resident.untouched() {
                self.moment.untouched = untouched;
            }
            self.shown = Some(index);
            self.moment.serial += 1;
            self.moment.worker = index;
            self.moments += 1;
        }
        visitor(&mut self.moment);
        Ok(())
    }

    fn held(&mut self) -> Option<&mut Moment> {
        Some(&mut self.moment)
    }

    fn counts(&self) -> Counts {
        Counts {
            parks: self.moments,
            samples: self.moments,
            cpu_nanoseconds: cpu_nanoseconds(own_thread()).saturating_sub(self.cpu_at_start),
            ..Counts::default()
        }
    }

    fn moments(&self) -> u64 {
        self.moments
    }

    fn go_home(&mut self) -> Result<(), EngineError> {
        Ok(())
    }
}

struct Walks(Rc<RefCell<Stage>>);

impl Elsewhere for Walks {
    fn walk(
        &mut self,
        registers: &Registers,
        depth: i32,
        trace: &mut TraceBuffer,
        fault: &mut Fault,
    ) -> Option<Walked> {
        let stage = &mut *self.0.borrow_mut();
        let depth = trace.reset(depth);
        let began = ticks();
        let end = stage.resident.walk(registers, depth);
        let ticks = ticks().wrapping_sub(began);
        stage.link(&end);
        let (ended, near_misses) = match end {
            End::Outcome(Outcome::Frames(outcome)) => {
                let frames = stage.resident.frames(depth);
                trace.trace.num_frames = frames.count;
                let target = trace.trace.frames.cast::<u8>();
                let length = frames.bytes.len().min(depth as usize * size_of::<Frame>());
                // SAFETY: the trace has room for `depth` frames since `reset`; any bytes are frames.
                unsafe { std::ptr::copy_nonoverlapping(frames.bytes.as_ptr(), target, length) };
                let code = Code(frames.count);
                let ended = if frames.overran {
                    Ended::Overran(code)
                } else {
                    Ended::Returned(code)
                };
                (ended, outcome.near_misses)
            }
            End::Outcome(Outcome::Fault(outcome)) => {
                *fault = Fault {
                    kind: FaultKind::Signal,
                    signal: outcome.signal,
                    code: outcome.code,
                    address: outcome.address,
                    registers: outcome.registers,
                    ..Fault::NONE
                };
                (Ended::Faulted, outcome.near_misses)
            }
            End::Hang => {
                *fault = Fault {
                    kind: FaultKind::Hang,
                    ..Fault::NONE
                };
                (Ended::Faulted, 0)
            }
            End::MissingPage(address) => {
                stage.left_count += 1;
                if stage.left.len() < LEFT {
                    stage.left.push(address);
                }
                return None;
            }
            End::SystemCall(_) => return None,
        };
        Some(Walked {
            ended,
            near_misses,
            ticks,
        })
    }
}

/// What walks of snapshots are walks of: the engine knows the function.
#[derive(Clone, Debug)]
pub struct SnapshotWalker {
    /// As in the capsule.
    pub name: &'static str,
    /// Whose codes it speaks.
    pub generation: Generation,
}

impl Walker for SnapshotWalker {
    fn name(&self) -> &'static str {
        self.name
    }

    fn generation(&self) -> Generation {
        self.generation
    }

    fn prepare(&self, _: &mut TraceBuffer, _: i32, _: ThreadHandle, _: Start) -> Option<Call> {
        None
    }
}
