//! Where else a finding was tried: one line of `variants.jsonl` for each JVM.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::facts::JvmFacts;
use crate::interval::KOfN;

/// A finding's perturbation, tried on one JVM.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Variant {
    /// [`crate::SCHEMA`].
    pub schema: u32,
    /// The finding's id.
    pub finding: String,
    /// The JVM that it was tried on.
    pub jvm: JvmFacts,
    /// How the JVM compiled: `default`, `interpreted`, `c1`, `c2`.
    pub mode: String,
    /// `live`, `step`, `frozen` or `capsule`.
    pub engine: String,
    /// How often the same signature came, of how many moments.
    pub reproduced: KOfN,
    /// When it was tried.
    pub at: Timestamp,
}
