//! Why the program ends early: one sentence for stderr, and an exit code.

use std::fmt;

use walkfuzz_harness::HarnessError;
use walkfuzz_jvm::JvmError;
use walkfuzz_record::StoreError;

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

    /// A silent end with this code.
    pub(crate) fn said(code: u8) -> Self {
        Self {
            code,
            message: String::new(),
        }
    }
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

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NotARun { .. } | StoreError::NoRun { .. } => Self::usage(error),
            error => Self::environment(error),
        }
    }
}
