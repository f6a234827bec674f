//! The sandboxed child: maps the capsule, gives up system calls, walks.
//!
//! One thread. After [`Plan::new`] nothing allocates. The signal handler uses statics alone, for the thread pointer may be the capsule's.

use std::ptr;
use std::ptr::NonNull;

use libc::{c_int, c_void, siginfo_t, ucontext_t};
use seccompiler::BpfProgram;
use walkfuzz_context::{Address, Pc, Sp};

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
use crate::walking::{self, SIGNAL_STACK, Shared, TICK_US, Walking, set_clock, take_signal_stack};

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
    walking: Walking,
}

static STATE: Shared<State> = Shared::new(State {
    plan: ptr::null(),
    walking: Walking::NONE,
});

/// Runs the plan and ends the process.
pub(crate) fn run(plan: &mut Plan, filter: &BpfProgram, report: NonNull<Report>) -> ! {
    // SAFETY: shared with the parent, which reads it when this process has ended.
    let report = unsafe { &mut *report.as_ptr() };
    if let Err(address) = map(plan) {
        (report.state, report.address) = (COLLISION, address);
        exit(1);
    }
    // SAFETY: no walk is under way. The plan does not move any more.
    unsafe { (*STATE.get()).plan = plan };
    handle_signals(on_signal, &mut plan.signal_stack);
    set_clock(TICK_US);
    confine(filter, report);
    let mut changed_is_known = false;
    let mut last = None;
    let mut last_is_identical = false;
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
            last_is_identical = plan.expected.is(&ended);
            last = Some(ended);
        }
        report.walks += 1;
        if last_is_identical {
            report.identical += 1;
        } else {
            report.note(&ended);
        }
    }
    report.state = DONE;
    exit(0)
}

/// Faults and leaves, as often as that, and ends the process.
pub(crate) fn fault_only(
    times: u64,
    signal_stack: &mut [u8],
    filter: &BpfProgram,
    report: NonNull<Report>,
) -> ! {
    // SAFETY: as in `run`.
    let report = unsafe { &mut *report.as_ptr() };
    handle_signals(leave_only, signal_stack);
    confine(filter, report);
    for _ in 0..times {
        // SAFETY: nothing is mapped there, nothing was pushed, and the handler is installed.
        unsafe { arch::enter(&NOWHERE) };
        report.walks += 1;
        report.identical += 1;
    }
    report.state = DONE;
    exit(0)
}

/// A call that faults at once.
const NOWHERE: Entry = Entry {
    function: Pc(0),
    trace: Address(0),
    depth: 0,
    context: Address(0),
    stack: Sp(0),
    thread: Address(0),
    float_control: 0,
};

/// Gives up system calls, or ends the process.
fn confine(filter: &BpfProgram, report: &mut Report) {
    if seccompiler::apply_filter(filter).is_err() {
        report.state = NO_FILTER;
        exit(1);
    }
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

type Handler = unsafe extern "C" fn(c_int, *mut siginfo_t, *mut c_void);

/// Installs a handler that may be left without a return to the kernel: its signals are not blocked while it runs. `stack` lives as long as the
/// process.
fn handle_signals(handler: Handler, stack: &mut [u8]) {
    // SAFETY: no walk is under way; the handler is installed before the first one. All-zero is a valid action and a valid set.
    unsafe {
        // Without it the first fault ends the process, as without a handler.
        let _ = take_signal_stack(stack);
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
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
        // A Ctrl-C reaches the whole group; the parent hears it, and this process ends soon by itself.
        for signal in [libc::SIGINT, libc::SIGHUP] {
            libc::signal(signal, libc::SIG_IGN);
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, ptr::null_mut());
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
    let state = STATE.get();
    // SAFETY: the capsule is mapped, and the handlers are installed; this is the only thread.
    let (ended, near_misses) = unsafe {
        let walking = &raw mut (*state).walking;
        (
            walking::walk(walking, &plan.entry),
            (*walking).near_misses(),
        )
    };
    ended.unwrap_or_else(|| Ended::Outcome(returned(plan, near_misses)))
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
    let State { plan, walking } = unsafe { &mut *STATE.get() };
    if signal == libc::SIGPROF {
        if walking.tick() {
            // SAFETY: a walk is under way; SIGPROF is not blocked.
            unsafe { arch::leave_at_once() };
        }
        return;
    }
    if !walking.under_way() {
        // Our own fault: the child is of no use any more.
        exit(2);
    }
    // SAFETY: set before the handlers were installed, and never changed.
    let plan = unsafe { &**plan };
    // SAFETY: see above.
    let ended = unsafe { fault(plan, walking, signal, info, context) };
    if let Some(ended) = ended {
        walking.end(ended);
        // SAFETY: a walk is under way; no signal is blocked.
        unsafe { arch::leave_at_once() };
    }
}

/// The least that a handler can do.
unsafe extern "C" fn leave_only(_: c_int, _: *mut siginfo_t, _: *mut c_void) {
    // SAFETY: `fault_only` is in its call; no signal is blocked.
    unsafe { arch::leave_at_once() }
}

/// How the walk ended; `None` if it goes on.
///
/// # Safety
/// The arguments are a handler's, which interrupted a walk.
unsafe fn fault(
    plan: &Plan,
    walking: &mut Walking,
    signal: c_int,
    info: *mut siginfo_t,
    context: *mut ucontext_t,
) -> Option<Ended> {
    if signal == libc::SIGSYS {
        // SAFETY: the caller's promise.
        let number = unsafe { arch::refused_system_call(context) };
        return Some(Ended::SystemCall(number));
    }
    // SAFETY: the caller's promise.
    let (registers, mut code, address) = unsafe {
        (
            walkfuzz_guard::read_registers(context),
            (*info).si_code,
            (*info).si_addr() as u64,
        )
    };
    if signal == libc::SIGSEGV && code == SEGV_MAPERR {
        match missing(&plan.layout, |page| plan.addresses.contains(&page), address) {
            Absent::Forbidden => code = SEGV_ACCERR,
            Absent::Missing => return Some(Ended::MissingPage(Address(address))),
            Absent::Unmapped | Absent::Brought => {}
        }
    }
    // SAFETY: the caller's promise.
    if unsafe { walking.go_on(&plan.safefetch, signal, registers.pc(), context) } {
        return None;
    }
    Some(Ended::Outcome(Outcome::Fault(FaultOutcome {
        signal,
        code,
        address: Address(address),
        registers,
        near_misses: walking.near_misses(),
    })))
}
