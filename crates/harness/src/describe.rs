//! What a finding's context was about: the thread's Java frames, its instructions, the memory that the walk may read.
//!
//! Runs in the frozen copy, after the perturbation was minimised: nothing has moved since the fault. Bounded in size, since it
//! stands in each finding.

use std::collections::BTreeMap;

use walkfuzz_context::{Address, Arch, BlobKind, Pc, Registers};
use walkfuzz_guard::{Fault, read_checked, read_word};
use walkfuzz_record::finding::{
    FaultRegister, FindingBlob, FindingMoment, JavaFrame, MOST_FRAMES, MOST_WORDS, MemoryWord, hex,
};
use walkfuzz_symbols::instruction_at;
use walkfuzz_walkers::Frame;

use crate::meaning::Meanings;
use crate::world::World;

/// Words around sp: the return address of a frame that is not complete is at sp or one above.
const AROUND_SP: (i64, i64) = (-1, 8);
/// Words around the fp of an interpreter frame: its slots, the saved fp and the return address.
const AROUND_FP: (i64, i64) = (-9, 3);
/// Words around any other fp.
const AT_FP: (i64, i64) = (-1, 2);
/// Words around the place where a complete frame of the walked code has its return address.
const AROUND_RETURN: (i64, i64) = (-2, 1);
/// Words around what was accessed.
const AROUND_ACCESS: (i64, i64) = (-1, 2);

/// The instruction at `pc`, as text.
pub(crate) fn instruction(pc: Pc) -> Option<String> {
    let mut bytes = [0; 16];
    let readable = (1..=bytes.len()).rev().find(|&length| {
        bytes
            .get_mut(..length)
            .is_some_and(|part| read_checked(Address(pc.0), part).is_ok())
    })?;
    instruction_at(Arch::NATIVE, bytes.get(..readable)?, pc)
}

/// The code at `pc`.
pub(crate) fn code_at(world: &World, pc: Pc) -> FindingBlob {
    let described = world.describe_code(pc);
    FindingBlob {
        kind: world.code.kind(Address(pc.0)).name().to_owned(),
        name: described.as_ref().map(|(name, _)| name.clone()),
        offset: described.and_then(|(_, offset)| offset),
        // Takes decoding the code: only findings that are examined have it.
        offset_class: None,
    }
}

/// What the control walk gave.
pub(crate) struct Control<'a> {
    /// Frames or code; `None` for anything worse.
    pub(crate) returned: Option<i32>,
    /// Its frames.
    pub(crate) frames: &'a [Frame],
}

/// Everything about the moment of a finding. `accessed`: the address that the fault was about.
pub(crate) fn moment(
    meanings: &Meanings<'_>,
    before: &Registers,
    after: &Registers,
    accessed: Option<u64>,
    control: &Control<'_>,
) -> FindingMoment {
    let world = meanings.world;
    let frames = control.frames.iter().take(MOST_FRAMES);
    FindingMoment {
        frames: frames
            .map(|frame| JavaFrame {
                method: meanings.method_of_id(frame.method),
                bci: frame.bci,
            })
            .collect(),
        frames_in_all: control.returned,
        code: code_at(world, before.pc()),
        instruction: instruction(before.pc()),
        walked_instruction: instruction(after.pc()),
        words: words(meanings, &windows(world, before, after, accessed)),
        needed: Vec::new(),
        needed_in_all: 0,
    }
}

/// A piece of memory that the walk may read.
struct Window {
    /// What distances are told from.
    base: u64,
    name: &'static str,
    /// Where it begins and ends, in words from `base + shift` on.
    words: (i64, i64),
    /// In bytes, from `base`.
    shift: u64,
    /// What is at `base + shift`.
    note: Option<String>,
}

/// What matters most comes first.
fn windows(
    world: &World,
    before: &Registers,
    after: &Registers,
    accessed: Option<u64>,
) -> Vec<Window> {
    let window = |base, name, words| Window {
        base,
        name,
        words,
        shift: 0,
        note: None,
    };
    let (sp, fp) = (after.sp().0, after.fp().0);
    let names = |same: bool, plain, walked| if same { plain } else { walked };
    let sp_name = names(sp == before.sp().0, "sp", "walked sp");
    let fp_name = names(fp == before.fp().0, "fp", "walked fp");
    let mut windows = Vec::new();
    let slots = slots_of_code(world, after.pc());
    windows.extend(accessed.map(|address| Window {
        note: from_registers(address, &[(sp, sp_name), (fp, fp_name)], &slots),
        ..window(address & !7, "accessed", AROUND_ACCESS)
    }));
    windows.extend(slots.into_iter().map(|(offset, slot, words)| Window {
        shift: offset,
        note: Some(slot),
        ..window(sp, sp_name, words)
    }));
    let around_fp = |pc: Pc| match world.code.kind(Address(pc.0)) {
        BlobKind::Interpreter => AROUND_FP,
        _ => AT_FP,
    };
    windows.push(window(fp, fp_name, around_fp(after.pc())));
    windows.push(window(sp, sp_name, AROUND_SP));
    if sp != before.sp().0 {
        windows.push(window(before.sp().0, "delivered sp", AROUND_SP));
    }
    let words = around_fp(before.pc());
    if fp != before.fp().0 {
        windows.push(window(before.fp().0, "delivered fp", words));
    } else if before.pc() != after.pc() {
        windows.push(window(fp, fp_name, words));
    }
    windows
}

/// Where a walker looks for something in the frame of the code at `pc`: the distance from sp, what it looks for, words around it.
fn slots_of_code(world: &World, pc: Pc) -> Vec<(u64, String, (i64, i64))> {
    let Some(blob) = world.code.blob(Address(pc.0)) else {
        return Vec::new();
    };
    let mut slots = Vec::new();
    let size = u64::from(blob.frame_size);
    if size >= 16 {
        let slot = format!("return address of a frame of {size} bytes");
        slots.push((size - 8, slot, AROUND_RETURN));
    }
    if let Some(nmethod) = &blob.nmethod
        && Address(pc.0) >= nmethod.stub_begin
        && let Ok(offset) = u64::try_from(nmethod.orig_pc_offset)
        && offset > 0
    {
        // In a deoptimisation handler a walker asks for the pc that the frame had before (nmethod::get_original_pc).
        slots.push((
            offset,
            "original pc of a deoptimised frame".to_owned(),
            (0, 1),
        ));
    }
    slots
}

/// How an address is reached from sp or fp, if it is near and nothing else says so.
fn from_registers(
    address: u64,
    bases: &[(u64, &str)],
    slots: &[(u64, String, (i64, i64))],
) -> Option<String> {
    const NEAR: i64 = 4096;
    let by = |base: u64| address.wrapping_sub(base);
    let (sp, _) = bases.first()?;
    if slots.iter().any(|(offset, ..)| *offset == by(*sp)) {
        return None;
    }
    let (base, name) = bases
        .iter()
        .find(|(base, _)| (-NEAR..NEAR).contains(&by(*base).cast_signed()))?;
    Some(distance(name, by(*base).cast_signed()))
}

fn words(meanings: &Meanings<'_>, windows: &[Window]) -> Vec<MemoryWord> {
    let mut found: BTreeMap<u64, MemoryWord> = BTreeMap::new();
    for window in windows {
        let start = window.base.wrapping_add(window.shift);
        // Where nothing can be read, one line says so.
        let (low, high) = match read_word(Address(start)) {
            Ok(_) => window.words,
            Err(_) => (0, 1),
        };
        for word in low..high {
            let address = start.wrapping_add_signed(word * 8);
            let from_base = address.wrapping_sub(window.base).cast_signed();
            let mut said = distance(window.name, from_base);
            if let (0, Some(note)) = (word, &window.note) {
                said = format!("{said} ({note})");
            }
            if let Some(known) = found.get_mut(&address) {
                if !known.place.contains(&said) {
                    known.place = format!("{said}, {}", known.place);
                }
            } else if found.len() < MOST_WORDS {
                found.insert(address, memory_word(meanings, address, said));
            }
        }
    }
    found.into_values().collect()
}

fn memory_word(meanings: &Meanings<'_>, address: u64, said: String) -> MemoryWord {
    let value = read_word(Address(address)).ok();
    let place = match meanings.slot(address) {
        Some(slot) => format!("{said}, {slot}"),
        None => said,
    };
    MemoryWord {
        address: hex(address),
        value: value.map(hex),
        place,
        meaning: match value {
            Some(value) => meanings.word(value),
            None => meanings
                .accessed(address, 0)
                .map(|what| format!("cannot be read: {what}")),
        },
    }
}

/// `sp+0x18`.
fn distance(name: &str, bytes: i64) -> String {
    match bytes {
        0 => name.to_owned(),
        1.. => format!("{name}+{bytes:#x}"),
        _ => format!("{name}-{:#x}", bytes.unsigned_abs()),
    }
}

/// What program counter, stack pointer, frame pointer and the edited words are.
pub(crate) fn registers(
    meanings: &Meanings<'_>,
    before: &Registers,
    after: &Registers,
) -> BTreeMap<String, String> {
    let arch = after.arch;
    let special = [arch.pc(), arch.sp(), arch.fp()];
    let names = arch.register_names().iter();
    let pairs = names.zip(before.words.iter().zip(after.words));
    pairs
        .enumerate()
        .filter(|(index, (_, (before, after)))| {
            **before != *after
                || special
                    .iter()
                    .any(|special| usize::from(special.0) == *index)
        })
        .filter_map(|(_, (name, (_, after)))| Some(((*name).to_owned(), meanings.word(after)?)))
        .collect()
}

/// The registers at a fault.
pub(crate) fn at_the_fault(meanings: &Meanings<'_>, fault: &Fault) -> Vec<FaultRegister> {
    let names = fault.registers.arch.register_names().iter();
    names
        .zip(fault.registers.words)
        .map(|(name, word)| FaultRegister {
            name: (*name).to_owned(),
            value: hex(word),
            meaning: meanings.word(word),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_accessed_is_told_from_the_nearest_register() {
        let bases = [(0x7000, "walked sp"), (0x10_0000, "fp")];
        let slots = [(0x20, "original pc".to_owned(), (0, 1))];
        let told = |address| from_registers(address, &bases, &slots);
        assert_eq!(told(0x7020), None, "the slot has a line of its own");
        assert_eq!(told(0x6ff8).as_deref(), Some("walked sp-0x8"));
        assert_eq!(told(0x10_0020).as_deref(), Some("fp+0x20"));
        assert_eq!(told(0x20_0000), None);
    }

    #[test]
    fn distances_read_as_people_write_them() {
        assert_eq!(distance("sp", 0), "sp");
        assert_eq!(distance("walked fp", -0x18), "walked fp-0x18");
        assert_eq!(distance("sp", 0x40), "sp+0x40");
    }
}
