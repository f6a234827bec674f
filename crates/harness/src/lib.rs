//! A fuzzing session: JVM, engine, recorder, triage and feedback behind one call per input.
//!
//! [`Session`] is what drivers use: libFuzzer's targets through [`libfuzzer_target!`], AFL's, benchmarks, tests. Everything
//! that happens to an input happens here, in this order: decode (`walkfuzz_context`), hold a thread (`walkfuzz_engine`),
//! perturb and walk under the guard (`walks`), tell the fuzzer (`feedback`), notice and examine findings (`hunt`, `examine`,
//! `minimise`), write them down (`assemble`).

pub mod asgst;
mod assemble;
pub mod blocks;
pub mod campaign;
pub mod capsules;
mod chosen;
pub mod classify;
pub mod compare_file;
pub mod compared;
pub mod contradicted;
mod counted;
mod describe;
mod error;
mod examine;
mod feedback;
pub mod frame_map;
mod hunt;
mod in_capsule;
pub mod interrupt;
pub mod libfuzzer;
mod meaning;
pub mod measure;
pub mod minimise;
pub mod minimise_file;
mod names;
mod natural_states;
mod needed;
pub mod one_core;
mod oom;
pub mod opinion;
pub mod oracle;
mod plugin;
mod progress;
pub mod queue_costs;
mod remote;
mod replay;
mod run;
mod same_crash;
mod session;
mod settings;
pub mod snapshots;
mod stack_frames;
pub mod stale;
pub mod start;
pub mod supervisor;
mod third_voice;
pub mod walks;
mod watch;
pub mod world;

pub use chosen::{WalkerChoice, is_at_hand, walkers_of};
pub use counted::Counts;
pub use error::HarnessError;
pub use replay::quoted;
pub use session::{
    ComparePlan, FrameCosts, InputVerdict, Mode, Session, Trial, TrialSite, Tried, WalkCosts,
};
pub use settings::{EngineKind, Settings, VARIABLES};
