//! Which walkers a session has: the code under test, and the oracle beside it.

use walkfuzz_record::Generation;
use walkfuzz_triage::Signature;
use walkfuzz_walkers::{Agct, Explainer, RemoteMode, Walker};

use crate::error::HarnessError;
use crate::oracle::Oracle;
use crate::world::World;

/// No oracle, in the environment.
pub(crate) const NO_ORACLE: &str = "none";

/// A walker that can be named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkerChoice {
    /// AsyncGetCallTrace, as the JVM exports it.
    Agct,
    /// walkfuzz's own walker over HotSpot's tables.
    Reference,
    /// AsyncGetCallTrace from another thread, of contexts as of threads that run on.
    RemoteRunning,
}

impl WalkerChoice {
    /// All, the default first.
    pub const ALL: [WalkerChoice; 3] = [
        WalkerChoice::Agct,
        WalkerChoice::Reference,
        WalkerChoice::RemoteRunning,
    ];

    /// As the environment, records and findings say it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            WalkerChoice::Agct => "agct",
            WalkerChoice::Reference => "reference",
            WalkerChoice::RemoteRunning => RemoteMode::Running.name(),
        }
    }

    /// The walker of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|walker| walker.name() == name)
    }

    /// The names, for people.
    #[must_use]
    pub fn names() -> String {
        Self::ALL.map(Self::name).join(" or ")
    }

    /// Whose codes it speaks.
    #[must_use]
    pub const fn generation(self) -> Generation {
        match self {
            WalkerChoice::Agct | WalkerChoice::RemoteRunning => Generation::Agct,
            WalkerChoice::Reference => Generation::Reference,
        }
    }

    /// Makes it, for the JVM of this process. `agct` is the JVM's own.
    ///
    /// # Errors
    /// What the JVM's tables lack for it, by name.
    pub fn make(self, agct: Agct, world: &World) -> Result<Box<dyn Walker>, HarnessError> {
        Ok(match self {
            WalkerChoice::Agct => Box::new(agct),
            WalkerChoice::Reference => Box::new(world.reference()?),
            WalkerChoice::RemoteRunning => {
                return Err(HarnessError::Variable {
                    name: "WALKFUZZ_WALKER",
                    value: self.name().to_owned(),
                    wanted: "a walker that walks its own thread: there is no other one here"
                        .to_owned(),
                });
            }
        })
    }
}

/// The variables that make a session walk with what a signature speaks of. Nothing for a walker that has no name here.
#[must_use]
pub fn walkers_of(signature: &str) -> Vec<(&'static str, String)> {
    let signature = signature.parse::<Signature>().ok();
    let walker = signature
        .as_ref()
        .and_then(|signature| WalkerChoice::from_name(&signature.walker));
    let Some((signature, walker)) = signature.as_ref().zip(walker) else {
        return Vec::new();
    };
    let oracle = signature.oracle().and_then(WalkerChoice::from_name);
    let oracle = oracle.map_or(NO_ORACLE, WalkerChoice::name);
    vec![
        ("WALKFUZZ_WALKER", walker.name().to_owned()),
        ("WALKFUZZ_ORACLE", oracle.to_owned()),
    ]
}

/// A walker as an oracle.
///
/// # Errors
/// What the JVM's tables lack for it, by name.
pub(crate) fn oracle(
    choice: WalkerChoice,
    agct: Agct,
    world: &World,
) -> Result<Oracle, HarnessError> {
    // Without it the differences have no names; whatever walks, the reference can say what is known.
    let explainer = world.reference().ok().and_then(|walker| walker.reference());
    let walker = choice.make(agct, world)?;
    Ok(Oracle::new(walker, explainer.map(Explainer::new)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_says_who_walks_and_who_judges() {
        let set = |signature: &str| {
            walkers_of(signature)
                .into_iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect::<Vec<_>>()
                .join(" ")
        };
        let wrong = "wrong-frames|other bci at frame 0|agct|a return address taken for an instruction, reference disagrees";
        assert_eq!(set(wrong), "WALKFUZZ_WALKER=agct WALKFUZZ_ORACLE=reference");
        assert_eq!(
            set("wrong-frames|missing frame at frame 0|reference|agct disagrees"),
            "WALKFUZZ_WALKER=reference WALKFUZZ_ORACLE=agct"
        );
        assert_eq!(
            set("SIGSEGV|frame::sender|agct"),
            "WALKFUZZ_WALKER=agct WALKFUZZ_ORACLE=none"
        );
        assert_eq!(set("SIGSEGV|frame::sender|planted"), "");
        assert_eq!(set("no signature"), "");
    }
}
