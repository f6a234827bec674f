//! The reader of mapped records: whatever a killed process, a full disk or a bad one has left is read or refused in one sentence, and
//! what is read adds up. An input patches a whole record: offset (3 bytes), length, bytes; a first byte of 255 gives a record's bytes.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use walkfuzz_coverage::{Domain, Feedback, spread};
use walkfuzz_record::patched::patched;
use walkfuzz_record::{RecordReader, Totals};

fuzz_target!(|data: &[u8]| {
    let read = match data {
        [255, bytes @ ..] => RecordReader::parse(Path::new("raw"), bytes),
        patches => RecordReader::parse(Path::new("patched"), &patched(patches)),
    };
    let (feedback, letters) = (Feedback::extra_counters(), u8::is_ascii_alphabetic);
    let mut mark = |said: String| {
        let hash = said
            .bytes()
            .filter(letters)
            .fold(0, |hash, byte| spread(hash ^ u64::from(byte)));
        feedback.mark(Domain::FaultSite, hash);
    };
    match read {
        Err(error) => mark(error.to_string()),
        Ok(record) => {
            record
                .damage
                .iter()
                .for_each(|damage| mark(damage.to_string()));
            record.in_flight().into_iter().for_each(&mut mark);
            let totals = Totals::of([&record]).outcomes(None);
            feedback.mark(Domain::Depth, u64::from(totals.walks().leading_zeros()));
        }
    }
});
