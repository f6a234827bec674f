//! Edits words of samples that stand in a queue and wait to be walked: of our queue, or (WALKFUZZ_QUEUE=jfr) of JFR's in a JVM of its own.
#![no_main]

use libfuzzer_sys::{fuzz_crossover, fuzz_mutator};
use walkfuzz_context::generate::{crossover, mutate};

walkfuzz_queues::queue_target!(walkfuzz_queues::targets::Target::QueueElements);

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate(data, size, max_size, seed)
});

fuzz_crossover!(|first: &[u8], second: &[u8], out: &mut [u8], seed: u32| {
    crossover(first, second, out, seed)
});
