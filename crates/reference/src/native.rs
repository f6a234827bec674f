//! Frames of C and C++, by frame pointers.

use walkfuzz_context::{Address, Fp, Pc, Sp};
use walkfuzz_vmstructs::{Memory, Span};

use crate::arch::strip;
use crate::frame::End;
use crate::reference::Reference;

/// A frame of code that is none of the JVM's making. That it keeps frame pointers is a guess.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NativeFrame {
    /// Where it is.
    pub pc: Pc,
    /// Its stack pointer.
    pub sp: Sp,
    /// What its frame pointer register holds.
    pub fp: Fp,
}

impl NativeFrame {
    /// Its caller, whatever that is.
    ///
    /// # Errors
    /// [`End::NoCode`] if there is no frame at its frame pointer on `stack`; [`End::Unreadable`].
    pub fn caller<M: Memory + ?Sized>(
        &self,
        reference: &Reference,
        memory: &M,
        stack: &Span,
    ) -> Result<Self, End> {
        let fp = self.fp.0;
        let is_on_stack = stack.start.0 <= fp && fp <= stack.end.0;
        if !fp.is_multiple_of(8) || !is_on_stack || fp <= self.sp.0 {
            return Err(End::NoCode(self.pc));
        }
        let shape = reference.shape;
        let word = |offset| {
            let at = Address(fp.wrapping_add_signed(offset));
            memory.read_u64(at).map_err(|_| End::Unreadable(at))
        };
        Ok(Self {
            pc: Pc(strip(reference.arch, word(shape.return_address)?)),
            sp: Sp(fp.wrapping_add_signed(shape.sender_sp)),
            fp: Fp(word(shape.link)?),
        })
    }
}
