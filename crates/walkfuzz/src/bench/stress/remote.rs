//! Walks from another thread: how many a second while two busy threads have both cores, and how long a thread waits for one.

use super::{SideFile, Stage, clocks};
use crate::bench::Figure;
use crate::bench::parts::Bench;
use crate::failure::Failure;

const PART: &str = "walkers";
const THREADS: u32 = 2;
/// Walks a second by `JNIEnv` and by thread id.
const MODES: [(&str, f64); 2] = [("agct-remote-env", 2_500.0), ("agct-remote-tid", 1_500.0)];
/// How long a walked thread may wait, half the time.
const HELD_NS: f64 = 100e3;

pub(crate) fn figures(bench: &Bench<'_>) -> Result<Vec<Figure>, Failure> {
    let stage = Stage::new(bench)?;
    let seconds = f64::from(stage.seconds);
    eprintln!("bench: agct in the handler, {THREADS} busy threads");
    let own = side(&stage, "")?;
    let in_handler = own.clocks.first().map_or(0, |clock| clock.delivered) as f64 / seconds;
    let mut figures = Vec::new();
    for (walker, least) in MODES {
        eprintln!("bench: {walker}, {THREADS} busy threads");
        let side = side(&stage, &format!(",walker={walker}"))?;
        let none = || Failure::environment(format_args!("{walker} made no walks"));
        let remote = side
            .remote
            .filter(|remote| remote.walks > 0)
            .ok_or_else(none)?;
        let held = remote.held.ok_or_else(none)?;
        figures.extend([
            Figure::new(PART, walker, remote.walks as f64 / seconds, "walks/s")
                .beside("agct in the handler", in_handler)
                .at_least(least),
            Figure::new(
                PART,
                format!("{walker}, thread held, median"),
                held.median.ns,
                "ns",
            )
            .beside("p99", held.p99.ns)
            .at_most(HELD_NS),
            Figure::new(
                PART,
                format!("{walker}, unlike the handler, of {} pairs", remote.pairs),
                remote.different as f64,
                "",
            )
            .at_most(0.0),
        ]);
    }
    Ok(figures)
}

fn side(stage: &Stage<'_>, more: &str) -> Result<SideFile, Failure> {
    clocks::run(stage, "timer", THREADS, more)?
        .ok_or_else(|| Failure::environment("the kernel has no timers for us"))
}
