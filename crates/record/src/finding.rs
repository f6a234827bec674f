//! A finding: an outcome that a maintainer should see, as one line of JSON.
//!
//! The format is public: docs/record-schema.md names each field's type, unit and stability, and a test compares. Enumerations that belong to
//! other crates (tier, engine, blob kind) are plain text here, so that old files stay readable.
//!
//! Contract: plain values; no I/O.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use walkfuzz_context::Registers;

use crate::contradiction::{ContradictionKind, KnownDifference};
use crate::facts::{JvmFacts, MachineFacts};
use crate::interval::{Interval, KOfN};
use crate::outcome::OutcomeKind;
use crate::recorder::WalkerInfo;
use crate::variants::CellState;

/// Version of the JSON formats; raised when a stable field changes its meaning or goes.
pub const SCHEMA: u32 = 1;

/// Whether a finding is the walker's fault or shows how much it bears.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FindingVerdict {
    /// T0, or T1-T3 with a witness.
    Bug,
    /// Every other context.
    Robustness,
    /// The walk's memory was edited, so that it says nothing of what a thread can be in: never counted with the others.
    Synthetic,
}

impl FindingVerdict {
    /// As in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            FindingVerdict::Bug => "bug",
            FindingVerdict::Robustness => "robustness",
            FindingVerdict::Synthetic => "synthetic",
        }
    }
}

/// How many untouched samples were in the finding's class, of how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WitnessCount {
    /// Samples in the class; 0 reads "never observed".
    pub observed: u64,
    /// All untouched samples.
    pub of: u64,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindingOutcome {
    /// The kind of outcome.
    pub kind: OutcomeKind,
    /// The signal's name, e.g. `SIGSEGV`, for faults and deaths.
    pub signal: Option<String>,
    /// `si_code` for faults, the walker's code for errors.
    pub code: Option<i32>,
    /// The name of `code` in the walker's generation (errors), or of `si_code` (faults).
    pub code_name: Option<String>,
    /// The address that was accessed, in hex.
    pub address: Option<String>,
    /// What more there is to say in words: the kind of breach, the abort's message, what the process did later.
    pub detail: Option<String>,
    /// Of wrong frames: where they part from another walker's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contradiction: Option<FindingContradiction>,
}

/// Where the walker's frames and those of another walker part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindingContradiction {
    /// The other walker.
    pub oracle: String,
    /// What is wrong.
    pub kind: ContradictionKind,
    /// Place of the first frame that differs, from 0.
    pub frame: u32,
    /// Why, where that is understood.
    pub known: Option<KnownDifference>,
    /// What the walker says from there on, at most [`MOST_SAID`] frames.
    pub given: Vec<JavaFrame>,
    /// What the other walker says.
    pub expected: Vec<JavaFrame>,
}

/// The walked registers: names to hex words.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FindingRegisters {
    /// The sample as the kernel delivered it.
    pub before: BTreeMap<String, String>,
    /// What the walker got.
    pub after: BTreeMap<String, String>,
    /// Names whose words differ, in the architecture's order.
    pub edited: Vec<String>,
    /// What program counter, stack pointer, frame pointer and the edited words of `after` are, as far as that was found out.
    #[serde(default)]
    pub meanings: BTreeMap<String, String>,
}

impl FindingRegisters {
    /// Of a sample and what was made of it.
    #[must_use]
    pub fn new(before: &Registers, after: &Registers) -> Self {
        let words = |registers: &Registers| {
            let names = registers.arch.register_names().iter();
            names
                .zip(registers.words)
                .map(|(name, word)| ((*name).to_owned(), hex(word)))
                .collect()
        };
        let pairs = before.words.iter().zip(&after.words);
        let edited = after.arch.register_names().iter().zip(pairs);
        Self {
            before: words(before),
            after: words(after),
            edited: edited
                .filter(|(_, (before, after))| before != after)
                .map(|(name, _)| (*name).to_owned())
                .collect(),
            meanings: BTreeMap::new(),
        }
    }
}

/// Where the fault happened.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FaultSite {
    /// The pc, in hex.
    pub pc: String,
    /// The instruction as text.
    pub instruction: Option<String>,
    /// The demangled function.
    pub function: Option<String>,
    /// The file name of the library or program, e.g. `libjvm.so`.
    pub module: Option<String>,
    /// Offset of the pc in the module's file, in hex.
    pub offset: Option<String>,
    /// The module's build id in hex.
    pub build_id: Option<String>,
    /// Native frames from the fault outwards.
    pub backtrace: Vec<String>,
    /// The registers at the fault, in the architecture's order; empty until the finding was examined, and for walks that write.
    #[serde(default)]
    pub registers: Vec<FaultRegister>,
    /// What the accessed address is.
    #[serde(default)]
    pub accessed: Option<String>,
}

/// A register at the fault.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FaultRegister {
    /// Its name.
    pub name: String,
    /// Its word, in hex.
    pub value: String,
    /// What that is.
    pub meaning: Option<String>,
}

/// A word of the process's memory that a walk from the finding's context may read.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MemoryWord {
    /// Where it lies, in hex.
    pub address: String,
    /// The word, in hex; absent where nothing can be read.
    pub value: Option<String>,
    /// What is kept at that place, e.g. `sp+0x18, return address of Work.spin(I)I`.
    pub place: String,
    /// What the word is.
    pub meaning: Option<String>,
}

/// A Java frame of the control walk.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct JavaFrame {
    /// Class, name and descriptor; its id in hex if they cannot be read.
    pub method: String,
    /// Bytecode index; -3 in a native method.
    pub bci: i32,
}

/// The most [`JavaFrame`]s that a finding keeps.
pub const MOST_FRAMES: usize = 32;
/// The most [`JavaFrame`]s of each walker that a contradiction keeps.
pub const MOST_SAID: usize = 8;
/// The most [`MemoryWord`]s that a finding keeps.
pub const MOST_WORDS: usize = 64;

/// What the thread was doing when it was held, and what its walk may read: seen in the frozen copy that examined the finding.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FindingMoment {
    /// Java frames of the control walk, the innermost first, at most [`MOST_FRAMES`].
    pub frames: Vec<JavaFrame>,
    /// How many the control walk gave; a code below 1 if it gave none, absent if it did something worse.
    pub frames_in_all: Option<i32>,
    /// The code that the thread was held in.
    pub code: FindingBlob,
    /// The instruction that the thread was held at.
    pub instruction: Option<String>,
    /// The instruction at the walked pc; absent where it cannot be read.
    pub walked_instruction: Option<String>,
    /// Memory around the context, by address, at most [`MOST_WORDS`].
    pub words: Vec<MemoryWord>,
    /// Memory that the outcome needs: words of data that the capsule could not do without, the most telling first, at most [`MOST_WORDS`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needed: Vec<MemoryWord>,
    /// How many there are.
    #[serde(default)]
    pub needed_in_all: u64,
}

/// The code that the walked pc lies in.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FindingBlob {
    /// [`walkfuzz_context::BlobKind::name`].
    pub kind: String,
    /// The blob's or method's name.
    pub name: Option<String>,
    /// Offset of the pc from the blob's code begin, in bytes.
    pub offset: Option<u64>,
    /// [`walkfuzz_context::witness::OffsetClass::name`]; absent in older files, and where nobody asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset_class: Option<String>,
}

/// The fuzzer's input for it.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FindingInput {
    /// The perturbation's text form.
    pub perturbation: String,
    /// The perturbation's bytes, in hex.
    pub bytes: String,
    /// The whole batch, relative to the run folder.
    pub artifact: Option<String>,
    /// SHA-256 of the artifact, in hex.
    pub artifact_sha256: Option<String>,
    /// Place of the walk in the batch.
    pub index: Option<u8>,
    /// Words of memory that were edited before the walk; none but in synthetic findings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory: Vec<MemoryChange>,
}

/// A word of a snapshot's memory that was edited before the walk.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MemoryChange {
    /// The edit's text form.
    pub edit: String,
    /// Where the word lies, in hex.
    pub address: String,
    /// What it was, in hex.
    pub before: String,
    /// What it became, in hex.
    pub after: String,
}

/// An issue of a tracker that a finding looks like.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct KnownMatch {
    /// Its name, e.g. `JDK-8313796`.
    pub id: String,
    /// What goes wrong, in a line.
    pub title: String,
    /// `affected`: this JVM's version is in the range. `not-affected`: outside of it. `unknown`: the issue names none.
    pub versions: String,
}

/// How often it happens again at other moments.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Portability {
    /// Moments at which it happened again.
    pub k: u64,
    /// Moments tried.
    pub of: u64,
    /// 95 % interval of the share.
    pub interval: Interval,
}

impl From<KOfN> for Portability {
    fn from(count: KOfN) -> Self {
        Self {
            k: count.k,
            of: count.of,
            interval: count.interval(),
        }
    }
}

/// How surely it can be made to happen.
#[derive(Clone, Copy, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct Reliability {
    /// Repetitions at the same moment, in frozen copies; absent until tried.
    pub frozen: Option<KOfN>,
    /// Repetitions at other moments; absent until tried.
    pub portability: Option<Portability>,
}

/// What came of a snapshot's finding in a running JVM of the same build, at other moments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LiveTry {
    /// `live` or `step`: what held the threads.
    pub engine: String,
    /// What the numbers mean.
    pub state: CellState,
    /// Why it could not be tried, or how the JVM died.
    pub reason: Option<String>,
    /// The JDK's version, and the JVM's collector.
    pub jdk: String,
    /// See `jdk`.
    pub collector: String,
    /// At how many moments of the finding's kind of code it happened; for none of n, the interval's upper end is the bound.
    pub again: Portability,
    /// Moments of other kinds of code, which do not count.
    pub others: u64,
    /// Untouched walks that succeeded, of those at the moments that count.
    pub controls: KOfN,
    /// JVMs that died of it.
    pub deaths: u64,
    /// The run in which tier and witness were found out, if it happened.
    pub run: Option<String>,
}

/// The walk in a file, which replays without a JVM: docs/capsules.md.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FindingCapsule {
    /// The file, relative to the run folder.
    pub path: Option<String>,
    /// Why there is none, if it was tried.
    pub problem: Option<String>,
}

/// One line of `findings.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// [`SCHEMA`].
    pub schema: u32,
    /// [`Finding::id_of`] the signature.
    pub id: String,
    /// What makes two findings the same.
    pub signature: String,
    /// The signature as a sentence.
    pub title: String,
    /// Bug or robustness.
    pub verdict: FindingVerdict,
    /// `T0` to `T4`.
    pub tier: String,
    /// How often its class was observed untouched.
    pub witness: WitnessCount,
    /// The code under test.
    pub walker: WalkerInfo,
    /// What happened.
    pub outcome: FindingOutcome,
    /// Registers before and after the edits.
    pub registers: FindingRegisters,
    /// Where it happened; absent for outcomes without a fault.
    pub site: Option<FaultSite>,
    /// What the walked pc lies in.
    pub blob: FindingBlob,
    /// What the thread was doing; absent until examined.
    #[serde(default)]
    pub moment: Option<FindingMoment>,
    /// The input.
    pub input: FindingInput,
    /// The walk in a file.
    #[serde(default)]
    pub capsule: FindingCapsule,
    /// `live`, `step`, `frozen` or `capsule`.
    pub engine: String,
    /// Which of the engine's threads was walked.
    pub thread: u32,
    /// How surely it happens again.
    pub reliability: Reliability,
    /// A snapshot's finding tried in a running JVM, by engine; empty until tried, and for what was found in one.
    #[serde(default)]
    pub live: Vec<LiveTry>,
    /// When it was first seen.
    pub first_seen: Timestamp,
    /// When it was last seen.
    pub last_seen: Timestamp,
    /// How many occurrences this line stands for; lines of one signature add up.
    pub count: u64,
    /// Whether a recovery came before it in the same process: it may be a consequence.
    pub tainted: bool,
    /// Issues that it looks like, the best match first.
    #[serde(default)]
    pub known: Vec<KnownMatch>,
    /// The JVM.
    pub jvm: JvmFacts,
    /// The machine.
    pub machine: MachineFacts,
    /// Commands to paste, the shortest first.
    pub commands: Vec<String>,
}

impl Finding {
    /// A short name for a signature: the first 12 hex digits of its SHA-256.
    #[must_use]
    pub fn id_of(signature: &str) -> String {
        let mut digits = hex_bytes(&Sha256::digest(signature));
        digits.truncate(12);
        digits
    }
}

/// A later sighting of a finding that the file already has: a short line of `findings.jsonl`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sighting {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The finding's id. That there is no `signature` tells a sighting from a finding.
    pub again: String,
    /// When it was last seen.
    pub last_seen: Timestamp,
    /// How many occurrences more.
    pub count: u64,
}

/// A word as findings write it: `0x` and hex digits without padding.
#[must_use]
pub fn hex(word: u64) -> String {
    format!("{word:#x}")
}

/// Bytes as findings write them: two hex digits each.
#[must_use]
pub fn hex_bytes(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
