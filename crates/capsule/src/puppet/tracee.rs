//! A child process that is moved like a puppet: it executes what its tracer tells it to.
//!
//! The child is a fork of this process that stops at once. Its tracer, this thread, lets it make system calls one by one (to unmap what it
//! inherited, to map what it needs: `space`) and then run. While it runs it makes none: each ends the run before the kernel sees it (`PTRACE_SYSEMU`).
//! No signal is ever delivered to it: it has no handlers.

mod space;

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicI32, Ordering::*};

use libc::{c_int, c_void, pid_t};

use crate::arch::{self, Machine};
use crate::error::PuppetError;
use crate::puppet::permission;
use crate::walking::{TICK_US, set_clock};

/// What a system-call stop looks like with `PTRACE_O_TRACESYSGOOD`.
const SYSTEM_CALL_STOP: c_int = libc::SIGTRAP | 0x80;
/// Why the child stopped.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stop {
    /// It is about to make a system call, which has not happened.
    SystemCall,
    /// It would get this signal.
    Signal {
        signal: c_int,
        code: c_int,
        address: u64,
    },
    /// Its timer has ticked.
    Tick,
}

/// The child. Ends with this value.
#[derive(Debug)]
pub(crate) struct Tracee {
    pid: pid_t,
    memory: File,
    /// Where a system-call instruction is mapped in the child.
    gate: u64,
}

impl Tracee {
    /// Forks a child that stands still with a copy of this process's memory.
    ///
    /// The caller must be able to go on in the child with what is between `fork` and `exec` allowed: nothing allocates there.
    pub(crate) fn spawn() -> Result<Self, PuppetError> {
        // SAFETY: the child makes system calls alone.
        let pid = unsafe { libc::fork() };
        match pid {
            0 => stand_still(),
            -1 => return Err(PuppetError::last("fork a child")),
            _ => {}
        }
        let status = wait(pid)?;
        if libc::WIFEXITED(status) {
            let error = io::Error::from_raw_os_error(libc::WEXITSTATUS(status));
            return Err(not_permitted(&error));
        }
        if libc::WIFSIGNALED(status) {
            // A filter that kills.
            return Err(not_permitted(&io::Error::from_raw_os_error(libc::EPERM)));
        }
        Self::of_stopped(pid, status)
    }

    /// A child that another thread of this process has forked and that waits in a system call, with its timer set: see
    /// [`Copies`](crate::capture::Copies). The calling thread becomes its tracer.
    pub(crate) fn adopt(pid: pid_t) -> Result<Self, PuppetError> {
        // SAFETY: a request without addresses.
        if unsafe { libc::ptrace(libc::PTRACE_ATTACH, pid, 0, 0) } == -1 {
            let error = io::Error::last_os_error();
            end(pid);
            return Err(not_permitted(&error));
        }
        let status = wait(pid)?;
        let tracee = Self::of_stopped(pid, status)?;
        let mut gate = [0; arch::GATE.len()];
        let read = tracee.read(tracee.gate, &mut gate);
        if read.is_err() || gate != arch::GATE {
            // Caught between two of its system calls: of no use.
            return Err(PuppetError::Gone);
        }
        Ok(tracee)
    }

    /// A child that has stopped, with `status`, in a system call: of this thread, which traces it.
    fn of_stopped(pid: pid_t, status: c_int) -> Result<Self, PuppetError> {
        if !libc::WIFSTOPPED(status) {
            return Err(PuppetError::Gone);
        }
        let memory = File::options()
            .read(true)
            .write(true)
            .open(format!("/proc/{pid}/mem"))
            .map_err(|source| not_permitted(&source));
        let memory = match memory {
            Ok(memory) => memory,
            Err(error) => {
                end(pid);
                return Err(error);
            }
        };
        let mut tracee = Self {
            pid,
            memory,
            gate: 0,
        };
        let options = libc::PTRACE_O_EXITKILL | libc::PTRACE_O_TRACESYSGOOD;
        tracee.request(libc::PTRACE_SETOPTIONS, 0, options as u64, "set options")?;
        // The mask of the thread that forked is no business of the walk, and the timer's tick must come through.
        let mask = 0_u64;
        tracee.request(
            libc::PTRACE_SETSIGMASK,
            8,
            &raw const mask as u64,
            "set the signal mask",
        )?;
        // It stopped in the system call that stopped it.
        tracee.gate = arch::pc(&tracee.machine()?) - arch::GATE.len() as u64;
        Ok(tracee)
    }

    /// The process, for `/proc`.
    pub(crate) fn pid(&self) -> pid_t {
        self.pid
    }

    /// Its registers.
    pub(crate) fn machine(&self) -> Result<Machine, PuppetError> {
        let mut machine = Machine::default();
        self.request(
            libc::PTRACE_GETREGS,
            0,
            &raw mut machine as u64,
            "read the child's registers",
        )?;
        Ok(machine)
    }

    /// Sets its registers.
    pub(crate) fn set_machine(&self, machine: &Machine) -> Result<(), PuppetError> {
        self.request(
            libc::PTRACE_SETREGS,
            0,
            std::ptr::from_ref(machine) as u64,
            "set the child's registers",
        )
    }

    /// Its floating-point state, raw.
    pub(crate) fn float_state(&self) -> Result<arch::FloatState, PuppetError> {
        let mut state = arch::FloatState::default();
        let to = &raw mut state as u64;
        self.request(
            libc::PTRACE_GETFPREGS,
            0,
            to,
            "read the child's float state",
        )?;
        Ok(state)
    }

    /// Sets its floating-point state.
    pub(crate) fn set_float_state(&self, state: &arch::FloatState) -> Result<(), PuppetError> {
        let from = std::ptr::from_ref(state) as u64;
        self.request(
            libc::PTRACE_SETFPREGS,
            0,
            from,
            "set the child's float state",
        )
    }

    /// Lets it run until something happens.
    pub(crate) fn run(&mut self) -> Result<Stop, PuppetError> {
        loop {
            self.request(libc::PTRACE_SYSEMU, 0, 0, "let the child run")?;
            match self.stopped()? {
                SYSTEM_CALL_STOP => return Ok(Stop::SystemCall),
                libc::SIGPROF => return Ok(Stop::Tick),
                signal @ (libc::SIGSEGV
                | libc::SIGBUS
                | libc::SIGILL
                | libc::SIGFPE
                | libc::SIGTRAP) => return self.signal(signal),
                // Sent from outside (Ctrl-C reaches the whole group): not for it.
                _ => {}
            }
        }
    }

    fn signal(&self, signal: c_int) -> Result<Stop, PuppetError> {
        // SAFETY: all-zero is a valid siginfo_t, which the kernel then fills.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let to = &raw mut info as u64;
        self.request(libc::PTRACE_GETSIGINFO, 0, to, "read the child's signal")?;
        Ok(Stop::Signal {
            signal,
            code: info.si_code,
            // SAFETY: the fault signals have an address.
            address: unsafe { info.si_addr() } as u64,
        })
    }

    /// Waits until it stops; the signal.
    fn stopped(&self) -> Result<c_int, PuppetError> {
        let status = wait(self.pid)?;
        if libc::WIFSTOPPED(status) {
            Ok(libc::WSTOPSIG(status))
        } else {
            Err(PuppetError::Gone)
        }
    }

    fn request(
        &self,
        request: libc::c_uint,
        address: u64,
        data: u64,
        what: &'static str,
    ) -> Result<(), PuppetError> {
        // SAFETY: requests of this module, whose data are numbers or valid pointers of the size that the kernel copies.
        let answer = unsafe {
            libc::ptrace(
                request,
                self.pid,
                address as *mut c_void,
                data as *mut c_void,
            )
        };
        if answer == -1 {
            return Err(PuppetError::last(what));
        }
        Ok(())
    }
}

impl Drop for Tracee {
    fn drop(&mut self) {
        end(self.pid);
    }
}

fn not_permitted(error: &io::Error) -> PuppetError {
    PuppetError::NotPermitted {
        why: permission::why(error),
    }
}

/// Ends a child of this process.
pub(crate) fn end(pid: pid_t) {
    // SAFETY: our own child, which nobody else reaps.
    unsafe {
        libc::kill(pid, libc::SIGKILL);
        while libc::waitpid(pid, std::ptr::null_mut(), libc::__WALL) == -1
            && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
        {}
    }
}

fn wait(pid: pid_t) -> Result<c_int, PuppetError> {
    let mut status = 0;
    loop {
        // SAFETY: our own child.
        if unsafe { libc::waitpid(pid, &raw mut status, libc::__WALL) } == pid {
            return Ok(status);
        }
        let error = PuppetError::last("wait for the child");
        if !matches!(&error, PuppetError::System { source, .. } if source.kind() == io::ErrorKind::Interrupted)
        {
            return Err(error);
        }
    }
}

/// Forks the process that stands in a signal handler, and that copy once more: two copies of one moment, though other threads go on. They wait
/// to be [adopted](Tracee::adopt), and end after `patience` seconds in which nobody does, or with the process. Each writes down who it is in
/// `ready`, which is shared memory, when it may be. Signal-safe: system calls alone, none of libc's preparations for a fork.
pub(crate) fn fork_in_handler(ready: &[AtomicI32; 2], patience: u32) -> io::Result<pid_t> {
    let [first, second] = ready;
    first.store(0, Release);
    second.store(0, Release);
    match clone_process(0) {
        // The second is not the first one's child, but ours, as it is.
        0 => match clone_process(libc::CLONE_PARENT) {
            0 => wait_for_adoption(second, patience),
            _ => wait_for_adoption(first, patience),
        },
        -1 => Err(io::Error::last_os_error()),
        first => Ok(first as pid_t),
    }
}

/// A fork without a signal at its end.
fn clone_process(flags: c_int) -> libc::c_long {
    // SAFETY: no argument is a pointer; the copy makes system calls alone.
    unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) }
}

fn wait_for_adoption(ready: &AtomicI32, patience: u32) -> ! {
    /// How often it looks whether there is still somebody to adopt it.
    const LOOK: libc::timespec = libc::timespec {
        tv_sec: 0,
        tv_nsec: 100_000_000,
    };
    // SAFETY: system calls with valid arguments; all-zero is a valid action (the default one) and set.
    unsafe {
        let mut all_but_alarm: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all_but_alarm);
        libc::sigdelset(&raw mut all_but_alarm, libc::SIGALRM);
        libc::sigprocmask(
            libc::SIG_SETMASK,
            &raw const all_but_alarm,
            std::ptr::null_mut(),
        );
        let default: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGALRM, &raw const default, std::ptr::null_mut());
        libc::alarm(patience);
        set_clock(TICK_US);
        let parent = libc::syscall(libc::SYS_getppid);
        ready.store(libc::syscall(libc::SYS_getpid) as pid_t, Release);
        while libc::syscall(libc::SYS_getppid) == parent {
            // Made through `syscall`, whose instruction the tracer uses again. The kernel writes to the time that is left.
            let mut time = LOOK;
            libc::syscall(libc::SYS_ppoll, 0, 0, &raw mut time, 0, 0);
        }
        libc::_exit(0)
    }
}

/// What the child does by itself: it asks to be traced, and stops. Ends with the error's number if it may not.
fn stand_still() -> ! {
    // SAFETY: system calls with valid arguments. The last one is made through `syscall`, whose instruction the tracer uses again.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        set_clock(TICK_US);
        if libc::ptrace(libc::PTRACE_TRACEME) != 0 {
            libc::_exit(*libc::__errno_location());
        }
        libc::syscall(libc::SYS_kill, libc::getpid(), libc::SIGSTOP);
        // Nobody lets it go on here.
        libc::_exit(0)
    }
}
