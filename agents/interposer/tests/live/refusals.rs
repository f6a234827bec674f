//! What the agent cannot do, said in one sentence before the JVM begins.

use crate::jvms::{releases, text};
use crate::support::{Run, profiler};

#[test]
fn what_cannot_be_stood_before_is_refused() {
    let Some(jdk) = releases().into_iter().next() else {
        return;
    };
    let Some(honest) = profiler("HONEST") else {
        return;
    };
    let refuses = format!("profiler={},options=refuse", honest.display());
    for (options, said) in [
        ("perturb=1", "profiler is missing"),
        ("profiler=jfr,perturb=x", "perturb=x means nothing"),
        ("profiler=jfr,colour=red", "there is no option `colour`"),
        ("profiler=/nowhere/x.so", "cannot load the profiler"),
        ("profiler=libc.so.6", "is no agent"),
        (&refuses, "its Agent_OnLoad answers 3"),
    ] {
        let Some(mut run) = Run::new(&jdk, options, "1 spin") else {
            return;
        };
        let output = run.output();
        assert!(!output.status.success(), "{options}");
        let text = text(&output);
        let mut of_ours = text
            .lines()
            .filter(|line| line.starts_with("walkfuzz-interposer: "));
        assert!(
            of_ours.next_back().is_some_and(|line| line.contains(said)),
            "{options}: {text}"
        );
    }
}
