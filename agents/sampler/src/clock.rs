//! What makes samples: clocks of single threads, the clock of the process, a thread that ticks.
//!
//! Each clock has a signal of its own, so that handlers of several clocks interrupt one another as those of several profilers would. The first one takes SIGPROF,
//! as profilers do; ITIMER_PROF can have no other. The rest take real-time signals from `SIGRTMIN + 6` on whose action is still the default. (HotSpot
//! uses SIGUSR2 and `SIGRTMAX - 2`, the guard's alarm `SIGRTMIN + 5`, JFR's CPU-time sampler SIGPROF.)
//!
//! Contract: everything here makes system calls and allocates nothing. [`stop_thread_from_handler`] is signal-safe.

use std::io;
use std::sync::atomic::{AtomicI32, Ordering::*};
use std::time::Duration;

use libc::{c_int, c_long, pid_t};

use crate::threads::Thread;

/// A kind of clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Clock {
    /// A timer of wall-clock time for each thread.
    Timer,
    /// A thread of ours that sends signals.
    Tick,
    /// ITIMER_PROF, of the CPU time of the process.
    Itimer,
    /// A timer of its CPU time for each thread.
    CpuTimer,
    /// The kernel's CPU_CLOCK perf event for each thread.
    Perf,
}

/// How many kinds there are.
pub(crate) const CLOCKS: usize = 5;

/// The signal of each clock, 0 for none.
pub(crate) static SIGNALS: [AtomicI32; CLOCKS] = [const { AtomicI32::new(0) }; CLOCKS];

impl Clock {
    /// Every kind.
    pub const ALL: [Clock; CLOCKS] = [
        Clock::Timer,
        Clock::Tick,
        Clock::Itimer,
        Clock::CpuTimer,
        Clock::Perf,
    ];

    /// The word for it in options.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Clock::Timer => "timer",
            Clock::Tick => "tick",
            Clock::Itimer => "itimer",
            Clock::CpuTimer => "cpu-timer",
            Clock::Perf => "perf",
        }
    }

    /// The clock of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|clock| clock.name() == name)
    }

    /// Whether it is limited by the kernel's tick.
    #[must_use]
    pub const fn is_ticked(self) -> bool {
        matches!(self, Clock::Itimer | Clock::CpuTimer)
    }

    /// Samples that a running thread gets in a second at most, whatever is asked for; `None` if nothing but the machine limits it.
    #[must_use]
    pub fn ceiling(self) -> Option<f64> {
        self.is_ticked().then(kernel_tick_hz).flatten()
    }

    /// The clock whose signal this is. Signal-safe.
    #[inline]
    pub(crate) fn of_signal(signal: c_int) -> Option<Clock> {
        Self::ALL
            .into_iter()
            .find(|clock| SIGNALS[*clock as usize].load(Relaxed) == signal)
    }
}

/// CONFIG_HZ of the running kernel: the resolution of the coarse clock is one tick.
#[must_use]
pub fn kernel_tick_hz() -> Option<f64> {
    let mut resolution = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes to the local only.
    let result = unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut resolution) };
    (result == 0 && resolution.tv_nsec > 0).then(|| (1e9 / resolution.tv_nsec as f64).round())
}

/// CPU time that thread `tid` of this process has used, in nanoseconds; `None` when it is gone. One system call.
pub(crate) fn cpu_nanoseconds(tid: i32) -> Option<u64> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes to the local only.
    let result = unsafe { libc::clock_gettime(cpu_clock(tid), &raw mut time) };
    (result == 0).then(|| time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs())
}

/// The clock of a thread's CPU time, in the kernel's encoding (CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED).
fn cpu_clock(tid: i32) -> libc::clockid_t {
    (!tid << 3) | 6
}

/// Starts a clock for one thread. `phase` says after which part of an interval (of 2^32) it fires first. Under the control lock.
pub(crate) fn start_thread(
    clock: Clock,
    thread: &Thread,
    interval: Duration,
    phase: u32,
) -> io::Result<()> {
    let handle = &thread.handles[clock as usize];
    let tid = thread.tid.load(Relaxed);
    if handle.load(Relaxed) >= 0 {
        stop_thread(clock, thread);
    }
    let made = match clock {
        Clock::Timer => new_timer(libc::CLOCK_MONOTONIC, clock, tid)?,
        Clock::CpuTimer => new_timer(cpu_clock(tid), clock, tid)?,
        Clock::Perf => return start_perf(thread, tid, interval),
        Clock::Tick | Clock::Itimer => return Ok(()),
    };
    handle.store(made, Release);
    set_timer(made, part(interval, phase), interval)
}

/// Starts a thread's wall-clock timer again that [`stop_thread_from_handler`] stopped.
pub(crate) fn restart_timer(thread: &Thread, interval: Duration, phase: u32) -> io::Result<()> {
    let timer = thread.handles[Clock::Timer as usize].load(Acquire);
    set_timer(timer, part(interval, phase), interval)
}

/// At least a nanosecond, because zero would stop the timer.
fn part(interval: Duration, phase: u32) -> Duration {
    let part = (interval.as_nanos() * u128::from(phase)) >> 32;
    Duration::from_nanos(part as u64 + 1)
}

/// Stops a clock of one thread. Under the control lock.
pub(crate) fn stop_thread(clock: Clock, thread: &Thread) {
    let handle = thread.handles[clock as usize].swap(-1, AcqRel);
    if handle < 0 {
        return;
    }
    match clock {
        // SAFETY: a timer or descriptor of ours, given up here.
        Clock::Timer | Clock::CpuTimer => unsafe {
            libc::syscall(libc::SYS_timer_delete, handle);
        },
        // SAFETY: as above.
        Clock::Perf => unsafe {
            libc::close(handle);
        },
        Clock::Tick | Clock::Itimer => {}
    }
}

/// Stops the calling thread's wall-clock timer until it is [started](start_thread) again. Signal-safe: a timer that another thread gives up meanwhile is no
/// more, and the kernel says so.
pub(crate) fn stop_thread_from_handler(thread: &Thread) {
    let timer = thread.handles[Clock::Timer as usize].load(Acquire);
    if timer >= 0 {
        let _ = set_timer(timer, Duration::ZERO, Duration::ZERO);
    }
}

/// A timer whose signal goes to one thread.
fn new_timer(of: libc::clockid_t, clock: Clock, tid: pid_t) -> io::Result<c_int> {
    let mut timer: c_int = -1;
    // The bare system call: the kernel's number fits where glibc's pointer does not, and nothing is allocated.
    // SAFETY: plain data; the kernel writes the timer's number.
    let result = unsafe {
        let mut event: libc::sigevent = std::mem::zeroed();
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = SIGNALS[clock as usize].load(Relaxed);
        event.sigev_notify_thread_id = tid;
        libc::syscall(libc::SYS_timer_create, of, &raw mut event, &raw mut timer)
    };
    if result == 0 {
        Ok(timer)
    } else {
        Err(io::Error::last_os_error())
    }
}

fn set_timer(timer: c_int, first: Duration, interval: Duration) -> io::Result<()> {
    let time = |time: Duration| libc::timespec {
        tv_sec: time.as_secs().cast_signed(),
        tv_nsec: time.subsec_nanos().into(),
    };
    let setting = libc::itimerspec {
        it_interval: time(interval),
        it_value: time(first),
    };
    // SAFETY: plain data; a number that is no timer's is refused.
    let result = unsafe {
        libc::syscall(
            libc::SYS_timer_settime,
            timer,
            0,
            &raw const setting,
            std::ptr::null_mut::<libc::itimerspec>(),
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Starts ITIMER_PROF, or stops it for a zero interval.
pub(crate) fn set_itimer(interval: Duration) -> io::Result<()> {
    // The kernel keeps microseconds; shorter intervals would be zero, which stops.
    let microseconds = (interval.as_micros() as i64).max(i64::from(!interval.is_zero()));
    let time = libc::timeval {
        tv_sec: microseconds / 1_000_000,
        tv_usec: microseconds % 1_000_000,
    };
    let setting = libc::itimerval {
        it_interval: time,
        it_value: time,
    };
    // SAFETY: plain data.
    let result =
        unsafe { libc::setitimer(libc::ITIMER_PROF, &raw const setting, std::ptr::null_mut()) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Whether somebody else's ITIMER_PROF runs.
pub(crate) fn itimer_is_taken() -> bool {
    // SAFETY: plain data, written by the call.
    unsafe {
        let mut now: libc::itimerval = std::mem::zeroed();
        libc::getitimer(libc::ITIMER_PROF, &raw mut now) == 0
            && (now.it_value.tv_sec != 0 || now.it_value.tv_usec != 0)
    }
}

/// `struct perf_event_attr` up to version 1 (72 bytes), which every kernel since 2.6.33 takes.
#[repr(C)]
#[derive(Default)]
struct PerfAttributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    config1: u64,
    config2: u64,
}

const PERF_TYPE_SOFTWARE: u32 = 1;
const PERF_COUNT_SW_CPU_CLOCK: u64 = 0;
const PERF_DISABLED: u64 = 1;
const PERF_EXCLUDE_KERNEL: u64 = 1 << 5;
const PERF_EXCLUDE_HV: u64 = 1 << 6;
const PERF_FLAG_FD_CLOEXEC: c_long = 8;
const PERF_EVENT_IOC_ENABLE: libc::c_ulong = 0x2400;
const F_SETSIG: c_int = 10;
const F_SETOWN_EX: c_int = 15;
const F_OWNER_TID: c_int = 0;

#[repr(C)]
struct Owner {
    kind: c_int,
    pid: pid_t,
}

fn open_perf(tid: pid_t, interval: Duration) -> io::Result<c_int> {
    let attributes = PerfAttributes {
        kind: PERF_TYPE_SOFTWARE,
        size: size_of::<PerfAttributes>() as u32,
        config: PERF_COUNT_SW_CPU_CLOCK,
        sample_period: interval.as_nanos() as u64,
        flags: PERF_DISABLED | PERF_EXCLUDE_KERNEL | PERF_EXCLUDE_HV,
        wakeup_events: 1,
        ..PerfAttributes::default()
    };
    // SAFETY: plain data that the kernel reads.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            tid,
            -1_i32,
            -1_i32,
            PERF_FLAG_FD_CLOEXEC,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(fd as c_int)
}

fn start_perf(thread: &Thread, tid: pid_t, interval: Duration) -> io::Result<()> {
    let fd = open_perf(tid, interval)?;
    let owner = Owner {
        kind: F_OWNER_TID,
        pid: tid,
    };
    // The signal is no real-time one wherever perf is the first clock. Where it is one and its queue is full, the kernel sends SIGIO instead; so
    // a handler for that is installed with the clock's (see `signals`).
    // SAFETY: a descriptor of ours and plain data.
    let well = unsafe {
        libc::fcntl(fd, libc::F_SETFL, libc::O_ASYNC | libc::O_NONBLOCK) == 0
            && libc::fcntl(fd, F_SETSIG, SIGNALS[Clock::Perf as usize].load(Relaxed)) == 0
            && libc::fcntl(fd, F_SETOWN_EX, &raw const owner) == 0
            && libc::ioctl(fd, PERF_EVENT_IOC_ENABLE, 0) == 0
    };
    if !well {
        let error = io::Error::last_os_error();
        // SAFETY: ours.
        unsafe { libc::close(fd) };
        return Err(error);
    }
    thread.handles[Clock::Perf as usize].store(fd, Release);
    Ok(())
}

/// Whether perf events can be had: tries one on the calling thread.
///
/// # Errors
/// The kernel's reason.
pub(crate) fn try_perf() -> io::Result<()> {
    let fd = open_perf(0, Duration::from_millis(10))?;
    // SAFETY: ours.
    unsafe { libc::close(fd) };
    Ok(())
}
