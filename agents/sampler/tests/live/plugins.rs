//! Walkers from libraries.

use walkfuzz_record::{Generation, code_names};

use crate::compile;
use crate::remote::{number, walks_of};
use crate::support::{Run, jdk, releases, tally, text};

#[test]
fn a_library_walks_in_the_handler() {
    let folder = tempfile::tempdir().unwrap();
    let source = "c-frame-pointers/frame_pointers.c";
    let library = compile::library(folder.path(), "frame_pointers", source, &[]);
    for jdk in releases() {
        let options = format!("walker=plugin:{},interval=300us", library.display());
        let Some(mut run) = Run::new(&jdk, &options, "2 spin spin sleep threads") else {
            return;
        };
        let record = run.record();
        let walks = tally(&record, false);
        let walker = record.walkers[0].as_ref().unwrap();
        println!(
            "{}: {} walks, {} with frames, codes {:?}",
            jdk.version,
            walks.walks(),
            walks.frames(),
            walks.codes()
        );
        assert_eq!(
            (&*walker.name, &*walker.version, walker.generation),
            ("c-frame-pointers", "1", Generation::Plugin)
        );
        assert!(walks.frames() > 100, "{:?}", walks.codes());
        assert_eq!(walks.faults() + walks.breaches() + walks.hangs(), 0);
        let names = code_names::read(&record.path);
        assert_eq!(names.get(&-1).unwrap(), "outside the code cache");
    }
}

/// The frames are pcs, so that each pair is the same to the last word.
#[test]
fn a_library_walks_other_threads() {
    let folder = tempfile::tempdir().unwrap();
    let source = "c-frame-pointers/frame_pointers.c";
    let library = compile::library(folder.path(), "frame_pointers", source, &[]);
    for jdk in releases() {
        for (manner, holds) in [("remote", true), ("remote-running", false)] {
            let walker = format!("walker=plugin-{manner}:{}", library.display());
            let options = format!("{walker},interval=300us");
            let Some(mut run) = Run::new(&jdk, &options, "2 spin spin sleep threads") else {
                return;
            };
            let record = run.record();
            let summary = run.summary();
            println!("{} {manner}: {}", jdk.version, summary["remote"]);
            let name = format!("c-frame-pointers-{manner}");
            let (outside, own) = (
                walks_of(&record, &name, !holds),
                walks_of(&record, "c-frame-pointers", false),
            );
            assert_eq!(summary["remote"]["walker"], *name);
            assert!(outside.frames() > 100, "{:?}", outside.codes());
            assert!(own.frames() > 100, "{:?}", own.codes());
            assert_eq!(outside.faults() + own.faults() + own.breaches(), 0);
            assert!(number(&summary, "pairs") > 100);
            assert_eq!(summary["remote"]["held"].is_null(), !holds);
            if holds {
                assert_eq!(number(&summary, "different"), 0);
                assert_eq!(outside.wrong_frames(), 0);
            } else {
                assert_eq!(
                    outside.wrong_frames(),
                    number(&summary, "silently-different")
                );
            }
        }
    }
}

#[test]
fn a_library_that_is_no_walker_ends_the_jvm() {
    let Some(jdk) = jdk() else { return };
    let folder = tempfile::tempdir().unwrap();
    let only_own = compile::library(
        folder.path(),
        "refused",
        "../crates/walkers/tests/refused.c",
        &[],
    );
    let only_own = format!("walker=plugin-remote:{}", only_own.display());
    let stepped = "walker=plugin-remote-running:/nowhere.so,steps=4";
    let pinned = format!("walker=plugin:/nowhere/walker.so@sha256:{}", "0".repeat(64));
    for (options, sentence) in [
        (&*pinned, "cannot read the walker /nowhere/walker.so"),
        (
            "walker=plugin:/etc/passwd",
            "cannot be loaded as a shared library",
        ),
        ("walker=plugin:/lib.so@sha256:12", "12 is no SHA-256"),
        (&*only_own, "has no walk_remote"),
        (stepped, "walker=plugin-remote-running goes with guard=on"),
    ] {
        let Some(mut run) = Run::new(&jdk, options, "1 spin") else {
            return;
        };
        let output = run.output();
        let said = text(&output);
        assert_eq!(output.status.code(), Some(1), "{options}: {said}");
        assert!(said.contains(sentence), "{options}: {said}");
        assert!(!run.record_path().exists(), "{options}");
    }
}
