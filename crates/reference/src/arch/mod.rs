//! What depends on the architecture. Both modules exist everywhere and hold the same in the same order, so that both can be tested anywhere.

mod aarch64;
mod x86_64;

use walkfuzz_context::Arch;

/// Slots of frames, in bytes from the frame pointer, and how far code is looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// The caller's frame pointer (frame_<arch>.hpp, `link_offset`).
    pub(crate) link: i64,
    /// The return address (`return_addr_offset`).
    pub(crate) return_address: i64,
    /// What the caller's stack pointer is (`sender_sp_offset`), without what the interpreter added to it.
    pub(crate) sender_sp: i64,
    /// `interpreter_frame_method_offset`.
    pub(crate) method: i64,
    /// `interpreter_frame_bcp_offset`; where releases differ, all of them. What lies at a wrong one is no address in a method's bytecodes.
    pub(crate) bcp: &'static [i64],
    /// `interpreter_frame_initial_sp_offset`: nothing of the frame lies above it.
    pub(crate) initial_sp: i64,
    /// `entry_frame_call_wrapper_offset` where the tables lack it.
    pub(crate) call_wrapper: i64,
}

/// How a frame that is being set up or taken down stands on the stack: offsets from sp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Edge {
    /// Where the return address is; `None` for the link register.
    pub(crate) return_address: Option<u64>,
    /// Where the caller's frame pointer is; `None` while it is still, or again, in its register.
    pub(crate) link: Option<u64>,
    /// What the caller's stack pointer is.
    pub(crate) sender_sp: u64,
}

/// The longest prologue and epilogue that is looked at.
pub(crate) const LOOKED_AT: usize = 64;

pub(crate) const fn shape(arch: Arch) -> Shape {
    match arch {
        Arch::X86_64 => x86_64::SHAPE,
        Arch::Aarch64 => aarch64::SHAPE,
    }
}

/// Takes the signature off a return address.
#[inline]
pub(crate) const fn strip(arch: Arch, pc: u64) -> u64 {
    match arch {
        Arch::X86_64 => x86_64::strip(pc),
        Arch::Aarch64 => aarch64::strip(pc),
    }
}

/// The frame after the instructions `done`, all of a method from its entry; `None` once it is complete, and for code that is not understood.
pub(crate) fn prologue(arch: Arch, done: &[u8], frame_size: u64) -> Option<Edge> {
    match arch {
        Arch::X86_64 => x86_64::prologue(done, frame_size),
        Arch::Aarch64 => aarch64::prologue(done, frame_size),
    }
}

/// The frame before the instructions `next`, if they end a method; `None` while it is complete.
pub(crate) fn epilogue(arch: Arch, next: &[u8], frame_size: u64) -> Option<Edge> {
    match arch {
        Arch::X86_64 => x86_64::epilogue(next, frame_size),
        Arch::Aarch64 => aarch64::epilogue(next, frame_size),
    }
}

/// Where code that has set up no frame was called from.
pub(crate) const fn called(arch: Arch) -> Edge {
    match arch {
        Arch::X86_64 => x86_64::CALLED,
        Arch::Aarch64 => aarch64::CALLED,
    }
}
