//! Facts about the machine, the JVM and the run that findings and runs carry.
//!
//! Contract: plain serialisable values. docs/record-schema.md describes each field; a test compares.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::outcome::ProcessOutcome;
use crate::recorder::WalkerInfo;

/// The JVM that the walker walked.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct JvmFacts {
    /// `java.vm.version`, e.g. `17.0.15+6-Debian-1deb12u1`.
    pub version: String,
    /// `java.vendor`.
    pub vendor: String,
    /// libjvm's build id in hex.
    pub build_id: String,
    /// The collector in use, e.g. `g1`.
    pub collector: String,
    /// Options given to the JVM, in order.
    pub options: Vec<String>,
}

/// The machine.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MachineFacts {
    /// `x86_64` or `aarch64`.
    pub arch: String,
    /// The kernel's release.
    pub kernel: String,
    /// CPUs that the process may use.
    pub cpus: u32,
    /// Whether an emulator (qemu-user) runs the code: its timing means nothing.
    pub emulated: bool,
}

/// `run.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunFacts {
    /// [`crate::SCHEMA`].
    pub schema: u32,
    /// Version of walkfuzz.
    pub walkfuzz: String,
    /// What drove the run: `fuzz`, `stress`, `repro`.
    pub driver: String,
    /// The command as the user gave it, word by word.
    pub command: Vec<String>,
    /// The seed, where there is one.
    pub seed: Option<u64>,
    /// When the run began.
    pub started: Timestamp,
    /// When it ended in good order; absent while it runs, and for ever if it was killed.
    pub finished: Option<Timestamp>,
    /// The walkers.
    pub walkers: Vec<WalkerInfo>,
    /// What a plug-in calls its codes; those of other walkers have their names from their generation.
    #[serde(default)]
    pub code_names: BTreeMap<i32, String>,
    /// The walker that judged their frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oracle: Option<String>,
    /// The JVM.
    pub jvm: JvmFacts,
    /// The machine.
    pub machine: MachineFacts,
}

/// A line of `processes.jsonl`: what became of a JVM process of the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessEnd {
    /// [`crate::SCHEMA`].
    pub schema: u32,
    /// The process.
    pub pid: u32,
    /// When it ended.
    pub at: Timestamp,
    /// What became of it.
    pub outcome: ProcessOutcome,
    /// Exit code, if it exited.
    pub exit_code: Option<i32>,
    /// Signal, if one ended it.
    pub signal: Option<i32>,
    /// What its record says was open: [`crate::Record::in_flight`].
    pub in_flight: Vec<String>,
    /// Its crash log in the run folder.
    pub crash_log: Option<String>,
}
