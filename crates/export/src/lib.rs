//! Stand-alone reproducers: a finding as four files that need neither walkfuzz nor a guard, only `cc` and `javac`.
//!
//! ```text
//! agent.c       a JVMTI agent: walks Java threads from their SIGPROF handler, with the finding's edits
//! Walked.java   threads to walk
//! run.sh        builds both, runs them until the JVM dies, says whether it died in the finding's function
//! README.md     what it is and what to expect
//! ```
//!
//! Of the agent's template only what the finding's edits need is written: a maintainer of the JVM is to read it in one go.
//!
//! A finding says what its walk was given by value classes, never by addresses. The agent resolves them at its own moments: the
//! finding's own numbers first, then their neighbours, and walks only where pc lies in the kind of code that the finding names.
//!
//! Contract: pure, but for [`Export::write`] and [`Attempts::note`].
#![forbid(unsafe_code)]

mod agent;
mod doubts;
mod error;
mod folder;
mod plan;
mod template;
mod trial;

pub use error::ExportError;
pub use folder::{AGENT, Export, FILES, README, SCRIPT, WORKLOAD};
pub use plan::Plan;
pub use trial::Attempts;
