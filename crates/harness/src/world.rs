//! The JVM in this process, and what is known about it: tables, code cache, landscape, symbols.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use walkfuzz_context::landscape::WALKED_STACK_WORDS;
use walkfuzz_context::witness::{NaturalClass, WitnessTable};
use walkfuzz_context::{Address, Arch, LandscapeTable, Pc, Registers, ValueClass, WalkMode};
use walkfuzz_engine::{Filter, HeldStack, Moment};
use walkfuzz_guard::{SafeFetchSite, read_checked, read_word};
use walkfuzz_record::{Lane, WalkerId};
use walkfuzz_symbols::{InstructionKind, InstructionMap, Modules};
use walkfuzz_vmstructs::{
    CodeCache, CodeMap, HotSpot, LiveMemory, Maps, Nmethod, Span, Survey, Tid, fill, method_name,
    survey,
};
use walkfuzz_walkers::{ReferenceWalker, Walker};

use crate::classify::Classifier;
use crate::error::HarnessError;
use crate::oracle::{Judging, Oracle};
use crate::stale::{self, Known};
use crate::walks::Bench;
use crate::watch::Watch;

/// How often the landscape is surveyed anew: every so many parks.
const REFRESH_PARKS: u64 = 256;

/// What is known about the JVM of this process.
pub struct World {
    /// What never changes.
    pub hotspot: HotSpot,
    /// Loaded modules and their symbols.
    pub modules: Modules,
    /// The code cache as of the last survey.
    pub code: CodeMap,
    /// What the value classes resolve to.
    pub landscape: LandscapeTable,
    /// Who judges the frames of walks.
    pub oracle: Option<Oracle>,
    /// Classes and tiers.
    pub classifier: Classifier,
    /// How the walker meets threads.
    pub walk_mode: WalkMode,
    /// Natural contexts by class.
    pub witness: Box<WitnessTable>,
    memory: LiveMemory,
    maps: Maps,
    libjvm_text: Option<Span>,
    stacks: Vec<(Tid, Span)>,
    parks_at_survey: u64,
    serial: u64,
    /// The held thread's stack.
    pub stack: HeldStack,
    /// Whether the collector corrects references in the frames of threads that stand.
    corrects_stacks: bool,
    /// The JVM's SafeFetch loads.
    pub safefetch: Vec<SafeFetchSite>,
    /// The page that HotSpot touches when a check fails (`g_assert_poison`, debug.hpp): a fault there is a failed guarantee.
    pub assert_poison: Option<u64>,
    /// How long the last survey took.
    pub survey_time: Duration,
    /// Values that were resolved from entries which the next survey found to be gone: see [`crate::stale`].
    pub stale_hits: u64,
}

/// Parts of the [`World`] in use at one moment.
pub(crate) struct Instruments<'a> {
    /// Makes walks.
    pub(crate) bench: Bench<'a>,
    /// Notices what walks write.
    pub(crate) watch: Watch<'a>,
    /// Names addresses.
    pub(crate) modules: &'a Modules,
}

impl World {
    /// Reads what can be read of the started JVM.
    ///
    /// # Errors
    /// A missing entry of HotSpot's tables, by name.
    pub fn attach() -> Result<Self, HarnessError> {
        let modules = Modules::of_this_process()?;
        let libjvm = modules
            .by_name("libjvm.so")
            .ok_or(HarnessError::VmStructs("libjvm.so is not loaded".into()))?;
        let symbol = |name: &str| libjvm.address_of(name);
        let memory = LiveMemory::new();
        let hotspot = HotSpot::attach(&memory, &symbol)
            .map_err(|error| HarnessError::VmStructs(error.to_string()))?;
        let protection = walkfuzz_jvm::tell_guard(libjvm)?;
        // Shenandoah from 17 on, Z from 16 on; before, nobody writes to a held thread's stack, and it does no harm to think so.
        let is_on = |flag| hotspot.flags().is_on(&memory, flag);
        let corrects_stacks = is_on("UseZGC") || is_on("UseShenandoahGC");
        let maps = Maps::read_own().map_err(|error| HarnessError::VmStructs(error.to_string()))?;
        let libjvm_text = maps.text_of("libjvm.so");
        let began = Instant::now();
        let survey = survey(&hotspot, &memory, &maps, None)
            .map_err(|e| HarnessError::VmStructs(e.to_string()))?;
        let mut world = Self {
            assert_poison: protection.assert_poison,
            safefetch: protection.safefetch,
            hotspot,
            modules,
            code: CodeMap::new(CodeCache::default(), libjvm_text),
            landscape: LandscapeTable::new(),
            oracle: None,
            classifier: Classifier::new(0..0, Vec::new()),
            walk_mode: WalkMode::InHandler,
            witness: Box::default(),
            memory,
            maps,
            libjvm_text,
            stacks: Vec::new(),
            parks_at_survey: 0,
            serial: 0,
            stack: HeldStack::default(),
            corrects_stacks,
            survey_time: Duration::ZERO,
            stale_hits: 0,
        };
        world.adopt(survey);
        world.survey_time = began.elapsed();
        Ok(world)
    }

    /// What walks are made and watched with.
    #[inline]
    pub(crate) fn instruments<'a>(
        &'a mut self,
        walker: &'a dyn Walker,
        walker_id: WalkerId,
        lane: &'a Lane,
    ) -> Instruments<'a> {
        Instruments {
            bench: Bench {
                walker,
                walker_id,
                landscape: &self.landscape,
                code: &self.code,
                lane,
                oracle: self.oracle.as_ref().map(|oracle| Judging {
                    oracle,
                    classifier: RefCell::new(&mut self.classifier),
                    code: &self.code,
                    landscape: &self.landscape,
                    walk_mode: self.walk_mode,
                }),
            },
            watch: Watch {
                stack: &mut self.stack,
                code: &self.code,
                is_corrected: self.corrects_stacks,
            },
            modules: &self.modules,
        }
    }

    /// The JVM's memory.
    pub(crate) fn memory(&self) -> &LiveMemory {
        &self.memory
    }

    /// libjvm's text.
    pub(crate) fn libjvm_text(&self) -> Option<Span> {
        self.libjvm_text
    }

    /// The stacks of the Java threads, as of the last survey.
    pub(crate) fn stacks(&self) -> &[(Tid, Span)] {
        &self.stacks
    }

    /// The stack of a Java thread that the last survey saw.
    pub(crate) fn stack_of(&self, tid: Tid) -> Option<Span> {
        let mut stacks = self.stacks.iter();
        stacks
            .find(|(known, _)| *known == tid)
            .map(|(_, stack)| *stack)
    }

    /// The distance from a `JavaThread` to its `JNIEnv`.
    ///
    /// # Errors
    /// When no thread shows it.
    pub fn env_offset(&self) -> Result<u64, HarnessError> {
        let (threads, _) = walkfuzz_vmstructs::java_threads(&self.hotspot, &self.memory)
            .map_err(|error| HarnessError::VmStructs(error.to_string()))?;
        threads
            .iter()
            .find_map(|thread| Some(thread.jni_environment?.0.wrapping_sub(thread.address.0)))
            .ok_or_else(|| HarnessError::VmStructs("no Java thread shows its JNIEnv".into()))
    }

    /// The reference walker of this JVM.
    ///
    /// # Errors
    /// A missing entry of HotSpot's tables, by name.
    pub fn reference(&self) -> Result<ReferenceWalker, HarnessError> {
        let missing = |what: String| HarnessError::VmStructs(what);
        let libjvm = self.modules.by_name("libjvm.so");
        let libjvm = libjvm.ok_or_else(|| missing("libjvm.so is not loaded".into()))?;
        let symbol = |name: &str| libjvm.address_of(name);
        ReferenceWalker::attach(&self.hotspot, &symbol, self.env_offset()?).map_err(|error| {
            missing(format!(
                "the reference walker cannot walk this JVM: {error}"
            ))
        })
    }

    /// From the lowest to the highest address of the reserved code cache.
    ///
    /// # Errors
    /// The tables show none.
    pub(crate) fn code_cache(&self) -> Result<std::ops::Range<u64>, HarnessError> {
        let heaps = &self.code.cache().heaps;
        let low = heaps
            .iter()
            .map(|heap| heap.reserved.start.0)
            .min()
            .ok_or_else(|| HarnessError::VmStructs("the tables lack a code heap".into()))?;
        let high = heaps
            .iter()
            .map(|heap| heap.reserved.end.0)
            .max()
            .unwrap_or(low);
        Ok(low..high)
    }

    /// What a sample must satisfy to be held.
    ///
    /// # Errors
    /// A missing entry of HotSpot's tables.
    pub fn filter(&self) -> Result<Filter, HarnessError> {
        let missing = |what: &str| HarnessError::VmStructs(format!("the tables lack {what}"));
        let tables = self.hotspot.tables();
        let state = tables
            .field("JavaThread", "_thread_state")
            .ok_or_else(|| missing("JavaThread::_thread_state"))?;
        let in_java = tables.constant("_thread_in_Java").unwrap_or(8);
        Ok(Filter {
            code: self.code_cache()?,
            thread_state_offset: state.offset,
            in_java: in_java as u32,
        })
    }

    /// Surveys the process anew when it is time to. Returns whether it did.
    pub fn refresh(&mut self, parks: u64) -> bool {
        if parks.wrapping_sub(self.parks_at_survey) < REFRESH_PARKS {
            return false;
        }
        self.parks_at_survey = parks;
        let began = Instant::now();
        if let Ok(survey) = survey(&self.hotspot, &self.memory, &self.maps, None) {
            self.adopt(survey);
        }
        self.survey_time = began.elapsed();
        true
    }

    /// Reads the code cache anew, and nothing else: code that came or went since the last survey. For frozen copies, whose landscape has to stay
    /// as it was.
    pub(crate) fn look_at_code_again(&mut self, tid: Tid) {
        let Ok(cache) = CodeCache::read(&self.hotspot, &self.memory) else {
            return;
        };
        self.code = CodeMap::new(cache, self.libjvm_text);
        let stacks = self.stacks.iter();
        let stacks = stacks.map(|(_, stack)| stack.start.0..stack.end.0);
        self.classifier = Classifier::new(0..0, stacks.collect());
        if let Some(stack) = self.stack_of(tid) {
            self.classifier.set_own_stack(stack.start.0..stack.end.0);
        }
    }

    fn adopt(&mut self, mut survey: Survey) {
        let stacks: Vec<(Tid, Span)> = survey
            .threads
            .iter()
            .map(|thread| (thread.tid, thread.stack))
            .collect();
        let code = CodeMap::new(std::mem::take(&mut survey.code_cache), self.libjvm_text);
        self.stale_hits += stale::hits(
            &mut self.landscape,
            &Known {
                code: &self.code,
                stacks: &self.stacks,
            },
            &Known {
                code: &code,
                stacks: &stacks,
            },
        );
        fill(&survey, &mut self.landscape);
        self.stacks = stacks;
        let stacks = self
            .stacks
            .iter()
            .map(|(_, stack)| stack.start.0..stack.end.0)
            .collect();
        self.classifier = Classifier::new(0..0, stacks);
        self.code = code;
        self.serial = 0;
    }

    /// Makes the landscape that of this moment: call before its first walk. Does nothing at a moment it has seen.
    pub fn meet(&mut self, moment: &Moment) -> Option<NaturalClass> {
        if self.serial == moment.serial {
            return None;
        }
        self.serial = moment.serial;
        let untouched = moment.untouched;
        self.stack.keep(moment);
        let code = &self.code;
        let words = self.stack.words();
        let near = words.get(..WALKED_STACK_WORDS).unwrap_or(words);
        self.landscape
            .set_walked_stack(untouched.sp().0, near, |word| is_return_address(code, word));
        let tid = Tid(moment.thread.tid);
        if let Some(stack) = self.stack_of(tid) {
            self.classifier.set_own_stack(stack.start.0..stack.end.0);
        }
        Some(self.observe(&untouched))
    }

    /// Counts a natural context.
    pub fn observe(&mut self, registers: &Registers) -> NaturalClass {
        let class = self.classifier.class(&self.code, registers);
        self.witness.observe(class);
        self.landscape.note(ValueClass::NaturalPc, registers.pc().0);
        self.landscape.note(ValueClass::NaturalSp, registers.sp().0);
        self.landscape.note(ValueClass::NaturalFp, registers.fp().0);
        class
    }

    /// The method that a `jmethodID` stands for; the id in hex if it cannot be read.
    #[must_use]
    pub fn method_of_id(&self, id: u64) -> String {
        let name = read_word(Address(id))
            .ok()
            .and_then(|method| method_name(&self.hotspot, &self.memory, Address(method)));
        match name {
            Some(name) => name.to_string(),
            None if id == 0 => "a method without an id".to_owned(),
            None => format!("jmethodID {id:#x}"),
        }
    }

    /// How the code at `pc` is named in reports, and the offset in it; no offset in a blob's header.
    #[must_use]
    pub fn describe_code(&self, pc: Pc) -> Option<(String, Option<u64>)> {
        let blob = self.code.blob(Address(pc.0))?;
        let name = match (self.code.codelet(Address(pc.0)), &blob.nmethod) {
            (Some(codelet), _) => codelet.description.to_string(),
            (None, Some(nmethod)) => self
                .describe_nmethod(nmethod)
                .unwrap_or_else(|| blob.name.to_string()),
            (None, None) => blob.name.to_string(),
        };
        Some((name, pc.0.checked_sub(blob.code.start.0)))
    }

    /// `java.lang.String.hashCode()I (level 4, id 17)`, level and id as in `-XX:+PrintCompilation`. `None` if its method cannot be read any more.
    fn describe_nmethod(&self, nmethod: &Nmethod) -> Option<String> {
        let method = method_name(&self.hotspot, &self.memory, nmethod.method)?;
        let level = if nmethod.is_native_wrapper {
            "native wrapper".to_owned()
        } else {
            format!("level {}", nmethod.level)
        };
        let osr = if nmethod.is_osr() {
            format!(", osr at {}", nmethod.entry_bci)
        } else {
            String::new()
        };
        Some(format!(
            "{method} ({level}{osr}, id {})",
            nmethod.compile_id
        ))
    }
}

/// Whether compiled code, stubs or the interpreter return to `word`.
pub(crate) fn is_return_address(code: &CodeMap, word: u64) -> bool {
    let at = Address(word);
    code.blob(at).is_some()
        && (follows_call(word)
            // No call stands before these: the interpreter pushes them itself, and jumps.
            || code
                .codelet(at)
                .is_some_and(|codelet| codelet.description.ends_with("return entry points")))
}

/// Whether the instruction before `pc`, an address in the code cache, is a call: then the word is a return address and not some
/// other pointer into code.
fn follows_call(pc: u64) -> bool {
    // The longest call that generated code has takes 7 bytes on x86_64, 4 on aarch64.
    let mut before = [0; 8];
    let length = before.len() as u64;
    if read_checked(Address(pc.wrapping_sub(length)), &mut before).is_err() {
        return false;
    }
    (2..=before.len()).any(|size| {
        before.get(before.len() - size..).is_some_and(|code| {
            let map = InstructionMap::of(Arch::NATIVE, code, Pc(pc - size as u64));
            matches!(map.instructions(), [only] if only.kind == InstructionKind::Call)
        })
    })
}
