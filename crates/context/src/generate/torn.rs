//! Contexts as one gets them who reads the registers of a thread that runs on.

use super::Dice;
use super::distribution::{selector, set};
use crate::batch::{Batch, MAX_WALKS};
use crate::edit::Perturbation;
use crate::registers::Arch;
use crate::value::ValueClass;

/// Some or all of pc, sp and fp from other moments: each from another one, or all from the same, as one gets them who reads the registers at once
/// and walks when the thread has gone on.
fn torn(walk: &mut Perturbation, dice: &mut impl Dice, arch: Arch) {
    let registers = [
        (arch.pc(), ValueClass::NaturalPc),
        (arch.sp(), ValueClass::NaturalSp),
        (arch.fp(), ValueClass::NaturalFp),
    ];
    let at_once = dice.below(2) == 0;
    let which = if at_once { 7 } else { 1 + dice.below(7) };
    let moment = selector(dice);
    for (at, (register, class)) in registers.into_iter().enumerate() {
        if which & 1 << at != 0 {
            let selector = if at_once { moment } else { selector(dice) };
            walk.push(set(register, class, selector, 0));
        }
    }
}

/// Gives every other walk of a batch registers of different moments.
pub fn tear(batch: &mut Batch, dice: &mut impl Dice) {
    let mut walks = [Perturbation::UNTOUCHED; MAX_WALKS];
    let count = batch.walks().len();
    for (at, (to, from)) in walks.iter_mut().zip(batch.walks()).enumerate() {
        if at % 2 == 0 {
            torn(to, dice, batch.arch);
        } else {
            to.copy_from(from);
        }
    }
    batch.set_walks(walks.get(..count).unwrap_or(&[]));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{Rng, batch};
    use crate::{Edit, ValueClass};

    #[test]
    fn every_other_walk_is_of_earlier_moments() {
        let mut dice = Rng::new(5);
        let (mut torn, mut at_once) = (0, 0);
        for _ in 0..100 {
            let mut batch = batch(&mut dice, Arch::X86_64);
            let before = batch;
            tear(&mut batch, &mut dice);
            assert_eq!(batch.walks().len(), before.walks().len());
            for (at, (walk, old)) in batch.walks().iter().zip(before.walks()).enumerate() {
                if at % 2 == 1 {
                    assert_eq!(walk, old);
                    continue;
                }
                torn += 1;
                assert!(!walk.is_untouched());
                let mut moments = walk.edits().iter().filter_map(|edit| match edit {
                    Edit::Set { value, .. } => Some(value.selector),
                    _ => None,
                });
                let first = moments.next();
                let same = moments.all(|moment| Some(moment) == first);
                at_once += u32::from(walk.edits().len() == 3 && same);
                assert!(walk.edits().iter().all(|edit| matches!(
                    edit,
                    Edit::Set { value, .. } if matches!(
                        value.class,
                        ValueClass::NaturalPc | ValueClass::NaturalSp | ValueClass::NaturalFp
                    )
                )));
            }
        }
        assert!(torn > 100, "{torn}");
        assert!(
            at_once > torn / 4 && at_once < torn * 3 / 4,
            "{at_once} of {torn}"
        );
    }
}
