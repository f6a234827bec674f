//! What each edit does to the registers.

use walkfuzz_context::{
    Applied, Arch, Edit, LandscapeTable, MAX_EDITS, MAX_REGISTERS, Perturbation, Register,
    Registers, Value, ValueClass,
};

const PC: u64 = 0x7000_0010;
const SP: u64 = 0x7fff_1000;
const FP: u64 = 0x7fff_1080;

fn context(arch: Arch) -> Registers {
    let mut registers = Registers::zeroed(arch);
    for (index, word) in registers.words[..arch.register_count()]
        .iter_mut()
        .enumerate()
    {
        *word = index as u64;
    }
    for (register, value) in [(arch.pc(), PC), (arch.sp(), SP), (arch.fp(), FP)] {
        registers.set(register, value);
    }
    registers
}

fn landscape() -> LandscapeTable {
    let mut landscape = LandscapeTable::new();
    landscape.set(ValueClass::NmethodBody, vec![0x100, 0x200, 0x300]);
    landscape.set(ValueClass::Heap, vec![u64::MAX - 1]);
    landscape
}

/// What differs after applying the text, as (register name, value).
fn applied(arch: Arch, text: &str) -> (Vec<(&'static str, u64)>, Applied) {
    let walk = Perturbation::parse(arch, text).unwrap();
    let before = context(arch);
    let mut after = before;
    let applied = walk.apply(&mut after, &landscape());
    assert_eq!(after.arch, arch);
    let changed = (0..MAX_REGISTERS as u8)
        .map(Register)
        .filter(|&register| before.get(register) != after.get(register))
        .map(|register| (register.name(arch).unwrap(), after.get(register)))
        .collect();
    (changed, applied)
}

#[test]
fn each_edit_changes_what_it_names_and_nothing_else() {
    for arch in Arch::ALL {
        for (text, mut changed) in [
            ("untouched", vec![]),
            ("pc+=3", vec![("pc", PC + 3)]),
            ("sp-=16", vec![("sp", SP - 16)]),
            ("pc=nmethod-body[1]", vec![("pc", 0x200)]),
            ("pc=nmethod-body[5]-1", vec![("pc", 0x2ff)]),
            ("fp=heap[0]+4", vec![("fp", 2)]),
            ("fp=7-8", vec![("fp", u64::MAX)]),
            ("fp~bit63", vec![("fp", FP | 1 << 63)]),
            ("sp~bit12", vec![("sp", SP ^ 1 << 12)]),
            ("swap(sp,fp)", vec![("sp", FP), ("fp", SP)]),
            ("swap(pc,pc)", vec![]),
            ("fp=&sp-8", vec![("fp", SP - 8)]),
            ("pc=&pc", vec![]),
            ("fp^pac0x41", vec![("fp", FP | 0x41 << 48)]),
            // In order, each on what the ones before it left.
            ("sp+=16 fp=&sp", vec![("sp", SP + 16), ("fp", SP + 16)]),
            ("fp=&sp sp+=16", vec![("sp", SP + 16), ("fp", SP)]),
            ("pc=1 pc+=1 swap(pc,fp)", vec![("pc", FP), ("fp", 2)]),
        ] {
            let (mut got, applied) = applied(arch, text);
            changed.sort_unstable();
            got.sort_unstable();
            assert_eq!(got, changed, "{text} on {arch:?}");
            assert_eq!(applied, Applied { unresolved: 0 }, "{text} on {arch:?}");
        }
    }
    assert_eq!(applied(Arch::Aarch64, "lr=2").0, [("lr", 2)]);
    assert_eq!(applied(Arch::X86_64, "r15=&rax+1").0, [("r15", 1)]);
}

#[test]
fn what_does_not_resolve_is_counted_and_changes_nothing() {
    for arch in Arch::ALL {
        let (changed, applied) = applied(arch, "fp=metaspace[3] sp+=8 pc=poll-page[0]");
        assert_eq!(changed, [("sp", SP + 8)]);
        assert_eq!(applied.unresolved, 2);
    }
}

#[test]
fn registers_that_the_architecture_lacks_stay_as_they_are() {
    let missing = Register(Arch::X86_64.register_count() as u8);
    let walk = Perturbation::from_edits(&[
        Edit::Nudge {
            register: missing,
            delta: 1,
        },
        Edit::Swap {
            a: Arch::X86_64.pc(),
            b: missing,
        },
        Edit::Alias {
            register: Arch::X86_64.pc(),
            source: Register(255),
            delta: 0,
        },
        Edit::Set {
            register: Register(255),
            value: Value::new(ValueClass::Literal, 1, 0),
        },
    ]);
    let before = context(Arch::X86_64);
    let mut after = before;
    assert_eq!(walk.apply(&mut after, &landscape()).unresolved, 4);
    assert_eq!(before, after);
}

#[test]
fn perturbations_hold_six_edits_in_order() {
    let nudge = |delta| Edit::Nudge {
        register: Register(0),
        delta,
    };
    let mut walk: Perturbation = (0..9).map(nudge).collect();
    assert_eq!(walk.edits().len(), MAX_EDITS);
    assert!(!walk.push(nudge(9)));
    assert_eq!(walk.remove(6), None);
    assert_eq!(walk.remove(1), Some(nudge(1)));
    assert_eq!(walk.edits(), [0, 2, 3, 4, 5].map(nudge));
    assert!(walk.push(nudge(7)));
    assert_eq!(walk.remove(5), Some(nudge(7)));
    assert_eq!(walk, Perturbation::from_edits(&[0, 2, 3, 4, 5].map(nudge)));
    walk.clear();
    assert_eq!(walk, Perturbation::UNTOUCHED);
}

#[test]
fn a_perturbation_is_small_enough_to_be_copied_around() {
    assert_eq!(size_of::<Edit>(), 8);
    assert!(size_of::<Perturbation>() <= 56);
}
