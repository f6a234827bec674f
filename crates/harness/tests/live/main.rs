//! Sessions and engines against real JVMs: each case is a process of its own, because a process can have one JVM.
//!
//! This program runs itself again for each pair of case and JDK. JDKs are those of `WALKFUZZ_TEST_JDKS` (separated by colons), or
//! all that walkfuzz itself finds; the first of each feature release is used. A word on the command line chooses the cases whose
//! name contains it.

#![expect(
    clippy::unwrap_used,
    reason = "a test, which clippy cannot see without the harness"
)]

mod allocations;
mod compared;
#[path = "../../../../plugins/compile.rs"]
mod compile;
mod engines;
mod findings;
mod jdks;
mod judged;
mod planted;
mod plugins;
mod processes;
mod runner;
mod sessions;

use std::process::ExitCode;

use runner::{Case, Which};

#[global_allocator]
static ALLOCATOR: allocations::Counting = allocations::Counting;

/// The collectors that some cases run with beside the JVM's own, on the newest JDK.
const SERIAL: &[Option<&str>] = &[None, Some("serial")];
const Z: &[Option<&str>] = &[None, Some("z")];

const CASES: &[Case] = &[
    Case::new("live_park", sessions::live_park)
        .collectors(SERIAL)
        .with("WALKFUZZ_BLIND", "1"),
    Case::new("blocks", sessions::blocks)
        .collectors(SERIAL)
        .with("WALKFUZZ_BLOCKS", "1"),
    Case::new("natural_steps", sessions::natural_steps)
        .collectors(Z)
        .with("WALKFUZZ_ENGINE", "step"),
    Case::new("near_misses", sessions::near_misses).since(17),
    Case::new("trap_flag", engines::trap_flag),
    Case::new("frozen", engines::frozen),
    Case::new("allocations", engines::allocations),
    Case::new("misbehaviour", findings::misbehaviour).with("WALKFUZZ_HANG_MS", "40"),
    Case::new("minimised", findings::minimised),
    Case::new("wrong_frames", judged::wrong_frames).with("WALKFUZZ_ORACLE", "reference"),
    Case::new("wrong_controls", judged::wrong_controls)
        .once()
        .with("WALKFUZZ_ORACLE", "reference"),
    Case::new("honest", judged::honest).with("WALKFUZZ_ORACLE", "reference"),
    Case::new("reference", judged::reference).with("WALKFUZZ_WALKER", "reference"),
    Case::new("judged_by_agct", judged::judged_by_agct).with("WALKFUZZ_ORACLE", "agct"),
    Case::new("from_frame_iterator", judged::from_frame)
        .with("WALKFUZZ_WALKER", "asgst-iterator-frame"),
    Case::new("from_frame_minimal", judged::from_frame)
        .once()
        .with("WALKFUZZ_WALKER", "asgst-minimal-frame"),
    Case::new("from_outside", sessions::from_outside)
        .with("WALKFUZZ_WALKER", "agct-remote-running"),
    Case::new("ran_on", findings::ran_on).with("WALKFUZZ_WALKER", "agct-remote-running"),
    Case::new("torn", findings::torn)
        .once()
        .with("WALKFUZZ_WALKER", "agct-remote-running"),
    Case::new("by_env", sessions::by_another_thread)
        .once()
        .with("WALKFUZZ_WALKER", "agct-remote-env"),
    Case::new("by_tid", sessions::by_another_thread)
        .once()
        .with("WALKFUZZ_WALKER", "agct-remote-tid"),
    Case::new("requests", sessions::requests).once(),
    Case::new("no_requests", sessions::no_requests).with("WALKFUZZ_WALKER", "request-stack-trace"),
    Case::new("compared", compared::compared)
        .collectors(Z)
        .with("WALKFUZZ_ORACLE", "reference"),
    Case::new("compared_liar", compared::compared_liar)
        .once()
        .with("WALKFUZZ_ORACLE", "reference"),
    Case::new("traced", findings::traced),
    Case::new("healthy", findings::healthy),
    Case::new("strict", findings::strict).once(),
    Case::new("strict_survey", findings::minimised).part(),
    Case::new("strict_again", findings::strict_again).part(),
    Case::new("strict_nothing", findings::strict_nothing)
        .part()
        .with("WALKFUZZ_ATTEMPTS", "20"),
    Case::new("vacuous", sessions::vacuous).once().ends_with(91),
    Case::new("bad_input", sessions::bad_input).once(),
    Case::new("retired", processes::retired)
        .once()
        .with("WALKFUZZ_RETIRE_AFTER", "20"),
    Case::new("aborts", processes::aborts).once(),
    Case::new("crash_log", processes::crash_log),
    Case::new("killed_in_walk", processes::killed_in_walk).once(),
    Case::new("mutant_none", plugins::no_mutant),
    Case::new("mutant_unchecked_fp", plugins::unchecked_fp),
    Case::new("mutant_beyond_stack", plugins::beyond_stack),
    Case::new("mutant_stale_sp", plugins::stale_sp),
    Case::new("mutant_cycle", plugins::cycle).with("WALKFUZZ_HANG_MS", "40"),
    Case::new("mutant_more_than_depth", plugins::more_than_depth),
    Case::new("mutant_behind_frames", plugins::behind_frames),
    Case::new("mutant_allocates", plugins::allocates),
    Case::new("mutant_leaves_lock", plugins::leaves_lock),
    Case::new("mutant_wrong_bci", plugins::wrong_bci).with("WALKFUZZ_ORACLE", "agct"),
    Case::new("mutant_off_by_one_inlined", plugins::off_by_one_inlined)
        .with("WALKFUZZ_ORACLE", "agct"),
    Case::new("mutant_skips_at_stub", plugins::skips_at_stub).with("WALKFUZZ_ORACLE", "agct"),
    Case::new("mutant_after_recovery", plugins::after_recovery).with("WALKFUZZ_ORACLE", "agct"),
    Case::new("mutant_none_of_agct", plugins::no_mutant_of_agct).with("WALKFUZZ_ORACLE", "agct"),
    Case::new("reference_judges_wrong_bci", plugins::wrong_bci)
        .with("WALKFUZZ_ORACLE", "reference"),
    Case::new(
        "reference_judges_off_by_one_inlined",
        plugins::off_by_one_inlined,
    )
    .with("WALKFUZZ_ORACLE", "reference"),
    Case::new("reference_judges_skips_at_stub", plugins::skips_at_stub)
        .with("WALKFUZZ_ORACLE", "reference"),
    Case::new("reference_judges_after_recovery", plugins::after_recovery)
        .with("WALKFUZZ_ORACLE", "reference"),
    Case::new("reference_judges_none_of_agct", plugins::no_mutant_of_agct)
        .with("WALKFUZZ_ORACLE", "reference"),
    Case::new("example_in_c", plugins::example_in_c),
    Case::new("example_from_frame", plugins::example_from_frame).once(),
    Case::new(
        "example_by_another_thread",
        plugins::example_by_another_thread,
    )
    .once(),
    Case::new("example_from_outside", plugins::example_from_outside),
    Case::new("refused_before", plugins::refused_before).once(),
    Case::new("example_in_rust", plugins::example_in_rust),
    Case::new("killed_between_walks", processes::killed_between_walks).once(),
];

fn main() -> ExitCode {
    if let Some(case) = runner::chosen(CASES) {
        runner::child(case);
    }
    runner::parent(CASES)
}

/// Which JDKs a case runs on.
impl Case {
    const fn since(mut self, feature: u32) -> Self {
        self.which = Which::Since(feature);
        self
    }

    const fn once(mut self) -> Self {
        self.which = Which::Newest;
        self
    }

    /// Started by another case alone.
    const fn part(mut self) -> Self {
        self.which = Which::Never;
        self
    }
}
