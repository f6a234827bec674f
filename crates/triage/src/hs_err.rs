//! HotSpot's crash log (`hs_err_pid*.log`): all of its sections.
//!
//! A crash log is written by a dying process: it may end anywhere, repeat itself, and hold any bytes. So parsing never
//! fails; what is not there is `None` or empty. Lines are recognised by what they are, not by where they stand, because
//! the order of sections changes between 8 and 26 (`src/hotspot/share/utilities/vmError.cpp`). Time is linear in the log's
//! length, and what is kept is bounded, however long the log.

mod frame;
mod header;
mod memory;
mod process;
mod registers;
mod section;
mod settings;
mod system;
mod text;
mod threads;
mod walker;

pub use frame::{Frame, FrameKind};
pub use header::{Cause, SigInfo};
pub use memory::{CodeBytes, CodeNote, Note, StackWords};
pub use process::{CodeHeap, EventLog, HeapSpan, MappedRange};
pub use settings::{Flag, HandlerLine, VmArguments};
pub use system::System;
pub use threads::{StackLine, ThreadLine};
pub use walker::{Sighting, WalkerCrash};

use std::path::Path;

use walkfuzz_context::{Arch, Registers};

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
    /// The line `JRE version:`, which names the vendor's build.
    pub jre: Option<String>,
    /// The line `Java VM:`, which names mode, collector and platform.
    pub vm: Option<String>,
    /// The frame that the VM blames. Logs of failed checks have none.
    pub problematic: Option<Frame>,
    /// The command line of the launcher.
    pub command_line: Option<String>,
    /// The machine, in the summary's words.
    pub host: Option<String>,
    /// When it was, and how long the JVM had been up.
    pub time: Option<String>,
    /// `siginfo:`.
    pub siginfo: Option<SigInfo>,
    /// The thread that died.
    pub thread: Option<ThreadLine>,
    /// Its stack.
    pub stack: StackLine,
    /// Native frames, innermost first.
    pub native_frames: Vec<Frame>,
    /// Whether the list of native frames ended with `...<more frames>...`.
    pub more_native_frames: bool,
    /// Java frames, innermost first.
    pub java_frames: Vec<Frame>,
    /// The registers at the crash.
    pub registers: Option<Registers>,
    /// What HotSpot takes the registers for.
    pub register_notes: Vec<Note>,
    /// The top of the stack.
    pub top_of_stack: StackWords,
    /// The code around the pc.
    pub code_bytes: CodeBytes,
    /// What HotSpot takes the topmost words of the stack for.
    pub stack_notes: Vec<Note>,
    /// `Lock stack of current Java thread`, from 21 on.
    pub lock_stack: Vec<String>,
    /// `Current CompileTask:`, if a compiler thread died.
    pub compile_task: Option<String>,
    /// All threads of the VM.
    pub threads: Vec<ThreadLine>,
    /// `VM state:`.
    pub vm_state: Option<String>,
    /// `VM Mutex/Monitor currently owned by a thread:`.
    pub vm_locks: Option<String>,
    /// Where the heap is.
    pub heap: Option<HeapSpan>,
    /// `Heap:`, the heap's parts.
    pub heap_usage: Vec<String>,
    /// Class data sharing.
    pub cds: Option<String>,
    /// The parts of the code cache.
    pub code_heaps: Vec<CodeHeap>,
    /// The VM's ring buffers of events.
    pub events: Vec<EventLog>,
    /// The process's mappings.
    pub libraries: Vec<MappedRange>,
    /// What the JVM was started with.
    pub arguments: VmArguments,
    /// The flags that are not at their default.
    pub flags: Vec<Flag>,
    /// The environment's variables that the VM cares for.
    pub environment: Vec<(String, String)>,
    /// The signal handlers.
    pub handlers: Vec<HandlerLine>,
    /// The machine.
    pub system: System,
    /// How often the VM crashed again while it wrote the log.
    pub errors_while_reporting: u32,
    /// Whether the log has its last line.
    pub complete: bool,
    /// Whether a further crash log follows, of which nothing is read.
    pub another_follows: bool,
}

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

impl CrashLog {
    /// Reads a crash log's bytes. Bytes that are none give an empty log: see [`CrashLog::is_crash_log`].
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Self {
        section::read(bytes)
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
        walker::on_stack(self).map(|sighting| sighting.walker)
    }

    /// Whether an asynchronous walker crashed, and why one may say so.
    #[must_use]
    pub fn walker_crash(&self) -> WalkerCrash {
        walker::judge(self)
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

    /// The architecture, from the platform that the VM names.
    #[must_use]
    pub fn arch(&self) -> Option<Arch> {
        let vm = self.vm.as_deref()?;
        if vm.contains("-amd64") || vm.contains("-x86_64") {
            Some(Arch::X86_64)
        } else if vm.contains("-aarch64") {
            Some(Arch::Aarch64)
        } else {
            None
        }
    }

    /// The collector, as the option `--gc` names it.
    #[must_use]
    pub fn collector(&self) -> Option<&'static str> {
        let by_flag = || {
            let on = self.flags.iter().filter(|flag| flag.value == "true");
            on.filter_map(|flag| settings::collector_of_flag(&flag.name))
                .next()
        };
        let by_option = || {
            let options = self.options().split_whitespace();
            options
                .filter_map(|option| option.strip_prefix("-XX:+"))
                .filter_map(settings::collector_of_flag)
                .next_back()
        };
        self.vm
            .as_deref()
            .and_then(settings::collector_of_vm)
            .or_else(by_flag)
            .or_else(by_option)
    }

    /// The JVM's options: of the section, or of a log cut off before it the command line.
    #[must_use]
    pub fn options(&self) -> &str {
        let options = self.arguments.options.as_deref();
        options.or(self.command_line.as_deref()).unwrap_or("")
    }

    /// The value of a flag that is not at its default.
    #[must_use]
    pub fn flag(&self, name: &str) -> Option<&str> {
        let flag = self.flags.iter().find(|flag| flag.name == name)?;
        Some(&flag.value)
    }

    /// The base of libjvm: its lowest mapping, or what a frame in it tells.
    #[must_use]
    pub fn libjvm_base(&self) -> Option<u64> {
        let mapped = self
            .libraries
            .iter()
            .find(|range| range.file_name() == "libjvm.so")
            .map(|range| range.low);
        let by_frame = || {
            let frame = self
                .problematic
                .as_ref()
                .filter(|frame| frame.kind == FrameKind::Vm)?;
            let Some(Cause::Signal { pc: Some(pc), .. }) = self.cause else {
                return None;
            };
            pc.checked_sub(frame.module_offset?)
        };
        mapped.or_else(by_frame)
    }

    /// Distance of the crash's pc from libjvm's base, if it lies in libjvm.
    #[must_use]
    pub fn libjvm_offset(&self) -> Option<u64> {
        let in_libjvm = |frame: &&Frame| frame.module.as_deref() == Some("libjvm.so");
        self.site().filter(in_libjvm)?.module_offset
    }
}
