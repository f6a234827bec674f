//! Calls an iterator's functions in any order, beside what it has shown before.
#![no_main]

use libfuzzer_sys as _;

walkfuzz_queues::queue_target!(walkfuzz_queues::targets::Target::IteratorOps);
