//! Walkers with planted faults, around the JVM's own.
//!
//! A fault must depend on the perturbation alone, wherever and whenever a walk is made. A walker sees the edited context only;
//! but that one still points at the floating-point state in the signal's frame on the walked thread's stack, and the context as the
//! kernel delivered it stands right below.

use std::ffi::c_void;
use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering};

use walkfuzz_context::{Arch, Batch, Perturbation};
use walkfuzz_record::{Code, Generation};
use walkfuzz_walkers::{Agct, Call, Frame, Start, ThreadHandle, TraceBuffer, WalkFunction, Walker};

/// The JVM's function.
static REAL: AtomicUsize = AtomicUsize::new(0);
/// Kernel ids of the threads that were walked.
static THREADS: [AtomicI32; 32] = [const { AtomicI32::new(0) }; 32];

/// How many threads were walked.
pub(crate) fn threads_walked() -> usize {
    THREADS
        .iter()
        .filter(|slot| slot.load(Ordering::Relaxed) != 0)
        .count()
}

/// Calls `function` in the place of AsyncGetCallTrace.
pub(crate) struct Planted {
    name: &'static str,
    inner: Box<dyn Walker>,
    function: WalkFunction,
}

/// AsyncGetCallTrace itself; the walked threads are counted.
pub(crate) fn nothing(agct: Agct) -> Box<dyn Walker> {
    plant("agct", Box::new(agct), walk)
}

/// Faults where sp alone was raised by at least [`LEAST`] bytes.
pub(crate) fn raised_sp(agct: Agct) -> Box<dyn Walker> {
    plant("raised-sp", Box::new(agct), fault_where_raised)
}

/// The same, around a walker that walks from another thread, of threads that are held: when one runs on, what its registers were is not known any more.
pub(crate) fn raised_sp_around(inner: Box<dyn Walker>) -> Box<dyn Walker> {
    struct Held(Box<dyn Walker>);
    impl Walker for Held {
        fn name(&self) -> &'static str {
            "raised-sp"
        }
        fn generation(&self) -> Generation {
            self.0.generation()
        }
        fn prepare(
            &self,
            trace: &mut TraceBuffer,
            depth: i32,
            thread: ThreadHandle,
            start: Start,
        ) -> Option<Call> {
            let call = self.0.prepare(trace, depth, thread, start)?;
            // SAFETY: as below; the thread is held now.
            let raised = unsafe { raised_by(call.last) }.is_some_and(|bytes| bytes >= LEAST);
            Some(Call {
                function: if raised { fault } else { call.function },
                ..call
            })
        }
        fn finish(&self, trace: &TraceBuffer) -> Code {
            self.0.finish(trace)
        }
        fn passes_for_another(&self) -> bool {
            self.0.passes_for_another()
        }
        fn left(&self, trace: &TraceBuffer) {
            self.0.left(trace);
        }
    }
    Box::new(Held(inner))
}

/// Faults where a context comes for the third time in a row: that of a thread that has been let go, if each moment is walked twice.
pub(crate) fn third_time(inner: Box<dyn Walker>) -> Box<dyn Walker> {
    plant("third-time", inner, fault_at_the_third)
}

/// Misbehaves as [`Nudge`] says.
pub(crate) fn misbehaving(agct: Agct) -> Box<dyn Walker> {
    plant("misbehaving", Box::new(agct), misbehave)
}

/// Gives a wrong bytecode for the first frame where rax alone was raised by at least [`LEAST`] bytes, and leaves the second frame out where rbx was.
pub(crate) fn lying(agct: Agct) -> Box<dyn Walker> {
    plant("liar", Box::new(agct), lie)
}

/// Gives a wrong bytecode for the first frame of every walk.
pub(crate) fn always_lying(agct: Agct) -> Box<dyn Walker> {
    plant("liar", Box::new(agct), lie_always)
}

/// Answers -5 to everything.
pub(crate) fn refusing(agct: Agct) -> Box<dyn Walker> {
    plant("refusing", Box::new(agct), refuse)
}

fn plant(name: &'static str, inner: Box<dyn Walker>, function: WalkFunction) -> Box<dyn Walker> {
    Box::new(Planted {
        name,
        inner,
        function,
    })
}

impl Walker for Planted {
    fn name(&self) -> &'static str {
        self.name
    }

    fn generation(&self) -> Generation {
        self.inner.generation()
    }

    fn prepare(
        &self,
        trace: &mut TraceBuffer,
        depth: i32,
        thread: ThreadHandle,
        start: Start,
    ) -> Option<Call> {
        let call = self.inner.prepare(trace, depth, thread, start)?;
        REAL.store(call.function as usize, Ordering::Relaxed);
        for slot in &THREADS {
            let known = slot.compare_exchange(0, thread.tid, Ordering::Relaxed, Ordering::Relaxed);
            if known.map_or_else(|tid| tid == thread.tid, |_| true) {
                break;
            }
        }
        Some(Call {
            function: self.function,
            ..call
        })
    }

    fn finish(&self, trace: &TraceBuffer) -> Code {
        self.inner.finish(trace)
    }

    fn passes_for_another(&self) -> bool {
        self.inner.passes_for_another()
    }

    fn left(&self, trace: &TraceBuffer) {
        self.inner.left(trace);
    }
}

/// What sp must be raised by for a walk to misbehave, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i64)]
pub(crate) enum Nudge {
    /// Reads from address 0.
    Null = 1000,
    /// Writes behind the last frame.
    Canary = 1008,
    /// Says that it wrote more frames than it may.
    Depth = 1016,
    /// Never returns.
    Hang = 1024,
    /// Aborts.
    Abort = 1032,
    /// Is killed by the kernel.
    Kill = 1040,
    /// Changes the word at the walked thread's sp. (No number that minimising tries next is another nudge.)
    Write = 900,
}

/// From this many bytes on [`raised_sp`] faults.
pub(crate) const LEAST: i64 = 64;

/// An input whose walks raise sp by so many bytes.
pub(crate) fn input(nudges: &[i64]) -> Vec<u8> {
    let walks: Vec<Perturbation> = nudges
        .iter()
        .map(|bytes| Perturbation::parse(Arch::NATIVE, &format!("sp+={bytes}")).unwrap())
        .collect();
    let mut batch = Batch::untouched(Arch::NATIVE);
    batch.set_walks(&walks);
    batch.to_bytes()
}

/// `ASGCT_CallTrace`.
#[repr(C)]
struct Trace {
    env: *mut c_void,
    num_frames: i32,
    frames: *mut Frame,
}

unsafe extern "C" fn walk(trace: *mut c_void, depth: i32, context: *mut c_void) {
    // SAFETY: `prepare` stored AsyncGetCallTrace; the arguments are those that it prepared.
    unsafe {
        let real: WalkFunction = std::mem::transmute(REAL.load(Ordering::Relaxed));
        real(trace, depth, context);
    }
}

unsafe extern "C" fn refuse(trace: *mut c_void, _: i32, _: *mut c_void) {
    // SAFETY: `prepare` passes a trace.
    unsafe { (*trace.cast::<Trace>()).num_frames = -5 };
}

unsafe extern "C" fn fault_where_raised(trace: *mut c_void, depth: i32, context: *mut c_void) {
    // SAFETY: `prepare` passes a context that was copied from the kernel's.
    unsafe {
        if raised_by(context).is_some_and(|bytes| bytes >= LEAST) {
            read_null();
        }
        walk(trace, depth, context);
    }
}

unsafe extern "C" fn fault(_: *mut c_void, _: i32, _: *mut c_void) {
    // SAFETY: the guard is there.
    unsafe { read_null() };
}

unsafe extern "C" fn fault_at_the_third(trace: *mut c_void, depth: i32, context: *mut c_void) {
    static BEFORE: AtomicU64 = AtomicU64::new(0);
    static TIMES: AtomicU64 = AtomicU64::new(0);
    // SAFETY: `prepare` passes a context.
    unsafe {
        let registers = walkfuzz_guard::read_registers(context.cast());
        let sum = |sum: u64, word: &u64| (sum ^ word).wrapping_mul(0x0000_0100_0000_01b3);
        let now = registers.words.iter().fold(0xcbf2_9ce4_8422_2325, sum);
        if BEFORE.swap(now, Ordering::Relaxed) != now {
            TIMES.store(0, Ordering::Relaxed);
        }
        if TIMES.fetch_add(1, Ordering::Relaxed) == 2 {
            read_null();
        }
        walk(trace, depth, context);
    }
}

unsafe extern "C" fn lie(trace: *mut c_void, depth: i32, context: *mut c_void) {
    // SAFETY: `prepare` passes its own trace and a context that was copied from the kernel's.
    unsafe {
        walk(trace, depth, context);
        let raised =
            |register| general_raised_by(context, register).is_some_and(|bytes| bytes >= LEAST);
        if raised(Liar::RAX) {
            move_first(&mut *trace.cast::<Trace>());
        } else if raised(Liar::RBX) {
            leave_out_second(&mut *trace.cast::<Trace>());
        }
    }
}

unsafe extern "C" fn lie_always(trace: *mut c_void, depth: i32, context: *mut c_void) {
    // SAFETY: as above.
    unsafe {
        walk(trace, depth, context);
        move_first(&mut *trace.cast::<Trace>());
    }
}

/// # Safety
/// The trace holds as many frames as it says.
unsafe fn move_first(trace: &mut Trace) {
    if trace.num_frames > 0 {
        // SAFETY: the caller's promise.
        unsafe { (*trace.frames).bci += 1 };
    }
}

/// # Safety
/// As for [`move_first`].
unsafe fn leave_out_second(trace: &mut Trace) {
    if trace.num_frames > 2 {
        let behind = trace.num_frames as usize - 2;
        // SAFETY: the caller's promise.
        unsafe { trace.frames.add(2).copy_to(trace.frames.add(1), behind) };
        trace.num_frames -= 1;
    }
}

/// Registers that no walker reads.
struct Liar;

#[cfg(target_arch = "x86_64")]
impl Liar {
    const RAX: usize = libc::REG_RAX as usize;
    const RBX: usize = libc::REG_RBX as usize;
}

#[cfg(not(target_arch = "x86_64"))]
impl Liar {
    const RAX: usize = 0;
    const RBX: usize = 1;
}

unsafe extern "C" fn misbehave(trace: *mut c_void, depth: i32, context: *mut c_void) {
    // SAFETY: as above; the buffer has a frame behind the last that may be written.
    unsafe {
        let is = |nudge: Nudge| raised_by(context) == Some(nudge as i64);
        if is(Nudge::Null) {
            read_null();
        } else if is(Nudge::Canary) {
            let trace = &mut *trace.cast::<Trace>();
            trace.num_frames = 1;
            trace.frames.add(depth as usize).write(Frame::default());
        } else if is(Nudge::Depth) {
            (*trace.cast::<Trace>()).num_frames = depth + 1;
        } else if is(Nudge::Hang) {
            loop {
                std::hint::spin_loop();
            }
        } else if is(Nudge::Abort) {
            libc::abort();
        } else if is(Nudge::Kill) {
            libc::kill(libc::getpid(), libc::SIGKILL);
        } else if is(Nudge::Write) {
            write_to_stack(context);
            walk(trace, depth, context);
        } else {
            walk(trace, depth, context);
        }
    }
}

#[inline(never)]
unsafe fn write_to_stack(context: *const c_void) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the word at the sp that the kernel delivered, on the stack of a thread that stands in its handler.
    unsafe {
        let edited = &(*context.cast::<libc::ucontext_t>()).uc_mcontext;
        let sp = edited.gregs[libc::REG_RSP as usize] - Nudge::Write as i64;
        let word = sp as *mut u64;
        word.write_volatile(word.read_volatile() ^ 1);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = context;
}

/// In assembly, because Rust checks its own reads of null.
#[inline(never)]
pub(crate) unsafe fn read_null() {
    // SAFETY: none. It faults, and that is what it is for.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!("mov {0}, [{0}]", inout(reg) 0_u64 => _);
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!("ldr {0}, [{0}]", inout(reg) 0_u64 => _);
    }
}

/// By how much sp was raised; `None` if pc was edited, too.
///
/// # Safety
/// `context` is a copy of a context that the kernel delivered to a thread which still stands in that handler.
#[cfg(target_arch = "x86_64")]
unsafe fn raised_by(context: *const c_void) -> Option<i64> {
    // SAFETY: the caller's promise.
    unsafe { general_raised_by(context, libc::REG_RSP as usize) }
}

/// By how much a register was raised; `None` if pc was edited, too.
///
/// # Safety
/// As for [`raised_by`].
#[cfg(target_arch = "x86_64")]
unsafe fn general_raised_by(context: *const c_void, register: usize) -> Option<i64> {
    // The kernel's `struct rt_sigframe` ends at the state, which is aligned to 64 bytes: return address, context (304 bytes),
    // siginfo (128 bytes), 16 bytes of padding.
    const BELOW: usize = 304 + 128 + 16;
    // SAFETY: the signal's frame stands as long as its handler runs; the walked thread does not touch it.
    unsafe {
        let edited = &(*context.cast::<libc::ucontext_t>()).uc_mcontext;
        let state = edited.fpregs as usize;
        let delivered = &(*((state - BELOW) as *const libc::ucontext_t)).uc_mcontext;
        if delivered.fpregs as usize != state {
            // Another layout: every case with a planted fault would find nothing.
            return None;
        }
        let pc = libc::REG_RIP as usize;
        (edited.gregs[pc] == delivered.gregs[pc])
            .then(|| edited.gregs[register].wrapping_sub(delivered.gregs[register]))
    }
}

/// aarch64's context holds its floating-point state itself: the frame on the stack cannot be found.
///
/// # Safety
/// None needed.
#[cfg(target_arch = "aarch64")]
unsafe fn raised_by(_: *const c_void) -> Option<i64> {
    None
}

/// As above.
///
/// # Safety
/// None needed.
#[cfg(target_arch = "aarch64")]
unsafe fn general_raised_by(_: *const c_void, _: usize) -> Option<i64> {
    None
}

/// Whether faults can be planted here.
pub(crate) const CAN_PLANT: bool = cfg!(target_arch = "x86_64");
