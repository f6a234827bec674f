//! From what a cell left behind to its result.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use walkfuzz_context::{Address, Arch};
use walkfuzz_jvm::{Jdk, Source};
use walkfuzz_record::code_names;
use walkfuzz_record::{
    JvmFacts, KnownMatch, OpenWalk, ProcessOutcome, Record, RecordReader, Totals,
};
use walkfuzz_symbols::Modules;
use walkfuzz_triage::hs_err::Cause;
use walkfuzz_triage::{
    CrashLog, Death, Ended, Exit, JdkVersion, Kind, KnownIssues, Query, Signal, Signature, classify,
};

use walkfuzz_walkers::{Manner, RequestStackTrace};

use crate::cell::Cell;
use crate::launch::NO_WALKER;
use crate::process::{Finished, MAPS};
use crate::profile::Minimum;
use crate::recording::usual_rate;
use crate::result::{
    CellFinding, CellResult, Numbers, ProcessResult, RegisterPair, SCHEMA, Verdict, WorkloadEnd,
};
use crate::verdict::{Evidence, judge, sampling_warning};

/// What is known of a cell beside its folder.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// The cell.
    pub cell: &'a Cell,
    /// Its JVM.
    pub jvm: &'a JvmFacts,
    /// When it began.
    pub started: Timestamp,
    /// Whether its program tells how far it is.
    pub tells: bool,
    /// Samples that are asked for in a second of a running thread.
    pub asked: f64,
    /// What the clock can give, if something limits it.
    pub ceiling: Option<f64>,
    /// What it must have done.
    pub minimum: Minimum,
    /// The command that runs it alone.
    pub command: &'a str,
    /// Issues that are known.
    pub issues: &'a KnownIssues,
    /// Of a cell of JFR's, what its recordings hold.
    pub recorded: Option<&'a (Numbers, Vec<String>)>,
}

/// The result of a cell that ended.
#[must_use]
pub fn assess(known: &Known<'_>, folder: &Path, finished: &Finished) -> CellResult {
    // A command of the user's brings its own JVM.
    let own = own_jvm(known.jvm, folder);
    let known = &Known {
        jvm: own.as_ref().unwrap_or(known.jvm),
        ..*known
    };
    let (records, mut warnings) = records(folder);
    let mut numbers = (!records.is_empty()).then(|| Numbers::of(&Totals::of(&records)));
    if let Some((recorded, more)) = known.recorded {
        numbers = Some(recorded.clone());
        warnings.extend(more.iter().cloned());
    }
    if let Some(numbers) = &mut numbers {
        for record in &records {
            numbers.name_codes(&code_names::read(&record.path));
        }
        numbers.sampling.ceiling = known.ceiling;
        warnings.extend(sampling_warning(&numbers.sampling, known.asked));
    }
    if finished.flooded {
        warnings.push("the program's output was cut: only its begin and end are kept".to_owned());
    }
    if finished.left_behind > 0 {
        let count = finished.left_behind;
        warnings.push(format!(
            "{count} processes that the program had left behind were ended"
        ));
    }
    let (file, log) = crash_log(folder);
    let process = process(&records, file.clone(), log.as_ref(), finished);
    let walker = walker_name(&known.cell.walker, &records);
    let mut findings = Vec::new();
    findings.extend(
        log.as_ref()
            .and_then(|log| crash(known, walker, log, file, &records)),
    );
    findings.extend(faults(known, folder, &records, walker));
    let perturbs = is_perturbed(known.cell);
    let (mut verdict, mut reason) = judge(&Evidence {
        numbers: numbers.as_ref(),
        process: &process,
        workload: &finished.said.end,
        tells: known.tells || finished.said.tells(),
        findings: &findings,
        minimum: known
            .minimum
            .at(known.asked, known.ceiling.or(usual_rate(walker))),
        perturbs,
        torn: Manner::remote_holds(&known.cell.walker) == Some(false),
        unsampled: known.cell.walker == NO_WALKER,
        frees_nothing: known.cell.collector == "epsilon",
    });
    let walked = numbers.as_ref().map_or(0, |n| n.untouched.walks) > 0;
    match (&finished.said.sampler, &finished.said.unsupported) {
        // What failed has failed, whatever else was said.
        _ if matches!(verdict, Verdict::Fail | Verdict::Known) => {}
        (Some(complaint), _) if !walked && walker == RequestStackTrace::NAME => {
            reason = format!("nothing to drive: {complaint}");
            verdict = Verdict::Outside;
        }
        (Some(complaint), _) if !walked => {
            reason = format!("the sampler did not start: {complaint}");
            verdict = Verdict::Unknown;
        }
        (_, Some(why)) => {
            reason = format!("cannot run here: {why}");
            verdict = Verdict::Unknown;
        }
        _ => {}
    }
    if let Some(complaint) = finished.said.sampler.as_ref().filter(|_| walked) {
        warnings.push(format!("a sampler said: {complaint}"));
    }
    let numbers = numbers.unwrap_or_else(|| Numbers::of(&Totals::default()));
    CellResult {
        started: known.started,
        seconds: finished.time.as_secs_f64(),
        verdict,
        reason,
        warnings,
        workload: finished.said.end.clone(),
        process,
        findings,
        command: known.command.to_owned(),
        ..blank(known.cell, known.jvm.clone(), numbers)
    }
}

/// The result of a cell that could not be started.
#[must_use]
pub fn left_out(cell: &Cell, why: &str) -> CellResult {
    let jvm = JvmFacts {
        version: cell.jdk.clone(),
        collector: cell.collector.clone(),
        ..JvmFacts::default()
    };
    CellResult {
        reason: format!("left out: {why}"),
        ..blank(cell, jvm, Numbers::of(&Totals::default()))
    }
}

/// A cell's numbers, and nothing known of what became of it.
fn blank(cell: &Cell, jvm: JvmFacts, numbers: Numbers) -> CellResult {
    CellResult {
        schema: SCHEMA,
        id: cell.id(),
        cell: cell.clone(),
        jvm,
        started: Timestamp::now(),
        seconds: 0.0,
        verdict: Verdict::Unknown,
        reason: String::new(),
        warnings: Vec::new(),
        untouched: numbers.untouched,
        perturbed: numbers.perturbed,
        codes: numbers.codes,
        depth: numbers.depth,
        latency: numbers.latency,
        depth_curve: numbers.depth_curve,
        latency_curve: numbers.latency_curve,
        sampling: numbers.sampling,
        workload: WorkloadEnd::default(),
        process: ProcessResult {
            outcome: ProcessOutcome::ExitWithoutLog,
            words: "was not started".to_owned(),
            exit_code: None,
            signal: None,
            internal_error: None,
            crash_log: None,
        },
        findings: Vec::new(),
        command: String::new(),
    }
}

/// The JVM that a process of the cell had mapped, if nobody knew beforehand which it would be.
fn own_jvm(jvm: &JvmFacts, folder: &Path) -> Option<JvmFacts> {
    if !jvm.version.is_empty() {
        return None;
    }
    let maps = std::fs::read_to_string(folder.join(MAPS)).ok()?;
    let home = maps.lines().find_map(|line| {
        let path = &line[line.find('/')?..];
        path.strip_suffix("/lib/server/libjvm.so")
    })?;
    let jdk = Jdk::at(Path::new(home), Source::Named).ok()?;
    Some(JvmFacts {
        version: jdk.version.to_string(),
        vendor: jdk.implementor.unwrap_or_default(),
        build_id: jdk.identity,
        ..jvm.clone()
    })
}

/// Whether a cell's contexts are perturbed: outside all verdicts.
#[must_use]
pub fn is_perturbed(cell: &Cell) -> bool {
    cell.mode == "perturbed"
}

fn records(folder: &Path) -> (Vec<Record>, Vec<String>) {
    let mut warnings = Vec::new();
    let mut records = Vec::new();
    for path in files(folder, "record-", ".map") {
        match RecordReader::open(&path) {
            Ok(record) => {
                warnings.extend(
                    record
                        .damage
                        .iter()
                        .map(|damage| format!("record: {damage}")),
                );
                records.push(record);
            }
            Err(error) => warnings.push(error.to_string()),
        }
    }
    (records, warnings)
}

/// The files of a folder whose names begin and end so, sorted.
pub(crate) fn files(folder: &Path, begin: &str, end: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with(begin) && name.ends_with(end))
        })
        .collect();
    found.sort();
    found
}

fn crash_log(folder: &Path) -> (Option<String>, Option<CrashLog>) {
    let path = files(folder, "hs_err_pid", ".log").into_iter().next();
    let log = path.as_ref().and_then(|path| CrashLog::read(path).ok());
    let name = path.and_then(|path| Some(path.file_name()?.to_str()?.to_owned()));
    (name, log.filter(CrashLog::is_crash_log))
}

fn process(
    records: &[Record],
    file: Option<String>,
    log: Option<&CrashLog>,
    finished: &Finished,
) -> ProcessResult {
    let open_walk = records
        .iter()
        .flat_map(|record| &record.lanes)
        .any(|lane| lane.open.is_some());
    let recoveries = Totals::of(records).counter(walkfuzz_record::Counter::Recoveries);
    let mut outcome = classify(&Death {
        ended: finished.ended,
        log,
        open_walk,
        recoveries,
        oom_killed: finished.over_memory || finished.oom_killed,
    });
    if finished.said.out_of_memory && outcome == ProcessOutcome::ExitWithoutLog {
        outcome = ProcessOutcome::OutOfMemory;
    }
    let mut words = finished.ended.describe();
    if finished.over_memory {
        let megabytes = finished.peak_memory >> 20;
        words = format!("ended at {megabytes} MB of memory");
    } else if finished.oom_killed {
        words = "was killed by the kernel for want of memory".to_owned();
    }
    let (mut signal, mut internal_error) = (finished.ended.signal().map(|s| s.to_string()), None);
    match log.and_then(|log| log.cause.as_ref()) {
        Some(Cause::Signal { signal: number, .. }) => signal = Some(number.to_string()),
        Some(Cause::Internal { place, .. }) => internal_error = Some(place.clone()),
        _ => {}
    }
    ProcessResult {
        outcome,
        words,
        exit_code: match finished.ended {
            Ended::ByItself(Exit::Code(code)) => Some(code),
            _ => None,
        },
        signal,
        internal_error,
        crash_log: file,
    }
}

/// What signatures call the cell's walker: a library's has the name that it gives itself.
fn walker_name<'a>(cell: &'a str, records: &'a [Record]) -> &'a str {
    let mut own = records
        .iter()
        .filter_map(|record| record.walkers.first()?.as_ref());
    match Manner::of(cell) {
        Some(_) => own.next().map_or("plugin", |walker| &walker.name),
        None => cell,
    }
}

/// What the crash log says happened.
fn crash(
    known: &Known<'_>,
    walker: &str,
    log: &CrashLog,
    file: Option<String>,
    records: &[Record],
) -> Option<CellFinding> {
    let open = records
        .iter()
        .flat_map(|record| &record.lanes)
        .filter_map(|lane| lane.open.as_ref());
    let signature = log.signature(Some(walker))?;
    let stack: Vec<String> = log
        .native_frames
        .iter()
        .filter_map(|frame| frame.function.clone())
        .collect();
    Some(CellFinding {
        title: signature.title(None),
        count: 1,
        perturbed: open.clone().count() > 0 && open.clone().all(|walk| walk.perturbed),
        known: look_up(known, &signature, &stack),
        signature: signature.to_string(),
        evidence: file,
        registers: open.clone().next().map(registers).unwrap_or_default(),
    })
}

/// The registers of a walk that did not end.
fn registers(walk: &OpenWalk) -> Vec<RegisterPair> {
    let pair = |name: &str, before: u64, after: u64| RegisterPair {
        name: name.to_owned(),
        before: Address(before).to_string(),
        after: Address(after).to_string(),
    };
    let (before, after) = (&walk.untouched, &walk.registers);
    let names = before.arch.register_names().iter();
    let changed: Vec<RegisterPair> = names
        .zip(before.words.iter().zip(&after.words))
        .filter(|(_, (before, after))| before != after)
        .map(|(name, (&before, &after))| pair(name, before, after))
        .collect();
    if !changed.is_empty() {
        return changed;
    }
    let begins = [
        ("pc", after.pc().0),
        ("sp", after.sp().0),
        ("fp", after.fp().0),
    ];
    begins
        .map(|(name, value)| pair(name, value, value))
        .to_vec()
}

/// The faults from which the guard recovered, by signature.
fn faults(known: &Known<'_>, folder: &Path, records: &[Record], walker: &str) -> Vec<CellFinding> {
    let modules = std::fs::read_to_string(folder.join(MAPS)).map(|text| Modules::parse(&text));
    let mut findings: Vec<CellFinding> = Vec::new();
    for record in records {
        let name = record.path.file_name().and_then(|name| name.to_str());
        for fault in record.lanes.iter().flat_map(|lane| &lane.faults) {
            let Some(signal) = Signal::from_number(fault.signal) else {
                continue;
            };
            let place = modules
                .as_ref()
                .map_or_else(|_| fault.pc.to_string(), |m| m.symbolise(fault.pc).site());
            let signature = Signature::new(Kind::Signal(signal), place, walker);
            for (perturbed, count) in [(false, fault.untouched), (true, fault.perturbed)] {
                if count == 0 {
                    continue;
                }
                let text = signature.to_string();
                // The sampler may have made a capsule of the untouched walk.
                let capsule = name.filter(|_| !perturbed).and_then(|name| {
                    let stem = name.strip_suffix(".map")?;
                    let capsule = format!("{stem}-{:x}.wfcap", fault.pc.0);
                    folder.join(&capsule).is_file().then_some(capsule)
                });
                let same = |finding: &&mut CellFinding| {
                    finding.signature == text && finding.perturbed == perturbed
                };
                if let Some(finding) = findings.iter_mut().find(same) {
                    finding.count += count;
                    if capsule.is_some() {
                        finding.evidence = capsule;
                    }
                    continue;
                }
                findings.push(CellFinding {
                    title: signature.title(None),
                    count,
                    perturbed,
                    known: look_up(known, &signature, &[]),
                    signature: text,
                    evidence: capsule.or_else(|| name.map(str::to_owned)),
                    registers: Vec::new(),
                });
            }
        }
    }
    findings
}

fn look_up(known: &Known<'_>, signature: &Signature, stack: &[String]) -> Vec<KnownMatch> {
    let jdk: Option<JdkVersion> = known.jvm.version.parse().ok();
    let query = Query {
        signature,
        stack,
        jdk: jdk.as_ref(),
        arch: Some(Arch::NATIVE),
    };
    known.issues.known(&query)
}

/// Time that a cell takes at most, for a plan's estimate.
#[must_use]
pub fn estimate(sampled: Duration) -> Duration {
    // Start and end of a JVM, with some seconds of its program's preparation.
    sampled + Duration::from_secs(3)
}
