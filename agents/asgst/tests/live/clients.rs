//! A client that asks every function at each sample, and compares with AsyncGetCallTrace and JVMTI.

use crate::jdks::{releases, text};
use crate::support::{Figures, client, deep, run};

const CHECK: [&str; 5] = [
    "tests/c/check.c",
    "tests/c/check_iterator.c",
    "tests/c/check_methods.c",
    "tests/c/check_jep435.c",
    "tests/c/check_minimal.c",
];

/// What must have been looked at, and what must not have been found.
const NEVER: [(&str, &str); 13] = [
    ("rewinds", "rewinds_differ"),
    ("non_java_frames", "non_java_differ"),
    ("first_only", "first_only_wrong"),
    ("bad_arguments", "bad_arguments_taken"),
    ("states", "states_wrong"),
    ("nested", "nested_wrong"),
    ("methods", "methods_wrong"),
    ("generic_signatures", "generic_wrong"),
    ("lines", "lines_wrong"),
    ("classes", "classes_wrong"),
    ("short_strings", "short_strings_wrong"),
    ("no_methods", "no_methods_taken"),
    ("jep_c_frames", "jep_c_differ"),
];

const ANSWERS: [(&str, &str); 3] = [
    ("jep_walked", "jep_early_differ"),
    ("jep_answers", "jep_answers_wrong"),
    ("minimal_answers", "minimal_answers_wrong"),
];

/// What agrees nearly always: the two walkers guess differently where a frame is being made.
const NEARLY: [(&str, &str); 5] = [
    ("both_walked", "traces_equal"),
    ("jep_walked", "jep_equal"),
    ("minimal_walked", "minimal_equal"),
    ("both_walked", "from_frame"),
    ("frames_compared", "nested"),
];

#[test]
fn every_function_answers_as_it_should() {
    let Some(library) = client("check", &CHECK) else {
        return;
    };
    for jdk in releases() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("figures");
        let output = run(&jdk, &[], &library, path.to_str().unwrap(), &["1000"]);
        let figures = Figures::read(&path);
        let of = |name| figures.of(name);
        println!(
            "JDK {}: {} signals, {} of {} traces as AsyncGetCallTrace's ({} frames, {} inlined), {} of {} from another thread, {} methods, {} lines",
            jdk.version,
            of("signals"),
            of("traces_equal"),
            of("both_walked"),
            of("frames_compared"),
            of("inlined_frames"),
            of("jep_other_walked") - of("jep_other_differ"),
            of("jep_other_walked"),
            of("methods"),
            of("lines"),
        );
        for (looked, wrong) in NEVER.into_iter().chain(ANSWERS) {
            assert!(of(looked) > 0, "{looked}: nothing was looked at");
            assert_eq!(of(wrong), 0, "{wrong} of {}: {}", of(looked), text(&output));
        }
        for (all, good) in NEARLY {
            assert!(of(all) > 20, "{all}: {}", of(all));
            assert!(
                of(good) * 100 >= of(all) * 95,
                "{good}: {} of {}",
                of(good),
                of(all)
            );
        }
        assert!(of("from_frame_differ") * 20 <= of("from_frame"));
        assert!(of("jep_other_walked") > 0);
        assert_eq!(of("jep_other_differ"), 0);
        assert!(of("inlined_frames") > 0);
    }
}

/// Deep unloads twenty classes of the name Apart; the last may still be there at its end.
#[test]
fn unloaded_classes_are_told_of_and_have_names_meanwhile() {
    let Some(library) = client("unload", &["tests/c/unload.c"]) else {
        return;
    };
    let Some(classes) = deep() else {
        return;
    };
    let apart = classes.join("apart");
    for jdk in releases() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("figures");
        let words = ["1", apart.to_str().unwrap()];
        run(
            &jdk,
            &["-XX:+UseSerialGC"],
            &library,
            path.to_str().unwrap(),
            &words,
        );
        let figures = Figures::read(&path);
        let of = |name| figures.of(name);
        println!(
            "JDK {}: {} classes unloaded, {} of them Apart",
            jdk.version,
            of("told"),
            of("apart")
        );
        assert!((10..=20).contains(&of("apart")), "{}", of("apart"));
        assert_eq!((of("named"), of("with_method")), (of("told"), of("apart")));
        assert_eq!((of("deregistered"), of("unknown_deregistered")), (1, 0));
        assert_eq!(of("arguments_wrong"), 0);
    }
}
