//! What is tried: a finding of a run, or an entry of the corpus, reduced to what a trial needs.

use std::path::Path;

use walkfuzz_context::codec::decode_perturbation;
use walkfuzz_context::witness::OffsetClass;
use walkfuzz_context::{Arch, Batch, BlobKind};
use walkfuzz_record::{Finding, RunFolder};
use walkfuzz_triage::corpus::{Entry, bytes_of_hex};

use crate::failure::Failure;
use crate::finding::{Named, named};
use crate::finding_of_capsule::finding_of_capsule;
use crate::replay::read;

/// A finding or a corpus entry.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    /// The finding's id, or the entry's name.
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) signature: String,
    /// What the faulting instruction's text begins with.
    pub(crate) instruction: String,
    pub(crate) batch: Batch,
    pub(crate) kind: Option<BlobKind>,
    pub(crate) offset: Option<OffsetClass>,
    /// `live` or `step`, as the environment says it.
    pub(crate) engine: &'static str,
    /// Where the answer is kept.
    pub(crate) run: Option<RunFolder>,
}

impl Subject {
    /// What `text` names: a finding, an entry of the corpus, or a capsule.
    pub(crate) fn find(text: &str, runs: &Path) -> Result<Self, Failure> {
        match named(text, runs)? {
            Named::Entry(_, entry) => Ok(Self::of_entry(&entry)),
            Named::Finding(run, finding) => Self::of_finding(Some(run), &finding),
            Named::Capsule(file) => {
                let finding = finding_of_capsule(&file, &read(&file)?, None)?;
                Self::of_finding(None, &finding)
            }
        }
    }

    pub(crate) fn of_entry(entry: &Entry) -> Self {
        Self {
            id: entry.name.clone(),
            title: entry.title.clone(),
            signature: entry.signature.clone(),
            instruction: entry.instruction.clone(),
            batch: entry.batch(),
            kind: entry.kind(),
            offset: entry.offset(),
            engine: engine(&entry.engine),
            run: None,
        }
    }

    /// `run`: where its input is, and its grid is kept.
    pub(crate) fn of_finding(run: Option<RunFolder>, finding: &Finding) -> Result<Self, Failure> {
        walkfuzz_harness::is_at_hand(&finding.walker.name).map_err(Failure::usage)?;
        let name = |known: &str| Failure::usage(format_args!("finding {} {known}", finding.id));
        // The class of a dead process's context is what its record says of it, and "unknown" is any.
        let kind = BlobKind::ALL
            .into_iter()
            .find(|kind| kind.name() == finding.blob.kind);
        let class = finding.blob.offset_class.as_deref();
        let offset = OffsetClass::ALL
            .into_iter()
            .find(|offset| Some(offset.name()) == class);
        Ok(Self {
            id: finding.id.clone(),
            title: finding.title.clone(),
            signature: finding.signature.clone(),
            instruction: String::new(),
            batch: batch(run.as_ref(), finding)
                .ok_or_else(|| name("has no input that could be tried"))?,
            kind,
            offset,
            engine: engine(&finding.engine),
            run,
        })
    }

    /// The perturbations as text.
    pub(crate) fn perturbation(&self) -> String {
        let walks = self.batch.walks().iter();
        let texts: Vec<String> = walks
            .map(|walk| walk.display(Arch::NATIVE).to_string())
            .collect();
        texts.join("; ")
    }

    /// The same on a line: the first of many.
    pub(crate) fn perturbation_in_short(&self) -> String {
        match self.batch.walks() {
            [first, _, ..] => format!(
                "{}; and {} like it",
                first.display(Arch::NATIVE),
                self.batch.walks().len() - 1
            ),
            _ => self.perturbation(),
        }
    }

    /// The class of the contexts in words.
    pub(crate) fn class(&self) -> String {
        match (self.kind, self.offset) {
            (None, None) => "any".to_owned(),
            (None, Some(offset)) => offset.name().to_owned(),
            (Some(kind), None) => kind.name().to_owned(),
            (Some(kind), Some(offset)) => format!("{} {}", kind.name(), offset.name()),
        }
    }
}

fn engine(name: &str) -> &'static str {
    if name == "step" { "step" } else { "live" }
}

/// The finding's smallest input: its artifact if it is there, else the perturbation alone.
fn batch(run: Option<&RunFolder>, finding: &Finding) -> Option<Batch> {
    let hash = finding.input.artifact_sha256.as_deref();
    // The name comes from a file: nothing but a hash is looked up.
    let hash =
        hash.filter(|hash| hash.len() == 64 && hash.bytes().all(|digit| digit.is_ascii_hexdigit()));
    let kept = hash.zip(run);
    let kept = kept.and_then(|(hash, run)| std::fs::read(run.artifacts().join(hash)).ok());
    let mut batch = match kept {
        Some(bytes) => Batch::decode(&bytes),
        None => {
            let bytes = bytes_of_hex(&finding.input.bytes).filter(|bytes| !bytes.is_empty())?;
            let (arch, perturbation) = decode_perturbation(&bytes);
            let mut batch = Batch::untouched(arch);
            batch.set_walks(&[perturbation]);
            batch
        }
    };
    // A batch that a process died of has more walks than the one that was open.
    let index = usize::from(finding.input.index.unwrap_or(0));
    if let Some(walk) = batch.walks().get(index).copied() {
        batch.set_walks(&[walk]);
    }
    Some(batch.adapt(Arch::NATIVE))
}
