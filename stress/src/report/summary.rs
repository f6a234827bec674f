//! What a run amounts to: counts of verdicts, crashes with their denominator, codes, findings.
//!
//! Contract: plain serialisable values, documented in docs/stress-schema.md. Cells of perturbed contexts are counted apart throughout.

use std::collections::BTreeMap;

use serde::Serialize;
use walkfuzz_record::render::numbers::count;
use walkfuzz_record::summary::Share;
use walkfuzz_record::{Code, Generation, KOfN, KnownMatch, ProcessOutcome};

use super::Run;
use crate::cell::{Cell, Dimension};
use crate::grade::{Grade, grade};
use crate::launch::NO_WALKER;
use crate::result::{CellResult, RegisterPair, Verdict};

/// Cells by verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct CellCounts {
    /// Cells of the plan.
    pub planned: u64,
    /// Of these, without a result.
    pub left: u64,
    /// [`Verdict::Fail`].
    pub fail: u64,
    /// [`Verdict::Unknown`].
    pub unknown: u64,
    /// [`Verdict::Known`].
    pub known: u64,
    /// [`Verdict::Pass`].
    pub pass: u64,
    /// [`Verdict::Outside`].
    pub outside: u64,
}

impl CellCounts {
    pub(super) fn add(&mut self, verdict: Verdict) {
        *self.place(verdict) += 1;
    }

    fn place(&mut self, verdict: Verdict) -> &mut u64 {
        match verdict {
            Verdict::Fail => &mut self.fail,
            Verdict::Unknown => &mut self.unknown,
            Verdict::Known => &mut self.known,
            Verdict::Pass => &mut self.pass,
            Verdict::Outside => &mut self.outside,
        }
    }

    /// Cells of that verdict.
    #[must_use]
    pub fn of(mut self, verdict: Verdict) -> u64 {
        *self.place(verdict)
    }

    /// Cells that have a verdict.
    #[must_use]
    pub fn done(self) -> u64 {
        Verdict::ALL.iter().map(|&verdict| self.of(verdict)).sum()
    }

    /// The gravest verdict that some cell has.
    #[must_use]
    pub fn gravest(self) -> Option<Verdict> {
        let mut verdicts = Verdict::ALL.iter().copied();
        verdicts.find(|&verdict| self.of(verdict) > 0)
    }
}

/// How often a code came up, of all untouched walks of its generation.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct CodeShare {
    /// Whose code it is.
    pub generation: Generation,
    /// The code.
    pub code: i32,
    /// Its name in that generation.
    pub name: String,
    /// How it is to be taken.
    pub grade: Grade,
    /// What it means.
    pub meaning: &'static str,
    /// Of the untouched walks that the generation's cells made.
    pub share: Share,
}

/// A finding of one or many cells.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct FindingGroup {
    /// What makes two of them the same.
    pub signature: String,
    /// The signature as a sentence.
    pub title: String,
    /// Whether the contexts were perturbed: then no verdict rests on it.
    pub perturbed: bool,
    /// How often, in all cells.
    pub count: u64,
    /// The cells that have it, by [`CellResult::id`], in the order of the plan.
    pub cells: Vec<String>,
    /// Known issues that look like it.
    pub known: Vec<KnownMatch>,
    /// The first file that shows it, relative to the run's folder.
    pub evidence: Option<String>,
    /// Of the first that has any: what the walk began from.
    pub registers: Vec<RegisterPair>,
    /// The command that runs the cell which has it most often.
    pub command: String,
}

/// Samples of all cells, those of perturbed contexts included.
#[derive(Clone, Copy, Debug, PartialEq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Samples {
    /// What the intervals ask for.
    pub requested: u64,
    /// Samples that came.
    pub delivered: u64,
    /// Samples that the kernel merged into another one.
    pub coalesced: u64,
    /// Samples that no lane had room for.
    pub dropped: u64,
    /// Samples of threads outside Java.
    pub outside_java: u64,
    /// Faults at SafeFetch, resumed by the JVM.
    pub near_misses: u64,
}

/// The work of a sampled program beside that of the same one without a sampler.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Work {
    /// The sampled cell, by [`CellResult::id`].
    pub cell: String,
    /// Its rounds of work a second.
    pub rounds_per_second: f64,
    /// Those of the same cell without a sampler.
    pub unsampled: f64,
}

impl Work {
    /// Time that a round takes, as a multiple of the time without a sampler.
    #[must_use]
    pub fn slowdown(&self) -> f64 {
        self.unsampled / self.rounds_per_second
    }

    /// Of all cells that have a counterpart.
    fn of(cells: &[&CellResult]) -> Vec<Self> {
        let rate = |cell: &CellResult| {
            let seconds = cell.workload.seconds.filter(|seconds| *seconds > 0.0)?;
            let rounds = cell.workload.rounds.filter(|rounds| *rounds > 0)?;
            Some(rounds as f64 / seconds)
        };
        // A few at most: each sampled cell looks through them.
        let (unsampled, sampled): (Vec<&CellResult>, Vec<&CellResult>) =
            cells.iter().partition(|cell| cell.cell.walker == NO_WALKER);
        let same = |one: &Cell, other: &Cell| {
            let axes = [
                Dimension::Jdk,
                Dimension::Collector,
                Dimension::Flags,
                Dimension::Workload,
                Dimension::Antagonists,
            ];
            axes.iter().all(|&axis| one.get(axis) == other.get(axis))
        };
        let work = |cell: &CellResult| {
            let mut without = unsampled.iter();
            let without = without.find(|other| same(&other.cell, &cell.cell))?;
            Some(Self {
                cell: cell.id.clone(),
                rounds_per_second: rate(cell)?,
                unsampled: rate(without)?,
            })
        };
        sampled.into_iter().filter_map(work).collect()
    }
}

/// What a run amounts to.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Summary {
    /// Cells by verdict.
    pub cells: CellCounts,
    /// Seconds that the cells took, one after the other.
    pub cell_seconds: f64,
    /// Walks that gave frames, of the untouched ones.
    pub frames: Share,
    /// Crashes in a walk, of the untouched ones: see `crashes`.
    pub crashes: Share,
    /// Untouched walks that an alarm ended.
    pub hangs: u64,
    /// Untouched walks with frames that another witness contradicts.
    pub wrong_frames: u64,
    /// Untouched walks that broke a contract.
    pub breaches: u64,
    /// Faults of perturbed walks, of these.
    pub perturbed_faults: Share,
    /// How JVMs ended that did not end as they should, by [`ProcessOutcome::name`]; cells of perturbed contexts excluded.
    pub ends: BTreeMap<&'static str, u64>,
    /// Samples.
    pub samples: Samples,
    /// What sampling cost the programs that also ran without it.
    pub work: Vec<Work>,
    /// Codes of untouched walks, by generation, the most frequent first.
    pub codes: Vec<CodeShare>,
    /// Findings, the natural ones first, then by how many cells have them.
    pub findings: Vec<FindingGroup>,
}

impl Summary {
    /// Of a run.
    #[must_use]
    pub fn of(run: Run<'_>) -> Self {
        let cells = run.in_order();
        let mut counts = CellCounts {
            planned: run.facts.plan.len() as u64,
            left: run.left().len() as u64,
            ..CellCounts::default()
        };
        let mut samples = Samples::default();
        let mut ends: BTreeMap<&'static str, u64> = BTreeMap::new();
        let (mut walks, mut frames, mut crashed) = (0, 0, KOfN::default());
        let (mut hangs, mut wrong_frames, mut breaches) = (0, 0, 0);
        let mut perturbed = KOfN::default();
        let mut cell_seconds = 0.0;
        for cell in &cells {
            counts.add(cell.verdict);
            cell_seconds += cell.seconds;
            // Where nobody knows what was requested, there is no share of it.
            if cell.sampling.requested > 0 {
                samples.requested += cell.sampling.requested;
                samples.delivered += cell.sampling.delivered;
            }
            samples.coalesced += cell.sampling.coalesced;
            samples.dropped += cell.sampling.dropped;
            samples.outside_java += cell.sampling.outside_java;
            samples.near_misses += cell.sampling.near_misses;
            perturbed.k += cell.perturbed.faults;
            perturbed.of += cell.perturbed.walks;
            if cell.verdict == Verdict::Outside {
                continue;
            }
            walks += cell.untouched.walks;
            frames += cell.untouched.frames;
            hangs += cell.untouched.hangs;
            wrong_frames += cell.untouched.wrong_frames;
            breaches += cell.untouched.breaches;
            let of_cell = crashes(cell);
            crashed.k += of_cell.k;
            crashed.of += of_cell.of;
            let outcome = cell.process.outcome;
            if !matches!(outcome, ProcessOutcome::Clean | ProcessOutcome::Retired) {
                *ends.entry(outcome.name()).or_default() += 1;
            }
        }
        Self {
            cells: counts,
            cell_seconds,
            frames: Share::new(frames, walks),
            crashes: Share::new(crashed.k, crashed.of),
            hangs,
            wrong_frames,
            breaches,
            perturbed_faults: Share::new(perturbed.k, perturbed.of),
            ends,
            samples,
            work: Work::of(&cells),
            codes: codes(&cells),
            findings: findings(&cells),
        }
    }

    /// What else went wrong, a few words each: walks that ended otherwise than by a fault, then JVMs.
    pub(super) fn also(&self) -> Vec<String> {
        let walks = [
            (self.hangs, "walks hung"),
            (self.wrong_frames, "walks with wrong frames"),
            (self.breaches, "breaches of contract"),
        ];
        let walks = walks
            .iter()
            .filter(|(number, _)| *number > 0)
            .map(|(number, words)| format!("{} {words}", count(*number)));
        let ends = self.ends.iter().map(|(name, &number)| {
            let jvms = if number == 1 { "JVM" } else { "JVMs" };
            format!("{} {jvms}: {name}", count(number))
        });
        walks.chain(ends).collect()
    }
}

/// Crashes of a cell, of its untouched walks: faults from which the guard recovered (without it each ends the JVM), and the walk in which the
/// JVM ended, which is in no count of walks. Nothing for perturbed contexts.
#[must_use]
pub fn crashes(cell: &CellResult) -> KOfN {
    if cell.verdict == Verdict::Outside {
        return KOfN::default();
    }
    let died = matches!(
        cell.process.outcome,
        ProcessOutcome::CrashInWalk | ProcessOutcome::AbortInWalk
    );
    let died = u64::from(died);
    KOfN::new(cell.untouched.faults + died, cell.untouched.walks + died)
}

/// The generation of the codes that a cell's walker speaks, as far as it has spoken.
pub(super) fn generation(cell: &CellResult) -> Option<Generation> {
    cell.codes.first().map(|row| row.generation)
}

/// Codes of untouched walks; the denominator are all untouched walks of cells whose walker speaks that generation.
pub(super) fn codes(cells: &[&CellResult]) -> Vec<CodeShare> {
    let mut walks: BTreeMap<Generation, u64> = BTreeMap::new();
    let mut counts: BTreeMap<(Generation, i32), (u64, &str)> = BTreeMap::new();
    // A walker that never failed has named no code: its walks count where its walker's name did.
    let mut speaks: BTreeMap<&str, Generation> = BTreeMap::new();
    for cell in cells {
        if let Some(generation) = generation(cell) {
            speaks.entry(&cell.cell.walker).or_insert(generation);
        }
    }
    for cell in cells.iter().filter(|cell| cell.verdict != Verdict::Outside) {
        if let Some(&generation) = speaks.get(cell.cell.walker.as_str()) {
            *walks.entry(generation).or_default() += cell.untouched.walks;
        }
        for row in cell.codes.iter().filter(|row| row.untouched > 0) {
            let count = counts
                .entry((row.generation, row.code))
                .or_insert((0, &row.name));
            count.0 += row.untouched;
        }
    }
    let mut codes: Vec<CodeShare> = counts
        .into_iter()
        .map(|((generation, code), (count, name))| {
            let (grade, meaning) = grade(generation, Code(code));
            let of = walks.get(&generation).copied().unwrap_or(0).max(count);
            CodeShare {
                generation,
                code,
                name: name.to_owned(),
                grade,
                meaning,
                share: Share::new(count, of),
            }
        })
        .collect();
    codes.sort_by_key(|code| (code.generation, std::cmp::Reverse(code.share.k), -code.code));
    codes
}

fn findings(cells: &[&CellResult]) -> Vec<FindingGroup> {
    let mut groups: BTreeMap<(bool, &str), (FindingGroup, u64)> = BTreeMap::new();
    for cell in cells {
        for finding in &cell.findings {
            let perturbed = finding.perturbed || cell.verdict == Verdict::Outside;
            let (group, most) = groups
                .entry((perturbed, &finding.signature))
                .or_insert_with(|| {
                    let group = FindingGroup {
                        signature: finding.signature.clone(),
                        title: finding.title.clone(),
                        perturbed,
                        count: 0,
                        cells: Vec::new(),
                        known: Vec::new(),
                        evidence: None,
                        registers: Vec::new(),
                        command: String::new(),
                    };
                    (group, 0)
                });
            group.count += finding.count;
            if group.cells.last() != Some(&cell.id) {
                group.cells.push(cell.id.clone());
            }
            for known in &finding.known {
                if !group.known.contains(known) {
                    group.known.push(known.clone());
                }
            }
            if group.registers.is_empty() {
                group.registers.clone_from(&finding.registers);
            }
            if group.evidence.is_none() {
                let file = finding.evidence.as_ref();
                group.evidence = file.map(|file| format!("cells/{}/{file}", cell.id));
            }
            if finding.count > *most {
                *most = finding.count;
                group.command.clone_from(&cell.command);
            }
        }
    }
    let mut groups: Vec<FindingGroup> = groups.into_values().map(|(group, _)| group).collect();
    groups.sort_by(|a, b| {
        let key = |group: &FindingGroup| {
            (
                group.perturbed,
                std::cmp::Reverse((group.cells.len(), group.count)),
            )
        };
        key(a)
            .cmp(&key(b))
            .then_with(|| a.signature.cmp(&b.signature))
    });
    groups
}

/// Cells that a reader should look at, the gravest first: failures, then doubts, then known issues.
pub(super) fn worst<'a>(cells: &[&'a CellResult]) -> Vec<&'a CellResult> {
    let mut worst: Vec<&CellResult> = cells
        .iter()
        .copied()
        .filter(|cell| {
            matches!(
                cell.verdict,
                Verdict::Fail | Verdict::Unknown | Verdict::Known
            )
        })
        .collect();
    let place = |verdict: Verdict| Verdict::ALL.iter().position(|&other| other == verdict);
    // Stable: equals stay in the order of the plan.
    worst.sort_by(|a, b| {
        let low = |cell: &CellResult| crashes(cell).interval().low;
        place(a.verdict)
            .cmp(&place(b.verdict))
            .then_with(|| low(b).total_cmp(&low(a)))
    });
    worst
}
