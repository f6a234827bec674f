//! Which basic blocks of the JVM's walk code the walks reach: breakpoints that are met once.
//!
//! libjvm is not instrumented, so that a fuzzer sees outcomes alone. [`Blocks::plant`] puts an `int3` on each basic block of the
//! functions that a walk runs through; the first thread that gets there traps, and the hook puts the original byte back and lets
//! it go on. A block so costs one signal, and then nothing.
//!
//! A single byte is written at a time, at the beginning of an instruction. Another thread that executes it meanwhile sees the old
//! instruction or the breakpoint (the kernel's `text_poke` relies on the same). What the hook runs is signal-safe.
//! x86_64 only: on aarch64 nothing is planted.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use walkfuzz_context::{Address, Arch, Pc};
use walkfuzz_guard::{read_checked, read_pc, set_breakpoint_hook, write_pc};
use walkfuzz_symbols::{Modules, block_starts, demangle, short_name};

/// The one-byte breakpoint.
const INT3: u8 = 0xcc;
/// `si_code` of the SIGTRAP that `int3` raises (arch/x86/kernel/traps.c, do_int3_user); single steps have another one.
const SI_KERNEL: i32 = 0x80;
/// How often a block is planted again that other threads got to first: collector and compilers run the same functions.
const MOST_PLANTINGS: u8 = 16;
/// No function of the walk code is larger; what is has a wrong size.
const LARGEST: u64 = 64 << 10;

/// How the names of walk code begin.
const WANTED: [&str; 34] = [
    "forte_",
    "AsyncGetCallTrace",
    "is_decipherable_",
    "find_initial_Java_frame",
    "frame::",
    "vframe",
    "CodeCache::find",
    "CodeCache::contains",
    "CodeHeap::find",
    "CodeBlob::",
    "PcDesc",
    "nmethod::",
    "CompiledMethod::",
    "Method::is_",
    "Method::has_",
    "Method::bci_from",
    "Method::validate_bci",
    "Method::jmethod",
    "Method::get_jmethod",
    "Method::find_jmethod",
    "Method::make_jmethod",
    "Method::ensure_jmethod",
    "Method::checked_resolve",
    "Method::resolve_jmethod",
    "ScopeDesc",
    "DebugInfoRead",
    "OopMapSet::",
    "OopMapStream::",
    "ImmutableOopMap",
    "JavaFrameAnchor",
    "RegisterMap",
    "JavaThread::pd_get_top_frame",
    "os::is_readable",
    "InstanceKlass::",
];

/// Of functions that are named like walk code, those that no walk runs, by how their own name begins. Printing and verifying are for crash
/// logs, where a breakpoint would end a section.
const UNWANTED: [&str; 9] = [
    "print",
    "verify",
    "describe",
    "dump",
    "oops_do",
    "log",
    "trace",
    "nmethods_do",
    "SafeFetch",
];

const PLANTED: u8 = 0;
const MET_OUTSIDE: u8 = 1;
const MET_IN_WALK: u8 = 2;

struct Block {
    address: u64,
    original: u8,
    state: AtomicU8,
    plantings: AtomicU8,
}

impl Block {
    /// Writes the block's first byte.
    ///
    /// # Safety
    /// Its page is writable, and `byte` is the original or the breakpoint.
    unsafe fn write(&self, byte: u8) {
        let place = std::ptr::with_exposed_provenance_mut::<u8>(self.address as usize);
        // SAFETY: the caller's promise; code that executes the byte sees the one or the other.
        unsafe { AtomicU8::from_ptr(place) }.store(byte, Ordering::SeqCst);
    }
}

/// What the hook looks at. Made once, never dropped.
struct Table {
    /// By address.
    blocks: Box<[Block]>,
    /// Numbers, plus one, of the blocks that walks have met, in the order of meeting.
    met: Box<[AtomicU32]>,
    met_count: AtomicUsize,
}

static TABLE: OnceLock<Table> = OnceLock::new();

/// How many blocks walks have reached so far; 0 without planted blocks.
#[inline]
pub(crate) fn reached() -> usize {
    TABLE
        .get()
        .map_or(0, |table| table.met_count.load(Ordering::Relaxed))
}

/// The planted blocks of this process.
pub struct Blocks {
    table: &'static Table,
    /// How many of `met` the fuzzer has been told.
    told: usize,
    functions: usize,
    left_out: usize,
    time: Duration,
}

/// What was found in libjvm.
#[derive(Default)]
struct Found {
    blocks: Vec<Block>,
    functions: usize,
    left_out: usize,
}

impl Blocks {
    /// Plants a breakpoint on each basic block of libjvm's walk code. The guard must be installed, the JVM be started. `None`, where there
    /// is nothing to plant or the code cannot be made writable (which is said on standard error): the session does without.
    #[must_use]
    pub fn plant(modules: &Modules) -> Option<Self> {
        let began = Instant::now();
        let found = find(modules)?;
        if found.blocks.is_empty() || TABLE.get().is_some() {
            return None;
        }
        if let Err(error) = make_writable(&found.blocks) {
            eprintln!(
                "walkfuzz: no feedback from blocks: libjvm's code cannot be written to: {error}"
            );
            return None;
        }
        let met = found.blocks.iter().map(|_| AtomicU32::new(0)).collect();
        let table = TABLE.get_or_init(|| Table {
            blocks: found.blocks.into_boxed_slice(),
            met,
            met_count: AtomicUsize::new(0),
        });
        // SAFETY: the hook is signal-safe and takes nothing but traps at planted blocks.
        unsafe { set_breakpoint_hook(Some(on_breakpoint)) };
        for block in &table.blocks {
            // SAFETY: the pages have been made writable, and the hook is in place.
            unsafe { block.write(INT3) };
        }
        Some(Self {
            table,
            told: 0,
            functions: found.functions,
            left_out: found.left_out,
            time: began.elapsed(),
        })
    }

    /// How many blocks are watched.
    #[must_use]
    pub fn planted(&self) -> usize {
        self.table.blocks.len()
    }

    /// How many of them walks have reached.
    #[must_use]
    pub fn seen(&self) -> usize {
        self.table.met_count.load(Ordering::Acquire)
    }

    /// How many have been met outside walks alone so far.
    #[must_use]
    pub fn met_elsewhere(&self) -> usize {
        let blocks = self.table.blocks.iter();
        blocks
            .filter(|block| block.state.load(Ordering::Acquire) == MET_OUTSIDE)
            .count()
    }

    /// How many functions they belong to.
    #[must_use]
    pub fn functions(&self) -> usize {
        self.functions
    }

    /// How many functions of the walk code are not watched, because not all of their bytes are instructions.
    #[must_use]
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// How long planting took.
    #[must_use]
    pub fn planting_time(&self) -> Duration {
        self.time
    }

    /// Tells the numbers of the blocks that walks have reached since it was last asked, of the first `up_to` that any walk reached.
    #[inline]
    pub(crate) fn news(&mut self, up_to: usize, mut tell: impl FnMut(u32)) {
        while self.told < up_to {
            let met = self.table.met.get(self.told);
            let Some(number) = met.and_then(|met| met.load(Ordering::Acquire).checked_sub(1))
            else {
                return;
            };
            tell(number);
            self.told += 1;
        }
    }

    /// Plants those blocks again that threads met outside walks, a few times each.
    pub(crate) fn plant_again(&mut self) {
        for block in &self.table.blocks {
            if block.state.load(Ordering::Acquire) == MET_OUTSIDE
                && block.plantings.load(Ordering::Relaxed) < MOST_PLANTINGS
            {
                block.plantings.fetch_add(1, Ordering::Relaxed);
                block.state.store(PLANTED, Ordering::Release);
                // SAFETY: as in `plant`.
                unsafe { block.write(INT3) };
            }
        }
    }
}

/// Takes the traps at planted blocks. In the handler of any thread.
unsafe fn on_breakpoint(
    info: *mut libc::siginfo_t,
    context: *mut libc::ucontext_t,
    in_walk: bool,
) -> bool {
    // SAFETY: the guard passes the kernel's pointers on, here and below.
    if info.is_null() || unsafe { (*info).si_code } != SI_KERNEL {
        return false;
    }
    let Some(table) = TABLE.get() else {
        return false;
    };
    // The trap is reported behind the breakpoint.
    // SAFETY: see above.
    let pc = unsafe { read_pc(context) }.0.wrapping_sub(1);
    let found = table
        .blocks
        .binary_search_by_key(&pc, |block| block.address);
    let Some((number, block)) = found
        .ok()
        .and_then(|index| Some((index, table.blocks.get(index)?)))
    else {
        return false;
    };
    // Another thread may have been quicker; then the byte is there already.
    // SAFETY: the page was made writable; the thread continues at the beginning of the instruction that stood there.
    unsafe {
        block.write(block.original);
        write_pc(context, Pc(pc));
    }
    if !in_walk {
        let _ =
            block
                .state
                .compare_exchange(PLANTED, MET_OUTSIDE, Ordering::AcqRel, Ordering::Relaxed);
    } else if block.state.swap(MET_IN_WALK, Ordering::AcqRel) != MET_IN_WALK {
        let place = table.met_count.fetch_add(1, Ordering::AcqRel);
        if let Some(met) = table.met.get(place) {
            met.store(number as u32 + 1, Ordering::Release);
        }
    }
    true
}

/// Whether a walk may run through the function, by its name as [`short_name`] gives it.
fn is_walk_code(name: &str) -> bool {
    let own = name.rsplit("::").next().unwrap_or(name);
    WANTED.iter().any(|wanted| name.starts_with(wanted))
        && !UNWANTED.iter().any(|unwanted| own.starts_with(unwanted))
        && !name.starts_with("vframeArray")
        && (!name.starts_with("InstanceKlass::") || own.contains("jmethod"))
}

/// Whether a mangled name's first part begins like walk code: demangling all 60,000 names would take a second.
fn may_be_walk_code(heads: &[(&str, bool)], mangled: &str) -> bool {
    // `_ZNK5frame...`: nested names begin with N, K for const; `_ZL10forte_...` is static.
    let first = match mangled.strip_prefix("_Z") {
        Some(name) => {
            let name = name.trim_start_matches(['N', 'K', 'L']);
            let digits = name.bytes().take_while(u8::is_ascii_digit).count();
            let (length, rest) = name.split_at(digits);
            length.parse().ok().and_then(|length| rest.get(..length))
        }
        None => Some(mangled),
    };
    first.is_some_and(|first| {
        heads
            .iter()
            .any(|(head, whole)| first.starts_with(head) && (!whole || first.len() == head.len()))
    })
}

/// The first part of each of [`WANTED`], and whether it is a whole name.
fn heads() -> Vec<(&'static str, bool)> {
    let mut heads: Vec<_> = WANTED
        .iter()
        .map(|wanted| match wanted.split_once("::") {
            Some((class, _)) => (class, true),
            None => (*wanted, false),
        })
        .collect();
    heads.dedup();
    heads
}

/// The blocks of libjvm's walk code, by address. `None` without libjvm or its symbols.
fn find(modules: &Modules) -> Option<Found> {
    let module = modules.by_name("libjvm.so")?;
    let table = module.table()?;
    let bias = module.bias();
    let text: Vec<_> = table
        .text()
        .map(|(at, length)| at..at.wrapping_add(length))
        .collect();
    let heads = heads();
    let mut found = Found::default();
    let mut last = None;
    let mut code = Vec::new();
    for symbol in table.iter() {
        let is_function = (1..=LARGEST).contains(&symbol.size)
            && text.iter().any(|text| text.contains(&symbol.offset))
            && last != Some(symbol.offset);
        if !is_function
            || !may_be_walk_code(&heads, symbol.mangled)
            || !is_walk_code(&short_name(&demangle(symbol.mangled)))
        {
            continue;
        }
        last = Some(symbol.offset);
        let start = symbol.offset.wrapping_add(bias);
        code.clear();
        code.resize(symbol.size as usize, 0);
        let starts = read_checked(Address(start), &mut code)
            .ok()
            .and_then(|()| block_starts(Arch::NATIVE, &code, Pc(start)));
        let Some(starts) = starts else {
            found.left_out += 1;
            continue;
        };
        found.functions += 1;
        found.blocks.extend(starts.iter().filter_map(|pc| {
            let original = *code.get((pc.0 - start) as usize)?;
            (original != INT3).then_some(Block {
                address: pc.0,
                original,
                state: AtomicU8::new(PLANTED),
                plantings: AtomicU8::new(1),
            })
        }));
    }
    found.blocks.sort_unstable_by_key(|block| block.address);
    found.blocks.dedup_by_key(|block| block.address);
    Some(found)
}

/// Makes the pages of the blocks (sorted by address), and no others, writable. They stay executable.
fn make_writable(blocks: &[Block]) -> std::io::Result<()> {
    // SAFETY: no preconditions.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64;
    let mut last = None;
    for block in blocks {
        let start = block.address & !(page - 1);
        if last == Some(start) {
            continue;
        }
        last = Some(start);
        // SAFETY: libjvm's code, a private mapping of its file: nothing but this process sees what is written there.
        let done = unsafe {
            libc::mprotect(
                std::ptr::with_exposed_provenance_mut(start as usize),
                page as usize,
                libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC,
            )
        };
        if done != 0 {
            return Err(std::io::Error::last_os_error());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_parts_are_looked_at_before_demangling() {
        for name in [
            "AsyncGetCallTrace",
            "_ZL31forte_fill_call_trace_given_topP10JavaThreadP15ASGCT_CallTracei5frame",
            "_ZNK5frame25sender_for_compiled_frameEP11RegisterMap",
            "_ZN2os20is_readable_pointerEPKv",
            "_ZN17vframeStreamForteC1EP10JavaThread5frameb",
        ] {
            assert!(may_be_walk_code(&heads(), name), "{name}");
        }
        for name in [
            "_ZN10FrameValue5printEv",
            "_ZN99frame",
            "_ZNSt5dequeE",
            "_Z",
            "",
            "SafeFetch32",
            "_ZN13SymbolTable5frameE",
        ] {
            assert!(!may_be_walk_code(&heads(), name), "{name}");
        }
    }

    #[test]
    fn walk_code_is_told_by_name() {
        for name in [
            "AsyncGetCallTrace",
            "forte_fill_call_trace_given_top",
            "frame::sender_for_compiled_frame",
            "PcDescContainer::find_pc_desc_internal",
            "InstanceKlass::get_jmethod_id",
            "os::is_readable_pointer",
            "Method::is_valid_method",
        ] {
            assert!(is_walk_code(name), "{name}");
        }
        for name in [
            "frame::print_on_error",
            "InstanceKlass::link_class_impl",
            "SafeFetch32",
            "nmethod::verify_scopes",
            "Method::print_codes_on",
            "StackFrame",
        ] {
            assert!(!is_walk_code(name), "{name}");
        }
    }
}
