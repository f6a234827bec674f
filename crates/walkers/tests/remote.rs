//! Whom a walker on another thread takes for a thread of the JVM, in every JVM of this machine: one process for each, because there is one JVM in a process.
#![expect(
    clippy::unwrap_used,
    reason = "a test, which clippy cannot see without the harness"
)]

use std::ffi::c_void;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use walkfuzz_guard::{Fault, Guard, GuardOptions, register_thread, unregister_thread};
use walkfuzz_jvm::{Jdk, Jvm, JvmOptions, Places, Source, start};
use walkfuzz_symbols::Modules;
use walkfuzz_vmstructs::{HotSpot, LiveMemory, ThreadSearch};
use walkfuzz_walkers::{
    Ended, NoSuchThread, Remote, RemoteError, RemoteFacts, RemoteMode, Start, ThreadHandle,
    TraceBuffer, Walker, walk_guarded,
};

/// A thread, as one that is attached names itself.
#[derive(Clone, Copy)]
struct Name {
    env: usize,
    tid: i32,
}

impl Name {
    fn handle(self) -> ThreadHandle {
        ThreadHandle {
            env: self.env as *mut c_void,
            tid: self.tid,
        }
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--child", home] => return child(Path::new(home)),
        ["--list", ..] => {
            println!("remote: test");
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    let (mut tried, mut failed) = (0, 0);
    for candidate in Places::from_env().discover() {
        let Ok(jdk) = candidate.jdk else {
            continue;
        };
        let program = walkfuzz_record::machine::command(std::env::current_exe().unwrap());
        let output = Command::new("timeout")
            .args(["-k", "5", "120"])
            .arg(program.get_program())
            .args(program.get_args())
            .arg("--child")
            .arg(&jdk.home)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        tried += 1;
        failed += u32::from(!output.status.success());
        println!(
            "{jdk}: {}\n{}{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    println!("{tried} JVMs, {failed} failed");
    ExitCode::from(u8::from(failed != 0))
}

fn child(home: &Path) -> ExitCode {
    let jdk = Jdk::at(home, Source::Named).unwrap();
    let feature = jdk.version.feature();
    let jvm = start(&JvmOptions::new(jdk)).unwrap();
    let _guard = Guard::install(GuardOptions::default()).unwrap();
    let checked = std::panic::catch_unwind(|| check(&jvm, feature));
    // The JVM's own exit handlers would meet its threads.
    // SAFETY: ends the process.
    unsafe { libc::_exit(i32::from(checked.is_err())) }
}

fn attached<T>(jvm: &Jvm, body: impl FnOnce(Name) -> T) -> T {
    jvm.with_env("a test", |env| {
        // SAFETY: no arguments.
        let tid = unsafe { libc::gettid() };
        let env = env.get_raw() as usize;
        Ok(body(Name { env, tid }))
    })
    .unwrap()
}

fn check(jvm: &Jvm, feature: u32) {
    let modules = Modules::of_this_process().unwrap();
    let libjvm = modules.by_name("libjvm.so").unwrap();
    let symbol = |name: &str| {
        Some(
            libjvm
                .table()?
                .address_of(name)?
                .wrapping_add(libjvm.bias()),
        )
    };
    let hotspot = HotSpot::attach(&LiveMemory::new(), &symbol).unwrap();
    let threads = ThreadSearch::new(hotspot.threads());
    let function = jvm.exported("AsyncGetCallTrace").unwrap();
    let find = |env: usize, java_thread: u64| {
        // SAFETY: this JVM's own function; environments that are none are refused before anything is made of them.
        unsafe { RemoteFacts::find(function, env as *mut c_void, java_thread, threads) }
    };

    // A thread that is not attached.
    let refused = find(0x1000, 0).map(|_| ());
    assert!(
        matches!(refused, Err(RemoteError::NotAttached)),
        "{refused:?}"
    );
    assert!(matches!(find(8, 0x10_0000), Err(RemoteError::NotAttached)));

    let gone = std::thread::scope(|scope| {
        let thread = scope.spawn(|| attached(jvm, |name| name));
        thread.join().unwrap()
    });
    attached(jvm, |own| {
        let java_thread = threads
            .with_tid(&LiveMemory::new(), walkfuzz_vmstructs::Tid(own.tid))
            .thread
            .unwrap();
        let facts = find(own.env, java_thread.0).unwrap();
        assert_eq!(facts.needs_key(), feature >= 17);
        assert_eq!(facts.knows_mark(), feature >= 17);
        let by = |mode, name: Name| Remote::new(facts, mode).walked(name.handle());
        for mode in RemoteMode::ALL {
            assert_eq!(by(mode, own), Ok(java_thread), "{mode:?}");
            // A thread that has ended.
            let ended = by(mode, gone).unwrap_err();
            println!("{}: {ended}", mode.name());
        }
        // A thread that is none of the JVM's: this process's first, whose id is there.
        let main = Name {
            tid: std::process::id().cast_signed(),
            ..own
        };
        let none = by(RemoteMode::Tid, main);
        if main.tid != own.tid {
            assert_eq!(none, Err(NoSuchThread::Tid(main.tid)));
        }
        for tid in [-1, 0, 1] {
            let nobody = Name { tid, ..own };
            assert_eq!(by(RemoteMode::Tid, nobody), Err(NoSuchThread::Tid(tid)));
        }
        // Environments that are stale, or never were.
        for env in [0, 8, own.env + 8, usize::MAX] {
            let stale = Name { env, ..own };
            assert!(by(RemoteMode::Env, stale).is_err(), "{env:#x}");
            let remote = Remote::new(facts, RemoteMode::Env);
            let mut trace = TraceBuffer::new();
            let start = Start::Context(std::ptr::null_mut());
            assert!(
                remote
                    .prepare(&mut trace, 8, stale.handle(), start)
                    .is_none()
            );
            assert_eq!(remote.unknown(), 1);
        }
        walk_from_outside(&Remote::new(facts, RemoteMode::Tid), own);
    });
}

/// What another thread walks, and that it is itself again afterwards.
fn walk_from_outside(remote: &Remote, name: Name) {
    let ended = std::thread::scope(|scope| {
        let walking = scope.spawn(|| {
            let slot = register_thread().unwrap();
            let mut trace = TraceBuffer::new();
            let mut fault = Fault::NONE;
            // SAFETY: all-zero is a valid ucontext_t; the walked thread is in native code.
            let mut context: Box<libc::ucontext_t> = Box::new(unsafe { std::mem::zeroed() });
            let start = Start::Context((&raw mut *context).cast());
            let mut ended = Vec::new();
            for _ in 0..100 {
                let call = remote
                    .prepare(&mut trace, 64, name.handle(), start)
                    .unwrap();
                // SAFETY: this thread's slot, the walker's call.
                let walked = unsafe { walk_guarded(slot, remote, &call, &trace, &mut fault) };
                ended.push(walked.ended);
            }
            unregister_thread().unwrap();
            ended
        });
        walking.join().unwrap()
    });
    let codes: Vec<i32> = ended
        .iter()
        .map(|ended| match ended {
            Ended::Returned(code) => code.0,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(codes.len(), 100);
    assert!(
        codes.iter().all(|code| *code != -8 && *code != -1),
        "{codes:?}"
    );
    println!("100 walks, the first gave {}", codes[0]);
}
