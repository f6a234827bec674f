//! The small profilers of `examples/`, as users build them.

use crate::jdks::{releases, text};
use crate::support::{client, run};

/// Most samples of `examples/NAME.c` are where the program's time goes, and there are more than `least`.
pub(crate) fn draws_where_the_time_goes(name: &str, least: u64) {
    let Some(library) = client(name, &[&format!("examples/{name}.c")]) else {
        return;
    };
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
        assert!(all > least, "{}", text(&output));
        assert!(ours * 2 > all, "{ours} of {all}: {lines}");
    }
}

/// `examples/NAME.c` writes a page that can be looked at.
pub(crate) fn writes_a_page(name: &str) {
    let Some(library) = client(&format!("{name}_page"), &[&format!("examples/{name}.c")]) else {
        return;
    };
    let Some(jdk) = releases().into_iter().next() else {
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

#[test]
fn the_small_profiler_draws_where_the_time_goes() {
    draws_where_the_time_goes("iterator_profiler", 20);
}

#[test]
fn the_small_profiler_writes_a_page() {
    writes_a_page("iterator_profiler");
}
