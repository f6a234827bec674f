//! Snapshots: full capsules of healthy walks, and what is known of their JVM, so that walks from other registers can be made without it.
//!
//! A snapshot is two files: `NAME.wfcap`, a capsule that holds more than its own walk reads, and `NAME.scene.json`, the [`Scene`]: what
//! value classes resolve to, which code lies where, what the mappings were for. `Session::take_snapshots` writes them.

mod extent;
mod hits;
mod judge;
mod kind;
pub mod libfuzzer;
mod scene;
mod session;
mod set;
mod synthetic;

pub(crate) use extent::{extent, regions};
pub(crate) use kind::{GROUPS, WITHOUT_FRAMES, group, kind};
pub use scene::{CAPSULE, Place, Region, SCENE, Scene, Taken};
pub use session::{Effort, SnapshotSession};
pub(crate) use set::modules;
pub use set::start_again;
pub use synthetic::SyntheticEffort;
