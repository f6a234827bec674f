//! Putting a finding together from what the session knows.

use std::path::Path;

use jiff::Timestamp;
use walkfuzz_context::codec::perturbation_to_bytes;
use walkfuzz_context::{
    Address, Arch, Batch, DepthLimit, Grade, Perturbation, Registers, Tier, Witness,
};
use walkfuzz_engine::Moment;
use walkfuzz_record::finding::{
    FaultSite, FindingBlob, FindingInput, FindingOutcome, FindingRegisters, Portability,
    Reliability, hex, hex_bytes,
};
use walkfuzz_record::{
    Finding, FindingVerdict, Generation, KOfN, OutcomeKind, ProcessOutcome, Record, RunFacts,
    RunFolder, SCHEMA, WalkOutcome, WalkerInfo, WitnessCount,
};
use walkfuzz_triage::{CrashLog, Kind, Signal, Signature};
use walkfuzz_walkers::Walker;

use crate::examine::{Examined, Suspect};
use crate::world::World;

/// What a new finding is made of.
pub(crate) struct Parts<'a> {
    pub(crate) run: &'a RunFolder,
    pub(crate) facts: &'a RunFacts,
    pub(crate) world: &'a World,
    pub(crate) walker: &'a dyn Walker,
    pub(crate) suspect: &'a Suspect,
    pub(crate) batch: &'a Batch,
    pub(crate) moment: &'a Moment,
    pub(crate) after: &'a Registers,
    pub(crate) tier: Tier,
    pub(crate) witness: Witness,
    pub(crate) tainted: bool,
}

/// A finding as first seen, before any examination.
pub(crate) fn finding(parts: &Parts<'_>) -> Finding {
    let Parts {
        suspect,
        moment,
        world,
        facts,
        ..
    } = parts;
    let now = Timestamp::now();
    let pc = parts.after.pc();
    let described = world.describe_code(pc);
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
        registers: FindingRegisters::new(&moment.untouched, parts.after),
        site,
        blob: FindingBlob {
            kind: world.code.kind(Address(pc.0)).name().to_owned(),
            name: described.as_ref().map(|(name, _)| name.clone()),
            offset: described.and_then(|(_, offset)| offset),
        },
        input: FindingInput::default(),
        engine: "live".to_owned(),
        thread: moment.worker as u32,
        reliability: Reliability::default(),
        first_seen: now,
        last_seen: now,
        count: 1,
        tainted: parts.tainted,
        jvm: facts.jvm.clone(),
        machine: facts.machine.clone(),
        commands: Vec::new(),
    };
    keep_input(parts.run, &mut finding, &suspect.perturbation, parts.batch);
    judge(&mut finding, parts.tier, parts.witness, KOfN::new(0, 0));
    finding
}

fn outcome(outcome: &WalkOutcome) -> FindingOutcome {
    let mut said = FindingOutcome {
        kind: outcome.kind(),
        signal: None,
        code: None,
        code_name: None,
        address: None,
        detail: None,
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
        WalkOutcome::Frames(_) | WalkOutcome::Hang | WalkOutcome::WrongFrames => {}
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
    };
    finding.commands = kept
        .map(|(path, _)| command(finding, &run.path().join(path)))
        .into_iter()
        .collect();
}

/// The command that runs one artifact again.
fn command(finding: &Finding, artifact: &Path) -> String {
    let artifact = std::path::absolute(artifact).unwrap_or_else(|_| artifact.to_owned());
    let jdk = finding
        .jvm
        .version
        .split(['+', '-'])
        .next()
        .unwrap_or_default();
    format!(
        "WALKFUZZ_JDK={jdk} cargo fuzz run -s none walk_ucontext {}",
        artifact.display()
    )
}

/// Takes over what an examination found out.
pub(crate) fn refine(
    run: &RunFolder,
    finding: &mut Finding,
    examined: &Examined,
    smallest: &Perturbation,
    depth: i32,
) {
    finding.registers = examined.registers.clone();
    finding.reliability.frozen = Some(KOfN::new(examined.repeated.0, examined.repeated.1));
    if let Some(site) = &mut finding.site {
        site.pc = hex(examined.fault_pc);
        site.instruction.clone_from(&examined.instruction);
        finding.outcome.address = Some(hex(examined.address));
        finding.outcome.code = Some(examined.code);
    }
    let (kind, name, offset) = examined.blob.clone();
    finding.blob = FindingBlob { kind, name, offset };
    let mut batch = Batch::untouched(Arch::NATIVE);
    batch.depth = u16::try_from(depth)
        .ok()
        .and_then(DepthLimit::from_frames)
        .unwrap_or_default();
    batch.set_walks(&[*smallest]);
    keep_input(run, finding, smallest, &batch);
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
}

/// A process that died in or because of a walk, from what its record says.
pub(crate) fn death(
    run: &RunFolder,
    facts: &RunFacts,
    record: &Record,
    outcome: ProcessOutcome,
    log: Option<&CrashLog>,
    tainted: bool,
) -> Finding {
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
    let signature = log
        .and_then(|log| log.signature(Some(&walker.name)))
        .unwrap_or_else(|| Signature::new(Kind::Abort, "unknown", &walker.name));
    let signature_text = signature.to_string();
    let lane = record
        .lanes
        .iter()
        .find(|lane| lane.open.is_some())
        .or_else(|| record.lanes.first());
    let open = lane.and_then(|lane| lane.open.as_ref());
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
            signal: None,
            code: None,
            code_name: None,
            address: None,
            detail: Some(format!("{outcome:?}")),
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
        },
        input: FindingInput::default(),
        engine: "live".to_owned(),
        thread: 0,
        reliability: Reliability::default(),
        first_seen: now,
        last_seen: now,
        count: 1,
        tainted,
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
