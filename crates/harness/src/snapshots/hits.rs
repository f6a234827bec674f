//! Faults that were seen in snapshots: each new signature is judged by the puppet, kept as a small capsule, and written down.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use walkfuzz_capsule::capture::{Ground, Keep};
use walkfuzz_capsule::{Ended, Outcome};
use walkfuzz_context::codec::perturbation_to_bytes;
use walkfuzz_context::{Address, Arch, Batch, Perturbation, Registers};
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
use crate::in_capsule::{Search, TIER, in_words, perturbed};
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
        let id = Finding::id_of(&signature);
        let file = format!("capsules/{id}.wfcap");
        let hit = Hit {
            run: &self.run,
            known,
            snapshot,
            signature: &signature,
            outcome,
            perturbation,
            untouched,
            batch,
            facts,
        };
        let judged = match hit.judge(&names, &walker, &file) {
            Ok(judged) => judged,
            Err(problem) => {
                self.refused += 1;
                eprintln!("walkfuzz: {signature} is not confirmed: {problem}");
                return;
            }
        };
        let finding = finding(&hit, &judged, file);
        let text = &finding.input.perturbation;
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
    signature: &'a str,
    outcome: &'a WalkOutcome,
    perturbation: &'a Perturbation,
    untouched: &'a Registers,
    batch: &'a Batch,
    facts: &'a RunFacts,
}

/// What the puppet made of it.
struct Judged {
    perturbation: Perturbation,
    after: Registers,
    outcome: WalkOutcome,
}

impl Hit<'_> {
    fn after(&self, perturbation: &Perturbation) -> Registers {
        let mut after = *self.untouched;
        perturbation.apply(&mut after, &self.known.landscape);
        after
    }

    /// Walks again under the puppet; if that ends the same, looks for the smallest perturbation that does, and keeps its capsule.
    fn judge(&self, names: &Names, walker: &SnapshotWalker, file: &str) -> Result<Judged, String> {
        let WalkOutcome::Fault(fault) = self.outcome else {
            return Err(format!(
                "a capsule holds a fault, and this is none: {:?}",
                self.outcome.kind()
            ));
        };
        let known = self.known;
        let snapshot = read_whole(&known.path).map_err(|error| error.to_string())?;
        let mut ground = Ground::of_capsule(&snapshot).map_err(|error| error.to_string())?;
        ground.limit_depth(i32::from(self.batch.depth.frames()));
        let judged = ground.walk(&self.after(self.perturbation));
        match judged.map_err(|error| error.to_string())? {
            Ended::Outcome(Outcome::Fault(judged))
                if in_words(&judged) == WalkOutcome::Fault(*fault) => {}
            other => return Err(format!("the puppet's walk ends otherwise: {other}")),
        }
        let search = Search {
            untouched: self.untouched,
            landscape: &known.landscape,
            start: self.perturbation,
        };
        let (perturbation, _) = search.run(&mut ground, |outcome| {
            names.signature(&known.modules, walker, outcome).as_deref() == Some(self.signature)
        })?;
        let after = self.after(&perturbation);
        let keep = Keep {
            registers: Some(after),
            signature: self.signature.to_owned(),
            perturbation: perturbation.display(Arch::NATIVE).to_string(),
            perturbed: Some(perturbed(
                self.untouched,
                &perturbation,
                TIER,
                &known.landscape,
            )),
            minimise: true,
            whole: Vec::new(),
        };
        let (capsule, _) = ground.capsule(&keep).map_err(|error| error.to_string())?;
        let outcome = match capsule.facts.expected {
            Outcome::Fault(fault) => in_words(&fault),
            other => return Err(format!("the puppet's walk ends otherwise: {other}")),
        };
        let path = self.run.path().join(file);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
        }
        capsule.write(&path).map_err(|error| error.to_string())?;
        Ok(Judged {
            perturbation,
            after,
            outcome,
        })
    }
}

fn finding(hit: &Hit<'_>, judged: &Judged, capsule: String) -> Finding {
    let signature = hit.signature.to_owned();
    let tier = TIER;
    let now = Timestamp::now();
    let mut alone = *hit.batch;
    alone.set_walks(&[judged.perturbation]);
    let kept = hit.run.add_artifact(&alone.to_bytes()).ok();
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
        },
        capsule: FindingCapsule {
            path: Some(capsule),
            problem: None,
        },
        engine: EngineKind::CAPSULE.to_owned(),
        thread: hit.snapshot as u32,
        reliability: Reliability::default(),
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
