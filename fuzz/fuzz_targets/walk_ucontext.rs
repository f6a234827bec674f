//! Walks the stacks of a live JVM's threads from perturbed register contexts.
#![no_main]

walkfuzz_harness::libfuzzer_target!();
