//! Ten million guarded calls, a hundred thousand of them given up: nothing leaks.

mod common;

use std::time::{Duration, Instant};

use common::{arch, attempt, guarded_thread, nothing};
use walkfuzz_guard::{Alarm, Guard, GuardOptions};

const CALLS: u64 = 10_000_000;
const RECOVERIES: u64 = 100_000;

#[derive(Debug, PartialEq, Eq)]
struct State {
    mask: u64,
    signal_stack: (usize, usize, i32),
    descriptors: usize,
    mappings: usize,
    float_control: u64,
    in_place: bool,
}

impl State {
    fn now(guard: &Guard) -> Self {
        Self {
            mask: common::blocked(),
            signal_stack: common::signal_stack(),
            descriptors: std::fs::read_dir("/proc/self/fd")
                .expect("descriptors")
                .count(),
            mappings: std::fs::read_to_string("/proc/self/maps")
                .expect("maps")
                .lines()
                .count(),
            float_control: arch::float_control(),
            in_place: guard.is_in_place(),
        }
    }
}

#[test]
fn ten_million_calls() {
    let slot = guarded_thread();
    let guard = Guard::install(GuardOptions::default()).unwrap();
    let alarm = Alarm::new(slot).unwrap();
    alarm.arm(Duration::from_millis(50)).unwrap();
    let crashes: [(walkfuzz_guard::GuardedFn, i32); 4] = [
        (common::read, libc::SIGSEGV),
        (arch::spoil_and_crash, libc::SIGSEGV),
        (arch::illegal, libc::SIGILL),
        (arch::breakpoint, libc::SIGTRAP),
    ];
    // Once, so that what is set up lazily (heap, standard output) is there.
    State::now(&guard);
    let before = State::now(&guard);
    let counted = (slot.calls(), slot.recoveries());
    let start = Instant::now();
    let mut given_up = 0u64;
    for number in 0..CALLS {
        if number % (CALLS / RECOVERIES) == 0 {
            let (crash, signal) = crashes[given_up as usize % crashes.len()];
            // A fault and never a hang: each call has its own number.
            assert_eq!(
                attempt(slot, crash, 8, 0, 0).map(|fault| fault.signal),
                Some(signal)
            );
            given_up += 1;
        } else {
            assert!(attempt(slot, nothing, 0, 0, 0).is_none());
        }
    }
    let took = start.elapsed();
    assert_eq!(given_up, RECOVERIES);
    assert_eq!(
        (slot.calls() - counted.0, slot.recoveries() - counted.1),
        (CALLS, RECOVERIES)
    );
    assert!(!slot.is_armed());
    assert_eq!(State::now(&guard), before);
    println!("{CALLS} guarded calls, {RECOVERIES} of them given up, in {took:.2?}");
    assert!(took < Duration::from_secs(60), "{took:?}");
}
