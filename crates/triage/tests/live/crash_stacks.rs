//! Stacks that the JDKs at hand do not leave: JFR's samplers, profilers without symbols, other architectures.

use walkfuzz_context::{Arch, BlobKind, Register};
use walkfuzz_triage::{CrashLog, CrashPlan, KnownIssues, WalkerCrash};

const SEGV: &str = "#  SIGSEGV (0xb) at pc=0x00007f0000001000, pid=1, tid=2\n";

/// A log with these native frames, and libraries behind them.
fn log(frames: &[&str], libraries: &[&str]) -> CrashLog {
    let mut text = format!(
        "{SEGV}Native frames: (J=compiled Java code)\n{}\n\n",
        frames.join("\n")
    );
    text.push_str("Dynamic libraries:\n");
    for (at, library) in (0x10..).zip(libraries) {
        text.push_str(&format!(
            "7f{at}000-7f{at}fff r-xp 00000000 00:00 0   {library}\n"
        ));
    }
    CrashLog::parse(text.as_bytes())
}

fn answer(log: &CrashLog) -> String {
    match log.walker_crash() {
        WalkerCrash::Yes { walker, why, .. } => format!("yes, {walker}: {why}"),
        WalkerCrash::No { why } => format!("no: {why}"),
        WalkerCrash::Unknown { why } => format!("unknown: {why}"),
    }
}

const JVM: &str = "/opt/jdk/lib/server/libjvm.so";

#[test]
fn answers() {
    let profiler = "/opt/p/libasyncProfiler.so";
    let cases: [(&[&str], &[&str]); 10] = [
        // JFR's sampler thread, as in 17.
        (
            &[
                "V  [libjvm.so+0x1]  frame::sender(RegisterMap*) const+0x1",
                "V  [libjvm.so+0x2]  JfrStackTrace::record_async(JavaThread*, frame const&)+0x2",
                "V  [libjvm.so+0x3]  OSThreadSampler::protected_task(os::SuspendedThreadTaskContext const&)+0x3",
                "V  [libjvm.so+0x4]  JfrThreadSampler::run()+0x4",
                "V  [libjvm.so+0x5]  thread_native_entry(Thread*)+0x5",
            ],
            &[JVM],
        ),
        // The CPU-time sampler of 25, in its handler.
        (
            &[
                "V  [libjvm.so+0x1]  JfrCPUTimeTraceQueue::enqueue(JfrCPUTimeSampleRequest&)+0x1",
                "V  [libjvm.so+0x2]  JfrCPUTimeThreadSampling::handle_timer_signal(siginfo_t*, void*)+0x2",
                "C  [libc.so.6+0x3c050]",
                "J 9 c2 a.B.c()V (9 bytes) @ 0x10 [0x8+0x8]",
            ],
            &[JVM],
        ),
        // AsyncGetCallTrace wins over the profiler that called it.
        (
            &[
                "V  [libjvm.so+0x1]  AsyncGetCallTrace+0x1",
                "C  [libasyncProfiler.so+0x2]  Profiler::getJavaTraceAsync(void*, ASGCT_CallFrame*, int, StackContext*)+0x2",
                "C  [libasyncProfiler.so+0x3]  Profiler::recordSample(void*, unsigned long long)+0x3",
                "C  [libasyncProfiler.so+0x4]  CTimer::signalHandler(int, siginfo_t*, void*)+0x4",
                "C  0x00007f1234567890",
            ],
            &[JVM, profiler],
        ),
        // Datadog's profiler has async-profiler's names in another library.
        (
            &[
                "C  [libjavaProfiler.so+0x1]  StackWalker::walkVM(void*, ASGCT_CallFrame*, int)+0x1",
                "C  [libjavaProfiler.so+0x2]  WallClockASGCT::sharedSignalHandler(int, siginfo_t*, void*)+0x2",
                "C  [libpthread.so.0+0x12980]  <signal handler called>",
                "j  a.B.c()V+6",
            ],
            &[JVM],
        ),
        // Without symbols: below a handler, and not.
        (
            &[
                "C  [libasyncProfiler.so+0x1]",
                "C  [libasyncProfiler.so+0x2]",
                "C  [libc.so.6+0x3c050]",
                "j  a.B.c()V+6",
            ],
            &[JVM, profiler],
        ),
        (
            &[
                "C  [libasyncProfiler.so+0x1]",
                "C  [libasyncProfiler.so+0x2]",
            ],
            &[JVM, profiler],
        ),
        // Nothing of a walker; the stack ends early.
        (&["V  [libjvm.so+0x1]  f()+0x1"], &[JVM, profiler]),
        (&["V  [libjvm.so+0x1]  f()+0x1"], &[JVM]),
        (&["V  [libjvm.so+0x1]  f()+0x1"], &[]),
        // Another handler on top of the walker.
        (
            &[
                "C  [libother.so+0x1]  crash_in_here+0x1",
                "C  [libother.so+0x2]  other_signal_handler+0x2",
                "C  [libc.so.6+0x3c050]",
                "V  [libjvm.so+0x1]  AsyncGetCallTrace+0x1",
            ],
            &[JVM],
        ),
    ];
    let answers: Vec<String> = cases
        .iter()
        .map(|(frames, libraries)| answer(&log(frames, libraries)))
        .collect();
    insta::assert_snapshot!(answers.join("\n"));
}

#[test]
fn a_signal_that_somebody_sent_is_no_crash() {
    for code in ["SI_USER", "SI_TKILL", "SI_QUEUE"] {
        let text = format!(
            "{SEGV}Native frames:\nV  [libjvm.so+0x1]  AsyncGetCallTrace+0x1\n\nsiginfo: si_signo: 11 (SIGSEGV), si_code: 0 ({code}), si_pid: 4690\n"
        );
        let log = CrashLog::parse(text.as_bytes());
        assert_eq!(
            answer(&log),
            "no: somebody sent SIGSEGV to the process",
            "{code}"
        );
    }
}

#[test]
fn registers_of_aarch64() {
    let mut text = "# SIGSEGV (0xb) at pc=0x0000ffff12345678, pid=1, tid=2\n# Java VM: OpenJDK 64-Bit Server VM \
        (21.0.8+9-LTS, mixed mode, sharing, tiered, z gc, linux-aarch64)\n\nRegisters:\n"
        .to_owned();
    for register in 0..32 {
        text.push_str(&format!("R{register}=0x{:016x}\n", 0x1000 + register));
    }
    text.push_str("\nRegister to memory mapping:\n\n R0=0x0000000000001000 is an unknown value\n");
    let log = CrashLog::parse(text.as_bytes());
    let registers = log.registers.unwrap();
    assert_eq!(registers.arch, Arch::Aarch64);
    assert_eq!(
        (registers.pc().0, registers.sp().0, registers.fp().0),
        (0xffff_1234_5678, 0x101f, 0x101d)
    );
    assert_eq!(registers.get(Arch::Aarch64.lr().unwrap()), 0x101e);
    assert_eq!(registers.get(Register(7)), 0x1007);
    assert_eq!(log.collector(), Some("z"));
}

#[test]
fn a_context_on_the_stack_tells_what_was_walked() {
    // flags, link, stack (3 words), r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, eflags, selectors.
    let mut words: Vec<u64> = vec![0xdead, 7, 0, 0, 2, 0];
    words.extend(0x100..0x100 + 15);
    words.extend([
        0x7fff_0000_1000,
        0x7f00_0001_0040,
        0x202,
        0x002b_0000_0000_0033,
        0xbeef,
    ]);
    let mut text = format!(
        "{SEGV}Native frames:\nC  [libcrash.so+0x1]  walk+0x1\nV  [libjvm.so+0x1]  AsyncGetCallTrace+0x1\n\nTop of Stack: (sp=0x0000000000005000)\n"
    );
    for (at, pair) in words.chunks(2).enumerate() {
        text.push_str(&format!(
            "0x{:016x}:   {:016x} {:016x}   ........\n",
            0x5000 + 16 * at,
            pair[0],
            pair.get(1).unwrap_or(&0)
        ));
    }
    text.push_str("\nCodeHeap 'profiled nmethods': size=1Kb used=1Kb\n bounds [0x00007f0000010000, 0x00007f0000011000, 0x00007f0000020000]\n");
    let log = CrashLog::parse(text.as_bytes());
    let (at, registers) = log.top_of_stack.user_context().unwrap();
    assert_eq!(at, 0x5008);
    assert_eq!(
        (registers.pc().0, registers.sp().0, registers.fp().0),
        (0x7f00_0001_0040, 0x7fff_0000_1000, 0x10a)
    );
    let walked = CrashPlan::new(&log, KnownIssues::built_in())
        .walked
        .unwrap();
    assert_eq!(
        (walked.kind, walked.registers),
        (BlobKind::Nmethod, Some(registers))
    );
    // Half of it is none.
    let half = CrashLog::parse(&text.as_bytes()[..text.len() / 2]);
    assert!(half.top_of_stack.user_context().is_none());
}

#[test]
fn a_known_issue_comes_with_its_versions() {
    let frames = "Native frames:\nV  [libjvm.so+0x1]  Method::is_valid_method(Method const*)+0x1\nV  [libjvm.so+0x1]  AsyncGetCallTrace+0x1\n";
    let known = |version: &str| {
        let text = format!(
            "{SEGV}# JRE version: OpenJDK Runtime Environment ({version}) (build {version}+7)\n{frames}"
        );
        let plan = CrashPlan::new(&CrashLog::parse(text.as_bytes()), KnownIssues::built_in());
        plan.known
            .iter()
            .map(|known| format!("{} {}", known.id, known.versions))
            .collect::<Vec<_>>()
    };
    assert_eq!(known("17.0.7"), ["JDK-8313796 affected"]);
    assert_eq!(known("17.0.9"), ["JDK-8313796 not-affected"]);
}
