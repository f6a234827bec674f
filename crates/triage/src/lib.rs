//! What a finding is: when two are the same, what to call one, whether it is a bug, and whether it is known.
//!
//! Also what became of a JVM, from its exit status and crash log. Contract: nothing here runs in a signal handler; nothing
//! here panics on what a crashed process left behind, however damaged.
#![forbid(unsafe_code)]

pub mod corpus;
pub mod crash_plan;
pub mod dedupe;
mod disagreement;
pub mod hs_err;
pub mod interval;
pub mod known_issues;
pub mod process;
pub mod shared_code;
pub mod signature;
pub mod verdict;
pub mod version;

pub use crash_plan::{CompilerMode, CrashPlan, WalkedFrom};
pub use dedupe::{Entry, Findings, Seen};
pub use hs_err::{Cause, CrashLog, Frame, FrameKind, WalkerCrash};
pub use interval::{Rate, share_text};
pub use known_issues::{KnownIssue, KnownIssues, Match, Query};
pub use process::{Blame, Death, Ended, Exit, blame, classify};
pub use shared_code::{Sharing, Walk, is_agct_alone, knows_release, shared_code, shared_functions};
pub use signature::{Kind, Signal, Signature, SignatureId};
pub use verdict::{Verdict, verdict};
pub use version::JdkVersion;
