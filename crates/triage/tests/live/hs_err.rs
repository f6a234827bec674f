//! Crash logs of JDKs that were made to crash: by a naive walker, by wild writes, by signals, by running out of memory.

use std::path::PathBuf;

use proptest::prelude::*;
use walkfuzz_triage::{Cause, CrashLog, FrameKind, Signal};

pub(crate) fn golden(name: &str) -> Vec<u8> {
    std::fs::read(folder().join(format!("{name}.log"))).unwrap()
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/live/data/hs_err")
}

fn names() -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| {
            entry
                .unwrap()
                .path()
                .file_stem()
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    names.sort();
    names
}

/// The log as one line per fact.
fn summary(log: &CrashLog) -> String {
    let mut lines = vec![
        format!("cause: {:?}", log.cause.as_ref().unwrap()),
        format!(
            "title: {}",
            log.signature(None)
                .map_or("none".to_owned(), |signature| signature.title(None))
        ),
        format!("process: {:?} {:?}", log.pid, log.tid),
        format!(
            "jdk: {}",
            log.jdk.as_ref().map_or("?".to_owned(), |v| v.to_string())
        ),
        format!("vm: {}", log.vm.as_deref().unwrap_or("?")),
        format!("thread: {:?}", log.thread),
        format!("siginfo: {:?}", log.siginfo),
        format!("problematic: {:?}", log.problematic),
        format!(
            "errors while reporting: {}, complete: {}",
            log.errors_while_reporting, log.complete
        ),
    ];
    for (kind, frames) in [("native", &log.native_frames), ("java", &log.java_frames)] {
        lines.extend(frames.iter().map(|f| {
            let number = |n: Option<u64>| n.map_or("-".to_owned(), |n| format!("{n:#x}"));
            let module = f.module.as_deref().unwrap_or("-");
            format!(
                "{kind} {:?} {module} {} | {} + {} | pc {}",
                f.kind,
                number(f.module_offset),
                f.site(),
                number(f.offset),
                number(f.pc)
            )
        }));
    }
    lines.join("\n")
}

#[test]
fn golden_logs() {
    let names = names();
    assert!(names.len() >= 14);
    for name in names {
        let log = CrashLog::parse(&golden(&name));
        insta::assert_snapshot!(name, summary(&log));
    }
}

#[test]
fn walker_crashes_of_all_lines_are_walker_crashes() {
    for (name, function) in [
        (
            "agct-11.0.13",
            "JavaThread::pd_get_top_frame_for_signal_handler",
        ),
        ("agct-17.0.7", "JavaThread::pd_get_top_frame"),
        ("agct-17.0.9", "JavaThread::pd_get_top_frame"),
        (
            "agct-21.0.8",
            "JavaThread::pd_get_top_frame_for_signal_handler",
        ),
        (
            "agct-25.0.2",
            "JavaThread::pd_get_top_frame_for_signal_handler",
        ),
    ] {
        let signature = CrashLog::parse(&golden(name)).signature(None).unwrap();
        assert_eq!(
            signature.to_string(),
            format!("SIGSEGV|{function}|agct"),
            "{name}"
        );
    }
}

#[test]
fn a_failed_check_happened_below_its_reporting() {
    let log = CrashLog::parse(
        b"#  Internal Error (frame.cpp:346), pid=1, tid=2\n#  guarantee(cb != nullptr) failed: x\n\
          Native frames:\n\
          V  [libjvm.so+0x100e9f8]  VMError::report_and_die(int, char const*)+0x2b8  (frame.cpp:346)\n\
          V  [libjvm.so+0x100f3b1]\n\
          V  [libjvm.so+0x6bd6a0]  report_vm_error(char const*, int, char const*, char const*, ...)+0xf0\n\
          V  [libjvm.so+0x6bd6a1]  frame::sender_raw(RegisterMap*) const+0x31\n\
          V  [libjvm.so+0x6bd6a2]  AsyncGetCallTrace+0x31\n",
    );
    assert_eq!(
        log.signature(None).unwrap().to_string(),
        "guarantee|frame::sender_raw|agct|frame.cpp:346 guarantee(cb != nullptr) failed"
    );
}

#[test]
fn frames_of_every_sort() {
    let log = CrashLog::parse(
        b"# Problematic frame:\n# V  [libjvm.so+0xe733f2]  frame::sender(RegisterMap*) const+0x1f2\n\
          Native frames: (J=compiled Java code)\n\
          J 12% c1 java.util.HashMap.get(Ljava/lang/Object;)Ljava/lang/Object; java.base@21.0.8 (23 bytes) @ 0x00007f00 [0x00007e00+0x100]\n\
          J 5  java.lang.Object.hashCode()I java.base@17.0.9 (0 bytes) @ 0x10 [0x8+0x8]\n\
          A 7  java.lang.Thread.run()V (17 bytes) @ 0x10 [0x8+0x8]\n\
          v  ~RuntimeStub::_new_array_Java\n\
          C  [libc.so.6+0x85f14]  __pthread_cond_wait+0x10  (futex.c:57)\n\
          C  0x00007ffb9f9fe5bf\n\
          C  [libasyncProfiler.so+0x1]  Profiler::recordSample(void*, unsigned long)+0x21\n\
          V  [libjvm.so+0x1]\n\
          ...<more frames>...\n\
          C  [after.so+0x1]\n",
    );
    let sites: Vec<_> = log
        .native_frames
        .iter()
        .map(|f| (f.kind, f.site()))
        .collect();
    assert_eq!(
        sites,
        [
            (FrameKind::Compiled, "java.util.HashMap.get".to_owned()),
            (FrameKind::Compiled, "java.lang.Object.hashCode".to_owned()),
            (FrameKind::Aot, "java.lang.Thread.run".to_owned()),
            (FrameKind::VmStub, "RuntimeStub::_new_array_Java".to_owned()),
            (FrameKind::Native, "__pthread_cond_wait".to_owned()),
            (FrameKind::Native, "unknown".to_owned()),
            (FrameKind::Native, "Profiler::recordSample".to_owned()),
            (FrameKind::Vm, "libjvm.so+0x1".to_owned()),
        ]
    );
    assert_eq!(log.native_frames[5].pc, Some(0x7ffb_9f9f_e5bf));
    assert_eq!(log.problematic.unwrap().site(), "frame::sender");
    assert!(log.cause.is_none());
}

#[test]
fn failed_checks_of_every_sort() {
    let cause = |second: &str| {
        let text = format!(
            "#  Internal Error (/build/src/hotspot/share/runtime/frame.cpp:77), pid=1, tid=2\n#  {second}\n#\n"
        );
        match CrashLog::parse(text.as_bytes()).cause {
            Some(Cause::Internal {
                place,
                what,
                message,
            }) => format!("{place} | {what} | {}", message.unwrap_or_default()),
            other => format!("{other:?}"),
        }
    };
    let all = [
        "guarantee(cb != nullptr) failed: must be: so",
        "guarantee(a(b) == c()) failed",
        "assert(!thread->in_asgct()) failed: not reentrant",
        "Error: ShouldNotReachHere()",
        "Error: Unimplemented()",
        "fatal error: Not compilable at tier 3: out of stack",
        "fatal error: OutOfMemory encountered: Java heap space",
        "",
    ]
    .map(cause);
    insta::assert_snapshot!(all.join("\n").replace("| \n", "|\n").trim_end(), @r#"
    frame.cpp:77 | guarantee(cb != nullptr) failed | must be: so
    frame.cpp:77 | guarantee(a(b) == c()) failed |
    frame.cpp:77 | assert(!thread->in_asgct()) failed | not reentrant
    frame.cpp:77 | ShouldNotReachHere() |
    frame.cpp:77 | Unimplemented() |
    frame.cpp:77 | fatal error | Not compilable at tier 3: out of stack
    Some(OutOfMemory { text: "fatal error: OutOfMemory encountered: Java heap space (frame.cpp:77)" })
    frame.cpp:77 | internal error |
    "#);
}

#[test]
fn of_two_logs_in_a_file_the_first_is_read() {
    let names = names();
    for (first, second) in names.iter().zip(names.iter().skip(1)) {
        let alone = CrashLog::parse(&golden(first));
        let both = [golden(first), golden(second)].concat();
        let mut read = CrashLog::parse(&both);
        assert!(read.another_follows && !alone.another_follows, "{first}");
        read.another_follows = false;
        assert_eq!(read, alone, "{first}, {second}");
    }
    // What stands on the terminal, and then the log.
    let name = names.first().unwrap();
    let log = golden(name);
    let summary = String::from_utf8_lossy(&log);
    let summary = summary.lines().take_while(|line| line.starts_with('#'));
    let summary = summary.collect::<Vec<_>>().join("\n") + "\n\n";
    let read = CrashLog::parse(&[summary.as_bytes(), &log].concat());
    assert_eq!(read, CrashLog::parse(&log));
    // Another process's log behind it is another log.
    let other = golden(names.last().unwrap());
    let read = CrashLog::parse(&[summary.as_bytes(), &other].concat());
    let mut alone = CrashLog::parse(summary.as_bytes());
    assert_ne!(alone.pid, CrashLog::parse(&other).pid);
    alone.another_follows = true;
    assert_eq!(read, alone);
    // What a program calls itself begins no log.
    let text = String::from_utf8_lossy(&log).replacen(
        "Command Line: ",
        "Command Line: -Dx=A fatal error has been detected by the Java Runtime Environment ",
        1,
    );
    assert!(!CrashLog::parse(text.as_bytes()).another_follows);
}

#[test]
fn what_is_no_crash_log_is_said_to_be_none() {
    for bytes in [
        &b""[..],
        b"Hello",
        b"\0\xff\xfe",
        b"# Problematic frame:\n#\n",
    ] {
        assert!(!CrashLog::parse(bytes).is_crash_log());
    }
}

#[test]
fn logs_cut_anywhere_keep_what_they_have() {
    for name in names() {
        let bytes = golden(&name);
        for end in 0..bytes.len() {
            let log = CrashLog::parse(&bytes[..end]);
            assert!(
                !log.complete || end + 2 > bytes.len(),
                "{name} cut at {end}"
            );
            let _ = (log.signature(None), log.walker(), log.site());
        }
        let half = CrashLog::parse(&bytes[..bytes.len() / 2]);
        assert_eq!(half.cause, CrashLog::parse(&bytes).cause, "{name}");
    }
}

#[test]
fn a_thousand_logs_are_read_in_no_time() {
    let logs: Vec<_> = names().iter().map(|name| golden(name)).collect();
    // As long as a real log, which has 60 KB, most of it memory and maps.
    let logs: Vec<_> = logs
        .into_iter()
        .map(|mut log| {
            while log.len() < 60_000 {
                log.extend_from_slice(b"0x00007ffb98151330 JavaThread \"Reference Handler\" daemon [_thread_blocked, id=4896]\n");
            }
            log
        })
        .collect();
    let start = std::time::Instant::now();
    let signals = logs
        .iter()
        .cycle()
        .take(1_000)
        .filter(|log| {
            matches!(
                CrashLog::parse(log).cause,
                Some(Cause::Signal {
                    signal: Signal::Segv,
                    ..
                })
            )
        })
        .count();
    let elapsed = start.elapsed();
    println!("1000 logs of 60 KB: {elapsed:?}, {signals} of them SIGSEGV");
    assert!(signals > 500);
    assert!(elapsed.as_secs() < 20, "{elapsed:?}");
}

proptest! {
    #[test]
    fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let log = CrashLog::parse(&bytes);
        let _ = (log.signature(Some("agct")), log.walker(), log.is_crash_log());
    }

    #[test]
    fn damaged_logs_are_read(which in 0usize..14, damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..50)) {
        let mut bytes = golden(&names()[which]);
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let log = CrashLog::parse(&bytes);
        let _ = (log.signature(None).map(|s| s.title(None)), log.walker());
    }

    #[test]
    fn lines_of_the_right_look_are_read(lines in proptest::collection::vec("(# )?(SIG[A-Z]{0,4} \\(0x|Internal Error \\(|Native frames:|[JjVvCA] +|siginfo: si_|Current thread |\\[|\\]|\\+0x|@ 0x|si_code:|~|\\(|\\)| |[0-9a-f.%:]){0,12}", 0..20)) {
        let log = CrashLog::parse(lines.join("\n").as_bytes());
        let _ = (log.signature(None), log.walker());
    }
}
