//! Walks a live JVM's threads from another thread, from contexts whose registers are of different moments: what a walker meets that lets threads run on.
#![no_main]

use libfuzzer_sys::{fuzz_crossover, fuzz_mutator};
use walkfuzz_harness::libfuzzer::{cross_inputs, mutate_input};

walkfuzz_harness::libfuzzer_target!(walker = "agct-remote-running");

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate_input(data, size, max_size, seed)
});

fuzz_crossover!(|first: &[u8], second: &[u8], out: &mut [u8], seed: u32| {
    cross_inputs(first, second, out, seed)
});
