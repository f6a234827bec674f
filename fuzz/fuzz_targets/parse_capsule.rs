//! The reader of capsules: no file makes it panic or take more memory than it may, and what it reads, it writes and reads the same.
//!
//! An input is a list of changes to a good file: place, length, bytes. Without them no input would get past the first words.
#![no_main]

use libfuzzer_sys::fuzz_target;
use walkfuzz_capsule::{Capsule, example};
use walkfuzz_coverage::{Domain, Feedback, spread};

/// The reader is not instrumented (scripts/rustc-wrapper): what it says of an input is the feedback.
fn mark(read: &Result<Capsule, walkfuzz_capsule::FormatError>) {
    let feedback = Feedback::extra_counters();
    match read {
        Ok(capsule) => feedback.mark(Domain::Depth, capsule.pages.len() as u64),
        Err(error) => {
            let said = error.to_string();
            let letters = said.bytes().filter(u8::is_ascii_alphabetic);
            let hash = letters.fold(0, |hash, byte| spread(hash ^ u64::from(byte)));
            feedback.mark(Domain::FaultSite, hash);
        }
    }
}

fuzz_target!(|data: &[u8]| {
    thread_local!(static GOOD: Vec<u8> = example().to_core());
    let mut core = GOOD.with(Clone::clone);
    let mut rest = data;
    while let [low, high, length, tail @ ..] = rest {
        // Headers and notes are in the first pages; the others are bytes that may be anything.
        let at = usize::from(u16::from_le_bytes([*low, *high])) % core.len().min(0x3000);
        let (bytes, next) = tail.split_at(usize::from(*length).min(tail.len()));
        for (target, byte) in core.iter_mut().skip(at).zip(bytes) {
            *target = *byte;
        }
        rest = next;
    }
    let read = Capsule::from_core(&core);
    mark(&read);
    if let Ok(capsule) = read {
        let again = Capsule::from_core(&capsule.to_core());
        assert_eq!(again.ok().as_ref(), Some(&capsule), "does not read back");
    }
    mark(&Capsule::from_bytes(data));
});
