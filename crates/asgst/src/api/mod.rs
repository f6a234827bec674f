//! The functions of all generations as tables: ours, or those that a library exports. Who drives an API calls through a table and need not know whose it is.
//!
//! Contract: tables are made outside handlers; calling through them is what the called function allows.

mod iterator;
mod jep435;
mod minimal;
mod queue;
mod table;

use std::ffi::c_void;

pub use iterator::IteratorApi;
pub use jep435::{EarlyJep435Api, Jep435Api};
pub use minimal::{MinimalApi, SafepointApi};
pub use queue::QueueApi;
pub use table::MissingFunction;

/// Where exported functions are, by their whole name.
pub type Lookup<'a> = dyn Fn(&str) -> Option<*const c_void> + 'a;

/// What a generation's functions may be called in front of their names.
pub const PREFIXES: [&str; 2] = ["ASGST_", "JFRLL_"];

/// The tables of one implementation; a generation that it lacks, or has only in part, is `None`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Api {
    /// Iterators (2023).
    pub iterator: Option<IteratorApi>,
    /// The safepoint queue (2023).
    pub queue: Option<QueueApi>,
    /// JEP 435, late ABI.
    pub jep435: Option<Jep435Api>,
    /// JEP 435, early ABI.
    pub early_jep435: Option<EarlyJep435Api>,
    /// Minimal (2024).
    pub minimal: Option<MinimalApi>,
    /// Safepoint callbacks (2024).
    pub safepoint: Option<SafepointApi>,
}

impl Api {
    /// Ours.
    #[must_use]
    pub fn own() -> Self {
        Self {
            iterator: Some(IteratorApi::own()),
            queue: Some(QueueApi::own()),
            jep435: Some(Jep435Api::own()),
            early_jep435: Some(EarlyJep435Api::own()),
            minimal: Some(MinimalApi::own()),
            safepoint: Some(SafepointApi::own()),
        }
    }

    /// The iterators, queue and minimal functions that a library exports under one of [`PREFIXES`]. AsyncGetStackTrace is not looked for: both of its ABIs
    /// have the same name, and only a safe probe tells them apart ([`Jep435Api::of_library`], [`EarlyJep435Api::of_library`]).
    ///
    /// # Safety
    /// What the library exports under these names has these types.
    #[must_use]
    pub unsafe fn of_library(lookup: &Lookup<'_>) -> Self {
        let mut found = Self::default();
        for prefix in PREFIXES {
            let prefixed = |name: &str| lookup(&format!("{prefix}{name}"));
            // SAFETY: the caller's promise.
            unsafe {
                found.iterator = found.iterator.or(IteratorApi::of_library(&prefixed).ok());
                found.queue = found.queue.or(QueueApi::of_library(&prefixed).ok());
                found.minimal = found.minimal.or(MinimalApi::of_library(&prefixed).ok());
                found.safepoint = found.safepoint.or(SafepointApi::of_library(&prefixed).ok());
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    extern "C" fn somewhere() {}

    /// The tables of a library that exports every name under that prefix, but one.
    fn library(prefix: &str, lacks: &str) -> Api {
        let lookup = |name: &str| {
            let is_there = name.strip_prefix(prefix).is_some_and(|name| name != lacks);
            is_there.then_some(somewhere as *const c_void)
        };
        // SAFETY: nothing is called.
        unsafe { Api::of_library(&lookup) }
    }

    #[test]
    fn a_library_is_known_by_its_names() {
        for prefix in PREFIXES {
            let whole = library(prefix, "");
            assert!(whole.iterator.is_some() && whole.queue.is_some());
            assert!(whole.minimal.is_some() && whole.safepoint.is_some());
            assert!(whole.jep435.is_none(), "both ABIs have one name");
            for name in IteratorApi::NAMES {
                let part = library(prefix, name);
                assert!(part.iterator.is_none() && part.queue.is_some(), "{name}");
            }
        }
        assert!(library("OTHER_", "").iterator.is_none());
    }

    #[test]
    fn what_is_missing_is_named() {
        // SAFETY: nothing is called.
        let missing = unsafe { MinimalApi::of_library(&|_| None) }.unwrap_err();
        assert_eq!(
            missing.to_string(),
            "the library does not export WalkStackFromFrame"
        );
    }
}
