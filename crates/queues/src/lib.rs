//! What the fuzz targets of queues do: inputs, oracles, findings. The targets themselves are glue.
//!
//! - [`jfr`]: JFR's queue of samples by CPU time, in a stock JVM of its own.
//!
//! - [`elements`]: the target `queue_elements`, and which queue it takes.
//!
//! Contract: not for handlers, but where a module says so.

pub mod elements;
mod end;
mod error;
mod finding;
pub mod jfr;

pub use error::QueueError;
pub use finding::QueueFinding;
