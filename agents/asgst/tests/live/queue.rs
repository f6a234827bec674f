//! The safepoint queue: what it delivers, and what is done wrongly with it.

use crate::support::{Figures, client, deep, releases, run, text};

#[test]
fn samples_are_completed_as_they_were_taken() {
    let Some(library) = client("queue_check", &["tests/c/queue_check.c"]) else {
        return;
    };
    if deep().is_none() {
        return;
    }
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
    if deep().is_none() {
        return;
    }
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
    let Some(library) = client("queue_profiler", &["examples/queue_profiler.c"]) else {
        return;
    };
    if deep().is_none() {
        return;
    }
    for jdk in releases() {
        let folder = tempfile::tempdir().unwrap();
        let collapsed = folder.path().join("flames.txt");
        let options = format!("output={},interval=1000", collapsed.display());
        let output = run(&jdk, &[], &library, &options, &["700"]);
        let lines = std::fs::read_to_string(&collapsed).unwrap();
        let (mut all, mut ours) = (0, 0);
        for line in lines.lines() {
            let (stack, samples) = line.rsplit_once(' ').unwrap();
            let samples: u64 = samples.parse().unwrap();
            all += samples;
            if stack.starts_with("all;Deep.main;") && stack.matches("Deep.recurse").count() >= 20 {
                ours += samples;
            }
        }
        println!(
            "JDK {}: {ours} of {all} samples in Deep's recursion; {}",
            jdk.version,
            text(&output).trim()
        );
        assert!(all > 10, "{}", text(&output));
        assert!(ours * 2 > all, "{ours} of {all}: {lines}");
    }
}

#[test]
fn the_small_queue_profiler_writes_a_page() {
    let Some(library) = client("queue_profiler_page", &["examples/queue_profiler.c"]) else {
        return;
    };
    let (Some(_), Some(jdk)) = (deep(), releases().into_iter().next()) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("flames.html");
    run(
        &jdk,
        &[],
        &library,
        &format!("output={}", page.display()),
        &["300"],
    );
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.trim_end().ends_with("</html>"));
    assert!(page.contains("Deep.recurse") && page.contains("show(root)"));
}

#[test]
fn who_triggers_a_safepoint_is_called_there() {
    let Some(library) = client("callback", &["tests/c/callback.c"]) else {
        return;
    };
    if deep().is_none() {
        return;
    }
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
