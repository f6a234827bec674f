//! `walkfuzz snapshots`: `take` starts a process with a JVM for each collector and prints a table of what came of it, `walk` starts
//! processes without one that walk what was taken.

mod live;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use walkfuzz_harness::interrupt;
use walkfuzz_harness::snapshots::{CAPSULE, Effort, Taken};
use walkfuzz_jvm::Places;
use walkfuzz_record::RunFolder;

use crate::child::{myself, output};
use crate::cli::{LiveArgs, TakeArgs, WalkArgs};
use crate::failure::{FINDINGS, Failure, INTERRUPTED, UNKNOWN, USAGE};
use crate::table::table;

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Answer<'a> {
    jdk: String,
    folder: &'a Path,
    snapshots: &'a [Taken],
    /// Whether the end was asked for before all were taken.
    interrupted: bool,
}

pub(crate) fn take(args: &TakeArgs) -> Result<(), Failure> {
    let places = Places::from_env();
    let jdk = places.choose(args.jdk.as_deref().filter(|jdk| !jdk.is_empty()))?;
    let collectors: Vec<Option<&str>> = if args.gc.is_empty() {
        vec![None]
    } else {
        args.gc.iter().map(|name| Some(name.as_str())).collect()
    };
    interrupt::catch();
    let mut taken = Vec::new();
    for collector in collectors {
        if interrupt::seen() {
            break;
        }
        eprintln!(
            "walkfuzz: taking {} snapshots of JDK {jdk}{}",
            args.count,
            collector.map_or_else(String::new, |name| format!(" with {name}")),
        );
        let home = jdk.home.display().to_string();
        taken.extend(take_with(args, &home, collector)?);
    }
    let interrupted = interrupt::seen();
    if args.json {
        crate::print_json(&Answer {
            jdk: jdk.to_string(),
            folder: &args.out,
            snapshots: &taken,
            interrupted,
        })?;
    } else {
        crate::print(screen(&taken, &args.out).as_bytes())?;
    }
    if interrupted {
        return Err(Failure::said(INTERRUPTED));
    }
    if taken.is_empty() {
        return Err(Failure::said(UNKNOWN));
    }
    Ok(())
}

/// The snapshots of one JVM.
fn take_with(args: &TakeArgs, jdk: &str, gc: Option<&str>) -> Result<Vec<Taken>, Failure> {
    let mut command = myself()?;
    command
        .args(["in-jvm", "snapshots"])
        .args([args.count.to_string(), args.seconds.to_string()])
        .arg(&args.out)
        .env("WALKFUZZ_JDK", jdk)
        // A moment at each instruction: stubs and prologues come, too.
        .env("WALKFUZZ_ENGINE", "step");
    if let Some(gc) = gc {
        command.env("WALKFUZZ_GC", gc);
    }
    // What the JVM's process writes beside snapshots is of no use later.
    let runs = tempfile::tempdir().map_err(|error| {
        Failure::environment(format_args!("cannot make a temporary folder: {error}"))
    })?;
    command.env("WALKFUZZ_RUNS", runs.path());
    let output = output(command)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let taken: Vec<Taken> = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    if !output.status.success() && taken.is_empty() && !interrupt::seen() {
        return Err(Failure::environment(format_args!(
            "no snapshots could be taken ({}); its last words stand above",
            output.status
        )));
    }
    Ok(taken)
}

/// For people.
fn screen(taken: &[Taken], folder: &Path) -> String {
    let mut kinds: BTreeMap<&str, Vec<&Taken>> = BTreeMap::new();
    for one in taken {
        kinds.entry(&one.kind).or_default().push(one);
    }
    let mut rows = vec![
        ["kind", "taken", "frames", "pages", "MB"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for (kind, of_kind) in &kinds {
        let frames = of_kind.iter().map(|one| one.frames);
        let (least, most) = (frames.clone().min(), frames.max());
        let mean = |sum: f64| sum / of_kind.len() as f64;
        let pages = mean(of_kind.iter().map(|one| one.pages as f64).sum());
        let megabytes = mean(of_kind.iter().map(|one| one.bytes as f64 / 1e6).sum());
        rows.push(vec![
            (*kind).to_owned(),
            of_kind.len().to_string(),
            format!("{} to {}", least.unwrap_or(0), most.unwrap_or(0)),
            format!("{pages:.0}"),
            format!("{megabytes:.1}"),
        ]);
    }
    let bytes: u64 = taken.iter().map(|one| one.bytes).sum();
    format!(
        "{}\n{} snapshots of {} kinds, {:.0} MB, in {}\n",
        table(&rows),
        taken.len(),
        kinds.len(),
        bytes as f64 / 1e6,
        folder.display()
    )
}

/// A folder that is missing or has no snapshot is said before a process is started for it.
fn check_folder(folder: &Path) -> Result<(), Failure> {
    let wrong = |what: &dyn std::fmt::Display| {
        Failure::usage(format_args!(
            "no snapshots in {}: {what}; walkfuzz snapshots take makes some",
            folder.display()
        ))
    };
    let mut entries = std::fs::read_dir(folder).map_err(|error| wrong(&error))?;
    let is_one = |path: &Path| path.extension().is_some_and(|ending| ending == CAPSULE);
    if entries.any(|entry| entry.is_ok_and(|entry| is_one(&entry.path()))) {
        Ok(())
    } else {
        Err(wrong(&format_args!("it holds no .{CAPSULE} file")))
    }
}

/// What one process did.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Walked {
    pub(crate) seconds: f64,
    pub(crate) resident_mb: f64,
    /// Its run folder.
    pub(crate) run: PathBuf,
    #[serde(flatten)]
    pub(crate) effort: Effort,
}

pub(crate) fn walk(args: &WalkArgs) -> Result<(), Failure> {
    interrupt::catch();
    check_folder(&args.snapshots)?;
    let mut all: Vec<Walked> = Vec::new();
    for _ in 0..args.repeat {
        let mut command = myself()?;
        command
            .args(["in-jvm", "walk-snapshots"])
            .args([args.walks.to_string(), args.seed.to_string()])
            .arg(&args.snapshots);
        if let Some(every) = args.memory {
            command.env("WALKFUZZ_MEMORY_EDITS", every.to_string());
        }
        let output: Output = output(command)?;
        let text = String::from_utf8_lossy(&output.stdout);
        let walked = text
            .lines()
            .find_map(|line| serde_json::from_str(line).ok());
        // One that was still loading has nothing to say; what the others found stays.
        if walked.is_none() && interrupt::seen() {
            break;
        }
        // It has said in a sentence what is wrong with the snapshots.
        if walked.is_none() && output.status.code() == Some(i32::from(USAGE)) {
            return Err(Failure::said(USAGE));
        }
        all.push(walked.ok_or_else(|| {
            Failure::environment(format_args!(
                "the snapshots could not be walked ({}); its last words stand above",
                output.status
            ))
        })?);
        if interrupt::seen() {
            break;
        }
    }
    if args.json {
        crate::print_json(&all)?;
    } else {
        let lines: String = all.iter().map(line).collect();
        crate::print(lines.as_bytes())?;
    }
    // All processes found the same, or something worse is said below.
    if let Some(walked) = all.first().filter(|_| !args.no_live && !interrupt::seen()) {
        let run = RunFolder::open(&walked.run)?;
        let tried = live::try_findings(&run, Duration::from_secs(u64::from(args.live)))?;
        if !args.json {
            crate::print(live::line(tried).as_bytes())?;
        }
    }
    if interrupt::seen() {
        return Err(Failure::said(INTERRUPTED));
    }
    let same = |pair: &[Walked]| match pair {
        [one, other] => one.effort.chain == other.effort.chain,
        _ => true,
    };
    if all.windows(2).all(same) {
        Ok(())
    } else {
        eprintln!(
            "the chains differ: something else than seed and snapshots decides how walks end"
        );
        Err(Failure::said(FINDINGS))
    }
}

/// Tries what a run found: `walk_capsule`'s, or one that was ended early.
pub(crate) fn live(args: &LiveArgs) -> Result<(), Failure> {
    interrupt::catch();
    let run = RunFolder::open(&args.run)?;
    let tried = live::try_findings(&run, Duration::from_secs(u64::from(args.seconds)))?;
    crate::print(live::line(tried).as_bytes())?;
    if interrupt::seen() {
        return Err(Failure::said(INTERRUPTED));
    }
    Ok(())
}

fn line(walked: &Walked) -> String {
    let effort = &walked.effort;
    let mut text = format!(
        "chain {:016x}: {} walks in {:.1} s of CPU time ({:.1} s to judge hits), {:.0} k/s; {} signatures confirmed, {} not; {} features; {:.0} MB resident\n",
        effort.chain,
        effort.walks,
        effort.cpu_seconds,
        effort.judging_seconds,
        effort.walks as f64 / effort.cpu_seconds.max(1e-9) / 1e3,
        effort.signatures.0,
        effort.signatures.1,
        effort.features,
        walked.resident_mb,
    );
    text.push_str(&format!(
        "  left the snapshot: {} ({:.3} %)",
        effort.left,
        effort.left as f64 / effort.walks.max(1) as f64 * 100.0
    ));
    for (region, count) in &effort.left_for {
        text.push_str(&format!(", {region} {count}"));
    }
    text.push('\n');
    let synthetic = &effort.synthetic;
    if synthetic.walks > 0 || synthetic.without_place > 0 {
        text.push_str(&format!(
            "  edited memory (synthetic, counted apart): {} hits in {} walks; {} signatures confirmed, {} not; {} left, {} batches had no word; the untouched walk ended otherwise in {} of {} batches\n",
            synthetic.hits,
            synthetic.walks,
            synthetic.signatures.0,
            synthetic.signatures.1,
            synthetic.left,
            synthetic.without_place,
            synthetic.changed.0,
            synthetic.changed.1,
        ));
    }
    text
}
