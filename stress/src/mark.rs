//! The mark in the environment of everything that belongs to a cell, by which it is found and ended.

use std::collections::BTreeSet;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// The environment variable that marks what belongs to a cell.
pub const MARK: &str = "WALKFUZZ_CELL";

/// The mark of a cell that process `driver` runs.
#[must_use]
pub fn mark(cell: &str, driver: u32) -> String {
    format!("{cell}-{driver}")
}

/// Ends whatever the cells of process `driver` have left, when that process is no more. How many processes that were.
pub fn end_orphans(driver: u32) -> usize {
    let end = mark("", driver);
    end_marked(
        |found| found.ends_with(end.as_bytes()),
        Duration::from_millis(20),
    )
}

/// Ends all processes with a mark of that kind. How many that were.
pub(crate) fn end_marked(wanted: impl Fn(&[u8]) -> bool, pause: Duration) -> usize {
    let mut ended = BTreeSet::new();
    // Who is about to start another process, or to execute another program, has its mark a moment later.
    let mut quiet = 0;
    for _ in 0..20 {
        let before = ended.len();
        end_those_there(&wanted, &mut ended);
        quiet = if ended.len() == before { quiet + 1 } else { 0 };
        if quiet == 3 {
            break;
        }
        std::thread::sleep(pause);
    }
    ended.len()
}

fn end_those_there(wanted: impl Fn(&[u8]) -> bool, ended: &mut BTreeSet<u32>) {
    for pid in processes() {
        let marked = mark_of(pid).is_some_and(|mark| wanted(&mark));
        // Ourselves, when a cell runs us.
        if marked
            && pid != std::process::id()
            && kill(Pid::from_raw(pid.cast_signed()), Signal::SIGKILL).is_ok()
        {
            ended.insert(pid);
        }
    }
}

/// The mark of a process, if it has one.
pub(crate) fn mark_of(pid: u32) -> Option<Vec<u8>> {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    let name = format!("{MARK}=");
    environment
        .split(|&byte| byte == 0)
        .find_map(|entry| entry.strip_prefix(name.as_bytes()))
        .map(<[u8]>::to_vec)
}

fn processes() -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}
