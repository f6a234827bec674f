//! The mapped recorder, outcomes, histograms, findings and their schema.
pub mod buckets;
pub mod codes;
pub mod error;
pub mod lane;
pub mod layout;
mod mapped;
pub mod outcome;
pub mod recorder;

pub use codes::{Code, Generation, code_name};
pub use error::{RecordError, StoreError};
pub use lane::{Counter, Lane, WalkerId};
pub use outcome::{Breach, FaultRecord, OutcomeKind, ProcessOutcome, WalkOutcome};
pub use recorder::{Options, Recorder, WalkerInfo};
