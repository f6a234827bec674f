//! One fuzzing session in this process.

/// What the inputs of a session are run for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Recover from each finding, count it, keep its first input, go on.
    Survey,
    /// The first finding ends the process with an abort, so that minimising and reproducing work.
    Strict,
    /// Inputs are only measured for a smaller corpus: recover and keep nothing.
    Merge,
}

/// What libFuzzer should do with an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputVerdict {
    /// It may join the corpus.
    Keep,
    /// It must not join the corpus.
    Reject,
}

/// Why a session cannot start.
#[derive(Debug, thiserror::Error)]
pub enum HarnessError {}

/// A running session.
#[derive(Debug)]
pub struct Session {
    _mode: Mode,
}

impl Session {
    /// Starts a session; `arguments` are those of the process, its name first.
    ///
    /// # Errors
    /// What this machine lacks for a session.
    pub fn start(mode: Mode, _arguments: &[String]) -> Result<Self, HarnessError> {
        Ok(Self { _mode: mode })
    }

    /// Runs one input.
    pub fn run_input(&mut self, _data: &[u8]) -> InputVerdict {
        InputVerdict::Keep
    }

    /// The input as a text for people.
    pub fn describe(data: &[u8]) -> String {
        format!("{} bytes\n", data.len())
    }
}
