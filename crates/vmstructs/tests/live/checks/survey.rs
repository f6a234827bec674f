//! The survey: that each list holds what it says, that it is repeatable, and what it costs.

use walkfuzz_context::{Address, BlobKind, Landscape, LandscapeTable, ValueClass};
use walkfuzz_vmstructs::{
    CodeCache, CodeMap, HotSpot, LIST_LIMIT, LiveMemory, Maps, Memory, Survey, fill, survey,
};

use super::Context;
use super::threads::own_tid;
use crate::timing::shortest;

fn take(context: &Context<'_>, maps: &Maps) -> Survey {
    survey(context.hotspot, context.memory, maps, Some(own_tid())).expect("a survey")
}

/// Many surveys while other threads compile and run: none may fail, little may be skipped.
pub(crate) fn while_the_jvm_moves(context: &Context<'_>) {
    let maps = Maps::read_own().unwrap();
    let (mut blobs, mut skipped) = (0, 0);
    for _ in 0..50 {
        let survey = take(context, &maps);
        blobs += survey.code_cache.blobs.len();
        skipped += survey.code_cache.skipped.blobs + survey.code_cache.skipped.blocks;
    }
    println!("  50 surveys beside a working thread: {skipped} of {blobs} blobs skipped");
    assert!(skipped as usize * 1000 < blobs);
}

pub(crate) fn check(context: &Context<'_>) {
    let maps = Maps::read_own().unwrap();
    let mut taken = take(context, &maps);
    let repeated = (0..20).any(|_| {
        let before = std::mem::replace(&mut taken, take(context, &maps));
        lists(&before)
            .iter()
            .zip(lists(&taken))
            .all(|(before, after)| before.1 == after.1)
    });
    assert!(repeated, "no two surveys in a row are the same");

    for (name, list) in lists(&taken) {
        assert!(list.len() <= LIST_LIMIT, "{name}");
        assert!(
            list.is_sorted_by(|a, b| a < b),
            "{name} sorted, without doubles"
        );
        assert!(!list.is_empty(), "{name} is empty");
    }
    let text: Vec<String> = lists(&taken)
        .iter()
        .map(|(name, list)| format!("{name} {}", list.len()))
        .collect();
    println!("  survey: {}", text.join(", "));
    members(context, &maps, &taken);
    landscape(&taken);

    cost(context.hotspot, context.memory);
}

/// What one survey costs, and its largest parts.
pub(crate) fn cost(hotspot: &HotSpot, memory: &LiveMemory) {
    let maps = Maps::read_own().unwrap();
    let blobs = CodeCache::read(hotspot, memory).unwrap().blobs.len();
    let taken = shortest(20, || drop(survey(hotspot, memory, &maps, Some(own_tid()))));
    let walked = shortest(20, || drop(CodeCache::read(hotspot, memory)));
    let mapped = shortest(20, || drop(Maps::read_own()));
    println!(
        "  survey of {blobs} blobs in {taken:.2?}, of that the code cache {walked:.2?}; {} mappings read in {mapped:.2?}",
        maps.all().len()
    );
    // The bound is for optimised code, and generous: test machines are shared.
    assert!(cfg!(debug_assertions) || taken.as_millis() < 50);
}

fn lists(survey: &Survey) -> Vec<(&'static str, &[u64])> {
    vec![
        ("nmethod_bodies", &survey.nmethod_bodies),
        ("nmethod_entries", &survey.nmethod_entries),
        ("nmethod_prologues", &survey.nmethod_prologues),
        ("nmethod_epilogues", &survey.nmethod_epilogues),
        ("exception_handlers", &survey.exception_handlers),
        ("deopt_handlers", &survey.deopt_handlers),
        ("native_wrappers", &survey.native_wrappers),
        ("codelets", &survey.codelets),
        ("adapters", &survey.adapters),
        ("vtable_stubs", &survey.vtable_stubs),
        ("runtime_stubs", &survey.runtime_stubs),
        ("stub_routines", &survey.stub_routines),
        ("buffers", &survey.buffers),
        ("free_code", &survey.free_code),
        ("libjvm_text", &survey.libjvm_text),
        ("foreign_stacks", &survey.foreign_stacks),
        ("yellow_zones", &survey.yellow_zones),
        ("red_zones", &survey.red_zones),
        ("reserved_zones", &survey.reserved_zones),
        ("guard_pages", &survey.guard_pages),
        ("poll_page", &survey.poll_page),
        ("heap", &survey.heap),
        ("metaspace", &survey.metaspace),
        ("unmapped", &survey.unmapped),
    ]
}

fn members(context: &Context<'_>, maps: &Maps, survey: &Survey) {
    let map = CodeMap::new(survey.code_cache.clone(), maps.text_of("libjvm.so"));
    for (list, kinds) in [
        (&survey.nmethod_bodies, &[BlobKind::Nmethod][..]),
        (
            &survey.nmethod_entries,
            &[BlobKind::Nmethod, BlobKind::NativeWrapper],
        ),
        (
            &survey.nmethod_prologues,
            &[BlobKind::Nmethod, BlobKind::NativeWrapper],
        ),
        (&survey.nmethod_epilogues, &[BlobKind::Nmethod]),
        // Since 25 the entry of continuations has one, too.
        (
            &survey.exception_handlers,
            &[BlobKind::Nmethod, BlobKind::NativeWrapper],
        ),
        (&survey.deopt_handlers, &[BlobKind::Nmethod]),
        (&survey.native_wrappers, &[BlobKind::NativeWrapper]),
        (&survey.codelets, &[BlobKind::Interpreter]),
        (&survey.adapters, &[BlobKind::Adapter]),
        (&survey.vtable_stubs, &[BlobKind::VtableStub]),
        (&survey.runtime_stubs, &[BlobKind::RuntimeStub]),
        (&survey.stub_routines, &[BlobKind::StubRoutine]),
        (&survey.buffers, &[BlobKind::Buffer]),
        (&survey.free_code, &[BlobKind::FreeCode]),
        (&survey.libjvm_text, &[BlobKind::Libjvm]),
    ] {
        for address in list {
            assert!(
                kinds.contains(&map.kind(Address(*address))),
                "{address:#x} is no {kinds:?}: {:?}",
                map.blob(Address(*address))
            );
        }
    }
    for list in [
        &survey.yellow_zones,
        &survey.red_zones,
        &survey.reserved_zones,
        &survey.guard_pages,
    ] {
        for address in list {
            assert!(
                maps.find(Address(*address))
                    .is_some_and(|mapping| mapping.is_forbidden()),
                "{address:#x}"
            );
        }
    }
    for address in &survey.unmapped {
        assert!(
            context.memory.read_u8(Address(*address)).is_err()
                || Maps::read_own().unwrap().find(Address(*address)).is_some()
        );
    }
    for address in survey.foreign_stacks.iter().chain(&survey.metaspace) {
        assert!(maps.find(Address(*address)).is_some(), "{address:#x}");
    }
    let local = 0_u8;
    assert!(survey.own_stack.contains(Address(&raw const local as u64)));
    if cfg!(target_arch = "x86_64") {
        let returns = survey
            .nmethod_epilogues
            .iter()
            .filter(|pc| context.memory.read_u8(Address(**pc)) == Ok(0xc3))
            .count();
        assert!(returns > 100, "{returns} returns found");
    }
}

fn landscape(survey: &Survey) {
    let mut table = LandscapeTable::new();
    fill(survey, &mut table);
    for class in ValueClass::ALL {
        let walked_stack_or_history = [
            ValueClass::StackWord,
            ValueClass::StackSlot,
            ValueClass::ReturnAddress,
            ValueClass::ReturnAddressSlot,
            ValueClass::CallerFp,
            ValueClass::NaturalPc,
            ValueClass::NaturalSp,
            ValueClass::NaturalFp,
        ]
        .contains(&class);
        let resolves = table.resolve(class, 7).is_some();
        assert_eq!(resolves, !walked_stack_or_history, "{}", class.name());
    }
}
