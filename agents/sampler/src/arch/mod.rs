//! Per-architecture parts: both files have the same functions in the same order.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::*;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::*;

use libc::siginfo_t;

/// How many expirations the kernel merged into this signal of a POSIX timer; 0 for other signals.
///
/// # Safety
/// `info` is a handler's.
#[inline]
pub(crate) unsafe fn overrun(info: *const siginfo_t) -> u64 {
    /// Behind signo, errno, code and padding come the timer's number and the overrun (siginfo.h, `_timer`).
    const OVERRUN: usize = 20;
    // SAFETY: the caller's promise; the kernel fills 128 bytes.
    unsafe {
        if (*info).si_code != libc::SI_TIMER {
            return 0;
        }
        let overrun = info.cast::<u8>().add(OVERRUN).cast::<i32>().read();
        u64::try_from(overrun).unwrap_or(0)
    }
}

/// The bytes at `at`, if they lie in the page of `pc`. Signal-safe.
///
/// # Safety
/// The page of `pc` is readable.
unsafe fn code_near<const N: usize>(pc: u64, at: u64) -> Option<[u8; N]> {
    const PAGE: u64 = !4095;
    let last = at.wrapping_add(N as u64 - 1);
    if at & PAGE != pc & PAGE || last & PAGE != pc & PAGE {
        return None;
    }
    // SAFETY: the caller's promise; an array of bytes has no alignment.
    Some(unsafe { (at as *const [u8; N]).read_volatile() })
}
