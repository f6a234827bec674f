//! The summary of a crash log: cause, version and signal.

use super::text::{hexadecimal_after, signed_after};
use crate::signature::Signal;
use crate::version::JdkVersion;

/// Why the JVM died.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A synchronous signal, or one that somebody sent.
    Signal {
        /// Which.
        signal: Signal,
        /// Where.
        pc: Option<u64>,
        /// Whether somebody sent it (`kill`).
        sent_by_kill: bool,
    },
    /// A check of the VM failed.
    Internal {
        /// `file:line`, such as `frame.cpp:346`.
        place: String,
        /// What failed: `guarantee(cb != nullptr) failed`, `fatal error`, `ShouldNotReachHere()`.
        what: String,
        /// The message behind it.
        message: Option<String>,
    },
    /// Memory ran out: the system's, or Java's with `-XX:+CrashOnOutOfMemoryError`.
    OutOfMemory {
        /// The line that says so.
        text: String,
    },
}

impl Cause {
    /// The cause that a line of the summary names, if it names one.
    pub(super) fn parse(line: &str) -> Option<Self> {
        if line.starts_with("There is insufficient memory for the Java Runtime Environment")
            || line.starts_with("Out of Memory Error")
        {
            return Some(Cause::OutOfMemory {
                text: line.to_owned(),
            });
        }
        if let Some(rest) = line.strip_prefix("Internal Error (") {
            let (place, _) = rest.split_once(')')?;
            return Some(Cause::Internal {
                place: file_name(place).to_owned(),
                what: "internal error".to_owned(),
                message: None,
            });
        }
        // SIGSEGV (0xb) at pc=0x00007fd7408d1fad (sent by kill), pid=26896, tid=26897
        let (name, rest) = line.split_once(' ')?;
        let number = rest.strip_prefix("(0x")?;
        let (number, _) = number.split_once(')')?;
        if !name.starts_with("SIG") {
            return None;
        }
        Some(Cause::Signal {
            signal: Signal::from_number(i32::from_str_radix(number, 16).ok()?)?,
            pc: hexadecimal_after(line, "pc=0x"),
            sent_by_kill: line.contains("(sent by kill)"),
        })
    }

    /// Takes in the line below: what failed, and with which message.
    pub(super) fn continue_with(&mut self, line: &str) {
        let Cause::Internal {
            place,
            what,
            message,
        } = self
        else {
            return;
        };
        if what != "internal error" || line.is_empty() {
            return;
        }
        // `guarantee(x) failed: message`, `fatal error: message`, `Error: ShouldNotReachHere()`, `assert(x) failed: ...`
        let line = line.strip_prefix("Error: ").unwrap_or(line);
        let check = ["guarantee(", "assert("]
            .iter()
            .any(|word| line.starts_with(word));
        let end = match line.find(") failed") {
            Some(end) if check => Some(end + ") failed".len()),
            _ => line.find(": "),
        };
        let (head, tail) = line.split_at(end.unwrap_or(line.len()));
        *what = head.to_owned();
        *message = Some(tail.trim_start_matches(':').trim().to_owned()).filter(|m| !m.is_empty());
        if message
            .as_deref()
            .is_some_and(|m| m.starts_with("OutOfMemory encountered"))
        {
            let text = format!("{line} ({place})");
            *self = Cause::OutOfMemory { text };
        }
    }
}

/// `siginfo:`, what the kernel said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SigInfo {
    /// `si_signo`.
    pub signal: i32,
    /// `si_code`.
    pub code: i32,
    /// The name of `si_code`, such as `SEGV_MAPERR`.
    pub code_name: Option<String>,
    /// `si_addr`; `None` for a signal that somebody sent.
    pub address: Option<u64>,
}

impl SigInfo {
    pub(super) fn parse(line: &str) -> Option<Self> {
        // si_signo: 11 (SIGSEGV), si_code: 1 (SEGV_MAPERR), si_addr: 0x00000000000005df
        let code = line.split_once("si_code:")?.1;
        let name = code
            .split_once('(')
            .and_then(|(_, rest)| rest.split_once(')'));
        Some(Self {
            signal: signed_after(line, "si_signo:")?,
            code: signed_after(line, "si_code:")?,
            code_name: name.map(|(name, _)| name.to_owned()),
            address: hexadecimal_after(line, "si_addr: 0x"),
        })
    }
}

/// The version in `... (25.0.2+10) (build 25.0.2+10-LTS)` or `... (25.0.2+10-LTS, mixed mode, ...)`.
pub(super) fn jdk_version(line: &str) -> Option<JdkVersion> {
    let inside = line.split('(').skip(1);
    inside
        .filter_map(|part| part.split([')', ',', ' ']).next()?.parse().ok())
        .find(|version: &JdkVersion| version.line() > 0)
}

fn file_name(place: &str) -> &str {
    place.rsplit('/').next().unwrap_or(place)
}
