//! The mapped recorder, outcomes, histograms, findings and their schema.
pub mod buckets;
pub mod codes;
pub mod error;
pub mod lane;
pub mod lane_record;
pub mod layout;
mod mapped;
pub mod outcome;
pub mod reader;
pub mod recorder;
pub mod tally;

pub use codes::{Code, Generation, code_name};
pub use error::{RecordError, StoreError};
pub use lane::{Counter, Lane, WalkerId};
pub use lane_record::{InputRecord, LaneRecord, OpenWalk, PastWalk};
pub use outcome::{Breach, FaultRecord, OutcomeKind, ProcessOutcome, WalkOutcome};
pub use reader::{Damage, Record, RecordReader};
pub use recorder::{Options, Recorder, WalkerInfo};
pub use tally::Tally;
