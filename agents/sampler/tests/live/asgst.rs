//! ASGST's functions as walkers, beside AsyncGetCallTrace on the same program.

use walkfuzz_jvm::Jdk;
use walkfuzz_record::{Counter, Generation, Record, Tally};

use crate::remote::walks_of;
use crate::support::{Run, counter, releases, tally};

/// A program whose threads run, sleep, begin and end.
const BUSY: &str = "1.5 spin spin sleep threads";

/// A run with this walker, which gives no fault.
fn sampled(jdk: &Jdk, walker: &str) -> Option<(Run, Record, Tally)> {
    let mut run = Run::new(jdk, &format!("walker={walker},interval=300us"), BUSY)?;
    let record = run.record();
    let walks = tally(&record, false);
    println!(
        "{} {walker}: {} of {} walks gave frames, codes {:?}",
        jdk.version,
        walks.frames(),
        walks.walks(),
        walks.codes()
    );
    assert!(walks.frames() > 100, "{:?}", walks.codes());
    assert_eq!(walks.faults() + walks.breaches() + walks.hangs(), 0);
    Some((run, record, walks))
}

fn share(walks: &Tally) -> f64 {
    walks.frames() as f64 / walks.walks() as f64
}

#[test]
fn iterators_and_async_get_stack_trace_give_frames_where_async_get_call_trace_does() {
    let walkers = [
        ("asgst-iterator", Generation::AsgstIterator),
        ("asgst-jep435", Generation::AsgstLate),
    ];
    for jdk in releases() {
        let Some((_, _, agct)) = sampled(&jdk, "agct") else {
            return;
        };
        for (name, generation) in walkers {
            let Some((_, record, walks)) = sampled(&jdk, name) else {
                return;
            };
            let walker = record.walkers[0].as_ref().unwrap();
            assert_eq!((&*walker.name, walker.generation), (name, generation));
            assert!(
                share(&walks) > share(&agct) * 0.7,
                "{} against {}",
                share(&walks),
                share(&agct)
            );
        }
    }
}

#[test]
fn queues_complete_samples_at_the_next_safepoint() {
    for jdk in releases() {
        let Some((run, record, _)) = sampled(&jdk, "asgst-queue") else {
            return;
        };
        let summary = run.summary();
        let queue = &summary["queue"];
        println!("{queue}");
        let count = |name: &str| queue[name].as_i64().unwrap();
        let unbiased = count("unbiased");
        let biased = count("biased-gone") + count("biased-unknown");
        let lost = count("lost-thread-end") + count("lost-deregistered");
        let settled = unbiased + biased + lost;
        assert_eq!(count("threads-without"), 0);
        assert!(unbiased > 100 && unbiased * 4 > settled, "{queue}");
        // A thread that is at a safepoint when the sampling ends settles its own a moment later.
        let enqueued = count("enqueued");
        assert!(settled <= enqueued && settled * 2 > enqueued, "{queue}");
        let handlers = walks_of(&record, "asgst-enqueue", false);
        assert_eq!(handlers.walks(), counter(&record, Counter::Samples));
        assert!(handlers.frames() >= enqueued as u64, "{queue}");
        let walks = walks_of(&record, "asgst-queue", false);
        assert!(walks.walks() <= (unbiased + biased) as u64, "{queue}");
        assert!(
            walks.frames() * 10 > walks.walks() * 9,
            "{:?}",
            walks.codes()
        );
        assert_eq!(walks.faults() + handlers.faults(), 0);
        let latency = &queue["latency"];
        assert!(latency["times"].as_u64().unwrap() >= walks.walks());
        assert!(latency["median"]["ns"].as_f64().unwrap() > 0.0);
    }
}
