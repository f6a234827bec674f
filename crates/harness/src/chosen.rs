//! Which walkers a session has: the code under test, and the oracle beside it.

use std::path::Path;

use walkfuzz_asgst::FrameWalk;
use walkfuzz_record::Generation;
use walkfuzz_walkers::{
    Explainer, FromFrame, Library, Manner, Methods, PluginError, PluginPath, RemoteMode,
    RequestStackTrace, Walker,
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
pub(crate) const ORACLE: &str = "WALKFUZZ_ORACLE";

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
    /// The walker of a library, on the walked thread or from another one.
    Plugin(Manner, &'static PluginPath),
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
            WalkerChoice::Plugin(Manner::Own, _) => "plugin",
            WalkerChoice::Plugin(Manner::Held, _) => "plugin-remote",
            WalkerChoice::Plugin(Manner::Running, _) => "plugin-remote-running",
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
            WalkerChoice::Plugin(Manner::Own, path) => path.to_string(),
            WalkerChoice::Plugin(manner, path) => format!("{}{path}", manner.prefix()),
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
            let (manner, path) = Manner::of(name).unwrap_or((Manner::Own, name));
            let path: PluginPath = path.parse().ok().filter(|_| path.contains('/'))?;
            let path: &'static PluginPath = Box::leak(Box::new(path));
            match (from_frame, manner) {
                (false, _) => Some(WalkerChoice::Plugin(manner, path)),
                (true, Manner::Own) => Some(WalkerChoice::PluginFrame(path)),
                (true, Manner::Held | Manner::Running) => None,
            }
        })
    }

    /// The names, for people.
    #[must_use]
    pub fn names() -> String {
        format!(
            "{}, with {FROM_FRAME} before it for its walks from frames, or {} or {} for those from another thread",
            names_of(|_| true),
            Manner::Held.prefix(),
            Manner::Running.prefix(),
        )
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
            WalkerChoice::Agct | WalkerChoice::Reference | WalkerChoice::Plugin(Manner::Own, _)
        )
    }

    /// Whether both are one walker: a library is one, however its path is written and whether it is pinned.
    #[must_use]
    pub fn is_same(self, other: Self) -> bool {
        match (self, other) {
            (WalkerChoice::Plugin(a, first), WalkerChoice::Plugin(b, second)) => {
                a == b && is_one_file(&first.path, &second.path)
            }
            (WalkerChoice::PluginFrame(first), WalkerChoice::PluginFrame(second)) => {
                is_one_file(&first.path, &second.path)
            }
            (first, second) => first == second,
        }
    }

    /// What records call the walker of a library, and the library, if it is in one.
    ///
    /// # Errors
    /// Why the library cannot walk so.
    pub(crate) fn named_library(self) -> Result<Option<(String, Library)>, PluginError> {
        Ok(Some(match self {
            WalkerChoice::Plugin(manner, path) => {
                let library = Library::open(path)?;
                (library.name_as(manner)?, library)
            }
            WalkerChoice::PluginFrame(path) => {
                let library = Library::open(path)?;
                (library.name_from_frame()?, library)
            }
            WalkerChoice::Agct
            | WalkerChoice::Reference
            | WalkerChoice::Remote(_)
            | WalkerChoice::Request
            | WalkerChoice::Frame(_) => return Ok(None),
        }))
    }

    /// Whose codes it speaks.
    #[must_use]
    pub const fn generation(self) -> Generation {
        match self {
            WalkerChoice::Agct | WalkerChoice::Remote(_) => Generation::Agct,
            WalkerChoice::Request => Generation::RequestStackTrace,
            WalkerChoice::Reference => Generation::Reference,
            WalkerChoice::Plugin(..) | WalkerChoice::PluginFrame(_) => Generation::Plugin,
            WalkerChoice::Frame(walk) => walk.generation(),
        }
    }

    /// Makes it, for the JVM of this process, if it walks its own thread.
    ///
    /// # Errors
    /// What the JVM's tables lack for it, by name, or why a library is refused.
    pub(crate) fn make(self, subject: &Subject) -> Result<Box<dyn Walker>, HarnessError> {
        Ok(match self {
            WalkerChoice::Agct => Box::new(subject.agct),
            WalkerChoice::Reference => Box::new(subject.world.reference()?),
            WalkerChoice::Plugin(Manner::Own, path) => {
                Box::new(plugin::load(path, &subject.jvm, &subject.world)?)
            }
            WalkerChoice::Frame(walk) => Box::new(asgst::walker(subject, walk)?),
            WalkerChoice::PluginFrame(path) => {
                let plugin = plugin::load(path, &subject.jvm, &subject.world)?;
                let walker = FromFrame::new(plugin).ok_or_else(|| PluginError::NoFrames {
                    path: path.path.clone(),
                })?;
                Box::new(walker)
            }
            WalkerChoice::Request => Box::new(plugin::requester(&subject.jvm)?),
            WalkerChoice::Remote(_) | WalkerChoice::Plugin(Manner::Held | Manner::Running, _) => {
                return Err(HarnessError::Variable {
                    name: WALKER,
                    value: self.setting(),
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
        "{} or a library, PATH/LIB.so or PATH/LIB.so@sha256:HEX",
        own.join(", ")
    )
}

fn is_one_file(first: &Path, second: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    real(first) == real(second)
}

/// Says before anything is made for a session whether these can walk, as far as that is known without a JVM: libraries have walkers that walk so, and two walkers
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
            value: oracle.setting(),
            wanted: format!("{NO_ORACLE}, {}", WalkerChoice::judges()),
        });
    }
    if let Some(oracle) = oracle.filter(|_| walker == WalkerChoice::Request) {
        return Err(HarnessError::Variable {
            name: ORACLE,
            value: oracle.setting(),
            wanted: format!("{NO_ORACLE}: {} gives no frames to judge", walker.name()),
        });
    }
    for choice in [Some(walker), oracle].into_iter().flatten() {
        let Some((name, library)) = choice.named_library()? else {
            continue;
        };
        if oracle.is_some() && library.methods() == Methods::Pcs {
            return Err(HarnessError::GivesPcs { walker: name });
        }
    }
    Ok(())
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
    use walkfuzz_walkers::check_name;

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
            let own = matches!(chosen, Some(WalkerChoice::Plugin(Manner::Own, _)));
            assert!(own, "{text}");
        }
        for text in [
            "frame:/a/lib.so",
            "plugin-remote:/a/lib.so",
            "plugin-remote-running:./lib.so",
        ] {
            let chosen = WalkerChoice::from_name(text).unwrap();
            assert_eq!(chosen.setting(), text);
            assert!(!chosen.can_judge());
        }
        for text in [
            "lib.so",
            "plugin:",
            "plugin-remote:lib.so",
            "plugin:lib.so",
            "/a/lib.so@sha256:12",
            "frame:plugin-remote:/a/lib.so",
        ] {
            assert_eq!(WalkerChoice::from_name(text), None, "{text}");
        }
    }

    #[test]
    fn no_library_has_the_name_of_a_walker_of_walkfuzz() {
        for walker in WalkerChoice::ALL {
            let said = check_name(walker.name()).unwrap_err();
            assert!(said.contains("walkfuzz's own"), "{said}");
        }
    }

    #[test]
    fn only_what_can_judge_is_suggested_as_a_judge() {
        let all = WalkerChoice::names();
        assert!(
            all.contains("frame:") && all.contains("plugin-remote:"),
            "{all}"
        );
        let judges = WalkerChoice::judges();
        assert!(
            !judges.contains("frame") && !judges.contains("remote"),
            "{judges}"
        );
        let oracle = WalkerChoice::from_name("frame:/a/lib.so");
        let said = check(WalkerChoice::Agct, oracle).unwrap_err().to_string();
        assert!(
            said.starts_with("WALKFUZZ_ORACLE=frame:/a/lib.so means nothing: wanted none, agct, "),
            "{said}"
        );
    }

    #[test]
    fn a_pin_makes_no_other_walker() {
        let named = |name: &str| WalkerChoice::from_name(name).unwrap();
        let plain = named("/a/lib.so");
        let pinned = named(&format!("/a/lib.so@sha256:{}", "ab".repeat(32)));
        assert!(plain.is_same(pinned));
        assert!(!plain.is_same(named("/b/lib.so")));
        assert!(!plain.is_same(named("plugin-remote:/a/lib.so")));
        assert!(!plain.is_same(WalkerChoice::Agct));
    }
}
