//! Tiers: how natural a context is.
//!
//! A fault found with registers that no program ever has says little; a fault found with registers that the code at that pc
//! really passes through is a bug waiting for the right sample. [`tier`] tells them apart. It is a pure function of the
//! registers before and after the perturbation, of facts about the two pcs, of facts about the walked thread, and of how the
//! walker meets its thread. Facts that are missing never raise a context to a better tier.
//!
//! # The tiers
//! - **T0**: no register differs. Single-stepped contexts are T0: the processor itself has made them.
//! - **T1**: a state that the code at that pc really passes through. pc is unchanged or on an instruction boundary of the blob it
//!   was in; sp, fp (and lr) are what the code leaves in them at that pc, by the table below.
//! - **T2**: as T0 or T1, but for an arbitrary fp where fp is no frame pointer: compiled Java code uses it as a general register, so
//!   do stubs, and native code built without frame pointers. Not in the interpreter, which always has one.
//! - **T3**: pc, sp and fp (and lr) are each the thread's own value of some moment, though not of the same one, and the walker walks
//!   running threads ([`WalkMode::OtherThreadRunning`]): it reads registers one after the other while the thread goes on.
//! - **T4**: all else: wild values, a garbage fp in the interpreter, torn registers in a handler or of a blocked thread. Also an edit of
//!   any other register, for nothing says what the code keeps there; minimising drops such an edit if it is not needed.
//!
//! If several hold, the lowest counts. T1 to T3 say that a context *can* be; the [witness](crate::witness) says how often its like *was*.
//!
//! # What the code leaves in sp and fp
//! With R the address of the slot that holds (aarch64: will or did hold) the activation's return address, and F the bytes from
//! sp in the body up to R ([`PcFacts::frame_bytes`]):
//!
//! | position | x86_64 sp | aarch64 sp | fp | aarch64 lr |
//! |---|---|---|---|---|
//! | entry, before return | R | R + 8 | the caller's | the return address |
//! | pushed | R - 8 | R - 8 | the caller's; if fp is a frame pointer also R - 8 | unchanged or the return address |
//! | body | R - F | R - F | if fp is a frame pointer R - 8; else unchanged or the caller's | unchanged or the return address |
//! | unknown | unchanged, and pc too | so | so | so |
//!
//! x86_64: `call` pushes the return address, so that R is where sp points at entry; `push rbp` moves sp to R - 8 (the return address at sp + 8),
//! and `sub rsp, n` to R - F. On the way out `add rsp, n` leads back to R - 8 and `pop rbp` to R.
//!
//! aarch64: `bl` leaves the return address in lr and stores nothing. The frame record, x29 and lr, goes to the top of the frame: with S the
//! caller's sp, x29 at S - 16 and lr at S - 8, which is R. `stp x29, x30, [sp, #-16]!` therefore gives sp = R - 8 with the return address at
//! sp + 8, as on x86_64; at entry and before `ret` sp is S = R + 8. HotSpot's frame size on either architecture is F + 8 bytes: it counts R's
//! word.
//!
//! What lies between these positions (aarch64's `sub sp, sp, #n` before its `stp`, a stub that pushes more than fp) is
//! [`Position::Unknown`]: such a state is reached by stepping, not by edits.
//!
//! Signal-safe: all of it; no allocation, no lock, no panic.

use std::fmt;

use crate::address::Address;
use crate::blob::BlobKind;
use crate::registers::{Arch, MAX_REGISTERS, Registers};

/// How natural a context is; lower is more natural. The [module](self) defines them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Tier {
    /// Untouched.
    T0,
    /// A state that the code at that pc passes through.
    T1,
    /// An arbitrary fp where it is no frame pointer.
    T2,
    /// Registers of different moments, and the walker walks running threads.
    T3,
    /// Everything else.
    T4,
}

impl Tier {
    /// Every tier, the most natural first.
    pub const ALL: [Tier; 5] = [Tier::T0, Tier::T1, Tier::T2, Tier::T3, Tier::T4];

    /// `T0` to `T4`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Tier::T0 => "T0",
            Tier::T1 => "T1",
            Tier::T2 => "T2",
            Tier::T3 => "T3",
            Tier::T4 => "T4",
        }
    }

    /// What the tier means, as a phrase.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Tier::T0 => "untouched",
            Tier::T1 => "a state that the code passes through",
            Tier::T2 => "an arbitrary fp where it is no frame pointer",
            Tier::T3 => "registers of different moments of a running thread",
            Tier::T4 => "registers that no program has",
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// How the walker meets the thread that it walks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WalkMode {
    /// In the walked thread's own signal handler: the kernel took all registers at one moment.
    InHandler,
    /// From another thread, while the walked one stands still.
    OtherThreadBlocked,
    /// From another thread, while the walked one runs on.
    OtherThreadRunning,
}

/// Where in its blob a pc is, as far as the frame is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Position {
    /// Nothing of the frame is there yet: x86_64's return address is at sp, aarch64's in lr.
    Entry,
    /// The frame pointer (aarch64: and lr) is pushed, and no more or no longer more: the return address is at sp + 8.
    Pushed,
    /// The whole frame is there.
    Body,
    /// The frame is gone again: as at [`Position::Entry`].
    BeforeReturn,
    /// None of these, or nobody knows.
    Unknown,
}

/// What the engine knows about a pc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PcFacts {
    /// The kind of code.
    pub kind: BlobKind,
    /// Where the blob starts, if the pc is in one: the blob's identity.
    pub blob: Option<u64>,
    /// Whether an instruction starts at the pc.
    pub instruction_boundary: bool,
    /// Where in the blob.
    pub position: Position,
    /// Bytes from sp in the body up to the slot of the return address: HotSpot's frame size less one word.
    pub frame_bytes: u32,
    /// Whether code and walkers may rely on fp at this pc: it holds this frame's or (at entry, say) its caller's frame pointer.
    /// False in compiled Java code, in stubs without a frame of their own and in native code without frame pointers.
    pub fp_is_frame_pointer: bool,
}

impl PcFacts {
    /// What is known about a pc of which nothing is known.
    pub const UNKNOWN: Self = Self {
        kind: BlobKind::Outside,
        blob: None,
        instruction_boundary: false,
        position: Position::Unknown,
        frame_bytes: 0,
        fp_is_frame_pointer: true,
    };
}

/// What the engine knows about the walked thread and about the registers after the perturbation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Naturalness {
    /// The new sp is in the thread's own stack.
    pub sp_is_own_stack: bool,
    /// The new sp is aligned as the architecture wants it (x86_64: 8 bytes, aarch64: 16).
    pub sp_is_aligned: bool,
    /// What the caller of the interrupted activation had in fp, if known.
    pub caller_fp: Option<u64>,
    /// Where the return address of the interrupted activation is (aarch64: its slot in the frame record, even while it is in lr), if
    /// known. R in the [module's](self) table.
    pub return_slot_before: Option<u64>,
    /// The return address itself; only aarch64's lr needs it.
    pub return_address: Option<u64>,
    /// The thread was seen with the new pc at another moment.
    pub pc_seen: bool,
    /// The thread was seen with the new sp at another moment.
    pub sp_seen: bool,
    /// The thread was seen with the new fp at another moment.
    pub fp_seen: bool,
    /// The thread was seen with the new lr at another moment (aarch64).
    pub lr_seen: bool,
}

/// The tier of the context `after`, made from `before`. The [module](self) has the definitions.
#[must_use]
pub fn tier(
    before: &Registers,
    after: &Registers,
    facts_before: &PcFacts,
    facts_after: &PcFacts,
    natural: &Naturalness,
    mode: WalkMode,
) -> Tier {
    if before == after {
        return Tier::T0;
    }
    if before.arch != after.arch || other_register_differs(before, after) {
        return Tier::T4;
    }
    let sp_unchanged = before.sp() == after.sp();
    let sp_is_possible = sp_unchanged || natural.sp_is_own_stack && natural.sp_is_aligned;
    if !sp_is_possible {
        return Tier::T4;
    }
    let pc_unchanged = before.pc() == after.pc();
    let lr_unchanged = match after.arch.lr() {
        Some(lr) => before.get(lr) == after.get(lr),
        None => true,
    };

    let same_code = pc_unchanged
        || facts_after.instruction_boundary
            && facts_after.blob.is_some()
            && facts_after.blob == facts_before.blob;
    let sp_fits = pc_unchanged && sp_unchanged
        || expected_sp(after.arch, facts_after, natural) == Some(Address(after.sp().0));
    let lr_fits =
        pc_unchanged && lr_unchanged || lr_fits(lr_unchanged, after, facts_after, natural);
    if same_code && sp_fits && lr_fits {
        if fp_fits(before, after, facts_before, facts_after, natural) {
            return Tier::T1;
        }
        if !facts_after.fp_is_frame_pointer {
            return Tier::T2;
        }
    }

    let each_seen = (pc_unchanged || natural.pc_seen)
        && (sp_unchanged || natural.sp_seen)
        && (before.fp() == after.fp() || natural.fp_seen)
        && (lr_unchanged || natural.lr_seen);
    if each_seen && mode == WalkMode::OtherThreadRunning {
        Tier::T3
    } else {
        Tier::T4
    }
}

/// Whether a register other than pc, sp, fp and lr differs.
fn other_register_differs(before: &Registers, after: &Registers) -> bool {
    let arch = before.arch;
    (0..MAX_REGISTERS as u8)
        .map(crate::registers::Register)
        .filter(|&register| {
            register != arch.pc()
                && register != arch.sp()
                && register != arch.fp()
                && Some(register) != arch.lr()
        })
        .any(|register| before.get(register) != after.get(register))
}

/// The sp column of the table; `None` where it has no answer.
fn expected_sp(arch: Arch, facts: &PcFacts, natural: &Naturalness) -> Option<Address> {
    let slot = natural.return_slot_before?;
    let sp = match (facts.position, arch) {
        (Position::Entry | Position::BeforeReturn, Arch::X86_64) => slot,
        (Position::Entry | Position::BeforeReturn, Arch::Aarch64) => slot.wrapping_add(8),
        (Position::Pushed, _) => slot.wrapping_sub(8),
        (Position::Body, _) => slot.wrapping_sub(u64::from(facts.frame_bytes)),
        (Position::Unknown, _) => return None,
    };
    Some(Address(sp))
}

/// The fp column.
fn fp_fits(
    before: &Registers,
    after: &Registers,
    facts_before: &PcFacts,
    facts_after: &PcFacts,
    natural: &Naturalness,
) -> bool {
    let fp = after.fp();
    let unchanged = fp == before.fp();
    if unchanged && before.pc() == after.pc() {
        return true;
    }
    // Where the interrupted code had not yet made fp its own, fp itself tells what the caller's was.
    let callers = natural.caller_fp == Some(fp.0)
        || unchanged
            && matches!(
                facts_before.position,
                Position::Entry | Position::BeforeReturn
            );
    let own = || {
        natural
            .return_slot_before
            .is_some_and(|slot| fp.0 == slot.wrapping_sub(8))
    };
    match facts_after.position {
        Position::Entry | Position::BeforeReturn => callers,
        Position::Pushed => callers || facts_after.fp_is_frame_pointer && own(),
        Position::Body if facts_after.fp_is_frame_pointer => own(),
        Position::Body => unchanged || callers,
        Position::Unknown => false,
    }
}

/// The lr column; always fits where there is no lr.
fn lr_fits(unchanged: bool, after: &Registers, facts: &PcFacts, natural: &Naturalness) -> bool {
    let Some(lr) = after.arch.lr() else {
        return true;
    };
    let is_return_address = natural.return_address == Some(after.get(lr));
    match facts.position {
        Position::Entry | Position::BeforeReturn => is_return_address,
        Position::Pushed | Position::Body => unchanged || is_return_address,
        Position::Unknown => false,
    }
}
