//! The variants of a finding: on which JVMs its perturbation does the same again. `variants/<id>.json` of a run folder.
//!
//! The format is public: docs/record-schema.md. Contract: plain values; no I/O.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::interval::KOfN;

/// Cells of one finding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Variants {
    /// [`crate::SCHEMA`].
    pub schema: u32,
    /// The finding's id.
    pub finding: String,
    /// The finding's signature: what counts as "again".
    pub signature: String,
    /// What was walked, as text.
    pub perturbation: String,
    /// What the walked pc had to lie in, [`walkfuzz_context::BlobKind::name`]; anything if absent.
    pub kind: Option<String>,
    /// Where in it, [`walkfuzz_context::witness::OffsetClass::name`]; anywhere if absent.
    pub offset: Option<String>,
    /// Moments of that class that each cell should try.
    pub moments: u64,
    /// When it was made.
    pub made: Timestamp,
    /// The cells, JDK by JDK.
    pub cells: Vec<VariantCell>,
}

impl Variants {
    /// This grid with what an earlier one of the same finding knows better: cells that this one has not, or has tried less. A grid of another
    /// perturbation or class cannot be mixed in; the one with more moments stays.
    #[must_use]
    pub fn with_earlier(mut self, earlier: Self) -> Self {
        let about = |grid: &Self| {
            (
                grid.signature.clone(),
                grid.perturbation.clone(),
                grid.kind.clone(),
                grid.offset.clone(),
            )
        };
        if about(&self) != about(&earlier) {
            let moments = |grid: &Self| grid.cells.iter().map(|cell| cell.again.of).sum::<u64>();
            return if moments(&earlier) > moments(&self) {
                earlier
            } else {
                self
            };
        }
        self.moments = self.moments.max(earlier.moments);
        for old in earlier.cells {
            match self
                .cells
                .iter_mut()
                .find(|cell| cell.place() == old.place())
            {
                Some(cell) if old.worth() > cell.worth() => *cell = old,
                Some(_) => {}
                None => {
                    // Beside the JDK's others, as the cells are ordered.
                    let same = |cell: &VariantCell| {
                        (&cell.jdk, &cell.build_id) == (&old.jdk, &old.build_id)
                    };
                    let at = self.cells.iter().rposition(same);
                    self.cells
                        .insert(at.map_or(self.cells.len(), |at| at + 1), old);
                }
            }
        }
        self
    }
}

impl VariantCell {
    /// What makes two cells the same.
    fn place(&self) -> (&str, &str, &str, &str) {
        (&self.jdk, &self.build_id, &self.collector, &self.mode)
    }

    /// How much a cell says: more is kept.
    fn worth(&self) -> (u8, bool, u64) {
        let state = match self.state {
            CellState::Tried => 3,
            CellState::NotMet => 2,
            CellState::CouldNotRun => 1,
            CellState::NotRun => 0,
        };
        (state, self.again.k > 0, self.again.of)
    }
}

/// One JDK, collector and compiler mode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VariantCell {
    /// The JDK's version.
    pub jdk: String,
    /// libjvm's build id.
    pub build_id: String,
    /// The collector.
    pub collector: String,
    /// The compiler mode: `default`, `int`, `c1`, `c2`, `xcomp`.
    pub mode: String,
    /// What became of the cell.
    pub state: CellState,
    /// Why it is not `tried`, in words; or what else is to say.
    pub reason: Option<String>,
    /// Moments of the class at which it happened, of all moments of the class.
    pub again: KOfN,
    /// Repetitions in frozen copies of the first moment at which it happened.
    pub frozen: Option<KOfN>,
    /// Moments of other classes.
    pub others: u64,
    /// Untouched walks that succeeded.
    pub controls: KOfN,
    /// JVMs that died meanwhile.
    pub deaths: u64,
    /// Every outcome that a maintainer should see.
    pub sites: Vec<VariantSite>,
    /// How long it took.
    pub seconds: f64,
}

/// What became of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CellState {
    /// Walked at moments of the class: `again` says how often it happened.
    Tried,
    /// No moment of the class came up.
    NotMet,
    /// The JVM could not be started or walked.
    CouldNotRun,
    /// The budget was used up before.
    NotRun,
}

/// An outcome in a cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VariantSite {
    /// Its signature.
    pub signature: String,
    /// The faulting instruction.
    pub instruction: Option<String>,
    /// Moments at which it came.
    pub moments: u64,
    /// Whether it counts as "again".
    pub wanted: bool,
}
