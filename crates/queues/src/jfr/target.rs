//! Inputs, one after the other, over as many JVMs as they need.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use walkfuzz_context::element::{Word, edited, folded, text};
use walkfuzz_context::{Arch, Batch, Edit, Perturbation, Tier};
use walkfuzz_coverage::{Domain, Feedback, spread};
use walkfuzz_jvm::Jdk;
use walkfuzz_record::KOfN;
use walkfuzz_triage::Signature;

use super::round::{End, Given, Round, recorded};
use super::stage::Stage;
use crate::error::QueueError;
use crate::finding::QueueFinding;

/// Edits that are tried again after a JVM's death. Another sample may come between an edit and the walk of its element.
const SUSPECTS: usize = 6;
/// JVMs that a finding is tried in.
const TRIES: u64 = 3;
/// How often edits are made in one JVM until they count as harmless.
const TIMES: usize = 25;
/// Edits that are given at once.
const CHUNK: usize = 16;
/// Edits after which the next JVM begins, so that what one element has broken does not show in all later ones.
const ROUND: u64 = 5_000;

/// One input in so many also edits words of which JVMs are known to die.
const DEADLY: u64 = 8;

/// What an input did.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its edits are in elements, and the JVM lives.
    Lives,
    /// Nothing to do: it has no edits.
    Empty,
    /// The JVM died.
    Died,
}

/// See the module.
#[derive(Debug)]
pub struct Target {
    stage: Stage,
    folder: PathBuf,
    round: Option<Round>,
    rounds: u32,
    in_round: u64,
    recent: VecDeque<Perturbation>,
    findings: BTreeMap<String, QueueFinding>,
    /// Words of which JVMs are known to die.
    deadly: Vec<Word>,
    inputs: u64,
    feedback: Feedback,
}

impl Target {
    /// Runs on this JDK, with this library of the interposer, in a folder below `runs`.
    ///
    /// # Errors
    /// JFR of this JDK has no such queue.
    pub fn new(runs: &Path, jdk: Jdk, interposer: PathBuf) -> Result<Self, QueueError> {
        let time = Timestamp::now().strftime("%Y%m%dT%H%M%S.%3fZ");
        let folder = runs.join(format!("queue-elements-{time}-{}", std::process::id()));
        let folder = std::path::absolute(&folder).map_err(|source| QueueError::File {
            path: folder,
            source,
        })?;
        Ok(Self {
            stage: Stage::new(jdk, interposer)?,
            folder,
            round: None,
            rounds: 0,
            in_round: 0,
            recent: VecDeque::new(),
            findings: BTreeMap::new(),
            deadly: Vec::new(),
            inputs: 0,
            feedback: Feedback::extra_counters(),
        })
    }

    /// Puts an input's edits into elements, one after the other.
    ///
    /// # Errors
    /// A JVM cannot be started, or takes nothing.
    pub fn input(&mut self, data: &[u8]) -> Result<Outcome, QueueError> {
        self.inputs += 1;
        let mut edits = edits_of(data);
        // A JVM that dies of nearly each input comes to nothing else.
        if !self.inputs.is_multiple_of(DEADLY) {
            let deadly = |word: &Word| self.deadly.contains(word);
            edits.retain(|edits| !edited(edits.edits(), Arch::NATIVE).any(|word| deadly(&word)));
        }
        if edits.is_empty() {
            return Ok(Outcome::Empty);
        }
        edits.iter().for_each(|edits| self.mark(edits));
        let given = self.round()?.give(&edits)?;
        self.in_round += edits.len() as u64;
        self.recent.extend(edits);
        let excess = self.recent.len().saturating_sub(2 * CHUNK);
        self.recent.drain(..excess);
        match given {
            Given::Taken if self.in_round < ROUND => Ok(Outcome::Lives),
            _ => Ok(match self.end_round(true)? {
                Some(_) => Outcome::Died,
                None => Outcome::Lives,
            }),
        }
    }

    /// Puts an input's edits into elements of a JVM of its own, again and again.
    ///
    /// # Errors
    /// As [`Self::input`].
    pub fn strict(&mut self, data: &[u8]) -> Result<Outcome, QueueError> {
        self.inputs += 1;
        let edits = edits_of(data);
        if edits.is_empty() {
            return Ok(Outcome::Empty);
        }
        let chunk: Vec<Perturbation> = edits.iter().copied().cycle().take(CHUNK).collect();
        for _ in 0..TIMES {
            if self.round()?.give(&chunk)? == Given::Over {
                break;
            }
            self.in_round += CHUNK as u64;
        }
        self.recent = edits.into();
        Ok(match self.end_round(false)? {
            Some(_) => Outcome::Died,
            None => Outcome::Lives,
        })
    }

    /// Ends the JVM and says what came of the run.
    ///
    /// # Errors
    /// What was found cannot be written.
    pub fn finish(&mut self) -> Result<String, QueueError> {
        self.end_round(true)?;
        let mut said = format!(
            "walkfuzz: {} inputs in {} JVMs of JDK {}, {} findings",
            self.inputs,
            self.rounds,
            self.stage.jdk.version,
            self.findings.len()
        );
        for finding in self.findings.values() {
            said.push('\n');
            said.push_str(&finding.lines());
        }
        Ok(said)
    }

    /// What was found so far.
    pub fn findings(&self) -> impl Iterator<Item = &QueueFinding> {
        self.findings.values()
    }

    fn round(&mut self) -> Result<&mut Round, QueueError> {
        let round = match self.round.take() {
            Some(round) => round,
            None => self.next("round")?,
        };
        Ok(self.round.insert(round))
    }

    fn next(&mut self, what: &str) -> Result<Round, QueueError> {
        self.rounds += 1;
        let folder = self.folder.join(format!("{what}-{}", self.rounds));
        Round::start(&self.stage, folder)
    }

    fn end_round(&mut self, judge: bool) -> Result<Option<Signature>, QueueError> {
        let Some(round) = self.round.take() else {
            return Ok(None);
        };
        let (said, folder) = (round.said(), round.folder().to_owned());
        let end = round.end()?;
        let untaken = end.taken == 0 && self.in_round > 0;
        self.in_round = 0;
        let Some(signature) = &end.signature else {
            if untaken {
                return Err(QueueError::Deaf {
                    seconds: 60,
                    said,
                    folder,
                });
            }
            if let Some(line) = recorded(&self.stage, &end) {
                eprintln!("walkfuzz: JVM {}: {line}", self.rounds);
            }
            return Ok(None);
        };
        let signature = signature.clone();
        self.feedback.mark(
            Domain::FaultSite,
            spread(signature.to_string().len() as u64),
        );
        self.died(&signature, &end, judge)?;
        self.recent.clear();
        Ok(Some(signature))
    }

    fn died(&mut self, signature: &Signature, end: &End, judge: bool) -> Result<(), QueueError> {
        let key = signature.to_string();
        let title = signature.title(Some(Tier::T4));
        if let Some(known) = self.findings.get_mut(&key) {
            known.count += 1;
            known.keep(&self.folder)?;
            return Ok(());
        }
        eprintln!("walkfuzz: {title}");
        let suspects: Vec<Perturbation> = self.recent.iter().rev().copied().collect();
        let (edits, reproduced) = match judge {
            true => self.reproduce(&suspects, signature)?,
            false => (None, KOfN::new(0, 0)),
        };
        let culprit = edits.as_ref().map_or(&[][..], Perturbation::edits);
        self.deadly.extend(edited(culprit, Arch::NATIVE));
        let said = |edits: &Perturbation| text(edits, Arch::NATIVE);
        let finding = QueueFinding {
            signature: key.clone(),
            title,
            count: 1,
            edits: edits.as_ref().map(said),
            reproduced,
            last: suspects.iter().take(SUSPECTS).map(said).collect(),
            jvm: self.stage.jdk.version.to_string(),
            evidence: end.folder.clone(),
            command: self.command(edits.as_ref().or(suspects.first())),
        };
        finding.keep(&self.folder)?;
        eprintln!("{}", finding.lines());
        self.findings.insert(key, finding);
        Ok(())
    }

    fn command(&self, edits: Option<&Perturbation>) -> String {
        let edits = edits.map_or_else(|| "random".to_owned(), |edits| text(edits, Arch::NATIVE));
        format!(
            "walkfuzz interpose --profiler jfr --jdk {} --queue {}",
            walkfuzz_harness::quoted(&self.stage.jdk.home.display().to_string()),
            walkfuzz_harness::quoted(&edits)
        )
    }

    /// The smallest edits of one element that the JVM dies of in the same way, and how often it did.
    fn reproduce(
        &mut self,
        suspects: &[Perturbation],
        signature: &Signature,
    ) -> Result<(Option<Perturbation>, KOfN), QueueError> {
        let mut tried = 0;
        let mut culprit = None;
        for suspect in suspects.iter().take(SUSPECTS) {
            tried += 1;
            if self.dies(suspect, signature)? {
                culprit = Some(*suspect);
                break;
            }
        }
        let Some(mut culprit) = culprit else {
            return Ok((None, KOfN::new(0, tried)));
        };
        let mut index = 0;
        while culprit.edits().len() > 1 && index < culprit.edits().len() {
            let mut less = culprit;
            less.remove(index);
            if self.dies(&less, signature)? {
                culprit = less;
            } else {
                index += 1;
            }
        }
        let mut again = 0;
        for _ in 0..TRIES {
            again += u64::from(self.dies(&culprit, signature)?);
        }
        Ok((Some(culprit), KOfN::new(again, TRIES)))
    }

    /// Whether a JVM with these edits in its elements, and no others, dies in this way.
    fn dies(&mut self, edits: &Perturbation, signature: &Signature) -> Result<bool, QueueError> {
        let mut round = self.next("trial")?;
        for _ in 0..TIMES {
            if round.give(&[*edits; CHUNK])? == Given::Over {
                break;
            }
        }
        let end = round.end()?;
        Ok(end
            .signature
            .is_some_and(|found| found.id() == signature.id()))
    }

    /// Tells the fuzzer which words were edited, and how.
    fn mark(&self, edits: &Perturbation) {
        for edit in edits.edits() {
            let how = match edit {
                Edit::Nudge { .. } => 1,
                Edit::Flip { bit, .. } => 2 + u64::from(*bit),
                Edit::Swap { .. } => 70,
                Edit::Alias { .. } => 71,
                Edit::Sign { .. } => 72,
                Edit::Set { value, .. } => 80 + value.class as u64,
            };
            for word in edited(&[*edit], Arch::NATIVE) {
                self.feedback
                    .mark(Domain::BlobKind, spread(how << 8 | word as u64));
            }
        }
    }
}

/// What an input says of elements.
fn edits_of(data: &[u8]) -> Vec<Perturbation> {
    let batch = Batch::decode(data);
    let walks = batch.walks().iter().filter(|walk| !walk.is_untouched());
    walks
        .map(|walk| folded(walk, &Word::OF_JFR, Arch::NATIVE))
        .collect()
}
