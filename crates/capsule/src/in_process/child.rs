//! The sandboxed child: maps the capsule, gives up system calls, walks.
//!
//! One thread. After [`Plan::new`] nothing allocates. The signal handler uses statics alone, for the thread pointer may be the capsule's.

use std::cell::UnsafeCell;
use std::ptr;
use std::ptr::NonNull;

use libc::{c_int, c_void, siginfo_t, ucontext_t};
use seccompiler::BpfProgram;
use walkfuzz_context::{Address, Registers};

use crate::arch;
use crate::capsule::{
    Capsule, Content, Entry, FaultOutcome, FramesOutcome, Layout, Outcome, PageBytes, Protection,
    SafeFetch, hash_of_frames,
};
use crate::error::PuppetError;
use crate::format::limits::PAGE;
use crate::in_process::report::{COLLISION, DONE, NO_FILTER, Report};
use crate::outcome::Ended;
use crate::puppet::{Absent, SEGV_ACCERR, SEGV_MAPERR, missing};

/// CPU time between two ticks; two in one walk are a hang.
const TICK_US: i64 = 250_000;
const SIGNAL_STACK: usize = 256 << 10;
/// Bytes that are compared and copied at once.
const LINE: usize = 64;
/// How many changed lines are put back one by one. A walk that changes more costs more.
const LINES: usize = 4096;

/// What the child needs, made before the fork.
pub(crate) struct Plan {
    pages: Vec<(u64, Protection, Box<PageBytes>)>,
    addresses: std::collections::BTreeSet<u64>,
    entry: Entry,
    stub: u64,
    safefetch: Vec<SafeFetch>,
    layout: Layout,
    expected: Outcome,
    times: u64,
    changed: Vec<(u64, [u8; LINE])>,
    signal_stack: Vec<u8>,
}

impl Plan {
    pub(crate) fn new(capsule: &Capsule, times: u64) -> Result<Self, PuppetError> {
        let facts = &capsule.facts;
        let mut pages = Vec::with_capacity(capsule.pages.len());
        for (&address, page) in &capsule.pages {
            let bytes = match &page.entry {
                Content::Bytes(bytes) => bytes.clone(),
                Content::Zero => Box::new([0; PAGE as usize]),
                Content::File { file, .. } => return Err(facts.needs(*file)),
            };
            pages.push((address, page.protection, bytes));
        }
        Ok(Self {
            addresses: capsule.pages.keys().copied().collect(),
            pages,
            entry: facts.entry,
            stub: facts.stub.0,
            safefetch: facts.safefetch.clone(),
            layout: capsule.layout.clone(),
            expected: facts.expected,
            times,
            changed: Vec::with_capacity(LINES),
            signal_stack: vec![0; SIGNAL_STACK],
        })
    }
}

/// What handler and walks share.
struct State {
    plan: *const Plan,
    /// A walk is under way.
    walking: bool,
    near_misses: u32,
    ticks: u32,
    /// How the walk ended, if not by returning.
    ended: Option<Ended>,
}

struct Shared(UnsafeCell<State>);

// SAFETY: used by the one thread of the child and its handler, which runs only while that thread is in the walk.
unsafe impl Sync for Shared {}

static STATE: Shared = Shared(UnsafeCell::new(State {
    plan: ptr::null(),
    walking: false,
    near_misses: 0,
    ticks: 0,
    ended: None,
}));

/// Runs the plan and ends the process.
pub(crate) fn run(plan: &mut Plan, filter: &BpfProgram, report: NonNull<Report>) -> ! {
    // SAFETY: shared with the parent, which reads it when this process has ended.
    let report = unsafe { &mut *report.as_ptr() };
    if let Err(address) = map(plan) {
        (report.state, report.address) = (COLLISION, address);
        exit(1);
    }
    handle_signals(plan);
    if seccompiler::apply_filter(filter).is_err() {
        report.state = NO_FILTER;
        exit(1);
    }
    let mut changed_is_known = false;
    let mut last = None;
    for _ in 0..plan.times {
        if !changed_is_known {
            changed_is_known = last.is_some();
            find_changed(plan);
        }
        restore(plan);
        let ended = walk(plan);
        if last != Some(ended) {
            // Another walk than the last one has written elsewhere.
            changed_is_known = false;
        }
        last = Some(ended);
        report.walks += 1;
        if plan.expected.is(&ended) {
            report.identical += 1;
        } else {
            report.note(&ended);
        }
    }
    report.state = DONE;
    exit(0)
}

fn exit(code: i32) -> ! {
    // SAFETY: ends the process without exit handlers.
    unsafe { libc::_exit(code) }
}

/// Maps pages and stub. The address of the page that cannot be.
fn map(plan: &Plan) -> Result<(), u64> {
    let place = |address: u64, bytes: &PageBytes, protection: Protection| {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let at = address as *mut c_void;
        // SAFETY: nothing that exists is replaced; the new page is filled, and then protected.
        unsafe {
            if libc::mmap(at, PAGE as usize, access, flags, -1, 0) != at {
                return Err(address);
            }
            ptr::copy_nonoverlapping(bytes.as_ptr(), at.cast::<u8>(), bytes.len());
            match libc::mprotect(at, PAGE as usize, protection.mmap()) {
                0 => Ok(()),
                _ => Err(address),
            }
        }
    };
    let code = Protection::new(true, false, true);
    place(plan.stub, &arch::leaving_stub(), code)?;
    for (address, protection, bytes) in &plan.pages {
        place(*address, bytes, *protection)?;
    }
    Ok(())
}

fn handle_signals(plan: &mut Plan) {
    let state = STATE.0.get();
    // SAFETY: no walk is under way; the handler is installed before the first one, with a stack of its own.
    unsafe {
        (*state).plan = plan;
        let stack = libc::stack_t {
            ss_sp: plan.signal_stack.as_mut_ptr().cast(),
            ss_flags: 0,
            ss_size: plan.signal_stack.len(),
        };
        libc::sigaltstack(&stack, ptr::null_mut());
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_signal as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        for signal in [
            libc::SIGSEGV,
            libc::SIGBUS,
            libc::SIGILL,
            libc::SIGFPE,
            libc::SIGTRAP,
            libc::SIGSYS,
            libc::SIGPROF,
        ] {
            libc::sigaction(signal, &action, ptr::null_mut());
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, ptr::null_mut());
        let tick = libc::timeval {
            tv_sec: 0,
            tv_usec: TICK_US,
        };
        let timer = libc::itimerval {
            it_interval: tick,
            it_value: tick,
        };
        libc::syscall(
            libc::SYS_setitimer,
            libc::ITIMER_PROF,
            &raw const timer,
            ptr::null_mut::<c_void>(),
        );
    }
}

/// The capsule's page at this address, as it is now.
fn page_now(address: u64) -> *mut PageBytes {
    address as *mut PageBytes
}

/// Which lines are not as they were, in pages that can be written.
fn find_changed(plan: &mut Plan) {
    plan.changed.clear();
    for (address, protection, bytes) in &plan.pages {
        if !protection.write() || !protection.read() {
            continue;
        }
        // SAFETY: mapped readable in `map`, and nothing else runs.
        let now = unsafe { &*page_now(*address) };
        let lines = bytes.as_chunks::<LINE>().0.iter();
        for (index, (before, after)) in (0_u64..).zip(lines.zip(now.as_chunks::<LINE>().0)) {
            if before != after && plan.changed.len() < plan.changed.capacity() {
                let at = address + index * LINE as u64;
                plan.changed.push((at, *before));
            }
        }
    }
}

fn restore(plan: &Plan) {
    for (address, bytes) in &plan.changed {
        // SAFETY: a line of a page that is mapped writable; nothing else runs.
        unsafe { (*address as *mut [u8; LINE]).write(*bytes) };
    }
}

fn walk(plan: &Plan) -> Ended {
    let state = STATE.0.get();
    // SAFETY: the handler, which also uses the state, runs only within `enter`; `enter` comes back here whatever the walk does, or the process
    // ends.
    unsafe {
        (*state).near_misses = 0;
        (*state).ticks = 0;
        (*state).ended = None;
        (*state).walking = true;
        arch::enter(&plan.entry);
        (*state).walking = false;
        match (*state).ended {
            Some(ended) => ended,
            None => Ended::Outcome(returned(plan, (*state).near_misses)),
        }
    }
}

/// As the judge reads it.
fn returned(plan: &Plan, near_misses: u32) -> Outcome {
    let readable = |address: u64, length: u64| {
        let pages = address & !(PAGE - 1)..address.saturating_add(length);
        pages
            .step_by(PAGE as usize)
            .all(|page| plan.addresses.contains(&page))
    };
    let word = |offset: u64| {
        let at = plan.entry.trace.0.wrapping_add(offset);
        if !readable(at, 8) {
            return 0;
        }
        // SAFETY: a page of the capsule's. One that may not be read ends in the handler, and the process ends.
        unsafe { (at as *const u64).read_unaligned() }
    };
    let frames = word(8) as u32 as i32;
    let length = frames.clamp(0, plan.entry.depth) as usize * 16;
    let at = word(16);
    let hash = if readable(at, length as u64) {
        // SAFETY: as above.
        hash_of_frames(unsafe { std::slice::from_raw_parts(at as *const u8, length) })
    } else {
        0
    };
    Outcome::Frames(FramesOutcome {
        frames,
        hash,
        near_misses,
    })
}

/// Runs on the signal stack, with whichever thread pointer: uses none.
unsafe extern "C" fn on_signal(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let context = context.cast::<ucontext_t>();
    // SAFETY: the kernel's arguments, here and below; the interrupted code is the walk, which does not use the state.
    let state = unsafe { &mut *STATE.0.get() };
    if signal == libc::SIGPROF {
        state.ticks += 1;
        if state.walking && state.ticks >= 2 {
            state.ended = Some(Ended::Hang);
            // SAFETY: see above.
            unsafe { arch::leave(context) };
        }
        return;
    }
    if !state.walking {
        // Our own fault: the child is of no use any more.
        exit(2);
    }
    // SAFETY: set before the handlers were installed, and never changed.
    let plan = unsafe { &*state.plan };
    // SAFETY: see above.
    let (registers, code, address): (Registers, c_int, u64) = unsafe {
        (
            arch::context_registers(context),
            (*info).si_code,
            (*info).si_addr() as u64,
        )
    };
    let ended = if signal == libc::SIGSYS {
        // SAFETY: see above.
        Ended::SystemCall(unsafe { arch::refused_system_call(context) })
    } else {
        let pc = registers.pc();
        let fetch = plan.safefetch.iter().find(|fetch| fetch.fault == pc);
        let mut code = code;
        let mut absent = Absent::Unmapped;
        if signal == libc::SIGSEGV && code == SEGV_MAPERR {
            absent = missing(&plan.layout, |page| plan.addresses.contains(&page), address);
            if absent == Absent::Forbidden {
                code = SEGV_ACCERR;
            }
        }
        match (absent, fetch) {
            (Absent::Missing, _) => Ended::MissingPage(Address(address)),
            (_, Some(fetch)) if matches!(signal, libc::SIGSEGV | libc::SIGBUS) => {
                state.near_misses += 1;
                // SAFETY: see above.
                unsafe { arch::set_context_pc(context, fetch.continuation.0) };
                return;
            }
            _ => Ended::Outcome(Outcome::Fault(FaultOutcome {
                signal,
                code,
                address: Address(address),
                registers,
                near_misses: state.near_misses,
            })),
        }
    };
    state.ended = Some(ended);
    // SAFETY: see above.
    unsafe { arch::leave(context) };
}
