//! `walkfuzz corpus check`: each entry on the JDKs that it speaks of; what the rules say goes into its file, or moves it.

use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;
use walkfuzz_harness::interrupt;
use walkfuzz_jvm::{Jdk, Places};
use walkfuzz_record::VariantCell;
use walkfuzz_triage::corpus::{
    CheckVerdict, Entry, EntryJdk, Observed, Ruling, State, check_name, entries, rule,
};

use crate::corpus::args::CheckArgs;
use crate::corpus::capsule;
use crate::corpus::settle::settle;
use crate::corpus::try_on::{Seen, find, knows_any, moments_that_tell, speaks_of, try_on};
use crate::failure::{FINDINGS, Failure, INTERRUPTED, UNKNOWN};
use crate::table::table;
use crate::variants::cell::Effort;
use crate::variants::every_jdk;

/// How often an entry has to reproduce for a check to be sure of it.
const ENOUGH: u64 = 5;
/// What one JVM may take at least.
const LEAST: Duration = Duration::from_secs(3);

/// What a check says of one entry.
#[derive(Debug, Serialize)]
pub(super) struct Checked {
    entry: String,
    state: Folder,
    verdict: CheckVerdict,
    /// In words.
    why: String,
    pub(super) misses: u32,
    /// The folder that it moves to, or would without `--dry-run`.
    pub(super) moves_to: Option<Folder>,
    /// What its capsule's replay gave, if it has one.
    capsule: Option<&'static str>,
    cells: Vec<VariantCell>,
}

/// The name of a state's folder.
type Folder = &'static str;

#[derive(Debug, Serialize)]
struct Report {
    verdict: CheckVerdict,
    /// Whether the end was asked for before all were checked.
    interrupted: bool,
    entries: Vec<Checked>,
    /// Names of those that were not come to.
    not_checked: Vec<String>,
}

pub(crate) fn run(args: &CheckArgs) -> Result<(), Failure> {
    interrupt::catch();
    let installed = Places::from_env();
    let jdks = match &args.jdk {
        Some(wanted) => vec![installed.choose(Some(wanted)).map_err(Failure::usage)?],
        None => every_jdk(&installed),
    };
    let mut tasks = tasks(args)?;
    if args.jdk.is_some() {
        // Those that this JDK can say nothing about are not looked at.
        tasks.retain(|(_, entry)| speaks_of(entry).is_empty() || knows_any(entry, &jdks));
    }
    if args.installed {
        tasks.retain(|(_, entry)| {
            speaks_of(entry)
                .iter()
                .all(|jdk| find(&jdks, jdk).is_some())
        });
    }
    let began = Instant::now();
    let mut checked = Vec::new();
    let mut not_checked = Vec::new();
    let count = tasks.len();
    for (done, (state, entry)) in tasks.into_iter().enumerate() {
        let left = args.budget.saturating_sub(began.elapsed());
        let share = left / u32::try_from(count - done).unwrap_or(u32::MAX).max(1);
        let time = (share * 2).max(LEAST).min(left);
        if interrupt::seen() {
            not_checked.push(entry.name);
            continue;
        }
        let mut result = check(&args.corpus, state, &entry, &jdks, time)?;
        if interrupt::seen() && result.verdict != CheckVerdict::Pass {
            // What was not tried to its end says nothing of the entry.
            result = Checked::cut_short(result, &entry);
        }
        eprintln!("walkfuzz: {}: {}", result.entry, result.why);
        if !args.dry_run {
            settle(args, state, entry, &result)?;
        }
        checked.push(result);
    }
    let any = |verdict| checked.iter().any(|one: &Checked| one.verdict == verdict);
    let verdict = if any(CheckVerdict::Fail) {
        CheckVerdict::Fail
    } else if any(CheckVerdict::Unknown) || checked.is_empty() {
        CheckVerdict::Unknown
    } else {
        CheckVerdict::Pass
    };
    let report = Report {
        verdict,
        interrupted: interrupt::seen(),
        entries: checked,
        not_checked,
    };
    if args.json {
        crate::print_json(&report)?;
    } else {
        crate::print(text(&report, args.dry_run).as_bytes())?;
    }
    if interrupt::seen() {
        return Err(Failure::said(INTERRUPTED));
    }
    match verdict {
        CheckVerdict::Pass => Ok(()),
        CheckVerdict::Fail => Err(Failure::said(FINDINGS)),
        CheckVerdict::Unknown => Err(Failure::said(UNKNOWN)),
    }
}

impl Checked {
    /// A check that a Ctrl-C ended.
    fn cut_short(self, entry: &Entry) -> Self {
        Self {
            verdict: CheckVerdict::Unknown,
            why: "unknown: interrupted".to_owned(),
            misses: entry.misses,
            moves_to: None,
            ..self
        }
    }
}

/// The entries that are asked for, state by state.
fn tasks(args: &CheckArgs) -> Result<Vec<(State, Entry)>, Failure> {
    for name in &args.entries {
        check_name(name).map_err(Failure::usage)?;
    }
    if !args.corpus.is_dir() {
        return Err(Failure::usage(format_args!(
            "{} is no folder: --corpus says where the corpus is",
            args.corpus.display()
        )));
    }
    let mut tasks = Vec::new();
    for state in State::ALL {
        let found = entries(&args.corpus, state).map_err(Failure::usage)?;
        tasks.extend(found.into_iter().map(|entry| (state, entry)));
    }
    let unknown = args
        .entries
        .iter()
        .find(|name| !tasks.iter().any(|(_, entry)| entry.name == **name));
    if let Some(name) = unknown {
        return Err(Failure::usage(format_args!(
            "no entry {name} in {}",
            args.corpus.display()
        )));
    }
    if !args.entries.is_empty() {
        tasks.retain(|(_, entry)| args.entries.contains(&entry.name));
    }
    Ok(tasks)
}

fn check(
    corpus: &Path,
    state: State,
    entry: &Entry,
    jdks: &[Jdk],
    time: Duration,
) -> Result<Checked, Failure> {
    if state == State::Seeds {
        return seed(entry, jdks, time);
    }
    let replayed = capsule::replay(&corpus.join(state.folder()), entry);
    let mut effort = Effort {
        moments: entry.moments,
        enough: ENOUGH,
        time: if entry.fixed.is_some() {
            time / 2
        } else {
            time
        },
        patience: time,
    };
    // Entry::read lets none through that has no JDK.
    let wanted = entry.jdk.clone().unwrap_or_default();
    let mut bad = try_on(entry, jdks, &wanted, effort)?;
    let known = bad.cell.as_ref().map(|cell| cell.again);
    if let Some(replayed) = &replayed {
        bad.why = format!("{}; {}", bad.why, replayed.words);
        if replayed.happens() {
            // The crash is there, whether its moment came up again or not.
            bad.observed = Observed::Again;
        }
    }
    let observed = bad.observed;
    let mut seen = vec![bad];
    let mut fixed = Observed::Unknown;
    if let (State::Regression, Some(wanted)) = (state, &entry.fixed) {
        if let Some(again) = known.filter(|again| again.k > 0) {
            effort.moments = moments_that_tell(again.k, again.of).max(again.of);
        }
        effort.enough = 1;
        let good = try_on(entry, jdks, wanted, effort)?;
        fixed = good.observed;
        seen.push(good);
    }
    let mut ruling = rule(state, entry.misses, observed, fixed);
    if replayed.as_ref().is_some_and(capsule::Replayed::is_broken) {
        ruling = Ruling {
            verdict: CheckVerdict::Fail,
            misses: entry.misses,
            moves_to: None,
        };
    }
    let mut checked = checked(state, entry, seen, ruling);
    checked.capsule = replayed.map(|replayed| replayed.verdict());
    Ok(checked)
}

/// A seed has to be borne by every JDK; it is tried on one.
fn seed(entry: &Entry, jdks: &[Jdk], time: Duration) -> Result<Checked, Failure> {
    let any = jdks.last().map(|jdk| EntryJdk {
        version: jdk.version.to_string(),
        build_id: jdk.identity.clone(),
        collector: String::new(),
    });
    let effort = Effort {
        moments: entry.moments,
        enough: u64::MAX,
        time,
        patience: time,
    };
    let mut seen = match any {
        Some(jdk) => try_on(entry, jdks, &jdk, effort)?,
        None => Seen {
            observed: Observed::Unknown,
            why: "needs a JDK".to_owned(),
            cell: None,
        },
    };
    // Whatever goes wrong, it has no signature of its own.
    if let Some(site) = seen.cell.as_ref().and_then(|cell| cell.sites.first()) {
        seen.observed = Observed::Again;
        seen.why = format!("{}, {} times", site.signature, site.moments);
    }
    let ruling = rule(State::Seeds, entry.misses, seen.observed, Observed::Unknown);
    Ok(checked(State::Seeds, entry, vec![seen], ruling))
}

fn checked(state: State, entry: &Entry, seen: Vec<Seen>, ruling: Ruling) -> Checked {
    let Ruling {
        verdict,
        misses,
        moves_to,
    } = ruling;
    let why: Vec<&str> = seen.iter().map(|seen| &*seen.why).collect();
    let word = match verdict {
        CheckVerdict::Pass => "pass",
        CheckVerdict::Fail => "fail",
        CheckVerdict::Unknown => "unknown",
    };
    Checked {
        entry: entry.name.clone(),
        state: state.folder(),
        verdict,
        why: format!("{word}: {}", why.join("; ")),
        misses,
        moves_to: moves_to.map(State::folder),
        capsule: None,
        cells: seen.into_iter().filter_map(|seen| seen.cell).collect(),
    }
}

fn text(report: &Report, dry_run: bool) -> String {
    if report.entries.is_empty() {
        let why = if report.interrupted {
            ": interrupted"
        } else {
            ""
        };
        return format!("no entry was looked at{why}\n");
    }
    let rows: Vec<Vec<String>> = report
        .entries
        .iter()
        .map(|one| {
            let moves = match (one.moves_to, dry_run) {
                (Some(to), false) => format!("; moved to {to}"),
                (Some(to), true) => format!("; would move to {to}"),
                (None, _) => String::new(),
            };
            vec![
                one.state.to_owned(),
                one.entry.clone(),
                format!("{}{moves}", one.why),
            ]
        })
        .collect();
    let count = |verdict| {
        report
            .entries
            .iter()
            .filter(|one| one.verdict == verdict)
            .count()
    };
    let early = match (report.interrupted, report.not_checked.len()) {
        (false, _) => String::new(),
        (true, 0) => "; interrupted".to_owned(),
        (true, more) => format!("; interrupted, {more} not looked at"),
    };
    format!(
        "{}\n{} as expected, {} not as expected, {} unknown{early}\n",
        table(&rows),
        count(CheckVerdict::Pass),
        count(CheckVerdict::Fail),
        count(CheckVerdict::Unknown)
    )
}
