//! Edits words of samples that stand in a queue and wait to be walked: JFR's, in a JVM of its own. docs/queues.md says what comes of it.
#![no_main]

use libfuzzer_sys::{Corpus, fuzz_crossover, fuzz_mutator, fuzz_target};
use walkfuzz_context::generate::{crossover, mutate};
use walkfuzz_queues::elements;

fuzz_target!(init: elements::start(), |data: &[u8]| -> Corpus {
    if elements::input(data) {
        Corpus::Keep
    } else {
        Corpus::Reject
    }
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate(data, size, max_size, seed)
});

fuzz_crossover!(|first: &[u8], second: &[u8], out: &mut [u8], seed: u32| {
    crossover(first, second, out, seed)
});
