//! What the functions that are called in handlers do beside their work: they allocate nothing and make no system call, so they lock nothing either.
//!
//! Each JDK is a process of its own, whose threads are held in Java; the functions run in copies of it in which every other system call is deadly.

#![expect(
    clippy::unwrap_used,
    reason = "a test, which clippy cannot see without the harness"
)]

#[path = "../../../agents/sampler/tests/support/forbid.rs"]
mod forbid;

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::{c_char, c_int, c_void};
use std::process::{Command, ExitCode};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use walkfuzz_asgst::abi::iterator::{
    Class, ClassInfo, Frame, Iterator, LineNumberEntry, MethodInfo, options,
};
use walkfuzz_asgst::abi::queue::{Queue, QueueElement};
use walkfuzz_asgst::abi::{jep435, minimal};
use walkfuzz_asgst::api::{
    EarlyJep435Api, IteratorApi, Jep435Api, MinimalApi, QueueApi, SafepointApi,
};
use walkfuzz_context::Registers;
use walkfuzz_engine::{Engine as _, Frozen, Request, Shared};
use walkfuzz_harness::Settings;
use walkfuzz_harness::asgst::{prepare_queues, publish};
use walkfuzz_harness::start::{Subject, jvm_options, start};
use walkfuzz_jvm::Places;

const CHILD: &str = "WALKFUZZ_ASGST_TEST_CHILD";
const COPIES: u64 = 20;
const LIMIT: Duration = Duration::from_secs(60);
const DEPTH: usize = 64;

/// The system calls that the guard's fault handler makes, and the copy's own end.
const ALLOWED: [libc::c_long; 3] = [
    libc::SYS_gettid,
    libc::SYS_rt_sigreturn,
    libc::SYS_exit_group,
];

struct Counting;

static COUNTS: AtomicBool = AtomicBool::new(false);
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: passes everything on.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(u64::from(COUNTS.load(Relaxed)), Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        ALLOCATIONS.fetch_add(u64::from(COUNTS.load(Relaxed)), Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) };
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What the copies did.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    copies: u64,
    frames: u64,
    names: u64,
    enqueued: u64,
    refused: u64,
    allocations: u64,
}

/// Asks everything about each frame, twice.
unsafe extern "C" fn ask(iterator: *mut Iterator, seen: *mut c_void) {
    let api = IteratorApi::own();
    // SAFETY: the test's own; the functions take whatever they are given.
    unsafe {
        let seen = &mut *seen.cast::<Seen>();
        for _ in 0..2 {
            let mut frame = Frame::NONE;
            while (api.next_frame)(iterator, &mut frame) == 1 {
                seen.frames += 1;
                let mut text = [0 as c_char; 64];
                let mut entries = [LineNumberEntry::default(); 16];
                let mut info: MethodInfo = std::mem::zeroed();
                (info.method_name, info.method_name_length) = (text.as_mut_ptr(), 64);
                (api.get_method_info)(frame.method, &mut info);
                seen.names += u64::from(text[0] != 0);
                let mut class: ClassInfo = std::mem::zeroed();
                (class.class_name, class.class_name_length) = (text.as_mut_ptr(), 64);
                (api.get_class_info)(info.klass, &mut class);
                (api.get_class_id_num)((api.get_class)(frame.method));
                (api.get_method_id_num)(frame.method);
                (api.get_method_line_number)(frame.method, frame.bci);
                (api.get_method_line_number_table)(frame.method, entries.as_mut_ptr(), 16);
                let id = (api.method_to_jmethod_id)(frame.method);
                (api.jmethod_id_to_method)(id);
            }
            (api.state)(iterator);
            (api.rewind_iterator)(iterator);
        }
        let mut frame = Frame::NONE;
        (api.next_frame)(8 as *mut Iterator, &mut frame);
        (api.get_class_id_num)(Class(8));
        (api.jclass_to_class)(ptr::null_mut());
        (api.thread_state)();
    }
}

unsafe extern "C" fn go_on(_: *mut minimal::FrameInfo, seen: *mut c_void) -> c_int {
    // SAFETY: the test's own.
    unsafe { (*seen.cast::<Seen>()).frames += 1 };
    1
}

/// In a copy, where a thread is held in Java: what a profiler's handler does.
fn handle(registers: &Registers, context: *mut c_void, seen: &mut Seen) {
    let argument = ptr::from_mut(seen).cast::<c_void>();
    let (sp, fp, pc) = (registers.sp().0, registers.fp().0, registers.pc().0);
    // SAFETY: the context is the held thread's, and the rest is the test's own.
    unsafe {
        let api = IteratorApi::own();
        for options in 0..=options::ALL {
            (api.run_with_iterator)(context, options, Some(ask), argument);
            for wild in [0, 8, 1 << 63] {
                let pointer = |value: u64| (value ^ wild) as *mut c_void;
                let (sp, fp, pc) = (pointer(sp), pointer(fp), pointer(pc));
                (api.run_with_iterator_from_frame)(sp, fp, pc, options, Some(ask), argument);
            }
        }
        let (late, early) = (Jep435Api::own(), EarlyJep435Api::own());
        let mut frames: [jep435::CallFrame; DEPTH] = std::mem::zeroed();
        for options in 0..16 {
            let mut trace: jep435::CallTrace = std::mem::zeroed();
            trace.frames = frames.as_mut_ptr();
            (late.async_get_stack_trace)(&mut trace, DEPTH as i32, context, options);
            let mut trace: jep435::EarlyCallTrace = std::mem::zeroed();
            trace.frames = frames.as_mut_ptr();
            (early.async_get_stack_trace)(&mut trace, DEPTH as i32, context, options);
        }
        let small = MinimalApi::own();
        let frame = (small.get_frame)(context, true);
        (small.walk_stack_from_frame)(frame, Some(go_on), None, argument, 0);
        (small.is_java_frame)(frame);
        (small.compute_top_frame_at_safepoint)(frame);
    }
}

unsafe extern "C" fn take(_: *mut Iterator, _: *mut c_void, _: *mut c_void) {}

/// What a profiler does with a queue: into it, until it is full.
fn enqueue(queue: *mut Queue, context: *mut c_void, seen: &mut Seen) {
    let api = QueueApi::own();
    // SAFETY: the context is the held thread's, whose queue it is.
    unsafe {
        for _ in 0..3 {
            let answer = (api.enqueue)(queue, context, ptr::null_mut());
            seen.enqueued += u64::from(answer == 1);
            seen.refused += u64::from(answer <= 0);
        }
        let mut element: QueueElement = std::mem::zeroed();
        (api.get_enqueuable_element)(context, &mut element);
        (api.get_queue_element)(queue, -1);
        (api.get_queue_size_info)(queue);
        (api.resize_queue)(queue, 5);
        (api.capabilities)();
        for wrong in [ptr::null_mut(), ptr::without_provenance_mut(1)] {
            (api.enqueue)(wrong, context, ptr::null_mut());
            (api.enqueue)(queue, wrong.cast(), ptr::null_mut());
            (api.get_queue_element)(wrong, 0);
        }
        (SafepointApi::own().trigger_safe_point)();
    }
}

fn child() {
    let settings = Settings::from_environment().unwrap();
    let subject = start(&settings, jvm_options().unwrap(), ".".as_ref()).unwrap();
    let vm = publish(&subject.world, &subject.jvm).unwrap();
    prepare_queues(&subject.world, vm).unwrap();
    let Subject {
        live,
        agct,
        jvm: _jvm,
        guard: _guard,
        ..
    } = subject;
    let mut seen = Shared::new(Seen::default()).unwrap();
    let mut trace = walkfuzz_walkers::TraceBuffer::new();
    let mut frozen = Frozen::new(live, LIMIT);
    for _ in 0..COPIES {
        let visited = frozen.visit(&Request::fresh(), &mut |moment| {
            let untouched = moment.untouched;
            let call = moment.prepare(&agct, &untouched, 64, &mut trace).unwrap();
            let env = moment.thread.env.cast();
            // SAFETY: the held thread's; nothing is processed in a copy.
            let queue =
                unsafe { (QueueApi::own().register_queue)(env, 2, 0, Some(take), ptr::null_mut()) };
            assert!(!queue.is_null());
            forbid::forbid_all_but(&ALLOWED);
            COUNTS.store(true, Relaxed);
            handle(&untouched, call.last, &mut seen);
            enqueue(queue, call.last, &mut seen);
            seen.allocations += ALLOCATIONS.load(Relaxed);
            seen.copies += 1;
        });
        visited.unwrap();
    }
    frozen.go_home().unwrap();
    println!("{:?}", *seen);
    assert_eq!(seen.copies, COPIES);
    assert!(seen.frames > 10 * COPIES && seen.names > 10 * COPIES);
    // Two fit, and the third does not; a context whose top frame cannot be told is refused three times.
    let taken = seen.enqueued / 2;
    assert!(taken > COPIES / 2, "{:?}", *seen);
    let refused = taken + 3 * (COPIES - taken);
    assert_eq!((seen.enqueued, seen.refused), (2 * taken, refused));
    assert_eq!(seen.allocations, 0);
}

fn main() -> ExitCode {
    if std::env::args().any(|argument| argument == "--list") {
        println!("quiet: test");
        return ExitCode::SUCCESS;
    }
    if std::env::var_os(CHILD).is_some() {
        std::panic::set_hook(Box::new(|panic| {
            eprintln!("FAILED: {panic}");
            walkfuzz_harness::campaign::end_process(101);
        }));
        child();
        walkfuzz_harness::campaign::end_process(0);
    }
    let found = Places::from_env().discover().into_iter();
    let mut jdks: Vec<_> = found.filter_map(|candidate| candidate.jdk.ok()).collect();
    jdks.sort_by_key(|jdk| jdk.version.feature());
    jdks.dedup_by_key(|jdk| jdk.version.feature());
    if jdks.is_empty() {
        println!("skip: no JDK");
    }
    let mut code = ExitCode::SUCCESS;
    for jdk in &jdks {
        println!("== JDK {}", jdk.version);
        let folder = tempfile::tempdir().unwrap();
        let status = Command::new(std::env::current_exe().unwrap())
            .env(CHILD, "1")
            .env("WALKFUZZ_JDK", &jdk.home)
            .current_dir(folder.path())
            .status()
            .unwrap();
        if !status.success() {
            println!("FAILED: {status}");
            code = ExitCode::FAILURE;
        }
    }
    code
}
