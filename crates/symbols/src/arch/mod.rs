//! What differs between the architectures. Both modules have the same functions in the same order, and both build
//! everywhere: a crash log of one machine may be read on the other.

pub(crate) mod aarch64;
pub(crate) mod x86_64;
