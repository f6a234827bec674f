//! Which walkers a session has: the code under test, and the oracle beside it.

use walkfuzz_record::Generation;
use walkfuzz_triage::Signature;
use walkfuzz_walkers::{Explainer, PluginPath, RemoteMode, Walker};

use crate::error::HarnessError;
use crate::oracle::Oracle;
use crate::plugin;
use crate::start::Subject;

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
    /// The walker of a library.
    Plugin(&'static PluginPath),
}

impl WalkerChoice {
    /// Those of walkfuzz's own, the default first.
    pub const ALL: [WalkerChoice; 3] = [
        WalkerChoice::Agct,
        WalkerChoice::Reference,
        WalkerChoice::RemoteRunning,
    ];

    /// As the environment, records and findings say it; a library's walker has a name of its own once it is loaded.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            WalkerChoice::Agct => "agct",
            WalkerChoice::Reference => "reference",
            WalkerChoice::Plugin(_) => "plugin",
            WalkerChoice::RemoteRunning => RemoteMode::Running.name(),
        }
    }

    /// The walker of that name, or of the library at that path, which has a `/` in it.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let named = Self::ALL.into_iter().find(|walker| walker.name() == name);
        named.or_else(|| {
            let path = name.strip_prefix(PluginPath::PREFIX).unwrap_or(name);
            let path: PluginPath = path.parse().ok().filter(|_| path.contains('/'))?;
            Some(WalkerChoice::Plugin(Box::leak(Box::new(path))))
        })
    }

    /// The names, for people.
    #[must_use]
    pub fn names() -> String {
        let own = Self::ALL.map(Self::name).join(", ");
        format!("{own} or a library, PATH/LIB.so or PATH/LIB.so@sha256:HEX")
    }

    /// Whose codes it speaks.
    #[must_use]
    pub const fn generation(self) -> Generation {
        match self {
            WalkerChoice::Agct | WalkerChoice::RemoteRunning => Generation::Agct,
            WalkerChoice::Reference => Generation::Reference,
            WalkerChoice::Plugin(_) => Generation::Plugin,
        }
    }

    /// Makes it, for the JVM of this process.
    ///
    /// # Errors
    /// What the JVM's tables lack for it, by name, or why a library is refused.
    pub(crate) fn make(self, subject: &Subject) -> Result<Box<dyn Walker>, HarnessError> {
        Ok(match self {
            WalkerChoice::Agct => Box::new(subject.agct),
            WalkerChoice::Reference => Box::new(subject.world.reference()?),
            WalkerChoice::Plugin(path) => {
                Box::new(plugin::load(path, &subject.jvm, &subject.world)?)
            }
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

/// What must be set before somebody walks again with the walker of that name, if anything must: a library is not found by its walker's name.
///
/// # Errors
/// The sentence that says so.
pub fn is_at_hand(walker: &str) -> Result<(), String> {
    let set = std::env::var("WALKFUZZ_WALKER").unwrap_or_default();
    let library = matches!(WalkerChoice::from_name(&set), Some(WalkerChoice::Plugin(_)));
    if library || WalkerChoice::from_name(walker).is_some() {
        return Ok(());
    }
    Err(format!(
        "it was found with the walker {walker}, which is none of walkfuzz's own: set WALKFUZZ_WALKER to the path of its library"
    ))
}

/// A walker as an oracle.
///
/// # Errors
/// What the JVM's tables lack for it, by name.
pub(crate) fn oracle(choice: WalkerChoice, subject: &Subject) -> Result<Oracle, HarnessError> {
    // Without it the differences have no names; whatever walks, the reference can say what is known.
    let explainer = subject
        .world
        .reference()
        .ok()
        .and_then(|walker| walker.reference());
    let walker = choice.make(subject)?;
    Ok(Oracle::new(walker, explainer.map(Explainer::new)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_a_path_and_not_the_name_of_its_walker() {
        let pin = "ab".repeat(32);
        for text in [
            "/a/lib.so",
            "./lib.so",
            "plugin:/a/lib.so",
            &format!("/a/lib.so@sha256:{pin}"),
        ] {
            let chosen = WalkerChoice::from_name(text);
            assert!(matches!(chosen, Some(WalkerChoice::Plugin(_))), "{text}");
        }
        for text in ["lib.so", "plugin:", "plugin:lib.so", "/a/lib.so@sha256:12"] {
            assert_eq!(WalkerChoice::from_name(text), None, "{text}");
        }
        assert_eq!(is_at_hand("agct"), Ok(()));
        let said = is_at_hand("mine").unwrap_err();
        assert!(
            said.contains("the walker mine") && said.contains("WALKFUZZ_WALKER"),
            "{said}"
        );
    }

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
