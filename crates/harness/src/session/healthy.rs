//! Capsules of walks that succeed.

use std::path::Path;

use walkfuzz_capsule::capture::Keep;
use walkfuzz_capsule::{Capsule, Outcome};
use walkfuzz_engine::Request;

use crate::capsules::{self, Wanted};
use crate::error::HarnessError;

use super::Session;

impl Session {
    /// Keeps an untouched walk of a fresh moment in a file: at most `depth` frames, memory that it does not need as zeros if `minimise`. Returns
    /// what it came to.
    ///
    /// # Errors
    /// When no thread can be held any more, or why there is no capsule.
    pub fn capture_healthy(
        &mut self,
        depth: i32,
        minimise: bool,
        path: &Path,
    ) -> Result<Outcome, HarnessError> {
        let Self {
            engine,
            world,
            walker,
            hunt,
            ..
        } = self;
        let jvm = hunt.jvm_version().to_owned();
        let mut kept = Err("no moment was visited".to_owned());
        engine.visit(&Request::fresh(), &mut |moment| {
            let wanted = Wanted {
                registers: moment.untouched,
                depth,
                jvm: jvm.clone(),
                keep: Keep {
                    minimise,
                    ..Keep::default()
                },
            };
            let healthy = |outcome: &Outcome| match outcome {
                Outcome::Frames(frames) if frames.frames > 0 => Ok(()),
                other => Err(format!("an untouched walk does not succeed: {other}")),
            };
            kept = capsules::keep(moment, world, &**walker, &wanted, healthy, path);
        })?;
        kept.map_err(HarnessError::Capsule)?;
        Capsule::read(path)
            .map(|capsule| capsule.facts.expected)
            .map_err(|error| HarnessError::Capsule(error.to_string()))
    }
}
