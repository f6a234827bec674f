//! JEP 435's function, in both of its ABIs.

use std::ffi::c_void;

use super::table::function_table;
use crate::abi::jep435::{CallTrace, EarlyCallTrace};
use crate::jep435;

function_table! {
    /// The late ABI.
    Jep435Api {
        /// Walks.
        async_get_stack_trace = "AsyncGetStackTrace": (*mut CallTrace, i32, *mut c_void, i32);
    }
}

function_table! {
    /// The early ABI, under its own implementations' name. Ours is exported as `AsyncGetStackTrace_early`.
    EarlyJep435Api {
        /// Walks.
        async_get_stack_trace = "AsyncGetStackTrace": (*mut EarlyCallTrace, i32, *mut c_void, i32);
    }
}

impl Jep435Api {
    /// Ours.
    #[must_use]
    pub fn own() -> Self {
        Self {
            async_get_stack_trace: jep435::async_get_stack_trace,
        }
    }
}

impl EarlyJep435Api {
    /// Ours.
    #[must_use]
    pub fn own() -> Self {
        Self {
            async_get_stack_trace: jep435::async_get_stack_trace_early,
        }
    }
}
