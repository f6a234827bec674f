//! JVMTI as a third voice: threads that wait or are in native code are asked for their stack before and after both walkers walk them.
//!
//! A thread that is held in Java code reaches no safepoint, and JVMTI would wait for ever. So nobody is held here: the flow is at home, and the asked thread
//! walks itself in its handler. Where JVMTI gives the same frames before and after, and the thread's frame anchor is the same before, at and after the
//! walks, the thread has not moved, and the walks can be held against what JVMTI says.

use std::collections::HashSet;
use std::ffi::c_void;
use std::time::{Duration, Instant};

use walkfuzz_context::{Address, Arch, Registers};
use walkfuzz_engine::{Errand, Errands};
use walkfuzz_guard::{Fault, GuardSlot, read_registers, register_thread, unregister_thread};
use walkfuzz_jvm::{Jvm, PlatformThread};
use walkfuzz_reference::{Anchor, CheckedMemory, Reference};
use walkfuzz_vmstructs::{JavaThread, java_threads};
use walkfuzz_walkers::{
    Agreement, Explainer, Frame, Start, ThreadHandle, TraceBuffer, Voice, Walker, compare,
    contradiction, hash, walk_guarded,
};

use crate::chosen;
use crate::contradicted;
use crate::counted::Plain;
use crate::error::HarnessError;
use crate::oracle::Oracle;
use crate::third_voice::{AgainstJvmti, ThirdVoice};
use crate::world::World;

use super::compare::ComparePlan;

/// JVMTI's location of a frame of a native method, and AsyncGetCallTrace's.
const NATIVE_LOCATION: i64 = -1;
const NATIVE_BCI: i32 = -3;
/// Debug information's bytecode of a compiled method's entry (`SynchronizationEntryBCI`), which JVMTI gives as the first one (`compiledVFrame::bci`).
const ENTRY_BCI: i32 = -1;
/// How long a thread may take to begin its walks; it has a hundred times as long for them.
const PATIENCE: Duration = Duration::from_millis(200);
/// Between two rounds through the threads: they shall move on.
const PAUSE: Duration = Duration::from_millis(1);
/// Contradictions of one kind that are told in full.
const EXAMPLES: usize = 2;
/// A virtual thread's carrier stands in a method of this class, as JVMTI sees it.
const CONTINUATION: &str = "jdk.internal.vm.Continuation.";

/// Who walks and who judges.
pub(super) struct Voices<'a> {
    pub(super) jvm: &'a Jvm,
    pub(super) world: &'a World,
    pub(super) walker: &'a dyn Walker,
    pub(super) oracle: &'a Oracle,
    pub(super) reference: &'static Reference,
}

/// What a thread takes into its handler, and what it brings back.
struct Order {
    walkers: [*const dyn Walker; 2],
    traces: [Box<TraceBuffer>; 2],
    walks: [Plain; 2],
    thread: ThreadHandle,
    java_thread: Address,
    reference: &'static Reference,
    depth: i32,
    registers: Registers,
    /// Where the thread stood; `None` if it was in Java, or was not walked.
    anchor: Option<Anchor>,
}

/// Asks thread by thread until the plan's questions are asked or a quarter of its time is over. The flow must be at home.
pub(super) fn ask(
    voices: &Voices<'_>,
    plan: &ComparePlan,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<ThirdVoice, HarnessError> {
    let system = |what| move |source| HarnessError::System { what, source };
    let errands =
        Errands::install().map_err(system("cannot take the signal that threads are asked by"))?;
    let walkers = [voices.walker, voices.oracle.walker()];
    let mut asking = Asking {
        voices,
        depth: plan.depth,
        env_offset: voices.world.env_offset()?,
        errands,
        order: Some(Box::new(Order::new(walkers, voices.reference, plan.depth))),
        explainer: Explainer::new(voices.reference),
        stacks: HashSet::new(),
        said: ThirdVoice {
            walkers: walkers
                .map(|walker| AgainstJvmti {
                    name: walker.name().to_owned(),
                    ..AgainstJvmti::default()
                })
                .into(),
            ..ThirdVoice::default()
        },
    };
    let began = Instant::now();
    while asking.said.asked < plan.asked && began.elapsed() < plan.time / 4 && go_on() {
        let threads = java_threads(&voices.world.hotspot, &CheckedMemory);
        let threads = threads.map_err(|error| HarnessError::VmStructs(error.to_string()))?;
        voices.jvm.each_platform_thread(&mut |thread| {
            if asking.said.asked < plan.asked {
                asking.meet(thread, &threads.0);
            }
        })?;
        if asking.order.is_none() {
            // A walker that does not end, on a thread of the JVM's: this process is lost.
            return Err(system("a walk of a thread that stands still does not end")(
                std::io::ErrorKind::TimedOut.into(),
            ));
        }
        std::thread::sleep(PAUSE);
    }
    asking.said.stacks = asking.stacks.len() as u64;
    Ok(asking.said)
}

struct Asking<'a> {
    voices: &'a Voices<'a>,
    depth: i32,
    env_offset: u64,
    errands: Errands,
    /// `None` while a thread has it.
    order: Option<Box<Order>>,
    explainer: Explainer<'static>,
    /// Hashes of the stacks of threads that stood still.
    stacks: HashSet<u64>,
    said: ThirdVoice,
}

/// What came of asking one thread.
enum Met {
    Still(Vec<Frame>),
    Carrier,
    Moved,
    Missed,
}

impl Asking<'_> {
    /// Asks a thread, unless it is in Java or the calling one.
    fn meet(&mut self, thread: &PlatformThread, threads: &[JavaThread]) {
        let address = Address(thread.java_thread());
        let found = threads.iter().find(|thread| thread.address == address);
        // SAFETY: gettid has no preconditions.
        let own = unsafe { libc::gettid() };
        let Some(found) = found.filter(|found| found.tid.0 != own) else {
            return;
        };
        let Some(anchor) = self.anchor(address) else {
            return;
        };
        // None is left where a thread is stuck.
        let Some(order) = self.order.take() else {
            return;
        };
        self.said.asked += 1;
        match self.ask(thread, found, anchor, order) {
            Met::Still(frames) => {
                self.said.stood_still += 1;
                self.stacks.insert(hash(&frames));
                self.judge(address, &frames);
            }
            Met::Carrier => self.said.carriers += 1,
            Met::Moved => self.said.moved += 1,
            Met::Missed => self.said.missed += 1,
        }
    }

    /// The frame anchor of a thread that is not in Java and has one.
    fn anchor(&self, thread: Address) -> Option<Anchor> {
        anchor(self.voices.reference, thread)
    }

    fn ask(
        &mut self,
        thread: &PlatformThread,
        found: &JavaThread,
        anchor: Anchor,
        mut order: Box<Order>,
    ) -> Met {
        let address = found.address;
        let before = self.jvmti(thread);
        order.java_thread = address;
        order.thread = ThreadHandle {
            env: (address.0 + self.env_offset) as *mut c_void,
            tid: found.tid.0,
        };
        order.anchor = None;
        order.walks = [Plain::Broke; 2];
        // SAFETY: `walk` is signal-safe, and what it is given lives: the walkers as long as the session, whose end a stuck thread makes the process's.
        let sent = unsafe { self.errands.send(found.tid.0, PATIENCE, order, walk) };
        let is_missed = matches!(sent, Errand::Missed(_));
        let (Errand::Done(order) | Errand::Missed(order)) = sent else {
            return Met::Missed;
        };
        let at_walk = order.anchor;
        self.order = Some(order);
        if is_missed {
            return Met::Missed;
        }
        let after = self.jvmti(thread);
        let stood = at_walk == Some(anchor) && self.anchor(address) == Some(anchor);
        match before.filter(|before| stood && after.as_ref() == Some(before)) {
            Some(frames) if self.is_carrier(&frames) => Met::Carrier,
            Some(frames) => Met::Still(frames),
            None => Met::Moved,
        }
    }

    /// JVMTI's answer as a walker would give it; `None` if there is none, or no frame.
    fn jvmti(&self, thread: &PlatformThread) -> Option<Vec<Frame>> {
        let depth = u16::try_from(self.depth).unwrap_or(u16::MAX);
        let frames = thread.stack(depth).ok().filter(|said| !said.is_empty())?;
        let frame = |frame: &walkfuzz_jvm::StackFrame| Frame {
            bci: match frame.location {
                NATIVE_LOCATION => NATIVE_BCI,
                location => i32::try_from(location).unwrap_or(i32::MAX),
            },
            method: frame.method.0 as u64,
        };
        Some(frames.iter().map(frame).collect())
    }

    fn is_carrier(&self, frames: &[Frame]) -> bool {
        let top = frames.first();
        top.is_some_and(|top| {
            let name = self.voices.world.method_of_id(top.method);
            name.starts_with(CONTINUATION)
        })
    }

    /// Holds both walks against what JVMTI says.
    fn judge(&mut self, java_thread: Address, expected: &[Frame]) {
        let Some(order) = &self.order else { return };
        let walks = order.traces.iter().zip(order.walks);
        let walkers = [self.voices.walker, self.voices.oracle.walker()];
        let rows = self.said.walkers.iter_mut().zip(walkers);
        for ((row, walker), (trace, walk)) in rows.zip(walks) {
            let raw = trace.frames(walk.frames());
            let given: Vec<Frame> = raw.iter().map(as_jvmti_says).collect();
            let given = &given[..];
            row.at_entry += u64::from(raw != given);
            let agreement = compare(given, expected);
            row.agreements.count(agreement);
            let at = match agreement {
                Agreement::Differ { at } => at,
                // It has frames where there are none.
                Agreement::Prefix {
                    shorter: Voice::Second,
                    frames,
                } => frames,
                _ => continue,
            };
            let mut found = contradiction(given, expected, at);
            // What is known are ways of AsyncGetCallTrace's.
            if chosen::is_agct(walker) {
                let depth = usize::try_from(self.depth).unwrap_or(0);
                let registers = &order.registers;
                found.known =
                    self.explainer
                        .explain(&CheckedMemory, java_thread, registers, raw, depth);
            }
            row.known += u64::from(found.known.is_some());
            let said = contradicted::frames(self.voices.world, "jvmti", &found, given, expected);
            let alike = row
                .examples
                .iter()
                .filter(|example| (example.kind, example.known) == (said.kind, said.known));
            if alike.count() < EXAMPLES && !row.examples.contains(&said) {
                row.examples.push(said);
            }
        }
    }
}

/// A walker's frame as JVMTI would give it.
fn as_jvmti_says(frame: &Frame) -> Frame {
    let bci = match frame.bci {
        ENTRY_BCI => 0,
        bci => bci,
    };
    Frame { bci, ..*frame }
}

impl Order {
    fn new(walkers: [&dyn Walker; 2], reference: &'static Reference, depth: i32) -> Self {
        // Of the references' lifetimes nothing is left when the caller returns: a thread that is stuck is the end of the process.
        // SAFETY: the same reference, with a lifetime that `Asking::ask` answers for.
        let walkers = walkers.map(|walker| unsafe {
            std::mem::transmute::<*const (dyn Walker + '_), *const (dyn Walker + 'static)>(walker)
        });
        Self {
            walkers,
            traces: [TraceBuffer::new(), TraceBuffer::new()],
            walks: [Plain::Broke; 2],
            thread: ThreadHandle {
                env: std::ptr::null_mut(),
                tid: 0,
            },
            java_thread: Address(0),
            reference,
            depth,
            registers: Registers::zeroed(Arch::NATIVE),
            anchor: None,
        }
    }
}

/// On the asked thread, in its handler: signal-safe.
fn walk(order: &mut Order, context: *mut libc::ucontext_t) {
    let Some(anchor) = anchor(order.reference, order.java_thread) else {
        return;
    };
    let was_guarded = GuardSlot::current().is_some();
    let Ok(slot) = register_thread() else { return };
    // SAFETY: the kernel's context.
    order.registers = unsafe { read_registers(context) };
    let mut fault = Fault::NONE;
    let walks = order.walkers.iter().zip(&mut order.traces);
    for (walked, (walker, trace)) in order.walks.iter_mut().zip(walks) {
        // SAFETY: `Order::new` took it from a reference that lives.
        let walker = unsafe { &**walker };
        let start = Start::Context(context.cast());
        let call = walker.prepare(trace, order.depth, order.thread, start);
        // SAFETY: this thread's slot, and the walker's own call.
        let ended =
            call.map(|call| unsafe { walk_guarded(slot, walker, &call, trace, &mut fault) });
        *walked = Plain::of(ended, order.depth);
    }
    order.anchor = Some(anchor);
    if !was_guarded {
        // The JVM's threads keep no signal stack of ours. That one could not be taken away would only mean that it stays.
        let _ = unregister_thread();
    }
}

/// The frame anchor of a thread that is not in Java and has one.
fn anchor(reference: &Reference, thread: Address) -> Option<Anchor> {
    let facts = reference.thread(&CheckedMemory, thread).ok()?;
    (!facts.in_java && facts.anchor.sp.0 != 0).then_some(facts.anchor)
}
