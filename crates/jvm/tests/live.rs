//! Starts every JDK that this machine has, with every collector, runs the workload and walks it.
//!
//! There is one JVM per process, so this program runs itself again for each; without libtest, because a child is no test.

use std::ffi::c_void;
use std::path::Path;
use std::process::{Command, ExitCode, Output, Stdio};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use walkfuzz_jvm::{
    Collector, Jdk, JvmError, JvmOptions, MethodId, Places, Source, ThreadHooks, Workload,
    WorkloadHooks, place_frames, start,
};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--child", home, collector, folder] => child(home, collector, Path::new(folder)),
        ["--refuse", home, ref options @ ..] => refuse(home, options),
        ["--list", ..] => println!("live: test"),
        _ => return parent(),
    }
    ExitCode::SUCCESS
}

fn again(arguments: &[&str]) -> Output {
    let program = std::env::current_exe().expect("this program has a path");
    let program = walkfuzz_record::machine::command(program);
    let mut command = Command::new("timeout");
    command
        .args(["-k", "5", "120"])
        .arg(program.get_program())
        .args(program.get_args())
        .args(arguments)
        .stdin(Stdio::null());
    command.output().expect("this program can be run again")
}

fn parent() -> ExitCode {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut failures = 0;
    let mut report = |what: &str, output: &Output, begin: Instant| {
        if output.status.success() {
            println!(
                "ok: {what}: {}",
                String::from_utf8_lossy(&output.stdout).trim()
            );
        } else {
            failures += 1;
            println!(
                "FAILED after {:?}: {what}: {}",
                begin.elapsed(),
                output.status
            );
            println!(
                "{}{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            );
        }
    };
    let mut jdks = 0;
    for candidate in Places::from_env().discover() {
        let jdk = match candidate.jdk {
            Ok(jdk) => jdk,
            Err(e) => {
                println!("skip: {e}");
                continue;
            }
        };
        jdks += 1;
        let home = jdk.home.to_str().expect("a printable path");
        for collector in Collector::ALL {
            let begin = Instant::now();
            let output = again(&[
                "--child",
                home,
                collector.name(),
                folder.path().to_str().expect("a printable path"),
            ]);
            if output.status.code() == Some(77) {
                println!(
                    "skip: {jdk}, {}: {}",
                    collector.name(),
                    String::from_utf8_lossy(&output.stdout).trim()
                );
                continue;
            }
            report(&format!("{jdk}, {}", collector.name()), &output, begin);
        }
        for (options, says) in REFUSED {
            let begin = Instant::now();
            let mut arguments = vec!["--refuse", home];
            arguments.extend(options.split(' '));
            let mut output = again(&arguments);
            if output.status.success()
                && ![&output.stdout, &output.stderr]
                    .iter()
                    .any(|text| String::from_utf8_lossy(text).contains(says))
            {
                output
                    .stderr
                    .extend_from_slice(format!("expected a message with {says:?}\n").as_bytes());
                output.status = std::os::unix::process::ExitStatusExt::from_raw(256);
            }
            report(&format!("{jdk} refuses {options}"), &output, begin);
        }
    }
    if jdks == 0 {
        println!("skip: no JDK on this machine");
    }
    println!("{jdks} JDKs, {failures} failures");
    if failures == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Options that a JVM refuses by returning an error, by `abort` and by `exit`, and a part of what it says.
const REFUSED: [(&str, &str); 4] = [
    ("-XX:+NoSuchOption", "NoSuchOption"),
    ("-Xmx3x", "Invalid maximum heap size"),
    (
        "-Xshare:on -XX:SharedArchiveFile=/no/such/file",
        "shared archive",
    ),
    ("--limit-modules=no.such.module", "no.such.module"),
];

fn refuse(home: &str, options: &[&str]) {
    let jdk = Jdk::at(Path::new(home), Source::Named).expect("a JDK");
    let extra = options.iter().map(ToString::to_string).collect();
    let begin = Instant::now();
    match start(&JvmOptions {
        extra,
        ..JvmOptions::new(jdk.clone())
    }) {
        Err(error @ JvmError::Refused { .. }) => println!("{error} ({:?})", begin.elapsed()),
        Err(error) => panic!("not a refusal: {error}"),
        Ok(_) => panic!("the JVM started"),
    }
    assert!(matches!(
        start(&JvmOptions::new(jdk)),
        Err(JvmError::AlreadyStarted)
    ));
    // Parts of the JVM are still there; leave without running their destructors.
    unsafe_exit();
}

fn unsafe_exit() -> ! {
    use std::io::Write;
    std::io::stdout().flush().expect("standard output");
    // SAFETY: ends the process, nothing else.
    unsafe { libc::_exit(0) }
}

const WORKERS: usize = 4;
static STARTED: AtomicUsize = AtomicUsize::new(0);
static STOPPED: AtomicUsize = AtomicUsize::new(0);
static JAVA_THREADS: AtomicUsize = AtomicUsize::new(0);
static TURNS: [AtomicUsize; WORKERS] = [const { AtomicUsize::new(0) }; WORKERS];
static TIDS: [AtomicI32; WORKERS] = [const { AtomicI32::new(0) }; WORKERS];
static ENVS: [AtomicPtr<c_void>; WORKERS] = [const { AtomicPtr::new(ptr::null_mut()) }; WORKERS];
static STOP: AtomicBool = AtomicBool::new(false);

extern "C" fn started(env: *mut jni::sys::JNIEnv, index: i32) {
    let index = index as usize;
    ENVS[index].store(env.cast(), Ordering::SeqCst);
    // SAFETY: asks for this thread's id.
    TIDS[index].store(unsafe { libc::gettid() }, Ordering::SeqCst);
    STARTED.fetch_add(1, Ordering::SeqCst);
}

extern "C" fn await_turn(index: i32) -> i32 {
    let turns = TURNS[index as usize].fetch_add(1, Ordering::SeqCst);
    if STOP.load(Ordering::SeqCst) {
        -1
    } else if turns < 200 {
        turns as i32 + 1
    } else {
        0
    }
}

extern "C" fn stopped(_index: i32) {
    STOPPED.fetch_add(1, Ordering::SeqCst);
}

extern "C" fn thread_started(_env: *mut jni::sys::JNIEnv) {
    JAVA_THREADS.fetch_add(1, Ordering::SeqCst);
}

extern "C" fn thread_ended(_env: *mut jni::sys::JNIEnv) {}

#[repr(C)]
#[derive(Clone, Copy)]
struct Frame {
    line: i32,
    method: *mut c_void,
}

#[repr(C)]
struct Trace {
    env: *mut c_void,
    frames: i32,
    list: *mut Frame,
}

type Walk = unsafe extern "C" fn(trace: *mut Trace, depth: i32, context: *mut c_void);

const DEPTH: usize = 64;
static WALK: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
static FOUND: AtomicI32 = AtomicI32::new(0);
static METHODS: [AtomicUsize; DEPTH] = [const { AtomicUsize::new(0) }; DEPTH];
static WALKS: AtomicU32 = AtomicU32::new(0);

/// Walks the interrupted worker; one signal is under way at a time.
extern "C" fn profile(_signal: i32, _info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: asks for this thread's id.
    let tid = unsafe { libc::gettid() };
    for (worker, env) in TIDS.iter().zip(&ENVS) {
        if worker.load(Ordering::SeqCst) == tid {
            let mut list = [Frame {
                line: 0,
                method: ptr::null_mut(),
            }; DEPTH];
            let mut trace = Trace {
                env: env.load(Ordering::SeqCst),
                frames: 0,
                list: list.as_mut_ptr(),
            };
            // SAFETY: WALK holds AsyncGetCallTrace, and the environment is this thread's.
            unsafe {
                std::mem::transmute::<*mut c_void, Walk>(WALK.load(Ordering::SeqCst))(
                    &mut trace,
                    DEPTH as i32,
                    context,
                )
            };
            for (slot, frame) in METHODS.iter().zip(list) {
                slot.store(frame.method as usize, Ordering::SeqCst);
            }
            FOUND.store(trace.frames, Ordering::SeqCst);
        }
    }
    WALKS.fetch_add(1, Ordering::SeqCst);
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(
            begin.elapsed() < Duration::from_secs(40),
            "waited in vain: {what}"
        );
        std::thread::sleep(Duration::from_micros(50));
    }
}

fn child(home: &str, collector: &str, folder: &Path) {
    let begin = Instant::now();
    let jdk = Jdk::at(Path::new(home), Source::Named).expect("a JDK");
    let checked = begin.elapsed();
    let mut options = JvmOptions::new(jdk);
    options.collector = Collector::from_name(collector);
    options
        .class_path
        .push(place_frames(folder).expect("a writable folder"));
    options.error_folder = Some(folder.to_owned());
    let jvm = match start(&options) {
        Ok(jvm) => jvm,
        Err(JvmError::Refused { message, .. })
            if message.contains("not supported") || message.contains("Unrecognized VM option") =>
        {
            println!("{message}");
            std::process::exit(77);
        }
        Err(e) => panic!("{e}"),
    };
    let started_after = begin.elapsed();
    for name in [
        "AsyncGetCallTrace",
        "JVM_handle_linux_signal",
        "gHotSpotVMStructs",
        "gHotSpotVMTypes",
    ] {
        assert!(jvm.exported(name).is_some(), "{name}");
    }
    assert!(jvm.exported("no_such_symbol").is_none());
    assert!(matches!(start(&options), Err(JvmError::AlreadyStarted)));
    assert!(
        jvm.methods().count() > 2000,
        "{} ids",
        jvm.methods().count()
    );
    assert!(matches!(
        jvm.methods().name(MethodId(8)),
        Err(JvmError::UnknownMethod(8))
    ));

    jvm.methods()
        .watch_threads(ThreadHooks {
            started: thread_started,
            ended: thread_ended,
        })
        .expect("thread events");
    let hooks = WorkloadHooks {
        started,
        await_turn,
        stopped,
    };
    jvm.start_workload(&Workload {
        antagonist: Some(Duration::from_millis(20)),
        ..Workload::new(hooks)
    })
    .expect("the workload");
    wait_until("all workers take turns", || {
        TURNS.iter().all(|turns| turns.load(Ordering::SeqCst) > 1)
    });
    let turns_after = begin.elapsed();
    assert!(JAVA_THREADS.load(Ordering::SeqCst) > WORKERS);

    let (walks, good, named) = walk(&jvm, Duration::from_millis(700));
    // No share is demanded: while a collection runs, walks fail fast and many fit in.
    assert!(good >= 10, "{good} of {walks} walks found frames");
    assert!(named > 0, "no frame of the workload");
    let kinds = jvm.workload_kinds().expect("the kinds");
    assert!(
        kinds.iter().any(|kind| kind == "osr") && kinds.len() >= 30,
        "{kinds:?}"
    );
    assert_eq!(
        kinds.iter().any(|kind| kind == "continuations"),
        jvm.jdk().version.feature() >= 21,
        "{kinds:?}"
    );

    STOP.store(true, Ordering::SeqCst);
    wait_until("the workers stop", || {
        STOPPED.load(Ordering::SeqCst) == WORKERS
    });
    let turns: usize = TURNS.iter().map(|turns| turns.load(Ordering::SeqCst)).sum();
    println!(
        "checked {checked:.0?}, started {started_after:.0?}, turns {turns_after:.0?}; {turns} turns, {good}/{walks} walks, {} ids",
        jvm.methods().count()
    );
    unsafe_exit();
}

/// Walks the workers from signal handlers: how many walks, with how many frames, with how many names of the workload.
fn walk(jvm: &walkfuzz_jvm::Jvm, time: Duration) -> (u32, u32, u32) {
    WALK.store(
        jvm.exported("AsyncGetCallTrace")
            .expect("the walker")
            .cast_mut(),
        Ordering::SeqCst,
    );
    // SAFETY: the handler has the type that SA_SIGINFO prescribes.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction =
            profile as extern "C" fn(i32, *mut libc::siginfo_t, *mut c_void) as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        assert_eq!(libc::sigaction(libc::SIGPROF, &action, ptr::null_mut()), 0);
    }
    let (mut walks, mut good, mut named) = (0, 0, 0);
    let begin = Instant::now();
    while begin.elapsed() < time {
        for tid in &TIDS {
            // SAFETY: sends a signal to a thread of this process.
            unsafe {
                libc::syscall(
                    libc::SYS_tgkill,
                    libc::getpid(),
                    tid.load(Ordering::SeqCst),
                    libc::SIGPROF,
                )
            };
            walks += 1;
            wait_until("a walk", || WALKS.load(Ordering::SeqCst) == walks);
            let frames = FOUND.load(Ordering::SeqCst);
            assert_ne!(frames, -1, "nobody listens to class loading");
            good += u32::from(frames > 0);
            for slot in &METHODS[..frames.max(0) as usize] {
                match jvm.methods().name(MethodId(slot.load(Ordering::SeqCst))) {
                    Ok(name) => named += u32::from(name.starts_with("walkfuzz.frames.")),
                    // The class is so new that its ids do not exist yet, see MethodId.
                    Err(JvmError::UnknownMethod(0)) => {}
                    // A class may be unloaded between walk and name.
                    Err(JvmError::Jvmti { .. }) => {}
                    Err(e) => panic!("frame {e}"),
                }
            }
        }
    }
    (walks, good, named)
}
