//! What each clock delivers of 10,000 samples per on-CPU second, by busy threads.

use std::fs::File;
use std::process::Stdio;

use serde::Serialize;

use super::{DELIVERED, HANDLER_NS, HandlerFile, INTERVAL, INTERVAL_NS, PART, SideFile, Stage};
use crate::bench::Figure;
use crate::failure::Failure;
use crate::table::table;

const THREADS: [u32; 3] = [1, 2, 8];
/// The first is the one that promises something.
const CLOCKS: [&str; 5] = ["timer", "tick", "itimer", "cpu-timer", "perf"];
/// What the sampler says where the kernel allows no perf events.
const NO_PERF: &str = "perf events cannot be had";

/// One clock with so many threads.
#[derive(Debug, Serialize)]
pub(super) struct Delivery {
    clock: &'static str,
    threads: u32,
    on_cpu_seconds: f64,
    requested: u64,
    delivered: u64,
    coalesced: u64,
    drops: u64,
    /// Of what was requested.
    share: f64,
    /// Of the thread that got the least; absent if none was on a CPU for half a second.
    least_share: Option<f64>,
    /// What the clock can give of it at most; for the process as a whole, if the clock is the process's.
    ceiling_share: Option<f64>,
}

pub(super) fn measure(
    stage: &Stage<'_>,
) -> Result<(Vec<Figure>, Vec<Delivery>, HandlerFile), Failure> {
    let mut all = Vec::new();
    let mut figures = Vec::new();
    for threads in THREADS {
        for clock in CLOCKS {
            let Some(delivery) = deliver(stage, clock, threads)? else {
                continue;
            };
            figures.extend(delivery.figure());
            all.push(delivery);
        }
    }
    let drops: u64 = all
        .iter()
        .filter(|delivery| delivery.threads == 8)
        .map(|delivery| delivery.drops)
        .sum();
    figures.push(Figure::new(PART, "drops, 8 threads, all clocks", drops as f64, "").at_most(0.0));
    eprintln!("bench: the handler, timed");
    let side = run(stage, "timer", 2, ",timing=on")?;
    let handler = side
        .and_then(|side| side.handler)
        .ok_or_else(|| Failure::environment("the sampler timed no handler"))?;
    let figure = |what, value| Figure::new(PART, what, value, "ns");
    figures.push(
        figure("handler without the walk, median", handler.median_ns)
            .beside("p99", handler.p99_ns)
            .at_most(HANDLER_NS),
    );
    Ok((figures, all, handler))
}

fn deliver(
    stage: &Stage<'_>,
    clock: &'static str,
    threads: u32,
) -> Result<Option<Delivery>, Failure> {
    eprintln!("bench: clock {clock}, {threads} busy threads");
    let Some(side) = run(stage, clock, threads, "")? else {
        eprintln!("bench: clock {clock} is left out: {NO_PERF}");
        return Ok(None);
    };
    let its = side
        .clocks
        .first()
        .filter(|its| its.requested > 0)
        .ok_or_else(|| Failure::environment(format_args!("the clock {clock} was not used")))?;
    Ok(Some(Delivery {
        clock,
        threads,
        on_cpu_seconds: side.on_cpu_seconds,
        requested: its.requested,
        delivered: its.delivered,
        coalesced: its.coalesced,
        drops: side.drops,
        share: its.delivered as f64 / its.requested as f64,
        least_share: its.least_share,
        ceiling_share: its.ceiling_hz.map(|hz| hz * INTERVAL_NS / 1e9),
    }))
}

/// One JVM from its start to its end. `None` if the kernel has no such clock for us.
pub(super) fn run(
    stage: &Stage<'_>,
    clock: &str,
    threads: u32,
    more: &str,
) -> Result<Option<SideFile>, Failure> {
    let name = format!("{clock}-{threads}{}", more.replace(['=', ','], "-"));
    let record = stage.folder.join(format!("{name}.map"));
    let said = stage.folder.join(format!("{name}.log"));
    let mut command = stage.java();
    command.arg(format!(
        "-agentpath:{}=record={},clock={clock},interval={INTERVAL}{more}",
        stage.sampler.display(),
        record.display()
    ));
    stage.program(&mut command, threads, stage.seconds);
    let log = File::create(&said).map_err(Failure::environment)?;
    let status = command
        .stdout(Stdio::null())
        .stderr(log)
        .status()
        .map_err(Failure::environment)?;
    if !status.success() {
        let said = std::fs::read_to_string(&said).unwrap_or_default();
        if clock == "perf" && said.contains(NO_PERF) {
            return Ok(None);
        }
        return Err(Failure::environment(format_args!(
            "the sampled JVM ended with {status}: {}",
            said.trim()
        )));
    }
    SideFile::read(&record).map(Some)
}

impl Delivery {
    fn figure(&self) -> Option<Figure> {
        if self.clock != CLOCKS[0] {
            return None;
        }
        let plural = if self.threads == 1 { "" } else { "s" };
        let what = format!(
            "{}, {} busy thread{plural}: delivered",
            self.clock, self.threads
        );
        let figure = Figure::new(PART, what, 100.0 * self.share, "%").at_least(DELIVERED);
        Some(match self.least_share {
            Some(least) => figure.beside("thread with the least", 100.0 * least),
            None => figure,
        })
    }
}

pub(super) fn for_people(all: &[Delivery]) -> String {
    let titles = [
        "clock",
        "threads",
        "on-CPU s",
        "requested",
        "delivered",
        "coalesced",
        "drops",
        "share",
        "least thread",
        "ceiling",
    ];
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    rows.extend(all.iter().map(|one| {
        vec![
            one.clock.to_owned(),
            one.threads.to_string(),
            format!("{:.2}", one.on_cpu_seconds),
            one.requested.to_string(),
            one.delivered.to_string(),
            one.coalesced.to_string(),
            one.drops.to_string(),
            percent(one.share),
            one.least_share.map_or_else(|| "-".to_owned(), percent),
            one.ceiling_share.map_or_else(|| "-".to_owned(), percent),
        ]
    }));
    format!(
        "\nclocks asked for a sample each {INTERVAL} of on-CPU time\n{}",
        table(&rows)
    )
}
