//! ASGST's functions as walkers, beside AsyncGetCallTrace on the same program.

use walkfuzz_jvm::Jdk;
use walkfuzz_record::{Generation, Record, Tally};

use crate::support::{Run, releases, tally};

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
