//! A program's output: its begin and end are kept, its lines are heard. It is read until nobody can write any more, or, if somebody lives
//! on with the pipe, until the program has ended and the pipe is empty.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use memchr::memchr_iter;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::said::Said;

/// How much of the output's begin and of its end is kept.
pub(crate) const KEPT: usize = 512 << 10;
/// The longest line that is looked at.
const LINE: usize = 8 << 10;
/// How long somebody who lives on may go on writing.
const LINGER: Duration = Duration::from_secs(1);

/// Who reads a program's output.
pub(crate) struct Listener {
    thread: JoinHandle<io::Result<bool>>,
    /// When it is closed, the program has ended.
    running: PipeWriter,
}

impl Listener {
    pub(crate) fn start(from: PipeReader, to: File, said: Arc<Mutex<Said>>) -> io::Result<Self> {
        let (ends, running) = io::pipe()?;
        let thread = std::thread::Builder::new().spawn(move || listen(from, ends, to, &said))?;
        Ok(Self { thread, running })
    }

    /// The program has ended: what it wrote is read, and no more is waited for. Whether it was more than is kept.
    pub(crate) fn finish(self) -> bool {
        drop(self.running);
        let flooded = self.thread.join();
        flooded.is_ok_and(|flooded| flooded.unwrap_or(false))
    }
}

/// What `/proc` calls a pipe in the lists of open files.
pub(crate) fn name_of_pipe(pipe: &PipeReader) -> Option<String> {
    let name = std::fs::read_link(format!("/proc/self/fd/{}", pipe.as_raw_fd())).ok()?;
    name.into_os_string().into_string().ok()
}

/// Waits until there is something to read, or the end of it; `None` if there is no more to wait for.
fn wait(from: &PipeReader, ends: &PipeReader, ended: &mut Option<Instant>) -> Option<()> {
    loop {
        let mut both = [
            PollFd::new(from.as_fd(), PollFlags::POLLIN),
            PollFd::new(ends.as_fd(), PollFlags::POLLIN),
        ];
        let (looked_at, time) = match ended {
            None => (&mut both[..], PollTimeout::NONE),
            Some(since) if since.elapsed() > LINGER => return None,
            Some(_) => (&mut both[..1], PollTimeout::ZERO),
        };
        match poll(looked_at, time) {
            Ok(0) => return None,
            Ok(_) => {}
            Err(Errno::EINTR) => continue,
            Err(_) => return None,
        }
        if ended.is_none() && both[1].any() == Some(true) {
            *ended = Some(Instant::now());
        }
        if both[0].any() == Some(true) {
            return Some(());
        }
    }
}

fn listen(
    mut from: PipeReader,
    ends: PipeReader,
    mut to: File,
    said: &Mutex<Said>,
) -> io::Result<bool> {
    let mut buffer = vec![0; 64 << 10];
    let mut line: Vec<u8> = Vec::new();
    let (mut written, mut all) = (0_usize, 0_usize);
    // As read, because single bytes would be slower than who writes them.
    let mut tail: VecDeque<Vec<u8>> = VecDeque::new();
    let mut in_tail = 0;
    let mut kept = Ok(());
    let mut ended = None;
    while wait(&from, &ends, &mut ended).is_some() {
        let read = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        let bytes = buffer.get(..read).unwrap_or_default();
        all += read;
        let now = Instant::now();
        let mut hears = said.lock().unwrap_or_else(PoisonError::into_inner);
        let mut begin = 0;
        let line_ends = memchr_iter(b'\n', bytes).map(Some).chain([None]);
        for end in line_ends {
            let part = bytes.get(begin..end.unwrap_or(read)).unwrap_or_default();
            let room = LINE.saturating_sub(line.len()).min(part.len());
            line.extend_from_slice(part.get(..room).unwrap_or_default());
            let Some(end) = end else { break };
            begin = end + 1;
            let text = String::from_utf8_lossy(&line);
            hears.line(text.trim_end(), now);
            line.clear();
        }
        drop(hears);
        let (head, rest) = bytes.split_at(read.min(KEPT.saturating_sub(written)));
        written += head.len();
        if kept.is_ok() {
            // A full disk must not stop the reading, or the program stands still.
            kept = to.write_all(head);
        }
        in_tail += rest.len();
        tail.push_back(rest.to_vec());
        while let Some(oldest) = tail.front().map(Vec::len)
            && in_tail - oldest >= KEPT
        {
            in_tail -= oldest;
            tail.pop_front();
        }
    }
    kept?;
    let left_out = all - written - in_tail;
    if left_out > 0 {
        writeln!(to, "\n... {left_out} bytes were left out here ...")?;
    }
    for part in &tail {
        to.write_all(part)?;
    }
    Ok(left_out > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_keeps_the_pipe_open_is_not_waited_for() {
        for chatty in [false, true] {
            let (reader, mut writer) = io::pipe().unwrap();
            let said = Arc::new(Mutex::new(Said::default()));
            let file = tempfile::tempfile().unwrap();
            let listener = Listener::start(reader, file, Arc::clone(&said)).unwrap();
            writer
                .write_all(b"walkfuzz: done rounds=3 checks=3\n")
                .unwrap();
            let survivor = writer.try_clone().unwrap();
            let writes = chatty.then(|| {
                // Until its reader is gone.
                std::thread::spawn(move || while writer.write_all(b"and on\n").is_ok() {})
            });
            let began = Instant::now();
            listener.finish();
            assert!(began.elapsed() < LINGER + Duration::from_secs(5));
            assert_eq!(said.lock().unwrap().end.checks, Some(3));
            drop(survivor);
            if let Some(writes) = writes {
                writes.join().unwrap();
            }
        }
    }
}
