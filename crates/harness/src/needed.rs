//! What the words are that a walk's outcome needs: the capsule's, after every other one became zero.
//!
//! Names come from where a word lies: a frame's slot, a blob's header, an object that HotSpot's tables describe. Objects are found from the
//! threads, the code cache and the static fields, and from there by the typed pointers among the needed words themselves: a walker
//! reaches what it reads in no other way. Runs in a frozen copy.

use std::collections::BTreeMap;

use walkfuzz_capsule::{Capsule, Facts};
use walkfuzz_context::{Address, Pc};
use walkfuzz_guard::read_word;
use walkfuzz_record::finding::{FindingMoment, MOST_WORDS, MemoryWord, hex};
use walkfuzz_vmstructs::java_threads;

use crate::meaning::Meanings;

/// Pointers that are followed from one needed word to the next.
const STEPS: usize = 8;
/// How long glibc's `struct pthread` is, or a little more.
const NEAR_THREAD: i64 = 0x900;

/// What kind of memory a word lies in: what tells most about a fault comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Telling {
    /// The walked thread's stack.
    Stack,
    /// Code, and what describes it: headers, PcDescs.
    Code,
    /// What describes a method, a thread.
    Object,
    /// Where the code cache's blobs begin.
    SegmentMap,
    /// Static data of libjvm's.
    Static,
    /// The call's own arguments.
    Argument,
    /// All else.
    Other,
}

/// An object that HotSpot's tables describe.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Object {
    start: u64,
    type_name: String,
    /// Which one it is.
    which: String,
}

/// Tells `moment` which words of `capsule` the outcome needs.
pub(crate) fn describe(meanings: &Meanings<'_>, capsule: &Capsule, moment: &mut FindingMoment) {
    let words: Vec<(u64, u64)> = capsule
        .words()
        .map(|(address, word)| (address.0, word))
        .collect();
    let mut objects = objects(meanings);
    for _ in 0..STEPS {
        let known = objects.len();
        for (address, word) in &words {
            let found = pointee(meanings, &objects, *address, *word);
            objects.extend(found.filter(|found| !objects.contains(found)));
        }
        if objects.len() == known {
            break;
        }
    }
    let mut told: Vec<(Telling, u64, MemoryWord)> = words
        .iter()
        .map(|(address, word)| {
            let (telling, place) = place(meanings, &capsule.facts, &objects, *address);
            let meaning = match telling {
                Telling::SegmentMap if place.starts_with("segment map") => {
                    Some("a byte for each of 8 segments: how far back its block begins".to_owned())
                }
                _ if is_part(meanings, &objects, *address) => None,
                _ => object(&objects, *word).or_else(|| meanings.word(*word)),
            };
            let word = MemoryWord {
                address: hex(*address),
                value: Some(hex(*word)),
                place,
                meaning,
            };
            (telling, *address, word)
        })
        .collect();
    told.sort_by_key(|(telling, address, _)| (*telling, *address));
    follow(&words, &mut told);
    moment.needed_in_all = told.len() as u64;
    let told = told.into_iter().map(|(_, _, word)| word);
    moment.needed = told.take(MOST_WORDS).collect();
}

/// The object that a word points to, or into.
fn object(objects: &[Object], word: u64) -> Option<String> {
    const LONGEST: u64 = 1 << 12;
    let near = objects.iter().filter_map(|object| {
        let offset = word.checked_sub(object.start)?;
        let inside = offset < LONGEST && object.type_name == "JavaThread";
        (offset == 0 || inside).then_some((offset, object))
    });
    let (offset, object) = near.min_by_key(|(offset, _)| *offset)?;
    Some(match offset {
        0 => object.which.clone(),
        _ => format!("{}+{offset:#x}", object.which),
    })
}

/// Tells memory that nothing else is known of by the needed word that points to it: `*CodeCache::_heaps+0x8`.
fn follow(words: &[(u64, u64)], told: &mut [(Telling, u64, MemoryWord)]) {
    const NEAR: u64 = 256;
    let mut named: BTreeMap<u64, String> = told
        .iter()
        .filter(|(telling, ..)| *telling < Telling::Other)
        .map(|(_, address, word)| (*address, word.place.clone()))
        .collect();
    for _ in 0..STEPS {
        let known = named.len();
        for (telling, address, word) in told.iter_mut() {
            if *telling != Telling::Other || named.contains_key(address) {
                continue;
            }
            let pointers = words.iter().filter_map(|(at, to)| {
                let offset = address.checked_sub(*to).filter(|offset| *offset < NEAR)?;
                Some((offset, named.get(at)?))
            });
            let Some((offset, pointer)) = pointers.min_by_key(|(offset, _)| *offset) else {
                continue;
            };
            let place = match (pointer.contains(['+', ' ']), offset) {
                (true, _) => format!("*({pointer})+{offset:#x}"),
                (false, 0) => format!("*{pointer}"),
                (false, _) => format!("*{pointer}+{offset:#x}"),
            };
            word.place = format!("{place}, {}", word.place);
            named.insert(*address, place);
        }
        if named.len() == known {
            break;
        }
    }
}

/// Whether several fields share the word, or one that is smaller: as a whole it means nothing.
fn is_part(meanings: &Meanings<'_>, objects: &[Object], address: u64) -> bool {
    let header = header(meanings, address);
    let objects = header.as_ref().map_or(objects, std::slice::from_ref);
    let Some((names, kind, _)) = field(meanings, objects, address) else {
        return false;
    };
    let size = meanings.world.hotspot.tables().type_size(kind);
    names.contains(',') || (!kind.ends_with('*') && size.is_some_and(|size| size < 8))
}

/// Objects that are found without following anything.
fn objects(meanings: &Meanings<'_>) -> Vec<Object> {
    let world = meanings.world;
    let object = |start: u64, type_name: &str, which: String| Object {
        start,
        type_name: type_name.to_owned(),
        which,
    };
    let mut objects = Vec::new();
    if let Ok((threads, _)) = java_threads(&world.hotspot, world.memory()) {
        objects.extend(threads.iter().map(|thread| {
            let which = if thread.tid == meanings.tid() {
                "this JavaThread".to_owned()
            } else {
                format!("JavaThread {}", thread.tid.0)
            };
            object(thread.address.0, "JavaThread", which)
        }));
    }
    let heaps = world.code.cache().heaps.iter();
    objects.extend(heaps.map(|heap| {
        let which = format!("CodeHeap from {}", heap.reserved.start);
        object(heap.address.0, "CodeHeap", which)
    }));
    objects
}

/// The fields of the object that holds `address`: how they are called, and the type of the first.
fn field<'a>(
    meanings: &'a Meanings<'_>,
    objects: &'a [Object],
    address: u64,
) -> Option<(String, &'a str, &'a Object)> {
    let tables = meanings.world.hotspot.tables();
    let holds = |object: &&Object| {
        // A block's header has a size of its own only in name.
        let size = tables.type_size(&object.type_name).unwrap_or(16);
        (object.start..object.start.saturating_add(size)).contains(&address)
    };
    // Objects begin one within the other: the innermost is the last to begin.
    let object = objects
        .iter()
        .filter(holds)
        .max_by_key(|object| object.start)?;
    let offset = address - object.start;
    let fields = tables.fields_of_word(&object.type_name, offset);
    let names: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
    let names = match names[..] {
        [] if offset == 0 => "virtual table".to_owned(),
        [] => format!("+{offset:#x}"),
        _ => names.join(", "),
    };
    Some((names, fields.first().map_or("", |(_, kind)| kind), object))
}

/// The object that the word at `address` points to, if that can be told.
fn pointee(meanings: &Meanings<'_>, objects: &[Object], address: u64, word: u64) -> Option<Object> {
    let tables = meanings.world.hotspot.tables();
    let typed = |kind: &str, which: String| {
        let type_name = kind.strip_suffix('*')?.trim();
        // A `char*` points to no object.
        tables.type_size(type_name).filter(|size| *size >= 8)?;
        Some(Object {
            start: word,
            type_name: type_name.to_owned(),
            which,
        })
    };
    if let Some(method) = meanings.method(Address(word)) {
        return typed("Method*", format!("Method {method}"));
    }
    if let Some((name, kind)) = tables.static_at(Address(address)) {
        return typed(kind, name);
    }
    let header = header(meanings, address);
    let (names, kind, object) = match &header {
        Some(header) => field(meanings, std::slice::from_ref(header), address)?,
        None => field(meanings, objects, address)?,
    };
    typed(kind, format!("{}'s {names}", object.which))
}

/// The blob whose header holds `address`, as an object.
fn header(meanings: &Meanings<'_>, address: u64) -> Option<Object> {
    let world = meanings.world;
    let Some(blob) = world.code.blob(Address(address)) else {
        // The block's header stands before the blob.
        let size = world.hotspot.tables().type_size("HeapBlock")?;
        let behind = (address & !(size - 1)).checked_add(size)?;
        let blob = world.code.blob(Address(behind))?;
        let (name, _) = world.describe_code(Pc(behind))?;
        return (blob.span.start.0 == behind).then(|| Object {
            start: behind - size,
            type_name: "HeapBlock::Header".to_owned(),
            which: format!("HeapBlock header of {name}"),
        });
    };
    if address >= blob.code.start.0 {
        return None;
    }
    let (name, _) = world.describe_code(Pc(address))?;
    let type_name = if blob.nmethod.is_some() {
        "nmethod"
    } else {
        "CodeBlob"
    };
    Some(Object {
        start: blob.span.start.0,
        type_name: type_name.to_owned(),
        which: format!("{type_name} header of {name}"),
    })
}

/// What is kept at `address`.
fn place(
    meanings: &Meanings<'_>,
    facts: &Facts,
    objects: &[Object],
    address: u64,
) -> (Telling, String) {
    let near = |base: u64| address.wrapping_sub(base).cast_signed();
    if let Some(register) = facts.register_at(Address(address)) {
        return (
            Telling::Argument,
            format!("{register} of the walked context"),
        );
    }
    // ASGCT_CallTrace: environment, count, frames.
    if let Some(part) = usize::try_from(near(facts.entry.trace.0))
        .ok()
        .and_then(|at| ["env_id", "", "frames"].get(at / 8).filter(|_| at % 8 == 0))
    {
        return (Telling::Argument, format!("the call's trace: {part}"));
    }
    if let Some(header) = header(meanings, address)
        && let Some((names, ..)) = field(meanings, std::slice::from_ref(&header), address)
    {
        return (Telling::Code, format!("{}: {names}", header.which));
    }
    if let Some(segment) = segment(meanings, address) {
        return (Telling::SegmentMap, segment);
    }
    if let Some((name, _)) = meanings.world.hotspot.tables().static_at(Address(address)) {
        return (Telling::Static, name);
    }
    // Above the thread pointer glibc keeps what it knows of the thread; that lies in the topmost page of its stack.
    let from_thread = near(facts.entry.thread.0);
    if (0..NEAR_THREAD).contains(&from_thread) {
        let place = format!("glibc's descriptor of the thread, thread pointer+{from_thread:#x}");
        return (Telling::Other, place);
    }
    if let Some(key) = facts.thread_value_at(Address(address)) {
        let place = format!("what pthread_getspecific says of key {key}");
        return (Telling::Other, place);
    }
    if let Some(place) = meanings.on_a_stack(address) {
        return (Telling::Stack, place);
    }
    if let Some((names, _, object)) = field(meanings, objects, address) {
        let telling = if object.type_name == "CodeHeap" {
            Telling::SegmentMap
        } else {
            Telling::Object
        };
        return (telling, format!("{}: {names}", object.which));
    }
    if let Some(place) = meanings.code(address) {
        return (Telling::Code, place);
    }
    if let Some(place) = meanings.variable(address) {
        return (Telling::Static, place);
    }
    let place = meanings.accessed(address, 0);
    (
        Telling::Other,
        place.unwrap_or_else(|| "memory of which nothing more is known".to_owned()),
    )
}

/// The place in a code heap's segment map, a byte for each segment: how far back its block begins.
fn segment(meanings: &Meanings<'_>, address: u64) -> Option<String> {
    let world = meanings.world;
    let tables = world.hotspot.tables();
    let map =
        tables.field("CodeHeap", "_segmap")?.offset + tables.field("VirtualSpace", "_low")?.offset;
    world.code.cache().heaps.iter().find_map(|heap| {
        let low = read_word(Address(heap.address.0.wrapping_add(map))).ok()?;
        let first = address.checked_sub(low)?;
        if first >= heap.committed.length() >> heap.log2_segment_size {
            return None;
        }
        let code = |segment: u64| {
            // Behind the block's header.
            let at = heap.committed.start.0 + (segment << heap.log2_segment_size) + 64;
            let name = world.describe_code(Pc(at));
            name.map_or_else(|| "no blob".to_owned(), |(name, _)| name)
        };
        Some(format!(
            "segment map of the CodeHeap from {}, of {}",
            heap.reserved.start,
            code(first)
        ))
    })
}
