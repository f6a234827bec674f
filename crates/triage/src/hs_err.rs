//! HotSpot's crash log (`hs_err_pid*.log`), as far as an outcome needs it.
//!
//! A crash log is written by a dying process: it may end anywhere, repeat itself, and hold any bytes. So parsing never
//! fails; what is not there is `None` or empty. Lines are recognised by what they are, not by where they stand, because
//! the order of sections changes between 8 and 26 (`src/hotspot/share/utilities/vmError.cpp`).

mod frame;
mod header;

pub use frame::{Frame, FrameKind};
pub use header::{Cause, SigInfo, ThreadLine};

use std::path::Path;

use crate::signature::{Kind, Signature};
use crate::version::JdkVersion;

/// What a crash log says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CrashLog {
    /// Why the JVM died.
    pub cause: Option<Cause>,
    /// The process.
    pub pid: Option<u32>,
    /// The kernel's id of the thread.
    pub tid: Option<u32>,
    /// The version of the JDK.
    pub jdk: Option<JdkVersion>,
    /// The line `Java VM:`, which names mode, collector and platform.
    pub vm: Option<String>,
    /// The frame that the VM blames. Logs of failed checks have none.
    pub problematic: Option<Frame>,
    /// `siginfo:`.
    pub siginfo: Option<SigInfo>,
    /// The thread that died.
    pub thread: Option<ThreadLine>,
    /// Native frames, innermost first.
    pub native_frames: Vec<Frame>,
    /// Java frames, innermost first.
    pub java_frames: Vec<Frame>,
    /// How often the VM crashed again while it wrote the log.
    pub errors_while_reporting: u32,
    /// Whether the log has its last line.
    pub complete: bool,
}

/// Functions of libjvm by which an asynchronous walker is known on a stack, and the walker's short name.
const WALKERS: [(&str, &str); 7] = [
    ("AsyncGetCallTrace", "agct"),
    ("AsyncGetStackTrace", "asgst"),
    ("JfrStackTrace::record_async", "jfr"),
    ("JfrThreadSampler", "jfr"),
    ("JfrCPUTimeThreadSampling", "jfr-cpu"),
    ("JfrSamplerThread", "jfr"),
    ("OSThreadSampler", "jfr"),
];

/// Frames of the VM's own reporting, above the place that failed.
const REPORTING: [&str; 7] = [
    "VMError::",
    "report_vm_error",
    "report_fatal",
    "report_should_not",
    "report_unimplemented",
    "report_java_out_of_memory",
    "report_vm_out_of_memory",
];

#[derive(Clone, Copy, PartialEq)]
enum Section {
    None,
    ProblematicFrame,
    NativeFrames,
    JavaFrames,
}

impl CrashLog {
    /// Reads a crash log's bytes. Bytes that are none give an empty log: see [`CrashLog::is_crash_log`].
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let mut log = Self::default();
        let mut section = Section::None;
        for line in text.lines() {
            section = log.line(line.trim_end(), section);
        }
        log
    }

    /// Reads a crash log's file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(path: impl AsRef<Path>) -> std::io::Result<Self> {
        Ok(Self::parse(&std::fs::read(path)?))
    }

    /// Whether it was a crash log at all: there is a cause or a blamed frame.
    #[must_use]
    pub fn is_crash_log(&self) -> bool {
        self.cause.is_some() || self.problematic.is_some()
    }

    /// The frame that the crash happened in: the blamed one, or for a failed check the first below the VM's reporting.
    #[must_use]
    pub fn site(&self) -> Option<&Frame> {
        // Some of the reporting frames have no name in a stripped libjvm, so that the last named one counts.
        let below_reporting = || {
            let reports = |frame: &Frame| {
                let function = frame.function.as_deref().unwrap_or("");
                frame.kind == FrameKind::Vm
                    && REPORTING.iter().any(|name| function.starts_with(name))
            };
            let last = self.native_frames.iter().rposition(reports);
            self.native_frames.get(last.map_or(0, |last| last + 1))
        };
        self.problematic.as_ref().or_else(below_reporting)
    }

    /// The asynchronous walker on the native stack, by its short name, if one is.
    #[must_use]
    pub fn walker(&self) -> Option<&'static str> {
        self.native_frames
            .iter()
            .chain(&self.problematic)
            .filter_map(|frame| frame.function.as_deref())
            .find_map(|function| {
                let (_, walker) = WALKERS
                    .iter()
                    .find(|(name, _)| function.starts_with(name))?;
                Some(*walker)
            })
    }

    /// The crash's signature; `walker` overrides what the stack tells. `None` if the log does not say why the JVM died.
    #[must_use]
    pub fn signature(&self, walker: Option<&str>) -> Option<Signature> {
        let walker = walker.or(self.walker()).unwrap_or(Signature::NO_WALKER);
        let function = self
            .site()
            .map_or_else(|| "unknown".to_owned(), Frame::site);
        match self.cause.as_ref()? {
            Cause::Signal { signal, .. } => {
                Some(Signature::new(Kind::Signal(*signal), function, walker))
            }
            Cause::Internal { place, what, .. } => Some(
                Signature::new(Kind::Guarantee, function, walker)
                    .with_detail(format!("{place} {what}")),
            ),
            Cause::OutOfMemory { .. } => None,
        }
    }

    fn line(&mut self, line: &str, section: Section) -> Section {
        if line.starts_with('#') {
            return self.header_line(line.trim_start_matches('#').trim(), section);
        }
        if line.starts_with("Native frames:") {
            return Section::NativeFrames;
        }
        if line.starts_with("Java frames:") {
            return Section::JavaFrames;
        }
        if line.starts_with("[error occurred during error reporting") {
            self.errors_while_reporting = self.errors_while_reporting.saturating_add(1);
            return section;
        }
        if matches!(section, Section::NativeFrames | Section::JavaFrames) {
            // `...<more frames>...` and 25's `[timeout occurred ...]` end a list as an empty line does.
            if let Some(frame) = Frame::parse(line) {
                let frames = match section {
                    Section::NativeFrames => &mut self.native_frames,
                    _ => &mut self.java_frames,
                };
                frames.push(frame);
                return section;
            }
        }
        if line == "END." {
            self.complete = true;
        } else if let Some(rest) = line.strip_prefix("siginfo:") {
            self.siginfo = self.siginfo.take().or_else(|| SigInfo::parse(rest));
        } else if let Some(rest) = line.strip_prefix("Current thread ") {
            self.thread = self.thread.take().or_else(|| ThreadLine::parse(rest));
        }
        Section::None
    }

    /// A line of the summary in front, without its `#`.
    fn header_line(&mut self, line: &str, section: Section) -> Section {
        self.pid = self.pid.or_else(|| header::number_after(line, "pid="));
        self.tid = self.tid.or_else(|| header::number_after(line, "tid="));
        if section == Section::ProblematicFrame {
            self.problematic = self.problematic.take().or_else(|| Frame::parse(line));
            return Section::None;
        }
        if line == "Problematic frame:" {
            return Section::ProblematicFrame;
        }
        if let Some(rest) = line.strip_prefix("JRE version:") {
            self.jdk = self.jdk.take().or_else(|| header::jdk_version(rest));
        } else if let Some(rest) = line.strip_prefix("Java VM:") {
            self.vm.get_or_insert_with(|| rest.trim().to_owned());
            self.jdk = self.jdk.take().or_else(|| header::jdk_version(rest));
        } else if let Some(cause) = Cause::parse(line) {
            if self.cause.is_none() {
                self.cause = Some(cause);
                (self.pid, self.tid) = (
                    header::number_after(line, "pid="),
                    header::number_after(line, "tid="),
                );
            }
        } else if let Some(cause) = &mut self.cause {
            cause.continue_with(line);
        }
        Section::None
    }
}
