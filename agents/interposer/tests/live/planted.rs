//! Profilers whose faults are known.

use walkfuzz_record::Counter;

use crate::jvms::{counter, releases, tally};
use crate::support::{Run, faults_lie_in, profiler};

/// As [`each_with`], with the JVM's own choice of a collector.
fn each(
    kind: &str,
    perturb: u32,
    words: &str,
    look: impl Fn(&walkfuzz_record::Record, &std::path::Path),
) {
    each_with(kind, perturb, words, "", look);
}

/// Runs the profiler on the newest JDK of each release, with these flags; what is looked at gets the record and the library.
fn each_with(
    kind: &str,
    perturb: u32,
    words: &str,
    flags: &str,
    look: impl Fn(&walkfuzz_record::Record, &std::path::Path),
) {
    let Some(library) = profiler(kind) else {
        return;
    };
    for jdk in releases() {
        let options = format!("perturb={perturb},profiler={}", library.display());
        let Some(mut run) = Run::new(&jdk, &options, words) else {
            return;
        };
        let record = run.with_flags(flags).record();
        let (untouched, perturbed) = (tally(&record, false), tally(&record, true));
        println!(
            "{kind}, {}: {} signals, {} untouched calls with {} faults, {} perturbed with {} faults and {} hangs, {} dealt with, {} put back",
            jdk.version,
            counter(&record, Counter::Samples),
            untouched.walks(),
            untouched.faults(),
            perturbed.walks(),
            perturbed.faults(),
            perturbed.hangs(),
            counter(&record, Counter::SelfProtected),
            counter(&record, Counter::PutBack),
        );
        assert!(untouched.walks() > 20, "too few signals");
        assert_eq!(untouched.faults() + untouched.hangs(), 0);
        look(&record, &library);
    }
}

#[test]
fn an_honest_profiler_has_no_faults() {
    each("HONEST", 16, "2 spin spin threads", |record, _| {
        let perturbed = tally(record, true);
        assert!(perturbed.walks() > 300);
        assert_eq!(perturbed.faults() + perturbed.hangs(), 0);
        assert_eq!(counter(record, Counter::PutBack), 0);
    });
}

#[test]
fn a_wild_read_is_found_and_named() {
    each("WILD", 16, "2 spin spin threads", |record, library| {
        assert!(tally(record, true).faults() > 10);
        assert!(faults_lie_in(record, library, "planted_wild_read"));
        assert_eq!(counter(record, Counter::SelfProtected), 0);
    });
}

#[test]
fn a_handler_that_never_ends_is_ended() {
    each("ENDLESS", 1, "6 spin", |record, _| {
        assert!(tally(record, true).hangs() > 0);
    });
}

/// As async-profiler does in cstack=vm. The stack that the fault handler finds itself on is the one that was interrupted.
#[test]
fn what_a_profiler_protects_itself_from_is_no_fault() {
    each("GUARDED", 16, "2 spin spin threads", |record, _| {
        assert!(counter(record, Counter::SelfProtected) > 10);
        assert_eq!(tally(record, true).faults(), 0);
    });
}

/// Without the checkpoint one fault would be all that is ever found.
#[test]
fn a_lock_that_was_left_is_given_back() {
    each("LOCKED", 16, "2 spin spin threads", |record, library| {
        let faults = tally(record, true).faults();
        assert!(faults > 10);
        assert!(counter(record, Counter::PutBack) >= faults);
        assert!(faults_lie_in(record, library, "planted_wild_read"));
    });
}

/// Each collection asks the threads to stop, by a word of each thread. A handler that is left must not take that request back: the JVM would wait for ever.
#[test]
fn a_request_to_stop_outlives_a_call_that_is_left() {
    each_with(
        "SLOW",
        16,
        "4 spin collect",
        "-XX:+UseSerialGC",
        |record, library| {
            assert!(tally(record, true).faults() > 0);
            assert!(faults_lie_in(record, library, "planted_wild_read"));
        },
    );
}

/// The JVM ends while a slow handler is at work: the record is closed behind it.
#[test]
fn the_record_is_closed_behind_the_handler_at_work() {
    let Some(library) = profiler("SLOW") else {
        return;
    };
    for jdk in releases() {
        let options = format!("perturb=64,profiler={}", library.display());
        let Some(mut run) = Run::new(&jdk, &options, "60 spin spin leave") else {
            return;
        };
        let record = run.record();
        let walks: u64 = record.lanes.iter().map(|lane| lane.walks).sum();
        println!("{}: {walks} calls before the end", jdk.version);
        assert!(walks > 0);
        for lane in &record.lanes {
            assert_eq!((&lane.open, lane.owner), (&None, None));
        }
        let counted = |which| counter(&record, which);
        let became = counted(Counter::Samples) + counted(Counter::Drops);
        assert!(counted(Counter::Requested) >= became);
    }
}
