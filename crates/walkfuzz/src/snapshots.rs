//! `walkfuzz snapshots take`: a process with a JVM for each collector, and a table of what came of it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;

use serde::Serialize;
use walkfuzz_harness::snapshots::Taken;
use walkfuzz_jvm::Places;

use crate::child::myself;
use crate::cli::TakeArgs;
use crate::failure::{Failure, UNKNOWN};
use crate::table::table;

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Answer<'a> {
    jdk: String,
    folder: &'a Path,
    snapshots: &'a [Taken],
}

pub(crate) fn take(args: &TakeArgs) -> Result<(), Failure> {
    let places = Places::from_env();
    let jdk = places.choose(args.jdk.as_deref().filter(|jdk| !jdk.is_empty()))?;
    let collectors: Vec<Option<&str>> = if args.gc.is_empty() {
        vec![None]
    } else {
        args.gc.iter().map(|name| Some(name.as_str())).collect()
    };
    let mut taken = Vec::new();
    for collector in collectors {
        eprintln!(
            "walkfuzz: taking {} snapshots of JDK {jdk}{}",
            args.count,
            collector.map_or_else(String::new, |name| format!(" with {name}")),
        );
        let home = jdk.home.display().to_string();
        taken.extend(take_with(args, &home, collector)?);
    }
    if args.json {
        return crate::print_json(&Answer {
            jdk: jdk.to_string(),
            folder: &args.out,
            snapshots: &taken,
        });
    }
    crate::print(screen(&taken, &args.out).as_bytes())?;
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
        .env("WALKFUZZ_ENGINE", "step")
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    if let Some(gc) = gc {
        command.env("WALKFUZZ_GC", gc);
    }
    // What the JVM's process writes beside snapshots is of no use later.
    let runs = tempfile::tempdir().map_err(|error| {
        Failure::environment(format_args!("cannot make a temporary folder: {error}"))
    })?;
    command.env("WALKFUZZ_RUNS", runs.path());
    let output = command.output().map_err(|error| {
        Failure::environment(format_args!("cannot start this program again: {error}"))
    })?;
    let text = String::from_utf8_lossy(&output.stdout);
    let taken: Vec<Taken> = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    if !output.status.success() && taken.is_empty() {
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
