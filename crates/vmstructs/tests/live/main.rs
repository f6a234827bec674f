//! Reads real JVMs: for every JDK found and several collectors a process of its own starts a JVM in itself, works it a
//! little and compares what this crate reads with what the JVM, the C library and the kernel say.

#![expect(
    clippy::unwrap_used,
    reason = "a test, which clippy cannot see without the harness"
)]

mod checks;
mod jdks;
mod jvm;
mod symbols;
mod timing;
mod workload;

use std::env;
use std::path::Path;
use std::process::ExitCode;

use jdks::Jdk;

const JDK: &str = "WALKFUZZ_LIVE_TEST_JDK";
const COLLECTOR: &str = "WALKFUZZ_LIVE_TEST_COLLECTOR";
const COLLECTORS: [&str; 6] = ["Serial", "Parallel", "G1", "Z", "Shenandoah", "Epsilon"];

/// Not a collector: the default one, and everything compiled.
const MANY_BLOBS: &str = "Xcomp";

fn main() -> ExitCode {
    if let (Ok(jdk), Ok(collector)) = (env::var(JDK), env::var(COLLECTOR)) {
        return child(Path::new(&jdk), &collector);
    }
    // `cargo test -- --list` and the like: there is one test.
    if env::args().any(|argument| argument == "--list") {
        println!("live: test");
        return ExitCode::SUCCESS;
    }
    let jdks = jdks::find();
    if jdks.is_empty() {
        println!(
            "skip: no JDK in WALKFUZZ_TEST_JDKS, JAVA_HOME, PATH, /usr/lib/jvm or ~/.cache/walkfuzz/jdks"
        );
        return ExitCode::SUCCESS;
    }
    let mut failures = Vec::new();
    for jdk in &jdks {
        println!("JDK {} at {}", jdk.version, jdk.home.display());
        for collector in COLLECTORS.into_iter().chain([MANY_BLOBS]) {
            if !run(jdk, collector) {
                failures.push(format!("{} {collector}", jdk.version));
            }
        }
    }
    if failures.is_empty() {
        println!("{} JDKs, all collectors: ok", jdks.len());
        ExitCode::SUCCESS
    } else {
        println!("failed: {}", failures.join(", "));
        ExitCode::FAILURE
    }
}

fn run(jdk: &Jdk, collector: &str) -> bool {
    let own = env::current_exe().expect("this test's own path");
    let output = walkfuzz_record::machine::command(own)
        .env(JDK, &jdk.home)
        .env(COLLECTOR, collector)
        .output()
        .expect("starting this test again");
    let text = String::from_utf8_lossy(&output.stdout);
    if output.status.success() {
        for line in text.lines() {
            println!("  {line}");
        }
        return true;
    }
    println!(
        "  {collector}: {}\n{text}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    false
}

fn child(jdk: &Path, collector: &str) -> ExitCode {
    let release = jdks::release(jdk).expect("the JDK's release file");
    // HotSpot's launcher does the same: the primordial thread's stack is no good for Java.
    let collector = collector.to_owned();
    let jdk = jdk.to_owned();
    let thread = std::thread::Builder::new()
        .name("java".into())
        .stack_size(8 << 20);
    let done = thread
        .spawn(move || {
            let chosen = match &*collector {
                MANY_BLOBS => "-Xcomp".to_owned(),
                collector => format!("-XX:+Use{collector}GC"),
            };
            let jvm = jvm::Jvm::start(&jdk, chosen);
            match collector == MANY_BLOBS {
                true => checks::many_blobs(&jvm),
                false => checks::all(&jvm, &release, &collector),
            }
        })
        .expect("starting a thread")
        .join();
    // Without destroying the JVM: its other threads are still at work.
    jvm::exit(i32::from(done.is_err()))
}
