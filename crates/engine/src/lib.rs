//! Engines that bring contexts to a walker.
//!
//! Everything that walks goes through [`Engine::visit`]: the engine holds a thread still (a [`Moment`]) and the visitor walks
//! it, as often as it likes. *Live park* holds a Java thread in its handler, *step* moves it one instruction between visits,
//! *frozen* visits a forked copy in which nothing else moves, *capsule* a snapshot in a file,
//! without a JVM.
//!
//! Contract: one engine per process, driven by one flow of control, which moves onto the held threads (see the `baton`
//! module): a visitor runs in a signal handler's frame on the held thread, yet may allocate and lock, because threads are held
//! only while they execute Java code.

mod arch;
mod baton;
mod errand;
mod error;
mod freeze;
mod frozen;
mod hand;
mod held_stack;
mod live;
mod moment;
mod rseq;
mod shared;
mod snapshots;
mod step;
mod tls;
mod worker;

pub use errand::{Errand, Errands};
pub use error::EngineError;
pub use freeze::{FrozenCopy, FrozenEnd, freeze};
pub use frozen::Frozen;
pub use held_stack::{HeldStack, Written};
pub use live::{Bounds, Counts, Filter, Live, await_turn, worker_started};
pub use moment::{Behind, Elsewhere, Moment};
pub use shared::Shared;
pub use snapshots::{SnapshotWalker, Snapshots};
pub use step::Step;
pub use walkfuzz_guard::has_trap_flag as can_step;
pub use walkfuzz_walkers::{Ended, Walked, fault_record, tick_hz, ticks};
pub use worker::{MAX_WORKERS, Worker, sampling_timer};

/// What kind of moment a visit wants.
pub struct Request<'a> {
    /// The workload thread, counted in turn when `None`.
    pub worker: Option<usize>,
    /// The kind of work that the thread shall do, as the workload counts from 1; 0 lets it choose.
    pub kind: u32,
    /// Single steps between the sample and the moment (0 where the architecture cannot step).
    pub steps: u8,
    /// Never use a context that served before.
    pub fresh: bool,
    /// Sees each natural context on the way.
    pub natural: &'a dyn Fn(&Moment),
}

impl Request<'_> {
    /// A moment that has not served before, of whichever thread is next.
    #[must_use]
    pub const fn fresh() -> Self {
        Self {
            worker: None,
            kind: 0,
            steps: 0,
            fresh: true,
            natural: &|_| {},
        }
    }
}

/// Brings contexts to a visitor.
pub trait Engine {
    /// Stable short name: `live-park`, `step`, `frozen`, `capsule`.
    fn name(&self) -> &'static str;

    /// Lets the held thread go and holds one as `request` says; the one that was let go is walked meanwhile. `None`: nobody was held, or this engine
    /// lets no thread be walked from others.
    ///
    /// # Errors
    /// As [`visit`](Self::visit).
    fn let_go(
        &mut self,
        _request: &Request<'_>,
        _behind: Behind<'_>,
    ) -> Result<Option<Walked>, EngineError> {
        Ok(None)
    }

    /// Holds a thread as `request` says and shows it to `visitor`.
    ///
    /// # Errors
    /// When no thread could be held in time.
    fn visit(
        &mut self,
        request: &Request<'_>,
        visitor: &mut dyn FnMut(&mut Moment),
    ) -> Result<(), EngineError>;

    /// The moment that the last visit saw, if its thread is still held (and not in a copy of it).
    fn held(&mut self) -> Option<&mut Moment>;

    /// Counts since the start. Makes a system call per thread: not for the hot path.
    fn counts(&self) -> Counts;

    /// Contexts held since the start, single steps included. Free of system calls.
    fn moments(&self) -> u64;

    /// Leaves the held thread and returns to the thread that the flow began on.
    ///
    /// # Errors
    /// As for `visit`.
    fn go_home(&mut self) -> Result<(), EngineError>;
}
