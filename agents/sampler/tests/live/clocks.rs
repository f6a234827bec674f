//! Each clock, and several at once.

use walkfuzz_record::Counter;
use walkfuzz_sampler::Clock;

use crate::support::{Run, counter, jdk, tally, text};

#[test]
fn each_clock_brings_samples() {
    let Some(jdk) = jdk() else { return };
    for clock in Clock::ALL {
        let options = format!("clock={},interval=1ms", clock.name());
        let Some(mut run) = Run::new(&jdk, &options, "1.5 spin") else {
            return;
        };
        if clock == Clock::Perf {
            let output = run.output();
            if text(&output).contains("perf events cannot be had") {
                assert!(!output.status.success());
                println!("skip: {}", text(&output).trim());
                continue;
            }
        } else {
            run.record();
        }
        let record = run.read();
        let walks = tally(&record, false);
        println!("{}: {} walks", clock.name(), walks.walks());
        assert!(walks.frames() > 50, "{}: {:?}", clock.name(), walks.codes());
        let summary = run.summary();
        let its = &summary["clocks"][0];
        assert_eq!(its["name"], clock.name());
        assert_eq!(its["delivered"], counter(&record, Counter::Samples));
        assert_eq!(its["requested"], counter(&record, Counter::Requested));
        assert_eq!(its["ceiling-hz"].is_null(), !clock.is_ticked());
        assert!(its["requested"].as_u64().unwrap() > 100);
    }
}

#[test]
fn handlers_of_several_clocks_nest() {
    let Some(jdk) = jdk() else { return };
    let options = "clock=timer+tick+cpu-timer,interval=100us";
    let Some(mut run) = Run::new(&jdk, options, "2 spin spin") else {
        return;
    };
    let record = run.record();
    let summary = run.summary();
    let clocks = summary["clocks"].as_array().unwrap();
    let signals: std::collections::BTreeSet<_> = clocks
        .iter()
        .map(|clock| clock["signal"].as_i64().unwrap())
        .collect();
    assert_eq!(signals.len(), 3, "each clock has a signal of its own");
    assert!(signals.contains(&i64::from(libc::SIGPROF)));
    for clock in clocks {
        assert!(clock["delivered"].as_u64().unwrap() > 50, "{clock}");
    }
    // A thread that comes back to its lane finds it taken only if a handler of its own is at work there, or another thread of that lane.
    let used = record
        .lanes
        .iter()
        .skip(1)
        .filter(|lane| lane.tallies.iter().any(|(_, _, tally)| !tally.is_empty()));
    assert!(used.count() >= 3);
    assert_eq!(counter(&record, Counter::Drops), 0);
}

#[test]
fn threads_that_wait_are_left_alone() {
    let Some(jdk) = jdk() else { return };
    let words = "2 sleep sleep sleep sleep sleep sleep sleep sleep spin";
    let Some(mut run) = Run::new(&jdk, "interval=100us", words) else {
        return;
    };
    let record = run.record();
    let (all, outside) = (
        counter(&record, Counter::Samples),
        counter(&record, Counter::OutsideJava),
    );
    let time = record.ended.unwrap().duration_since(record.started);
    println!("{all} samples in {time:?}, {outside} of them outside Java");
    // Nine threads wait (main is one), and would be woken 90,000 times a second.
    assert!(
        outside as f64 / time.as_secs_f64() < 20_000.0,
        "{outside} in {time:?}"
    );
}
