//! The handler by itself, with a walker that does nothing: what it allocates, which system calls it makes, what it costs.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::c_void;
use std::hint::black_box;
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use std::time::Duration;

use walkfuzz_guard::{Guard, GuardOptions};
use walkfuzz_jvm::HostFacts;
use walkfuzz_record::{Counter, Generation, Recorder, WalkerInfo};
use walkfuzz_walkers::{Call, Start, ThreadHandle, TraceBuffer, Walker};

use crate::clock::{Clock, SIGNALS};
use crate::options::Options;
use crate::sampler::Sampler;
use crate::sampling::Sampling;
use crate::threads::{self, Identity, Thread};
use crate::{protect, signals};

#[path = "../tests/support/forbid.rs"]
mod forbid;

use forbid::forbid_all_but;

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: passes everything on.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) };
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Answers three frames at once.
struct Nothing;

unsafe extern "C" fn nothing(trace: *mut c_void, _: i32, context: *mut c_void) {
    assert!(!context.is_null());
    // SAFETY: `prepare` passes its own trace.
    unsafe { (*trace.cast::<walkfuzz_walkers::CallTrace>()).num_frames = 3 };
}

impl Walker for Nothing {
    fn name(&self) -> &'static str {
        "nothing"
    }

    fn generation(&self) -> Generation {
        Generation::Agct
    }

    fn prepare(
        &self,
        trace: &mut TraceBuffer,
        depth: i32,
        _: ThreadHandle,
        start: Start,
    ) -> Option<Call> {
        let Start::Context(context) = start else {
            return None;
        };
        let depth = trace.reset(depth);
        Some(Call {
            function: nothing,
            first: (&raw mut trace.trace).cast(),
            depth,
            last: context,
        })
    }
}

/// The thread state of a pretended JavaThread.
static IN_JAVA: AtomicU32 = AtomicU32::new(8);

/// This thread as a sampled one, and a sampling of it. The state is the process's, so one at a time.
fn stage(
    guard: bool,
    folder: &std::path::Path,
) -> (&'static Sampler, &'static Thread, MutexGuard<'static, ()>) {
    let turn = threads::TURN.lock().unwrap();
    let walker = WalkerInfo {
        name: "nothing".to_owned(),
        generation: Generation::Agct,
        version: String::new(),
    };
    let mut record = walkfuzz_record::Options::new(walker);
    record.lanes = 8;
    let path = folder.join("record.map");
    let recorder = Recorder::create(&path, &record).unwrap();
    let options = Options {
        clocks: vec![Clock::Tick],
        interval: Duration::from_micros(100),
        guard,
        lanes: 8,
        ..Options::new(path)
    };
    let vm = HostFacts {
        state_offset: 0,
        in_java: 8,
        code: 0..0,
    };
    let original = Box::leak(Box::new(AtomicU32::new(1)));
    let sampler = Sampler::new(
        options,
        recorder,
        vm,
        Sampling::Other(&Nothing),
        original,
        None,
        None,
    )
    .publish();
    signals::install(&[(Clock::Tick, libc::SIGPROF)]).unwrap();
    assert_eq!(SIGNALS[Clock::Tick as usize].load(Relaxed), libc::SIGPROF);
    if guard {
        Guard::install(GuardOptions::default()).unwrap();
    }
    let who = Identity {
        key: threads::own_key(),
        // SAFETY: no arguments.
        tid: unsafe { libc::gettid() },
        env: 1,
        java_thread: &raw const IN_JAVA as u64,
    };
    let thread = threads::add(who).unwrap();
    (sampler, thread, turn)
}

fn leave(thread: &'static Thread, turn: MutexGuard<'static, ()>) {
    Sampler::retire();
    threads::remove(thread);
    protect::unregister(thread);
    drop(turn);
}

fn raise() {
    // SAFETY: a signal with a handler, to this thread.
    unsafe {
        libc::syscall(
            libc::SYS_tgkill,
            libc::getpid(),
            libc::gettid(),
            libc::SIGPROF,
        )
    };
}

fn samples(sampler: &Sampler) -> u64 {
    let lanes = (1..8).filter_map(|index| sampler.recorder.lane(index));
    lanes.map(|lane| lane.counter(Counter::Samples)).sum()
}

#[test]
fn the_handler_allocates_nothing_and_makes_no_system_call() {
    let folder = tempfile::tempdir().unwrap();
    for guard in [false, true] {
        let (sampler, thread, turn) = stage(guard, folder.path());
        // The first one registers the thread.
        raise();
        assert_eq!(samples(sampler), 1);
        // SAFETY: the child makes nothing but signals and its end.
        let child = unsafe { libc::fork() };
        if child == 0 {
            if let Some(slot) = protect::slot_of(thread).filter(|_| guard) {
                walkfuzz_guard::after_fork_in_child(slot);
            }
            forbid_all_but(&[
                libc::SYS_tgkill,
                libc::SYS_getpid,
                libc::SYS_gettid,
                libc::SYS_rt_sigreturn,
                libc::SYS_exit_group,
            ]);
            let before = ALLOCATIONS.load(Relaxed);
            for _ in 0..1000 {
                raise();
            }
            let allocated = ALLOCATIONS.load(Relaxed) != before;
            let well = samples(sampler) == 1001;
            // SAFETY: ends the child.
            unsafe { libc::_exit(if well && !allocated { 7 } else { 8 }) };
        }
        let mut status = 0;
        // SAFETY: the child made above.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert!(libc::WIFEXITED(status), "guard {guard}: status {status:#x}");
        assert_eq!(libc::WEXITSTATUS(status), 7, "guard {guard}");
        leave(thread, turn);
        std::fs::remove_file(folder.path().join("record.map")).unwrap();
    }
}

#[test]
fn a_forked_copy_writes_nothing_into_the_record() {
    let folder = tempfile::tempdir().unwrap();
    let (sampler, thread, turn) = stage(false, folder.path());
    // As `lifecycle` makes it; the stage's word is not wiped.
    let page = walkfuzz_guard::wiped_in_copies().unwrap();
    assert_eq!(page.load(Relaxed), 1);
    // SAFETY: the child only looks and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: ends the child.
        unsafe { libc::_exit(page.load(Relaxed) as i32 + 3) };
    }
    let mut status = 0;
    // SAFETY: the child made above.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(
        (libc::WIFEXITED(status), libc::WEXITSTATUS(status)),
        (true, 3)
    );
    assert_eq!(page.load(Relaxed), 1, "the original goes on");
    sampler.stand_for_copy(true);
    raise();
    assert_eq!(samples(sampler), 0, "zero means a copy");
    sampler.stand_for_copy(false);
    raise();
    assert_eq!(samples(sampler), 1);
    leave(thread, turn);
}

#[test]
fn errno_is_kept_and_threads_outside_java_are_walked_too() {
    let folder = tempfile::tempdir().unwrap();
    let (sampler, thread, turn) = stage(true, folder.path());
    // SAFETY: this thread's errno.
    let errno = || unsafe { *libc::__errno_location() };
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = 77 };
    IN_JAVA.store(4, Relaxed);
    for _ in 0..10 {
        raise();
    }
    IN_JAVA.store(8, Relaxed);
    assert_eq!(errno(), 77);
    assert_eq!(samples(sampler), 10);
    let outside = (1..8)
        .filter_map(|index| sampler.recorder.lane(index))
        .map(|lane| lane.counter(Counter::OutsideJava));
    assert_eq!(outside.sum::<u64>(), 10);
    assert!(
        thread.idle.load(Relaxed),
        "ten samples at one system call: it waits"
    );
    std::thread::spawn(|| {
        raise();
    })
    .join()
    .unwrap();
    assert_eq!(
        sampler.strays.load(Relaxed),
        1,
        "a thread that nobody knows"
    );
    leave(thread, turn);
}

/// The handler's own time: `cargo test --release -p walkfuzz-sampler --lib -- --ignored --nocapture cost`.
#[test]
#[ignore = "a measurement"]
fn cost_of_the_handler_outside_the_walker() {
    const ROUNDS: u32 = 1_000_000;
    let folder = tempfile::tempdir().unwrap();
    for guard in [false, true] {
        let (_, thread, turn) = stage(guard, folder.path());
        raise();
        // SAFETY: all-zero structures are valid; the context is this place's.
        let (mut info, mut context) = unsafe {
            let info: libc::siginfo_t = std::mem::zeroed();
            let mut context: libc::ucontext_t = std::mem::zeroed();
            libc::getcontext(&raw mut context);
            (info, context)
        };
        let time = |body: &mut dyn FnMut()| {
            let cpu = || crate::clock::cpu_nanoseconds(thread.tid.load(Relaxed)).unwrap();
            let mut best = f64::MAX;
            for _ in 0..5 {
                let before = cpu();
                for _ in 0..ROUNDS {
                    body();
                }
                best = best.min((cpu() - before) as f64 / f64::from(ROUNDS));
            }
            best
        };
        let handler = time(&mut || {
            // SAFETY: what the kernel would pass.
            unsafe {
                signals::on_sample(
                    libc::SIGPROF,
                    black_box(&raw mut info),
                    black_box((&raw mut context).cast()),
                );
            }
        });
        let delivery = time(&mut raise);
        println!(
            "guard {guard}: handler {handler:.0} ns, with delivery by tgkill {delivery:.0} ns"
        );
        leave(thread, turn);
        std::fs::remove_file(folder.path().join("record.map")).unwrap();
    }
}
