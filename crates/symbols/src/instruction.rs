//! Instruction boundaries of a piece of code, and what each instruction does to the frame.
//!
//! This is what tells a state that code really passes through from one that it never has: a pc between two instructions
//! is never natural, and the distance of sp from its place in the body follows from the instructions that the prologue
//! and the epilogue have executed.

use walkfuzz_context::{Arch, Pc};

use crate::arch;

/// What an instruction does to the stack and the frame pointer. Only the forms that compilers and HotSpot's assembler
/// use for frames have a kind of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InstructionKind {
    /// Pushes something other than the frame pointer.
    Push,
    /// `push %rbp`; `stp x29, x30, [sp, #-n]!`.
    PushFp,
    /// Pops something other than the frame pointer.
    Pop,
    /// `pop %rbp`; `ldp x29, x30, [sp], #n`.
    PopFp,
    /// Makes the frame larger by so many bytes: `sub $n, %rsp`; `sub sp, sp, #n`.
    SubSp(i64),
    /// Makes the frame smaller by so many bytes: `add $n, %rsp`; `add sp, sp, #n`.
    AddSp(i64),
    /// Stores the frame pointer in the frame without moving sp: `mov %rbp, n(%rsp)`; `stp x29, x30, [sp, #n]`.
    SaveFp,
    /// Loads the frame pointer from the frame without moving sp: `mov n(%rsp), %rbp`; `ldp x29, x30, [sp, #n]`.
    RestoreFp,
    /// Returns to the caller.
    Ret,
    /// Calls: the next instruction is a return address.
    Call,
    /// `leave`: sp is taken from fp, and fp is popped.
    Leave,
    /// fp is taken from sp: `mov %rsp, %rbp`; `mov x29, sp` or `add x29, sp, #n`.
    MovFpSp,
    /// sp is taken from fp: `mov %rbp, %rsp` or `lea n(%rbp), %rsp`; `mov sp, x29`.
    MovSpFp,
    /// Something else, or bytes that are no instruction.
    Other,
}

/// One instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Instruction {
    /// Where it begins.
    pub address: Pc,
    /// Its length in bytes, at least 1.
    pub len: u8,
    /// What it does to the frame.
    pub kind: InstructionKind,
    /// By how many bytes it moves sp, where that is a constant; 0 for calls and returns as seen from their own frame
    /// after the callee returned, and 0 where it is unknown ([`InstructionKind::Leave`], [`InstructionKind::MovSpFp`]).
    pub sp_delta: i32,
}

impl Instruction {
    /// Where the next instruction begins.
    #[must_use]
    pub fn end(&self) -> Pc {
        Pc(self.address.0.wrapping_add(u64::from(self.len)))
    }
}

/// The instructions of one piece of code, found by decoding from its start.
///
/// Linear decoding is right for code that its compiler emitted without data in between, which holds for HotSpot's blobs
/// from their code's begin to its end. Where bytes decode to nothing, the boundaries after them are guesses: see
/// [`InstructionMap::clean`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstructionMap {
    instructions: Vec<Instruction>,
    undecodable: usize,
}

impl InstructionMap {
    /// Decodes `code`, whose first byte lies at `start`.
    #[must_use]
    pub fn of(arch: Arch, code: &[u8], start: Pc) -> Self {
        let (instructions, undecodable) = match arch {
            Arch::X86_64 => arch::x86_64::decode(code, start),
            Arch::Aarch64 => arch::aarch64::decode(code, start),
        };
        Self {
            instructions,
            undecodable,
        }
    }

    /// All instructions by address.
    #[must_use]
    pub fn instructions(&self) -> &[Instruction] {
        &self.instructions
    }

    /// How many pieces of the code were no instruction.
    #[must_use]
    pub fn undecodable(&self) -> usize {
        self.undecodable
    }

    /// Whether every byte belongs to an instruction.
    #[must_use]
    pub fn clean(&self) -> bool {
        self.undecodable == 0
    }

    /// Whether an instruction begins at `pc`.
    #[must_use]
    pub fn is_boundary(&self, pc: Pc) -> bool {
        self.at(pc).is_some()
    }

    /// The instruction that begins at `pc`.
    #[must_use]
    pub fn at(&self, pc: Pc) -> Option<&Instruction> {
        self.instructions
            .get(self.instructions.partition_point(|i| i.address < pc))
            .filter(|i| i.address == pc)
    }

    /// The instruction that covers `pc`, whether it begins there or not.
    #[must_use]
    pub fn covering(&self, pc: Pc) -> Option<&Instruction> {
        let after = self.instructions.partition_point(|i| i.address <= pc);
        self.instructions
            .get(after.checked_sub(1)?)
            .filter(|i| pc.0 - i.address.0 < u64::from(i.len))
    }

    /// The instruction that ends at `pc`: for a return address, the call.
    #[must_use]
    pub fn before(&self, pc: Pc) -> Option<&Instruction> {
        let at = self.instructions.partition_point(|i| i.address < pc);
        self.instructions
            .get(at.checked_sub(1)?)
            .filter(|i| i.end() == pc)
    }
}
