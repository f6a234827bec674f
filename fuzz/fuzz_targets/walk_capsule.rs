//! Walks snapshots from perturbed register contexts, without a JVM. `walkfuzz snapshots take` makes them.
#![no_main]

use std::ffi::{c_char, c_int};

use libfuzzer_sys::{fuzz_crossover, fuzz_mutator};
use walkfuzz_harness::snapshots::libfuzzer::{cross_inputs, initialize, mutate_input, test_input};

/// Called by libFuzzer before anything else.
///
/// # Safety
/// libFuzzer passes main's arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn LLVMFuzzerInitialize(
    argc: *mut c_int,
    argv: *mut *mut *mut c_char,
) -> c_int {
    // SAFETY: libFuzzer passes main's argc and argv.
    unsafe { initialize(argc, argv) }
}

/// Called by libfuzzer-sys for each input.
#[unsafe(no_mangle)]
#[expect(
    improper_ctypes_definitions,
    reason = "libfuzzer-sys declares it with a slice; both sides are Rust"
)]
pub extern "C" fn rust_fuzzer_test_input(data: &[u8]) -> i32 {
    test_input(data)
}

/// Read by AddressSanitizer's runtime, if it is linked in, before `main`.
#[unsafe(no_mangle)]
pub extern "C" fn __asan_default_options() -> *const c_char {
    walkfuzz_harness::libfuzzer::ASAN_OPTIONS.as_ptr()
}

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate_input(data, size, max_size, seed)
});

fuzz_crossover!(|first: &[u8], second: &[u8], out: &mut [u8], seed: u32| {
    cross_inputs(first, second, out, seed)
});
