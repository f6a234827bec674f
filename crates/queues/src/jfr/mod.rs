//! JFR's queue of samples by CPU time in JDK 25: elements edited in a JVM of its own, one input after the other.
//!
//! ```text
//! libFuzzer --input--> Target --edits--> Feed (a file) --> interposer in the JVM --> element of the queue --> the JVM walks it
//! ```
//!
//! Nothing guards the JVM's walk, so that it dies of some elements. A `Round` is one JVM; the [`Target`] starts the next, finds out which of
//! the last edits it was, and tries them again alone.

mod feed;
mod round;
mod stage;
mod target;

pub use target::{Outcome, Target};
