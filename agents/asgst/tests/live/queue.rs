//! The safepoint queue: what it delivers, and what is done wrongly with it.

use crate::jdks::{releases, text};
use crate::profiler;
use crate::support::{Figures, client, run};

#[test]
fn samples_are_completed_as_they_were_taken() {
    let Some(library) = client("queue_check", &["tests/c/queue_check.c"]) else {
        return;
    };
    for jdk in releases() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("figures");
        let options = format!("4000,{}", path.display());
        run(&jdk, &[], &library, &options, &["1000"]);
        let figures = Figures::read(&path);
        let of = |name| figures.of(name);
        println!(
            "JDK {}: {} samples, {} in Java, {} accepted; {} unbiased, {} biased, {} as AsyncGetCallTrace had them; latency {} ns",
            jdk.version,
            of("samples"),
            of("in_java"),
            of("accepted"),
            of("unbiased"),
            of("gone") + of("unknown"),
            of("equal"),
            of("latency_p50"),
        );
        assert!(of("accepted") > 10, "{}", of("accepted"));
        assert!(of("unbiased") * 10 >= of("accepted") * 8);
        // Where a frame is being made the two walkers guess differently.
        assert!(of("equal") * 100 >= of("unbiased") * 85);
        assert_eq!(of("unordered"), 0);
        let known = ["all_unbiased", "all_gone", "all_unknown"].map(of);
        let lost = ["lost_thread_end", "lost_deregistered"].map(of);
        let accounted: u64 = known.into_iter().chain(lost).sum();
        // What threads that wait for something have in their queues has no fate yet: 32 each.
        assert!(accounted <= of("enqueued") && of("enqueued") <= accounted + 32 * 64);
        assert_eq!(known.into_iter().sum::<u64>(), of("delivered"));
    }
}

#[test]
fn what_is_wrong_is_refused() {
    let Some(library) = client("queue_bad", &["tests/c/queue_bad.c"]) else {
        return;
    };
    for jdk in releases() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("figures");
        let output = run(&jdk, &[], &library, path.to_str().unwrap(), &["1000"]);
        let figures = Figures::read(&path);
        let of = |name| figures.of(name);
        println!(
            "JDK {}: {} checks in {} rounds, {} elements",
            jdk.version,
            of("checks"),
            of("rounds"),
            of("handled")
        );
        assert_eq!(of("wrong"), 0, "{}", text(&output));
        assert!(!text(&output).contains("thrown in a handler"));
        assert_eq!(of("rounds"), 6);
        assert_eq!(of("handled"), 18);
        assert_eq!(of("around"), 12);
        // Of its two elements it saw the first alone.
        assert_eq!((of("last_of_own"), of("lost_deregistered")), (1, 1));
    }
}

#[test]
fn the_small_queue_profiler_draws_where_the_time_goes() {
    profiler::draws_where_the_time_goes("queue_profiler", 10);
}

#[test]
fn the_small_queue_profiler_writes_a_page() {
    profiler::writes_a_page("queue_profiler");
}

#[test]
fn who_triggers_a_safepoint_is_called_there() {
    let Some(library) = client("callback", &["tests/c/callback.c"]) else {
        return;
    };
    for jdk in releases() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("figures");
        run(&jdk, &[], &library, path.to_str().unwrap(), &["500"]);
        let figures = Figures::read(&path);
        let (triggered, called) = (figures.of("triggered"), figures.of("called"));
        println!("JDK {}: {called} of {triggered}", jdk.version);
        assert!(triggered > 2, "{triggered}");
        // One for each thread may be on its way.
        assert!(called <= triggered && triggered <= called + 32);
        assert_eq!(figures.of("kept_wrong"), 0);
        assert_eq!(figures.of("elsewhere"), 0);
    }
}
