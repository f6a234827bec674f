//! What came of many comparisons.

use std::collections::BTreeMap;

use walkfuzz_context::{Address, Registers};
use walkfuzz_harness::world::World;
use walkfuzz_record::KnownDifference;
use walkfuzz_reference::{CheckedMemory, Reference, ReferenceFrame, Thread, Walk};
use walkfuzz_vmstructs::{CodeCache, CodeMap, method_name};
use walkfuzz_walkers::{Agreement, Frame, Referee, Voice, compare, known_difference};

use crate::MUST_AGREE;

/// Both walks of one context.
pub(crate) struct Pair<'a> {
    pub(crate) reference: &'a Reference,
    pub(crate) registers: &'a Registers,
    pub(crate) thread: &'a Thread,
    /// What AsyncGetCallTrace returned; `None` for a fault.
    pub(crate) code: Option<i32>,
    pub(crate) agct: &'a [Frame],
    pub(crate) methods: &'a [Address],
    pub(crate) walk: Walk,
    pub(crate) frames: &'a [ReferenceFrame],
    /// The reference's frames if the first Java frame's pc were one that a signal interrupted: see `as_interrupted`.
    pub(crate) interrupted: &'a [ReferenceFrame],
    /// What is behind half a frame that is taken for a whole one: see `behind_whole`.
    pub(crate) whole: Option<&'a [ReferenceFrame]>,
    pub(crate) depth: usize,
}

/// Frames of the reference that belong to Java methods.
pub(crate) fn java(frames: &[ReferenceFrame]) -> impl Iterator<Item = &ReferenceFrame> {
    frames.iter().filter(|frame| frame.kind.has_method())
}

/// AsyncGetCallTrace's frames with `Method*`s in the place of their ids. A method that has never had an id has none in a handler.
fn given(pair: &Pair<'_>) -> Vec<Frame> {
    let frames = pair.agct.iter().zip(pair.methods);
    frames
        .map(|(frame, method)| Frame {
            bci: frame.bci,
            method: method.0,
        })
        .collect()
}

/// The reference's, as many as were asked for.
fn own(pair: &Pair<'_>) -> Vec<Frame> {
    let frames = java(pair.frames).take(pair.depth);
    frames
        .map(|frame| Frame {
            bci: frame.bci,
            method: frame.method.0,
        })
        .collect()
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
        let given = given(pair);
        let relation = compare(&given, &own(pair));
        if relation == Agreement::Agree {
            self.equal += 1;
            return;
        }
        let referee = Referee {
            registers: pair.registers,
            thread: pair.thread,
            frames: pair.frames,
            interrupted: pair.interrupted,
            whole: pair.whole,
        };
        let known = known_difference(&given, &referee, pair.depth, |at| {
            pair.reference.blob_at(&CheckedMemory, at)
        });
        let (name, is_explained) = self.class(world, pair, relation, known);
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

    fn class(
        &mut self,
        world: &World,
        pair: &Pair<'_>,
        relation: Agreement,
        known: Option<KnownDifference>,
    ) -> (String, bool) {
        let top = if pair.thread.in_java {
            self.describe(world, pair.registers.pc().0)
        } else {
            "anchor".to_owned()
        };
        if let Some(known) = known {
            return (format!("{}; pc in {top}", known.words()), true);
        }
        let (what, index) = match relation {
            Agreement::Prefix {
                shorter: Voice::First,
                frames,
            } => ("AGCT ends earlier", frames),
            Agreement::Prefix { frames, .. } => ("reference ends earlier", frames),
            Agreement::Differ { at } => ("frames differ", at),
            _ => ("only AGCT has frames", 0),
        };
        let own = java(pair.frames).nth(index);
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

fn example(world: &World, pair: &Pair<'_>, relation: Agreement) -> String {
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
        Agreement::Differ { at } => at.saturating_sub(2),
        Agreement::Prefix { frames, .. } => frames.saturating_sub(2),
        _ => 0,
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
