//! Heap, metadata and polling page.

use std::collections::BTreeSet;

use walkfuzz_context::Address;
use walkfuzz_vmstructs::{
    CodeCache, FlagValue, HeapSource, Maps, Memory, java_heap, klass_base, method_metadata,
    method_name, poll_page,
};

use super::Context;
use crate::jvm::HEAP_BYTES;

pub(crate) fn check(context: &Context<'_>) {
    let maps = Maps::read_own().unwrap();
    let heap = java_heap(context.hotspot, context.memory, &maps).expect("the Java heap");
    let total: u64 = heap.spans.iter().map(|span| span.length()).sum();
    let expected = match context.collector {
        "Z" => HeapSource::Mappings,
        _ => HeapSource::Reserved,
    };
    assert_eq!(heap.source, expected);
    if heap.source == HeapSource::Reserved {
        assert_eq!(total, HEAP_BYTES);
        // A local reference is a pointer to a pointer to the object.
        let reference = context.jvm.env().string("an object") as u64;
        let object = context.memory.read_pointer(Address(reference)).unwrap();
        assert!(
            heap.spans[0].contains(object),
            "{object} is not in {heap:?}"
        );
    }
    for span in &heap.spans {
        assert!(maps.find(span.start).is_some(), "{span} is not mapped");
    }

    let page = poll_page(context.hotspot, context.memory).expect("the polling page");
    let mapping = maps.find(page).expect("the polling page's mapping");
    assert_eq!(page.0 % 4096, 0);
    // Readable in between only where all threads share one page: 11 with Shenandoah.
    let shared = context
        .hotspot
        .flags()
        .value(context.memory, "ThreadLocalHandshakes")
        == Some(FlagValue::Bool(false));
    assert_eq!(mapping.is_forbidden(), !shared, "{mapping:?}");

    let cache = CodeCache::read(context.hotspot, context.memory).unwrap();
    let methods: Vec<Address> = cache
        .blobs
        .iter()
        .filter_map(|blob| Some(blob.nmethod.as_ref()?.method))
        .collect();
    let metadata = method_metadata(context.hotspot, context.memory, methods);
    assert!(metadata.len() > 200, "{} methods", metadata.len());
    let mut string_methods = 0;
    for one in &metadata {
        let name = class_name(context, one.holder);
        assert!(
            name.contains('/') && name.bytes().all(|byte| (b' '..=b'~').contains(&byte)),
            "{name:?} of {one:?}"
        );
        string_methods += usize::from(name == "java/lang/String");
    }
    assert!(
        string_methods > 3,
        "{string_methods} compiled methods of String"
    );
    let mut names = BTreeSet::new();
    for one in &metadata {
        let name = method_name(context.hotspot, context.memory, one.method)
            .unwrap_or_else(|| panic!("no name of {one:?}"));
        assert_eq!(
            name.class,
            class_name(context, one.holder).replace('/', ".")
        );
        assert!(
            name.descriptor.starts_with('(') && name.descriptor.contains(')'),
            "{name}"
        );
        names.insert(name.to_string());
    }
    // Whatever else was compiled: the class library's own start uses these, and no JDK has renamed them.
    let known = [
        "java.lang.String.hashCode()I",
        "java.lang.String.charAt(I)C",
        "java.lang.String.equals(Ljava/lang/Object;)Z",
        "java.lang.Object.<init>()V",
    ];
    let known: Vec<&str> = known
        .into_iter()
        .filter(|name| names.contains(*name))
        .collect();
    assert!(known.len() >= 2, "{known:?} in {names:?}");
    for wild in [Address(0), Address(8), heap.spans[0].start, page] {
        assert_eq!(method_name(context.hotspot, context.memory, wild), None);
    }
    let base = klass_base(context.hotspot, context.memory);
    println!(
        "  heap {total:#x} bytes in {} ranges ({:?}), poll page {page}, {} methods' metadata ({string_methods} of String), class base {base:?}",
        heap.spans.len(),
        heap.source,
        metadata.len()
    );
    assert!(
        base.is_none_or(|base| maps.find(base).is_some()),
        "{base:?}"
    );
}

/// `Klass::_name`, a `Symbol`.
fn class_name(context: &Context<'_>, klass: Address) -> String {
    let tables = context.hotspot.tables();
    let offset = |class: &str, field: &str| tables.require(class, field).unwrap().offset;
    let symbol = context
        .memory
        .read_pointer(Address(klass.0 + offset("Klass", "_name")))
        .unwrap();
    let length = context
        .memory
        .read_u16(Address(symbol.0 + offset("Symbol", "_length")))
        .unwrap();
    let mut name = vec![0; usize::from(length)];
    context
        .memory
        .read(Address(symbol.0 + offset("Symbol", "_body[0]")), &mut name)
        .unwrap();
    String::from_utf8(name).unwrap()
}
