//! Walkers from libraries: the examples walk, and each mutant is found and rightly named within a stated number of walks.
//!
//! `plugins/mutants/mutants.c` says what each mutant does wrong.

use std::path::PathBuf;

use walkfuzz_context::generate::blind;
use walkfuzz_harness::{Mode, Session};
use walkfuzz_record::{Finding, OutcomeKind, Summary};
use walkfuzz_walkers::PluginPath;

use crate::compile;
use crate::sessions::finished;

/// Inputs of at most 16 walks and a control; what is not found within them is not found.
const INPUTS: u64 = 1_500;

/// Compiles a library in the case's own folder.
fn library(name: &str, source: &str, flags: &[&str]) -> PathBuf {
    let folder = PathBuf::from(std::env::var("WALKFUZZ_RUNS").unwrap());
    std::fs::create_dir_all(&folder).unwrap();
    compile::library(&folder, name, source, flags)
}

fn session(path: PathBuf) -> Session {
    let path = PluginPath { path, sha256: None };
    Session::start_with_plugin(Mode::Survey, &["live".to_owned()], None, &path).unwrap()
}

fn findings(session: &Session) -> Vec<Finding> {
    session.run_folder().findings().unwrap().findings
}

/// What a finding must say.
struct Named {
    kind: OutcomeKind,
    /// A part of its signature.
    signature: &'static str,
}

/// Runs a mutant until it is found, and says after how many walks.
fn hunt(mutant: &str, named: &Named) {
    let define = format!("-DMUTANT_{mutant}");
    let mut session = session(library("mutant", "mutants/mutants.c", &[&define]));
    let right = |finding: &Finding| {
        finding.outcome.kind == named.kind && finding.signature.contains(named.signature)
    };
    let mut walks = 0;
    let mut inputs = 0;
    let found = loop {
        let batch = blind(inputs);
        session.run_given(&batch.to_bytes()).unwrap();
        inputs += 1;
        walks += batch.walks().len() + 1;
        let found = findings(&session);
        if let Some(finding) = found.iter().find(|finding| right(finding)) {
            break finding.clone();
        }
        assert!(inputs < INPUTS, "not found in {walks} walks: {found:#?}");
    };
    println!(
        "note: {mutant}: found within {walks} walks: {}",
        found.title
    );
    assert!(found.signature.ends_with("|mutant"), "{}", found.signature);
    let summary = finished(&mut session);
    assert!(summary.walks > 0 && summary.controls.of > 0, "{summary:?}");
    let found = findings(&session);
    for finding in &found {
        println!("note: {}, {} times", finding.title, finding.count);
    }
    // A mutant has one mistake.
    assert!(found.iter().all(right), "{found:#?}");
}

macro_rules! mutants {
    ($($function:ident: $mutant:literal => $kind:ident, $signature:literal;)*) => {
        $(pub(crate) fn $function() {
            hunt($mutant, &Named { kind: OutcomeKind::$kind, signature: $signature });
        })*
    };
}

mutants! {
    unchecked_fp: "UNCHECKED_FP" => Fault, "|read_unchecked_fp|";
    beyond_stack: "BEYOND_STACK" => Fault, "|scan_beyond_stack|";
    stale_sp: "STALE_SP" => Fault, "|read_stale_sp|";
    cycle: "CYCLE" => Hang, "hang|";
    more_than_depth: "MORE_THAN_DEPTH" => Breach, "breach|depth|";
    behind_frames: "BEHIND_FRAMES" => Breach, "breach|canary|";
    allocates: "ALLOCATES" => Breach, "breach|allocation|";
    leaves_lock: "LEAVES_LOCK" => Breach, "breach|lockheld|";
}

/// Walks as many contexts as a mutant gets.
fn unspoiled(session: &mut Session) -> Summary {
    for seed in 0..INPUTS {
        session.run_given(&blind(seed).to_bytes()).unwrap();
    }
    finished(session)
}

/// What is no mutant is not found.
pub(crate) fn no_mutant() {
    let mut session = session(library("mutant", "mutants/mutants.c", &[]));
    let summary = unspoiled(&mut session);
    println!(
        "note: {} walks, {} of {} controls, {} findings",
        summary.walks,
        summary.controls.k,
        summary.controls.of,
        findings(&session).len()
    );
    assert!(summary.walks > INPUTS * 8, "{summary:?}");
    assert!(summary.controls.k * 2 > summary.controls.of, "{summary:?}");
    assert!(findings(&session).is_empty(), "{:#?}", findings(&session));
}

/// The example in C gives frames of every held context, and its codes have its names.
pub(crate) fn example_in_c() {
    let source = "c-frame-pointers/frame_pointers.c";
    let mut session = session(library("frame_pointers", source, &[]));
    let summary = unspoiled(&mut session);
    example(&session, &summary, "c-frame-pointers");
    let named = |name: &str| summary.outcomes.iter().any(|row| row.name == name);
    assert!(named("outside the code cache"), "{:?}", summary.outcomes);
}

/// Framehop, which cargo builds beside this test.
pub(crate) fn example_in_rust() {
    // Named here, so that it is built.
    assert!(!walkfuzz_framehop::walkfuzz_walker().is_null());
    let here = std::env::current_exe().unwrap();
    let library = here.with_file_name("libwalkfuzz_framehop.so");
    let mut session = session(library);
    let summary = unspoiled(&mut session);
    example(&session, &summary, "framehop");
    assert!(summary.depth_frames.p50 > 1, "{:?}", summary.depth_frames);
}

fn example(session: &Session, summary: &Summary, name: &str) {
    let depth = &summary.depth_frames;
    println!(
        "note: {name}: {} walks, {} of {} controls gave frames, depth {depth:?}, {} findings",
        summary.walks,
        summary.controls.k,
        summary.controls.of,
        findings(session).len()
    );
    let facts = session.run_folder().facts().unwrap();
    assert_eq!(facts.walkers[0].name, name);
    assert!(!facts.walkers[0].version.is_empty());
    assert_eq!(summary.controls.k, summary.controls.of, "{summary:?}");
    assert!(findings(session).is_empty(), "{:#?}", findings(session));
}
