//! Each boundary between two tiers, on both architectures: a context just inside and one just outside.

use walkfuzz_context::{
    Arch, BlobKind, Naturalness, PcFacts, Position, Register, Registers, Tier, WalkMode, tier,
};

const BLOB: u64 = 0x7000_0000;
const PC: u64 = BLOB + 0x40;
/// The slot of the return address.
const SLOT: u64 = 0x7fff_1048;
const FRAME_BYTES: u32 = 0x48;
const CALLER_FP: u64 = 0x7fff_1100;
const RETURN_ADDRESS: u64 = 0x7100_0000;
/// What the interrupted body had in fp.
const BODY_FP: u64 = 0xcafe_0000;

/// A context in the body of compiled Java code, and what is known about it; tests change what they are about.
#[derive(Clone, Copy)]
struct Case {
    before: Registers,
    after: Registers,
    facts_before: PcFacts,
    facts_after: PcFacts,
    natural: Naturalness,
    mode: WalkMode,
}

impl Case {
    fn new(arch: Arch) -> Self {
        let facts = PcFacts {
            kind: BlobKind::Nmethod,
            blob: Some(BLOB),
            instruction_boundary: true,
            position: Position::Body,
            frame_bytes: FRAME_BYTES,
            fp_is_frame_pointer: false,
        };
        let mut before = Registers::zeroed(arch);
        before.set(arch.pc(), PC);
        before.set(arch.sp(), SLOT - u64::from(FRAME_BYTES));
        before.set(arch.fp(), BODY_FP);
        if let Some(lr) = arch.lr() {
            before.set(lr, 0x1234);
        }
        Self {
            before,
            after: before,
            facts_before: facts,
            facts_after: facts,
            natural: Naturalness {
                sp_is_own_stack: true,
                sp_is_aligned: true,
                caller_fp: Some(CALLER_FP),
                return_slot_before: Some(SLOT),
                return_address: Some(RETURN_ADDRESS),
                ..Naturalness::default()
            },
            mode: WalkMode::InHandler,
        }
    }

    /// In code with a frame pointer: fp is the frame record's address.
    fn with_frame_pointer(arch: Arch, kind: BlobKind) -> Self {
        let mut case = Self::new(arch);
        for facts in [&mut case.facts_before, &mut case.facts_after] {
            facts.kind = kind;
            facts.fp_is_frame_pointer = true;
        }
        for registers in [&mut case.before, &mut case.after] {
            registers.set(arch.fp(), SLOT - 8);
        }
        case
    }

    fn pc(mut self, pc: u64) -> Self {
        self.after.set(self.after.arch.pc(), pc);
        self
    }

    fn sp(mut self, sp: u64) -> Self {
        self.after.set(self.after.arch.sp(), sp);
        self
    }

    fn fp(mut self, fp: u64) -> Self {
        self.after.set(self.after.arch.fp(), fp);
        self
    }

    /// No effect where there is no lr.
    fn lr(mut self, lr: u64) -> Self {
        if let Some(register) = self.after.arch.lr() {
            self.after.set(register, lr);
        }
        self
    }

    fn at(mut self, position: Position) -> Self {
        self.facts_after.position = position;
        self
    }

    fn mode(mut self, mode: WalkMode) -> Self {
        self.mode = mode;
        self
    }

    fn facts(mut self, change: impl FnOnce(&mut PcFacts)) -> Self {
        change(&mut self.facts_after);
        self
    }

    fn natural(mut self, change: impl FnOnce(&mut Naturalness)) -> Self {
        change(&mut self.natural);
        self
    }

    /// As the code leaves the registers at entry and before the return.
    fn entered(self, position: Position) -> Self {
        let sp = match self.after.arch {
            Arch::X86_64 => SLOT,
            Arch::Aarch64 => SLOT + 8,
        };
        self.pc(BLOB)
            .at(position)
            .sp(sp)
            .fp(CALLER_FP)
            .lr(RETURN_ADDRESS)
    }

    #[track_caller]
    fn is(self, expected: Tier) {
        let got = tier(
            &self.before,
            &self.after,
            &self.facts_before,
            &self.facts_after,
            &self.natural,
            self.mode,
        );
        assert_eq!(got, expected, "{:?} -> {:?}", self.before, self.after);
    }
}

fn each(test: impl Fn(Case)) {
    for arch in Arch::ALL {
        test(Case::new(arch));
    }
}

#[test]
fn t0_is_untouched_whatever_else_is_known() {
    each(|case| {
        case.is(Tier::T0);
        case.natural(|natural| *natural = Naturalness::default())
            .facts(|facts| *facts = PcFacts::UNKNOWN)
            .is(Tier::T0);
        case.pc(PC + 4).is(Tier::T1);
    });
}

#[test]
fn an_edit_of_any_other_register_is_t4() {
    for arch in Arch::ALL {
        let main = [Some(arch.pc()), Some(arch.sp()), Some(arch.fp()), arch.lr()];
        for register in (0..arch.register_count() as u8).map(Register) {
            if !main.contains(&Some(register)) {
                let mut case = Case::new(arch).mode(WalkMode::OtherThreadRunning);
                case.after.set(register, 1);
                case.is(Tier::T4);
            }
        }
    }
}

#[test]
fn t1_needs_an_instruction_of_the_same_blob() {
    each(|case| {
        let moved = case.pc(PC + 8);
        moved.is(Tier::T1);
        moved
            .facts(|facts| facts.instruction_boundary = false)
            .is(Tier::T4);
        moved
            .facts(|facts| facts.blob = Some(BLOB + 1))
            .is(Tier::T4);
        let mut nowhere = moved.facts(|facts| facts.blob = None);
        nowhere.facts_before.blob = None;
        nowhere.is(Tier::T4);
        moved.at(Position::Unknown).is(Tier::T4);
    });
}

#[test]
fn t1_needs_the_sp_that_the_position_leaves() {
    each(|case| {
        for position in [Position::Entry, Position::BeforeReturn] {
            let entered = case.entered(position);
            entered.is(Tier::T1);
            let sp = entered.after.sp().0;
            entered.sp(sp + 8).is(Tier::T4);
            entered.sp(sp - 8).is(Tier::T4);
        }
        let pushed = case.pc(BLOB + 1).at(Position::Pushed).fp(CALLER_FP);
        pushed.sp(SLOT - 8).is(Tier::T1);
        pushed.sp(SLOT).is(Tier::T4);
        pushed.sp(SLOT - 16).is(Tier::T4);
        let body = case.pc(BLOB + 9);
        body.is(Tier::T1);
        body.sp(SLOT - u64::from(FRAME_BYTES) - 8).is(Tier::T4);
        body.facts(|facts| facts.frame_bytes += 8).is(Tier::T4);
        // Also with the pc as it was.
        case.sp(SLOT).is(Tier::T4);
    });
}

#[test]
fn the_architectures_differ_at_entry() {
    for (arch, sp, tier) in [
        (Arch::X86_64, SLOT, Tier::T1),
        (Arch::X86_64, SLOT + 8, Tier::T4),
        (Arch::Aarch64, SLOT + 8, Tier::T1),
        (Arch::Aarch64, SLOT, Tier::T4),
    ] {
        Case::new(arch).entered(Position::Entry).sp(sp).is(tier);
    }
}

#[test]
fn t1_of_a_moved_sp_needs_to_know_the_slot_and_the_stack() {
    each(|case| {
        let entered = case.entered(Position::Entry);
        entered
            .natural(|natural| natural.return_slot_before = None)
            .is(Tier::T4);
        entered
            .natural(|natural| natural.sp_is_own_stack = false)
            .is(Tier::T4);
        entered
            .natural(|natural| natural.sp_is_aligned = false)
            .is(Tier::T4);
    });
}

#[test]
fn t1_needs_the_fp_that_the_position_leaves_else_it_is_t2_in_compiled_code() {
    each(|case| {
        for position in [Position::Entry, Position::BeforeReturn] {
            let entered = case.entered(position);
            entered.fp(CALLER_FP + 8).is(Tier::T2);
            entered.fp(BODY_FP).is(Tier::T2);
            entered
                .natural(|natural| natural.caller_fp = None)
                .is(Tier::T2);
        }
        let pushed = case.pc(BLOB + 1).at(Position::Pushed).sp(SLOT - 8);
        pushed.fp(CALLER_FP).is(Tier::T1);
        pushed.fp(SLOT - 8).is(Tier::T2);
        let body = case.pc(BLOB + 9);
        body.is(Tier::T1);
        body.fp(CALLER_FP).is(Tier::T1);
        body.fp(7).is(Tier::T2);
    });
}

#[test]
fn an_unclaimed_fp_is_the_callers() {
    each(|case| {
        // The thread was interrupted at entry; its fp is the caller's, though nobody said so.
        let mut case = case
            .pc(BLOB + 4)
            .at(Position::Pushed)
            .sp(SLOT - 8)
            .natural(|natural| natural.caller_fp = None);
        case.facts_before.position = Position::Entry;
        case.is(Tier::T1);
        case.facts_before.position = Position::Body;
        case.is(Tier::T2);
    });
}

#[test]
fn t2_is_an_arbitrary_fp_where_it_is_no_frame_pointer() {
    each(|case| {
        for mode in [
            WalkMode::InHandler,
            WalkMode::OtherThreadBlocked,
            WalkMode::OtherThreadRunning,
        ] {
            case.fp(7).mode(mode).is(Tier::T2);
            let with_frame_pointer = case.facts(|facts| facts.fp_is_frame_pointer = true);
            with_frame_pointer.fp(7).mode(mode).is(Tier::T4);
        }
        // Native code without frame pointers is in no blob; the pc is as it was.
        let mut native = case.fp(7).facts(|facts| {
            *facts = PcFacts {
                fp_is_frame_pointer: false,
                ..PcFacts::UNKNOWN
            }
        });
        native.facts_before = native.facts_after;
        native.is(Tier::T2);
        // Nothing known: fp may be a frame pointer.
        native.facts(|facts| *facts = PcFacts::UNKNOWN).is(Tier::T4);
        // An arbitrary fp does not excuse a wrong sp.
        case.fp(7).sp(SLOT - 8).is(Tier::T4);
    });
}

#[test]
fn garbage_fp_in_the_interpreter_is_t4() {
    for arch in Arch::ALL {
        let case = Case::with_frame_pointer(arch, BlobKind::Interpreter);
        case.is(Tier::T0);
        case.fp(7).is(Tier::T4);
        case.fp(SLOT).is(Tier::T4);
        case.pc(PC + 4).is(Tier::T1);
        case.pc(PC + 4).fp(CALLER_FP).is(Tier::T4);
    }
}

#[test]
fn code_with_frame_pointers_moves_fp_with_its_prologue() {
    for arch in Arch::ALL {
        let case = Case::with_frame_pointer(arch, BlobKind::NativeWrapper);
        let pushed = case.pc(BLOB + 4).at(Position::Pushed).sp(SLOT - 8);
        pushed.is(Tier::T1); // fp is the new frame's
        pushed.fp(CALLER_FP).is(Tier::T1); // or still the caller's
        pushed.fp(CALLER_FP + 8).is(Tier::T4);
        case.entered(Position::Entry).is(Tier::T1);
        case.entered(Position::Entry).fp(SLOT - 8).is(Tier::T4);
    }
}

#[test]
fn t3_is_registers_of_different_moments_of_a_running_thread() {
    each(|case| {
        let torn = case
            .pc(0x7200_0000)
            .sp(SLOT + 0x100)
            .fp(SLOT + 0x200)
            .lr(RETURN_ADDRESS + 4)
            .natural(|natural| {
                natural.pc_seen = true;
                natural.sp_seen = true;
                natural.fp_seen = true;
                natural.lr_seen = true;
            })
            .facts(|facts| *facts = PcFacts::UNKNOWN)
            .mode(WalkMode::OtherThreadRunning);
        torn.is(Tier::T3);
        torn.mode(WalkMode::InHandler).is(Tier::T4);
        torn.mode(WalkMode::OtherThreadBlocked).is(Tier::T4);
        torn.natural(|natural| natural.pc_seen = false).is(Tier::T4);
        torn.natural(|natural| natural.sp_seen = false).is(Tier::T4);
        torn.natural(|natural| natural.fp_seen = false).is(Tier::T4);
        torn.natural(|natural| natural.sp_is_own_stack = false)
            .is(Tier::T4);
        // A register that is as it was needs not to have been seen elsewhere.
        torn.pc(PC)
            .natural(|natural| natural.pc_seen = false)
            .is(Tier::T3);
        torn.fp(BODY_FP)
            .natural(|natural| natural.fp_seen = false)
            .is(Tier::T3);
        // What is T1 or T2 anyway stays so.
        torn.pc(PC)
            .sp(case.before.sp().0)
            .lr(0x1234)
            .facts(|facts| *facts = case.facts_before)
            .is(Tier::T2);
    });
}

#[test]
fn lr_holds_the_return_address_where_nothing_else_does() {
    let case = Case::new(Arch::Aarch64);
    for position in [Position::Entry, Position::BeforeReturn] {
        case.entered(position).is(Tier::T1);
        case.entered(position).lr(RETURN_ADDRESS + 4).is(Tier::T4);
        case.entered(position)
            .natural(|natural| natural.return_address = None)
            .is(Tier::T4);
    }
    // In the body it is free, but nobody can tell what for.
    case.lr(RETURN_ADDRESS).is(Tier::T1);
    case.lr(RETURN_ADDRESS + 4).is(Tier::T4);
    case.lr(RETURN_ADDRESS).fp(7).is(Tier::T2);
    let seen = case
        .lr(RETURN_ADDRESS + 4)
        .natural(|natural| natural.lr_seen = true);
    seen.is(Tier::T4);
    seen.mode(WalkMode::OtherThreadRunning).is(Tier::T3);
}

#[test]
fn tiers_are_ordered_and_named() {
    assert!(Tier::ALL.is_sorted());
    assert_eq!(
        Tier::ALL.map(|tier| tier.to_string()),
        ["T0", "T1", "T2", "T3", "T4"]
    );
    for tier in Tier::ALL {
        assert!(!tier.meaning().is_empty());
    }
}
