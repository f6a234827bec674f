//! Which section a line belongs to, and who reads it.

use super::CrashLog;
use super::frame::Frame;
use super::header::{Cause, SigInfo, jdk_version};
use super::memory::Note;
use super::process::{CodeHeap, EventLog, HeapSpan, MappedRange};
use super::registers::RegisterBank;
use super::settings::{Flag, HandlerLine};
use super::text::{lines, number_after, push_bounded};
use super::threads::{StackLine, ThreadLine};

/// Bounds of lists that have no bound of their own: far more than HotSpot prints of any process that is not extreme.
const MOST_FRAMES: usize = 4096;
const MOST_NOTES: usize = 64;
const MOST_THREADS: usize = 16_384;
const MOST_RANGES: usize = 65_536;
const MOST_LINES: usize = 512;
const MOST_CODE_HEAPS: usize = 16;
const MOST_EVENT_LOGS: usize = 64;

/// A log of so many bytes is none; HotSpot's are 40 to 500 KB.
const MOST_BYTES: usize = 64 << 20;

/// What only the summary of a crash log says. It may come twice: what the JVM writes to its standard output has no more than it.
const BEGINS: [&str; 2] = [
    "A fatal error has been detected by the Java Runtime Environment",
    "There is insufficient memory for the Java Runtime Environment to continue",
];

#[derive(Clone, Copy, PartialEq)]
enum Section {
    None,
    ProblematicFrame,
    NativeFrames,
    JavaFrames,
    Registers,
    RegisterNotes,
    TopOfStack,
    Instructions,
    StackNotes,
    LockStack,
    CompileTask,
    Threads,
    Heap,
    CodeHeap,
    Events,
    Libraries,
    Arguments,
    Flags,
    Environment,
    Handlers,
    System,
}

/// Headings, by how their line begins. Where something follows on the same line, the section's reader gets it.
const HEADINGS: [(&str, Section); 29] = [
    ("Native frames:", Section::NativeFrames),
    ("Java frames:", Section::JavaFrames),
    ("Registers:", Section::Registers),
    ("Register to memory mapping:", Section::RegisterNotes),
    ("Top of Stack:", Section::TopOfStack),
    ("Instructions:", Section::Instructions),
    ("Stack slot to memory mapping:", Section::StackNotes),
    ("Lock stack of current Java thread", Section::LockStack),
    ("Current CompileTask:", Section::CompileTask),
    ("Java Threads:", Section::Threads),
    ("Other Threads:", Section::Threads),
    ("Heap:", Section::Heap),
    ("Dynamic libraries:", Section::Libraries),
    ("VM Arguments:", Section::Arguments),
    ("[Global flags]", Section::Flags),
    ("Environment Variables:", Section::Environment),
    ("Signal Handlers:", Section::Handlers),
    // Headings of sections that nobody needs end those before them.
    ("---------------  ", Section::None),
    ("Threads class SMR info:", Section::None),
    ("Threads with active compile tasks:", Section::None),
    ("GC Precious Log:", Section::None),
    ("Heap Regions:", Section::None),
    ("Metaspace:", Section::None),
    ("Card table byte_map:", Section::None),
    ("Polling page:", Section::None),
    ("Logging:", Section::None),
    ("Active Locale:", Section::None),
    ("Native Memory Tracking:", Section::None),
    ("Periodic native trim", Section::None),
];

struct Reader {
    log: CrashLog,
    section: Section,
    bank: RegisterBank,
}

/// Reads a log.
pub(super) fn read(bytes: &[u8]) -> CrashLog {
    let mut reader = Reader {
        log: CrashLog::default(),
        section: Section::None,
        bank: RegisterBank::default(),
    };
    for line in lines(&bytes[..bytes.len().min(MOST_BYTES)]) {
        if line.starts_with('#') && reader.log.is_of_another(&line) {
            reader.log.another_follows = true;
            break;
        }
        reader.section = reader.line(&line);
    }
    let Reader { mut log, bank, .. } = reader;
    let pc = match &log.cause {
        Some(Cause::Signal { pc, .. }) => *pc,
        _ => None,
    };
    log.registers = bank.finish(log.arch(), pc);
    log
}

impl CrashLog {
    /// Whether a line of a summary belongs to another log than what was read so far.
    fn is_of_another(&self, line: &str) -> bool {
        let has_body = self.complete || self.thread.is_some() || self.system != Default::default();
        let pid = number_after(line, "pid=");
        has_body && BEGINS.iter().any(|begin| line.contains(begin))
            || self.cause.is_some() && self.pid.is_some() && pid.is_some() && self.pid != pid
    }
}

impl Reader {
    fn line(&mut self, line: &str) -> Section {
        if line.starts_with('#') {
            return self.summary(line.trim_start_matches('#').trim());
        }
        if line.starts_with("[error occurred during error reporting") {
            let errors = &mut self.log.errors_while_reporting;
            *errors = errors.saturating_add(1);
            return self.section;
        }
        if let Some(section) = self.heading(line) {
            return section;
        }
        if self.content(line) {
            return self.section;
        }
        self.loose(line)
    }

    fn heading(&mut self, line: &str) -> Option<Section> {
        let (heading, section) = HEADINGS
            .iter()
            .find(|(heading, _)| line.starts_with(heading))?;
        let rest = line[heading.len()..].trim();
        match section {
            Section::CompileTask if !rest.is_empty() => {
                self.log.compile_task.get_or_insert_with(|| rest.to_owned());
                return Some(Section::None);
            }
            // A log that repeats itself: the first of each counts.
            Section::TopOfStack if !self.log.top_of_stack.words.is_empty() => {
                return Some(Section::None);
            }
            Section::Instructions if !self.log.code_bytes.bytes.is_empty() => {
                return Some(Section::None);
            }
            _ if *heading == "---------------  " && rest.starts_with("S Y S T E M") => {
                return Some(Section::System);
            }
            _ => {}
        }
        Some(*section)
    }

    /// Reads a line as one of the section that it stands in. `false`: it is none of those, and the section has ended.
    fn content(&mut self, line: &str) -> bool {
        let log = &mut self.log;
        match self.section {
            Section::None | Section::ProblematicFrame => return false,
            Section::NativeFrames | Section::JavaFrames => {
                // `...<more frames>...` and 25's `[timeout occurred ...]` end a list as an empty line does.
                let frames = match self.section {
                    Section::NativeFrames => &mut log.native_frames,
                    _ => &mut log.java_frames,
                };
                let Some(frame) = Frame::parse(line) else {
                    log.more_native_frames |= line.starts_with("...<more frames>");
                    return false;
                };
                push_bounded(frames, MOST_FRAMES, frame);
            }
            Section::Registers => {
                // Up to the vector registers.
                if line.is_empty() || line.starts_with("XMM") || line.starts_with("  MXCSR") {
                    return false;
                }
                self.bank.line(line);
            }
            Section::RegisterNotes | Section::StackNotes => {
                let notes = match self.section {
                    Section::RegisterNotes => &mut log.register_notes,
                    _ => &mut log.stack_notes,
                };
                match Note::parse(line) {
                    Some(note) => push_bounded(notes, MOST_NOTES, note),
                    None => {
                        if let Some(note) = notes.last_mut() {
                            note.continue_with(line);
                        }
                    }
                }
            }
            Section::TopOfStack => return log.top_of_stack.line(line),
            Section::Instructions => return log.code_bytes.line(line),
            Section::LockStack => {
                if line.is_empty() {
                    return false;
                }
                push_bounded(&mut log.lock_stack, MOST_LINES, line.trim().to_owned());
            }
            Section::CompileTask => {
                if !line.is_empty() {
                    log.compile_task
                        .get_or_insert_with(|| line.trim().to_owned());
                }
                return log.compile_task.is_none();
            }
            Section::Threads => match ThreadLine::listed(line) {
                Some(thread) => push_bounded(&mut log.threads, MOST_THREADS, thread),
                None => return false,
            },
            Section::Heap => {
                if line.is_empty() {
                    return false;
                }
                log.heap = log.heap.or_else(|| HeapSpan::from_usage(line));
                push_bounded(&mut log.heap_usage, MOST_LINES, line.to_owned());
            }
            Section::CodeHeap => {
                let Some(heap) = log.code_heaps.last_mut() else {
                    return false;
                };
                if !line.trim_start().starts_with("bounds [") {
                    return false;
                }
                heap.continue_with(line);
            }
            Section::Events => {
                let Some(events) = log.events.last_mut() else {
                    return false;
                };
                // Events of the collector have lines of their own between `{` and `}`.
                if line.is_empty() {
                    return false;
                }
                events.line(line);
            }
            Section::Libraries => match MappedRange::parse(line) {
                Some(range) => push_bounded(&mut log.libraries, MOST_RANGES, range),
                // Before the list of an old log stands a line of its own.
                None => return log.libraries.is_empty() && !line.is_empty(),
            },
            Section::Arguments => {
                if line.is_empty() {
                    return false;
                }
                log.arguments.line(line);
            }
            Section::Flags => match Flag::parse(line) {
                Some(flag) => push_bounded(&mut log.flags, MOST_LINES, flag),
                None => return false,
            },
            Section::Environment => match line.split_once('=') {
                Some((name, value)) => {
                    let variable = (name.to_owned(), value.to_owned());
                    push_bounded(&mut log.environment, MOST_LINES, variable);
                }
                None => return false,
            },
            Section::Handlers => match HandlerLine::parse(line) {
                Some(handler) => push_bounded(&mut log.handlers, MOST_LINES, handler),
                // `*** Handler was modified!` and the like say more about the one before.
                None => return !line.is_empty(),
            },
            Section::System => {
                log.complete |= line == "END.";
                log.system.line(line);
            }
        }
        true
    }

    /// Lines that stand alone, and headings with a number in them.
    fn loose(&mut self, line: &str) -> Section {
        let log = &mut self.log;
        let text = |rest: &str| Some(rest.trim().to_owned()).filter(|text| !text.is_empty());
        if line.is_empty() {
        } else if line == "END." {
            log.complete = true;
        } else if let Some(rest) = line.strip_prefix("siginfo:") {
            log.siginfo = log.siginfo.take().or_else(|| SigInfo::parse(rest));
        } else if let Some(rest) = line.strip_prefix("Current thread ") {
            log.thread = log.thread.take().or_else(|| ThreadLine::parse(rest));
        } else if let Some(rest) = line.strip_prefix("Stack:") {
            if log.stack == StackLine::default() {
                log.stack = StackLine::parse(rest);
            }
        } else if let Some(rest) = line.strip_prefix("Command Line:") {
            log.command_line = log.command_line.take().or_else(|| text(rest));
        } else if let Some(rest) = line.strip_prefix("Host:") {
            log.host = log.host.take().or_else(|| text(rest));
        } else if let Some(rest) = line.strip_prefix("Time:") {
            log.time = log.time.take().or_else(|| text(rest));
        } else if let Some(rest) = line.strip_prefix("VM state:") {
            log.vm_state = log.vm_state.take().or_else(|| text(rest));
        } else if let Some(rest) =
            line.strip_prefix("VM Mutex/Monitor currently owned by a thread:")
        {
            log.vm_locks = log.vm_locks.take().or_else(|| text(rest));
        } else if let Some(rest) = line
            .strip_prefix("Heap address:")
            .or_else(|| line.strip_prefix("heap address:"))
        {
            log.heap = log.heap.or_else(|| HeapSpan::parse(rest));
        } else if line.starts_with("CDS archive(s)") || line.starts_with("CDS:") {
            log.cds.get_or_insert_with(|| line.to_owned());
        } else if let Some(heap) = CodeHeap::parse(line) {
            push_bounded(&mut log.code_heaps, MOST_CODE_HEAPS, heap);
            return Section::CodeHeap;
        } else if let Some(events) = EventLog::heading(line) {
            push_bounded(&mut log.events, MOST_EVENT_LOGS, events);
            return Section::Events;
        }
        Section::None
    }

    /// A line of the summary in front, without its `#`.
    fn summary(&mut self, line: &str) -> Section {
        let log = &mut self.log;
        log.pid = log.pid.or_else(|| number_after(line, "pid="));
        log.tid = log.tid.or_else(|| number_after(line, "tid="));
        if self.section == Section::ProblematicFrame {
            log.problematic = log.problematic.take().or_else(|| Frame::parse(line));
            return Section::None;
        }
        if line == "Problematic frame:" {
            return Section::ProblematicFrame;
        }
        if let Some(rest) = line.strip_prefix("JRE version:") {
            log.jdk = log.jdk.take().or_else(|| jdk_version(rest));
            log.jre.get_or_insert_with(|| rest.trim().to_owned());
        } else if let Some(rest) = line.strip_prefix("Java VM:") {
            log.vm.get_or_insert_with(|| rest.trim().to_owned());
            log.jdk = log.jdk.take().or_else(|| jdk_version(rest));
        } else if let Some(cause) = Cause::parse(line) {
            if log.cause.is_none() {
                log.cause = Some(cause);
                (log.pid, log.tid) = (number_after(line, "pid="), number_after(line, "tid="));
            }
        } else if let Some(cause) = &mut log.cause {
            cause.continue_with(line);
        }
        Section::None
    }
}
