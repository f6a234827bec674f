//! A library's walker that walks from another thread than the walked one.
//!
//! Contract: [`Manner`] is for ordinary threads; [`PluginRemote`] keeps [`Walker`]'s.

use std::ffi::c_void;

use walkfuzz_record::{Code, Generation};

use super::load::{Library, PluginPath};
use super::{Plugin, PluginError, enter, watch};
use crate::remote::RemoteMode;
use crate::trace::TraceBuffer;
use crate::walker::{Call, Methods, Start, ThreadHandle, Walker};

/// Where a library's walker walks, as its path's prefix says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// On the walked thread: `plugin:PATH`.
    Own,
    /// From another thread, while the walked one waits in its handler: `plugin-remote:PATH`.
    Held,
    /// From another thread, while the walked one runs on: `plugin-remote-running:PATH`.
    Running,
}

impl Manner {
    /// Every manner.
    pub const ALL: [Manner; 3] = [Manner::Own, Manner::Held, Manner::Running];

    /// Stands before the path.
    #[must_use]
    pub const fn prefix(self) -> &'static str {
        match self {
            Manner::Own => PluginPath::PREFIX,
            Manner::Held => "plugin-remote:",
            Manner::Running => "plugin-remote-running:",
        }
    }

    /// Stands behind the walker's name in records and reports.
    #[must_use]
    pub const fn suffix(self) -> &'static str {
        match self {
            Manner::Own => "",
            Manner::Held => "-remote",
            Manner::Running => "-remote-running",
        }
    }

    /// The manner and the path in the name of a library's walker.
    #[must_use]
    pub fn of(name: &str) -> Option<(Self, &str)> {
        Self::ALL
            .into_iter()
            .find_map(|manner| Some((manner, name.strip_prefix(manner.prefix())?)))
    }

    /// Whether the walker of that name walks threads from others, and if so, whether these wait meanwhile: AsyncGetCallTrace's or a library's.
    #[must_use]
    pub fn remote_holds(name: &str) -> Option<bool> {
        let own = RemoteMode::from_name(name).map(RemoteMode::holds);
        own.or_else(|| match Self::of(name)?.0 {
            Manner::Own => None,
            Manner::Held => Some(true),
            Manner::Running => Some(false),
        })
    }
}

/// See the module.
#[derive(Debug)]
pub struct PluginRemote {
    plugin: Plugin,
    name: &'static str,
}

impl Library {
    /// What records call the walker in that manner.
    ///
    /// # Errors
    /// The library cannot walk so.
    pub fn name_as(&self, manner: Manner) -> Result<String, PluginError> {
        if manner != Manner::Own && self.raw.walk_remote.is_none() {
            return Err(PluginError::NoRemote {
                path: self.path.clone(),
            });
        }
        Ok(format!("{}{}", self.name, manner.suffix()))
    }
}

impl Plugin {
    /// The same walker, from other threads; `None` if it cannot.
    #[must_use]
    pub fn remote(&self, manner: Manner) -> Option<PluginRemote> {
        self.raw.walk_remote?;
        Some(PluginRemote {
            plugin: self.clone(),
            name: Box::leak(format!("{}{}", self.name, manner.suffix()).into_boxed_str()),
        })
    }
}

/// What the guard calls.
unsafe extern "C" fn walk_remote(buffer: *mut c_void, depth: i32, context: *mut c_void) {
    // SAFETY: `prepare` passes its buffer, with the call in it.
    unsafe {
        enter(buffer.cast(), |call, frames| {
            call.raw.walk_remote.map_or(0, |walk| {
                walk(&raw const call.thread, context, depth, frames)
            })
        });
    }
}

impl Walker for PluginRemote {
    fn name(&self) -> &'static str {
        self.name
    }

    fn generation(&self) -> Generation {
        self.plugin.generation()
    }

    fn code_names(&self) -> &[(Code, String)] {
        self.plugin.code_names()
    }

    fn methods(&self) -> Methods {
        self.plugin.methods()
    }

    fn version(&self) -> Option<&str> {
        self.plugin.version()
    }

    #[inline]
    fn prepare(
        &self,
        trace: &mut TraceBuffer,
        depth: i32,
        thread: ThreadHandle,
        start: Start,
    ) -> Option<Call> {
        let Start::Context(context) = start else {
            return None;
        };
        let way = (walk_remote as _, context);
        Some(self.plugin.call(trace, depth, thread, way, [0; 3]))
    }

    fn left(&self, _: &TraceBuffer) {
        watch::left();
    }

    #[inline]
    fn finish(&self, trace: &TraceBuffer) -> Code {
        self.plugin.finish(trace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_who_walks_whom() {
        assert_eq!(Manner::of("plugin:/a.so"), Some((Manner::Own, "/a.so")));
        assert_eq!(
            Manner::of("plugin-remote:/a.so"),
            Some((Manner::Held, "/a.so"))
        );
        assert_eq!(
            Manner::of("plugin-remote-running:/a.so"),
            Some((Manner::Running, "/a.so"))
        );
        assert_eq!(Manner::of("agct-remote-env"), None);
        let holds = [
            ("agct", None),
            ("plugin:/a.so", None),
            ("agct-remote-tid", Some(true)),
            ("plugin-remote:/a.so", Some(true)),
            ("agct-remote-running", Some(false)),
            ("plugin-remote-running:/a.so", Some(false)),
        ];
        for (name, holds) in holds {
            assert_eq!(Manner::remote_holds(name), holds, "{name}");
        }
    }
}
