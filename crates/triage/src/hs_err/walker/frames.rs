//! Frames of walkers and of signal handlers: how they are known.

use walkfuzz_symbols::short_name;

use crate::hs_err::{Frame, FrameKind};

/// Functions by which a walker is known on a stack, by how their short names begin, and the walker's name.
const WALKERS: [(&str, &str); 20] = [
    ("AsyncGetCallTrace", "agct"),
    ("AsyncGetStackTrace", "asgst"),
    ("ASGST_", "asgst"),
    // Before JfrThreadSampling, which calls it.
    ("drain_enqueued_cpu_time_requests", "jfr-cpu"),
    ("JfrStackTrace::record_async", "jfr"),
    ("JfrThreadSampl", "jfr"),
    ("JfrSamplerThread", "jfr"),
    ("JfrNativeSamplerCallback", "jfr"),
    ("OSThreadSampler", "jfr"),
    ("JfrCPUTimeThreadSampl", "jfr-cpu"),
    ("JfrCPUSamplerThread", "jfr-cpu"),
    ("StackWalker::walk", PROFILER),
    ("StackFrame::unwind", PROFILER),
    ("Profiler::getJavaTraceAsync", PROFILER),
    ("Profiler::getJavaTraceInternal", PROFILER),
    ("Profiler::getNativeTrace", PROFILER),
    ("Profiler::recordSample", PROFILER),
    ("Profiler::recordExternalSample", PROFILER),
    ("Profiler::handle", PROFILER),
    ("WallClock::signalHandler", PROFILER),
];

/// Stands for the profiler whose library the function is in.
const PROFILER: &str = "async-profiler";

/// Profilers by how the names of their libraries begin.
pub(super) const PROFILERS: [(&str, &str); 4] = [
    ("libasyncProfiler", "async-profiler"),
    ("libjavaProfiler", "ddprof"),
    ("libddprof", "ddprof"),
    ("liblagent", "honest-profiler"),
];

/// Functions that are signal handlers, or that the kernel puts below one: by how they begin, or end.
const HANDLERS: [&str; 8] = [
    "<signal handler called>",
    "__restore_rt",
    "__kernel_rt_sigreturn",
    "JVM_handle_linux_signal",
    "javaSignalHandler",
    "signalHandler",
    "handle_timer_signal",
    "SR_handler",
];
const HANDLER_ENDS: [&str; 3] = ["signalHandler", "SignalHandler", "signal_handler"];

pub(super) fn walker_of(frame: &Frame) -> Option<(&'static str, String)> {
    if !matches!(frame.kind, FrameKind::Vm | FrameKind::Native) {
        return None;
    }
    let function = frame.function.as_deref()?;
    let (_, walker) = WALKERS
        .iter()
        .find(|(name, _)| function.starts_with(name))?;
    let walker = if *walker == PROFILER {
        profiler_of(frame).unwrap_or(PROFILER)
    } else {
        walker
    };
    Some((walker, short_name(function)))
}

pub(super) fn profiler_of(frame: &Frame) -> Option<&'static str> {
    let module = frame.module.as_deref()?;
    let (_, name) = PROFILERS
        .iter()
        .find(|(library, _)| module.starts_with(library))?;
    Some(name)
}

/// The handler that the walk at `walker` was called from: a frame named like one, else the last frame of the calling library
/// if the stack ends there or goes on in another world.
pub(super) fn handler_below(frames: &[Frame], walker: usize) -> Option<usize> {
    let below = || frames.iter().enumerate().skip(walker);
    // In the profiler's own library first: the kernel's frame lies further out.
    if let Some((at, _)) = below().find(|(_, frame)| is_handler(frame)) {
        return Some(at);
    }
    let caller = frames
        .iter()
        .skip(walker)
        .find(|frame| frame.kind == FrameKind::Native && !is_trampoline(frame))?
        .module
        .as_deref()?;
    let (last, _) = below().rfind(|(_, frame)| frame.module.as_deref() == Some(caller))?;
    match frames.get(last + 1) {
        None => Some(last),
        Some(next) => is_signal_frame(next).then_some(last),
    }
}

pub(super) fn is_handler(frame: &Frame) -> bool {
    let Some(function) = frame.function.as_deref() else {
        return false;
    };
    let name = short_name(function);
    let last = name.rsplit("::").next().unwrap_or(&name);
    HANDLERS
        .iter()
        .any(|handler| last.starts_with(handler) || function.starts_with(handler))
        || HANDLER_ENDS.iter().any(|end| name.ends_with(end))
}

/// The kernel's frame between a handler and what it interrupted: a nameless place in libc.
pub(super) fn is_trampoline(frame: &Frame) -> bool {
    let module = frame.module.as_deref().unwrap_or("");
    frame.function.is_none() && (module.starts_with("libc.so") || module.starts_with("libpthread"))
}

/// What lies right below a signal handler: the trampoline, or code of the JVM's making.
pub(super) fn is_signal_frame(frame: &Frame) -> bool {
    is_handler(frame)
        || is_trampoline(frame)
        || !matches!(frame.kind, FrameKind::Vm | FrameKind::Native)
}

pub(super) fn is_vm(frame: &Frame) -> bool {
    frame.kind == FrameKind::Vm
}
