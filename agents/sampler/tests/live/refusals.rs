//! A JVM must not start silently without its sampler.

use crate::support::{Run, jdk, releases, text};

fn refused(options: &str, sentence: &str) {
    let Some(jdk) = jdk() else { return };
    let Some(mut run) = Run::new(&jdk, options, "1 spin") else {
        return;
    };
    let output = run.output();
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{options}: {said}");
    let line = said
        .lines()
        .find(|line| line.starts_with("walkfuzz-sampler: "));
    assert!(
        line.is_some_and(|line| line.contains(sentence)),
        "{options}: {said}"
    );
    assert!(!said.contains("ready"), "{options}: {said}");
}

#[test]
fn an_option_that_does_not_exist() {
    for jdk in releases() {
        let Some(mut run) = Run::new(&jdk, "clok=timer", "1 spin") else {
            return;
        };
        let output = run.output();
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output).contains("walkfuzz-sampler: no such option: clok; expected"));
        assert!(!text(&output).contains("ready"));
        assert!(!run.record_path().exists());
    }
}

#[test]
fn values_without_meaning() {
    refused(
        "clock=sundial",
        "clock=sundial means nothing: expected different ones of timer",
    );
    refused("interval=0ms", "interval=0ms means nothing");
}

#[test]
fn walks_from_outside_go_with_untouched_samples_alone() {
    refused(
        "walker=agct-remote-env,guard=off",
        "walker=agct-remote-env goes with guard=on and untouched samples alone: leave out guard=off",
    );
    refused("walker=agct-remote-tid,steps=4", "leave out steps");
    refused("walker=reference,guard=off", "leave out guard=off");
    refused("walker=asgst-queue,perturb=4", "leave out perturb");
    refused(
        "walker=asgst-jep435,guard=off",
        "walker=asgst-jep435 reads with loads whose faults the guard resumes: leave out guard=off",
    );
    refused(
        "walker=agct-remote,interval=1ms",
        "walker=agct-remote means nothing",
    );
}

/// No JVM has it yet. Its answer comes of the list that it really gives.
#[test]
fn a_jvm_without_request_stack_trace() {
    refused(
        "walker=request-stack-trace",
        "this JVM offers no RequestStackTrace: the walker request-stack-trace has nothing to ask",
    );
}

#[test]
fn a_record_that_cannot_be_written() {
    let Some(jdk) = jdk() else { return };
    let Some(mut run) = Run::new(&jdk, "guard=on", "1 spin") else {
        return;
    };
    std::fs::write(run.record_path(), "somebody else's").unwrap();
    let output = run.output();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(
        text(&output).contains("walkfuzz-sampler: cannot create"),
        "{}",
        text(&output)
    );
    let kept = std::fs::read_to_string(run.record_path()).unwrap();
    assert_eq!(kept, "somebody else's");
}

#[test]
fn nothing_to_stop() {
    let Some(jdk) = jdk() else { return };
    let Some(mut run) = Run::new(&jdk, "stop", "1 spin") else {
        return;
    };
    let output = run.output();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
}
