//! `walkfuzz corpus check`: each entry on the JDKs that it speaks of; what the rules say goes into its file, or moves it.

use std::time::{Duration, Instant};

use serde::Serialize;
use walkfuzz_harness::interrupt;
use walkfuzz_jvm::{Collector, Jdk, Places, Version};
use walkfuzz_record::{CellState, VariantCell};
use walkfuzz_triage::corpus::{
    CheckVerdict, Entry, EntryJdk, Observed, Ruling, State, check_name, entries, rule,
};

use crate::corpus::args::CheckArgs;
use crate::failure::{FINDINGS, Failure, INTERRUPTED, UNKNOWN};
use crate::table::table;
use crate::variants::args::CompilerMode;
use crate::variants::cell::{self, Effort, Place};
use crate::variants::every_jdk;
use crate::variants::subject::Subject;

/// How often an entry has to reproduce for a check to be sure of it.
const ENOUGH: u64 = 5;
/// What one JVM may take at least.
const LEAST: Duration = Duration::from_secs(3);

/// What a check says of one entry.
#[derive(Debug, Serialize)]
struct Checked {
    entry: String,
    state: Folder,
    verdict: CheckVerdict,
    /// In words.
    why: String,
    misses: u32,
    /// The folder that it moves to, or would without `--dry-run`.
    moves_to: Option<Folder>,
    cells: Vec<VariantCell>,
}

/// The name of a state's folder.
type Folder = &'static str;

#[derive(Debug, Serialize)]
struct Report {
    verdict: CheckVerdict,
    entries: Vec<Checked>,
}

pub(crate) fn run(args: &CheckArgs) -> Result<(), Failure> {
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
    let count = tasks.len();
    for (done, (state, entry)) in tasks.into_iter().enumerate() {
        let left = args.budget.saturating_sub(began.elapsed());
        let share = left / u32::try_from(count - done).unwrap_or(u32::MAX).max(1);
        let time = (share * 2).max(LEAST).min(left);
        let result = if interrupt::seen() {
            break;
        } else {
            check(state, &entry, &jdks, time)?
        };
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
        entries: checked,
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

/// The JVMs that an entry speaks of.
fn speaks_of(entry: &Entry) -> Vec<&EntryJdk> {
    entry.jdk.iter().chain(&entry.fixed).collect()
}

fn knows_any(entry: &Entry, jdks: &[Jdk]) -> bool {
    speaks_of(entry)
        .into_iter()
        .any(|wanted| find(jdks, wanted).is_some())
}

/// The JDK of that build, or else of that version.
fn find<'a>(jdks: &'a [Jdk], wanted: &EntryJdk) -> Option<&'a Jdk> {
    let version = Version::parse(&wanted.version)?;
    jdks.iter()
        .find(|jdk| jdk.identity == wanted.build_id)
        .or_else(|| jdks.iter().find(|jdk| jdk.version.is_a(&version)))
}

/// What was seen on one JVM, and the sentence for it.
struct Seen {
    observed: Observed,
    why: String,
    cell: Option<VariantCell>,
}

fn try_on(entry: &Entry, jdks: &[Jdk], wanted: &EntryJdk, effort: Effort) -> Result<Seen, Failure> {
    let Some(jdk) = find(jdks, wanted) else {
        return Ok(Seen {
            observed: Observed::Unknown,
            why: format!("needs JDK {}", wanted.version),
            cell: None,
        });
    };
    let place = Place {
        jdk: jdk.clone(),
        collector: Collector::from_name(&wanted.collector),
        mode: CompilerMode::Default,
    };
    let cell = cell::run(&Subject::of_entry(entry), &place, effort)?;
    let (k, of) = (cell.again.k, cell.again.of);
    let other = if jdk.identity == wanted.build_id || wanted.build_id.is_empty() {
        ""
    } else {
        " (another build)"
    };
    let on = format!("{}{other}", wanted.version);
    let reason = cell.reason.clone().unwrap_or_default();
    let (observed, why) = match cell.state {
        CellState::Tried if k > 0 => (Observed::Again, format!("{k} of {of} on {on}")),
        CellState::Tried if of >= effort.moments => {
            let high = cell.again.interval().high * 100.0;
            (
                Observed::NotAgain,
                format!("0 of {of} on {on} (at most {high:.2} %)"),
            )
        }
        CellState::Tried => (
            Observed::Unknown,
            format!("only {of} of {} moments tried on {on}", effort.moments),
        ),
        CellState::NotMet => (
            Observed::Unknown,
            format!("no moment of its class came up on {on}"),
        ),
        CellState::CouldNotRun | CellState::NotRun => {
            (Observed::Unknown, format!("not walked on {on}: {reason}"))
        }
    };
    Ok(Seen {
        observed,
        why,
        cell: Some(cell),
    })
}

/// How many moments without it are enough, where it happened `k` of `of` times elsewhere: it would have been missed one time in twenty.
fn moments_that_tell(k: u64, of: u64) -> u64 {
    (of * 3).div_ceil(k.max(1))
}

fn check(state: State, entry: &Entry, jdks: &[Jdk], time: Duration) -> Result<Checked, Failure> {
    if state == State::Seeds {
        return seed(entry, jdks, time);
    }
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
    let Some(jdk) = &entry.jdk else {
        return Ok(checked(
            state,
            entry,
            Vec::new(),
            Observed::Unknown,
            Observed::Unknown,
        ));
    };
    let bad = try_on(entry, jdks, jdk, effort)?;
    let mut seen = vec![];
    let observed = bad.observed;
    let mut fixed = Observed::Unknown;
    let known = bad.cell.as_ref().map(|cell| cell.again);
    seen.push(bad);
    if let (State::Regression, Some(wanted)) = (state, &entry.fixed) {
        if let Some(again) = known.filter(|again| again.k > 0) {
            effort.moments = moments_that_tell(again.k, again.of).max(again.of);
        }
        effort.enough = 1;
        let good = try_on(entry, jdks, wanted, effort)?;
        fixed = good.observed;
        seen.push(good);
    }
    Ok(checked(state, entry, seen, observed, fixed))
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
    let observed = seen.observed;
    Ok(checked(
        State::Seeds,
        entry,
        vec![seen],
        observed,
        Observed::Unknown,
    ))
}

fn checked(
    state: State,
    entry: &Entry,
    seen: Vec<Seen>,
    bad: Observed,
    fixed: Observed,
) -> Checked {
    let Ruling {
        verdict,
        misses,
        moves_to,
    } = rule(state, entry.misses, bad, fixed);
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
        cells: seen.into_iter().filter_map(|seen| seen.cell).collect(),
    }
}

/// Writes down what the rules say.
fn settle(
    args: &CheckArgs,
    state: State,
    mut entry: Entry,
    checked: &Checked,
) -> Result<(), Failure> {
    let target = State::ALL
        .into_iter()
        .find(|state| Some(state.folder()) == checked.moves_to);
    if entry.misses == checked.misses && target.is_none() {
        return Ok(());
    }
    entry.misses = checked.misses;
    let here = args.corpus.join(state.folder());
    let folder = match target {
        Some(target) => {
            entry.expected = target.expected();
            if state == State::Regression {
                // It crashes the version that was to have the fix: that is the one to look at from now on.
                entry.jdk = entry.fixed.take().or(entry.jdk);
            }
            args.corpus.join(target.folder())
        }
        None => here.clone(),
    };
    let there = folder.join(format!("{}.toml", entry.name));
    if target.is_some() && there.exists() {
        return Err(Failure::environment(format_args!(
            "cannot move {} to {}: one of that name is there already",
            entry.name,
            folder.display()
        )));
    }
    entry.write(&folder).map_err(Failure::environment)?;
    if target.is_some() {
        let old = here.join(format!("{}.toml", entry.name));
        std::fs::remove_file(&old).map_err(|error| {
            Failure::environment(format_args!("cannot remove {}: {error}", old.display()))
        })?;
    }
    Ok(())
}

fn text(report: &Report, dry_run: bool) -> String {
    if report.entries.is_empty() {
        return "no entry was looked at\n".to_owned();
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
    format!(
        "{}\n{} as expected, {} not as expected, {} unknown\n",
        table(&rows),
        count(CheckVerdict::Pass),
        count(CheckVerdict::Fail),
        count(CheckVerdict::Unknown)
    )
}

#[cfg(test)]
mod tests {
    use super::moments_that_tell;

    #[test]
    fn what_happens_seldom_takes_more_moments_to_be_missed() {
        assert_eq!(moments_that_tell(5, 10), 6);
        assert_eq!(moments_that_tell(5, 1000), 600);
        assert_eq!(moments_that_tell(0, 100), 300);
    }
}
