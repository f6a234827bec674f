//! Processes that nobody started and that are our children all the same: what an ended program left behind came to us, if this process
//! is a subreaper (`PR_SET_CHILD_SUBREAPER`). The last resort against those that left their process group and lost the mark.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::{Pid, getpgrp};

use crate::mark::mark_of;
use crate::procfs::{children, resident, state_and_group};

/// What we started, each in a process group of its own; and whether it is a cell's program.
static STARTED: Mutex<BTreeMap<u32, bool>> = Mutex::new(BTreeMap::new());

fn started() -> MutexGuard<'static, BTreeMap<u32, bool>> {
    STARTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a process that has a process group of its own, belongs to no cell, and is to live on when cells end.
///
/// # Errors
/// It cannot be started.
pub fn start_aside(command: &mut Command) -> io::Result<Child> {
    start(command, false)
}

/// Starts a cell's program; [`forget`] it when it has been waited for.
pub(crate) fn start_cell(command: &mut Command) -> io::Result<Child> {
    start(command, true)
}

fn start(command: &mut Command, is_cell: bool) -> io::Result<Child> {
    // Until it is in the list it would pass for an orphan.
    let mut started = started();
    let child = command.spawn()?;
    started.insert(child.id(), is_cell);
    Ok(child)
}

/// A process that was started is no more.
pub(crate) fn forget(pid: u32) {
    started().remove(&pid);
}

/// Ends the orphans that `wanted` knows, those with that mark, and, if no cell is under way, all without a mark: nobody else can have
/// left them. How many they were, beside those with the mark and those in group `ended`, which were sent a signal before.
pub(crate) fn end_orphans(ended: u32, mark: &str, wanted: impl Fn(u32) -> bool) -> usize {
    let mut killed = BTreeSet::new();
    // What an orphan started comes to us when the orphan has ended.
    let mut quiet = 0;
    for _ in 0..50 {
        let left = one_round(ended.cast_signed(), mark, &wanted, &mut killed);
        quiet = if left == 0 { quiet + 1 } else { 0 };
        if quiet == 2 {
            break;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    killed.len()
}

/// How many there still are.
fn one_round(
    ended: i32,
    mark: &str,
    wanted: impl Fn(u32) -> bool,
    killed: &mut BTreeSet<u32>,
) -> usize {
    let started = started();
    let alone = !started.values().any(|&is_cell| is_cell);
    let mut left = 0;
    for pid in children(std::process::id()) {
        let Some((state, group)) = state_and_group(pid) else {
            continue;
        };
        // What has our group was started by us, and somebody waits for it.
        if started.contains_key(&pid) || group == getpgrp().as_raw() {
            continue;
        }
        let process = Pid::from_raw(pid.cast_signed());
        // Who is ending has no memory, and no environment to read a mark in, before it is a zombie.
        let ends = state == 'Z' || resident(&[pid]) == 0;
        if ends {
            left += usize::from(state != 'Z');
        } else {
            let mark_there = mark_of(pid);
            let ours = match &mark_there {
                Some(theirs) => theirs == mark.as_bytes(),
                None => alone || wanted(pid) || killed.contains(&pid),
            };
            if !ours {
                continue;
            }
            left += 1;
            // It cannot be another's by now: it stays ours until we have waited for it.
            if kill(process, Signal::SIGKILL).is_ok() && mark_there.is_none() && group != ended {
                killed.insert(pid);
            }
        }
        let _ = waitpid(process, Some(WaitPidFlag::WNOHANG));
    }
    left
}
