//! The parser of crash logs: any bytes give a log and a plan, a signature reads back, and nothing of a stranger's options
//! passes that could do harm. Seeds: `zstd -d corpus/hs_err/*.zst --output-dir-flat fuzz/corpus/parse_hs_err`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use walkfuzz_coverage::{Domain, Feedback, spread};
use walkfuzz_triage::{CrashLog, CrashPlan, KnownIssues, Signature, WalkerCrash};

/// What the plan says is feedback, beside the parser's own coverage.
fn mark(log: &CrashLog, plan: &CrashPlan) {
    let feedback = Feedback::extra_counters();
    let lists = [
        log.native_frames.len(),
        log.register_notes.len(),
        log.top_of_stack.words.len(),
        log.code_bytes.bytes.len(),
        log.threads.len(),
        log.events.len(),
        log.libraries.len(),
        log.flags.len(),
    ];
    for (which, length) in (0u64..).zip(lists) {
        let size = u64::from(usize::BITS - length.leading_zeros());
        feedback.mark(Domain::TopMethod, which << 5 | size.min(31));
    }
    let why = plan.walker_crash.why();
    let letters = why.bytes().filter(u8::is_ascii_alphabetic).take(24);
    let hash = letters.fold(0, |hash, byte| spread(hash ^ u64::from(byte)));
    feedback.mark(Domain::FaultSite, hash);
}

fuzz_target!(|data: &[u8]| {
    let log = CrashLog::parse(data);
    let plan = CrashPlan::new(&log, KnownIssues::built_in());
    mark(&log, &plan);
    assert!(!plan.to_string().is_empty());
    assert_eq!(log, CrashLog::parse(data), "read twice, it says two things");
    if let Some(signature) = &plan.signature {
        let text = signature.to_string();
        assert_eq!(text.parse::<Signature>().as_ref(), Ok(signature), "{text}");
        assert!(!text.contains('\n'), "{text}");
    }
    for option in &plan.options {
        let harmless = option
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-+:=".contains(&b));
        assert!(harmless && option.starts_with("-X"), "{option}");
    }
    if let WalkerCrash::Yes {
        sighting: Some(sighting),
        ..
    } = &plan.walker_crash
    {
        let frames = log.native_frames.len();
        let inside = |place: Option<usize>| place.is_none_or(|place| place < frames);
        assert!(inside(sighting.handler) && inside(sighting.interrupted));
    }
});
