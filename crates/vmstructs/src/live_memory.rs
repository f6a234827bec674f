//! This process's own memory, read without ever faulting.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};

use walkfuzz_context::Address;

use crate::memory::{Memory, Unreadable};

/// A pipe takes at least this much without blocking (PIPE_BUF guarantees atomicity up to it).
const PIPE_CHUNK: usize = 4096;

/// Own memory through `process_vm_readv`, or through a pipe where a seccomp filter forbids that call (as some container
/// runtimes do).
///
/// Both let the kernel do the access, so that an address that is not mapped or not readable is an error and not a fault;
/// unlike `/proc/self/mem` they honour `PROT_NONE`. Signal-safe: system calls only, errno is kept. A read costs one system
/// call (about half a microsecond); walkers in handlers want something faster.
#[derive(Debug, Default)]
pub struct LiveMemory {
    forbidden: AtomicBool,
}

impl LiveMemory {
    /// Own memory.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            forbidden: AtomicBool::new(false),
        }
    }

    /// Own memory through pipes only, as if `process_vm_readv` were forbidden.
    #[must_use]
    pub const fn without_process_vm_readv() -> Self {
        Self {
            forbidden: AtomicBool::new(true),
        }
    }

    fn read_directly(&self, at: Address, into: &mut [u8]) -> Outcome {
        let local = libc::iovec {
            iov_base: into.as_mut_ptr().cast(),
            iov_len: into.len(),
        };
        let remote = libc::iovec {
            iov_base: at.0 as *mut c_void,
            iov_len: into.len(),
        };
        // SAFETY: `local` describes `into`, which is ours to write; the kernel checks the remote side itself. The process id
        // is asked for every time because a forked copy may be reading with this value.
        let read = unsafe {
            libc::process_vm_readv(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0)
        };
        if usize::try_from(read) == Ok(into.len()) {
            Outcome::Done
        } else if read < 0 && matches!(errno(), libc::EPERM | libc::ENOSYS) {
            Outcome::Forbidden
        } else {
            Outcome::Unreadable
        }
    }
}

enum Outcome {
    Done,
    Unreadable,
    Forbidden,
}

impl Memory for LiveMemory {
    fn read(&self, at: Address, into: &mut [u8]) -> Result<(), Unreadable> {
        if into.is_empty() {
            return Ok(());
        }
        let kept = errno();
        let length = into.len();
        let mut done = false;
        if !self.forbidden.load(Ordering::Relaxed) {
            match self.read_directly(at, into) {
                Outcome::Done => done = true,
                Outcome::Unreadable => {}
                Outcome::Forbidden => self.forbidden.store(true, Ordering::Relaxed),
            }
        }
        if !done && self.forbidden.load(Ordering::Relaxed) {
            done = read_through_pipe(at, into);
        }
        set_errno(kept);
        if done {
            Ok(())
        } else {
            Err(Unreadable {
                address: at,
                length,
            })
        }
    }
}

/// `write` reports EFAULT for memory that it cannot read. The pipe is new each time: one kept open would be shared with
/// forked copies.
fn read_through_pipe(at: Address, into: &mut [u8]) -> bool {
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for the two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) } != 0 {
        return false;
    }
    let [out, input] = ends;
    let mut from = at.0;
    let mut done = true;
    for piece in into.chunks_mut(PIPE_CHUNK) {
        // SAFETY: the kernel checks the source range and reports EFAULT; `piece` is ours to write, and both calls are
        // told its length.
        let moved = unsafe {
            libc::write(input, from as *const c_void, piece.len()) == piece.len() as isize
                && libc::read(out, piece.as_mut_ptr().cast(), piece.len()) == piece.len() as isize
        };
        if !moved {
            done = false;
            break;
        }
        from = from.wrapping_add(piece.len() as u64);
    }
    // SAFETY: both descriptors were opened above and are closed once.
    unsafe {
        libc::close(out);
        libc::close(input);
    }
    done
}

fn errno() -> i32 {
    // SAFETY: always points to this thread's errno.
    unsafe { *libc::__errno_location() }
}

fn set_errno(value: i32) {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = value }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(memory: &LiveMemory) {
        let text: Vec<u8> = (0..20_000_u32).map(|index| index as u8).collect();
        let mut copy = vec![0; text.len()];
        memory
            .read(Address(text.as_ptr() as u64), &mut copy)
            .unwrap();
        assert_eq!(copy, text);

        // SAFETY: a fresh mapping of two pages, the second made unreadable; unmapped at the end.
        let pages = unsafe {
            let pages = libc::mmap(
                std::ptr::null_mut(),
                8192,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            assert_ne!(pages, libc::MAP_FAILED);
            assert_eq!(
                libc::mprotect(pages.byte_add(4096), 4096, libc::PROT_NONE),
                0
            );
            pages
        };
        let start = pages as u64;
        set_errno(77);
        assert_eq!(memory.read_u64(Address(start + 4088)), Ok(0));
        assert!(
            memory.read_u64(Address(start + 4092)).is_err(),
            "half readable"
        );
        assert!(memory.read_u8(Address(start + 4096)).is_err(), "PROT_NONE");
        // SAFETY: mapped above.
        assert_eq!(unsafe { libc::munmap(pages, 8192) }, 0);
        for address in [0, 1, start, 0x8000_0000_0000_0000, u64::MAX - 3] {
            assert_eq!(
                memory.read_u64(Address(address)),
                Err(Unreadable {
                    address: Address(address),
                    length: 8
                })
            );
        }
        assert_eq!(errno(), 77, "errno is kept");
        assert_eq!(memory.read(Address(0), &mut []), Ok(()));
    }

    #[test]
    fn reads_what_is_readable_and_reports_the_rest() {
        check(&LiveMemory::new());
    }

    #[test]
    fn pipes_do_the_same() {
        check(&LiveMemory::without_process_vm_readv());
    }

    #[test]
    fn a_forked_copy_reads_its_own_memory() {
        let mut word = Box::new(1_u64);
        let memory = LiveMemory::new();
        let at = Address(&raw const *word as u64);
        // SAFETY: the child only reads memory and exits without unwinding or running destructors.
        let child = unsafe { libc::fork() };
        if child == 0 {
            *word = 2;
            let code = i32::from(memory.read_u64(at) != Ok(2));
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(code) };
        }
        let mut status = 0;
        // SAFETY: waits for the child forked above.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
        assert_eq!(memory.read_u64(at), Ok(1));
    }
}
