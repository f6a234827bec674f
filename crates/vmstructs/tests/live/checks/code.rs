//! The code cache against what the JVM's other structures and the code itself say.

use std::collections::BTreeMap;

use walkfuzz_context::{Address, BlobKind};
use walkfuzz_vmstructs::{Blob, CodeCache, CodeMap, HotSpot, Maps, Memory, Nmethod};

use super::Context;
use crate::timing::shortest;

pub(crate) fn check(context: &Context<'_>) {
    let cache = CodeCache::read(context.hotspot, context.memory).expect("the code cache");
    let mut kinds: BTreeMap<BlobKind, usize> = BTreeMap::new();
    for blob in &cache.blobs {
        *kinds.entry(blob.kind).or_default() += 1;
    }
    let text: Vec<String> = kinds
        .iter()
        .map(|(kind, count)| format!("{} {count}", kind.name()))
        .collect();
    println!(
        "  {} blobs in {} heaps: {}; {:?}",
        cache.blobs.len(),
        cache.heaps.len(),
        text.join(", "),
        cache.skipped
    );
    for kind in [
        BlobKind::Interpreter,
        BlobKind::Nmethod,
        BlobKind::NativeWrapper,
        BlobKind::Adapter,
        BlobKind::VtableStub,
        BlobKind::RuntimeStub,
        BlobKind::StubRoutine,
    ] {
        assert!(kinds.contains_key(&kind), "no blob of kind {}", kind.name());
    }
    assert!(
        cache.skipped.blocks + cache.skipped.blobs <= 3,
        "{:?}",
        cache.skipped
    );
    structure(&cache);
    named_blobs(context, &cache);
    stripped_libjvm_gives_the_same_kinds(context, &cache);
    nmethods(context, &cache);
    frame_sizes(context, &cache);
    codelets(context, &cache);
    map(cache);
}

fn structure(cache: &CodeCache) {
    for pair in cache.blobs.windows(2) {
        assert!(
            pair[0].span.end <= pair[1].span.start,
            "{:?} overlaps {:?}",
            pair[0],
            pair[1]
        );
    }
    for blob in &cache.blobs {
        let heap = cache
            .heaps
            .iter()
            .find(|heap| heap.committed.covers(&blob.span));
        let heap = heap.unwrap_or_else(|| panic!("{blob:?} in no heap"));
        assert!(heap.reserved.covers(&heap.committed));
        assert!(blob.span.covers(&blob.code));
        assert!(
            blob.frame_size < 1 << 20 && blob.frame_size % 8 == 0,
            "{blob:?}"
        );
        assert!(
            blob.name.bytes().all(|byte| (b' '..=b'~').contains(&byte)) && !blob.name.is_empty(),
            "{blob:?}"
        );
        assert_eq!(
            blob.nmethod.is_some(),
            matches!(blob.kind, BlobKind::Nmethod | BlobKind::NativeWrapper)
        );
    }
    for free in &cache.free {
        assert!(
            !cache
                .blobs
                .iter()
                .any(|blob| blob.span.start < free.end && free.start < blob.span.end)
        );
    }
}

/// Blobs that libjvm's statics point to.
fn named_blobs(context: &Context<'_>, cache: &CodeCache) {
    let statics = [
        ("_ZN13SharedRuntime11_deopt_blobE", BlobKind::RuntimeStub),
        (
            "_ZN13SharedRuntime18_wrong_method_blobE",
            BlobKind::RuntimeStub,
        ),
        (
            "_ZN13SharedRuntime33_polling_page_return_handler_blobE",
            BlobKind::RuntimeStub,
        ),
    ];
    for (symbol, kind) in statics {
        let place = context
            .symbols
            .address(symbol)
            .unwrap_or_else(|| panic!("symbol {symbol}"));
        let start = context.memory.read_pointer(Address(place)).unwrap();
        let blob = cache
            .find(start)
            .unwrap_or_else(|| panic!("{symbol} at {start}"));
        assert_eq!((blob.span.start, blob.kind), (start, kind), "{symbol}");
    }
    let call_stub = context
        .hotspot
        .tables()
        .require("StubRoutines", "_call_stub_return_address")
        .unwrap();
    let pc = context.memory.read_pointer(call_stub.address).unwrap();
    assert_eq!(
        cache.find(pc).unwrap().kind,
        BlobKind::StubRoutine,
        "{:?}",
        cache.find(pc)
    );
}

/// Without `.symtab` the kinds come from names.
fn stripped_libjvm_gives_the_same_kinds(context: &Context<'_>, cache: &CodeCache) {
    let hotspot = HotSpot::attach(context.memory, &|name| context.symbols.exported(name))
        .expect("exported symbols only");
    let stripped = CodeCache::read(&hotspot, context.memory).unwrap();
    for blob in &stripped.blobs {
        // The JVM goes on meanwhile: only what was there before.
        if let Some(other) = cache
            .find(blob.span.start)
            .filter(|other| other.span == blob.span && other.name == blob.name)
        {
            assert_eq!(blob.kind, other.kind, "{blob:?}");
        }
    }
}

fn nmethods(context: &Context<'_>, cache: &CodeCache) {
    let tables = context.hotspot.tables();
    let code = tables.require("Method", "_code").unwrap().offset;
    let from_compiled = tables
        .require("Method", "_from_compiled_entry")
        .unwrap()
        .offset;
    let mut levels: BTreeMap<i8, usize> = BTreeMap::new();
    let (mut current, mut compiled, mut exception, mut deopt, mut osr) = (0, 0, 0, 0, 0);
    let (mut pcs, mut calls, mut wild) = (0, 0, 0);
    for (blob, nmethod) in with_nmethod(cache) {
        *levels.entry(nmethod.level).or_default() += 1;
        assert_eq!(nmethod.is_native_wrapper, nmethod.level == 0, "{blob:?}");
        assert!(
            blob.code.contains(nmethod.entry) && blob.code.contains(nmethod.verified_entry),
            "{blob:?}"
        );
        osr += usize::from(nmethod.is_osr());
        assert_eq!(nmethod.is_osr(), nmethod.osr_entry.is_some(), "{blob:?}");
        // The JVM's own link from the method back to its code: it proves both addresses, in whatever way they are stored.
        let link = context
            .memory
            .read_pointer(Address(nmethod.method.0.wrapping_add(code)));
        if link == Ok(blob.span.start) {
            current += 1;
            let entry = context
                .memory
                .read_pointer(Address(nmethod.method.0 + from_compiled))
                .unwrap();
            assert_eq!(entry, nmethod.verified_entry, "{blob:?}");
        }
        if nmethod.is_native_wrapper {
            continue;
        }
        compiled += 1;
        exception += usize::from(
            nmethod
                .exception_handler
                .is_some_and(|handler| handler >= nmethod.stub_begin),
        );
        deopt += usize::from(
            nmethod
                .deopt_handler
                .is_some_and(|handler| handler >= nmethod.stub_begin),
        );
        assert!(blob.frame_size > 0 && blob.frame_complete >= 0, "{blob:?}");
        assert!(nmethod.orig_pc_offset < blob.frame_size as i32, "{blob:?}");
        for pc in pc_descs(context, blob, nmethod) {
            pcs += 1;
            // Since 23 the PcDescs lie outside the code cache and may be freed meanwhile.
            wild += usize::from(!blob.code.contains(pc));
            calls += usize::from(context.memory.read_u8(Address(pc.0.wrapping_sub(5))) == Ok(0xe8));
        }
    }
    println!(
        "  {compiled} compiled methods by level {levels:?}, {osr} OSR, {current} current, {exception} with exception handler, \
         {deopt} with deopt handler; {calls} of {pcs} PcDescs behind a call"
    );
    assert!(levels.len() >= 4, "{levels:?}");
    assert!(osr > 0 && current * 2 > compiled && compiled > 300);
    assert!(exception * 10 > compiled * 9 && deopt * 10 > compiled * 9);
    assert!(
        wild * 1000 <= pcs,
        "{wild} of {pcs} PcDescs outside the code"
    );
    assert!(
        !cfg!(target_arch = "x86_64") || calls * 3 > pcs,
        "PcDescs are in the wrong place"
    );
}

fn with_nmethod(cache: &CodeCache) -> impl Iterator<Item = (&Blob, &Nmethod)> {
    cache
        .blobs
        .iter()
        .filter_map(|blob| Some((blob, blob.nmethod.as_ref()?)))
}

/// The pcs of the PcDescs, without the sentinels at both ends.
fn pc_descs(context: &Context<'_>, blob: &Blob, nmethod: &Nmethod) -> Vec<Address> {
    let size = context.hotspot.tables().type_size("PcDesc").unwrap();
    let count = nmethod.pc_descs.length() / size;
    assert!(count >= 2, "{blob:?}");
    (1..count - 1)
        .map(|index| {
            let offset = context
                .memory
                .read_i32(Address(nmethod.pc_descs.start.0 + index * size))
                .unwrap_or(-1);
            Address(blob.code.start.0.wrapping_add_signed(offset.into()))
        })
        .collect()
}

/// `push rbp; sub rsp, n` makes a frame of n bytes, rbp and the return address.
fn frame_sizes(context: &Context<'_>, cache: &CodeCache) {
    if !cfg!(target_arch = "x86_64") {
        return;
    }
    let (mut seen, mut complete) = (0, 0);
    for (blob, nmethod) in with_nmethod(cache) {
        let mut code = [0; 64];
        if nmethod.is_osr()
            || nmethod.is_native_wrapper
            || context
                .memory
                .read(nmethod.verified_entry, &mut code)
                .is_err()
        {
            continue;
        }
        let Some(at) = code
            .windows(4)
            .position(|bytes| bytes[..3] == [0x55, 0x48, 0x83] && bytes[3] == 0xec)
        else {
            continue;
        };
        seen += 1;
        assert_eq!(u32::from(code[at + 4]) + 16, blob.frame_size, "{blob:?}");
        let behind = nmethod.verified_entry.0 + at as u64 + 5 - blob.code.start.0;
        complete += usize::from(
            blob.frame_complete as u64 >= behind && blob.frame_complete as u64 <= behind + 64,
        );
    }
    println!(
        "  frame size equals the prologue's in {seen} methods, completed right behind it in {complete}"
    );
    assert!(seen > 100 && complete * 10 > seen * 9);
}

fn codelets(context: &Context<'_>, cache: &CodeCache) {
    let interpreter = cache
        .blobs
        .iter()
        .find(|blob| blob.kind == BlobKind::Interpreter)
        .unwrap();
    assert!(
        cache.codelets.len() > 200,
        "{} codelets",
        cache.codelets.len()
    );
    for pair in cache.codelets.windows(2) {
        assert_eq!(pair[0].span.end, pair[1].span.start, "codelets touch");
    }
    let mut bytecodes = 0;
    for codelet in cache.codelets.iter() {
        assert!(
            interpreter.code.covers(&codelet.span) && codelet.span.covers(&codelet.code),
            "{codelet:?}"
        );
        assert!(!codelet.description.is_empty(), "{codelet:?}");
        bytecodes += usize::from(codelet.bytecode >= 0);
    }
    assert!(bytecodes > 200, "{bytecodes} codelets of bytecodes");
    // Where the interpreter enters methods, as the methods themselves say.
    let entry = context
        .hotspot
        .tables()
        .require("Method", "_i2i_entry")
        .unwrap()
        .offset;
    let mut exact = 0;
    let mut entries = 0;
    for (_, nmethod) in with_nmethod(cache) {
        let Ok(pc) = context
            .memory
            .read_pointer(Address(nmethod.method.0.wrapping_add(entry)))
        else {
            continue;
        };
        // Method-handle linkers and continuations are entered elsewhere: adapters, buffers, their own code.
        if nmethod.is_native_wrapper
            && cache
                .find(pc)
                .is_some_and(|blob| blob.kind != BlobKind::Interpreter)
        {
            continue;
        }
        let codelet = cache
            .codelets
            .iter()
            .find(|codelet| codelet.span.contains(pc));
        let codelet = codelet.unwrap_or_else(|| {
            panic!(
                "interpreter entry {pc} in no codelet but {:?}",
                cache.find(pc)
            )
        });
        assert!(
            codelet.description.contains("method entry point"),
            "{pc} in {codelet:?}"
        );
        assert!(codelet.code.contains(pc), "{pc} in {codelet:?}");
        entries += 1;
        exact += usize::from(codelet.code.start == pc);
    }
    println!(
        "  {} codelets, {bytecodes} of bytecodes; {entries} method entries in them, {exact} at a codelet's first instruction",
        cache.codelets.len()
    );
    assert!(entries > 300);
}

fn map(cache: CodeCache) {
    let text = Maps::read_own()
        .unwrap()
        .text_of("libjvm.so")
        .expect("libjvm's text");
    let built = shortest(3, || drop(CodeMap::new(cache.clone(), Some(text))));
    let map = CodeMap::new(cache, Some(text));
    assert_eq!(map.kind(text.start), BlobKind::Libjvm);
    assert_eq!(map.kind_of_segment(text.start), BlobKind::Libjvm);
    assert_eq!(map.kind(Address(0)), BlobKind::Outside);
    assert_eq!(map.kind_of_segment(Address(0)), BlobKind::Outside);
    assert_eq!(map.kind(Address(u64::MAX)), BlobKind::Outside);
    assert_eq!(map.kind_of_segment(Address(u64::MAX)), BlobKind::Outside);
    for blob in &map.cache().blobs {
        for address in [
            blob.span.start,
            blob.code.start,
            Address(blob.span.end.0 - 1),
        ] {
            assert_eq!(map.blob(address), Some(blob));
            assert_eq!(map.kind(address), blob.kind);
            assert_eq!(map.kind_of_segment(address), blob.kind);
        }
    }
    for codelet in map.cache().codelets.iter() {
        assert_eq!(map.codelet(codelet.code.start), Some(codelet));
        assert_eq!(map.kind(codelet.code.start), BlobKind::Interpreter);
    }
    for free in &map.cache().free {
        assert_eq!(map.kind(free.start), BlobKind::FreeCode);
    }
    // Anywhere in the heaps and around them: as the binary search says.
    let mut state = 1_u64;
    let mut addresses = Vec::new();
    for heap in &map.cache().heaps {
        for _ in 0..20_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            addresses.push(Address(
                heap.committed.start.0 - 4096 + (state >> 16) % (heap.committed.length() + 8192),
            ));
        }
    }
    for address in &addresses {
        assert_eq!(map.blob(*address), map.cache().find(*address), "{address}");
    }
    let lookups = shortest(5, || {
        for address in &addresses {
            std::hint::black_box(map.kind(std::hint::black_box(*address)));
        }
    });
    let each = lookups.as_nanos() as f64 / addresses.len() as f64;
    println!("  map built in {built:.1?}, {each:.1} ns per lookup of a random address");
    // The bound is for optimised code, and generous: test machines are shared.
    assert!(cfg!(debug_assertions) || each < 50.0);
}
