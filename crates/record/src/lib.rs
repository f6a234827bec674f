//! What walks leave behind: the mapped recorder that handlers write, outcomes and codes, findings, run folders and their summary.
//!
//! ```text
//! handlers --Lane--> record-<pid>.map --RecordReader--> Totals \
//! driver ---------> findings.jsonl ----fold_lines-----> Folded  } Summary --> text, JSON
//! driver ---------> run.json, processes.jsonl ----------------/
//! ```
//!
//! The user's duties: one writer per [`Lane`] at a time; nobody truncates a record that is being written; ticks are of the
//! unit that [`Options::tick_hz`] says. Not here: what makes two findings the same (triage), what a tier is (context).
//! The formats are public: docs/record-schema.md.

pub mod buckets;
pub mod code_names;
pub mod codes;
pub mod contradiction;
pub mod error;
pub mod facts;
pub mod finding;
pub mod fold;
pub mod histograms;
pub mod interval;
pub mod lane;
pub mod lane_record;
pub mod layout;
pub mod machine;
mod mapped;
pub mod outcome;
pub mod patched;
pub mod reader;
pub mod recorder;
pub mod render;
pub mod store;
pub mod summarise;
pub mod summary;
pub mod tally;
pub mod totals;
pub mod variants;

pub use codes::{Code, Generation, RETURNED, code_name};
pub use contradiction::{Contradiction, ContradictionKind, KnownDifference, SaidFrame};
pub use error::{RecordError, StoreError};
pub use facts::{JvmFacts, MachineFacts, ProcessEnd, RunFacts};
pub use finding::{Finding, FindingVerdict, KnownMatch, SCHEMA, Sighting, WitnessCount};
pub use fold::{Folded, fold_lines};
pub use interval::{Interval, KOfN};
pub use lane::{Counter, Lane, WalkerId};
pub use lane_record::{FaultPlace, InputRecord, LaneRecord, OpenWalk, PastWalk};
pub use outcome::{Breach, FaultRecord, OutcomeKind, ProcessOutcome, WalkOutcome};
pub use reader::{Damage, Record, RecordReader};
pub use recorder::{Options, Recorder, WalkerInfo};
pub use store::{RunFolder, append_line, read_file};
pub use summary::{Summary, Verdict};
pub use tally::Tally;
pub use totals::Totals;
pub use variants::{CellState, VariantCell, VariantSite, Variants};
