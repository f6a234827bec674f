//! A JVM that goes on with its work while profilers come and go, so that their cost is seen against the same compiled code, heap and threads.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use nix::time::clock_getcpuclockid;
use nix::unistd::Pid;

use super::Stage;
use crate::failure::Failure;

/// Longer than any measurement; the JVM is ended when it is no longer needed.
const SECONDS: u32 = 86_400;
/// How long a machine may keep a JVM from saying how far it is.
const PATIENCE: Duration = Duration::from_secs(120);

/// Work done by some moment, and the CPU time that the process had used by then.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Mark {
    pub(super) rounds: u64,
    pub(super) cpu: Duration,
}

/// What passed between two marks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Window {
    pub(super) rounds: u64,
    pub(super) cpu_seconds: f64,
}

impl Window {
    pub(super) fn between(from: Mark, to: Mark) -> Self {
        Self {
            rounds: to.rounds.saturating_sub(from.rounds),
            cpu_seconds: to.cpu.saturating_sub(from.cpu).as_secs_f64(),
        }
    }

    /// CPU seconds of a round.
    pub(super) fn price(&self) -> f64 {
        self.cpu_seconds / (self.rounds.max(1)) as f64
    }
}

/// The JVM. It ends when this is dropped.
pub(super) struct Running {
    child: Child,
    marks: Receiver<Mark>,
    jcmd: PathBuf,
    log: PathBuf,
}

impl Running {
    pub(super) fn start(stage: &Stage<'_>, threads: u32, name: &str) -> Result<Self, Failure> {
        let mut command = stage.java();
        // Newer JVMs warn of agents that come later.
        command.arg("-XX:+EnableDynamicAgentLoading");
        stage.program(&mut command, threads, SECONDS);
        let log = stage.folder.join(format!("{name}.log"));
        let said = File::create(&log).map_err(Failure::environment)?;
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(said)
            .spawn()
            .map_err(Failure::environment)?;
        let (sender, marks) = channel();
        let pid = Pid::from_raw(child.id().cast_signed());
        if let Some(out) = child.stdout.take() {
            std::thread::spawn(move || {
                for line in BufReader::new(out).lines().map_while(Result::ok) {
                    let mark = cpu(pid).and_then(|cpu| {
                        let rounds = rounds(&line)?;
                        Some(Mark { rounds, cpu })
                    });
                    if mark.is_some_and(|mark| sender.send(mark).is_err()) {
                        return;
                    }
                }
            });
        }
        Ok(Self {
            child,
            marks,
            jcmd: stage.jcmd.clone(),
            log,
        })
    }

    /// The next moment at which it says how far it is.
    pub(super) fn mark(&self) -> Result<Mark, Failure> {
        while self.marks.try_recv().is_ok() {}
        self.marks.recv_timeout(PATIENCE).map_err(|error| {
            let said = std::fs::read_to_string(&self.log).unwrap_or_default();
            let what = match error {
                RecvTimeoutError::Timeout => "did nothing for two minutes",
                RecvTimeoutError::Disconnected => "ended",
            };
            Failure::environment(format_args!("the sampled JVM {what}: {}", said.trim()))
        })
    }

    /// What it does in so many seconds or a little more.
    pub(super) fn window(&self, seconds: f64) -> Result<Window, Failure> {
        let from = self.mark()?;
        let began = Instant::now();
        loop {
            let to = self.mark()?;
            if began.elapsed().as_secs_f64() >= seconds {
                return Ok(Window::between(from, to));
            }
        }
    }

    /// CPU time that it has used.
    pub(super) fn cpu_seconds(&self) -> f64 {
        let pid = Pid::from_raw(self.child.id().cast_signed());
        cpu(pid).unwrap_or_default().as_secs_f64()
    }

    /// Loads an agent, or tells it something.
    pub(super) fn agent(&self, library: &Path, options: &str) -> Result<(), Failure> {
        let output = walkfuzz_record::machine::command(&self.jcmd)
            .arg(self.child.id().to_string())
            .arg("JVMTI.agent_load")
            .arg(library)
            .arg(format!("\"{options}\""))
            .stdin(Stdio::null())
            .output()
            .map_err(Failure::environment)?;
        let said = String::from_utf8_lossy(&output.stdout);
        if output.status.success() && said.contains("return code: 0") {
            return Ok(());
        }
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        Err(Failure::environment(format_args!(
            "{} was not loaded: {} {}",
            library.display(),
            said.trim(),
            log.trim()
        )))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// CPU time of a process, its ended threads included.
fn cpu(pid: Pid) -> Option<Duration> {
    clock_getcpuclockid(pid).ok()?.now().ok().map(Into::into)
}

/// Of a line `walkfuzz: progress N`.
fn rounds(line: &str) -> Option<u64> {
    line.strip_prefix("walkfuzz: progress ")?
        .trim()
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_of_progress_are_marks() {
        assert_eq!(rounds("walkfuzz: progress 17"), Some(17));
        assert_eq!(rounds("walkfuzz: progress"), None);
        assert_eq!(rounds("walkfuzz: done rounds=17"), None);
    }

    #[test]
    fn a_window_is_what_passed() {
        let mark = |rounds, ms| Mark {
            rounds,
            cpu: Duration::from_millis(ms),
        };
        let window = Window::between(mark(10, 500), mark(110, 2_500));
        assert_eq!(window.rounds, 100);
        assert_eq!(window.price(), 0.02);
        assert_eq!(Window::between(mark(1, 5), mark(1, 5)).price(), 0.0);
    }
}
