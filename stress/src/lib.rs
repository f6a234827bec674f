//! The stress matrix: real programs sampled over JDK x collector x flags x walker x mode x workload x antagonists x clock x
//! interval, a verdict for each cell, and a report.
//!
//! ```text
//! ci/NAME.toml --Profile--> Plan --run--> cells.jsonl --> report
//!                 filter ----^      |
//!                                   +--> cells/ID/: record, output, crash log
//! ```
//!
//! Contract: no code under test runs in this process; each cell is a JVM of its own, with the sampler in it. Not here: signal
//! handlers (`agents/sampler`), what a crash log says (triage), what a record holds (record).
#![forbid(unsafe_code)]

pub mod agents;
pub mod assess;
pub mod cell;
pub mod clock;
pub mod filter;
pub mod flags;
pub mod grade;
pub mod launch;
mod listen;
pub mod mark;
pub mod orphans;
pub mod plan;
pub mod process;
mod procfs;
pub mod profile;
pub mod programs;
pub mod recording;
pub mod report;
pub mod result;
pub mod run;
pub mod said;
pub mod store;
pub mod subjects;
mod suite;
mod torn;
pub mod verdict;

pub use cell::{Cell, Dimension};
pub use filter::{Filter, FilterError};
pub use plan::{Plan, Space, plan};
pub use profile::{Limits, Minimum, Profile, ProfileError};
pub use result::{CellResult, Verdict};
