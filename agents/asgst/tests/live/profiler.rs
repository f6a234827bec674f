//! The small profiler of `examples/`, as users build it.

use crate::support::{client, deep, releases, run, text};

#[test]
fn the_small_profiler_draws_where_the_time_goes() {
    let Some(library) = client("iterator_profiler", &["examples/iterator_profiler.c"]) else {
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
            // The program's stacks begin with its main method, recurse, and work.
            let recursion = stack.matches("Deep.recurse").count();
            if stack.starts_with("all;Deep.main;") && recursion >= 20 {
                ours += samples;
            }
        }
        println!(
            "JDK {}: {ours} of {all} samples in Deep's recursion; {}",
            jdk.version,
            text(&output).trim()
        );
        assert!(all > 20, "{}", text(&output));
        assert!(ours * 2 > all, "{ours} of {all}: {lines}");
    }
}

#[test]
fn the_small_profiler_writes_a_page() {
    let Some(library) = client("iterator_profiler_page", &["examples/iterator_profiler.c"]) else {
        return;
    };
    let (Some(_), Some(jdk)) = (deep(), releases().into_iter().next()) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("flames.html");
    let options = format!("output={}", page.display());
    run(&jdk, &[], &library, &options, &["300"]);
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.trim_end().ends_with("</html>"));
    assert!(page.contains("Deep.recurse") && page.contains("show(root)"));
}
