//! Walks that go wrong, and JVMs that end in the middle.

use std::os::unix::process::ExitStatusExt as _;

#[cfg(target_arch = "x86_64")]
use walkfuzz_capsule::{Capsule, Outcome, Puppet};
use walkfuzz_record::{Counter, OpenWalk};

use crate::support::{Run, counter, jdk, releases, tally, text, wait_for};

#[test]
fn a_fault_in_a_guarded_walk_is_recovered_from() {
    for jdk in releases() {
        let options = "interval=1ms,guard=on,plant=fault:100";
        let Some(mut run) = Run::new(&jdk, options, "2 spin spin threads") else {
            return;
        };
        let record = run.record();
        let walks = tally(&record, false);
        println!(
            "{}: {} walks, {} faults",
            jdk.version,
            walks.walks(),
            walks.faults()
        );
        assert!(walks.faults() > 0 && walks.frames() > 100);
        // Eight in a row at each hundred, the last row perhaps cut off.
        let (rows, last) = (walks.walks() / 100, walks.walks() % 100 + 1);
        let planted = rows.saturating_sub(1) * 8 + last.min(8);
        assert!(walks.faults().abs_diff(planted) <= 1);
        assert_eq!(counter(&record, Counter::Recoveries), walks.faults());
        let fault = record
            .lanes
            .iter()
            .find_map(|lane| lane.last_fault.as_ref());
        let (_, fault) = fault.expect("the last fault is kept");
        assert_eq!((fault.signal, fault.address.0), (libc::SIGSEGV, 0x60));
        kept_as_capsule(&run, &fault.pc.0);
    }
}

/// The fault is a file beside the record, which a puppet walks without the JVM.
#[cfg(target_arch = "x86_64")]
fn kept_as_capsule(run: &Run, pc: &u64) {
    let files = std::fs::read_dir(run.folder()).unwrap();
    let ends = |path: &std::path::PathBuf| path.extension().is_some_and(|end| end == "wfcap");
    let paths: Vec<_> = files
        .map(|file| file.unwrap().path())
        .filter(ends)
        .collect();
    let [path] = &paths[..] else {
        panic!("one place, one capsule: {paths:?}");
    };
    assert!(path.to_str().unwrap().ends_with(&format!("-{pc:x}.wfcap")));
    let capsule = Capsule::read(path).unwrap();
    assert!(capsule.facts.signature.starts_with("SIGSEGV|"));
    let mut puppet = Puppet::new(&capsule).unwrap();
    for _ in 0..20 {
        let ended = puppet.walk().unwrap();
        assert!(capsule.facts.expected.is(&ended), "{ended}");
    }
    let Outcome::Fault(fault) = &capsule.facts.expected else {
        panic!("{:?}", capsule.facts.expected);
    };
    assert_eq!((fault.address.0, fault.registers.pc().0), (0x60, *pc));
    println!("{} bytes", path.metadata().unwrap().len());
}

#[cfg(not(target_arch = "x86_64"))]
fn kept_as_capsule(_: &Run, _: &u64) {}

#[test]
fn a_walk_that_never_returns_is_ended() {
    let Some(jdk) = jdk() else { return };
    let options = "interval=1ms,plant=hang:500";
    let Some(mut run) = Run::new(&jdk, options, "6 spin") else {
        return;
    };
    let record = run.record();
    let walks = tally(&record, false);
    println!("{} walks, {} hangs", walks.walks(), walks.hangs());
    assert!(walks.hangs() > 0);
    assert_eq!(counter(&record, Counter::Hangs), walks.hangs());
}

#[test]
fn a_fault_in_a_bare_walk_is_the_jvms_own() {
    for jdk in releases() {
        let options = "interval=1ms,guard=off,plant=fault:300";
        let Some(mut run) = Run::new(&jdk, options, "20 spin") else {
            return;
        };
        let output = run.output();
        assert!(!output.status.success(), "{}", text(&output));
        let log = run.crash_log().expect("the JVM writes its crash log");
        assert!(
            log.contains("SIGSEGV") && log.contains("libwalkfuzz_sampler.so"),
            "{log}"
        );
        let record = run.read();
        assert!(record.ended.is_none());
        let open: Vec<_> = record
            .lanes
            .iter()
            .filter_map(|lane| lane.open.as_ref())
            .collect();
        // Other threads go on, and may be in a walk as well, until the JVM has written its log.
        // The log tells where the walker was; the record what it was walking.
        let walked = |walk: &OpenWalk| walk.begun && !walk.perturbed && walk.registers.pc().0 != 0;
        assert!(open.into_iter().any(walked), "{:?}", record.in_flight());
        let walks = tally(&record, false).walks();
        assert!(walks >= 299, "{walks}");
    }
}

#[test]
fn what_was_recorded_survives_a_kill() {
    let Some(jdk) = jdk() else { return };
    let Some(mut run) = Run::new(&jdk, "interval=500us", "60 spin spin") else {
        return;
    };
    let (mut child, pid) = run.start();
    wait_for("500 walks", || tally(&run.read(), false).walks() > 500);
    // SAFETY: a process that this test started.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGKILL) }, 0);
    let status = child.wait().unwrap();
    assert!(!status.success() || status.signal().is_some());
    let record = run.read();
    assert!(record.ended.is_none());
    assert!(tally(&record, false).frames() > 100);
    assert!(
        counter(&record, Counter::Requested) > 100,
        "accounts are written as it goes"
    );
}
