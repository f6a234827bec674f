//! What samples are walked with, as the options choose it.
//!
//! Contract: not for handlers.

use walkfuzz_record::{Generation, WalkerInfo};
use walkfuzz_walkers::{Library, Manner, PluginError, PluginPath, RemoteMode, RequestStackTrace};

use crate::asgst::AsgstWalk;
use crate::queue::ENQUEUE;

/// The walkers, as messages name them.
pub(crate) const WALKERS: &str = "agct, reference, asgst-iterator, asgst-jep435, asgst-queue, agct-remote-env, agct-remote-tid, agct-remote-running, request-stack-trace, plugin:PATH, plugin-remote:PATH or plugin-remote-running:PATH";

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkerChoice {
    /// AsyncGetCallTrace in the handler.
    Agct,
    /// walkfuzz's own walker in the handler.
    Reference,
    /// walkfuzz's own ASGST functions in the handler.
    Asgst(AsgstWalk),
    /// AsyncGetCallTrace from another thread.
    Remote(RemoteMode),
    /// JVMTI's extension function RequestStackTrace.
    Request,
    /// The walker of a library.
    Plugin(Manner, &'static PluginPath),
}

impl WalkerChoice {
    /// The walker of that name, if there is one.
    ///
    /// # Errors
    /// Why what stands for a library cannot be one.
    pub(crate) fn from_name(name: &str) -> Result<Option<Self>, PluginError> {
        Ok(match name {
            "agct" => Some(WalkerChoice::Agct),
            "reference" => Some(WalkerChoice::Reference),
            RequestStackTrace::NAME => Some(WalkerChoice::Request),
            _ => match Manner::of(name) {
                Some((manner, path)) => {
                    let path = path.parse()?;
                    Some(WalkerChoice::Plugin(manner, Box::leak(Box::new(path))))
                }
                None => RemoteMode::from_name(name)
                    .map(WalkerChoice::Remote)
                    .or_else(|| AsgstWalk::from_name(name).map(WalkerChoice::Asgst)),
            },
        })
    }

    /// What messages call it, if it goes with untouched samples under crash protection alone.
    pub(crate) fn plain_alone(self) -> Option<&'static str> {
        match self {
            WalkerChoice::Remote(mode) => Some(mode.name()),
            WalkerChoice::Asgst(AsgstWalk::Queue) => Some(AsgstWalk::Queue.name()),
            WalkerChoice::Plugin(Manner::Held, _) => Some("plugin-remote"),
            WalkerChoice::Plugin(Manner::Running, _) => Some("plugin-remote-running"),
            WalkerChoice::Plugin(Manner::Own, _)
            | WalkerChoice::Agct
            | WalkerChoice::Reference
            | WalkerChoice::Asgst(_)
            | WalkerChoice::Request => None,
        }
    }

    /// What it is called, if it reads with loads whose faults the guard resumes.
    pub(crate) fn resumed(self) -> Option<&'static str> {
        match self {
            WalkerChoice::Reference => Some("reference"),
            WalkerChoice::Asgst(walk) => Some(walk.name()),
            WalkerChoice::Agct
            | WalkerChoice::Remote(_)
            | WalkerChoice::Request
            | WalkerChoice::Plugin(..) => None,
        }
    }

    /// The library, opened, if the walker is in one.
    pub(crate) fn library(self) -> Result<Option<Library>, PluginError> {
        match self {
            WalkerChoice::Plugin(_, path) => Library::open(path).map(Some),
            WalkerChoice::Agct
            | WalkerChoice::Reference
            | WalkerChoice::Asgst(_)
            | WalkerChoice::Remote(_)
            | WalkerChoice::Request => Ok(None),
        }
    }

    /// The walkers of its record, in a JVM of that version. The first one is the code under test.
    ///
    /// # Errors
    /// The library cannot walk as it shall.
    pub(crate) fn recorded(
        self,
        version: &str,
        library: Option<&Library>,
    ) -> Result<Vec<WalkerInfo>, PluginError> {
        let walker = |name: &str, generation| WalkerInfo {
            name: name.to_owned(),
            generation,
            version: version.to_owned(),
        };
        let agct = walker("agct", Generation::Agct);
        Ok(match self {
            WalkerChoice::Plugin(manner, _) => {
                let Some(library) = library else {
                    return Ok(Vec::new());
                };
                let named = |manner| {
                    Ok(WalkerInfo {
                        version: library.version().to_owned(),
                        ..walker(&library.name_as(manner)?, library.generation())
                    })
                };
                match manner {
                    Manner::Own => vec![named(manner)?],
                    Manner::Held | Manner::Running => vec![named(manner)?, named(Manner::Own)?],
                }
            }
            WalkerChoice::Agct => vec![agct],
            WalkerChoice::Reference => vec![walker("reference", Generation::Reference)],
            // The second one is what handlers do, here and below.
            WalkerChoice::Asgst(AsgstWalk::Queue) => vec![
                walker(AsgstWalk::Queue.name(), Generation::AsgstIterator),
                walker(ENQUEUE, Generation::AsgstIterator),
            ],
            WalkerChoice::Asgst(walk) => vec![walker(walk.name(), walk.generation())],
            WalkerChoice::Remote(mode) => vec![walker(mode.name(), Generation::Agct), agct],
            WalkerChoice::Request => {
                vec![walker(
                    RequestStackTrace::NAME,
                    Generation::RequestStackTrace,
                )]
            }
        })
    }
}
