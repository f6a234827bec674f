//! Faults that were seen in snapshots: each new signature is judged by the puppet, kept as a small capsule, and written down.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use walkfuzz_capsule::Outcome;
use walkfuzz_capsule::capture::again;
use walkfuzz_context::codec::perturbation_to_bytes;
use walkfuzz_context::{Address, Arch, Batch, Perturbation, Registers, Tier};
use walkfuzz_engine::SnapshotWalker;
use walkfuzz_record::finding::{
    FaultSite, FindingBlob, FindingCapsule, FindingInput, FindingRegisters, Reliability, hex,
    hex_bytes,
};
use walkfuzz_record::{
    Finding, FindingVerdict, Generation, RunFacts, RunFolder, SCHEMA, WalkOutcome, WalkerInfo,
    WitnessCount,
};
use walkfuzz_triage::Signature;

use crate::assemble;
use crate::names::{self, Names};
use crate::replay::quoted;
use crate::settings::EngineKind;
use crate::snapshots::set::{Known, read_whole};

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
    /// Occurrences that are not written down yet.
    unwritten: u64,
}

/// All hits of a session.
pub(crate) struct Hits {
    run: Arc<RunFolder>,
    /// By where the libraries lie: of each snapshot its own.
    sites: BTreeMap<(usize, i32, u64), Site>,
    confirmed: Vec<Confirmed>,
    refused: usize,
    last: Option<String>,
}

impl Hits {
    pub(crate) fn new(run: Arc<RunFolder>) -> Self {
        Self {
            run,
            sites: BTreeMap::new(),
            confirmed: Vec::new(),
            refused: 0,
            last: None,
        }
    }

    /// Confirmed signatures, and hits that the judge did not confirm.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.confirmed.len(), self.refused)
    }

    /// The signature of the last hit.
    pub(crate) fn last(&self) -> Option<&str> {
        self.last.as_deref()
    }

    /// Counts a hit; has it judged if it is new.
    #[expect(clippy::too_many_arguments, reason = "what one walk consists of")]
    pub(crate) fn saw(
        &mut self,
        known: &Known,
        snapshot: usize,
        outcome: &WalkOutcome,
        perturbation: &Perturbation,
        untouched: &Registers,
        batch: &Batch,
        facts: &RunFacts,
    ) {
        let (signal, pc) = names::site(outcome);
        let site = self.sites.entry((snapshot, signal, pc)).or_default();
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
        let walker = SnapshotWalker {
            name: "agct",
            generation: Generation::Agct,
        };
        let names = Names::new(known.scene.assert_poison);
        let Some(signature) = names.signature(&known.modules, &walker, outcome) else {
            return;
        };
        let signature = signature.to_string();
        self.last = Some(signature.clone());
        let same = |confirmed: &Confirmed| confirmed.signature == signature;
        if let Some(index) = self.confirmed.iter().position(same) {
            site.confirmed = Some(index);
            if let Some(confirmed) = self.confirmed.get_mut(index) {
                confirmed.unwritten += 1;
            }
            return;
        }
        let mut after = *untouched;
        perturbation.apply(&mut after, &known.landscape);
        let depth = i32::from(batch.depth.frames());
        let text = perturbation.display(Arch::NATIVE).to_string();
        let id = Finding::id_of(&signature);
        let file = format!("capsules/{id}.wfcap");
        if let Err(problem) = self.judge(known, outcome, &after, depth, &signature, &text, &file) {
            self.refused += 1;
            eprintln!("walkfuzz: {signature} is not confirmed: {problem}");
            return;
        }
        let finding = finding(
            &Hit {
                run: &self.run,
                known,
                snapshot,
                outcome,
                perturbation,
                untouched,
                after: &after,
                batch,
                facts,
            },
            signature.clone(),
            file,
        );
        eprintln!("walkfuzz: {signature}, confirmed by the puppet: {text}");
        if let Err(error) = self.run.append_finding(&finding) {
            eprintln!("walkfuzz: {error}");
        }
        site_of(&mut self.sites, (snapshot, signal, pc)).confirmed = Some(self.confirmed.len());
        self.confirmed.push(Confirmed {
            id,
            signature,
            unwritten: 0,
        });
    }

    /// Walks again under the puppet, and keeps the capsule if it ends the same.
    #[expect(clippy::too_many_arguments, reason = "what one walk consists of")]
    fn judge(
        &self,
        known: &Known,
        outcome: &WalkOutcome,
        after: &Registers,
        depth: i32,
        signature: &str,
        perturbation: &str,
        file: &str,
    ) -> Result<(), String> {
        let WalkOutcome::Fault(fault) = outcome else {
            return Err(format!(
                "a capsule holds a fault, and this is none: {:?}",
                outcome.kind()
            ));
        };
        let snapshot = read_whole(&known.path).map_err(|error| error.to_string())?;
        let capsule = again(&snapshot, after, depth, signature, perturbation)
            .map_err(|error| error.to_string())?;
        match capsule.facts.expected {
            Outcome::Fault(judged)
                if (
                    judged.signal,
                    judged.code,
                    judged.address,
                    judged.registers.pc(),
                ) == (fault.signal, fault.code, fault.address, fault.pc) => {}
            other => return Err(format!("the puppet's walk ends otherwise: {other}")),
        }
        let path = self.run.path().join(file);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
        }
        capsule.write(&path).map_err(|error| error.to_string())
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

fn site_of(sites: &mut BTreeMap<(usize, i32, u64), Site>, key: (usize, i32, u64)) -> &mut Site {
    sites.entry(key).or_default()
}

/// What a finding is made of.
struct Hit<'a> {
    run: &'a RunFolder,
    known: &'a Known,
    snapshot: usize,
    outcome: &'a WalkOutcome,
    perturbation: &'a Perturbation,
    untouched: &'a Registers,
    after: &'a Registers,
    batch: &'a Batch,
    facts: &'a RunFacts,
}

fn finding(hit: &Hit<'_>, signature: String, capsule: String) -> Finding {
    // How natural a context is cannot be told without the JVM's structures: the least natural tier is not too much said.
    let tier = Tier::T4;
    let now = Timestamp::now();
    let mut alone = *hit.batch;
    alone.set_walks(&[*hit.perturbation]);
    let kept = hit.run.add_artifact(&alone.to_bytes()).ok();
    let site = match hit.outcome {
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
    let path = hit.run.path().join(&capsule);
    let path = std::path::absolute(&path).unwrap_or(path);
    let title = match signature.parse::<Signature>() {
        Ok(parsed) => parsed.title(Some(tier)),
        Err(_) => format!("{signature} [{tier}]"),
    };
    Finding {
        schema: SCHEMA,
        id: Finding::id_of(&signature),
        title,
        verdict: FindingVerdict::Robustness,
        tier: tier.name().to_owned(),
        witness: WitnessCount::default(),
        walker: WalkerInfo {
            name: hit.known.walker.clone(),
            generation: Generation::Agct,
            version: hit.known.scene.jvm.version.clone(),
        },
        outcome: assemble::outcome(hit.outcome),
        registers: FindingRegisters::new(hit.untouched, hit.after),
        site,
        blob: FindingBlob {
            kind: hit
                .known
                .code
                .kind(Address(hit.after.pc().0))
                .name()
                .to_owned(),
            ..FindingBlob::default()
        },
        moment: None,
        input: FindingInput {
            perturbation: hit.perturbation.display(Arch::NATIVE).to_string(),
            bytes: hex_bytes(&perturbation_to_bytes(Arch::NATIVE, hit.perturbation)),
            artifact: kept.as_ref().map(|(path, _)| path.clone()),
            artifact_sha256: kept.map(|(_, hash)| hash),
            index: Some(0),
            memory: Vec::new(),
        },
        capsule: FindingCapsule {
            path: Some(capsule),
            problem: None,
        },
        engine: EngineKind::CAPSULE.to_owned(),
        thread: hit.snapshot as u32,
        reliability: Reliability::default(),
        live: Vec::new(),
        first_seen: now,
        last_seen: now,
        count: 1,
        tainted: false,
        known: assemble::known(&signature, &[], &hit.known.scene.jvm.version),
        jvm: hit.known.scene.jvm.clone(),
        machine: hit.facts.machine.clone(),
        commands: vec![format!(
            "walkfuzz replay {}",
            quoted(&path.display().to_string())
        )],
        signature,
    }
}
