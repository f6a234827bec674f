//! The distributions that all generators share. Weights are shares of the sum beside them.

use super::Dice;
use crate::batch::{Batch, DepthLimit, MAX_WALKS};
use crate::edit::{Edit, PAC_MASK, Perturbation};
use crate::registers::{Arch, Register};
use crate::value::{Value, ValueClass};

/// Code: what a pc is plausible as. The kinds that walkers treat differently weigh the same, whatever their share of code is.
const PC_CLASSES: &[(u32, ValueClass)] = &[
    (6, ValueClass::ReturnAddress),
    (6, ValueClass::NaturalPc),
    (6, ValueClass::NmethodBody),
    (4, ValueClass::NmethodEntry),
    (4, ValueClass::NmethodEpilogue),
    (2, ValueClass::ExceptionHandler),
    (2, ValueClass::DeoptHandler),
    (3, ValueClass::NativeWrapper),
    (4, ValueClass::InterpreterCodelet),
    (2, ValueClass::Adapter),
    (2, ValueClass::VtableStub),
    (3, ValueClass::RuntimeStub),
    (3, ValueClass::StubRoutine),
    (2, ValueClass::FreeCode),
    (1, ValueClass::LibjvmText),
    (1, ValueClass::StackWord),
];

/// Stacks: what an sp or fp is plausible as, and their edges.
const STACK_CLASSES: &[(u32, ValueClass)] = &[
    (10, ValueClass::StackSlot),
    (10, ValueClass::ReturnAddressSlot),
    (6, ValueClass::StackWord),
    (4, ValueClass::OwnStack),
    (3, ValueClass::ForeignStack),
    (1, ValueClass::YellowZone),
    (1, ValueClass::RedZone),
    (1, ValueClass::ReservedZone),
    (1, ValueClass::GuardPages),
    (1, ValueClass::Heap),
    (1, ValueClass::Unmapped),
    (1, ValueClass::NullPage),
];

/// What else compiled code keeps in a general register.
const DATA_CLASSES: &[(u32, ValueClass)] = &[
    (4, ValueClass::Heap),
    (3, ValueClass::Literal),
    (3, ValueClass::StackWord),
    (2, ValueClass::Metaspace),
    (1, ValueClass::NmethodBody),
    (1, ValueClass::InterpreterCodelet),
    (1, ValueClass::PollPage),
    (1, ValueClass::NullPage),
    (1, ValueClass::Unmapped),
    (1, ValueClass::NonCanonical),
];

/// pc, sp and fp nearly always; lr where there is one; any other seldom, half of them HotSpot's own where walkers have read such.
fn register(dice: &mut impl Dice, arch: Arch) -> Register {
    match dice.below(32) {
        0..10 => arch.pc(),
        10..19 => arch.sp(),
        19..29 => arch.fp(),
        29..31 => arch.lr().unwrap_or(arch.fp()),
        _ => match arch.hotspot_registers() {
            [] => Register(dice.index(arch.register_count()) as u8),
            known => match known.get(dice.index(2 * known.len())) {
                Some(register) => *register,
                None => Register(dice.index(arch.register_count()) as u8),
            },
        },
    }
}

/// What the code is aligned to.
const fn pc_step(arch: Arch) -> i32 {
    match arch {
        Arch::X86_64 => 1,
        Arch::Aarch64 => 4,
    }
}

/// Of any magnitude from `bits` bits up to 17 more.
fn wide(dice: &mut impl Dice, bits: u32) -> i32 {
    let bits = bits + dice.below(18);
    dice.around_zero(1 << bits)
}

/// What a nudge adds: a few words or instructions, mostly.
pub(super) fn delta(dice: &mut impl Dice, arch: Arch, register: Register) -> i32 {
    if register == arch.pc() || Some(register) == arch.lr() {
        match dice.below(20) {
            0..11 => pc_step(arch) * dice.around_zero(16),
            11..17 => pc_step(arch) * dice.around_zero(256),
            17..19 => dice.around_zero(1 << 12),
            _ => wide(dice, 12),
        }
    } else {
        match dice.below(20) {
            0..12 => 8 * dice.around_zero(8),
            12..16 => 8 * dice.around_zero(128),
            16..18 => dice.around_zero(64),
            _ => 8 * wide(dice, 7),
        }
    }
}

pub(super) fn selector(dice: &mut impl Dice) -> u16 {
    let bits = match dice.below(20) {
        0..9 => 3,
        9..15 => 6,
        15..18 => 10,
        _ => 16,
    };
    dice.below(1 << bits) as u16
}

pub(super) fn offset(dice: &mut impl Dice) -> i16 {
    let offset = match dice.below(20) {
        0..13 => 0,
        13..17 => 8 * dice.around_zero(8),
        17..19 => dice.around_zero(16),
        _ => dice.around_zero(1 << 14),
    };
    offset as i16
}

pub(super) fn class_for(dice: &mut impl Dice, arch: Arch, register: Register) -> ValueClass {
    // One in sixteen is of any class, so that none is out of reach.
    if dice.chance(1, 16) {
        return ValueClass::ALL[dice.index(ValueClass::COUNT)];
    }
    let classes = if register == arch.pc() || Some(register) == arch.lr() {
        PC_CLASSES
    } else if register == arch.sp() || register == arch.fp() && dice.chance(1, 2) {
        STACK_CLASSES
    } else {
        DATA_CLASSES
    };
    dice.weighted(classes).unwrap_or(ValueClass::Literal)
}

/// A value that suits the register, mostly.
pub fn value_for(dice: &mut impl Dice, arch: Arch, register: Register) -> Value {
    Value::new(
        class_for(dice, arch, register),
        selector(dice),
        offset(dice),
    )
}

/// One edit.
pub fn edit(dice: &mut impl Dice, arch: Arch) -> Edit {
    let register = register(dice, arch);
    match dice.below(32) {
        0..11 => Edit::Nudge {
            register,
            delta: delta(dice, arch, register),
        },
        11..25 => Edit::Set {
            register,
            value: value_for(dice, arch, register),
        },
        25..29 => {
            let register = if dice.chance(1, 2) {
                arch.fp()
            } else {
                register
            };
            let source = if dice.chance(3, 4) {
                arch.sp()
            } else {
                arch.fp()
            };
            Edit::Alias {
                register,
                source,
                delta: 8 * dice.around_zero(16),
            }
        }
        29 => Edit::Swap {
            a: register,
            b: self::register(dice, arch),
        },
        30 if arch == Arch::Aarch64 => Edit::Sign {
            register,
            bits: 1 + dice.below(u32::from(PAC_MASK)) as u8,
        },
        _ => Edit::Flip {
            register,
            bit: dice.below(64) as u8,
        },
    }
}

pub(super) fn set(register: Register, class: ValueClass, selector: u16, offset: i16) -> Edit {
    Edit::Set {
        register,
        value: Value::new(class, selector, offset),
    }
}

/// Edits that together make a context which code nearly has.
fn recipe(recipe: &mut Perturbation, dice: &mut impl Dice, arch: Arch) {
    let (pc, sp, fp) = (arch.pc(), arch.sp(), arch.fp());
    let frame = dice.below(8) as u16;
    let within = selector(dice);
    match dice.below(16) {
        // The context that a caller of the interrupted activation returns to.
        0..11 => {
            recipe.push(set(pc, ValueClass::ReturnAddress, frame, 0));
            recipe.push(set(sp, ValueClass::ReturnAddressSlot, frame, 8));
            if dice.chance(15, 16) {
                recipe.push(set(fp, ValueClass::CallerFp, frame, 0));
            }
        }
        // Another instruction of the same code, mostly.
        11..13 => {
            recipe.push(Edit::Nudge {
                register: pc,
                delta: dice.around_zero(96),
            });
        }
        // An arbitrary fp alone.
        13 => {
            recipe.push(set(
                fp,
                dice.weighted(DATA_CLASSES).unwrap_or(ValueClass::Heap),
                within,
                offset(dice),
            ));
        }
        // A method just entered, or just about to return, from one of the callers.
        14 if dice.chance(1, 2) => {
            let class = if dice.chance(1, 2) {
                ValueClass::NmethodEntry
            } else {
                ValueClass::NmethodEpilogue
            };
            let pushed = if dice.chance(1, 2) { 0 } else { -8 };
            recipe.push(set(pc, class, within, 0));
            recipe.push(set(sp, ValueClass::ReturnAddressSlot, frame, pushed));
        }
        // Registers of different moments.
        14 => {
            recipe.push(set(pc, ValueClass::NaturalPc, within, 0));
            if dice.chance(1, 2) {
                recipe.push(set(sp, ValueClass::NaturalSp, selector(dice), 0));
            }
            if dice.chance(1, 2) {
                recipe.push(set(fp, ValueClass::NaturalFp, selector(dice), 0));
            }
        }
        // An interpreter frame that is none: a codelet's pc over a made-up frame.
        _ => {
            recipe.push(set(pc, ValueClass::InterpreterCodelet, within, 0));
            recipe.push(set(fp, ValueClass::StackSlot, selector(dice), 0));
        }
    }
    if dice.chance(1, 16) {
        recipe.push(edit(dice, arch));
    }
}

/// Makes `walk` a new perturbation, in place, for it is some hundred bytes; one in 64 is untouched.
pub(super) fn perturb(walk: &mut Perturbation, dice: &mut impl Dice, arch: Arch) {
    walk.clear();
    let edits = match dice.below(64) {
        0 => return,
        1..60 => return recipe(walk, dice, arch),
        60..62 => 1,
        62 => 2,
        _ => 3 + dice.below(4),
    };
    for _ in 0..edits {
        walk.push(edit(dice, arch));
    }
}

/// Makes `walk` a sibling of another perturbation: the same registers, edits and value classes, other values, all moved by the same
/// step, so that values which belong together (the pc, sp and fp of one caller) still do. Costs a quarter of a new one.
pub(super) fn sibling(walk: &mut Perturbation, of: &Perturbation, dice: &mut impl Dice) {
    walk.copy_from(of);
    let step = 1 + dice.below(7);
    for edit in walk.edits_mut() {
        match edit {
            Edit::Set { value, .. } => {
                // Small selectors stay small: the nearest frames and slots.
                let small = if value.selector < 8 { 7 } else { u16::MAX };
                value.selector = value.selector.wrapping_add(step as u16) & small;
            }
            Edit::Nudge { delta, .. } => *delta = delta.wrapping_neg().wrapping_sub(*delta >> step),
            Edit::Alias { delta, .. } => *delta = delta.wrapping_add(8 * step.cast_signed()),
            Edit::Flip { bit, .. } => *bit = bit.wrapping_add(step as u8) % 64,
            Edit::Swap { a, b } => std::mem::swap(a, b),
            Edit::Sign { bits, .. } => *bits = (*bits ^ step as u8) & PAC_MASK,
        }
    }
}

/// Whether a batch's walk at `index` is a sibling of the one before it: three in eight are.
pub(super) fn is_sibling(index: usize, dice: &mut impl Dice) -> bool {
    index % 2 == 1 && dice.chance(3, 4)
}

/// One perturbation; one in 64 is untouched.
pub fn perturbation(dice: &mut impl Dice, arch: Arch) -> Perturbation {
    let mut walk = Perturbation::UNTOUCHED;
    perturb(&mut walk, dice, arch);
    walk
}

pub(super) fn depth(dice: &mut impl Dice) -> DepthLimit {
    if dice.chance(3, 4) {
        DepthLimit::default()
    } else {
        DepthLimit::from_index(dice.index(DepthLimit::LIMITS.len()) as u8)
    }
}

/// Steps: none, mostly, for each costs a trap.
pub(super) fn steps(dice: &mut impl Dice) -> u8 {
    match dice.below(8) {
        0 => dice.below(8) as u8,
        1 if dice.chance(1, 2) => dice.below(64) as u8,
        _ => 0,
    }
}

/// A batch, full in three of four cases: walks of one moment are cheap.
pub fn batch(dice: &mut impl Dice, arch: Arch) -> Batch {
    let mut batch = Batch::untouched(arch);
    batch.thread = dice.below(256) as u8;
    batch.steps = steps(dice);
    batch.depth = depth(dice);
    let walks = if dice.chance(3, 4) {
        MAX_WALKS
    } else {
        1 + dice.index(MAX_WALKS)
    };
    batch.refill(walks, |before, walk| match before.last() {
        Some(last) if is_sibling(before.len(), dice) => sibling(walk, last, dice),
        _ => perturb(walk, dice, arch),
    });
    batch
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::Rng;

    #[test]
    fn siblings_keep_what_belongs_together() {
        let mut dice = Rng::new(3);
        let caller = Perturbation::parse(
            Arch::X86_64,
            "rip=return-address[2] rsp=return-address-slot[2]+8 rbp=caller-fp[2]",
        )
        .unwrap();
        for _ in 0..100 {
            let mut child = Perturbation::UNTOUCHED;
            sibling(&mut child, &caller, &mut dice);
            assert_ne!(child, caller);
            let selectors: Vec<_> = child
                .edits()
                .iter()
                .map(|edit| match edit {
                    Edit::Set { value, .. } => (value.selector, value.offset),
                    other => panic!("{other:?}"),
                })
                .collect();
            let frame = selectors[0].0;
            assert!(frame < 8);
            assert_eq!(selectors, [(frame, 0), (frame, 8), (frame, 0)]);
        }
    }

    #[test]
    fn siblings_of_any_edit_differ() {
        let mut dice = Rng::new(5);
        for arch in Arch::ALL {
            for _ in 0..2000 {
                let parent: Perturbation = std::iter::once(edit(&mut dice, arch)).collect();
                let mut child = Perturbation::UNTOUCHED;
                sibling(&mut child, &parent, &mut dice);
                let swapped_alike = matches!(parent.edits(), [Edit::Swap { a, b }] if a == b);
                assert!(child != parent || swapped_alike, "{parent:?}");
            }
        }
    }
}
