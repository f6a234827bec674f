//! The child's address space: what is mapped in it, and its bytes.

use std::io;
use std::os::unix::fs::FileExt as _;

use libc::{c_long, c_void};

use super::Tracee;
use crate::arch;
use crate::capsule::Protection;
use crate::error::PuppetError;
use crate::format::limits::{self, PAGE};

/// Not in libc yet (`<linux/ptrace.h>`).
const PTRACE_GET_RSEQ_CONFIGURATION: u32 = 0x420f;
const RSEQ_UNREGISTER: u64 = 1;

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
                // Some containers permit ptrace and not this.
                for (here, there) in here.iter().zip(&there).take(filled) {
                    // SAFETY: borrowed bytes, put there above.
                    let bytes = unsafe {
                        std::slice::from_raw_parts(here.iov_base.cast::<u8>(), here.iov_len)
                    };
                    self.write(there.iov_base as u64, bytes)?;
                }
            }
            filled = 0;
        }
        Ok(())
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
}
