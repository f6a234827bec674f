//! Putting a finding together from what the session knows.

use std::path::Path;

use jiff::Timestamp;
use walkfuzz_context::codec::perturbation_to_bytes;
use walkfuzz_context::{Arch, Batch, DepthLimit, Grade, Perturbation, Registers, Tier, Witness};
use walkfuzz_record::finding::{
    FaultSite, FindingBlob, FindingCapsule, FindingInput, FindingOutcome, FindingRegisters,
    KnownMatch, Portability, Reliability, hex, hex_bytes,
};
use walkfuzz_record::{
    Finding, FindingVerdict, Generation, KOfN, OutcomeKind, ProcessOutcome, Record, RunFacts,
    RunFolder, SCHEMA, WalkOutcome, WalkerInfo, WitnessCount,
};
use walkfuzz_symbols::short_name;
use walkfuzz_triage::{CrashLog, Ended, JdkVersion, KnownIssues, Query, Signal, Signature};
use walkfuzz_walkers::Walker;

use crate::contradicted;
use crate::describe::code_at;
use crate::examine::{Examined, Suspect};
use crate::replay;
use crate::settings::EngineKind;
use crate::world::World;

/// What a new finding is made of.
pub(crate) struct Parts<'a> {
    pub(crate) run: &'a RunFolder,
    pub(crate) facts: &'a RunFacts,
    pub(crate) world: &'a World,
    pub(crate) walker: &'a dyn Walker,
    pub(crate) oracle: &'static str,
    pub(crate) engine: EngineKind,
    pub(crate) suspect: &'a Suspect,
    pub(crate) batch: &'a Batch,
    /// As the kernel delivered them.
    pub(crate) untouched: &'a Registers,
    pub(crate) worker: usize,
    pub(crate) after: &'a Registers,
    pub(crate) tier: Tier,
    pub(crate) witness: Witness,
    pub(crate) tainted: bool,
}

/// A finding as first seen, before any examination.
pub(crate) fn finding(parts: &Parts<'_>) -> Finding {
    let Parts {
        suspect,
        world,
        facts,
        ..
    } = parts;
    let now = Timestamp::now();
    let pc = parts.after.pc();
    let site = match suspect.outcome {
        WalkOutcome::Fault(fault) | WalkOutcome::Wrote(fault) => {
            let place = world.modules.symbolise(fault.pc);
            Some(FaultSite {
                pc: hex(fault.pc.0),
                instruction: None,
                function: place.function,
                module: place.module,
                offset: Some(hex(place.module_offset)),
                build_id: place.build_id,
                backtrace: Vec::new(),
                registers: Vec::new(),
                accessed: None,
            })
        }
        _ => None,
    };
    let mut finding = Finding {
        schema: SCHEMA,
        id: Finding::id_of(&suspect.signature),
        signature: suspect.signature.clone(),
        title: String::new(),
        verdict: FindingVerdict::Robustness,
        tier: String::new(),
        witness: WitnessCount::default(),
        walker: facts
            .walkers
            .first()
            .cloned()
            .unwrap_or_else(|| WalkerInfo {
                name: parts.walker.name().to_owned(),
                generation: parts.walker.generation(),
                version: String::new(),
            }),
        outcome: outcome(&suspect.outcome),
        registers: FindingRegisters::new(parts.untouched, parts.after),
        site,
        blob: code_at(world, pc),
        moment: None,
        input: FindingInput::default(),
        capsule: FindingCapsule::default(),
        engine: parts.engine.name().to_owned(),
        thread: parts.worker as u32,
        reliability: Reliability::default(),
        live: Vec::new(),
        first_seen: now,
        last_seen: now,
        count: 1,
        tainted: parts.tainted,
        known: Vec::new(),
        jvm: facts.jvm.clone(),
        machine: facts.machine.clone(),
        commands: Vec::new(),
    };
    if let WalkOutcome::WrongFrames(found) = &suspect.outcome {
        let said = contradicted::first_frames(world, parts.oracle, found);
        contradicted::tell(&mut finding, said);
    }
    keep_input(parts.run, &mut finding, &suspect.perturbation, parts.batch);
    judge(&mut finding, parts.tier, parts.witness, KOfN::new(0, 0));
    finding
}

pub(crate) fn outcome(outcome: &WalkOutcome) -> FindingOutcome {
    let mut said = FindingOutcome {
        kind: outcome.kind(),
        signal: None,
        code: None,
        code_name: None,
        address: None,
        detail: None,
        contradiction: None,
    };
    match outcome {
        WalkOutcome::Fault(fault) => {
            said.signal = Signal::from_number(fault.signal).map(|signal| signal.to_string());
            said.code = Some(fault.code);
            said.address = Some(hex(fault.address.0));
        }
        WalkOutcome::Wrote(fault) => said.address = Some(hex(fault.address.0)),
        WalkOutcome::Error(code) => said.code = Some(code.0),
        WalkOutcome::Breach(breach) => said.detail = Some(format!("{breach:?}")),
        WalkOutcome::Frames(_) | WalkOutcome::Hang | WalkOutcome::WrongFrames(_) => {}
    }
    said
}

/// Puts the perturbation, and a batch that holds nothing else, into the finding and the run folder.
fn keep_input(run: &RunFolder, finding: &mut Finding, perturbation: &Perturbation, batch: &Batch) {
    let kept = run.add_artifact(&batch.to_bytes()).ok();
    finding.input = FindingInput {
        perturbation: perturbation.display(Arch::NATIVE).to_string(),
        bytes: hex_bytes(&perturbation_to_bytes(Arch::NATIVE, perturbation)),
        artifact: kept.as_ref().map(|(path, _)| path.clone()),
        artifact_sha256: kept.as_ref().map(|(_, hash)| hash.clone()),
        index: Some(0),
        memory: Vec::new(),
    };
    finding.commands = kept
        .map(|(path, _)| command(finding, &run.path().join(path)))
        .into_iter()
        .collect();
}

/// The command that runs one artifact again.
fn command(finding: &Finding, artifact: &Path) -> String {
    let artifact = std::path::absolute(artifact).unwrap_or_else(|_| artifact.to_owned());
    replay::command(&finding.jvm.version, &artifact, |name| {
        std::env::var(name).ok()
    })
}

/// Takes over what an examination found out.
pub(crate) fn refine(
    run: &RunFolder,
    finding: &mut Finding,
    examined: &Examined,
    smallest: &Perturbation,
) {
    finding.registers = examined.registers.clone();
    finding.reliability.frozen = Some(KOfN::new(examined.repeated.0, examined.repeated.1));
    if let Some(site) = &mut finding.site {
        site.pc = hex(examined.fault_pc);
        site.instruction.clone_from(&examined.instruction);
        site.backtrace.clone_from(&examined.backtrace);
        site.registers.clone_from(&examined.at_the_fault);
        site.accessed.clone_from(&examined.accessed);
        finding.outcome.address = Some(hex(examined.address));
        finding.outcome.code = Some(examined.code);
    }
    if let Some(said) = &examined.contradiction {
        contradicted::tell(finding, said.clone());
    }
    finding.blob = examined.blob.clone();
    finding.moment = Some(examined.moment.clone());
    let mut batch = Batch::untouched(Arch::NATIVE);
    (batch.thread, batch.steps) = (examined.thread, examined.steps);
    batch.depth = u16::try_from(examined.depth)
        .ok()
        .and_then(DepthLimit::from_frames)
        .unwrap_or_default();
    batch.set_walks(&[*smallest]);
    keep_input(run, finding, smallest, &batch);
    finding.capsule = examined.capsule.clone();
    if let Some(path) = &finding.capsule.path {
        let path = run.path().join(path);
        let path = std::path::absolute(&path).unwrap_or(path);
        let command = format!(
            "walkfuzz replay {}",
            replay::quoted(&path.display().to_string())
        );
        finding.commands.insert(0, command);
    }
}

/// Title, tier, witness and verdict, which follow from one another.
pub(crate) fn judge(finding: &mut Finding, tier: Tier, witness: Witness, elsewhere: KOfN) {
    finding.tier = tier.name().to_owned();
    finding.title = match finding.signature.parse::<Signature>() {
        Ok(signature) => signature.title(Some(tier)),
        Err(_) => format!("{} [{tier}]", finding.signature),
    };
    finding.witness = WitnessCount {
        observed: witness.observed,
        of: witness.of,
    };
    finding.verdict = match Grade::of(tier, witness) {
        Grade::Bug => FindingVerdict::Bug,
        Grade::Robustness => FindingVerdict::Robustness,
    };
    if elsewhere.of > 0 {
        finding.reliability.portability = Some(Portability::from(elsewhere));
    }
    let site = finding.site.as_ref();
    let backtrace = site.map_or(&[][..], |site| &site.backtrace);
    finding.known = known(&finding.signature, backtrace, &finding.jvm.version);
}

/// The issues that a finding looks like.
pub(crate) fn known(signature: &str, backtrace: &[String], version: &str) -> Vec<KnownMatch> {
    let Ok(signature) = signature.parse::<Signature>() else {
        return Vec::new();
    };
    let stack: Vec<String> = backtrace
        .iter()
        .map(|frame| short_name(frame.split("+0x").next().unwrap_or(frame)))
        .collect();
    let jdk: Option<JdkVersion> = version.parse().ok();
    let query = Query {
        signature: &signature,
        stack: &stack,
        jdk: jdk.as_ref(),
        arch: Some(Arch::NATIVE),
    };
    KnownIssues::built_in().known(&query)
}

/// What is left of a process that died in or because of a walk.
pub(crate) struct Remains<'a> {
    pub(crate) run: &'a RunFolder,
    pub(crate) facts: &'a RunFacts,
    pub(crate) engine: EngineKind,
    pub(crate) record: &'a Record,
    pub(crate) outcome: ProcessOutcome,
    pub(crate) ended: Ended,
    pub(crate) log: Option<&'a CrashLog>,
    pub(crate) tainted: bool,
}

/// A process that died in or because of a walk, from what its record says.
pub(crate) fn death(remains: &Remains<'_>) -> Finding {
    let Remains {
        run,
        facts,
        engine,
        record,
        outcome,
        ended,
        log,
        tainted,
    } = *remains;
    let now = Timestamp::now();
    let walker = facts
        .walkers
        .first()
        .cloned()
        .unwrap_or_else(|| WalkerInfo {
            name: "agct".to_owned(),
            generation: Generation::Agct,
            version: String::new(),
        });
    let lane = record
        .lanes
        .iter()
        .find(|lane| lane.open.is_some())
        .or_else(|| record.lanes.first());
    let open = lane.and_then(|lane| lane.open.as_ref());
    let signature = log
        // Where no walk was open and none is on the stack, the walker has no place in the signature.
        .and_then(|log| log.signature(open.map(|_| &*walker.name)))
        .unwrap_or_else(|| Signature::death(&ended.describe(), open.is_some(), &walker.name));
    let signature_text = signature.to_string();
    let batch = lane
        .and_then(|lane| lane.input.as_ref())
        .map(|input| Batch::decode(&input.bytes));
    let perturbation = open
        .zip(batch.as_ref())
        .and_then(|(open, batch)| batch.walks().get(usize::from(open.index)).copied())
        .unwrap_or(Perturbation::UNTOUCHED);
    let zero = Registers::zeroed(Arch::NATIVE);
    let (before, after) = open.map_or((zero, zero), |open| (open.untouched, open.registers));
    let mut finding = Finding {
        schema: SCHEMA,
        id: Finding::id_of(&signature_text),
        signature: signature_text,
        title: String::new(),
        verdict: FindingVerdict::Robustness,
        tier: String::new(),
        witness: WitnessCount::default(),
        walker,
        outcome: FindingOutcome {
            kind: OutcomeKind::ProcessDeath,
            signal: ended.signal().map(|signal| signal.to_string()),
            code: None,
            code_name: None,
            address: None,
            detail: Some(death_in_words(outcome, ended, log)),
            contradiction: None,
        },
        registers: FindingRegisters::new(&before, &after),
        site: None,
        blob: FindingBlob {
            kind: open
                .and_then(|open| open.kind)
                .map_or("unknown", |kind| kind.name())
                .to_owned(),
            name: None,
            offset: None,
            offset_class: None,
        },
        moment: None,
        input: FindingInput::default(),
        capsule: FindingCapsule::default(),
        engine: engine.name().to_owned(),
        thread: 0,
        reliability: Reliability::default(),
        live: Vec::new(),
        first_seen: now,
        last_seen: now,
        count: 1,
        tainted,
        known: Vec::new(),
        jvm: facts.jvm.clone(),
        machine: facts.machine.clone(),
        commands: Vec::new(),
    };
    if let Some(batch) = &batch {
        keep_input(run, &mut finding, &perturbation, batch);
    }
    // Without the process nobody can say more of the context than whether it was touched.
    let tier = if open.is_some_and(|open| !open.perturbed) {
        Tier::T0
    } else {
        Tier::T4
    };
    judge(&mut finding, tier, Witness::default(), KOfN::new(0, 0));
    finding
}

/// What is known of a death, and what is not.
fn death_in_words(outcome: ProcessOutcome, ended: Ended, log: Option<&CrashLog>) -> String {
    let outcome = outcome.name();
    let how = ended.describe();
    match (log.is_some_and(CrashLog::is_crash_log), ended.signal()) {
        (true, _) => format!("{outcome}: {how}; the JVM's crash log is in the run folder"),
        (false, Some(signal)) if !signal.is_crash() => {
            format!("{outcome}: {how}, without a crash log; somebody else may have sent it")
        }
        (false, _) => format!("{outcome}: {how}, without a crash log"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_issues_say_whether_this_version_has_them() {
        let found = |signature: &str, version: &str| {
            let known = known(
                signature,
                &["frame::sender(int)+0x3 (libjvm.so+0x5)".into()],
                version,
            );
            let named = known
                .iter()
                .map(|known| (known.id.clone(), known.versions.clone()));
            named.collect::<Vec<_>>()
        };
        let one = |versions: &str| vec![("JDK-8313796".to_owned(), versions.to_owned())];
        let signature = "SIGSEGV|Method::is_valid_method|agct";
        assert_eq!(found(signature, "17.0.2+8"), one("affected"));
        assert_eq!(found(signature, "17.0.15"), one("not-affected"));
        assert_eq!(found(signature, "no version"), one("unknown"));
        assert_eq!(
            found("SIGSEGV|Method::is_valid_method|another", "17.0.2"),
            []
        );
        assert_eq!(found("SIGSEGV|nothing_of_the_kind|agct", "17.0.2"), []);
        assert_eq!(found("no signature", "17.0.2"), []);
        // Those that the list names no version for.
        let without = found("SIGSEGV|frame::sender_for_entry_frame|agct", "21");
        assert_eq!(
            without,
            [("dd-java-profiler#43".to_owned(), "unknown".to_owned())]
        );
    }
}
