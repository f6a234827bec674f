//! Faults that were seen in snapshots: each new signature is judged by the puppet, kept as a small capsule, and written down.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use walkfuzz_context::codec::perturbation_to_bytes;
use walkfuzz_context::{Address, Arch, Batch, MemoryEdits, Perturbation, Registers};
use walkfuzz_engine::{SnapshotWalker, Snapshots};
use walkfuzz_record::finding::{
    FaultSite, FindingBlob, FindingInput, FindingRegisters, Reliability, hex, hex_bytes,
};
use walkfuzz_record::{
    Finding, FindingVerdict, Generation, RunFacts, RunFolder, SCHEMA, WalkOutcome, WalkerInfo,
    WitnessCount,
};
use walkfuzz_triage::Signature;

use crate::assemble;
use crate::in_capsule::TIER;
use crate::measure::thread_cpu_ns;
use crate::names::{self, Names};
use crate::one_core::on_one_core;
use crate::replay::quoted;
use crate::settings::EngineKind;
use crate::snapshots::judge::{Judged, judge};
use crate::snapshots::set::Known;
use crate::snapshots::synthetic::{self, Edited};

/// How often a site is put to the judge before it is left alone.
const TRIES: u32 = 3;

#[derive(Default)]
struct Site {
    tries: u32,
    /// The finding's number, once it is confirmed.
    confirmed: Option<usize>,
}

struct Confirmed {
    id: String,
    signature: String,
    synthetic: bool,
    /// Occurrences that are not written down yet.
    unwritten: u64,
}

/// All hits of a session.
pub(crate) struct Hits {
    run: Arc<RunFolder>,
    /// By snapshot (the libraries lie elsewhere in each), signal and pc, and whether memory was edited.
    sites: BTreeMap<(usize, i32, u64, bool), Site>,
    confirmed: Vec<Confirmed>,
    refused: [usize; 2],
    /// CPU time of this thread that judging took.
    judging_ns: f64,
    last: Option<String>,
}

impl Hits {
    pub(crate) fn new(run: Arc<RunFolder>) -> Self {
        Self {
            run,
            sites: BTreeMap::new(),
            confirmed: Vec::new(),
            refused: [0; 2],
            judging_ns: 0.0,
            last: None,
        }
    }

    /// Confirmed signatures, and hits that the judge did not confirm: of memory as it was, and of edited memory.
    pub(crate) fn counts(&self) -> ((usize, usize), (usize, usize)) {
        let confirmed = |synthetic| {
            let is = |confirmed: &&Confirmed| confirmed.synthetic == synthetic;
            self.confirmed.iter().filter(is).count()
        };
        let [natural, edited] = self.refused;
        ((confirmed(false), natural), (confirmed(true), edited))
    }

    /// CPU time of this thread that judging took, in seconds.
    pub(crate) const fn judging_seconds(&self) -> f64 {
        self.judging_ns / 1e9
    }

    /// The signature of the last hit.
    pub(crate) fn last(&self) -> Option<&str> {
        self.last.as_deref()
    }

    /// Counts a hit; has it judged if it is new.
    pub(crate) fn saw(&mut self, hit: &Hit<'_>) {
        let (signal, pc) = names::site(hit.outcome);
        let key = (hit.snapshot, signal, pc, hit.is_synthetic());
        let site = self.sites.entry(key).or_default();
        if let Some(confirmed) = site.confirmed {
            if let Some(confirmed) = self.confirmed.get_mut(confirmed) {
                confirmed.unwritten += 1;
            }
            return;
        }
        if site.tries >= TRIES {
            return;
        }
        site.tries += 1;
        let Some(signature) = signature(hit, hit.outcome) else {
            return;
        };
        self.last = Some(signature.clone());
        let same = |confirmed: &Confirmed| confirmed.signature == signature;
        if let Some(index) = self.confirmed.iter().position(same) {
            site.confirmed = Some(index);
            if let Some(confirmed) = self.confirmed.get_mut(index) {
                confirmed.unwritten += 1;
            }
            return;
        }
        let id = Finding::id_of(&signature);
        let file = format!("capsules/{id}.wfcap");
        let began = thread_cpu_ns();
        let judged = on_one_core(|| judge(&self.run, hit, &signature, &file));
        self.judging_ns += thread_cpu_ns() - began;
        let judged = match judged {
            Ok(judged) => judged,
            Err(problem) => {
                let [natural, edited] = &mut self.refused;
                *(if hit.is_synthetic() { edited } else { natural }) += 1;
                eprintln!("walkfuzz: {signature} is not confirmed: {problem}");
                return;
            }
        };
        let text = hit.text(&judged.perturbation);
        eprintln!("walkfuzz: {signature}, confirmed by the puppet: {text}");
        let finding = finding(&self.run, hit, signature.clone(), judged);
        if let Err(error) = self.run.append_finding(&finding) {
            eprintln!("walkfuzz: {error}");
        }
        self.sites.entry(key).or_default().confirmed = Some(self.confirmed.len());
        self.confirmed.push(Confirmed {
            id,
            signature,
            synthetic: hit.is_synthetic(),
            unwritten: 0,
        });
    }

    /// Writes down how often confirmed findings came again.
    pub(crate) fn write_sightings(&mut self) {
        for confirmed in self.confirmed.iter_mut().filter(|one| one.unwritten > 0) {
            let count = std::mem::take(&mut confirmed.unwritten);
            if let Err(error) = self
                .run
                .append_sighting(&confirmed.id, Timestamp::now(), count)
            {
                eprintln!("walkfuzz: {error}");
            }
        }
    }
}

/// What a finding is made of.
pub(crate) struct Hit<'a> {
    pub(crate) engine: &'a Snapshots,
    pub(crate) known: &'a Known,
    pub(crate) snapshot: usize,
    pub(crate) outcome: &'a WalkOutcome,
    pub(crate) perturbation: &'a Perturbation,
    pub(crate) untouched: &'a Registers,
    pub(crate) batch: &'a Batch,
    pub(crate) facts: &'a RunFacts,
    /// The input's edits of memory, and what they are here.
    pub(crate) edits: &'a MemoryEdits,
    pub(crate) memory: &'a [Edited],
}

impl Hit<'_> {
    fn is_synthetic(&self) -> bool {
        !self.memory.is_empty()
    }

    /// The registers that a walk with `perturbation` begins from.
    pub(crate) fn after(&self, perturbation: &Perturbation) -> Registers {
        let mut after = *self.untouched;
        perturbation.apply(&mut after, &self.known.landscape);
        after
    }

    /// All edits, those of registers being `perturbation`'s.
    pub(crate) fn text(&self, perturbation: &Perturbation) -> String {
        let registers = perturbation.display(Arch::NATIVE);
        match self.is_synthetic() {
            true => format!("{} {registers}", self.edits),
            false => registers.to_string(),
        }
    }
}

/// The text of the signature that `outcome` has; of edited memory it says so.
pub(crate) fn signature(hit: &Hit<'_>, outcome: &WalkOutcome) -> Option<String> {
    let walker = SnapshotWalker {
        name: "agct",
        generation: Generation::Agct,
    };
    let names = Names::new(hit.known.scene.assert_poison);
    let text = names.signature(&hit.known.modules, &walker, outcome)?;
    if !hit.is_synthetic() {
        return Some(text.to_string());
    }
    let signature: Signature = text.parse().ok()?;
    let detail = match &signature.detail {
        Some(detail) => format!("{detail}, {}", synthetic::DETAIL),
        None => synthetic::DETAIL.to_owned(),
    };
    Some(signature.with_detail(detail).to_string())
}

fn finding(run: &RunFolder, hit: &Hit<'_>, signature: String, judged: Judged) -> Finding {
    let tier = TIER;
    let now = Timestamp::now();
    let mut alone = *hit.batch;
    alone.set_walks(&[judged.perturbation]);
    let mut input = if hit.is_synthetic() {
        hit.edits.to_bytes()
    } else {
        Vec::new()
    };
    input.extend(alone.to_bytes());
    let kept = run.add_artifact(&input).ok();
    let site = match judged.outcome {
        WalkOutcome::Fault(fault) => {
            let place = hit.known.modules.symbolise(fault.pc);
            Some(FaultSite {
                pc: hex(fault.pc.0),
                function: place.function,
                module: place.module,
                offset: Some(hex(place.module_offset)),
                build_id: place.build_id,
                ..FaultSite::default()
            })
        }
        _ => None,
    };
    let replay = judged.capsule.path.as_ref().map(|path| {
        let path = run.path().join(path);
        let path = std::path::absolute(&path).unwrap_or(path);
        format!("walkfuzz replay {}", quoted(&path.display().to_string()))
    });
    let title = match signature.parse::<Signature>() {
        Ok(parsed) => parsed.title(Some(tier)),
        Err(_) => format!("{signature} [{tier}]"),
    };
    Finding {
        schema: SCHEMA,
        id: Finding::id_of(&signature),
        title,
        verdict: if hit.is_synthetic() {
            FindingVerdict::Synthetic
        } else {
            FindingVerdict::Robustness
        },
        tier: tier.name().to_owned(),
        witness: WitnessCount::default(),
        walker: WalkerInfo {
            name: hit.known.walker.clone(),
            generation: Generation::Agct,
            version: hit.known.scene.jvm.version.clone(),
        },
        outcome: assemble::outcome(&judged.outcome),
        registers: FindingRegisters::new(hit.untouched, &judged.after),
        site,
        blob: FindingBlob {
            kind: hit
                .known
                .code
                .kind(Address(judged.after.pc().0))
                .name()
                .to_owned(),
            ..FindingBlob::default()
        },
        moment: None,
        input: FindingInput {
            perturbation: judged.perturbation.display(Arch::NATIVE).to_string(),
            bytes: hex_bytes(&perturbation_to_bytes(Arch::NATIVE, &judged.perturbation)),
            artifact: kept.as_ref().map(|(path, _)| path.clone()),
            artifact_sha256: kept.map(|(_, hash)| hash),
            index: Some(0),
            memory: hit.memory.iter().map(Edited::described).collect(),
        },
        capsule: judged.capsule,
        engine: EngineKind::CAPSULE.to_owned(),
        thread: hit.snapshot as u32,
        reliability: Reliability::default(),
        live: Vec::new(),
        first_seen: now,
        last_seen: now,
        count: 1,
        tainted: false,
        known: if hit.is_synthetic() {
            Vec::new()
        } else {
            assemble::known(&signature, &[], &hit.known.scene.jvm.version)
        },
        jvm: hit.known.scene.jvm.clone(),
        machine: hit.facts.machine.clone(),
        commands: replay.into_iter().collect(),
        signature,
    }
}
