//! What depends on the architecture: breakpoints, and code that goes around them.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(super) use aarch64::*;
#[cfg(target_arch = "x86_64")]
pub(super) use x86_64::*;
