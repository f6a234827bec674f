//! A child process that is moved like a puppet: it executes what its tracer tells it to.
//!
//! The child is a fork of this process that stops at once. Its tracer, this thread, lets it make system calls one by one (to unmap what it
//! inherited, to map what it needs) and then run. While it runs it makes none: each ends the run before the kernel sees it (`PTRACE_SYSEMU`).
//! No signal is ever delivered to it: it has no handlers.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use libc::{c_int, c_long, c_void, pid_t};

use crate::arch::{self, Machine};
use crate::capsule::Protection;
use crate::error::PuppetError;
use crate::format::limits::{self, PAGE};
use crate::walking::{TICK_US, set_clock};

/// What a system-call stop looks like with `PTRACE_O_TRACESYSGOOD`.
const SYSTEM_CALL_STOP: c_int = libc::SIGTRAP | 0x80;
/// Not in libc yet (`<linux/ptrace.h>`).
const PTRACE_GET_RSEQ_CONFIGURATION: u32 = 0x420f;
const RSEQ_UNREGISTER: u64 = 1;

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

/// As `<linux/ptrace.h>` has it.
#[repr(C)]
#[derive(Default)]
struct RseqConfiguration {
    pointer: u64,
    size: u32,
    signature: u32,
    flags: u32,
    padding: u32,
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
            return Err(PuppetError::NotPermitted {
                source: io::Error::from_raw_os_error(libc::WEXITSTATUS(status)),
            });
        }
        let memory = File::options()
            .read(true)
            .write(true)
            .open(format!("/proc/{pid}/mem"))
            .map_err(|source| PuppetError::NotPermitted { source });
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
        if !libc::WIFSTOPPED(status) {
            return Err(PuppetError::Gone);
        }
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

    /// Gives the child its stub page: where walks return to, and from where it makes system calls from now on.
    pub(crate) fn map_stub(&mut self, stub: u64) -> Result<(), PuppetError> {
        self.map(stub, 1, Protection::new(true, false, true))?;
        self.write(stub, &arch::stub())?;
        self.gate = stub + arch::STUB_GATE;
        Ok(())
    }

    /// Unmaps everything but the stub.
    pub(crate) fn unmap_all_but(&mut self, stub: u64) -> Result<(), PuppetError> {
        self.unregister_rseq()?;
        for (start, end) in [(0, stub), (stub + PAGE, limits::USER_SPACE)] {
            if self.system_call(libc::SYS_munmap, [start, end - start, 0, 0, 0, 0])? == 0 {
                continue;
            }
            // Some mapping may not be unmapped (sealed ones of the kernel's): spare it.
            let path = format!("/proc/{}/maps", self.pid);
            let maps = std::fs::read_to_string(path).map_err(|source| PuppetError::System {
                what: "read the child's mappings",
                source,
            })?;
            let ranges = maps.lines().filter_map(|line| {
                let (from, to) = line.split_once(' ')?.0.split_once('-')?;
                let word = |text| u64::from_str_radix(text, 16).ok();
                Some((word(from)?, word(to)?))
            });
            for (from, to) in ranges.filter(|(from, to)| *from >= start && *to <= end) {
                self.system_call(libc::SYS_munmap, [from, to - from, 0, 0, 0, 0])?;
            }
        }
        Ok(())
    }

    /// Restartable sequences: the kernel writes to an area in the thread's storage, and kills the thread when that is gone.
    fn unregister_rseq(&mut self) -> Result<(), PuppetError> {
        let mut area = RseqConfiguration::default();
        let size = size_of::<RseqConfiguration>() as u64;
        // SAFETY: the kernel writes at most `size` bytes to `area`. Old kernels do not know the request: then there is no area.
        let known = unsafe {
            libc::ptrace(
                PTRACE_GET_RSEQ_CONFIGURATION,
                self.pid,
                size as *mut c_void,
                (&raw mut area).cast::<c_void>(),
            )
        };
        if known >= 0 && area.pointer != 0 {
            let arguments = [
                area.pointer,
                u64::from(area.size),
                RSEQ_UNREGISTER,
                u64::from(area.signature),
                0,
                0,
            ];
            self.system_call(libc::SYS_rseq, arguments)?;
        }
        Ok(())
    }

    /// From now on the child gets no more memory, and leaves no core.
    pub(crate) fn limit(&mut self) {
        for resource in [libc::RLIMIT_AS, libc::RLIMIT_CORE, libc::RLIMIT_FSIZE] {
            let none = libc::rlimit {
                rlim_cur: 0,
                rlim_max: 0,
            };
            // SAFETY: the limits of our own child. Where it fails the child still makes no system call.
            unsafe { libc::prlimit(self.pid, resource, &none, std::ptr::null_mut()) };
        }
    }

    /// Maps `pages` fresh pages of zeros at `address`.
    pub(crate) fn map(
        &mut self,
        address: u64,
        pages: u64,
        protection: Protection,
    ) -> Result<(), PuppetError> {
        let flags = libc::MAP_PRIVATE | libc::MAP_FIXED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let arguments = [
            address,
            pages * PAGE,
            protection.mmap() as u64,
            flags as u64,
            u64::MAX,
            0,
        ];
        let answer = self.system_call(libc::SYS_mmap, arguments)?;
        if answer == address {
            return Ok(());
        }
        Err(PuppetError::Map {
            address,
            source: io::Error::from_raw_os_error((answer.wrapping_neg() & 0xfff) as i32),
        })
    }

    /// Unmaps `pages` pages at `address`.
    pub(crate) fn unmap(&mut self, address: u64, pages: u64) -> Result<(), PuppetError> {
        match self.system_call(libc::SYS_munmap, [address, pages * PAGE, 0, 0, 0, 0])? {
            0 => Ok(()),
            answer => Err(PuppetError::Map {
                address,
                source: io::Error::from_raw_os_error((answer.wrapping_neg() & 0xfff) as i32),
            }),
        }
    }

    /// Writes to the child's memory, whatever its protection.
    pub(crate) fn write(&self, address: u64, bytes: &[u8]) -> Result<(), PuppetError> {
        self.memory
            .write_all_at(bytes, address)
            .map_err(|source| PuppetError::System {
                what: "write to the child's memory",
                source,
            })
    }

    /// Reads the child's memory.
    pub(crate) fn read(&self, address: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.memory.read_exact_at(bytes, address)
    }

    /// Writes to many places at once: pages that the child may write.
    pub(crate) fn write_many<'a>(
        &self,
        places: impl Iterator<Item = (u64, &'a [u8])>,
    ) -> Result<(), PuppetError> {
        const MOST: usize = 64;
        let nothing = libc::iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: 0,
        };
        let (mut here, mut there) = ([nothing; MOST], [nothing; MOST]);
        let mut filled = 0;
        let mut places = places.peekable();
        while let Some((address, bytes)) = places.next() {
            if let (Some(here), Some(there)) = (here.get_mut(filled), there.get_mut(filled)) {
                here.iov_base = bytes.as_ptr().cast_mut().cast();
                there.iov_base = address as *mut c_void;
                (here.iov_len, there.iov_len) = (bytes.len(), bytes.len());
                filled += 1;
            }
            if filled < MOST && places.peek().is_some() {
                continue;
            }
            let wanted: usize = here.iter().take(filled).map(|part| part.iov_len).sum();
            // SAFETY: the kernel reads `here`, which points to borrowed bytes, and writes to the child alone.
            let written = unsafe {
                libc::process_vm_writev(
                    self.pid,
                    here.as_ptr(),
                    filled as u64,
                    there.as_ptr(),
                    filled as u64,
                    0,
                )
            };
            if written != wanted as isize {
                return Err(PuppetError::last("write to the child's memory"));
            }
            filled = 0;
        }
        Ok(())
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

    /// Has the child make one system call; returns what the kernel returned to it.
    pub(crate) fn system_call(
        &mut self,
        number: c_long,
        arguments: [u64; 6],
    ) -> Result<u64, PuppetError> {
        let before = self.machine()?;
        self.set_machine(&arch::calling(&before, self.gate, number, arguments))?;
        loop {
            self.request(libc::PTRACE_SINGLESTEP, 0, 0, "step the child")?;
            let stop = self.stopped()?;
            let now = self.machine()?;
            if stop == libc::SIGTRAP && arch::pc(&now) != self.gate {
                self.set_machine(&before)?;
                return Ok(arch::answer(&now));
            }
            if !matches!(stop, libc::SIGTRAP | libc::SIGPROF) && arch::pc(&now) == self.gate {
                // A fault at the gate would repeat for ever; anything else is from outside.
                if matches!(stop, libc::SIGSEGV | libc::SIGBUS | libc::SIGILL) {
                    return Err(PuppetError::Gone);
                }
            }
        }
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

fn end(pid: pid_t) {
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
