//! What the reference walker says of a walk, whatever memory the moment is in: a held thread's, when a capsule is made, or later the capsule's.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use walkfuzz_capsule::{
    Capsule, KnownSymbol, Opinion, OpinionFacts, OpinionMemory, Outcome, ReturnedFrame,
};
use walkfuzz_context::{Address, Pc, Registers};
use walkfuzz_record::finding::{FindingBlob, JavaFrame};
use walkfuzz_record::{Contradiction, KnownDifference};
use walkfuzz_reference::Reference;
use walkfuzz_vmstructs::{HotSpot, Memory, RecordingMemory, method_name};
use walkfuzz_walkers::{
    Agreement, Explainer, Frame, MAX_DEPTH, compare, contradiction, hash, trace_reference,
};

use crate::chosen::{self, WalkerChoice};
use crate::error::HarnessError;
use crate::minimise_file;
use crate::names::wrong_frames;

/// Why a capsule of the reference's own walk holds no opinion.
const REFERENCE_ALONE: &str = "it holds the walk of the reference walker itself, and what judged that is code of a process, which no capsule keeps: \
    walkfuzz compare without a file, with --walkers agct,reference, puts both side by side in a JVM";

/// A walk of which the reference is asked.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    /// The walker's name.
    pub(crate) walker: &'a str,
    /// The walked `JavaThread`.
    pub(crate) thread: Address,
    /// Where the walk begins.
    pub(crate) registers: &'a Registers,
    /// The most frames.
    pub(crate) depth: i32,
    /// What the walker gave.
    pub(crate) given: &'a [Frame],
}

/// What it says.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    /// How many frames, or the code that says why there are none.
    pub(crate) code: i32,
    /// Its frames.
    pub(crate) frames: Vec<Frame>,
    /// Beside the walker's.
    pub(crate) agreement: Agreement,
    /// Why the walker's are others, where that is understood.
    pub(crate) known: Option<KnownDifference>,
}

impl Said {
    /// What is wrong with the walker's frames, if something is.
    pub(crate) fn contradiction(&self, given: &[Frame]) -> Option<Contradiction> {
        let Agreement::Differ { at } = self.agreement else {
            return None;
        };
        let mut found = contradiction(given, &self.frames, at);
        found.known = self.known;
        Some(found)
    }
}

/// The reference walker over a memory.
pub(crate) struct Reader<M> {
    memory: M,
    hotspot: HotSpot,
    reference: Reference,
}

impl<M: Memory> Reader<M> {
    fn new(memory: M, symbol: &dyn Fn(&str) -> Option<u64>) -> Result<Self, String> {
        let hotspot = HotSpot::attach(&memory, symbol).map_err(|error| error.to_string())?;
        let reference =
            Reference::new(&hotspot, &memory, symbol).map_err(|error| error.to_string())?;
        Ok(Self {
            memory,
            hotspot,
            reference,
        })
    }

    fn said(&self, asked: &Asked<'_>) -> Said {
        let depth = usize::try_from(asked.depth).map_or(0, |depth| depth.min(MAX_DEPTH));
        let mut frames = vec![Frame::default(); depth];
        let (reference, memory) = (&self.reference, &self.memory);
        let code = trace_reference(
            reference,
            memory,
            asked.thread,
            asked.registers,
            &mut frames,
        );
        frames.truncate(usize::try_from(code).unwrap_or(0));
        let agreement = compare(asked.given, &frames);
        let is_explained = chosen::is_agct_name(asked.walker)
            && !matches!(agreement, Agreement::Agree | Agreement::OnlySecond);
        let known = is_explained.then(|| {
            let mut explainer = Explainer::new(reference);
            explainer.explain(memory, asked.thread, asked.registers, asked.given, depth)
        });
        Said {
            code,
            frames,
            agreement,
            known: known.flatten(),
        }
    }

    fn java_frame(&self, frame: &Frame) -> JavaFrame {
        let method = self.reference.method_of_id(&self.memory, frame.method);
        let name = method.and_then(|method| method_name(&self.hotspot, &self.memory, method));
        let method = match name {
            Some(name) => name.to_string(),
            None if frame.method == 0 => "a method without an id".to_owned(),
            None => format!("jmethodID {:#x}", frame.method),
        };
        JavaFrame {
            method,
            bci: frame.bci,
        }
    }

    /// The code at `pc`.
    fn code_at(&self, pc: Pc) -> FindingBlob {
        let Some(blob) = self.reference.blob_at(&self.memory, Address(pc.0)) else {
            return FindingBlob {
                kind: "unknown".to_owned(),
                ..FindingBlob::default()
            };
        };
        let name = blob
            .nmethod
            .and_then(|nmethod| method_name(&self.hotspot, &self.memory, nmethod.method));
        FindingBlob {
            kind: blob.kind.name().to_owned(),
            name: name.map(|name| name.to_string()),
            offset: pc.0.checked_sub(blob.code.start.0),
            offset_class: None,
        }
    }
}

/// Asks the reference, and keeps what it reads of `memory` for that. `symbol` is as for [`HotSpot::attach`].
///
/// # Errors
/// What this JVM's tables lack, in a sentence.
pub(crate) fn record(
    memory: impl Memory,
    symbol: &dyn Fn(&str) -> Option<u64>,
    asked: &Asked<'_>,
) -> Result<Opinion, String> {
    let found: RefCell<BTreeMap<String, u64>> = RefCell::default();
    let remembered = |name: &str| {
        let address = symbol(name)?;
        found.borrow_mut().insert(name.to_owned(), address);
        Some(address)
    };
    let memory = RecordingMemory::new(memory);
    let reader = Reader::new(&memory, &remembered)?;
    let said = reader.said(asked);
    // Names are asked for later.
    reader.code_at(asked.registers.pc());
    let mut named = BTreeSet::new();
    for frame in asked.given.iter().chain(&said.frames) {
        if named.insert(frame.method) {
            reader.java_frame(frame);
        }
    }
    let words = memory.words();
    let symbols = found.into_inner().into_iter();
    let symbols = symbols.map(|(name, address)| KnownSymbol {
        name,
        address: Pc(address),
    });
    Ok(Opinion {
        facts: OpinionFacts {
            walker: WalkerChoice::Reference.name().to_owned(),
            thread: asked.thread,
            frames: said.code,
            hash: hash(&said.frames),
            symbols: symbols.collect(),
        },
        words,
    })
}

/// The reference walker over the memory that a capsule has for it.
pub struct CapsuleOpinion<'c> {
    reader: Reader<OpinionMemory<'c>>,
    capsule: &'c Capsule,
    opinion: &'c Opinion,
    registers: Registers,
}

impl<'c> CapsuleOpinion<'c> {
    /// Looks everything up in the capsule. Its own frames there are those that it gave when the capsule was made, or it is an error.
    ///
    /// # Errors
    /// [`HarnessError::NoOpinion`], which says what the capsule lacks.
    pub fn of(capsule: &'c Capsule) -> Result<Self, HarnessError> {
        let lacks = |what: String| HarnessError::NoOpinion(what);
        let Some(opinion) = &capsule.opinion else {
            if capsule.facts.walker == WalkerChoice::Reference.name() {
                return Err(lacks(REFERENCE_ALONE.to_owned()));
            }
            return Err(lacks(format!(
                "it holds what the walk of {} reads, and not what the reference walker would: a session with WALKFUZZ_ORACLE=reference \
                 makes capsules that do",
                capsule.facts.walker
            )));
        };
        if opinion.facts.walker != WalkerChoice::Reference.name() {
            return Err(lacks(format!(
                "its second opinion is {}'s, and only the reference walker's can be asked again",
                opinion.facts.walker
            )));
        }
        let (_, registers) = minimise_file::registers(capsule).ok_or_else(|| {
            lacks("it does not say from which registers its walk begins".to_owned())
        })?;
        let memory = OpinionMemory::new(opinion, &capsule.layout);
        let reader = Reader::new(memory, &|name| opinion.symbol(name))
            .map_err(|error| lacks(format!("what it has of the JVM's tables: {error}")))?;
        // What is optional may be away: the walk will tell.
        reader.memory.take_missing();
        let it = Self {
            reader,
            capsule,
            opinion,
            registers,
        };
        let said = it.said(&it.registers, &[]).map_err(|address| {
            lacks(format!(
                "the reference walker reads {address}, which it has not"
            ))
        })?;
        if (said.code, hash(&said.frames)) != (opinion.facts.frames, opinion.facts.hash) {
            return Err(lacks(format!(
                "over its memory the reference walker says {}, and {} when it was made, or other frames",
                said.code, opinion.facts.frames
            )));
        }
        Ok(it)
    }

    /// Where the capsule's walk begins.
    #[must_use]
    pub fn registers(&self) -> &Registers {
        &self.registers
    }

    fn asked<'a>(&'a self, registers: &'a Registers, given: &'a [Frame]) -> Asked<'a> {
        Asked {
            walker: &self.capsule.facts.walker,
            thread: self.opinion.facts.thread,
            registers,
            depth: self.capsule.facts.entry.depth,
            given,
        }
    }

    /// What the reference says of a walk from `registers` that gave `given`; else what it reads that the capsule has not.
    pub(crate) fn said(&self, registers: &Registers, given: &[Frame]) -> Result<Said, Address> {
        let said = self.reader.said(&self.asked(registers, given));
        self.reader.memory.take_missing().map_or(Ok(said), Err)
    }

    /// What is wrong with `given`, walked from `registers`. Nothing where the reference gives other frames than for the capsule's own walk: those are
    /// proven, and no others.
    pub(crate) fn contradiction(
        &self,
        registers: &Registers,
        given: &[Frame],
    ) -> Option<Contradiction> {
        let said = self.said(registers, given).ok()?;
        if hash(&said.frames) != self.opinion.facts.hash {
            return None;
        }
        said.contradiction(given)
    }

    /// Whether the reference contradicts `given`, which the capsule's own walk gave, as the finding says.
    ///
    /// # Errors
    /// What it says instead.
    pub fn confirms(&self, given: &[ReturnedFrame]) -> Result<(), String> {
        let found = self.contradiction(&self.registers, &frames(given));
        let signature = found.map(|found| self.signature(&found));
        match signature {
            Some(signature) if signature == self.capsule.facts.signature => Ok(()),
            Some(other) => Err(format!("the reference walker says {other}")),
            None => Err("the reference walker does not contradict the frames".to_owned()),
        }
    }

    pub(crate) fn signature(&self, found: &Contradiction) -> String {
        let oracle = WalkerChoice::Reference.name();
        wrong_frames(&self.capsule.facts.walker, oracle, found).to_string()
    }

    /// The opinion of a walk from other registers, with what it reads of this one.
    pub(crate) fn again(
        &self,
        registers: &Registers,
        given: &[Frame],
    ) -> Result<Opinion, HarnessError> {
        let memory = OpinionMemory::new(self.opinion, &self.capsule.layout);
        let symbol = |name: &str| self.opinion.symbol(name);
        record(memory, &symbol, &self.asked(registers, given)).map_err(HarnessError::NoOpinion)
    }

    /// A frame with its method's name.
    pub(crate) fn java_frame(&self, frame: &Frame) -> JavaFrame {
        self.reader.java_frame(frame)
    }

    /// The code that the capsule's walk begins in.
    pub(crate) fn code(&self) -> FindingBlob {
        self.reader.code_at(self.registers.pc())
    }
}

/// A puppet's frames as walkers have them.
pub(crate) fn frames(returned: &[ReturnedFrame]) -> Vec<Frame> {
    let frame = |frame: &ReturnedFrame| Frame {
        bci: frame.bci,
        method: frame.method,
    };
    returned.iter().map(frame).collect()
}

/// Whether the capsule holds frames that an oracle contradicts.
#[must_use]
pub fn holds_wrong_frames(capsule: &Capsule) -> bool {
    let parsed = capsule
        .facts
        .signature
        .parse::<walkfuzz_triage::Signature>();
    matches!(capsule.facts.expected, Outcome::Frames(_))
        && parsed.is_ok_and(|signature| signature.kind == walkfuzz_triage::Kind::WrongFrames)
}
