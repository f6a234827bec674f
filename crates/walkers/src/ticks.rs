//! The clock that walks are timed with.

/// The time-stamp counter: constant rate, read without serialising (about 8 ns). Signal-safe.
#[cfg(target_arch = "x86_64")]
#[inline]
#[must_use]
pub fn ticks() -> u64 {
    // SAFETY: every x86_64 has it; the kernel leaves it enabled for user space.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// The virtual counter: constant rate. Signal-safe.
#[cfg(target_arch = "aarch64")]
#[inline]
#[must_use]
pub fn ticks() -> u64 {
    let value: u64;
    // SAFETY: reading the virtual counter is allowed in user space on Linux.
    unsafe { core::arch::asm!("mrs {}, cntvct_el0", out(reg) value, options(nomem, nostack)) };
    value
}

/// Ticks per second, measured over a few milliseconds.
#[must_use]
pub fn tick_hz() -> u64 {
    use std::time::{Duration, Instant};
    let (began, first) = (Instant::now(), ticks());
    while began.elapsed() < Duration::from_millis(5) {
        std::hint::spin_loop();
    }
    let passed = ticks().wrapping_sub(first);
    (passed as f64 / began.elapsed().as_secs_f64()) as u64
}
