//! What a sampling brings.

use walkfuzz_record::{Counter, Generation};

use crate::support::{Run, counter, jdk, releases, tally};

#[test]
fn every_release_is_walked() {
    for jdk in releases() {
        let Some(mut run) = Run::new(&jdk, "interval=1ms", "1.5 spin spin sleep threads") else {
            return;
        };
        let record = run.record();
        let walks = tally(&record, false);
        println!(
            "{}: {} walks, {} with frames",
            jdk.version,
            walks.walks(),
            walks.frames()
        );
        assert!(walks.frames() > 200, "{}: {:?}", jdk.version, walks.codes());
        assert!(
            walks.frames() * 2 > walks.walks(),
            "{}: {:?}",
            jdk.version,
            walks.codes()
        );
        assert_eq!(counter(&record, Counter::Samples), walks.walks());
        assert_eq!(counter(&record, Counter::Drops), 0);
        assert_eq!(counter(&record, Counter::Recoveries), 0);
        assert_eq!(tally(&record, true).walks(), 0, "nothing was perturbed");
        assert_eq!(record.jvm_build_id, jdk.identity);
        assert!(record.jvm_version.contains('+'), "{}", record.jvm_version);
        assert!(record.lanes.iter().all(|lane| lane.open.is_none()));
    }
}

#[test]
fn steps_are_natural_walks_in_java() {
    let Some(jdk) = jdk() else { return };
    let Some(mut run) = Run::new(&jdk, "interval=2ms,steps=32", "1.5 spin threads") else {
        return;
    };
    if !walkfuzz_guard::has_trap_flag() {
        let output = run.output();
        assert!(!output.status.success());
        return;
    }
    let record = run.record();
    let (samples, steps) = (
        counter(&record, Counter::Samples),
        counter(&record, Counter::Steps),
    );
    println!("{samples} samples, {steps} steps");
    assert!(steps > samples, "{steps} steps at {samples} samples");
    let walks = tally(&record, false);
    assert_eq!(walks.walks(), samples + steps);
    assert!(walks.frames() > steps / 2, "{:?}", walks.codes());
}

#[test]
fn perturbed_walks_are_kept_apart() {
    let Some(jdk) = jdk() else { return };
    let Some(mut run) = Run::new(&jdk, "interval=2ms,perturb=3,seed=5", "1.5 spin") else {
        return;
    };
    // A perturbed walk may write to its thread's stack and so end the JVM later; what was recorded is there all the same.
    let _ = run.output();
    let record = run.read();
    let (natural, perturbed) = (tally(&record, false), tally(&record, true));
    println!(
        "{} natural, {} perturbed",
        natural.walks(),
        perturbed.walks()
    );
    // Threads that wait for a core or return from system calls are sampled as well, and not perturbed.
    let in_java = natural.walks() - counter(&record, Counter::OutsideJava);
    assert!(in_java > 20, "{in_java} of {}", natural.walks());
    assert!(perturbed.walks() > in_java);
    assert!(perturbed.walks() <= 3 * in_java);
    // They are perturbed: many find nothing to walk.
    assert!(
        perturbed.frames() < perturbed.walks() / 10 * 9,
        "{:?}",
        perturbed.codes()
    );
}

#[test]
fn clocks_are_made_anew_again_and_again() {
    let Some(jdk) = jdk() else { return };
    let options = "clock=timer+tick+itimer+cpu-timer,interval=500us,churn=20ms";
    let Some(mut run) = Run::new(&jdk, options, "2 spin spin threads sleep") else {
        return;
    };
    let record = run.record();
    assert!(tally(&record, false).frames() > 100);
    let summary = run.summary();
    println!("{summary}");
    assert!(summary["churns"].as_u64().unwrap() > 10);
    assert!(summary["threads"].as_u64().unwrap() > 20);
    assert_eq!(summary["handlers-kept"], true);
}

#[test]
fn programs_that_a_program_starts_do_not_write_into_its_record() {
    let Some(jdk) = jdk() else { return };
    // The one launch mechanism that copies the process; glibc's posix_spawn is the default.
    let Some(mut run) = Run::new(
        &jdk,
        "clock=timer+itimer,interval=200us",
        "2 spin processes",
    ) else {
        return;
    };
    let record = run.record();
    assert!(tally(&record, false).frames() > 100);
    assert_eq!(record.in_flight(), Vec::<String>::new());
}

#[test]
fn one_thread_at_a_time_can_be_chosen() {
    let Some(jdk) = jdk() else { return };
    let requested = |choice: &str, seconds: u32| {
        let options = format!("interval=1ms,choose={choice}");
        let words = format!("{seconds} spin spin spin spin");
        let mut run = Run::new(&jdk, &options, &words)?;
        let record = run.record();
        assert!(tally(&record, false).frames() > 20, "{choice}");
        let summary = run.summary();
        summary["on-cpu-seconds"].as_f64()
    };
    // The program ends when its process has used so much CPU time, and on a starved machine the agent's own start takes most of a short one.
    for seconds in [2, 8, 32] {
        let Some(all) = requested("all", seconds) else {
            return;
        };
        if all < f64::from(seconds) * 0.5 {
            println!("of {seconds} s of CPU time only {all} were sampled");
            continue;
        }
        let Some(one) = requested("one", seconds) else {
            return;
        };
        println!("on-CPU seconds of chosen threads: all {all}, one {one}");
        assert!(one > 0.0 && one < all * 0.6, "all {all}, one {one}");
        return;
    }
    panic!("of no run was half of the CPU time sampled");
}

#[test]
fn the_reference_walks_in_the_handler() {
    for jdk in releases() {
        let options = "walker=reference,interval=300us,perturb=4";
        let Some(mut run) = Run::new(&jdk, options, "2 spin spin sleep threads") else {
            return;
        };
        let record = run.record();
        let walker = record.walkers[0].as_ref().unwrap();
        assert_eq!(
            (&*walker.name, walker.generation),
            ("reference", Generation::Reference)
        );
        for perturbed in [false, true] {
            let walks = tally(&record, perturbed);
            println!(
                "{}, perturbed {perturbed}: {} of {} walks gave frames, codes {:?}",
                jdk.version,
                walks.frames(),
                walks.walks(),
                walks.codes()
            );
            assert!(walks.frames() > 100, "{:?}", walks.codes());
            assert_eq!(walks.faults() + walks.breaches() + walks.hangs(), 0);
        }
    }
}
