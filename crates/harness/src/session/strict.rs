//! Strict runs: the first finding ends the process, so that libFuzzer can minimise and reproduce it.

use walkfuzz_context::Arch;

use crate::error::HarnessError;
use crate::same_crash::is_the_same;
use crate::walks::is_suspicious;

use super::{InputVerdict, Session};

impl Session {
    /// Runs each walk at many moments until one of them does what a maintainer should see, then aborts.
    pub(super) fn run_strictly(&mut self) -> Result<InputVerdict, HarnessError> {
        for attempt in 0..self.settings.attempts {
            self.visit(attempt > 0)?;
            let suspicious = self.report.walks().iter().enumerate();
            let found = suspicious
                .filter(|(_, walk)| is_suspicious(&walk.outcome))
                .find_map(|(index, walk)| {
                    let signature =
                        self.hunt
                            .signature(&self.world.modules, &*self.walker, &walk.outcome);
                    is_the_same(&signature.to_string()).then_some((index, signature))
                });
            if let Some((index, signature)) = found {
                let text = self
                    .batch
                    .walks()
                    .get(index)
                    .map_or_else(String::new, |walk| walk.display(Arch::NATIVE).to_string());
                self.flush();
                eprintln!(
                    "walkfuzz: {signature} after {} moments, walk {index}: {text}",
                    attempt + 1
                );
                eprintln!("DEDUP_TOKEN: {signature}");
                std::process::abort();
            }
            self.upkeep()?;
        }
        if self.settings.attempts > 1 {
            eprintln!(
                "walkfuzz: not reproduced at {} moments",
                self.settings.attempts
            );
        }
        Ok(InputVerdict::Keep)
    }
}
