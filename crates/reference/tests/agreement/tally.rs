//! What came of many comparisons.

use std::collections::BTreeMap;

use walkfuzz_context::{Address, Registers};
use walkfuzz_harness::world::World;
use walkfuzz_reference::{
    Anchor, CheckedMemory, FrameKind, Reference, ReferenceFrame, Thread, Walk,
};
use walkfuzz_vmstructs::{CodeCache, CodeMap, method_name};
use walkfuzz_walkers::Frame;

use crate::MUST_AGREE;
use crate::compare::{Relation, compare, java};

/// Both walks of one context.
pub(crate) struct Pair<'a> {
    pub(crate) registers: &'a Registers,
    pub(crate) thread: &'a Thread,
    /// What AsyncGetCallTrace returned; `None` for a fault.
    pub(crate) code: Option<i32>,
    pub(crate) agct: &'a [Frame],
    pub(crate) methods: &'a [Address],
    pub(crate) walk: Walk,
    pub(crate) frames: &'a [ReferenceFrame],
    /// The reference's frames if the first Java frame's pc were one that a signal interrupted: see [`as_interrupted`].
    pub(crate) interrupted: &'a [ReferenceFrame],
    pub(crate) depth: usize,
}

/// Walks again from the first Java frame, as if its pc were any instruction and no return address. AsyncGetCallTrace takes it for that
/// (forte.cpp, `is_decipherable_compiled_frame`), also where a stub or a C++ leaf has been called from there. Signal-safe.
pub(crate) fn as_interrupted(
    reference: &Reference,
    thread: &Thread,
    registers: &Registers,
    frames: &[ReferenceFrame],
    again: &mut [ReferenceFrame],
) -> usize {
    let Some(first) = java(frames).next() else {
        return 0;
    };
    let thread = Thread {
        anchor: Anchor::default(),
        in_java: true,
        ..*thread
    };
    let mut registers = *registers;
    let arch = registers.arch;
    registers.set(arch.pc(), first.pc.0);
    registers.set(arch.sp(), first.sp.0);
    registers.set(arch.fp(), first.fp.0);
    reference
        .walk(&CheckedMemory, &thread, &registers, again)
        .frames
}

struct Class {
    count: u64,
    is_explained: bool,
    examples: Vec<String>,
}

pub(crate) struct Tally {
    mode: &'static str,
    examples: usize,
    walks: u64,
    with_frames: u64,
    equal: u64,
    frames: u64,
    classes: BTreeMap<String, Class>,
    /// By AsyncGetCallTrace's code: walks, and those in which the reference gives frames.
    codes: BTreeMap<Option<i32>, (u64, u64)>,
    ends: BTreeMap<&'static str, u64>,
    code: Option<CodeMap>,
}

impl Tally {
    pub(crate) fn new(mode: &'static str, examples: usize) -> Self {
        Self {
            mode,
            examples,
            walks: 0,
            with_frames: 0,
            equal: 0,
            frames: 0,
            classes: BTreeMap::new(),
            codes: BTreeMap::new(),
            ends: BTreeMap::new(),
            code: None,
        }
    }

    pub(crate) fn add(&mut self, world: &World, pair: &Pair<'_>) {
        self.walks += 1;
        *self.ends.entry(pair.walk.end.name()).or_default() += 1;
        let has_frames = java(pair.frames).next().is_some();
        let code = pair.code.map(|code| code.min(1));
        if code != Some(1) {
            let (walks, more) = self.codes.entry(code).or_default();
            *walks += 1;
            *more += u64::from(has_frames);
            return;
        }
        self.with_frames += 1;
        self.frames += pair.agct.len() as u64;
        let relation = compare(pair.agct, pair.methods, pair.frames, pair.depth);
        if relation == Relation::Equal {
            self.equal += 1;
            return;
        }
        let (name, is_explained) = self.class(world, pair, relation);
        let class = self.classes.entry(name).or_insert(Class {
            count: 0,
            is_explained,
            examples: Vec::new(),
        });
        class.count += 1;
        if class.examples.len() < self.examples && !class.is_explained {
            class.examples.push(example(world, pair, relation));
        }
    }

    fn describe(&mut self, world: &World, pc: u64) -> String {
        let at = Address(pc);
        let known = self.code.as_ref().and_then(|code| code.blob(at)).is_some();
        if !known {
            // Compiled since.
            let cache = CodeCache::read(&world.hotspot, &CheckedMemory).unwrap_or_default();
            self.code = Some(CodeMap::new(cache, None));
        }
        let Some(code) = &self.code else {
            return String::new();
        };
        match (code.codelet(at), code.blob(at)) {
            (Some(codelet), _) => format!("codelet {}", codelet.description),
            (None, Some(blob)) => match &blob.nmethod {
                Some(nmethod) => {
                    let complete = blob
                        .code
                        .start
                        .0
                        .wrapping_add(blob.frame_complete.max(0) as u64);
                    let part = if pc < nmethod.verified_entry.0 {
                        "entry"
                    } else if pc < complete {
                        "prologue"
                    } else if pc >= nmethod.stub_begin.0 {
                        "stubs"
                    } else {
                        "body"
                    };
                    format!("{} level {} {part}", blob.name, nmethod.level)
                }
                None => format!("{} {}", blob.kind.name(), blob.name),
            },
            (None, None) => "outside".to_owned(),
        }
    }

    fn class(&mut self, world: &World, pair: &Pair<'_>, relation: Relation) -> (String, bool) {
        let top = if pair.thread.in_java {
            self.describe(world, pair.registers.pc().0)
        } else {
            "anchor".to_owned()
        };
        let (what, index) = match relation {
            Relation::Equal => ("equal", 0),
            Relation::Bci(index) => ("bci differs", index),
            Relation::AgctEndsEarlier(index) => ("AGCT ends earlier", index),
            Relation::ReferenceEndsEarlier(index) => ("reference ends earlier", index),
            Relation::Method(index) => ("method differs", index),
        };
        let own = java(pair.frames).nth(index);
        if matches!(relation, Relation::AgctEndsEarlier(_)) && own.is_some_and(|f| f.is_deoptimised)
        {
            return ("deoptimised: AGCT ends before it".to_owned(), true);
        }
        if matches!(relation, Relation::AgctEndsEarlier(_))
            && let Some(why) = self.refused(world, pair, index)
        {
            return (format!("{why}: AGCT ends before its caller"), true);
        }
        let again = compare(pair.agct, pair.methods, pair.interrupted, pair.depth);
        let ends_before = match again {
            Relation::Equal => true,
            Relation::AgctEndsEarlier(index) => java(pair.interrupted)
                .nth(index)
                .is_some_and(|frame| frame.is_deoptimised),
            _ => false,
        };
        if ends_before {
            let what = "return address: AGCT takes it for an instruction";
            return (format!("{what}; pc in {top}"), true);
        }
        if self.is_half_gone(pair) {
            return (format!("half a frame: {what}; pc in {top}"), true);
        }
        let place = if index == 0 {
            "first frame"
        } else {
            "later frame"
        };
        let kind = own.map_or_else(
            || format!("end {}", pair.walk.end.name()),
            |frame| format!("{} {}", frame.kind.name(), frame.trust.name()),
        );
        (format!("{what}, {place} ({kind}); pc in {top}"), false)
    }

    /// Why AsyncGetCallTrace does not ask for the caller of its last frame (frame_x86.cpp, `safe_for_sender`), though it is a sound one.
    fn refused(&mut self, world: &World, pair: &Pair<'_>, index: usize) -> Option<&'static str> {
        let next = java(pair.frames).nth(index)?;
        let at = pair.frames.iter().position(|frame| frame == next)?;
        let last = pair.frames.get(at.checked_sub(1)?)?;
        let callee = at.checked_sub(2).and_then(|at| pair.frames.get(at));
        if last.kind == FrameKind::Stub {
            self.describe(world, last.pc.0);
            let blob = self.code.as_ref()?.blob(Address(last.pc.0))?;
            return (blob.frame_complete < 0)
                .then_some("a stub of C1's, which says frame_never_safe");
        }
        let callee = callee.filter(|callee| callee.kind == FrameKind::Interpreted)?;
        (last.sp.0 < callee.fp.0.wrapping_add(16))
            .then_some("a frame whose last argument a method handle's linker took off")
    }

    /// Whether the pc is where a compiled frame is being set up or taken down: the caller is not a frame's size away.
    fn is_half_gone(&self, pair: &Pair<'_>) -> bool {
        let pc = pair.registers.pc().0;
        let (Some(top), Some(code)) = (pair.frames.first(), &self.code) else {
            return false;
        };
        let mut below = pair.frames.iter().filter(|frame| frame.sp != top.sp);
        let blob = code.blob(Address(pc)).filter(|blob| blob.nmethod.is_some());
        match (below.next(), blob) {
            (Some(caller), Some(blob)) if pair.thread.in_java && top.pc.0 == pc => {
                caller.sp.0.wrapping_sub(top.sp.0) < u64::from(blob.frame_size)
            }
            _ => false,
        }
    }

    /// Prints everything; 1 if too much is not explained.
    pub(crate) fn judge(&self) -> u32 {
        let share = |k: u64, of: u64| 100.0 * k as f64 / of.max(1) as f64;
        println!(
            "{}: {} walks, AGCT gives frames in {} ({:.1} a walk); equal in {} ({:.3} %)",
            self.mode,
            self.walks,
            self.with_frames,
            self.frames as f64 / self.with_frames.max(1) as f64,
            self.equal,
            share(self.equal, self.with_frames),
        );
        let mut classes: Vec<_> = self.classes.iter().collect();
        classes.sort_by_key(|(_, class)| std::cmp::Reverse(class.count));
        let mut explained = 0;
        for (name, class) in classes {
            let mark = if class.is_explained {
                "explained"
            } else {
                "open"
            };
            explained += if class.is_explained { class.count } else { 0 };
            println!("  {:>7} {mark}: {name}", class.count);
            for example in &class.examples {
                print!("{example}");
            }
        }
        for (code, (walks, more)) in &self.codes {
            let code = code.map_or("fault".to_owned(), |code| code.to_string());
            println!("  AGCT {code}: {walks}, the reference gives frames in {more}");
        }
        println!("  the reference's ends: {:?}", self.ends);
        let agree = (self.equal + explained) as f64 / self.with_frames.max(1) as f64;
        let enough = self.with_frames * 5 >= self.walks && self.with_frames > 0;
        if !enough {
            println!("  FAILED: too few walks with frames to say anything");
        }
        if agree < MUST_AGREE {
            println!("  FAILED: {:.3} % agree or are explained", 100.0 * agree);
        }
        u32::from(agree < MUST_AGREE || !enough)
    }
}

fn example(world: &World, pair: &Pair<'_>, relation: Relation) -> String {
    let name = |method: Address| {
        method_name(&world.hotspot, &CheckedMemory, method)
            .map_or_else(|| method.to_string(), |name| name.to_string())
    };
    let mut text = format!(
        "          {relation:?}: pc {} sp {} fp {}, {:?}, end {:?}\n",
        pair.registers.pc(),
        pair.registers.sp(),
        pair.registers.fp(),
        pair.thread.anchor,
        pair.walk.end,
    );
    let from = match relation {
        Relation::Equal => 0,
        Relation::Bci(i)
        | Relation::Method(i)
        | Relation::AgctEndsEarlier(i)
        | Relation::ReferenceEndsEarlier(i) => i.saturating_sub(2),
    };
    for (frame, method) in pair.agct.iter().zip(pair.methods).skip(from).take(6) {
        text += &format!("            agct {:>5} {}\n", frame.bci, name(*method));
    }
    let skipped = java(pair.frames).nth(from).map(|frame| frame.sp);
    for frame in pair
        .frames
        .iter()
        .skip_while(|frame| Some(frame.sp) != skipped)
        .take(8)
    {
        text += &format!(
            "            own  {:>5} {} {} {} pc {} sp {} fp {}\n",
            frame.bci,
            frame.kind.name(),
            frame.trust.name(),
            name(frame.method),
            frame.pc,
            frame.sp,
            frame.fp,
        );
    }
    text
}
