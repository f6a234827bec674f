//! Whether an asynchronous walker crashed: what the stack, the threads and the libraries tell.

mod frames;

use super::{Cause, CrashLog, FrameKind};
use frames::{
    PROFILERS, handler_below, is_handler, is_signal_frame, is_trampoline, is_vm, profiler_of,
    walker_of,
};

/// A stack that ends with one of these was read to its end.
const OUTERMOST: [&str; 8] = [
    "start_thread",
    "clone",
    "thread_native_entry",
    "ThreadJavaMain",
    "JavaMain",
    "_start",
    "__libc_start",
    "main",
];

/// How walkfuzz names the threads that it walks, and its run folders.
const OWN_THREADS: &str = "walkfuzz-";
const OWN_RUNS: &str = "walkfuzz-runs/";
/// The one walker that walkfuzz drives itself.
const OWN_WALKER: &str = "agct";

/// A walker on a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// Its short name.
    pub walker: &'static str,
    /// The function it is known by.
    pub function: String,
    /// That function's place among the native frames.
    pub frame: usize,
    /// The place of the signal handler below which it ran, if it can be told.
    pub handler: Option<usize>,
    /// The place of the frame that the signal interrupted, if the log goes so far.
    pub interrupted: Option<usize>,
}

/// Whether an asynchronous walker crashed. Each answer has its reason as half a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WalkerCrash {
    /// One did.
    Yes {
        /// Its short name.
        walker: &'static str,
        /// Where it stands on the stack, if it does.
        sighting: Option<Sighting>,
        /// Why one may say so.
        why: String,
    },
    /// None did.
    No {
        /// Why not.
        why: String,
    },
    /// The log does not tell.
    Unknown {
        /// What is missing.
        why: String,
    },
}

impl WalkerCrash {
    /// The walker that crashed.
    #[must_use]
    pub fn walker(&self) -> Option<&'static str> {
        match self {
            WalkerCrash::Yes { walker, .. } => Some(walker),
            WalkerCrash::No { .. } | WalkerCrash::Unknown { .. } => None,
        }
    }

    /// The reason.
    #[must_use]
    pub fn why(&self) -> &str {
        match self {
            WalkerCrash::Yes { why, .. }
            | WalkerCrash::No { why }
            | WalkerCrash::Unknown { why } => why,
        }
    }
}

/// The innermost walker on the native stack.
pub(super) fn on_stack(log: &CrashLog) -> Option<Sighting> {
    let frames = &log.native_frames;
    let found = frames.iter().enumerate().find_map(|(at, frame)| {
        let (walker, function) = walker_of(frame)?;
        Some((at, walker, function))
    });
    let Some((frame, walker, function)) = found else {
        // A log cut off before its stack still names the frame that it blames.
        let (walker, function) = walker_of(log.problematic.as_ref()?)?;
        return Some(Sighting {
            walker,
            function,
            frame: 0,
            handler: None,
            interrupted: None,
        });
    };
    let handler = handler_below(frames, frame);
    let interrupted = handler.and_then(|handler| {
        let below = frames.iter().enumerate().skip(handler + 1);
        let mut below = below.skip_while(|(_, frame)| is_handler(frame) || is_trampoline(frame));
        below.next().map(|(at, _)| at)
    });
    Some(Sighting {
        walker,
        function,
        frame,
        handler,
        interrupted,
    })
}

/// Whether an asynchronous walker crashed.
pub(super) fn judge(log: &CrashLog) -> WalkerCrash {
    let no = |why: String| WalkerCrash::No { why };
    let unknown = |why: String| WalkerCrash::Unknown { why };
    match &log.cause {
        None if log.problematic.is_none() => {
            return unknown("the log does not say why the JVM died".to_owned());
        }
        Some(Cause::OutOfMemory { text }) => return no(format!("memory ran out: {text}")),
        Some(Cause::Signal { signal, .. }) if sent(log) => {
            return no(format!("somebody sent {signal} to the process"));
        }
        _ => {}
    }
    if let Some(sighting) = on_stack(log) {
        let nearer = log.native_frames[..sighting.frame.min(log.native_frames.len())]
            .iter()
            .find(|frame| is_handler(frame) && !is_vm(frame));
        if let Some(nearer) = nearer {
            return unknown(format!(
                "another signal handler ({}) ran on top of {}",
                nearer.site(),
                sighting.function
            ));
        }
        let why = sighting_in_words(log, &sighting);
        return WalkerCrash::Yes {
            walker: sighting.walker,
            sighting: Some(sighting),
            why,
        };
    }
    own_run(log).unwrap_or_else(|| without_walker(log))
}

/// A log of a process of walkfuzz's own: its walks run on another stack than the walked thread's, so that HotSpot cannot
/// read that stack, and the walker is not on the list.
fn own_run(log: &CrashLog) -> Option<WalkerCrash> {
    let thread = log
        .thread
        .as_ref()
        .and_then(|thread| thread.name.as_deref());
    let own_thread = thread.filter(|name| name.starts_with(OWN_THREADS));
    if own_thread.is_none() && !log.options().contains(OWN_RUNS) {
        return None;
    }
    // A fault in the program itself is no walk's, whatever stack it ran on.
    let in_vm = matches!(log.cause, Some(Cause::Internal { .. })) || log.site().is_some_and(is_vm);
    Some(match own_thread {
        Some(name) if in_vm && log.stack.is_elsewhere() => WalkerCrash::Yes {
            walker: OWN_WALKER,
            sighting: None,
            why: format!(
                "a run of walkfuzz's own: the thread {name} was held, and sp is in the stack that its walks run on"
            ),
        },
        _ => WalkerCrash::Unknown {
            why: "a run of walkfuzz's own: the run's mapped record says whether a walk was open"
                .to_owned(),
        },
    })
}

fn without_walker(log: &CrashLog) -> WalkerCrash {
    let frames = &log.native_frames;
    let loaded = profilers(log);
    let mentioned = if loaded.is_empty() {
        String::new()
    } else {
        format!(" ({} was at work in the process)", loaded.join(" and "))
    };
    // A stripped profiler: its library is on the stack without names.
    let unnamed = frames.iter().position(|frame| {
        frame.function.is_none() && profiler_of(frame).is_some() && frame.kind == FrameKind::Native
    });
    if let Some((at, walker)) = unnamed.and_then(|at| Some((at, profiler_of(&frames[at])?))) {
        let module = frames[at].module.as_deref().unwrap_or(walker);
        let handler = handler_below(frames, at);
        return match handler.filter(|handler| frames[handler + 1..].iter().any(is_signal_frame)) {
            Some(handler) => WalkerCrash::Yes {
                walker,
                sighting: Some(Sighting {
                    walker,
                    function: frames[at].site(),
                    frame: at,
                    handler: Some(handler),
                    interrupted: None,
                }),
                why: format!("{module}, which has no symbols, is on the stack of a signal handler"),
            },
            None => WalkerCrash::Unknown {
                why: format!(
                    "{module} is on the stack and has no symbols: a walk, or other work of it"
                ),
            },
        };
    }
    let whole = !log.more_native_frames
        && frames.last().is_some_and(|frame| {
            let name = frame.function.as_deref().unwrap_or("");
            OUTERMOST
                .iter()
                .any(|outermost| name.starts_with(outermost))
        });
    if whole {
        return WalkerCrash::No {
            why: format!(
                "no walker is among the native frames ({}), which go to the thread's begin{mentioned}",
                frames.len()
            ),
        };
    }
    if frames.is_empty() && log.problematic.is_none() {
        return WalkerCrash::Unknown {
            why: format!("the log has no native frames{mentioned}"),
        };
    }
    if log.libraries.is_empty() {
        return WalkerCrash::Unknown {
            why: "no walker is on the part of the stack that the log has, and the log ends before it lists libraries"
                .to_owned(),
        };
    }
    if loaded.is_empty() {
        return WalkerCrash::No {
            why: "no walker is on the stack, no profiler's library is loaded, and JFR was not on"
                .to_owned(),
        };
    }
    WalkerCrash::Unknown {
        why: format!(
            "no walker is among the native frames ({}), but they end early{mentioned}",
            frames.len()
        ),
    }
}

/// Which profilers were at work in the process, by libraries, agents and threads.
fn profilers(log: &CrashLog) -> Vec<&'static str> {
    let mut found: Vec<&'static str> = Vec::new();
    let mut add = |name: &'static str| {
        if !found.contains(&name) {
            found.push(name);
        }
    };
    for (library, name) in PROFILERS {
        let mapped = log
            .libraries
            .iter()
            .any(|range| range.file_name().starts_with(library));
        if mapped || log.options().contains(library) {
            add(name);
        }
    }
    let jfr_thread = log.threads.iter().any(|thread| {
        let name = thread.name.as_deref().unwrap_or("");
        name.starts_with("JFR ") || name.starts_with("JfrThreadSampler")
    });
    if jfr_thread || log.options().contains("-XX:StartFlightRecording") {
        add("JFR");
    }
    found
}

fn sighting_in_words(log: &CrashLog, sighting: &Sighting) -> String {
    let Sighting { function, .. } = sighting;
    let frames = &log.native_frames;
    let own_thread = log.native_frames.iter().any(|frame| {
        frame
            .function
            .as_deref()
            .is_some_and(|name| name.contains("::run("))
    }) && sighting.walker.starts_with("jfr");
    if own_thread {
        return format!(
            "{function} is on the stack of the sampler's own thread, which walks others"
        );
    }
    match (sighting.handler, sighting.interrupted) {
        (Some(handler), Some(interrupted)) => format!(
            "{function} is on the stack below the signal handler {}, which interrupted {}",
            frames[handler].site(),
            frames[interrupted].site()
        ),
        (Some(handler), None) => format!(
            "{function} is on the stack, called from {}, where the stack ends as at a signal handler",
            frames[handler].site()
        ),
        (None, _) => {
            format!("{function} is on the stack; no signal handler is to be seen below it")
        }
    }
}

/// Whether somebody sent the signal: the log says it, or `si_code` is of `kill`, `sigqueue`, `tgkill`.
fn sent(log: &CrashLog) -> bool {
    let by_cause = matches!(
        log.cause,
        Some(Cause::Signal {
            sent_by_kill: true,
            ..
        })
    );
    let code = log
        .siginfo
        .as_ref()
        .and_then(|info| info.code_name.as_deref());
    by_cause || matches!(code, Some("SI_USER" | "SI_QUEUE" | "SI_TKILL"))
}
