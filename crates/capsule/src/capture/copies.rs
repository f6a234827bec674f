//! Copies of a moment that are made in a signal handler and captured by another thread.
//!
//! A handler may neither allocate nor wait. So it only forks and goes on; the copy forks once more. Both stand still until some thread of the process
//! takes them over: one is the memory, in the other the walk is made. Nobody else may wait for all children of the process meanwhile.

use std::io;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicI32, Ordering::*};
use std::thread;
use std::time::{Duration, Instant};

use libc::pid_t;
use walkfuzz_context::Sp;

use crate::capture::walk_stack;
use crate::error::PuppetError;
use crate::puppet::{Tracee, end, fork_in_handler};

/// Copies that nobody has taken over after so many seconds end by themselves.
const PATIENCE: u32 = 30;
/// How long the copies may take to come into being.
const BIRTH: Duration = Duration::from_secs(5);
/// From when a copy says that it is ready until it waits.
const SETTLING: Duration = Duration::from_millis(2);

/// Words that a process and its copies share; made before they are needed, never given back.
#[derive(Clone, Copy, Debug)]
pub struct Meeting(&'static [AtomicI32; 2]);

impl Meeting {
    /// Maps them.
    ///
    /// # Errors
    /// The kernel's.
    pub fn new() -> io::Result<Self> {
        // SAFETY: a fresh mapping, which stays; zeros are valid words.
        unsafe {
            let page = libc::mmap(
                std::ptr::null_mut(),
                size_of::<[AtomicI32; 2]>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            if page == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            Ok(Self(&*page.cast::<[AtomicI32; 2]>()))
        }
    }
}

/// Two copies of a moment. They end with this value.
#[derive(Debug)]
pub struct Copies {
    first: pid_t,
    meeting: Meeting,
    stack: Sp,
}

impl Copies {
    /// Copies the calling process as it is, in a signal handler whose walk is to be captured. Signal-safe; takes as long as a fork.
    /// `meeting` serves one value at a time.
    ///
    /// # Errors
    /// The kernel's.
    pub fn fork(meeting: Meeting) -> io::Result<Self> {
        Ok(Self {
            first: fork_in_handler(meeting.0, PATIENCE)?,
            meeting,
            stack: walk_stack(),
        })
    }

    pub(crate) fn stack(&self) -> Sp {
        self.stack
    }

    /// The calling thread becomes their tracer.
    pub(crate) fn adopt(self) -> Result<(Tracee, Tracee), PuppetError> {
        let copies = ManuallyDrop::new(self);
        let second = copies.second();
        thread::sleep(SETTLING);
        let first = Tracee::adopt(copies.first);
        let second = second.map(Tracee::adopt);
        Ok((first?, second.ok_or(PuppetError::Gone)??))
    }

    /// The second copy, when both are ready.
    fn second(&self) -> Option<pid_t> {
        let began = Instant::now();
        let [first, second] = self.meeting.0;
        while first.load(Acquire) == 0 || second.load(Acquire) == 0 {
            if began.elapsed() > BIRTH {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
        Some(second.load(Acquire)).filter(|pid| *pid != 0)
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        [self.second(), Some(self.first)]
            .into_iter()
            .flatten()
            .for_each(end);
    }
}
