//! Reports of a stress run: the same results as a screen, as JSON, as JUnit XML and as one page of HTML; two runs beside each other,
//! many nights in a row, and shards put together.
//!
//! ```text
//! StressFacts, CellResults --Run--> terminal | Report (JSON) | junit | html
//! Run, Run -----------------------> Comparison
//! Run... --Night------------------> Trend
//! Part... --merge-----------------> StressFacts, CellResults
//! ```
//!
//! Contract: pure. Nothing here reads a file or a clock: the same results give the same bytes, in whichever order the cells ended.

mod axes;
mod compare;
mod compare_text;
mod comparison;
mod html;
mod json;
mod junit;
mod merge;
mod screen;
mod significance;
mod summary;
mod text;
mod trend;

use std::collections::HashMap;

use crate::cell::Cell;
use crate::result::CellResult;
use crate::store::StressFacts;

pub use compare::compare;
pub use comparison::{CodeChange, Comparison, FindingChange, RateChange, RunName, VerdictChange};
pub use html::html;
pub use json::{Report, RunHead, json};
pub use junit::junit;
pub use merge::{MergeError, Merged, Part, merge};
pub use screen::{Screen, terminal, wants_colour};
pub use summary::{CellCounts, CodeShare, FindingGroup, Samples, Summary, crashes};
pub use trend::{Night, NightLine, Point, Trend, TrendLine, trend};

/// What was planned and what came of it.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// What was planned.
    pub facts: &'a StressFacts,
    /// The finished cells, in any order; each at most once.
    pub cells: &'a [CellResult],
}

impl<'a> Run<'a> {
    /// The finished cells in the order of the plan; those that no plan names come last, by their names.
    #[must_use]
    pub fn in_order(&self) -> Vec<&'a CellResult> {
        let places: HashMap<&Cell, usize> = self.facts.plan.iter().zip(0..).collect();
        let mut cells: Vec<(usize, &CellResult)> = self
            .cells
            .iter()
            .map(|result| {
                let place = places.get(&result.cell);
                (place.copied().unwrap_or(usize::MAX), result)
            })
            .collect();
        cells.sort_by(|(a, one), (b, other)| a.cmp(b).then_with(|| one.id.cmp(&other.id)));
        cells.into_iter().map(|(_, result)| result).collect()
    }

    /// Planned cells that have no result.
    #[must_use]
    pub fn left(&self) -> Vec<&'a Cell> {
        let done: std::collections::HashSet<&Cell> =
            self.cells.iter().map(|result| &result.cell).collect();
        let plan = self.facts.plan.iter();
        plan.filter(|cell| !done.contains(cell)).collect()
    }
}
