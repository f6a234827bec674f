//! One lane of a record: what one thread writes about its walks.
//!
//! Contract: every method with `&self` is signal-safe (no allocation, lock, system call, formatting or panic), costs a few
//! nanoseconds, and wants **one writer at a time**: a thread and the handlers that run on it in turn. Two writers at
//! once lose counts and mix up records; they corrupt nothing else. A handler that can interrupt another one needs a lane of its own,
//! and so does a forked copy of the process, because the mapping is shared with it.

use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};

use walkfuzz_context::{Arch, BlobKind, Registers, arch};

use crate::buckets::{DepthBuckets, LatencyBuckets};
use crate::layout::{
    CODE_SLOTS, COUNTERS, INPUT_BYTES, LaneBlock, MAX_WALKERS, RECENT_WALKS, SLOT_BREACH,
    SLOT_FAULT, SLOT_FRAMES, SLOT_HANG, SLOT_WRONG_FRAMES, TALLIES, code_slot, hash_start,
    little_endian, mix,
};
use crate::outcome::{FaultRecord, WalkOutcome};

/// A walker's place in the record's table: the position in [`crate::Options::walkers`].
///
/// Two modes of one walker are two entries, since their codes must not be mixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct WalkerId(pub u8);

macro_rules! counters {
    ($($(#[$doc:meta])* $variant:ident, $name:literal;)*) => {
        /// What a lane counts beside outcomes. The numbers are part of the mapped file's format: add at the end.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Counter {
            $($(#[$doc])* $variant,)*
        }

        impl Counter {
            /// Every counter in the order of the file.
            pub const ALL: &'static [Counter] = &[$(Counter::$variant),*];

            /// The short stable name used in JSON.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Counter::$variant => $name,)*
                }
            }
        }
    };
}

counters! {
    /// Inputs begun. Counted by [`Lane::begin_input`].
    Inputs, "inputs";
    /// Untouched walks that were made as a control.
    ControlsTried, "controls_tried";
    /// Of these, how many gave frames.
    ControlsSucceeded, "controls_succeeded";
    /// Faults at a SafeFetch instruction, resumed by the JVM.
    NearMisses, "near_misses";
    /// Walks that the guard had to end. Counted by [`Lane::end_walk`].
    Recoveries, "recoveries";
    /// Walks that never came back by themselves. Counted by [`Lane::end_walk`].
    Hangs, "hangs";
    /// Samples or walks that were given up before they began.
    Drops, "drops";
    /// Values that a stale landscape resolved to.
    StaleHits, "stale_hits";
    /// Values that nothing in this process resolved to.
    UnresolvedValues, "unresolved_values";
    /// Contexts that the kernel delivered.
    Samples, "samples";
    /// Of these, how many were of a thread outside Java.
    OutsideJava, "outside_java";
    /// Handlers that held a thread for a series of walks.
    Parks, "parks";
    /// Single steps.
    Steps, "steps";
    /// Ticks spent in walkers. Counted by [`Lane::end_walk`].
    WalkerTicks, "walker_ticks";
    /// Ticks of the thread, the denominator of the walker's share.
    TotalTicks, "total_ticks";
    /// Samples asked for; fewer may be delivered.
    Requested, "requested";
    /// Samples that the kernel merged into another one.
    Coalesced, "coalesced";
    /// Walks that were still open when the next one began. Counted by [`Lane::begin_walk`].
    Abandoned, "abandoned";
    /// Walks that wrote to the stack of the walked thread.
    StackWrites, "stack_writes";
    /// Basic blocks of the walk code that walks have reached. In totals the greatest number of any process: each begins anew.
    BlocksSeen, "blocks_seen";
    /// Basic blocks of the walk code that are watched; in totals as above.
    BlocksPlanted, "blocks_planted";
    /// Perturbed walks of inputs that the user gave; the others of the process were bred.
    GivenWalks, "given_walks";
    /// Walks whose frames an oracle has compared with its own: both gave frames.
    OracleCompared, "oracle_compared";
    /// Of these, how many were the same.
    OracleAgreed, "oracle_agreed";
    /// Of these, how many were the same as far as the shorter one went.
    OraclePrefixes, "oracle_prefixes";
    /// Of these, how many differ at contexts of which nobody can say what is right.
    OracleUnproven, "oracle_unproven";
    /// Faults that a shipped profiler's own fault handler dealt with.
    SelfProtected, "self_protected";
    /// Perturbed calls of a shipped profiler's handler that asked AsyncGetCallTrace, as the untouched call of the same signal had.
    AgctCompared, "agct_compared";
    /// Of these: frames for the untouched context, none for the perturbed one.
    AgctLost, "agct_lost";
    /// Of these: other frames, or frames where there were none.
    AgctOther, "agct_other";
    /// Words that a call which was left had changed, and that were put back.
    PutBack, "put_back";
    /// Of the walks that an oracle has compared: those whose frames differ because of a known mistake of the oracle itself.
    OracleKnown, "oracle_known";
}

const _: () = assert!(Counter::ALL.len() <= COUNTERS);

/// A walk of that many ticks (about 0.1 ms) was not walking all the time: its thread had lost its core. The walker's share is one of
/// CPU time, so that no more of it counts there; the histograms have all of it.
const PREEMPTED: u32 = 1 << 18;

/// Register words that the running program's architecture has.
const NATIVE_WORDS: usize = match Arch::NATIVE {
    Arch::X86_64 => 17,
    Arch::Aarch64 => 33,
};

// Constants, because looking the register up by the context's own architecture costs more than storing it.
const NATIVE_PC: usize = match Arch::NATIVE {
    Arch::X86_64 => arch::x86_64::PC.0 as usize,
    Arch::Aarch64 => arch::aarch64::PC.0 as usize,
};
const NATIVE_SP: usize = match Arch::NATIVE {
    Arch::X86_64 => arch::x86_64::SP.0 as usize,
    Arch::Aarch64 => arch::aarch64::SP.0 as usize,
};
const NATIVE_FP: usize = match Arch::NATIVE {
    Arch::X86_64 => arch::x86_64::FP.0 as usize,
    Arch::Aarch64 => arch::aarch64::FP.0 as usize,
};

/// Walker, index, blob kind, flags, outcome kind and value of a walk in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Meta(pub(crate) u64);

impl Meta {
    const PERTURBED: u64 = 1 << 24;

    #[inline]
    pub(crate) const fn new(walker: WalkerId, index: u8, kind: BlobKind, perturbed: bool) -> Self {
        let perturbed = if perturbed { Self::PERTURBED } else { 0 };
        Meta(walker.0 as u64 | (index as u64) << 8 | (kind as u64) << 16 | perturbed)
    }

    /// With an outcome: its kind, and frames, code or signal.
    #[inline]
    const fn with_outcome(self, outcome: &WalkOutcome) -> Self {
        let value = match outcome {
            WalkOutcome::Frames(frames) => *frames,
            WalkOutcome::Error(code) => code.0.cast_unsigned(),
            WalkOutcome::Fault(fault) => fault.signal.cast_unsigned(),
            WalkOutcome::Breach(breach) => *breach as u32,
            WalkOutcome::Wrote(fault) => fault.signal.cast_unsigned(),
            WalkOutcome::WrongFrames(contradiction) => contradiction.number(),
            WalkOutcome::Hang => 0,
        };
        Meta(self.0 | (outcome.kind() as u64) << 28 | (value as u64) << 32)
    }

    pub(crate) const fn walker(self) -> WalkerId {
        WalkerId(self.0 as u8)
    }

    pub(crate) const fn index(self) -> u8 {
        (self.0 >> 8) as u8
    }

    pub(crate) const fn blob_kind(self) -> u8 {
        (self.0 >> 16) as u8
    }

    pub(crate) const fn is_perturbed(self) -> bool {
        self.0 & Self::PERTURBED != 0
    }

    /// 0 while there is no outcome.
    pub(crate) const fn outcome_kind(self) -> u8 {
        (self.0 >> 28) as u8 & 15
    }

    pub(crate) const fn value(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// What one thread writes. Lies in the mapped file.
#[repr(transparent)]
pub struct Lane(LaneBlock<AtomicU64>);

impl std::fmt::Debug for Lane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lane")
            .field("owner", &self.owner())
            .field("walks", &self.walks())
            .finish_non_exhaustive()
    }
}

impl Lane {
    /// Takes the lane for `owner` (a thread id). False if somebody has it. Signal-safe, from any thread.
    #[inline]
    pub fn claim(&self, owner: u32) -> bool {
        let holder = u64::from(owner) + 1;
        let free =
            self.0
                .owner
                .holder
                .compare_exchange(0, holder, Ordering::Acquire, Ordering::Relaxed);
        if free.is_ok() {
            add(&self.0.owner.claims, 1);
        }
        free.is_ok()
    }

    /// Gives the lane back. What it holds stays and is added to by the next owner.
    #[inline]
    pub fn release(&self) {
        self.0.owner.holder.store(0, Ordering::Release);
    }

    /// Who claimed the lane.
    #[must_use]
    pub fn owner(&self) -> Option<u32> {
        let holder = self.0.owner.holder.load(Ordering::Relaxed);
        holder.checked_sub(1).map(|owner| owner as u32)
    }

    /// Remembers the input that the next walks come from: its length, and up to 4 KiB of it.
    pub fn begin_input(&self, input: &[u8]) {
        let slot = &self.0.input;
        let number = get(&slot.begun).wrapping_add(1);
        set(&slot.begun, number);
        compiler_fence(Ordering::SeqCst);
        let kept = input.get(..INPUT_BYTES).unwrap_or(input);
        let mut hash = hash_start(kept.len());
        for (word, chunk) in slot.bytes.iter().zip(kept.chunks(8)) {
            let value = little_endian(chunk);
            set(word, value);
            hash = mix(hash, value);
        }
        set(&slot.length, input.len() as u64);
        set(&slot.hash, hash);
        slot.written.store(number, Ordering::Release);
        self.add(Counter::Inputs, 1);
    }

    /// Remembers what is about to be walked. Call it immediately before the walker.
    ///
    /// `index` is the walk's place in its batch, `registers` what the walker gets, `untouched` the sample they were made from (the
    /// same for a control), `kind` what the pc of `registers` lies in. The walk counts as perturbed if a register differs; for
    /// perturbations of anything else call [`Lane::mark_perturbed`] next. Registers are those of the native architecture.
    #[inline(always)] // Half of what a sampler's handler is made of, whose calls a core cannot predict.
    pub fn begin_walk(
        &self,
        index: u8,
        walker: WalkerId,
        registers: &Registers,
        untouched: &Registers,
        kind: BlobKind,
    ) {
        let slot = &self.0.in_flight;
        let previous = get(&slot.begun);
        if get(&slot.sequence) & 1 != 0 {
            self.add(Counter::Abandoned, 1);
        }
        let number = previous.wrapping_add(1);
        set(&slot.begun, number);
        // Compiler only: what one thread stored before it was killed is there in full, whatever the order of its stores; what the
        // compiler has not stored yet is not.
        compiler_fence(Ordering::SeqCst);
        let mut differing = 0;
        for position in 0..NATIVE_WORDS {
            let (now, before) = (registers.words[position], untouched.words[position]);
            differing |= now ^ before;
            set(&slot.registers[position], now);
            set(&slot.untouched[position], before);
        }
        let meta = Meta::new(walker, index, kind, differing != 0);
        set(&slot.meta, meta.0);
        let recent = &self.0.recent[number as usize % RECENT_WALKS];
        set(&recent.pc, registers.words[NATIVE_PC]);
        set(&recent.sp, registers.words[NATIVE_SP]);
        set(&recent.fp, registers.words[NATIVE_FP]);
        set(&recent.meta, meta.0);
        let open = number.wrapping_mul(2).wrapping_sub(1);
        slot.sequence.store(open, Ordering::Release);
        compiler_fence(Ordering::SeqCst);
    }

    /// Says that the open walk is perturbed although no register differs (a queue element, memory).
    #[inline]
    pub fn mark_perturbed(&self) {
        let slot = &self.0.in_flight;
        set(&slot.meta, get(&slot.meta) | Meta::PERTURBED);
    }

    /// Closes the open walk and counts its outcome.
    ///
    /// `ticks` is the walker's time, in the unit of [`crate::Options::tick_hz`]. Recoveries, hangs and walker ticks are counted here and
    /// nowhere else. Without an open walk nothing happens.
    #[inline(always)] // As `begin_walk`.
    pub fn end_walk(&self, outcome: &WalkOutcome, ticks: u32) {
        compiler_fence(Ordering::SeqCst);
        let slot = &self.0.in_flight;
        let sequence = get(&slot.sequence);
        if sequence & 1 == 0 {
            return;
        }
        let number = get(&slot.begun);
        let meta = Meta(get(&slot.meta));
        let tally = (meta.walker().0 as usize % MAX_WALKERS) * 2 + usize::from(meta.is_perturbed());
        let tally = &self.0.tallies[tally % TALLIES];
        let code = match outcome {
            WalkOutcome::Frames(frames) => {
                count(&tally.depth, DepthBuckets::index(*frames));
                count(&tally.latency, LatencyBuckets::index(ticks));
                SLOT_FRAMES
            }
            WalkOutcome::Error(code) => {
                count(&tally.latency, LatencyBuckets::index(ticks));
                code_slot(code.0)
            }
            WalkOutcome::Fault(fault) => {
                self.add(Counter::Recoveries, 1);
                let last = &self.0.last_fault;
                let signal = u64::from(fault.signal.cast_unsigned()) << 32;
                set(&last.walk, 0);
                compiler_fence(Ordering::SeqCst);
                set(
                    &last.signal_code,
                    signal | u64::from(fault.code.cast_unsigned()),
                );
                set(&last.pc, fault.pc.0);
                set(&last.address, fault.address.0);
                last.walk.store(number, Ordering::Release);
                self.count_fault(fault, meta.is_perturbed());
                SLOT_FAULT
            }
            WalkOutcome::Hang => {
                self.add(Counter::Recoveries, 1);
                self.add(Counter::Hangs, 1);
                SLOT_HANG
            }
            WalkOutcome::WrongFrames(_) => SLOT_WRONG_FRAMES,
            WalkOutcome::Breach(_) | WalkOutcome::Wrote(_) => SLOT_BREACH,
        };
        count(&tally.codes, code % CODE_SLOTS);
        self.add(Counter::WalkerTicks, u64::from(ticks.min(PREEMPTED)));
        let recent = &self.0.recent[number as usize % RECENT_WALKS];
        set(&recent.meta, meta.with_outcome(outcome).0);
        slot.sequence
            .store(sequence.wrapping_add(1), Ordering::Release);
    }

    /// Counts a fault at its place. Places that find no room are in the tallies alone.
    #[cold]
    fn count_fault(&self, fault: &FaultRecord, perturbed: bool) {
        let place = self
            .0
            .faults
            .iter()
            .find(|place| matches!(get(&place.pc), pc if pc == 0 || pc == fault.pc.0));
        let Some(place) = place else {
            return;
        };
        if get(&place.pc) == 0 {
            let signal = u64::from(fault.signal.cast_unsigned()) << 32;
            set(
                &place.signal_code,
                signal | u64::from(fault.code.cast_unsigned()),
            );
            place.pc.store(fault.pc.0, Ordering::Release);
        }
        let counts = if perturbed {
            &place.perturbed
        } else {
            &place.untouched
        };
        add(counts, 1);
    }

    /// Counts a control walk; the walk itself goes through [`Lane::begin_walk`] and [`Lane::end_walk`] like any other.
    #[inline]
    pub fn control(&self, succeeded: bool) {
        self.add(Counter::ControlsTried, 1);
        self.add(Counter::ControlsSucceeded, u64::from(succeeded));
    }

    /// Adds to a counter.
    #[inline]
    pub fn add(&self, counter: Counter, more: u64) {
        if let Some(word) = self.0.counters.get(counter as usize) {
            add(word, more);
        }
    }

    /// Reads a counter.
    #[inline]
    #[must_use]
    pub fn counter(&self, counter: Counter) -> u64 {
        self.0.counters.get(counter as usize).map_or(0, get)
    }

    /// Walks that ended.
    #[inline]
    #[must_use]
    pub fn walks(&self) -> u64 {
        get(&self.0.in_flight.sequence) / 2
    }

    /// Whether a walk is open.
    #[inline]
    #[must_use]
    pub fn is_walking(&self) -> bool {
        get(&self.0.in_flight.sequence) & 1 != 0
    }
}

// One writer: a load and a store, no locked instruction.
#[inline]
fn add(word: &AtomicU64, more: u64) {
    set(word, get(word).wrapping_add(more));
}

#[inline]
fn count(words: &[AtomicU64], index: usize) {
    if let Some(word) = words.get(index) {
        add(word, 1);
    }
}

#[inline]
fn get(word: &AtomicU64) -> u64 {
    word.load(Ordering::Relaxed)
}

#[inline]
fn set(word: &AtomicU64, value: u64) {
    word.store(value, Ordering::Relaxed);
}
