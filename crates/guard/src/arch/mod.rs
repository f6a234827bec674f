//! What differs per architecture. `x86_64.rs` and `aarch64.rs` hold the same functions in the same order.
//!
//! The trampolines are naked functions. Each call of [`call`] or [`call_on_stack`] leaves this frame on the caller's
//! stack, lowest word first; [`RecoveryFrame`](crate::call::RecoveryFrame) is its common part:
//!
//! | word | content |
//! |---|---|
//! | 0 | floating-point control (x86_64: mxcsr and x87 control word, aarch64: fpcr) |
//! | 1 | recovery sp of the enclosing guarded call, 0 if there is none |
//! | 2 | number of the enclosing guarded call, 0 if there is none |
//! | 3 | where the fault is to be written, or null |
//! | then | callee-saved registers, frame pointer and return address last, so that frame-pointer unwinders get through |
//!
//! `landing` unwinds this frame after the fault handler has pointed sp at it.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::*;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::*;
