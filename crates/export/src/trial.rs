//! What came of running an export.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;

use serde::Serialize;

use crate::error::ExportError;
use crate::folder::README;

/// Attempts of `run.sh`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Attempts {
    /// The JVM died in the finding's function.
    pub died: u64,
    /// It died elsewhere.
    pub elsewhere: u64,
    /// It did not die.
    pub no_crash: u64,
}

impl Attempts {
    /// From the script's last line; nothing if it did not come so far.
    #[must_use]
    pub fn parse(output: &str) -> Option<Self> {
        let line = output
            .lines()
            .rev()
            .find(|line| line.starts_with("died in "))?;
        let (rest, no_crash) = line.rsplit_once("; no crash: ")?;
        let (rest, elsewhere) = rest.rsplit_once("; elsewhere: ")?;
        let (_, counts) = rest.rsplit_once(": ")?;
        Some(Self {
            died: counts.split(' ').next()?.parse().ok()?,
            elsewhere: elsewhere.parse().ok()?,
            no_crash: no_crash.trim().parse().ok()?,
        })
    }

    /// From the lines of single attempts, where the script was ended before its last line.
    #[must_use]
    pub fn so_far(output: &str) -> Self {
        let mut attempts = Self {
            died: 0,
            elsewhere: 0,
            no_crash: 0,
        };
        for line in output.lines() {
            let Some((number, what)) = line
                .strip_prefix("attempt ")
                .and_then(|rest| rest.split_once(": "))
            else {
                continue;
            };
            if number.parse::<u64>().is_err() {
                continue;
            }
            if what.starts_with("no crash in ") {
                attempts.no_crash += 1;
            } else if what.starts_with("another crash, ") {
                attempts.elsewhere += 1;
            } else {
                attempts.died += 1;
            }
        }
        attempts
    }

    /// How many were made.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.died + self.elsewhere + self.no_crash
    }

    /// `ran 20 times, crashed there 3 of 20, elsewhere 1, not at all 16`.
    #[must_use]
    pub fn in_words(&self) -> String {
        format!(
            "ran {all} times, crashed there {} of {all}, elsewhere {}, not at all {}",
            self.died,
            self.elsewhere,
            self.no_crash,
            all = self.all()
        )
    }

    /// Adds what came of it to the README in `folder`; `jvm` is what it ran on.
    ///
    /// # Errors
    /// The README cannot be written.
    pub fn note(&self, folder: &Path, jvm: &str) -> Result<(), ExportError> {
        let path = folder.join(README);
        let written = OpenOptions::new()
            .append(true)
            .open(&path)
            .and_then(|mut file| writeln!(file, "\n## Tried\n\nOn {jvm}: {}.", self.in_words()));
        written.map_err(|source| ExportError::Write { path, source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_counts() {
        let output = "attempt 1: no crash in 3 seconds (exit code 0)\n\
            died in A::operator()(int): x: 2 of 5 attempts; elsewhere: 1; no crash: 2\n";
        let attempts = Attempts::parse(output).unwrap();
        let expected = Attempts {
            died: 2,
            elsewhere: 1,
            no_crash: 2,
        };
        assert_eq!(attempts, expected);
        assert_eq!(
            attempts.in_words(),
            "ran 5 times, crashed there 2 of 5, elsewhere 1, not at all 2"
        );
        let cut = "attempt 1: no crash in 3 seconds (exit code 0)\nattempt 2: f::g, build/hs_err_pid1.log\n# x\n\
            attempt 3: another crash, build/hs_err_pid2.log\nattempt x: no\n";
        let so_far = Attempts {
            died: 1,
            elsewhere: 1,
            no_crash: 1,
        };
        assert_eq!(Attempts::so_far(cut), so_far);
        for cut in [
            "",
            "died in f: 1 of 5 attempts",
            "died in f: x of 5 attempts; elsewhere: 1; no crash: 2",
        ] {
            assert_eq!(Attempts::parse(cut), None);
        }
    }
}
