//! CPU time of a sample: how much more of it the same work takes with a profiler than without, by the samples that came.
//!
//! Windows with and without a profiler take turns in one JVM. A window is held against the mean of its two neighbours, so that what drifts slowly drops out.
//! Every profiler has the same limit of frames; async-profiler walks no native frames here (`cstack=no`), because the sampler does not either.

use std::path::{Path, PathBuf};

use serde::Serialize;
use walkfuzz_record::{Counter, RecordReader, Totals};

use super::running::{Running, Window};
use super::{HandlerFile, INTERVAL, PART, SideFile, Stage};
use crate::async_profiler;
use crate::bench::Figure;
use crate::bench::parts::median;
use crate::failure::Failure;
use crate::table::table;

const THREADS: u32 = 2;
const DEPTH: u32 = 128;
/// Before anything is measured: code gets compiled, and each profiler's own code is loaded.
const WARM_UP: f64 = 3.0;
/// The frame that every worker's stack has.
const WORKER: &str = "walkfuzz/programs/Rounds.work";
/// Samples per on-CPU second from which on a cost per sample is more than noise.
const ENOUGH: f64 = 1_000.0;

/// A profiler in one of its modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Profiler {
    Timer,
    AsyncWall,
    AsyncCpu,
}

/// What one profiler costs.
#[derive(Debug, Serialize)]
pub(super) struct Cost {
    profiler: Profiler,
    /// Samples of running Java threads, in all windows.
    samples: u64,
    /// Samples in a second of the process's CPU time.
    per_cpu_second: f64,
    /// Nanoseconds of CPU time a sample, by window.
    sample_ns: Vec<f64>,
    /// Their median.
    median_ns: f64,
    /// Of it in the walker, on the average; absent where that is not known.
    walk_ns: Option<f64>,
}

/// One window with a profiler, and the two beside it.
struct Turn {
    before: Window,
    with: Window,
    after: Window,
    samples: u64,
    /// CPU time while the profiler was at work; more than the window's.
    cpu_seconds: f64,
    walk_ns: Option<f64>,
}

impl Profiler {
    const fn name(self) -> &'static str {
        match self {
            Profiler::Timer => "sampler, timer",
            Profiler::AsyncWall => "async-profiler, wall",
            Profiler::AsyncCpu => "async-profiler, cpu",
        }
    }

    fn options(self, file: &Path) -> String {
        let file = file.display();
        match self {
            Profiler::Timer => {
                format!("record={file},clock=timer,interval={INTERVAL},depth={DEPTH}")
            }
            Profiler::AsyncWall => {
                format!("start,event=wall,interval={INTERVAL},cstack=no,jstackdepth={DEPTH}")
            }
            Profiler::AsyncCpu => {
                format!("start,event=cpu,interval={INTERVAL},cstack=no,jstackdepth={DEPTH}")
            }
        }
    }

    fn end(self, file: &Path) -> String {
        match self {
            Profiler::Timer => "stop".to_owned(),
            Profiler::AsyncWall | Profiler::AsyncCpu => {
                format!("stop,collapsed,file={}", file.display())
            }
        }
    }

    /// Samples of running Java threads, and nanoseconds of a walk.
    fn samples(self, file: &Path) -> Result<(u64, Option<f64>), Failure> {
        if self == Profiler::Timer {
            let delivered: u64 = SideFile::read(file)?
                .clocks
                .iter()
                .map(|clock| clock.delivered)
                .sum();
            let record = RecordReader::open(file).map_err(Failure::environment)?;
            let totals = Totals::of([&record]);
            let outside = totals.counter(Counter::OutsideJava);
            let walk = totals.latency().mean();
            return Ok((delivered.saturating_sub(outside), Some(walk)));
        }
        let text = std::fs::read_to_string(file).map_err(|error| {
            Failure::environment(format_args!("{} left nothing: {error}", self.name()))
        })?;
        Ok((of_workers(&text), None))
    }
}

/// Samples of the workers in folded stacks, one a line: `frame;frame;frame COUNT`.
fn of_workers(folded: &str) -> u64 {
    let counts = folded
        .lines()
        .filter(|line| line.contains(WORKER))
        .filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok());
    counts.sum()
}

pub(super) fn measure(
    stage: &Stage<'_>,
    handler: HandlerFile,
) -> Result<(Vec<Figure>, Vec<Cost>), Failure> {
    let own = of(stage, &stage.sampler, &[Profiler::Timer], "sampler")?;
    let mut costs = own;
    match async_profiler::find() {
        Ok(library) => {
            let both = [Profiler::AsyncWall, Profiler::AsyncCpu];
            costs.extend(of(stage, &library, &both, "async-profiler")?);
        }
        Err(reason) => eprintln!("bench: async-profiler is left out: {reason}"),
    }
    let figures = figures(&costs, handler);
    Ok((figures, costs))
}

/// The turns of some profilers of one library, in one JVM.
fn of(
    stage: &Stage<'_>,
    library: &Path,
    profilers: &[Profiler],
    name: &str,
) -> Result<Vec<Cost>, Failure> {
    eprintln!("bench: cost of a sample, {name}");
    let running = Running::start(stage, THREADS, name)?;
    let file = |profiler: Profiler, round: u32| -> PathBuf {
        let kind = profilers.iter().position(|known| *known == profiler);
        stage
            .folder
            .join(format!("{name}-{}-{round}.out", kind.unwrap_or(0)))
    };
    for &profiler in profilers {
        turn(&running, library, profiler, &file(profiler, 0), WARM_UP)?;
    }
    let mut turns: Vec<Vec<Turn>> = profilers.iter().map(|_| Vec::new()).collect();
    for round in 1..=stage.rounds {
        for (&profiler, turns) in profilers.iter().zip(&mut turns) {
            let seconds = f64::from(stage.seconds);
            let file = file(profiler, round);
            turns.push(turn(&running, library, profiler, &file, seconds)?);
        }
    }
    let costs = profilers.iter().zip(turns);
    Ok(costs
        .map(|(profiler, turns)| Cost::of(*profiler, &turns))
        .collect())
}

fn turn(
    running: &Running,
    library: &Path,
    profiler: Profiler,
    file: &Path,
    seconds: f64,
) -> Result<Turn, Failure> {
    let before = running.window(seconds / 2.0)?;
    running.agent(library, &profiler.options(file))?;
    let began = running.cpu_seconds();
    let with = running.window(seconds)?;
    running.agent(library, &profiler.end(file))?;
    // Both calls come back a little after the profiler has done what it was told; between them it was at work for that long.
    let cpu_seconds = running.cpu_seconds() - began;
    let after = running.window(seconds / 2.0)?;
    let (samples, walk_ns) = profiler.samples(file)?;
    Ok(Turn {
        before,
        with,
        after,
        samples,
        cpu_seconds,
        walk_ns,
    })
}

impl Turn {
    fn per_cpu_second(&self) -> f64 {
        self.samples as f64 / self.cpu_seconds.max(f64::MIN_POSITIVE)
    }

    /// The profiler's share of the CPU time, by the samples in a second of that.
    fn sample_ns(&self) -> f64 {
        let without = (self.before.price() + self.after.price()) / 2.0;
        let share = 1.0 - without / self.with.price().max(f64::MIN_POSITIVE);
        1e9 * share / self.per_cpu_second().max(f64::MIN_POSITIVE)
    }
}

impl Cost {
    fn of(profiler: Profiler, turns: &[Turn]) -> Self {
        let sample_ns: Vec<f64> = turns.iter().map(Turn::sample_ns).collect();
        let mut rates: Vec<f64> = turns.iter().map(Turn::per_cpu_second).collect();
        let mut walks: Vec<f64> = turns.iter().filter_map(|turn| turn.walk_ns).collect();
        Self {
            profiler,
            samples: turns.iter().map(|turn| turn.samples).sum(),
            per_cpu_second: median(&mut rates),
            median_ns: median(&mut sample_ns.clone()),
            sample_ns,
            walk_ns: (!walks.is_empty()).then(|| median(&mut walks)),
        }
    }
}

fn figures(costs: &[Cost], handler: HandlerFile) -> Vec<Figure> {
    let find = |profiler| costs.iter().find(|cost| cost.profiler == profiler);
    let Some(own) = find(Profiler::Timer) else {
        return Vec::new();
    };
    let figure = |what, value| Figure::new(PART, what, value, "ns");
    let mut figures = Vec::new();
    for other in [Profiler::AsyncWall, Profiler::AsyncCpu]
        .into_iter()
        .filter_map(find)
    {
        let figure = figure("CPU time of a sample, timer", own.median_ns)
            .beside(other.profiler.name(), other.median_ns);
        figures.push(if other.per_cpu_second >= ENOUGH {
            figure.at_most(other.median_ns)
        } else {
            figure
        });
    }
    if figures.is_empty() {
        figures.push(figure("CPU time of a sample, timer", own.median_ns));
    }
    let walk = own.walk_ns.unwrap_or(0.0);
    let rest = own.median_ns - walk - handler.median_ns;
    let part = |what, value| figure(what, value).beside("whole sample", own.median_ns);
    figures.extend([
        part("of it the walk, mean", walk),
        part("of it the handler around it, median", handler.median_ns),
        part("of it the signal's delivery: the rest", rest),
    ]);
    figures
}

pub(super) fn for_people(costs: &[Cost]) -> String {
    let titles = [
        "profiler",
        "samples",
        "per CPU second",
        "CPU ns a sample, median",
        "by window",
    ];
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    rows.extend(costs.iter().map(|cost| {
        let windows: Vec<String> = cost.sample_ns.iter().map(|ns| format!("{ns:.0}")).collect();
        vec![
            cost.profiler.name().to_owned(),
            cost.samples.to_string(),
            format!("{:.0}", cost.per_cpu_second),
            format!("{:.0}", cost.median_ns),
            windows.join(" "),
        ]
    }));
    format!(
        "\ncost of samples, {THREADS} busy threads, a sample each {INTERVAL}, at most {DEPTH} frames\n{}",
        table(&rows)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_stacks_of_workers_are_samples_of_running_threads() {
        let folded = "java/lang/Thread.run;walkfuzz/programs/Rounds.work;a.b 7\n\
                      java/lang/Thread.run;java/lang/Thread.sleep 900\n\
                      walkfuzz/programs/Rounds.work 3\n[no_Java_frame] 5\n";
        assert_eq!(of_workers(folded), 10);
        assert_eq!(of_workers(""), 0);
    }

    #[test]
    fn a_sample_costs_what_the_same_work_takes_more() {
        let window = |rounds, cpu_seconds| Window {
            rounds,
            cpu_seconds,
        };
        // 2 % more CPU time for the work at 10,000 samples a second: 2 % of a second by 10,000, less what the profiler itself used of it.
        let turn = Turn {
            before: window(100, 0.99),
            with: window(200, 2.04),
            after: window(100, 1.01),
            samples: 30_000,
            cpu_seconds: 3.0,
            walk_ns: Some(500.0),
        };
        let expected = 1e9 * (1.0 - 1.0 / 1.02) / 10_000.0;
        assert!((turn.sample_ns() - expected).abs() < 1e-6);
        let cost = Cost::of(Profiler::Timer, &[turn]);
        assert_eq!((cost.samples, cost.walk_ns), (30_000, Some(500.0)));
        assert_eq!(cost.per_cpu_second, 10_000.0);
    }
}
