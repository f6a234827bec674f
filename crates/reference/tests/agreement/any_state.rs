//! Java threads in whatever state they are: a signal to one after the other, both walks in its handler.

use std::ffi::c_void;
use std::time::{Duration, Instant};

use walkfuzz_context::{Address, Arch, Registers};
use walkfuzz_engine::{Errand, Errands, Live};
use walkfuzz_guard::read_registers;
use walkfuzz_harness::world::World;
use walkfuzz_reference::{CheckedMemory, End, Reference, ReferenceFrame, Thread, Walk};
use walkfuzz_vmstructs::{JavaThread, java_threads};
use walkfuzz_walkers::{
    Agct, Ended, Start, ThreadHandle, TraceBuffer, Walker as _, as_interrupted, behind_whole,
    walk_bare,
};

use crate::Options;
use crate::tally::{Pair, Tally};

const DEPTH: usize = 1024;

/// How long a thread has to take its signal.
const PATIENCE: Duration = Duration::from_millis(200);

/// What the handler needs, and what it leaves.
struct Order {
    thread: ThreadHandle,
    java_thread: Address,
    agct: Agct,
    reference: Reference,
    trace: Box<TraceBuffer>,
    frames: Box<[ReferenceFrame]>,
    again: Box<[ReferenceFrame]>,
    again_count: usize,
    behind: Box<[ReferenceFrame]>,
    behind_count: Option<usize>,
    methods: Box<[Address]>,
    registers: Registers,
    facts: Option<Thread>,
    code: Option<i32>,
    walk: Walk,
}

/// In the thread's handler.
fn walk_here(order: &mut Order, context: *mut libc::ucontext_t) {
    // SAFETY: the kernel's context.
    order.registers = unsafe { read_registers(context) };
    let memory = &CheckedMemory;
    order.facts = order.reference.thread(memory, order.java_thread).ok();
    if let Some(facts) = &order.facts {
        order.walk = order
            .reference
            .walk(memory, facts, &order.registers, &mut order.frames);
        let frames = order.frames.get(..order.walk.frames).unwrap_or_default();
        let again = &mut order.again;
        let registers = &order.registers;
        order.again_count = as_interrupted(
            &order.reference,
            &CheckedMemory,
            facts,
            registers,
            frames,
            again,
        );
        let behind = &mut order.behind;
        order.behind_count = behind_whole(
            &order.reference,
            &CheckedMemory,
            facts,
            registers,
            frames,
            behind,
        );
    }
    let start = Start::Context(context.cast());
    order.code = None;
    if let Some(call) = order
        .agct
        .prepare(&mut order.trace, DEPTH as i32, order.thread, start)
    {
        // SAFETY: prepared for this thread.
        let walked = unsafe { walk_bare(&order.agct, &call, &order.trace) };
        if let Ended::Returned(code) = walked.ended {
            order.code = Some(code.0);
        }
    }
    let count = order.code.unwrap_or(0).max(0) as usize;
    for (method, frame) in order.methods.iter_mut().zip(order.trace.frames(count)) {
        // While the thread stands here its methods are there.
        let resolved = order.reference.method_of_id(memory, frame.method);
        *method = resolved.unwrap_or_default();
    }
}

pub(crate) fn run(
    live: &mut Live,
    world: &World,
    agct: Agct,
    reference: Reference,
    options: &Options,
) -> Tally {
    let mut tally = Tally::new("any", options.examples);
    let mut order = Box::new(Order {
        thread: ThreadHandle {
            env: std::ptr::null_mut(),
            tid: 0,
        },
        java_thread: Address(0),
        agct,
        reference,
        trace: TraceBuffer::new(),
        frames: vec![ReferenceFrame::NONE; 4 * DEPTH].into(),
        again: vec![ReferenceFrame::NONE; 4 * DEPTH].into(),
        again_count: 0,
        behind: vec![ReferenceFrame::NONE; 4 * DEPTH].into(),
        behind_count: None,
        methods: vec![Address(0); DEPTH].into(),
        registers: Registers::zeroed(Arch::NATIVE),
        facts: None,
        code: None,
        walk: Walk {
            frames: 0,
            end: End::NoJavaFrames,
        },
    });
    let mut errands = Errands::install().unwrap();
    live.everybody_runs();
    let env = world.env_offset().unwrap();
    let began = Instant::now();
    let mut threads: Vec<JavaThread> = Vec::new();
    let mut walks = 0;
    let mut next = 0;
    // Each takes a signal's way to a thread that may have to wait for its turn.
    let wanted = options.walks / 4;
    while walks < wanted && began.elapsed() < Duration::from_secs(20 + options.walks / 20) {
        if next >= 4 * threads.len() {
            threads = java_threads(&world.hotspot, &CheckedMemory).unwrap().0;
            next = 0;
        }
        let Some(thread) = threads.get(next % threads.len()) else {
            continue;
        };
        next += 1;
        let walked;
        (order, walked) = walk_one(&mut errands, order, thread, env);
        if walked && let Some(facts) = &order.facts {
            walks += 1;
            let count = order.code.unwrap_or(0).max(0) as usize;
            tally.add(
                world,
                &Pair {
                    reference: &order.reference,
                    registers: &order.registers,
                    thread: facts,
                    code: order.code,
                    agct: order.trace.frames(count),
                    methods: &order.methods[..count.min(DEPTH)],
                    walk: order.walk,
                    frames: &order.frames[..order.walk.frames],
                    interrupted: &order.again[..order.again_count],
                    whole: order.behind_count.map(|count| &order.behind[..count]),
                    depth: DEPTH,
                },
            );
        }
    }
    tally
}

/// The order, and whether the thread walked itself.
fn walk_one(
    errands: &mut Errands,
    mut order: Box<Order>,
    thread: &JavaThread,
    env: u64,
) -> (Box<Order>, bool) {
    order.thread = ThreadHandle {
        env: (thread.address.0 + env) as *mut c_void,
        tid: thread.tid.0,
    };
    order.java_thread = thread.address;
    // SAFETY: the work is signal-safe; what the order points to is the JVM's, and stays.
    match unsafe { errands.send(thread.tid.0, PATIENCE, order, walk_here) } {
        Errand::Done(order) => (order, true),
        Errand::Missed(order) => (order, false),
        Errand::Stuck => panic!("a thread does not come to the end of its walk"),
    }
}
