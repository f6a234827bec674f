//! Which field of a thread AsyncGetCallTrace sets to 1 while it walks, read from its code.

#[cfg(any(target_arch = "aarch64", test))]
mod aarch64;
#[cfg(any(target_arch = "x86_64", test))]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(super) use aarch64::first_byte_set_to_one;
#[cfg(target_arch = "x86_64")]
pub(super) use x86_64::first_byte_set_to_one;

/// Fields below are not of a `JavaThread` that has a vtable, a stack and handles before them, and above are none.
const OFFSETS: std::ops::Range<u64> = 0x40..0x2000;
