//! Readers against states that a live JVM is seldom in: garbage, cycles, what vanishes while being read.

use walkfuzz_context::{Address, BlobKind};

use crate::fake::{FakeJvm, HEAP, METHOD, SEGMENT, SEGMENT_MAP, SEGMENTS, THREAD_LIST};
use crate::{
    CodeCache, CodeCacheError, CodeMap, FlagValue, Maps, Memory, Skipped, Span, ThreadState,
    ThreadsError, Tid, java_heap, java_threads, survey,
};

fn cache(jvm: &FakeJvm) -> CodeCache {
    CodeCache::read(&jvm.attach().unwrap(), &jvm.memory).unwrap()
}

fn starts(cache: &CodeCache) -> Vec<u64> {
    cache.blobs.iter().map(|blob| blob.span.start.0).collect()
}

fn segments(first: u64, end: u64) -> Span {
    Span::new(
        Address(HEAP + first * SEGMENT),
        Address(HEAP + end * SEGMENT),
    )
}

#[test]
fn tables_and_flags_are_read() {
    let jvm = FakeJvm::new();
    let hotspot = jvm.attach().unwrap();
    let tables = hotspot.tables();
    assert_eq!((tables.jdk(), hotspot.version().feature), ("25.0.2+10", 25));
    assert_eq!(tables.field("CodeBlob", "_size").unwrap().offset, 24);
    assert!(tables.field("CodeCache", "_heaps").unwrap().is_static);
    assert_eq!(tables.type_size("HeapBlock"), Some(8));
    assert_eq!(tables.constant("_thread_in_Java"), Some(8));
    assert_eq!(
        tables.constant("markWord::lock_mask"),
        Some(-1),
        "long constants are signed"
    );
    assert_eq!(
        tables.constants_with_prefix("_thread_"),
        [("_thread_in_Java", 8), ("_thread_in_native", 4)]
    );
    let missing = tables.require_any(&[("A", "_a"), ("B", "_b")]).unwrap_err();
    assert_eq!(
        missing.to_string(),
        "JDK 25.0.2+10 exports no VMStructs entry B::_b"
    );
    assert_eq!(
        hotspot.flags().value(&jvm.memory, "StackYellowPages"),
        Some(FlagValue::Signed(2))
    );
    assert_eq!(
        hotspot.zone_sizes().yellow,
        8192,
        "from the flag, without symbols"
    );
}

#[test]
fn words_of_objects_are_named_by_their_fields() {
    let jvm = FakeJvm::new();
    let hotspot = jvm.attach().unwrap();
    let named = |type_name: &str, offset| {
        let fields = hotspot.tables().fields_of_word(type_name, offset);
        let names: Vec<String> = fields.into_iter().map(|(name, _)| name).collect();
        names.join(", ")
    };
    assert_eq!(named("CodeBlob", 8), "_name");
    assert_eq!(named("CodeBlob", 40), "_data_offset, _frame_size");
    assert_eq!(named("nmethod", 8), "_name", "of its base");
    assert_eq!(named("nmethod", 80), "_method");
    assert_eq!(named("CodeHeap", 128), "_segmap._low");
    assert_eq!(named("CodeHeap", 0), "_memory._low_boundary");
    assert_eq!(named("CodeHeap", 200), "");
    assert_eq!(named("NoSuchType", 0), "");
    let field = &hotspot.tables().fields_of_word("nmethod", 80);
    assert_eq!(field[0].1, "Method*");
    assert_eq!(hotspot.tables().static_at(Address(0)), None);
}

#[test]
fn missing_symbols_and_endless_tables_are_named() {
    let mut jvm = FakeJvm::new();
    jvm.symbols.remove("gHotSpotVMTypes");
    assert_eq!(
        jvm.attach().unwrap_err().to_string(),
        "libjvm has no symbol gHotSpotVMTypes"
    );
    let mut jvm = FakeJvm::new();
    let stride = jvm.symbols["gHotSpotVMIntConstantEntryArrayStride"];
    jvm.put(stride, 0);
    let failure = jvm.attach().unwrap_err().to_string();
    assert!(
        failure.contains("gHotSpotVMIntConstants does not end"),
        "{failure}"
    );
}

#[test]
fn blobs_and_free_blocks_are_told_apart() {
    let mut jvm = FakeJvm::new();
    let interpreter = jvm.blob(0, 4, 2, "Interpreter");
    jvm.block(4, 2, false);
    let nmethod = jvm.nmethod(6, 3);
    let stub = jvm.blob(9, 1, 6, "resolve_static_call");
    let cache = cache(&jvm);
    assert_eq!(starts(&cache), [interpreter, nmethod, stub]);
    assert_eq!(cache.free, [segments(4, 6), segments(10, SEGMENTS)]);
    assert_eq!(
        cache.skipped,
        Skipped::default(),
        "an untouched rest is no garbage"
    );
    let kinds: Vec<BlobKind> = cache.blobs.iter().map(|blob| blob.kind).collect();
    assert_eq!(
        kinds,
        [
            BlobKind::Interpreter,
            BlobKind::Nmethod,
            BlobKind::RuntimeStub
        ]
    );
    let blob = &cache.blobs[1];
    let code = nmethod + 224;
    let found = blob.nmethod.unwrap();
    assert_eq!(
        (blob.frame_size, blob.frame_complete, blob.code.start),
        (48, 20, Address(code))
    );
    assert_eq!(
        (found.entry, found.verified_entry),
        (Address(code + 2), Address(code + 10))
    );
    assert_eq!(found.exception_handler, Some(Address(nmethod + 304)));
    assert_eq!(found.deopt_handler, Some(Address(nmethod + 310)));
    assert_eq!(
        (found.method, found.level, found.is_osr()),
        (Address(METHOD), 3, false)
    );

    let map = CodeMap::new(cache, None);
    assert_eq!(map.kind(Address(nmethod)), BlobKind::Nmethod);
    assert_eq!(
        map.kind(Address(nmethod - 1)),
        BlobKind::FreeCode,
        "the block's header"
    );
    assert_eq!(map.kind(Address(HEAP + 4 * SEGMENT)), BlobKind::FreeCode);
    assert_eq!(map.kind(Address(HEAP - 1)), BlobKind::Outside);
    assert_eq!(
        map.kind(Address(HEAP + SEGMENTS * SEGMENT)),
        BlobKind::Outside
    );
}

#[test]
fn garbage_is_skipped_counted_and_left_behind() {
    let mut jvm = FakeJvm::new();
    let first = jvm.blob(0, 2, 2, "StubRoutines (1)");
    // A block whose length is nonsense; the segment map knows where the next one begins.
    jvm.block(2, u32::MAX, true);
    jvm.memory
        .put(Address(SEGMENT_MAP + 2), &[0xff; SEGMENTS as usize - 2]);
    jvm.memory.put(Address(SEGMENT_MAP + 2), &[0, 1, 2]);
    let second = jvm.nmethod(5, 3);
    // In use, but what is in it is no blob yet.
    jvm.block(8, 2, true);
    // One with a kind that there is not, and one whose code begins behind its end.
    jvm.blob(10, 1, 99, "what");
    let backwards = jvm.blob(11, 1, 2, "backwards");
    jvm.memory.put_u32(Address(backwards + 36), 4000);
    let last = jvm.blob(12, 1, 6, "last");
    let cache = cache(&jvm);
    assert_eq!(starts(&cache), [first, second, last]);
    assert_eq!(
        cache.skipped,
        Skipped {
            blocks: 1,
            blobs: 3
        }
    );
    assert_eq!(cache.free[0], segments(2, 5));
}

#[test]
fn a_heap_of_noise_neither_panics_nor_hangs() {
    let mut state = 7_u64;
    let mut random = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        state >> 24
    };
    let mut jvm = FakeJvm::new();
    let maps = Maps::parse("100000-102000 rwxp 00000000 00:00 0\n").unwrap();
    for round in 0..150 {
        jvm.blob(0, 4, 2, "Interpreter");
        jvm.nmethod(4, 3);
        jvm.nmethod(7, 4);
        for _ in 0..=round {
            let noise = random().to_le_bytes();
            jvm.memory.put(
                Address(HEAP + random() % (SEGMENTS * SEGMENT)),
                &noise[..1 + round % 8],
            );
        }
        jvm.memory.put(
            Address(SEGMENT_MAP + random() % SEGMENTS),
            &[random() as u8],
        );
        let hotspot = jvm.attach().unwrap();
        let taken = survey(&hotspot, &jvm.memory, &maps, None).unwrap();
        let heap = segments(0, SEGMENTS);
        assert!(
            taken
                .code_cache
                .blobs
                .iter()
                .all(|blob| heap.covers(&blob.span) && blob.span.covers(&blob.code))
        );
        let map = CodeMap::new(taken.code_cache, None);
        for _ in 0..50 {
            let address = Address(HEAP - 64 + random() % (SEGMENTS * SEGMENT + 128));
            assert_eq!(map.blob(address), map.cache().find(address));
        }
    }
}

#[test]
fn heaps_that_make_no_sense_are_errors() {
    let mut jvm = FakeJvm::new();
    jvm.memory.put_u32(Address(0x42_0000), 1000);
    let failure = CodeCache::read(&jvm.attach().unwrap(), &jvm.memory).unwrap_err();
    assert_eq!(
        failure.to_string(),
        "JDK 25.0.2+10 claims to have 1000 code heaps"
    );
    let mut jvm = FakeJvm::new();
    jvm.memory.put_u32(Address(0x41_0000 + 248), 60);
    let failure = CodeCache::read(&jvm.attach().unwrap(), &jvm.memory).unwrap_err();
    assert!(
        matches!(
            failure,
            CodeCacheError::Heap {
                log2_segment_size: 60,
                ..
            }
        ),
        "{failure}"
    );
    let mut jvm = FakeJvm::new();
    jvm.put(0x42_0010, 0xdead_0000);
    let failure = CodeCache::read(&jvm.attach().unwrap(), &jvm.memory).unwrap_err();
    assert!(
        matches!(failure, CodeCacheError::Unreadable(_)),
        "{failure}"
    );
}

#[test]
fn threads_that_make_no_sense_are_skipped() {
    let mut jvm = FakeJvm::new();
    jvm.memory.put(Address(0x60_0000), &[0; 24]);
    jvm.memory.put_u32(Address(0x60_000c), 4711);
    jvm.thread(0x61_0000, 0x60_0000, 8);
    // Ended: no OSThread any more. Then one in a state without a name, and a pointer to nothing.
    jvm.thread(0x62_0000, 0, 4);
    jvm.memory.put(Address(0x60_0100), &[0; 24]);
    jvm.memory.put_u32(Address(0x60_010c), 12);
    jvm.thread(0x63_0000, 0x60_0100, 77);
    // The JNIEnv is where the thread points to JNI's functions.
    jvm.symbols.insert("jni_NativeInterface", 0x70_0000);
    jvm.put(0x61_0000 + 96, 0x70_0000);
    jvm.put(0x63_0000 + 96, 0x70_0000);
    jvm.threads(&[0x61_0000, 0x62_0000, 0x63_0000, 0xdead_0000]);
    let hotspot = jvm.attach().unwrap();
    let (threads, skipped) = java_threads(&hotspot, &jvm.memory).unwrap();
    assert_eq!(skipped, 2);
    let [other, java] = &threads[..] else {
        panic!("{threads:?}")
    };
    assert_eq!(
        (java.tid, java.state, other.tid),
        (Tid(4711), ThreadState::InJava, Tid(12))
    );
    assert_eq!(other.state, ThreadState::Unknown(77));
    assert_eq!(
        java.stack,
        Span::new(Address(0x61_0000 * 10 - (1 << 20)), Address(0x61_0000 * 10))
    );
    assert_eq!(java.last_java_sp.0, 0x61_0000 * 10 - 64);
    assert_eq!(java.jni_environment, Some(Address(0x61_0060)));
    jvm.memory.put_u32(Address(THREAD_LIST + 4), u32::MAX);
    assert_eq!(
        java_threads(&hotspot, &jvm.memory),
        Err(ThreadsError::Count(u32::MAX.into()))
    );
}

#[test]
fn heaps_are_reserved_or_mapped() {
    let mut jvm = FakeJvm::new();
    let hotspot = jvm.attach().unwrap();
    let maps = Maps::parse(
        "1000-3000 rw-s 00000000 00:01 5 /memfd:java_heap (deleted)\n3000-4000 rw-s 00004000 00:01 5 /memfd:java_heap (deleted)\n\
         8000-9000 rw-s 00006000 00:01 5 /memfd:java_heap (deleted)\n",
    )
    .unwrap();
    let empty = Maps::default();
    assert_eq!(java_heap(&hotspot, &jvm.memory, &empty), None);
    let mapped = java_heap(&hotspot, &jvm.memory, &maps).unwrap();
    assert_eq!(mapped.spans.len(), 2, "touching mappings are one range");
    jvm.put(0x44_0030, 0x7000_0000);
    jvm.put(0x44_0038, 0x1000);
    let reserved = java_heap(&hotspot, &jvm.memory, &maps).unwrap();
    assert_eq!(reserved.spans, [Span::sized(Address(0x7000_0000), 0x8000)]);
    jvm.put(0x46_0000, 1);
    assert_eq!(
        java_heap(&hotspot, &jvm.memory, &maps),
        Some(mapped),
        "UseZGC"
    );
    assert!(jvm.memory.read_u8(Address(0)).is_err());
}
