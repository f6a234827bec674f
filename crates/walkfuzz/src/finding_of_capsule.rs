//! A finding as far as a capsule tells it: what went wrong, from which registers, and which memory it takes. What the thread was doing, how
//! often the like was observed and how surely it comes again, only the finding in a run folder knows.

use std::path::Path;

use jiff::Timestamp;
use walkfuzz_capsule::{Capsule, FaultOutcome, FileFacts, Outcome};
use walkfuzz_context::codec::perturbation_to_bytes;
use walkfuzz_context::{Arch, Perturbation, Tier};
use walkfuzz_harness::compare_file::{compare_capsule, generation_of};
use walkfuzz_harness::contradicted::tell;
use walkfuzz_harness::minimise_file::registers;
use walkfuzz_harness::opinion::holds_wrong_frames;
use walkfuzz_harness::quoted;
use walkfuzz_record::finding::{
    FaultRegister, FaultSite, FindingBlob, FindingCapsule, FindingContradiction, FindingInput,
    FindingMoment, FindingOutcome, FindingRegisters, MOST_WORDS, MemoryWord, Reliability, hex,
    hex_bytes,
};
use walkfuzz_record::{
    Finding, FindingVerdict, JvmFacts, KnownMatch, MachineFacts, OutcomeKind, SCHEMA, WalkerInfo,
    WitnessCount,
};
use walkfuzz_triage::corpus::Entry;
use walkfuzz_triage::{KnownIssues, Query, Signal, Signature};

use crate::compare::failed;
use crate::failure::Failure;
use crate::replay::Jdks;

/// The finding in `capsule`, which was read from `file`; `entry` is what the corpus says of it.
///
/// # Errors
/// Wrong usage: the capsule holds a walk that came back with nothing wrong. The environment lacks something: nobody can say in it that its frames are
/// wrong.
pub(crate) fn finding_of_capsule(
    file: &Path,
    capsule: &Capsule,
    entry: Option<&Entry>,
) -> Result<Finding, Failure> {
    let facts = &capsule.facts;
    let fault = match facts.expected {
        Outcome::Fault(fault) => Some(fault),
        Outcome::Frames(_) if holds_wrong_frames(capsule) => None,
        Outcome::Frames(_) => {
            return Err(Failure::usage(format_args!(
                "{} holds a walk that came back, and no finding: walkfuzz replay walks it again",
                file.display()
            )));
        }
    };
    let tier = facts.perturbed.as_ref().map(|moment| moment.tier.clone());
    let tier = tier
        .or_else(|| entry.map(|entry| entry.tier.clone()))
        .unwrap_or_else(|| Tier::T4.name().to_owned());
    let signature = facts.signature.clone();
    let parsed = signature.parse::<Signature>().ok();
    let known_tier = Tier::ALL.into_iter().find(|known| known.name() == tier);
    let now = Timestamp::UNIX_EPOCH;
    let at = file.display().to_string();
    let mut finding = Finding {
        schema: SCHEMA,
        id: Finding::id_of(&signature),
        title: parsed
            .as_ref()
            .map_or_else(|| signature.clone(), |parsed| parsed.title(known_tier)),
        verdict: if known_tier == Some(Tier::T0) {
            FindingVerdict::Bug
        } else {
            FindingVerdict::Robustness
        },
        tier,
        witness: WitnessCount::default(),
        walker: WalkerInfo {
            name: facts.walker.clone(),
            generation: generation_of(&facts.walker),
            version: facts.jvm.clone(),
        },
        outcome: FindingOutcome {
            kind: fault.map_or(OutcomeKind::WrongFrames, |_| OutcomeKind::Fault),
            signal: fault
                .and_then(|fault| Signal::from_number(fault.signal))
                .map(|signal| signal.to_string()),
            code: fault.map(|fault| fault.code),
            code_name: None,
            address: fault.map(|fault| hex(fault.address.0)),
            detail: None,
            contradiction: None,
        },
        registers: registers(capsule)
            .map(|(before, after)| FindingRegisters::new(&before, &after))
            .unwrap_or_default(),
        site: fault.map(|fault| site(capsule, &fault, parsed.as_ref())),
        blob: blob(entry),
        moment: Some(moment(capsule, entry)),
        input: FindingInput {
            perturbation: facts.perturbation.clone(),
            bytes: Perturbation::parse(Arch::NATIVE, &facts.perturbation)
                .map(|edits| hex_bytes(&perturbation_to_bytes(Arch::NATIVE, &edits)))
                .unwrap_or_default(),
            index: Some(0),
            ..FindingInput::default()
        },
        capsule: FindingCapsule {
            path: Some(at.clone()),
            problem: None,
        },
        engine: entry.map_or_else(|| "unknown".to_owned(), |entry| entry.engine.clone()),
        thread: 0,
        reliability: Reliability::default(),
        live: Vec::new(),
        first_seen: now,
        last_seen: now,
        // What tells it from one of a run: nobody has counted it.
        count: 0,
        tainted: false,
        known: parsed.map_or_else(Vec::new, |parsed| known(&parsed, &facts.jvm)),
        jvm: JvmFacts {
            version: facts.jvm.clone(),
            build_id: libjvm(capsule).map_or_else(String::new, |(identity, _)| identity),
            collector: entry
                .and_then(|entry| entry.jdk.as_ref())
                .map(|jdk| jdk.collector.clone())
                .filter(|collector| !collector.is_empty())
                .unwrap_or_else(|| "default".to_owned()),
            ..JvmFacts::default()
        },
        machine: MachineFacts {
            arch: facts.arch.clone(),
            kernel: "unknown".to_owned(),
            ..MachineFacts::default()
        },
        commands: vec![format!("walkfuzz replay {}", quoted(&at))],
        signature,
    };
    if fault.is_none() {
        tell(&mut finding, both_walks(file, capsule)?);
    }
    Ok(finding)
}

/// What both walkers say in a capsule of wrong frames.
fn both_walks(file: &Path, capsule: &Capsule) -> Result<FindingContradiction, Failure> {
    let mut whole = capsule.clone();
    let mut jdks = Jdks::default();
    whole.resolve(|file| jdks.find(file))?;
    let compared = compare_capsule(&whole).map_err(|error| failed(file, error))?;
    let mut examples = compared.comparison.examples.into_iter();
    let said = examples.next().map(|example| example.contradiction);
    said.ok_or_else(|| {
        Failure::usage(format_args!(
            "{} calls its frames wrong, and its own second opinion does not contradict them",
            file.display()
        ))
    })
}

/// Which libjvm, and where it began.
fn libjvm(capsule: &Capsule) -> Option<(String, u64)> {
    let mut files = capsule.facts.files.iter();
    let file = files.find(|file| file.name == crate::replay::LIBJVM)?;
    Some((file.identity.clone(), file.base))
}

/// The file that was mapped at an address.
fn file_at(capsule: &Capsule, address: u64) -> Option<&FileFacts> {
    capsule.facts.files.iter().find(|file| {
        let mut mappings = file.mappings.iter();
        mappings.any(|mapping| (mapping.start..mapping.end).contains(&address))
    })
}

fn site(capsule: &Capsule, fault: &FaultOutcome, signature: Option<&Signature>) -> FaultSite {
    let pc = fault.registers.pc().0;
    let file = file_at(capsule, pc);
    let names = fault.registers.arch.register_names().iter();
    let registers = names.zip(fault.registers.words);
    FaultSite {
        pc: hex(pc),
        function: signature.map(|signature| signature.function.clone()),
        module: file.map(|file| file.name.clone()),
        offset: file.map(|file| hex(pc.wrapping_sub(file.base))),
        build_id: file.map(|file| file.identity.clone()),
        registers: registers
            .map(|(name, word)| FaultRegister {
                name: (*name).to_owned(),
                value: hex(word),
                meaning: None,
            })
            .collect(),
        ..FaultSite::default()
    }
}

/// The class of the context, as far as the entry knows it.
fn blob(entry: Option<&Entry>) -> FindingBlob {
    let text = |of: fn(&Entry) -> &String| entry.map(of).filter(|text| !text.is_empty()).cloned();
    FindingBlob {
        kind: text(|entry| &entry.kind).unwrap_or_else(|| "unknown".to_owned()),
        offset_class: text(|entry| &entry.offset),
        ..FindingBlob::default()
    }
}

/// The words that the outcome needs are all that is known of the moment.
fn moment(capsule: &Capsule, entry: Option<&Entry>) -> FindingMoment {
    let facts = &capsule.facts;
    let needed: Vec<MemoryWord> = capsule
        .words()
        .map(|(address, word)| {
            let register = facts.register_at(address);
            let key = facts.thread_value_at(address);
            let place = match (register, key) {
                (Some(name), _) => format!("{name} of the walked context"),
                (_, Some(key)) => format!("what pthread_getspecific gives for key {key}"),
                _ => place(capsule, address.0),
            };
            MemoryWord {
                address: hex(address.0),
                value: Some(hex(word)),
                place,
                meaning: None,
            }
        })
        .collect();
    FindingMoment {
        code: blob(entry),
        needed_in_all: needed.len() as u64,
        needed: needed.into_iter().take(MOST_WORDS).collect(),
        ..FindingMoment::default()
    }
}

/// What is known of an address without the process.
fn place(capsule: &Capsule, address: u64) -> String {
    match file_at(capsule, address) {
        Some(file) => format!("{}+{:#x}", file.name, address.wrapping_sub(file.base)),
        None => "memory of the process".to_owned(),
    }
}

fn known(signature: &Signature, jvm: &str) -> Vec<KnownMatch> {
    let jdk = jvm.parse().ok();
    let query = Query {
        signature,
        stack: &[],
        jdk: jdk.as_ref(),
        arch: Some(Arch::NATIVE),
    };
    KnownIssues::built_in().known(&query)
}
