//! Java threads in whatever state they are: a signal to one after the other, both walks in its handler.

use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use walkfuzz_context::{Address, Arch, Registers};
use walkfuzz_engine::Live;
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

/// The stages of one order to walk.
const IDLE: u32 = 0;
const ORDERED: u32 = 1;
const WALKING: u32 = 2;
const DONE: u32 = 3;

/// What the handler needs, and what it leaves.
struct Order {
    stage: AtomicU32,
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

static ORDER: AtomicPtr<Order> = AtomicPtr::new(std::ptr::null_mut());

fn signal() -> i32 {
    libc::SIGRTMIN() + 5
}

unsafe extern "C" fn on_signal(_: i32, _: *mut libc::siginfo_t, context: *mut c_void) {
    let order = ORDER.load(Ordering::Acquire);
    // SAFETY: leaked by `run`; only the stage is touched before the order is taken.
    let stage = unsafe { &(*order).stage };
    // A late signal finds an order that is not for it.
    // SAFETY: gettid has no preconditions; the thread's id is written before the stage.
    let is_mine = unsafe { libc::gettid() == (*order).thread.tid };
    let taken = stage.compare_exchange(ORDERED, WALKING, Ordering::AcqRel, Ordering::Relaxed);
    if !is_mine || taken.is_err() {
        return;
    }
    // SAFETY: the one who takes the order has it to itself until it is done.
    let order = unsafe { &mut *order };
    // SAFETY: the kernel's context.
    order.registers = unsafe { read_registers(context.cast()) };
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
    let start = Start::Context(context);
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
    order.stage.store(DONE, Ordering::Release);
}

pub(crate) fn run(
    live: &mut Live,
    world: &World,
    agct: Agct,
    reference: Reference,
    options: &Options,
) -> Tally {
    let mut tally = Tally::new("any", options.examples);
    let order: &'static mut Order = Box::leak(Box::new(Order {
        stage: AtomicU32::new(IDLE),
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
    }));
    let order: *mut Order = order;
    ORDER.store(order, Ordering::Release);
    // SAFETY: a complete action; the handler is signal-safe.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_signal as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        assert_eq!(
            libc::sigaction(signal(), &raw const action, std::ptr::null_mut()),
            0
        );
    }
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
        if walk_one(order, thread, env) {
            // SAFETY: done: the handler has left it.
            let order = unsafe { &*order };
            if let Some(facts) = &order.facts {
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
    }
    tally
}

/// Whether the thread walked itself.
fn walk_one(order: *mut Order, thread: &JavaThread, env: u64) -> bool {
    // SAFETY: no order is out: the handler does not touch it.
    unsafe {
        (*order).thread = ThreadHandle {
            env: (thread.address.0 + env) as *mut c_void,
            tid: thread.tid.0,
        };
        (*order).java_thread = thread.address;
    }
    // SAFETY: as above; from here on only the stage is touched until it is done.
    let stage = unsafe { &(*order).stage };
    stage.store(ORDERED, Ordering::Release);
    // SAFETY: a signal that this process handles; a thread that is gone is an error.
    let sent = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread.tid.0, signal()) };
    let began = Instant::now();
    loop {
        if stage.load(Ordering::Acquire) == DONE {
            stage.store(IDLE, Ordering::Release);
            return true;
        }
        if sent != 0 || began.elapsed() > Duration::from_millis(200) {
            // It may still take it, just now.
            let taken_back =
                stage.compare_exchange(ORDERED, IDLE, Ordering::AcqRel, Ordering::Relaxed);
            if taken_back.is_ok() {
                return false;
            }
        }
        std::thread::sleep(Duration::from_micros(50));
    }
}
