//! Work done by a thread in a handler of its own, in whatever state a signal meets it: in Java, in native code, blocked.
//!
//! No flow moves here and nobody is held for longer than the work takes. The thread may hold any lock, of libc's and of the JVM's: the work must be
//! signal-safe, unlike what visits of a [`Moment`](crate::Moment) may do.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The stages of one errand.
const IDLE: u32 = 0;
const ASKED: u32 = 1;
const UNDER_WAY: u32 = 2;
const DONE: u32 = 3;

static STAGE: AtomicU32 = AtomicU32::new(IDLE);
static TID: AtomicI32 = AtomicI32::new(0);
static ERRAND: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// Between two looks at whether the work is done.
const NAP: Duration = Duration::from_micros(50);

/// Sends threads on errands. One per process.
#[derive(Debug)]
pub struct Errands(());

/// What came of an errand.
#[derive(Debug)]
pub enum Errand<T> {
    /// The thread has done the work.
    Done(Box<T>),
    /// The thread has ended, or has not taken the signal in time, and never will for this errand.
    Missed(Box<T>),
    /// The thread has begun and does not come to an end. It has what was given to it for ever; no further errand is possible.
    Stuck,
}

/// What the handler calls: a function that knows the type behind the pointer, which is to what follows it.
#[repr(C)]
struct Work<T> {
    call: unsafe fn(*mut c_void, *mut libc::ucontext_t),
    work: fn(&mut T, *mut libc::ucontext_t),
    subject: Box<T>,
}

/// # Safety
/// `work` is a `Work<T>` that nobody else uses meanwhile.
unsafe fn call<T>(work: *mut c_void, context: *mut libc::ucontext_t) {
    // SAFETY: the caller's promise.
    let work = unsafe { &mut *work.cast::<Work<T>>() };
    (work.work)(&mut work.subject, context);
}

impl Errands {
    /// Takes the signal `SIGRTMIN + 6`: the guard's alarm has the one before it, and HotSpot none of them.
    ///
    /// # Errors
    /// Somebody has taken it before.
    pub fn install() -> std::io::Result<Self> {
        // SAFETY: all-zero is a valid sigaction, filled in below; both pointers are to live locals, and the handler is signal-safe.
        unsafe {
            let mut before: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal(), std::ptr::null(), &raw mut before);
            if before.sa_sigaction != libc::SIG_DFL || IS_TAKEN.swap(true, Ordering::AcqRel) {
                return Err(std::io::ErrorKind::ResourceBusy.into());
            }
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_signal as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
            if libc::sigaction(signal(), &raw const action, std::ptr::null_mut()) != 0 {
                return Err(std::io::Error::last_os_error());
            }
        }
        Ok(Self(()))
    }

    /// Has thread `tid` of this process call `work` with `subject` in a handler. It has `patience` to begin, and a hundred times as long to end.
    ///
    /// # Safety
    /// `work` is signal-safe, and what `subject` points to lives until the thread is done; for ever, if it is stuck.
    pub unsafe fn send<T>(
        &mut self,
        tid: i32,
        patience: Duration,
        subject: Box<T>,
        work: fn(&mut T, *mut libc::ucontext_t),
    ) -> Errand<T> {
        let work = Box::into_raw(Box::new(Work {
            call: call::<T>,
            work,
            subject,
        }));
        // SAFETY: made above, and nobody's but the caller's whenever this is called.
        let back = || unsafe { Box::from_raw(work) }.subject;
        let idle = STAGE.load(Ordering::Acquire) == IDLE;
        if !idle {
            // The one who is stuck may come back, but to its own errand.
            return Errand::Missed(back());
        }
        ERRAND.store(work.cast(), Ordering::Relaxed);
        TID.store(tid, Ordering::Relaxed);
        STAGE.store(ASKED, Ordering::Release);
        // SAFETY: a signal that this process handles; a thread that is gone is an error.
        let sent = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, signal()) };
        let began = Instant::now();
        loop {
            if STAGE.load(Ordering::Acquire) == DONE {
                STAGE.store(IDLE, Ordering::Release);
                return Errand::Done(back());
            }
            let waited = began.elapsed();
            if sent != 0 || waited > patience {
                // It may still take it, just now.
                let taken_back =
                    STAGE.compare_exchange(ASKED, IDLE, Ordering::AcqRel, Ordering::Relaxed);
                if taken_back.is_ok() {
                    return Errand::Missed(back());
                }
            }
            if waited > patience * 100 {
                return Errand::Stuck;
            }
            std::thread::sleep(NAP);
        }
    }
}

fn signal() -> i32 {
    libc::SIGRTMIN() + 6
}

unsafe extern "C" fn on_signal(_: i32, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: gettid has no preconditions; errno is this thread's own.
    let (tid, errno) = unsafe { (libc::gettid(), libc::__errno_location()) };
    // SAFETY: as above.
    let before = unsafe { *errno };
    // A late signal finds an errand that is not for it, or none.
    let is_mine = STAGE.load(Ordering::Acquire) == ASKED && TID.load(Ordering::Relaxed) == tid;
    let taken = is_mine
        && STAGE
            .compare_exchange(ASKED, UNDER_WAY, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok();
    if taken {
        let work = ERRAND.load(Ordering::Relaxed);
        // SAFETY: the one who takes the errand has it to itself until it is done; a `Work` begins with its function.
        unsafe {
            let call = *work.cast::<unsafe fn(*mut c_void, *mut libc::ucontext_t)>();
            call(work, context.cast());
        }
        STAGE.store(DONE, Ordering::Release);
    }
    // SAFETY: as above.
    unsafe { *errno = before };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What one thread is asked to do, and what the handler saw there.
    struct Look {
        tid: i32,
        has_context: bool,
    }

    fn look(it: &mut Look, context: *mut libc::ucontext_t) {
        // SAFETY: gettid has no preconditions.
        it.tid = unsafe { libc::gettid() };
        it.has_context = !context.is_null();
    }

    #[test]
    fn a_thread_that_waits_does_what_it_is_asked() {
        let mut errands = Errands::install().unwrap();
        assert!(Errands::install().is_err());
        let nothing = || {
            Box::new(Look {
                tid: 0,
                has_context: false,
            })
        };
        let patience = Duration::from_secs(10);
        let (tell, told) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            // SAFETY: gettid has no preconditions.
            tell.send(unsafe { libc::gettid() }).unwrap();
            ended.recv().unwrap();
        });
        let tid = told.recv().unwrap();
        for _ in 0..100 {
            // SAFETY: `look` is signal-safe, and points to nothing.
            match unsafe { errands.send(tid, patience, nothing(), look) } {
                Errand::Done(seen) => assert!(seen.tid == tid && seen.has_context),
                other => panic!("{}", matches!(other, Errand::Stuck)),
            }
        }
        end.send(()).unwrap();
        thread.join().unwrap();
        // SAFETY: as above.
        let gone = unsafe { errands.send(tid, patience, nothing(), look) };
        assert!(matches!(gone, Errand::Missed(seen) if seen.tid == 0));
    }
}
