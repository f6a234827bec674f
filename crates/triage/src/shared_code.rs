//! Which other walkers of the JVM run through a function that AsyncGetCallTrace faulted in.
//!
//! A fault in `frame::sender` is not the profiler's alone: JFR's sampler and JVMTI's GetStackTrace call it as well. Whether they can meet the same
//! *state* is another question, which [`Walk`] answers for each: who walks what, when.
//!
//! The list is static. It was made from the direct calls in libjvm 11.0.13, 17.0.15, 21.0.8 and 25.0.3 (x86_64), from the samplers' functions and from
//! `JvmtiEnvBase::get_stack_trace` on, and read against HotSpot's sources. A function that a compiler inlines everywhere never shows
//! in a signature. What is not in the list is not known to be shared.

/// The newest feature release that the list was made from.
const NEWEST: u32 = 25;
/// The last release whose JFR walks another thread's stack while that is stopped anywhere; 25 walks at safepoint polls (JEP 518).
const LAST_ASYNCHRONOUS_JFR: u32 = 24;

/// Another walker of the JVM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Walk {
    /// JFR's execution sampler.
    JfrSampler,
    /// JVMTI's GetStackTrace.
    GetStackTrace,
}

impl Walk {
    /// How reports call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Walk::JfrSampler => "JFR's sampler",
            Walk::GetStackTrace => "JVMTI GetStackTrace",
        }
    }
}

/// That a walker shares a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharing {
    /// Who.
    pub walk: Walk,
    /// The feature releases in which it does: first and last.
    pub versions: (u32, u32),
    /// What it calls the function for, and whether it can meet such a state.
    pub how: &'static str,
    /// Where in HotSpot's sources that can be read.
    pub source: &'static str,
}

const JFR_ASYNC: &str = "walks a thread that is stopped at any instruction, from its registers, so that it meets any state that a thread can be in; \
    HotSpot's ThreadCrashProtection swallows a SIGSEGV or SIGBUS there: a sample is lost, the process lives on";
const JFR_ASYNC_SOURCE: &str = "jfrThreadSampler.cpp (OSThreadSampler::protected_task, JfrStackTrace::record_async or record_thread), jfrCallTrace.cpp";
const JFR_25: &str = "uses it at the sampled thread's next safepoint poll, on frames that are complete (JEP 518): it does not begin at arbitrary registers";
const JFR_25_SOURCE: &str = "jfrThreadSampling.cpp, jfrSampleRequest.cpp, vframe.inline.hpp";
const JFR_25_REQUEST: &str = "looks a stopped thread's pc up with it when it makes a sample request, in a handler or beside the stopped thread (JEP 518)";
const GST: &str = "walks at a safepoint or handshake, from the last Java frame's anchor: complete frames only, no registers of an interrupted thread";
const GST_SOURCE: &str = "jvmtiEnvBase.cpp (JvmtiEnvBase::get_stack_trace), vframe.hpp (vframeStreamCommon), frame_<arch>.inline.hpp";

/// In how many of the releases a walker calls a function: first and last, `(0, 0)` for never.
struct Row(&'static str, (u32, u32), (u32, u32));

const NEVER: (u32, u32) = (0, 0);
const ALL: (u32, u32) = (11, NEWEST);
const ASYNC: (u32, u32) = (11, LAST_ASYNCHRONOUS_JFR);

/// Function, JFR's sampler, GetStackTrace.
const ROWS: [Row; 33] = [
    Row("CodeCache::find_blob", ALL, ALL),
    Row("CodeCache::find_blob_unsafe", (11, 17), NEVER),
    Row("CodeHeap::find_blob", (21, NEWEST), (21, NEWEST)),
    Row("PcDescContainer::find_pc_desc_internal", ALL, ALL),
    Row("PcDesc::real_pc", ALL, NEVER),
    Row("nmethod::get_original_pc", (11, 17), (11, 17)),
    Row("nmethod::orig_pc_addr", ALL, ALL),
    Row("CompiledMethod::orig_pc_addr", (21, 21), (21, 21)),
    Row("nmethod::orig_pc_offset", (21, 21), (21, 21)),
    Row("nmethod::metadata_at", (11, 24), (11, 24)),
    Row("nmethod::scopes_data_end", (11, 21), NEVER),
    Row("Method::is_valid_method", ASYNC, NEVER),
    Row("Method::bcp_from", ALL, NEVER),
    Row("Method::validate_bci_from_bcp", ALL, NEVER),
    Row("frame::safe_for_sender", ASYNC, NEVER),
    Row("frame::entry_frame_call_wrapper_if_safe", ASYNC, NEVER),
    Row("frame::is_entry_frame_valid", ASYNC, NEVER),
    Row("frame::is_interpreted_frame_valid", ASYNC, NEVER),
    Row(
        "frame::safe_interpreter_frame_method",
        (17, LAST_ASYNCHRONOUS_JFR),
        NEVER,
    ),
    Row("frame::interpreter_frame_method", ALL, NEVER),
    Row("frame::interpreter_frame_bcp", ALL, NEVER),
    Row("frame::entry_frame_is_first", ALL, NEVER),
    Row("frame::sender", ALL, ALL),
    Row("frame::sender_raw", (21, LAST_ASYNCHRONOUS_JFR), NEVER),
    Row("frame::sender_for_entry_frame", ALL, ALL),
    Row(
        "frame::sender_for_interpreter_frame",
        (17, NEWEST),
        (17, NEWEST),
    ),
    Row("frame::sender_for_compiled_frame", (11, 24), (11, 24)),
    Row("frame::set_pc", ASYNC, NEVER),
    Row("JavaThread::pd_get_top_frame", ASYNC, NEVER),
    Row(
        "JavaThread::pd_get_top_frame_for_signal_handler",
        ASYNC,
        NEVER,
    ),
    Row("RegisterMap::RegisterMap", ALL, ALL),
    Row("OopMapSet::update_register_map", (11, 17), (11, 17)),
    Row("ImmutableOopMapSet::find_map_at_offset", ALL, ALL),
];

/// Whom a function (its short name, as in signatures) is shared with in a feature release. `None`: the list does not know the function.
#[must_use]
pub fn shared_code(function: &str, feature: u32) -> Option<Vec<Sharing>> {
    let Row(name, jfr, stack_trace) = ROWS.iter().find(|row| row.0 == function)?;
    let in_range = |(first, last): (u32, u32)| (first..=last).contains(&feature);
    let mut found = Vec::new();
    if in_range(*jfr) {
        let asynchronous = feature <= LAST_ASYNCHRONOUS_JFR;
        let (how, source) = match (asynchronous, *name) {
            // The same body under another name; in these releases both are inlined into or call the same helper.
            (true, "JavaThread::pd_get_top_frame_for_signal_handler") => (
                "has the same code under the name pd_get_top_frame_for_profiling, on a thread that is stopped at any instruction; \
                 HotSpot's ThreadCrashProtection swallows a SIGSEGV or SIGBUS there: a sample is lost, the process lives on",
                "jfrCallTrace.cpp (JfrGetCallTrace::get_topframe), javaThread_linux_<arch>.cpp (pd_get_top_frame)",
            ),
            (true, _) => (JFR_ASYNC, JFR_ASYNC_SOURCE),
            (false, "CodeCache::find_blob" | "CodeHeap::find_blob") => {
                (JFR_25_REQUEST, JFR_25_SOURCE)
            }
            (false, _) => (JFR_25, JFR_25_SOURCE),
        };
        found.push(Sharing {
            walk: Walk::JfrSampler,
            versions: if asynchronous {
                (jfr.0, jfr.1.min(LAST_ASYNCHRONOUS_JFR))
            } else {
                (LAST_ASYNCHRONOUS_JFR + 1, jfr.1)
            },
            how,
            source,
        });
    }
    if in_range(*stack_trace) {
        found.push(Sharing {
            walk: Walk::GetStackTrace,
            versions: *stack_trace,
            how: GST,
            source: GST_SOURCE,
        });
    }
    Some(found)
}

/// The functions that some other walker shares in a feature release.
pub fn shared_functions(feature: u32) -> impl Iterator<Item = &'static str> {
    let shared =
        move |row: &&Row| shared_code(row.0, feature).is_some_and(|sharings| !sharings.is_empty());
    ROWS.iter().filter(shared).map(|row| row.0)
}

/// Whether a function is AsyncGetCallTrace's own (forte.cpp): nobody else calls it.
#[must_use]
pub fn is_agct_alone(function: &str) -> bool {
    ["AsyncGetCallTrace", "forte_", "vframeStreamForte::"]
        .iter()
        .any(|own| function.starts_with(own))
}

/// Whether the list says anything about a feature release.
#[must_use]
pub fn knows_release(feature: u32) -> bool {
    (ALL.0..=ALL.1).contains(&feature)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(function: &str, feature: u32) -> Option<Vec<Walk>> {
        Some(
            shared_code(function, feature)?
                .iter()
                .map(|sharing| sharing.walk)
                .collect(),
        )
    }

    #[test]
    fn each_function_stands_once_and_ranges_are_in_order() {
        for (index, Row(name, jfr, stack_trace)) in ROWS.iter().enumerate() {
            assert!(ROWS[..index].iter().all(|row| row.0 != *name), "{name}");
            for (first, last) in [*jfr, *stack_trace] {
                assert!(first <= last && last <= NEWEST, "{name}");
            }
            assert!(*jfr != NEVER || *stack_trace != NEVER, "{name}");
        }
    }

    #[test]
    fn jfr_changed_its_ways_in_25() {
        use Walk::{GetStackTrace, JfrSampler};
        assert_eq!(who("frame::safe_for_sender", 21), Some(vec![JfrSampler]));
        assert_eq!(who("frame::safe_for_sender", 25), Some(vec![]));
        assert_eq!(
            who("frame::sender", 17),
            Some(vec![JfrSampler, GetStackTrace])
        );
        let sharing = shared_code("frame::sender", 25).unwrap();
        assert_eq!(sharing[0].versions, (25, 25));
        assert!(sharing[0].how.contains("safepoint poll"));
        assert_eq!(who("forte_fill_call_trace_given_top", 17), None);
        assert!(is_agct_alone("forte_fill_call_trace_given_top"));
        assert!(!is_agct_alone("frame::sender"));
    }
}
