//! A JVM that runs already.

use walkfuzz_record::{Counter, RecordReader};

use crate::support::{Run, counter, load_into, releases, tally, text, wait_for};

#[test]
fn a_running_jvm_is_sampled_and_left_again_and_sampled_again() {
    for jdk in releases() {
        if !jdk.home.join("bin/jcmd").is_file() {
            println!("skip: {} has no jcmd", jdk.home.display());
            continue;
        }
        let Some(mut run) = Run::new(&jdk, "", "60 spin sleep threads") else {
            return;
        };
        let (mut child, pid) = run.start();
        for round in 0..2 {
            let path = run.record_path().with_extension(round.to_string());
            let options = format!("record={},clock=timer+tick,interval=500us", path.display());
            let loaded = load_into(&jdk, pid, &options);
            assert!(
                text(&loaded).contains("return code: 0"),
                "{}",
                text(&loaded)
            );
            let read = || RecordReader::open(&path).unwrap();
            wait_for("200 walks with frames", || {
                tally(&read(), false).frames() > 200
            });
            let again = load_into(&jdk, pid, &options);
            assert!(!text(&again).contains("return code: 0"), "{}", text(&again));
            let stopped = load_into(&jdk, pid, "stop");
            assert!(
                text(&stopped).contains("return code: 0"),
                "{}",
                text(&stopped)
            );
            let record = read();
            assert!(record.ended.is_some(), "{}", jdk.version);
            let walks = tally(&record, false).walks();
            std::thread::sleep(std::time::Duration::from_millis(300));
            assert_eq!(
                tally(&read(), false).walks(),
                walks,
                "nothing is written after the end"
            );
            assert!(counter(&record, Counter::Requested) > 0);
            println!("{}: {walks} walks", jdk.version);
        }
        let none = load_into(&jdk, pid, "stop");
        assert!(!text(&none).contains("return code: 0"), "{}", text(&none));
        // SAFETY: a process that this test started.
        unsafe { libc::kill(pid, libc::SIGKILL) };
        child.wait().unwrap();
    }
}
