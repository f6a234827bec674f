//! What `/proc` says of a process and of those below it.

use std::time::Duration;

/// What `/proc` counts time in, whatever the kernel's own tick (USER_HZ).
const TICKS_A_SECOND: u32 = 100;
/// The end of a mapping's line that shows a JVM.
const LIBJVM: &str = "/lib/server/libjvm.so";

/// The mappings of a process, or of the first JVM below it; and whether they are a JVM's.
pub(crate) fn jvm_maps(pid: u32) -> (String, bool) {
    let read = |pid| {
        let maps = std::fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
        String::from_utf8_lossy(&maps).into_owned()
    };
    let own = read(pid);
    if own.contains(LIBJVM) {
        return (own, true);
    }
    let mut below = children(pid);
    while let Some(pid) = below.pop() {
        let maps = read(pid);
        if maps.contains(LIBJVM) {
            return (maps, true);
        }
        below.extend(children(pid));
    }
    (own, false)
}

/// A process and everything below it that lives.
pub(crate) fn family(pid: u32) -> Vec<u32> {
    let mut found = vec![pid];
    let mut next = 0;
    while let Some(&pid) = found.get(next) {
        found.extend(children(pid));
        next += 1;
    }
    found
}

/// Resident bytes of these processes.
pub(crate) fn resident(pids: &[u32]) -> u64 {
    let page = 4096;
    let pages = pids.iter().filter_map(|pid| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
        text.split(' ').nth(1)?.parse::<u64>().ok()
    });
    pages.sum::<u64>() * page
}

/// CPU time of these processes, and time that they waited for a core: a busy machine makes nobody idle.
pub(crate) fn busy_time(pids: &[u32]) -> Duration {
    let waited: u64 = pids.iter().flat_map(|pid| waits(*pid)).sum();
    cpu_time(pids) + Duration::from_nanos(waited)
}

/// Nanoseconds that each thread of a process was runnable and did not run (schedstat's second number).
fn waits(pid: u32) -> Vec<u64> {
    let waited = |text: String| text.split_whitespace().nth(1)?.parse().ok();
    of_threads(pid, "schedstat").filter_map(waited).collect()
}

/// What a file says of each thread of a process.
fn of_threads(pid: u32, file: &str) -> impl Iterator<Item = String> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"));
    let threads = threads.into_iter().flatten().flatten();
    threads.filter_map(move |thread| std::fs::read_to_string(thread.path().join(file)).ok())
}

/// CPU time of these processes.
fn cpu_time(pids: &[u32]) -> Duration {
    let ticks = pids.iter().filter_map(|pid| {
        let fields = stat(*pid)?;
        // User and system time are the 12th and 13th field.
        let times = fields.split_whitespace().skip(11).take(2);
        times
            .map(|time| time.parse::<u64>().ok())
            .sum::<Option<u64>>()
    });
    Duration::from_secs(ticks.sum()) / TICKS_A_SECOND
}

/// What the kernel says of a process, behind its name, which may hold anything.
fn stat(pid: u32) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = text.rsplit_once(')')?;
    Some(fields.to_owned())
}

/// A process's state, `Z` for one that has ended, and its process group.
pub(crate) fn state_and_group(pid: u32) -> Option<(char, i32)> {
    // State, parent, group.
    let fields = stat(pid)?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(1)?.parse().ok()?))
}

/// Whether a process has that file, pipe or socket open, which `/proc` calls so (`pipe:[4711]`).
pub(crate) fn holds(pid: u32, name: &str) -> bool {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd"));
    files
        .into_iter()
        .flatten()
        .flatten()
        .any(|file| std::fs::read_link(file.path()).is_ok_and(|target| target.as_os_str() == name))
}

/// The processes that a process started, or got as orphans, and that live or were not waited for.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let mut found = Vec::new();
    for text in of_threads(pid, "children") {
        found.extend(
            text.split_whitespace()
                .filter_map(|word| word.parse::<u32>().ok()),
        );
    }
    found
}

/// How many processes the kernel has killed for want of memory since it started, in control groups, too; `None` before Linux 4.13.
pub(crate) fn oom_kills() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/vmstat").ok()?;
    let number = text
        .lines()
        .find_map(|line| line.strip_prefix("oom_kill "))?;
    number.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_cpu_time() {
        let own = [std::process::id()];
        let before = cpu_time(&own);
        let began = std::time::Instant::now();
        let mut number = 1_u64;
        while cpu_time(&own) < before + Duration::from_millis(50) {
            number = std::hint::black_box(number.wrapping_mul(3));
            assert!(began.elapsed() < Duration::from_secs(60));
        }
        assert_eq!(cpu_time(&[u32::MAX]), Duration::ZERO);
    }
}
