//! What must hold in a live JVM.

mod code;
mod memory;
mod survey;
mod threads;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use walkfuzz_vmstructs::{CodeCache, FlagKind, FlagValue, HotSpot, LiveMemory};

use crate::jdks;
use crate::jvm::{HEAP_BYTES, Jvm};
use crate::symbols::Symbols;
use crate::workload;

/// Rounds of work beside the checks.
const WORKER_ROUNDS: u32 = 30;

pub(crate) struct Context<'a> {
    pub(crate) jvm: &'a Jvm,
    pub(crate) hotspot: &'a HotSpot,
    pub(crate) memory: &'a LiveMemory,
    pub(crate) symbols: &'a Symbols,
    pub(crate) collector: &'a str,
}

pub(crate) fn all(jvm: &Jvm, release: &str, collector: &str) {
    let symbols = Symbols::read(&jvm.libjvm);
    let memory = LiveMemory::new();
    let start = Instant::now();
    let hotspot = HotSpot::attach(&memory, &|name| symbols.address(name)).expect("attaching");
    let attached = start.elapsed();
    let context = Context {
        jvm,
        hotspot: &hotspot,
        memory: &memory,
        symbols: &symbols,
        collector,
    };
    let (fields, types, constants) = hotspot.tables().counts();
    println!(
        "{collector}: {} ({fields} fields, {types} types, {constants} constants, {} flags), attached in {attached:.1?}",
        hotspot.version().release,
        hotspot.flags().count(),
    );
    assert_eq!(hotspot.version().feature, jdks::feature(release));
    assert!(hotspot.version().release.starts_with(release), "{release}");
    flags(&context);
    missing_entries_have_names(&context);
    assert_eq!(hotspot.skipped_codelets(), 0);

    // Another Java thread works while this one reads.
    let stop = Arc::new(AtomicBool::new(false));
    let (handle, stopping) = (jvm.handle(), Arc::clone(&stop));
    let worker = std::thread::spawn(move || {
        let env = handle.attach();
        // Bounded: Epsilon collects nothing.
        for _ in 0..WORKER_ROUNDS {
            if !stopping.load(Ordering::Relaxed) {
                workload::round(env);
            }
        }
    });
    warm_up(&context);
    code::check(&context);
    threads::check(&context);
    memory::check(&context);
    survey::while_the_jvm_moves(&context);
    stop.store(true, Ordering::Relaxed);
    worker.join().expect("the worker");
    survey::check(&context);
}

/// Works until the compilers, which share the machine with others, have done enough to be looked at.
fn warm_up(context: &Context<'_>) {
    for round in 1..=60 {
        workload::round(context.jvm.env());
        let cache = CodeCache::read(context.hotspot, context.memory).expect("the code cache");
        let nmethods = || cache.blobs.iter().filter_map(|blob| blob.nmethod);
        let levels: BTreeSet<i8> = nmethods().map(|nmethod| nmethod.level).collect();
        let osr = nmethods().any(|nmethod| nmethod.is_osr());
        if round >= 4 && nmethods().count() > 400 && levels.len() >= 5 && osr {
            return;
        }
    }
}

/// A survey of a JVM that has compiled everything it ever ran, for its cost alone.
pub(crate) fn many_blobs(jvm: &Jvm) {
    let symbols = Symbols::read(&jvm.libjvm);
    let memory = LiveMemory::new();
    let hotspot = HotSpot::attach(&memory, &|name| symbols.address(name)).expect("attaching");
    for _ in 0..3 {
        workload::round(jvm.env());
    }
    survey::cost(&hotspot, &memory);
}

fn flags(context: &Context<'_>) {
    let flags = context.hotspot.flags();
    let memory = context.memory;
    assert!(flags.count() > 500, "{} flags", flags.count());
    for collector in ["Serial", "Parallel", "G1", "Z", "Shenandoah", "Epsilon"] {
        let name = format!("Use{collector}GC");
        assert_eq!(
            flags.is_on(memory, &name),
            collector == context.collector,
            "{name}"
        );
    }
    assert_eq!(
        flags.value(memory, "MaxHeapSize"),
        Some(FlagValue::Unsigned(HEAP_BYTES))
    );
    assert_eq!(
        flags.value(memory, "StackYellowPages"),
        Some(FlagValue::Signed(2))
    );
    assert_eq!(
        flags.value(memory, "StackRedPages"),
        Some(FlagValue::Signed(1))
    );
    assert_eq!(
        flags.value(memory, "StackReservedPages"),
        Some(FlagValue::Signed(1))
    );
    assert!(
        flags
            .number(memory, "StackShadowPages")
            .is_some_and(|pages| (10..100).contains(&pages))
    );
    assert_eq!(
        flags.value(memory, "UsePerfData"),
        Some(FlagValue::Bool(false))
    );
    assert_eq!(flags.kind("HeapDumpPath"), Some(FlagKind::Text));
    assert_eq!(
        flags.value(memory, "HeapDumpPath"),
        Some(FlagValue::Text(None))
    );
    assert!(matches!(
        flags.value(memory, "ErrorFile"),
        Some(FlagValue::Text(_))
    ));
    assert!(
        matches!(flags.value(memory, "CompileThresholdScaling"), Some(FlagValue::Double(factor)) if factor == 1.0)
    );
    assert_eq!(flags.kind("ParallelGCThreads"), Some(FlagKind::Unsigned(4)));
    assert_eq!(flags.value(memory, "NoSuchFlag"), None);
    assert!(flags.value(memory, "UseCompressedOops").is_some());
}

fn missing_entries_have_names(context: &Context<'_>) {
    let missing = context
        .hotspot
        .tables()
        .require("CodeBlob", "_no_such_field")
        .unwrap_err();
    let text = missing.to_string();
    assert!(
        text.contains("CodeBlob::_no_such_field")
            && text.contains(&*context.hotspot.version().release),
        "{text}"
    );
    let nothing = HotSpot::attach(context.memory, &|_| None).unwrap_err();
    assert!(
        nothing.to_string().contains("gHotSpotVMStruct"),
        "{nothing}"
    );
}
