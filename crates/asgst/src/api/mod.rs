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
