//! The list of code that other walkers share, held against the calls in the libjvms at hand.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use walkfuzz_context::{Arch, Pc};
use walkfuzz_jvm::{Jdk, Places};
use walkfuzz_symbols::{SymbolTable, around, demangle, short_name};
use walkfuzz_triage::{Walk, knows_release, shared_code, shared_functions};

/// Where the walkers' own walks begin.
const JFR: [&str; 8] = [
    "JfrGetCallTrace::",
    "JfrStackTrace::record",
    "JfrThreadSampleClosure::",
    "JfrSampleRequestBuilder::",
    "JfrThreadSampling::",
    "JfrCPUTimeThreadSampling::",
    "JfrCPUSamplerThread::",
    "OSThreadSampler::",
];
const GET_STACK_TRACE: [&str; 1] = ["JvmtiEnvBase::get_stack_trace"];
/// Machinery that leads everywhere, and is no part of a walk: error reports print stacks, locks and safepoints run anything.
const NO_WALK: [&str; 24] = [
    "report_vm_error",
    "report_fatal",
    "report_should",
    "VMError",
    "Mutex",
    "Monitor",
    "os::",
    "ttyLocker",
    "outputStream",
    "Handshake",
    "SafepointS",
    "ObjectMonitor",
    "VMThread",
    "JavaCalls",
    "Exceptions",
    "GrowableArray",
    "ResourceObj",
    "Arena",
    "Chunk",
    "AllocateHeap",
    "Klass::",
    "CollectedHeap",
    "Deoptimization",
    "StackWatermark",
];

/// The functions of a libjvm, and which of them call which.
struct Calls {
    table: SymbolTable,
    /// Short names by offset.
    names: BTreeMap<u64, String>,
    callees: HashMap<u64, Vec<u64>>,
}

impl Calls {
    fn of(jdk: &Jdk) -> Self {
        let table = SymbolTable::load(&jdk.libjvm).unwrap();
        let symbols = table.iter().filter(|symbol| symbol.size > 0);
        let names = symbols
            .map(|symbol| (symbol.offset, short_name(&demangle(symbol.mangled))))
            .collect();
        Self {
            table,
            names,
            callees: HashMap::new(),
        }
    }

    /// Whom the function at `offset` calls or jumps to, directly.
    fn callees(&mut self, offset: u64) -> Vec<u64> {
        if let Some(known) = self.callees.get(&offset) {
            return known.clone();
        }
        let symbol = self.table.lookup(offset).unwrap();
        let size = symbol.size;
        let code = self.table.read(offset, size).unwrap_or_default();
        let lines = around(Arch::X86_64, &code, Pc(offset), Pc(offset), usize::MAX);
        let found = lines.iter().filter_map(|line| {
            let (name, operands) = line.text.split_once(' ')?;
            let number = |text: &str| u64::from_str_radix(text.strip_prefix("0x")?, 16).ok();
            if name.starts_with("call") || name.starts_with('j') {
                let to = number(operands.trim())?;
                let outside = !(offset..offset + size).contains(&to);
                // A jump may lead to a function's cold part, which is a symbol of its own.
                return outside.then(|| self.table.lookup(to).map(|symbol| symbol.offset))?;
            }
            // A virtual call that the compiler expects to go to one function: its address is compared first.
            let by = number(operands.trim().split_once("(%rip)")?.0).filter(|_| name == "lea")?;
            let to = line.address.0 + line.bytes.len() as u64 + by;
            self.names.contains_key(&to).then_some(to)
        });
        let found: Vec<u64> = found.collect::<BTreeSet<_>>().into_iter().collect();
        self.callees.insert(offset, found.clone());
        found
    }

    /// The short names of everything that is reached from functions whose names begin so.
    fn reached(&mut self, roots: &[&str]) -> HashSet<String> {
        let is_root = |name: &str| roots.iter().any(|root| name.starts_with(root));
        let roots = self.names.iter().filter(|(_, name)| is_root(name));
        let mut to_do: Vec<u64> = roots.map(|(offset, _)| *offset).collect();
        assert!(!to_do.is_empty(), "no such function");
        let mut seen: HashSet<u64> = HashSet::new();
        let mut reached = HashSet::new();
        while let Some(offset) = to_do.pop() {
            let Some(name) = self.names.get(&offset).cloned() else {
                continue;
            };
            if !seen.insert(offset) {
                continue;
            }
            let leads_everywhere = NO_WALK.iter().any(|part| name.contains(part));
            reached.insert(name);
            if !leads_everywhere {
                to_do.extend(self.callees(offset));
            }
        }
        reached
    }
}

#[test]
fn what_is_said_to_be_shared_is_called() {
    let mut features = BTreeSet::new();
    for candidate in Places::from_env().discover() {
        let Ok(jdk) = candidate.jdk else { continue };
        let feature = jdk.version.feature();
        if jdk.arch != Arch::X86_64
            || !jdk.symtab
            || !knows_release(feature)
            || !features.insert(feature)
        {
            continue;
        }
        check(&jdk, feature);
    }
    if features.is_empty() {
        eprintln!("skip: no x86_64 JDK with symbols, of 11 to 25");
    }
}

fn check(jdk: &Jdk, feature: u32) {
    let mut calls = Calls::of(jdk);
    let jfr = calls.reached(&JFR);
    let stack_trace = calls.reached(&GET_STACK_TRACE);
    let agct = calls.reached(&["AsyncGetCallTrace"]);
    let (mut called, mut wrong) = (0, Vec::new());
    for function in shared_functions(feature) {
        // Inlined in this build: no signature of AsyncGetCallTrace names it.
        if !agct.contains(function) {
            continue;
        }
        for sharing in shared_code(function, feature).unwrap() {
            let reached = match sharing.walk {
                Walk::JfrSampler => &jfr,
                Walk::GetStackTrace => &stack_trace,
            };
            // The other name of the same code.
            let other = function == "JavaThread::pd_get_top_frame_for_signal_handler";
            if reached.contains(function) || other {
                called += 1;
            } else {
                wrong.push((function, sharing.walk));
            }
        }
    }
    println!(
        "note: {jdk}: {called} as the list says; JFR reaches {} functions, GetStackTrace {}, AsyncGetCallTrace {}",
        jfr.len(),
        stack_trace.len(),
        agct.len()
    );
    assert!(wrong.is_empty(), "{jdk}: not called: {wrong:?}");
    assert!(called > 15, "{jdk}: only {called}");
}
