//! Libraries that are refused, each with its sentence, and one that walks. No JVM.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

#[path = "../../../plugins/compile.rs"]
mod compile;

use std::path::Path;

use walkfuzz_record::{Breach, Code, Generation, WalkOutcome};
use walkfuzz_walkers::{
    Facts, Manner, Methods, Plugin, PluginError, PluginPath, Start, ThreadHandle, TraceBuffer,
    Walked, Walker, walk_bare,
};

const SOURCE: &str = "../crates/walkers/tests/refused.c";

fn facts() -> Facts {
    Facts {
        jvm_version: "17.0.15+6".to_owned(),
        feature: 17,
        libjvm: "/nowhere/libjvm.so".into(),
        libjvm_base: 0x7000_0000_0000,
        async_get_call_trace: 0x10 as *const _,
        java_vm: 0x20 as *mut _,
        jvmti: 0x30 as *mut _,
        code_cache: 0x1000..0x2000,
    }
}

fn load(text: &str) -> Result<Plugin, PluginError> {
    Plugin::load(&text.parse()?, &facts())
}

/// A folder, and a way to compile the source with `flags` and load what comes of it.
fn compiled(flags: &[&str]) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = compile::library(folder.path(), "walker", SOURCE, flags);
    (folder, path.display().to_string())
}

fn refused(flags: &[&str], words: &[&str], code: i32) {
    let (_folder, path) = compiled(flags);
    refused_path(&path, words, code);
}

fn refused_path(path: &str, words: &[&str], code: i32) {
    let error = load(path).expect_err(path);
    let said = error.to_string();
    println!("{said}");
    for word in words {
        assert!(said.contains(word), "{word:?} is missing: {said}");
    }
    assert!(!said.contains('\n'), "one sentence: {said}");
    assert_eq!(error.exit_code(), code, "{said}");
}

#[test]
fn what_is_no_walker_is_refused() {
    let (folder, path) = compiled(&[]);
    refused_path(
        "/nowhere/walker.so",
        &["cannot read the walker /nowhere/walker.so", "No such file"],
        2,
    );
    let text = folder.path().join("text.so");
    std::fs::write(
        &text,
        "no library at all, whatever its name says\n".repeat(9),
    )
    .unwrap();
    refused_path(
        &text.display().to_string(),
        &["text.so cannot be loaded as a shared library"],
        2,
    );
    let pinned = format!("{path}@sha256:{}", "ab".repeat(32));
    refused_path(&pinned, &["has the SHA-256", &"ab".repeat(32)], 2);
    refused_path(
        &format!("{path}@sha256:short"),
        &["short is no SHA-256", "64 hexadecimal digits"],
        2,
    );
    refused(&["-DNO_ENTRY"], &["exports no function walkfuzz_walker"], 2);
    let older = ["was built for version 0 of the walker ABI", "has version 1"];
    refused(&["-DABI=0"], &older, 2);
    refused(&["-DABI=77"], &["version 77 of the walker ABI"], 2);
}

#[test]
fn wrong_descriptions_are_refused() {
    refused(
        &["-DNULL_WALKER"],
        &["describes its walker wrongly", "returned NULL"],
        2,
    );
    refused(&["-DNO_WALK"], &["walk is NULL"], 2);
    refused(&["-DSIZE=12"], &["its size is 12 bytes"], 2);
    refused(&["-DNAME=NULL"], &["it has no name"], 2);
    refused(
        &["-DNAME=\"agct\""],
        &["would be taken for walkfuzz's own \"agct\""],
        2,
    );
    refused(
        &["-DNAME=\"request-stack-trace\""],
        &["would be taken for walkfuzz's own \"request-stack-trace\""],
        2,
    );
    refused(
        &["-DVERSION=\"1.0-2026-11-22-abcdef012\""],
        &["the version \"1.0-2026-11-22-abcdef012\" has 24 bytes, and 23 is the most"],
        2,
    );
    refused(
        &["-DNAME=\"Two words\""],
        &["\"Two words\" must have 1 to 31"],
        2,
    );
    refused(
        &["-DGENERATION=\"tea\""],
        &["no generation of codes is called \"tea\""],
        2,
    );
    refused(&["-DGENERATION=\"agct\""], &["names for codes", "agct"], 2);
    refused(&["-DTWO_NAMES"], &["the code -4 has two names"], 2);
    refused(
        &["-DPOSITIVE_CODE"],
        &["the code 1 (one frame) is more than 0"],
        2,
    );
}

#[test]
fn what_dies_or_hangs_dies_in_a_copy() {
    refused(&["-DCRASH_IN_INIT"], &["crashed with SIGSEGV in init"], 2);
    refused(&["-DABORT_IN_INIT"], &["aborted in init"], 2);
    refused(
        &["-DEXIT_IN_INIT"],
        &["ended the process with status 3 in init"],
        2,
    );
    refused(
        &["-DCRASH_WHEN_LOADED"],
        &["crashed with SIGSEGV while it was loaded"],
        2,
    );
    refused(
        &["-DHANG_IN_INIT"],
        &["did not come to an end in init within 5 s"],
        2,
    );
    refused(&["-DUNWILLING"], &["its init answered 7"], 2);
}

/// What comes of a walk that may give `depth` frames.
fn walked(plugin: &dyn Walker, trace: &mut TraceBuffer, depth: i32, start: Start) -> WalkOutcome {
    let thread = ThreadHandle {
        env: 0x77 as *mut _,
        tid: 4711,
    };
    let call = plugin.prepare(trace, depth, thread, start).unwrap();
    // SAFETY: prepared for this trace.
    let walked: Walked = unsafe { walk_bare(plugin, &call, trace) };
    walked.outcome(&walkfuzz_guard::Fault::NONE, depth)
}

#[test]
fn a_right_one_walks_and_is_watched() {
    let (_folder, path) = compiled(&[]);
    let digest = std::process::Command::new("sha256sum")
        .arg(&path)
        .output()
        .unwrap();
    let digest = String::from_utf8(digest.stdout).unwrap();
    let digest = digest.split(' ').next().unwrap();
    let path: PluginPath = format!("{path}@sha256:{digest}").parse().unwrap();
    assert_eq!(path.sha256.as_deref(), Some(digest));
    assert!(Path::new(&path.path).exists());
    let plugin = Plugin::load(&path, &facts()).unwrap();
    assert_eq!(
        (plugin.name(), plugin.generation()),
        ("right", Generation::Plugin)
    );
    assert_eq!(plugin.version(), Some("2.5"));
    // malloc, free, pthread_mutex_lock and pthread_mutex_unlock.
    assert_eq!(plugin.watched_imports(), 4);
    let names: Vec<_> = plugin
        .code_names()
        .iter()
        .map(|(code, name)| (code.0, &**name))
        .collect();
    assert_eq!(names, [(0, "nothing"), (-4, "four below")]);

    let mut trace = TraceBuffer::new();
    let context = Start::Context(std::ptr::null_mut());
    assert_eq!(
        walked(&plugin, &mut trace, 5, context),
        WalkOutcome::Frames(1)
    );
    assert_eq!(
        (trace.frames(1)[0].bci, trace.frames(1)[0].method),
        (4711, 0x77)
    );
    let expected = [
        (10, WalkOutcome::Breach(Breach::Allocation)),
        (11, WalkOutcome::Breach(Breach::Lock)),
        (12, WalkOutcome::Breach(Breach::LockHeld)),
        (13, WalkOutcome::Breach(Breach::Depth)),
        (14, WalkOutcome::Breach(Breach::Canary)),
        (15, WalkOutcome::Error(Code(-4))),
    ];
    // Twice: a lock that was left is free again, a note does not outlive its walk.
    for (depth, outcome) in [expected, expected].concat() {
        assert_eq!(
            walked(&plugin, &mut trace, depth, context),
            outcome,
            "depth {depth}"
        );
        assert_eq!(
            walked(&plugin, &mut trace, 5, context),
            WalkOutcome::Frames(1)
        );
    }
    let frame = Start::Frame {
        sp: 1,
        fp: 2,
        pc: 3,
    };
    assert_eq!(
        walked(&plugin, &mut trace, 5, frame),
        WalkOutcome::Frames(2)
    );
    let methods = trace.frames(2).iter().map(|frame| frame.method);
    assert_eq!(methods.collect::<Vec<_>>(), [2, 3]);
}

#[test]
fn what_its_frames_have_is_said_at_the_end() {
    let pcs = "-DMETHOD=WALKFUZZ_METHOD_PC";
    let before = "-DSIZE=offsetof(struct walkfuzz_walker,method)";
    for (flags, methods) in [
        (&[][..], Methods::Ids),
        (&[pcs], Methods::Pcs),
        // What stands behind the size is not read.
        (&[pcs, before], Methods::Ids),
    ] {
        let (_folder, path) = compiled(flags);
        assert_eq!(load(&path).unwrap().methods(), methods, "{flags:?}");
    }
    refused(&["-DMETHOD=7u"], &["its method is 7"], 2);
}

/// A library that knows fewer fields than walkfuzz does is no other version.
#[test]
fn a_shorter_description_lacks_what_it_does_not_have() {
    let (_folder, path) = compiled(&["-DSIZE=offsetof(struct walkfuzz_walker,walk_from_frame)"]);
    let plugin = load(&path).unwrap();
    let mut trace = TraceBuffer::new();
    let thread = ThreadHandle {
        env: std::ptr::null_mut(),
        tid: 1,
    };
    let frame = Start::Frame {
        sp: 1,
        fp: 2,
        pc: 3,
    };
    assert!(plugin.prepare(&mut trace, 5, thread, frame).is_none());
    let context = Start::Context(std::ptr::null_mut());
    assert_eq!(
        walked(&plugin, &mut trace, 5, context),
        WalkOutcome::Frames(1)
    );
}

#[test]
fn a_library_walks_other_threads_if_it_says_so() {
    let (_folder, path) = compiled(&["-DREMOTE"]);
    let plugin = load(&path).unwrap();
    let remote = plugin.remote(Manner::Running).unwrap();
    assert_eq!(remote.name(), "right-remote-running");
    assert_eq!(
        (remote.generation(), remote.version()),
        (Generation::Plugin, Some("2.5"))
    );
    let mut trace = TraceBuffer::new();
    let context = Start::Context(0x5000 as *mut _);
    assert_eq!(
        walked(&remote, &mut trace, 5, context),
        WalkOutcome::Frames(3)
    );
    let methods = trace.frames(3).iter().map(|frame| frame.method);
    assert_eq!(methods.collect::<Vec<_>>(), [0x5000, 0x77, 0x5000]);
    assert_eq!(
        walked(&plugin, &mut trace, 5, context),
        WalkOutcome::Frames(1)
    );
    // Libraries that know nothing of it, and one that was built before it came: what stands behind the size is not read.
    let before = "-DSIZE=offsetof(struct walkfuzz_walker,walk_remote)";
    for flags in [&[][..], &["-DREMOTE", before]] {
        let (_folder, path) = compiled(flags);
        let plugin = load(&path).unwrap();
        assert!(plugin.remote(Manner::Held).is_none(), "{flags:?}");
        assert_eq!(
            walked(&plugin, &mut trace, 5, context),
            WalkOutcome::Frames(1)
        );
    }
    // Its name in records must find room behind it.
    refused(
        &["-DREMOTE", "-DNAME=\"seventeen-letters\""],
        &["has 17 bytes, and 16 is the most", "walk_remote"],
        2,
    );
    refused(
        &["-DNAME=\"twenty-six-letters-in-all-\""],
        &["has 26 bytes, and 25 is the most", "walk_from_frame"],
        2,
    );
}
