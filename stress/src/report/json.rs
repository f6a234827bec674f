//! A run as JSON: facts, summary, what did not run, and every cell as in `cells.jsonl`.
//!
//! The format is public: docs/stress-schema.md, and a test compares. Contract: values that serialise; who writes them to a file need not hold
//! them as text.

use jiff::Timestamp;
use serde::Serialize;
use walkfuzz_record::MachineFacts;

use super::Run;
use super::summary::Summary;
use crate::cell::Cell;
use crate::result::{CellResult, SCHEMA};

/// What a report says of the run as such.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct RunHead<'a> {
    /// Version of walkfuzz.
    pub walkfuzz: &'a str,
    /// The command as the user gave it, word by word.
    pub command: &'a [String],
    /// Name of the profile.
    pub profile: &'a str,
    /// The plan's seed.
    pub seed: u64,
    /// `K/N`; absent for the whole plan.
    pub shard: Option<&'a str>,
    /// When the run began.
    pub started: Timestamp,
    /// When it ended in good order.
    pub finished: Option<Timestamp>,
    /// The machine.
    pub machine: &'a MachineFacts,
    /// All points of the matrix.
    pub points: u64,
    /// Pairs of values that the plan's cells have, and how many there are to have.
    pub pairs: (u64, u64),
    /// Why points were left out, and how many.
    pub impossible: &'a [(String, u64)],
}

/// `walkfuzz report --json` of a stress run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Report<'a> {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The run as such.
    pub run: RunHead<'a>,
    /// What it amounts to.
    pub summary: Summary,
    /// Planned cells without a result.
    pub left: Vec<&'a Cell>,
    /// The finished cells, in the order of the plan.
    pub cells: Vec<&'a CellResult>,
}

/// A run as a value to be serialised.
#[must_use]
pub fn json(run: Run<'_>) -> Report<'_> {
    let facts = run.facts;
    Report {
        schema: SCHEMA,
        run: RunHead {
            walkfuzz: &facts.walkfuzz,
            command: &facts.command,
            profile: &facts.profile,
            seed: facts.seed,
            shard: facts.shard.as_deref(),
            started: facts.started,
            finished: facts.finished,
            machine: &facts.machine,
            points: facts.points,
            pairs: facts.pairs,
            impossible: &facts.impossible,
        },
        summary: Summary::of(run),
        left: run.left(),
        cells: run.in_order(),
    }
}
