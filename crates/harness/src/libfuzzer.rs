//! The glue between libFuzzer and a [`Session`]: which flags libFuzzer needs beside a JVM, what this process is for,
//! and the symbols that libFuzzer looks up, defined by [`libfuzzer_target!`](crate::libfuzzer_target).
//!
//! Contract: everything here runs outside signal handlers, one call at a time, and may allocate. It decides
//! nothing about walks; that is the session's part. The flag names are those of libFuzzer's `FuzzerFlags.def`.

use std::ffi::{CStr, CString, OsString, c_char, c_int, c_void};
use std::path::Path;
use std::sync::atomic::{AtomicPtr, Ordering};

use walkfuzz_context::generate::{crossover, mutate};
use walkfuzz_record::RunFolder;

use crate::campaign::{self, Role};
use crate::chosen::WALKER;
use crate::run::end_process;
use crate::supervisor::LIBFUZZER_INTERRUPTED;
use crate::{HarnessError, InputVerdict, Mode, Session, Settings, interrupt, same_crash};

/// AddressSanitizer's part of the bargain: the synchronous signals belong to the JVM and to the guard, the alternate
/// stacks are theirs, and a JVM's memory is neither leaked nor on a fake stack.
pub const ASAN_OPTIONS: &CStr =
    c"handle_segv=0:handle_sigbus=0:handle_sigill=0:handle_sigfpe=0:handle_abort=0:\
allow_user_segv_handler=1:detect_leaks=0:use_sigaltstack=0:detect_stack_use_after_return=0";

/// What libFuzzer has to be told when it shares the process with a JVM.
///
/// libFuzzer drops `SA_NODEFER` from handlers it chains to, so it must not take the synchronous signals; the JVM's heap
/// counts as resident memory and is no leak. `-handle_abrt` stays: an abort is how a strict run reports a finding.
const JVM_FLAGS: [(&str, &str); 9] = [
    ("handle_segv", "0"),
    ("handle_bus", "0"),
    ("handle_ill", "0"),
    ("handle_fpe", "0"),
    ("handle_trap", "0"),
    ("handle_usr1", "0"),
    ("handle_usr2", "0"),
    ("detect_leaks", "0"),
    ("rss_limit_mb", "0"),
];

/// The value of `-name=value` if `argument` is that flag.
fn flag_value<'a>(argument: &'a str, name: &str) -> Option<&'a str> {
    argument
        .strip_prefix('-')?
        .strip_prefix(name)?
        .strip_prefix('=')
}

/// Whether the last `-name=value` among `arguments` is switched on; libFuzzer lets the last one win, too.
fn is_on(arguments: &[String], name: &str) -> bool {
    arguments
        .iter()
        .rev()
        .find_map(|argument| flag_value(argument, name))
        .is_some_and(|value| !value.is_empty() && value != "0")
}

/// `arguments` (with the program's name at the front) and the flags that a JVM needs, without those that the user gave.
///
/// They go behind the program's name: after `-ignore_remaining_args=1` libFuzzer reads no more flags.
pub fn extend_arguments(arguments: &[String]) -> Vec<String> {
    let mut extended: Vec<String> = arguments.iter().take(1).cloned().collect();
    let given = arguments.get(1..).unwrap_or_default();
    for (name, value) in JVM_FLAGS {
        if !given
            .iter()
            .any(|argument| flag_value(argument, name).is_some())
        {
            extended.push(format!("-{name}={value}"));
        }
    }
    extended.extend_from_slice(given);
    extended
}

/// What this process is for; `None` if it only supervises children that run the inputs and so needs no JVM.
///
/// `is_file` says whether an argument names an existing file: libFuzzer runs files one by one, directories are corpora.
pub fn mode(arguments: &[String], is_file: impl Fn(&str) -> bool) -> Option<Mode> {
    if is_on(arguments, "minimize_crash_internal_step") {
        return Some(Mode::Strict);
    }
    if is_on(arguments, "merge_inner") {
        return Some(Mode::Merge);
    }
    let supervises = [
        "minimize_crash",
        "cleanse_crash",
        "merge",
        "set_cover_merge",
        "fork",
        "jobs",
        "help",
    ];
    if supervises.iter().any(|name| is_on(arguments, name)) {
        return None;
    }
    let mut inputs = arguments
        .iter()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .peekable();
    let runs_files = inputs.peek().is_some() && inputs.all(|input| is_file(input));
    Some(if runs_files {
        Mode::Strict
    } else {
        Mode::Survey
    })
}

/// The session, from its start to the end of the process. Not in thread-local storage: an input may end on another thread
/// than it began on.
static SESSION: AtomicPtr<Session> = AtomicPtr::new(std::ptr::null_mut());

/// Chooses the walker of a target that has one of its own, unless the environment does.
///
/// # Safety
/// There is one thread yet.
pub unsafe fn prefer_walker(name: &str) {
    if !name.is_empty() && std::env::var_os(WALKER).is_none_or(|set| set.is_empty()) {
        // SAFETY: the caller's promise.
        unsafe { std::env::set_var(WALKER, name) };
    }
}

/// `LLVMFuzzerInitialize`: extends the arguments and starts the session, before libFuzzer installs its handlers.
///
/// # Safety
/// `argc` and `argv` must be what `main` got: `*argc` C strings at `*argv` that live as long as the process.
pub unsafe fn initialize(argc: *mut c_int, argv: *mut *mut *mut c_char) -> c_int {
    // SAFETY: the caller's promise.
    let mut extended = unsafe { arguments_of(argc, argv) };
    // `cargo fuzz fmt` only wants a text: no JVM for that.
    let mode = match debug_path() {
        Some(_) => None,
        None => mode(&extended, |argument| Path::new(argument).is_file()),
    };
    let run = match mode {
        Some(Mode::Survey) => supervise(&mut extended),
        _ => None,
    };
    if ["minimize_crash", "cleanse_crash"]
        .iter()
        .any(|name| is_on(&extended, name))
    {
        // SAFETY: libFuzzer initialises before it starts a thread.
        unsafe { same_crash::begin() }.unwrap_or_else(|error| fail(ENVIRONMENT, &error));
    }
    // SAFETY: the caller's promise.
    unsafe { replace_arguments(&extended, argc, argv) };

    if let Some(mode) = mode {
        match Session::start(mode, &extended, run) {
            Ok(mut session) => {
                session.breed_between_inputs();
                SESSION.store(Box::into_raw(Box::new(session)), Ordering::Release);
            }
            Err(error) => give_up(&error),
        }
        // After the JVM, which takes these signals for its own shutdown. libFuzzer leaves handlers alone that it finds, and its own
        // would end the process without a word to the session.
        interrupt::catch_once(LIBFUZZER_INTERRUPTED);
        // SAFETY: the handler may run on any thread that ends the process.
        unsafe { on_exit(at_exit, std::ptr::null_mut()) };
    }
    0
}

/// The arguments, with the flags that libFuzzer needs where it shares the signals.
///
/// # Safety
/// As [`initialize`].
pub(crate) unsafe fn arguments_of(argc: *mut c_int, argv: *mut *mut *mut c_char) -> Vec<String> {
    // SAFETY: the caller passes main's argc.
    let count = usize::try_from(unsafe { *argc }).unwrap_or(0);
    // SAFETY: the caller passes main's argv, which holds argc pointers to C strings.
    let given = unsafe { std::slice::from_raw_parts(*argv, count) };
    let arguments: Vec<String> = given
        .iter()
        .map(|&pointer| {
            // SAFETY: each of main's argv pointers is a C string.
            let argument = unsafe { CStr::from_ptr(pointer) };
            argument.to_str().map(str::to_owned)
        })
        .collect::<Result<_, _>>()
        .unwrap_or_else(|error| {
            fail(
                USAGE,
                &format_args!("an argument is not valid UTF-8: {error}"),
            )
        });
    extend_arguments(&arguments)
}

/// Gives libFuzzer the flags that it needs beside a JVM in its process, and says what the arguments are then.
///
/// # Safety
/// As [`initialize`].
pub unsafe fn share_signals(argc: *mut c_int, argv: *mut *mut *mut c_char) -> Vec<String> {
    // SAFETY: the caller's promise.
    unsafe {
        let extended = arguments_of(argc, argv);
        replace_arguments(&extended, argc, argv);
        extended
    }
}

/// Gives libFuzzer other arguments.
///
/// # Safety
/// As [`initialize`].
pub(crate) unsafe fn replace_arguments(
    arguments: &[String],
    argc: *mut c_int,
    argv: *mut *mut *mut c_char,
) {
    // libFuzzer compares argv[0] by value and copies the rest; the strings still have to outlive this call.
    let mut pointers: Vec<*mut c_char> = arguments
        .iter()
        .map(|argument| CString::new(argument.as_str()).map(CString::into_raw))
        .collect::<Result<_, _>>()
        .unwrap_or_else(|error| fail(USAGE, &error));
    let length = c_int::try_from(pointers.len()).unwrap_or_else(|error| fail(USAGE, &error));
    pointers.push(std::ptr::null_mut());
    // SAFETY: argc and argv are valid for writes; the leaked array ends with a null pointer like main's.
    unsafe {
        *argc = length;
        *argv = Box::leak(pointers.into_boxed_slice()).as_mut_ptr();
    }
}

/// Lets a parent process watch over a survey; returns in the child, with the arguments that are left.
fn supervise(arguments: &mut Vec<String>) -> Option<RunFolder> {
    let settings = Settings::from_environment().unwrap_or_else(|error| give_up(&error));
    if !settings.supervise || settings.strict {
        return None;
    }
    match campaign::begin(&settings, arguments) {
        Ok(Role::Child {
            run,
            arguments: left,
        }) => {
            *arguments = left;
            Some(run)
        }
        Ok(Role::Done(code)) => end_process(code),
        Err(error) => give_up(&error),
    }
}

/// Exit codes of errors that are no session's.
const USAGE: c_int = 2;
const ENVIRONMENT: c_int = 3;

/// The one way to end with an error: one sentence, and no exit handlers, because a JVM may be running.
fn fail(code: c_int, error: &dyn std::fmt::Display) -> ! {
    eprintln!("error: {error}");
    end_process(code)
}

fn give_up(error: &HarnessError) -> ! {
    fail(error.exit_code(), error)
}

unsafe extern "C" {
    /// glibc's and musl's: like atexit, and the handler learns the exit status.
    fn on_exit(handler: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
}

/// libFuzzer ends a survey with `exit`. The handlers that were registered before this one are skipped: the JVM's would meet
/// threads that still run Java code.
extern "C" fn at_exit(status: c_int, _: *mut c_void) {
    // SAFETY: as in `test_input`.
    if let Some(session) = unsafe { SESSION.load(Ordering::Acquire).as_mut() } {
        session.finish();
    }
    end_process(status)
}

/// The file that `cargo fuzz fmt` wants an input's text in, if this process was started for that.
fn debug_path() -> Option<OsString> {
    std::env::var_os("RUST_LIBFUZZER_DEBUG_PATH")
}

/// `rust_fuzzer_test_input`: one input, in libFuzzer's codes (0 keeps it in the corpus, -1 rejects it).
pub fn test_input(data: &[u8]) -> c_int {
    // SAFETY: the pointer is null or the leaked session's; libFuzzer runs one input at a time, so nobody else borrows it.
    match unsafe { SESSION.load(Ordering::Acquire).as_mut() } {
        Some(session) => {
            let verdict = session.run_input(data);
            if interrupt::seen() {
                session.finish();
                end_process(LIBFUZZER_INTERRUPTED)
            }
            match verdict {
                Ok(InputVerdict::Keep) => 0,
                Ok(InputVerdict::Reject) => -1,
                Err(error) => {
                    session.finish();
                    give_up(&error)
                }
            }
        }
        None => {
            if let Some(path) = debug_path()
                && let Err(error) = std::fs::write(&path, Session::describe(data))
            {
                fail(
                    ENVIRONMENT,
                    &format_args!("cannot write {}: {error}", path.display()),
                );
            }
            -1
        }
    }
}

/// What libFuzzer's custom mutator does: see [`Session::mutate`].
pub fn mutate_input(data: &mut [u8], size: usize, max_size: usize, seed: u32) -> usize {
    // SAFETY: as in `test_input`.
    match unsafe { SESSION.load(Ordering::Acquire).as_mut() } {
        Some(session) => session.mutate(data, size, max_size, seed),
        None => mutate(data, size, max_size, seed),
    }
}

/// What libFuzzer's custom crossover does: see [`Session::crossover`].
pub fn cross_inputs(a: &[u8], b: &[u8], out: &mut [u8], seed: u32) -> usize {
    // SAFETY: as in `test_input`.
    match unsafe { SESSION.load(Ordering::Acquire).as_mut() } {
        Some(session) => session.crossover(a, b, out, seed),
        None => crossover(a, b, out, seed),
    }
}

/// Defines the symbols that libFuzzer looks for, but for the generator's (`fuzz_mutator!`, `fuzz_crossover!`).
///
/// For a crate that links `libfuzzer-sys`; that one stays out of our dependencies because it brings a `main`.
#[macro_export]
macro_rules! libfuzzer_target {
    () => {
        $crate::libfuzzer_target!(walker = "");
    };
    (walker = $walker:expr) => {
        /// Called by libFuzzer before anything else.
        ///
        /// # Safety
        /// libFuzzer passes main's arguments.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn LLVMFuzzerInitialize(
            argc: *mut ::std::ffi::c_int,
            argv: *mut *mut *mut ::std::ffi::c_char,
        ) -> ::std::ffi::c_int {
            // SAFETY: libFuzzer passes main's argc and argv.
            unsafe {
                $crate::libfuzzer::prefer_walker($walker);
                $crate::libfuzzer::initialize(argc, argv)
            }
        }

        /// Called by libfuzzer-sys for each input.
        #[unsafe(no_mangle)]
        #[expect(
            improper_ctypes_definitions,
            reason = "libfuzzer-sys declares it with a slice; both sides are Rust"
        )]
        pub extern "C" fn rust_fuzzer_test_input(data: &[u8]) -> i32 {
            $crate::libfuzzer::test_input(data)
        }

        /// Read by AddressSanitizer's runtime, if it is linked in, before `main`.
        #[unsafe(no_mangle)]
        pub extern "C" fn __asan_default_options() -> *const ::std::ffi::c_char {
            $crate::libfuzzer::ASAN_OPTIONS.as_ptr()
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    fn mode_of(line: &str) -> Option<Mode> {
        mode(&extend_arguments(&arguments(line)), |path| {
            path.ends_with(".bin")
        })
    }

    #[test]
    fn adds_what_a_jvm_needs_behind_the_program() {
        assert_eq!(
            extend_arguments(&arguments("walk -artifact_prefix=a/ corpus")),
            arguments(
                "walk -handle_segv=0 -handle_bus=0 -handle_ill=0 -handle_fpe=0 -handle_trap=0 -handle_usr1=0 \
                 -handle_usr2=0 -detect_leaks=0 -rss_limit_mb=0 -artifact_prefix=a/ corpus"
            )
        );
    }

    #[test]
    fn leaves_abort_to_libfuzzer() {
        assert!(
            !extend_arguments(&arguments("walk"))
                .iter()
                .any(|argument| argument.contains("abrt"))
        );
    }

    #[test]
    fn never_repeats_a_flag_that_the_user_gave() {
        let extended = extend_arguments(&arguments("walk -rss_limit_mb=900 -handle_segv=1"));
        let named = |name| {
            extended
                .iter()
                .filter(|argument| flag_value(argument, name).is_some())
                .count()
        };
        assert_eq!((named("rss_limit_mb"), named("handle_segv")), (1, 1));
        assert!(extended.contains(&"-rss_limit_mb=900".to_owned()));
    }

    #[test]
    fn children_get_no_second_helping() {
        let once = extend_arguments(&arguments("walk -fork=2 corpus"));
        assert_eq!(extend_arguments(&once).len(), once.len());
    }

    #[test]
    fn a_longer_name_is_another_flag() {
        let extended = extend_arguments(&arguments("walk -handle_segv_twice=1"));
        assert!(extended.contains(&"-handle_segv=0".to_owned()));
    }

    #[test]
    fn no_program_name_is_no_panic() {
        assert_eq!(extend_arguments(&[]).len(), JVM_FLAGS.len());
        assert_eq!(mode(&[], |_| true), Some(Mode::Survey));
    }

    #[test]
    fn corpora_are_surveyed_and_files_run_strictly() {
        assert_eq!(
            mode_of("walk -artifact_prefix=a/ corpus"),
            Some(Mode::Survey)
        );
        assert_eq!(mode_of("walk"), Some(Mode::Survey));
        assert_eq!(mode_of("walk -runs=3 one.bin two.bin"), Some(Mode::Strict));
        assert_eq!(mode_of("walk one.bin corpus"), Some(Mode::Survey));
    }

    #[test]
    fn minimising_is_strict_in_the_children_alone() {
        assert_eq!(mode_of("walk -minimize_crash=1 -runs=255 one.bin"), None);
        assert_eq!(mode_of("walk -runs=255 one.bin"), Some(Mode::Strict));
        assert_eq!(
            mode_of("walk -minimize_crash_internal_step=1 one.bin"),
            Some(Mode::Strict)
        );
        assert_eq!(mode_of("walk -cleanse_crash=1 one.bin"), None);
    }

    #[test]
    fn merging_is_supervised_and_its_children_merge() {
        assert_eq!(mode_of("walk -merge=1 new old"), None);
        assert_eq!(
            mode_of("walk -merge_control_file=f -merge_inner=1"),
            Some(Mode::Merge)
        );
    }

    #[test]
    fn parallel_runs_are_supervised() {
        assert_eq!(mode_of("walk -fork=2 corpus"), None);
        assert_eq!(mode_of("walk -jobs=2 corpus"), None);
        assert_eq!(mode_of("walk -fork=0 corpus"), Some(Mode::Survey));
    }

    #[test]
    fn the_last_flag_wins() {
        assert_eq!(mode_of("walk -fork=2 -fork=0 corpus"), Some(Mode::Survey));
    }
}
