//! Walks the stacks of a live JVM's threads from perturbed frames: sp, fp and pc by value, which is all that the walker gets.
#![no_main]

use libfuzzer_sys::{fuzz_crossover, fuzz_mutator};
use walkfuzz_harness::libfuzzer::{cross_inputs, mutate_input};

walkfuzz_harness::libfuzzer_target!(walker = "asgst-iterator-frame");

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate_input(data, size, max_size, seed)
});

fuzz_crossover!(|first: &[u8], second: &[u8], out: &mut [u8], seed: u32| {
    cross_inputs(first, second, out, seed)
});
