//! Why the program ends early: one sentence for stderr, and an exit code.

use std::fmt;

use serde::Serialize;
use walkfuzz_harness::HarnessError;
use walkfuzz_jvm::JvmError;
use walkfuzz_record::StoreError;
use walkfuzz_stress::agents::AgentError;

pub(crate) const FINDINGS: u8 = 1;
pub(crate) const USAGE: u8 = 2;
pub(crate) const ENVIRONMENT: u8 = 3;
pub(crate) const UNKNOWN: u8 = 4;
pub(crate) const INTERRUPTED: u8 = 130;

/// An exit code and what to say; nothing to say if it was said already.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self {
            code: USAGE,
            message: message.to_string(),
        }
    }

    pub(crate) fn environment(message: impl fmt::Display) -> Self {
        Self {
            code: ENVIRONMENT,
            message: message.to_string(),
        }
    }

    /// What `--json` prints where there is nothing else to say.
    pub(crate) fn answer(&self) -> FailureAnswer<'_> {
        FailureAnswer {
            verdict: match self.code {
                UNKNOWN => "unknown",
                INTERRUPTED => "interrupted",
                _ => "error",
            },
            error: match &*self.message {
                "" => "the reason stands on stderr",
                message => message,
            },
            exit_code: self.code,
        }
    }

    /// A silent end with this code.
    pub(crate) fn said(code: u8) -> Self {
        Self {
            code,
            message: String::new(),
        }
    }
}

/// A failure as JSON.
#[derive(Debug, Serialize)]
pub(crate) struct FailureAnswer<'a> {
    /// `error`, `unknown`, `interrupted`.
    verdict: &'static str,
    /// The sentence that stands on stderr.
    error: &'a str,
    exit_code: u8,
}

impl From<JvmError> for Failure {
    fn from(error: JvmError) -> Self {
        match error {
            JvmError::BadSetting { .. } | JvmError::NotInCatalogue { .. } => Self::usage(error),
            _ => Self::environment(error),
        }
    }
}

impl From<HarnessError> for Failure {
    fn from(error: HarnessError) -> Self {
        match error {
            HarnessError::Jvm(error) => error.into(),
            error if error.exit_code() == i32::from(USAGE) => Self::usage(error),
            error => Self::environment(error),
        }
    }
}

impl From<AgentError> for Failure {
    fn from(error: AgentError) -> Self {
        match error {
            AgentError::NoFile { .. } => Self::usage(error),
            error => Self::environment(error),
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NotARun { .. } | StoreError::NoRun { .. } => Self::usage(error),
            error => Self::environment(error),
        }
    }
}
