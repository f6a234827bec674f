//! What a reproduction takes from a crash log: whether it is a walker's crash at all, what to aim at, and on which JVM.
//!
//! A plan says what the log says and no more: what is not in it is `None`, and the reason for the answer is part of the answer.

use std::collections::BTreeMap;
use std::fmt;

use walkfuzz_context::{Arch, BlobKind, Registers};
use walkfuzz_record::KnownMatch;

use crate::hs_err::{Cause, CodeNote, CrashLog, Frame, FrameKind, WalkerCrash};
use crate::known_issues::{KnownIssues, Query};
use crate::signature::Signature;
use crate::version::JdkVersion;

mod options;

pub use options::worth_taking;

/// How the JVM ran Java code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompilerMode {
    /// Interpreter and both compilers.
    Mixed,
    /// `-Xint`.
    Interpreted,
    /// `-Xcomp`.
    Compiled,
    /// C1 alone (`-XX:TieredStopAtLevel=1`).
    C1Only,
    /// C2 without tiers (`-XX:-TieredCompilation`).
    C2Only,
}

impl fmt::Display for CompilerMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            CompilerMode::Mixed => "mixed",
            CompilerMode::Interpreted => "interpreted",
            CompilerMode::Compiled => "compiled",
            CompilerMode::C1Only => "c1 only",
            CompilerMode::C2Only => "c2 only",
        })
    }
}

/// What the walk began from, as far as the log tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalkedFrom {
    /// The kind of code.
    pub kind: BlobKind,
    /// Its name.
    pub name: Option<String>,
    /// The registers that the walker was given, if a whole context lies in the part of the stack that the log shows.
    pub registers: Option<Registers>,
    /// How one knows.
    pub how: String,
}

/// What to do with a crash log.
#[derive(Clone, Debug)]
pub struct CrashPlan {
    /// Whether a walker crashed, and why one may say so.
    pub walker_crash: WalkerCrash,
    /// The crash's signature; absent if memory ran out, or if the log does not say why the JVM died.
    pub signature: Option<Signature>,
    /// The signature as a sentence, or what the log says instead.
    pub title: String,
    /// Issues that it looks like, the best first.
    pub known: Vec<KnownMatch>,
    /// The JDK.
    pub jdk: Option<JdkVersion>,
    /// The vendor's name of the build.
    pub build: Option<String>,
    /// The architecture.
    pub arch: Option<Arch>,
    /// The collector, as `--gc` takes it.
    pub collector: Option<&'static str>,
    /// How Java code was run.
    pub compiler: CompilerMode,
    /// Options of the JVM worth taking over; collector and compiler mode are not among them.
    pub options: Vec<String>,
    /// The function to aim at: where it crashed.
    pub aim: Option<String>,
    /// Where in libjvm, from its base.
    pub libjvm_offset: Option<u64>,
    /// What the walk began from. Only for a walker's crash.
    pub walked: Option<WalkedFrom>,
    /// The registers at the crash.
    pub registers: Option<Registers>,
    /// The instruction's bytes at the crash's pc, and what follows them.
    pub instruction: Vec<u8>,
    /// The address that could not be accessed.
    pub address: Option<u64>,
}

/// An instruction of x86_64 has at most so many bytes.
const INSTRUCTION: usize = 15;

impl CrashPlan {
    /// The plan for `log`.
    #[must_use]
    pub fn new(log: &CrashLog, issues: &KnownIssues) -> Self {
        let walker_crash = log.walker_crash();
        // The name of an own run's walker stands nowhere on the stack, and belongs to the signature all the same.
        let signature = log.signature(walker_crash.walker());
        let title = match (&signature, &log.cause) {
            (Some(signature), _) => signature.title(None),
            (None, Some(Cause::OutOfMemory { text })) => text.clone(),
            (None, _) => "no cause in the log".to_owned(),
        };
        let is_walker = walker_crash.walker().is_some();
        let known = signature
            .as_ref()
            .filter(|_| is_walker)
            .map(|signature| known(log, signature, issues))
            .unwrap_or_default();
        let pc = log.registers.map(|registers| registers.pc());
        let bytes = pc.and_then(|pc| log.code_bytes.at(pc)).unwrap_or_default();
        let walked = is_walker.then(|| walked_from(log, &walker_crash)).flatten();
        let aim = log.site().map(Frame::site).filter(|_| signature.is_some());
        Self {
            signature,
            title,
            known,
            jdk: log.jdk.clone(),
            build: log.jre.as_deref().and_then(build),
            arch: log.arch(),
            collector: log.collector(),
            compiler: compiler(log),
            options: options::worth_taking(log.options()),
            aim,
            libjvm_offset: log.libjvm_offset(),
            walked,
            registers: log.registers,
            instruction: bytes[..bytes.len().min(INSTRUCTION)].to_owned(),
            address: log.siginfo.as_ref().and_then(|info| info.address),
            walker_crash,
        }
    }
}

/// Groups logs by what they are: the text of the signature, or the title where there is none; with the places of the logs.
pub fn group<'a>(
    logs: impl IntoIterator<Item = &'a [u8]>,
    issues: &KnownIssues,
) -> BTreeMap<String, Vec<usize>> {
    let mut groups: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (at, bytes) in logs.into_iter().enumerate() {
        let plan = CrashPlan::new(&CrashLog::parse(bytes), issues);
        let key = plan
            .signature
            .map_or(plan.title, |signature| signature.to_string());
        groups.entry(key).or_default().push(at);
    }
    groups
}

fn known(log: &CrashLog, signature: &Signature, issues: &KnownIssues) -> Vec<KnownMatch> {
    let stack: Vec<String> = log.native_frames.iter().map(Frame::site).collect();
    let query = Query {
        signature,
        stack: &stack,
        jdk: log.jdk.as_ref(),
        arch: log.arch(),
    };
    issues.known(&query)
}

/// `Temurin-25.0.2+10` of `OpenJDK Runtime Environment Temurin-25.0.2+10 (25.0.2+10) (build 25.0.2+10-LTS)`.
fn build(jre: &str) -> Option<String> {
    let build = jre.split("(build ").nth(1)?.split(')').next()?;
    let vendor = jre
        .split('(')
        .next()
        .and_then(|front| front.split_whitespace().last())
        .filter(|word| word.bytes().any(|byte| byte.is_ascii_digit()));
    Some(match vendor {
        Some(vendor) => format!("{vendor} (build {build})"),
        None => build.to_owned(),
    })
}

fn compiler(log: &CrashLog) -> CompilerMode {
    let vm = log.vm.as_deref().unwrap_or("");
    let level = log.flag("TieredStopAtLevel");
    let options = || log.options().split_whitespace();
    if vm.contains("interpreted mode") || options().any(|option| option == "-Xint") {
        CompilerMode::Interpreted
    } else if vm.contains("compiled mode") || options().any(|option| option == "-Xcomp") {
        CompilerMode::Compiled
    } else if vm.contains("emulated-client")
        || level.is_some_and(|level| matches!(level, "1" | "2" | "3"))
        || options().any(|option| {
            option
                .strip_prefix("-XX:TieredStopAtLevel=")
                .is_some_and(|level| matches!(level, "1" | "2" | "3"))
        })
    {
        CompilerMode::C1Only
    } else if options().any(|option| option == "-XX:-TieredCompilation") {
        CompilerMode::C2Only
    } else {
        CompilerMode::Mixed
    }
}

/// What the walk began from: the frame that the signal interrupted; else the code that the pc of a context on the stack lies
/// in; else the code that the walker had in its registers.
fn walked_from(log: &CrashLog, crash: &WalkerCrash) -> Option<WalkedFrom> {
    let context = log.top_of_stack.user_context();
    let registers = context.map(|(_, registers)| registers);
    let sighting = match crash {
        WalkerCrash::Yes { sighting, .. } => sighting.as_ref(),
        WalkerCrash::No { .. } | WalkerCrash::Unknown { .. } => None,
    };
    if let Some(registers) = registers
        && let Some((kind, name)) = code_at(log, registers.pc().0)
    {
        return Some(WalkedFrom {
            kind,
            name,
            registers: Some(registers),
            how: "the context that the walker was given lies on the stack".to_owned(),
        });
    }
    let noted = log
        .register_notes
        .iter()
        .chain(&log.stack_notes)
        .find_map(|note| Some((note, note.code.as_ref()?)))
        .filter(|(_, code)| code.kind != BlobKind::Libjvm);
    if let Some((note, CodeNote { kind, name })) = noted {
        return Some(WalkedFrom {
            kind: *kind,
            name: name.clone(),
            registers,
            how: format!(
                "the walker had its address in {}: likely, not sure",
                note.place
            ),
        });
    }
    let at = sighting?.interrupted?;
    let frame = log.native_frames.get(at)?;
    Some(WalkedFrom {
        kind: kind_of_frame(frame),
        name: frame.function.clone(),
        registers,
        how: "the outermost that the stack shows below the handler: the interrupted frame, or its caller".to_owned(),
    })
}

/// The code at an address, from what the log says of addresses near it.
fn code_at(log: &CrashLog, pc: u64) -> Option<(BlobKind, Option<String>)> {
    let noted = log.register_notes.iter().chain(&log.stack_notes);
    let exact = noted
        .filter(|note| note.value == Some(pc))
        .find_map(|note| note.code.clone());
    if let Some(CodeNote { kind, name }) = exact {
        return Some((kind, name));
    }
    let heap = log.code_heaps.iter().find(|heap| heap.contains(pc));
    if let Some(heap) = heap {
        // The part that has no nmethods holds interpreter, stubs and adapters alike.
        let kind = if heap.name.contains("non-nmethods") || heap.name == "CodeCache" {
            BlobKind::Buffer
        } else {
            BlobKind::Nmethod
        };
        return Some((kind, Some(heap.name.clone())));
    }
    let range = log.libraries.iter().find(|range| range.contains(pc))?;
    let kind = if range.file_name() == "libjvm.so" {
        BlobKind::Libjvm
    } else {
        BlobKind::Outside
    };
    Some((kind, Some(range.file_name().to_owned())))
}

/// The kind of code that a frame runs.
fn kind_of_frame(frame: &Frame) -> BlobKind {
    let function = frame.function.as_deref().unwrap_or("");
    match frame.kind {
        FrameKind::Compiled | FrameKind::Aot => BlobKind::Nmethod,
        FrameKind::Interpreted => BlobKind::Interpreter,
        FrameKind::Vm => BlobKind::Libjvm,
        FrameKind::Native => BlobKind::Outside,
        FrameKind::VmStub if function.contains("Interpreter") => BlobKind::Interpreter,
        FrameKind::VmStub if function.starts_with("StubRoutines") => BlobKind::StubRoutine,
        FrameKind::VmStub if function.contains("vtable") || function.contains("itable") => {
            BlobKind::VtableStub
        }
        FrameKind::VmStub if function.contains("adapters") => BlobKind::Adapter,
        FrameKind::VmStub if function.contains("BufferBlob") => BlobKind::Buffer,
        FrameKind::VmStub => BlobKind::RuntimeStub,
    }
}

impl fmt::Display for CrashPlan {
    /// One fact a line, in an order that does not change.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or_unknown = |text: Option<String>| text.unwrap_or_else(|| "unknown".to_owned());
        writeln!(f, "title: {}", self.title)?;
        let answer = match &self.walker_crash {
            WalkerCrash::Yes { walker, .. } => format!("yes, {walker}"),
            WalkerCrash::No { .. } => "no".to_owned(),
            WalkerCrash::Unknown { .. } => "unknown".to_owned(),
        };
        writeln!(f, "walker crash: {answer}: {}", self.walker_crash.why())?;
        let signature = self.signature.as_ref().map(ToString::to_string);
        writeln!(f, "signature: {}", signature.as_deref().unwrap_or("none"))?;
        for known in &self.known {
            writeln!(
                f,
                "known: {} ({}): {}",
                known.id, known.versions, known.title
            )?;
        }
        let jdk = self.jdk.as_ref().map(ToString::to_string);
        let build = self.build.as_deref().unwrap_or("build unknown");
        writeln!(f, "jdk: {}, {build}", or_unknown(jdk))?;
        let arch = self.arch.map_or("unknown architecture", Arch::name);
        let collector = self.collector.unwrap_or("unknown collector");
        writeln!(f, "jvm: {arch}, {collector}, {}", self.compiler)?;
        writeln!(f, "options: {}", self.options.join(" "))?;
        writeln!(f, "aim: {}", or_unknown(self.aim.clone()))?;
        if let Some(walked) = &self.walked {
            let name = walked.name.as_deref().unwrap_or("no name");
            writeln!(f, "walked: {}, {name}: {}", walked.kind.name(), walked.how)?;
            if let Some(registers) = &walked.registers {
                writeln!(f, "walked registers: {}", in_short(registers))?;
            }
        }
        if let Some(registers) = &self.registers {
            writeln!(f, "registers: {}", in_short(registers))?;
        }
        if !self.instruction.is_empty() {
            let bytes: Vec<String> = self
                .instruction
                .iter()
                .map(|b| format!("{b:02x}"))
                .collect();
            writeln!(f, "instruction: {}", bytes.join(" "))?;
        }
        match self.address {
            Some(address) => writeln!(f, "accessed: {address:#x}"),
            None => Ok(()),
        }
    }
}

fn in_short(registers: &Registers) -> String {
    let (pc, sp, fp) = (registers.pc(), registers.sp(), registers.fp());
    format!("pc {:#x}, sp {:#x}, fp {:#x}", pc.0, sp.0, fp.0)
}
