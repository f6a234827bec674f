//! Calls a safepoint queue's functions in any order, beside a model of what it holds.
#![no_main]

use libfuzzer_sys as _;

walkfuzz_queues::queue_target!(walkfuzz_queues::targets::Target::QueueOps);
