//! A program within limits: time, progress, memory, output. It and everything that it started is ended.
//!
//! The program gets a process group of its own and a mark in its environment. What leaves the group (a daemon) still has the mark; what
//! loses that, too, is found among the orphans, if this process is a subreaper.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use walkfuzz_triage::{Ended, Exit};

use crate::listen::{Listener, name_of_pipe};
use crate::mark::{MARK, end_marked};
use crate::orphans::{end_orphans, forget, start_cell};
use crate::procfs::{busy_time, family, holds, jvm_maps, oom_kills, resident};
use crate::profile::Limits;
use crate::said::Said;

/// The file beside the output with the process's mappings, as `/proc/PID/maps` has them.
pub const MAPS: &str = "maps.txt";
/// How long a JVM may take for a thread dump before it is killed.
const DUMP: Duration = Duration::from_secs(2);
/// How long it may take to end when it is asked to.
const PATIENCE: Duration = Duration::from_secs(5);
/// Who uses this part of a core's time works; a JVM that waits uses less.
const WORKS: u32 = 20;

/// What ended a program, and what it said.
#[derive(Debug)]
pub struct Finished {
    /// Who ended it, and how.
    pub ended: Ended,
    /// What it said.
    pub said: Said,
    /// Its process id.
    pub pid: u32,
    /// Resident bytes at their most.
    pub peak_memory: u64,
    /// Whether it was ended for its memory.
    pub over_memory: bool,
    /// Whether the kernel killed it for want of memory.
    pub oom_killed: bool,
    /// Whether the output was more than is kept.
    pub flooded: bool,
    /// Processes that it had left behind.
    pub left_behind: usize,
    /// How long it ran.
    pub time: Duration,
}

/// Runs a program to its end or to its limits. `mark` is what [`MARK`] gets, `tells` whether it says how far it is, `asked` whether the user
/// wants an end; `output` is where its standard output and error go.
///
/// # Errors
/// It could not be started, or its output file not be made.
pub fn run(
    mut command: Command,
    mark: &str,
    limits: &Limits,
    tells: bool,
    output: &Path,
    asked: impl Fn() -> bool,
) -> io::Result<Finished> {
    let file = File::create(output)?;
    let (reader, writer) = io::pipe()?;
    command
        .env(MARK, mark)
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .process_group(0);
    let began = Instant::now();
    let oom_kills_before = oom_kills();
    let pipe = name_of_pipe(&reader);
    let maps = output.with_file_name(MAPS);
    let said = Arc::new(Mutex::new(Said::default()));
    let listener = Listener::start(reader, file, Arc::clone(&said))?;
    let mut child = start_cell(&mut command)?;
    // It holds the pipe's other end.
    drop(command);
    let mut watched = Watched {
        child: &mut child,
        began,
        limits,
        tells,
        said: &said,
        maps: &maps,
        peak: 0,
        cpu: Duration::ZERO,
        worked: began,
        saw_jvm: false,
        seen: BTreeSet::new(),
    };
    let waited = watched.wait(asked);
    let (pid, peak_memory) = (watched.child.id(), watched.peak);
    forget(pid);
    let (ended, over_memory) = waited?;
    let seen = watched.seen;
    let is_its =
        |orphan| seen.contains(&orphan) || pipe.as_deref().is_some_and(|pipe| holds(orphan, pipe));
    let left_behind = end_all(pid, mark) + end_orphans(pid, mark, is_its);
    let flooded = listener.finish();
    let said = said.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Ok(Finished {
        oom_killed: was_oom_killed(ended, oom_kills_before, oom_kills()),
        ended,
        said,
        pid,
        peak_memory,
        over_memory,
        flooded,
        left_behind,
        time: began.elapsed(),
    })
}

/// Whether the kernel has killed processes for want of memory meanwhile, and this one ended as they do; or its shell, which says so by 137.
fn was_oom_killed(ended: Ended, before: Option<u64>, after: Option<u64>) -> bool {
    const KILLED: i32 = Signal::SIGKILL as i32;
    let killed = match ended {
        Ended::ByItself(Exit::Signal(signal)) => signal == KILLED,
        Ended::ByItself(Exit::Code(code)) => code == 128 + KILLED,
        _ => false,
    };
    killed
        && before
            .zip(after)
            .is_some_and(|(before, after)| after > before)
}

struct Watched<'a> {
    child: &'a mut Child,
    began: Instant,
    limits: &'a Limits,
    tells: bool,
    said: &'a Mutex<Said>,
    maps: &'a Path,
    peak: u64,
    /// CPU time when it was last seen to work, and when that was.
    cpu: Duration,
    worked: Instant,
    /// Whether the mappings that are kept are a JVM's.
    saw_jvm: bool,
    /// What was seen below it, and may have left its family since.
    seen: BTreeSet<u32>,
}

impl Watched<'_> {
    fn wait(&mut self, asked: impl Fn() -> bool) -> io::Result<(Ended, bool)> {
        let mut looked = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok((Ended::ByItself(exit(status)), false));
            }
            if asked() {
                self.ask_to_end(Signal::SIGTERM, PATIENCE)?;
                return Ok((Ended::Interrupted, false));
            }
            if self.began.elapsed() > self.limits.time_out {
                self.ask_to_end(Signal::SIGQUIT, DUMP)?;
                return Ok((Ended::OutOfTime, false));
            }
            if self.stands_still() {
                self.ask_to_end(Signal::SIGQUIT, DUMP)?;
                return Ok((Ended::StoodStill, false));
            }
            if looked.elapsed() > Duration::from_millis(200) {
                looked = Instant::now();
                let family = family(self.child.id());
                self.seen.extend(&family);
                let cpu = busy_time(&family);
                // The time of a child that has ended is gone.
                self.cpu = self.cpu.min(cpu);
                if cpu > self.cpu + self.limits.hang / WORKS {
                    (self.cpu, self.worked) = (cpu, Instant::now());
                }
                let memory = resident(&family);
                self.peak = self.peak.max(memory);
                self.keep_maps();
                if memory > self.limits.memory {
                    self.end()?;
                    return Ok((Ended::ByItself(Exit::Signal(Signal::SIGKILL as i32)), true));
                }
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn stands_still(&self) -> bool {
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        // Somebody's program may speak the protocol, too.
        if !self.tells && !said.tells() {
            return false;
        }
        // Before its first words it starts, which may take minutes under -Xcomp: there, only who does nothing stands still.
        let since = said.progress.unwrap_or(self.worked);
        since.elapsed() > self.limits.hang.max(said.patience())
    }

    /// Remembers what lies where, as long as there is somebody to ask: the addresses of a record mean nothing without it.
    fn keep_maps(&mut self) {
        let (text, is_jvm) = jvm_maps(self.child.id());
        // What ends is without mappings before it is gone; a script may outlive its JVM.
        if !text.is_empty() && is_jvm >= self.saw_jvm {
            self.saw_jvm = is_jvm;
            let _ = std::fs::write(self.maps, text);
        }
    }

    /// Sends a signal, which makes a JVM dump its threads or end, and ends it if it is still there after `time`.
    fn ask_to_end(&mut self, signal: Signal, time: Duration) -> io::Result<()> {
        let _ = kill(pid_of(self.child.id()), signal);
        let asked = Instant::now();
        while asked.elapsed() < time {
            if self.child.try_wait()?.is_some() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        self.end()
    }

    fn end(&mut self) -> io::Result<()> {
        let _ = killpg(pid_of(self.child.id()), Signal::SIGKILL);
        self.child.wait().map(drop)
    }
}

fn exit(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (_, Some(signal)) => Exit::Signal(signal),
        (code, None) => Exit::Code(code.unwrap_or(-1)),
    }
}

fn pid_of(pid: u32) -> Pid {
    Pid::from_raw(pid.cast_signed())
}

/// Ends what is left of a process group, and what else has the mark. How many processes that were.
fn end_all(group: u32, mark: &str) -> usize {
    let _ = killpg(pid_of(group), Signal::SIGKILL);
    end_marked(|found| found == mark.as_bytes(), Duration::from_millis(2))
}

/// Where a cell's output goes.
#[must_use]
pub fn output_file(folder: &Path) -> PathBuf {
    folder.join("output.log")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listen::KEPT;
    use crate::profile::Profile;

    fn shell(script: &str, change: impl Fn(&mut Limits)) -> (Finished, String) {
        let mut limits = Profile::plain().limits;
        limits.time_out = Duration::from_secs(20);
        change(&mut limits);
        let folder = tempfile::tempdir().unwrap();
        let file = output_file(folder.path());
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let mark = format!("test-{}", folder.path().display());
        let finished = run(command, &mark, &limits, true, &file, || false).unwrap();
        (
            finished,
            String::from_utf8_lossy(&std::fs::read(&file).unwrap()).into_owned(),
        )
    }

    #[test]
    fn an_end_is_what_it_was() {
        let (done, text) = shell(
            "echo 'walkfuzz: done rounds=3 checks=3'; echo words >&2",
            |_| {},
        );
        assert_eq!(done.ended, Ended::ByItself(Exit::Code(0)));
        assert!(done.said.end.done && text.contains("words"));
        let (failed, _) = shell("exit 7", |_| {});
        assert_eq!(failed.ended, Ended::ByItself(Exit::Code(7)));
        let (killed, _) = shell("kill -SEGV $$", |_| {});
        assert_eq!(killed.ended, Ended::ByItself(Exit::Signal(11)));
    }

    #[test]
    fn who_stands_still_or_runs_on_is_ended() {
        let (still, _) = shell("echo 'walkfuzz: progress 1'; sleep 60", |limits| {
            limits.hang = Duration::from_millis(300);
        });
        assert_eq!(still.ended, Ended::StoodStill);
        let (late, _) = shell(
            "while :; do echo \"walkfuzz: progress $((n=n+1))\"; done",
            |limits| {
                limits.time_out = Duration::from_millis(700);
            },
        );
        assert_eq!(late.ended, Ended::OutOfTime);
    }

    #[test]
    fn the_kernels_kills_are_told_from_others() {
        let killed = Ended::ByItself(Exit::Signal(9));
        assert!(was_oom_killed(killed, Some(3), Some(4)));
        assert!(was_oom_killed(
            Ended::ByItself(Exit::Code(137)),
            Some(3),
            Some(5)
        ));
        assert!(!was_oom_killed(killed, Some(3), Some(3)));
        assert!(!was_oom_killed(
            Ended::ByItself(Exit::Code(1)),
            Some(3),
            Some(4)
        ));
        assert!(!was_oom_killed(Ended::OutOfTime, Some(3), Some(4)));
        // Here it can be told at all.
        assert!(oom_kills().is_some());
        let (other, _) = shell("kill -KILL $$", |_| {});
        assert!(!other.oom_killed && other.ended == killed, "{other:?}");
    }

    #[test]
    fn who_works_before_its_first_words_does_not_stand_still() {
        let soon = |limits: &mut Limits| {
            limits.hang = Duration::from_millis(1_500);
            limits.time_out = Duration::from_secs(5);
        };
        let (busy, _) = shell("while :; do :; done", soon);
        assert_eq!(busy.ended, Ended::OutOfTime);
        let (idle, _) = shell("sleep 60", soon);
        assert_eq!(idle.ended, Ended::StoodStill);
    }

    #[test]
    fn a_flood_is_drained_and_only_its_ends_are_kept() {
        let (flood, text) = shell(
            "echo first; yes 'what a program says of itself, on and on' | head -c 40000000; echo; echo 'walkfuzz: done rounds=1 checks=1'",
            |_| {},
        );
        assert!(flood.flooded && flood.said.end.done);
        assert!(
            text.starts_with("first")
                && text.contains("bytes were left out")
                && text.len() < 3 * KEPT
        );
    }

    #[test]
    fn memory_has_a_limit() {
        let (greedy, _) = shell(
            "x=$(head -c 200000000 /dev/zero | tr '\\0' x); sleep 20",
            |limits| {
                limits.memory = 50 << 20;
            },
        );
        assert!(greedy.over_memory, "{greedy:?}");
        assert!(greedy.peak_memory > 50 << 20);
    }

    #[test]
    fn what_it_leaves_behind_is_ended_too() {
        // It is in a group of its own before its parent ends.
        let script = "setsid sh -c 'echo $$; exec sleep 300 >/dev/null 2>&1' & \
                      until grep -q sleep /proc/$!/comm; do sleep 0.05; done";
        let (done, text) = shell(script, |_| {});
        assert_eq!(done.left_behind, 1, "{done:?}");
        let pid: u32 = text.lines().next().unwrap().parse().unwrap();
        let began = Instant::now();
        // Its entry stays until somebody has waited for it.
        let dead = || {
            std::fs::read_to_string(format!("/proc/{pid}/stat"))
                .map_or(true, |stat| stat.contains(") Z "))
        };
        while !dead() {
            assert!(began.elapsed() < Duration::from_secs(5));
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn what_leaves_its_group_and_loses_its_mark_is_ended_too() {
        nix::sys::prctl::set_child_subreaper(true).unwrap();
        // It has the output; or was seen; other tests may have cells under way.
        let escaped = "until grep -q sleep /proc/$!/comm; do sleep 0.05; done";
        for script in [
            format!("env -i setsid sleep 301 & {escaped}; echo said"),
            format!("env -i setsid sleep 302 >/dev/null 2>&1 & {escaped}; sleep 1; echo said"),
        ] {
            let began = Instant::now();
            let (done, text) = shell(&script, |_| {});
            assert!(began.elapsed() < Duration::from_secs(15), "{script}");
            assert!(done.left_behind > 0, "{script}: {done:?}");
            assert_eq!(text, "said\n");
        }
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        let sleeps = all.filter(|entry| {
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            line == b"sleep\x00301\0" || line == b"sleep\x00302\0"
        });
        assert_eq!(sleeps.count(), 0);
    }
}
