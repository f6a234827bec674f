//! What a comparison of two runs says.
//!
//! Contract: plain serialisable values, documented in docs/stress-schema.md.

use jiff::Timestamp;
use serde::Serialize;
use walkfuzz_record::Generation;
use walkfuzz_record::summary::Share;

use crate::result::Verdict;

/// Which run it is.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct RunName {
    /// Name of the profile.
    pub profile: String,
    /// When it began.
    pub started: Timestamp,
    /// Version of walkfuzz.
    pub walkfuzz: String,
    /// Finished cells.
    pub cells: u64,
}

/// A cell whose verdict changed.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct VerdictChange {
    /// [`crate::CellResult::id`].
    pub id: String,
    /// The cell in words.
    pub cell: String,
    /// The verdict before.
    pub before: Verdict,
    /// The verdict after.
    pub after: Verdict,
    /// The reason of the later one.
    pub reason: String,
    /// The command that runs the cell.
    pub command: String,
}

/// A crash rate, before and after.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct RateChange {
    /// What is counted: `all`, `jdk=17.0.15`, or a cell's id.
    pub scope: String,
    /// Crashes of walks, before.
    pub before: Share,
    /// Crashes of walks, after.
    pub after: Share,
    /// How likely such a difference is by chance.
    pub chance: f64,
    /// The same, adjusted for how many rates were compared.
    pub adjusted: f64,
    /// Whether it is more than chance.
    pub significant: bool,
}

/// A code's share of the walks, before and after.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct CodeChange {
    /// What is counted: `all`, `jdk=17.0.15`, or a cell's id.
    pub scope: String,
    /// Whose code it is.
    pub generation: Generation,
    /// The code.
    pub code: i32,
    /// Its name.
    pub name: String,
    /// Walks with that code, before.
    pub before: Share,
    /// Walks with that code, after.
    pub after: Share,
    /// Cells in which its share rose.
    pub rose: u64,
    /// Cells in which its share fell.
    pub fell: u64,
    /// How likely such a difference is by chance: for a cell that of the shares, for many cells that of `rose` against `fell`.
    pub chance: f64,
    /// The same, adjusted for how many shares were compared.
    pub adjusted: f64,
    /// Whether it is more than chance, and large enough to matter.
    pub significant: bool,
}

/// A finding that only one of the runs has, in cells that both have.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct FindingChange {
    /// Its signature.
    pub signature: String,
    /// The signature as a sentence.
    pub title: String,
    /// How often it came up in the run that has it.
    pub count: u64,
    /// In how many cells.
    pub cells: u64,
    /// How likely the other run does not have it by chance alone, given the walks of these cells.
    pub chance: f64,
    /// The command that runs the first of the cells.
    pub command: String,
}

/// `walkfuzz report --compare`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Comparison {
    /// Version of the schema.
    pub schema: u32,
    /// The one run.
    pub before: RunName,
    /// The other.
    pub after: RunName,
    /// Why differences may not be the walker's.
    pub cautions: Vec<String>,
    /// Cells that both have.
    pub matched: u64,
    /// Ids of cells that only the one has.
    pub only_before: Vec<String>,
    /// Ids of cells that only the other has.
    pub only_after: Vec<String>,
    /// Cells whose verdict changed, turns for the worse first.
    pub verdicts: Vec<VerdictChange>,
    /// Crash rates: of all matched cells, of each value on some axes, and of cells where it changed significantly.
    pub rates: Vec<RateChange>,
    /// Rates that were compared: those with any crash.
    pub rates_compared: u64,
    /// Code shares: of all matched cells, of each JDK, and of cells where it changed significantly.
    pub codes: Vec<CodeChange>,
    /// Shares that were compared.
    pub codes_compared: u64,
    /// Findings of the other run alone.
    pub appeared: Vec<FindingChange>,
    /// Findings of the one run alone.
    pub gone: Vec<FindingChange>,
}
