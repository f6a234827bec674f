//! Reading 10,000 cells and rendering every format: under 2 s of CPU time together, the process under 200 MB.
//!
//! A process of its own renders, so that the results' making counts in neither.

#[path = "../tests/report/fixture.rs"]
#[expect(
    clippy::unwrap_used,
    reason = "as in the tests whose results these are"
)]
mod fixture;

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

use walkfuzz_stress::report::{
    Night, Run, Screen, compare, html, json, junit, merge, terminal, trend,
};
use walkfuzz_stress::store::StressFolder;

const CELLS: usize = 10_000;
const SECONDS: f64 = 2.0;
const MEGABYTES: f64 = 200.0;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<ExitCode, Failure> {
    if let Some(folder) = std::env::var_os("WALKFUZZ_REPORT_BENCH") {
        return render(Path::new(&folder));
    }
    let base = tempfile::tempdir()?;
    let plan = fixture::cells(CELLS + CELLS / 24, 7);
    let results = fixture::results(&plan, 7);
    let folder = StressFolder::create(base.path(), &fixture::facts(plan, 7))?;
    for result in &results {
        folder.append(result)?;
    }
    println!("{} finished cells", results.len());
    let status = Command::new(std::env::current_exe()?)
        .env("WALKFUZZ_REPORT_BENCH", folder.path())
        .status()?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn render(path: &Path) -> Result<ExitCode, Failure> {
    let total = std::cell::Cell::new(0.0);
    let step =
        |name: &str, work: &mut dyn FnMut() -> Result<usize, Failure>| -> Result<(), Failure> {
            let (wall, begin) = (Instant::now(), cpu_seconds()?);
            let bytes = work()?;
            let seconds = cpu_seconds()? - begin;
            total.set(total.get() + seconds);
            println!(
                "{name:<18} {seconds:>6.2} s of CPU {:>6.2} s {:>8.1} MB written {:>7.1} MB peak",
                wall.elapsed().as_secs_f64(),
                bytes as f64 / 1e6,
                peak_megabytes()?
            );
            Ok(())
        };
    let folder = StressFolder::open(path)?;
    let (mut facts, mut cells) = (None, Vec::new());
    step("read", &mut || {
        facts = Some(folder.facts()?);
        cells = folder.finished()?.cells;
        Ok(0)
    })?;
    let facts = facts.ok_or("no facts")?;
    let run = Run {
        facts: &facts,
        cells: &cells,
    };
    step("terminal", &mut || {
        Ok(terminal(run, &Screen::default()).len())
    })?;
    step("terminal, all", &mut || {
        Ok(terminal(
            run,
            &Screen {
                all: true,
                ..Screen::default()
            },
        )
        .len())
    })?;
    step("JSON", &mut || {
        let mut counted = Counted(0);
        serde_json::to_writer(std::io::BufWriter::new(&mut counted), &json(run))?;
        Ok(counted.0)
    })?;
    step("JUnit", &mut || Ok(junit(run)?.len()))?;
    step("HTML", &mut || Ok(html(run, "").len()))?;
    step("compare, trend", &mut || {
        let text = compare(run, run).text(&Screen::default());
        Ok(text.len() + trend(&[Night::of(run), Night::of(run)]).text().len())
    })?;
    let peak = peak_megabytes()?;
    let in_all = total.get();
    println!(
        "{:<18} {in_all:>6.2} s of CPU (at most {SECONDS}), {peak:.1} MB (at most {MEGABYTES})",
        "in all"
    );
    // Merging holds the shards as well as the run: outside the bound.
    let part = walkfuzz_stress::report::Part {
        name: "whole".into(),
        facts: facts.clone(),
        cells: cells.clone(),
    };
    step("merge", &mut || Ok(merge(vec![part.clone()])?.cells.len()))?;
    let good = in_all <= SECONDS && peak <= MEGABYTES;
    Ok(if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

struct Counted(usize);

impl std::io::Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn cpu_seconds() -> Result<f64, Failure> {
    use nix::sys::resource::{UsageWho, getrusage};
    use nix::sys::time::TimeValLike as _;
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let microseconds =
        usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(microseconds as f64 / 1e6)
}

fn peak_megabytes() -> Result<f64, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes: f64 = line
        .ok_or("no VmHWM")?
        .trim()
        .trim_end_matches(" kB")
        .parse()?;
    Ok(kilobytes / 1_000.0)
}
