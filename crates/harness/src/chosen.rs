//! Which walkers a session has: the code under test, and the oracle beside it.

use walkfuzz_asgst::FrameWalk;
use walkfuzz_record::Generation;
use walkfuzz_triage::Signature;
use walkfuzz_walkers::{
    Explainer, FromFrame, Library, Methods, PluginPath, RemoteMode, RequestStackTrace, Walker,
    frame_name,
};

use crate::asgst;
use crate::error::HarnessError;
use crate::oracle::Oracle;
use crate::plugin;
use crate::start::Subject;

/// No oracle, in the environment.
pub(crate) const NO_ORACLE: &str = "none";

/// Chooses the code under test.
pub(crate) const WALKER: &str = "WALKFUZZ_WALKER";

/// Before the path of a library whose walker is to walk from sp, fp and pc.
const FROM_FRAME: &str = "frame:";

/// Chooses who judges it.
const ORACLE: &str = "WALKFUZZ_ORACLE";

/// A walker that can be named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkerChoice {
    /// AsyncGetCallTrace, as the JVM exports it.
    Agct,
    /// walkfuzz's own walker over HotSpot's tables.
    Reference,
    /// AsyncGetCallTrace from another thread.
    Remote(RemoteMode),
    /// JVMTI's extension function RequestStackTrace.
    Request,
    /// ASGST, from sp, fp and pc: the JVM's own where it exports it, else walkfuzz's.
    Frame(FrameWalk),
    /// The walker of a library.
    Plugin(&'static PluginPath),
    /// The walker of a library, from sp, fp and pc.
    PluginFrame(&'static PluginPath),
}

impl WalkerChoice {
    /// Those of walkfuzz's own, the default first.
    pub const ALL: [WalkerChoice; 8] = [
        WalkerChoice::Agct,
        WalkerChoice::Reference,
        WalkerChoice::Remote(RemoteMode::Env),
        WalkerChoice::Remote(RemoteMode::Tid),
        WalkerChoice::Remote(RemoteMode::Running),
        WalkerChoice::Request,
        WalkerChoice::Frame(FrameWalk::Iterator),
        WalkerChoice::Frame(FrameWalk::Minimal),
    ];

    /// As the environment, records and findings say it; a library's walker has a name of its own once it is loaded.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            WalkerChoice::Agct => "agct",
            WalkerChoice::Reference => "reference",
            WalkerChoice::Plugin(_) => "plugin",
            WalkerChoice::PluginFrame(_) => "plugin-frame",
            WalkerChoice::Frame(walk) => walk.name(),
            WalkerChoice::Remote(mode) => mode.name(),
            WalkerChoice::Request => RequestStackTrace::NAME,
        }
    }

    /// As the environment takes it.
    #[must_use]
    pub fn setting(self) -> String {
        match self {
            WalkerChoice::Plugin(path) => path.to_string(),
            WalkerChoice::PluginFrame(path) => format!("{FROM_FRAME}{path}"),
            own => own.name().to_owned(),
        }
    }

    /// The walker of that name, or of the library at that path, which has a `/` in it.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let named = Self::ALL.into_iter().find(|walker| walker.name() == name);
        named.or_else(|| {
            let (name, from_frame) = match name.strip_prefix(FROM_FRAME) {
                Some(path) => (path, true),
                None => (name, false),
            };
            let path = name.strip_prefix(PluginPath::PREFIX).unwrap_or(name);
            let path: PluginPath = path.parse().ok().filter(|_| path.contains('/'))?;
            let path: &'static PluginPath = Box::leak(Box::new(path));
            Some(match from_frame {
                true => WalkerChoice::PluginFrame(path),
                false => WalkerChoice::Plugin(path),
            })
        })
    }

    /// The names, for people.
    #[must_use]
    pub fn names() -> String {
        names_of(|_| true)
    }

    /// The names of those that can judge another one, for people.
    #[must_use]
    pub fn judges() -> String {
        names_of(Self::can_judge)
    }

    /// Whether its frames can be held against another's: it has some, and walks the thread that it is called on.
    #[must_use]
    pub fn can_judge(self) -> bool {
        matches!(
            self,
            WalkerChoice::Agct | WalkerChoice::Reference | WalkerChoice::Plugin(_)
        )
    }

    /// Whose codes it speaks.
    #[must_use]
    pub const fn generation(self) -> Generation {
        match self {
            WalkerChoice::Agct | WalkerChoice::Remote(_) => Generation::Agct,
            WalkerChoice::Request => Generation::RequestStackTrace,
            WalkerChoice::Reference => Generation::Reference,
            WalkerChoice::Plugin(_) | WalkerChoice::PluginFrame(_) => Generation::Plugin,
            WalkerChoice::Frame(walk) => walk.generation(),
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
            WalkerChoice::Frame(walk) => Box::new(asgst::walker(subject, walk)?),
            WalkerChoice::PluginFrame(path) => {
                let plugin = plugin::load(path, &subject.jvm, &subject.world)?;
                let name = plugin.name();
                let walker = FromFrame::new(plugin).ok_or_else(|| HarnessError::Variable {
                    name: WALKER,
                    value: self.setting(),
                    wanted: format!(
                        "a library whose walker walks from frames: {name} has no walk_from_frame"
                    ),
                })?;
                Box::new(walker)
            }
            WalkerChoice::Request => Box::new(plugin::requester(&subject.jvm)?),
            WalkerChoice::Remote(_) => {
                return Err(HarnessError::Variable {
                    name: WALKER,
                    value: self.name().to_owned(),
                    wanted: "a walker that walks its own thread: there is no other one here"
                        .to_owned(),
                });
            }
        })
    }
}

fn names_of(wanted: impl Fn(WalkerChoice) -> bool) -> String {
    let own: Vec<&str> = WalkerChoice::ALL
        .into_iter()
        .filter(|walker| wanted(*walker))
        .map(WalkerChoice::name)
        .collect();
    format!(
        "{} or a library, PATH/LIB.so or PATH/LIB.so@sha256:HEX, with {FROM_FRAME} before it for its walks from frames",
        own.join(", ")
    )
}

/// Says before anything is made for a session whether these can walk, as far as that is known without a JVM: libraries have walkers, and two walkers
/// whose frames are compared both give method ids.
///
/// # Errors
/// Why not.
pub(crate) fn check(
    walker: WalkerChoice,
    oracle: Option<WalkerChoice>,
) -> Result<(), HarnessError> {
    if let Some(oracle) = oracle.filter(|oracle| !oracle.can_judge()) {
        return Err(HarnessError::Variable {
            name: ORACLE,
            value: oracle.name().to_owned(),
            wanted: format!("{NO_ORACLE}, {}", WalkerChoice::judges()),
        });
    }
    if oracle.is_some() && walker == WalkerChoice::Request {
        return Err(HarnessError::Variable {
            name: ORACLE,
            value: oracle.map_or(NO_ORACLE, WalkerChoice::name).to_owned(),
            wanted: format!("{NO_ORACLE}: {} gives no frames to judge", walker.name()),
        });
    }
    for choice in [Some(walker), oracle].into_iter().flatten() {
        let (WalkerChoice::Plugin(path) | WalkerChoice::PluginFrame(path)) = choice else {
            continue;
        };
        let library = Library::open(path)?;
        if oracle.is_some() && library.methods() == Methods::Pcs {
            return Err(HarnessError::GivesPcs {
                walker: library.name().to_owned(),
            });
        }
    }
    Ok(())
}

/// The variables that make a session walk with what a signature speaks of. A library stays what the environment says: its walker's name does not lead to it.
///
/// # Errors
/// The sentence that says which library must be set and is not.
pub fn walkers_of(signature: &str) -> Result<Vec<(&'static str, String)>, String> {
    let Ok(signature) = signature.parse::<Signature>() else {
        return Ok(Vec::new());
    };
    let mut variables = Vec::new();
    match WalkerChoice::from_name(&signature.walker) {
        Some(walker) => variables.push((WALKER, walker.name().to_owned())),
        None => is_at_hand(&signature.walker)?,
    }
    match signature.oracle() {
        None => variables.push((ORACLE, NO_ORACLE.to_owned())),
        Some(name) => match WalkerChoice::from_name(name) {
            Some(oracle) => variables.push((ORACLE, oracle.name().to_owned())),
            None => is_library_of(
                name,
                ORACLE,
                "the oracle that judged it is",
                std::env::var(ORACLE).ok(),
            )?,
        },
    }
    Ok(variables)
}

/// What must be set before somebody walks again with the walker of that name, if anything must: a library is not found by its walker's name.
///
/// # Errors
/// The sentence that says so.
pub fn is_at_hand(walker: &str) -> Result<(), String> {
    if WalkerChoice::from_name(walker).is_some() {
        return Ok(());
    }
    let set = std::env::var(WALKER).ok();
    is_library_of(walker, WALKER, "it was found with the walker", set)
}

/// Whether a variable is `set` to a library whose walker has that name.
fn is_library_of(
    name: &str,
    variable: &str,
    role: &str,
    set: Option<String>,
) -> Result<(), String> {
    let (path, from_frame) = match WalkerChoice::from_name(&set.unwrap_or_default()) {
        Some(WalkerChoice::Plugin(path)) => (path, false),
        Some(WalkerChoice::PluginFrame(path)) => (path, true),
        _ => {
            return Err(format!(
                "{role} {name}, which is none of walkfuzz's own: set {variable} to the path of its library"
            ));
        }
    };
    let library = Library::open(path).map_err(|error| error.to_string())?;
    let own = match from_frame {
        true => frame_name(library.name()),
        false => library.name().to_owned(),
    };
    if own == name {
        return Ok(());
    }
    Err(format!(
        "{role} {name}, and {variable} is the library of {own}: set it to the path of {name}'s"
    ))
}

/// Whether these two are AsyncGetCallTrace and the reference walker, whose differences are known. A library that calls AsyncGetCallTrace is neither.
pub(crate) fn are_known(first: &dyn Walker, second: &dyn Walker) -> bool {
    let is_reference = |walker: &dyn Walker| walker.name() == WalkerChoice::Reference.name();
    (is_agct(first) && is_reference(second)) || (is_reference(first) && is_agct(second))
}

/// Whether it is the JVM's AsyncGetCallTrace itself.
pub(crate) fn is_agct(walker: &dyn Walker) -> bool {
    is_agct_name(walker.name())
}

/// Whether the walker of that name is the JVM's AsyncGetCallTrace, called on the walked thread or on another one.
pub(crate) fn is_agct_name(walker: &str) -> bool {
    walker == WalkerChoice::Agct.name() || RemoteMode::from_name(walker).is_some()
}

/// A walker as the oracle of `judged`.
///
/// # Errors
/// What the JVM's tables lack for it, by name, or that one of the two gives pcs.
pub(crate) fn oracle(
    choice: WalkerChoice,
    judged: &dyn Walker,
    subject: &Subject,
) -> Result<Oracle, HarnessError> {
    let walker = choice.make(subject)?;
    for walker in [judged, &*walker] {
        if walker.methods() == Methods::Pcs {
            return Err(HarnessError::GivesPcs {
                walker: walker.name().to_owned(),
            });
        }
    }
    // Without it the differences have no names, and the oracle's own mistakes are not known.
    let is_asked = are_known(judged, &*walker) || (is_agct(&*walker) && !is_agct(judged));
    let reference = is_asked.then(|| subject.world.reference().ok()).flatten();
    let explainer = reference.and_then(|walker| walker.reference());
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
                .unwrap()
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
        assert_eq!(set("no signature"), "");
        let refused = |signature: &str| walkers_of(signature).unwrap_err();
        let said = refused("SIGSEGV|frame::sender|mine");
        assert!(said.contains("the walker mine") && said.contains("set WALKFUZZ_WALKER to"));
        let said = refused("wrong-frames|missing frame at frame 0|agct|mine disagrees");
        assert!(said.contains("judged it is mine") && said.contains("set WALKFUZZ_ORACLE to"));
    }
}
