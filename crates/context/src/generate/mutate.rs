//! Changing batches, and crossing two: what a fuzzer's custom mutator and crossover call.

use super::distribution::{self, class_for, delta, offset, selector};
use super::{Dice, Rng};
use crate::batch::{Batch, MAX_WALKS};
use crate::edit::{Edit, MAX_EDITS, PAC_MASK, Perturbation};
use crate::registers::Arch;

/// Mutates the batch in `data[..size]` in place; how long it is then, at most `max_size` and `data`'s length. Whatever stood
/// there, a canonical batch stands there afterwards. Zero only if not even an untouched batch fits.
///
/// One to four changes; walks that no longer fit are dropped from the end.
pub fn mutate(data: &mut [u8], size: usize, max_size: usize, seed: u32) -> usize {
    let mut batch = Batch::decode(data.get(..size).unwrap_or(data));
    mutate_batch(&mut batch, &mut Rng::new(u64::from(seed)));
    encode_within(&batch, data, max_size)
}

/// Crosses two batches into `out`; how long the child is, zero only if not even an untouched batch fits.
///
/// The child has `a`'s architecture, either one's moment, and at each place a walk of either or of both.
pub fn crossover(a: &[u8], b: &[u8], out: &mut [u8], seed: u32) -> usize {
    let mut dice = Rng::new(u64::from(seed));
    let mut child = Batch::decode(a);
    let other = Batch::decode(b).adapt(child.arch);
    if dice.chance(1, 2) {
        (child.thread, child.steps) = (other.thread, other.steps);
    }
    if dice.chance(1, 2) {
        child.depth = other.depth;
    }
    for (index, theirs) in other.walks().iter().enumerate() {
        match child.walks_mut().get_mut(index) {
            Some(ours) => match dice.below(4) {
                0 => {
                    let head = *ours;
                    splice(ours, &head, theirs, &mut dice);
                }
                1 => *ours = *theirs,
                _ => {}
            },
            None => {
                child.push(*theirs);
            }
        }
    }
    let max_size = out.len();
    encode_within(&child, out, max_size)
}

fn encode_within(batch: &Batch, data: &mut [u8], max_size: usize) -> usize {
    let room = max_size.min(data.len());
    batch.encode(data.get_mut(..room).unwrap_or(&mut []))
}

/// Makes `child` of the beginning of one perturbation and the end of another.
pub(super) fn splice(
    child: &mut Perturbation,
    head: &Perturbation,
    tail: &Perturbation,
    dice: &mut impl Dice,
) {
    let kept = dice.index(head.edits().len() + 1);
    let from = dice.index(tail.edits().len() + 1);
    child.clear();
    let heads = head.edits().iter().take(kept);
    for edit in heads.chain(tail.edits().iter().skip(from)) {
        child.push(*edit);
    }
}

/// Changes a batch in one to four places.
pub fn mutate_batch(batch: &mut Batch, dice: &mut impl Dice) {
    /// What is drawn may not apply (one walk cannot swap places, a full batch not grow): draw again, but not for ever.
    const DRAWS: usize = 8;
    for _ in 0..1 + dice.below(4) {
        for _ in 0..DRAWS {
            if mutate_once(batch, dice) {
                break;
            }
        }
    }
    debug_assert!((1..=MAX_WALKS).contains(&batch.walks().len()));
}

/// Whether the batch differs now.
fn mutate_once(batch: &mut Batch, dice: &mut impl Dice) -> bool {
    let arch = batch.arch;
    let count = batch.walks().len();
    let at = dice.index(count);
    match dice.below(32) {
        // The walks as a list.
        0..3 => batch.push(distribution::perturbation(dice, arch)),
        3..6 => match batch.walks().get(at).copied() {
            Some(mut copy) => {
                mutate_walk(&mut copy, dice, arch);
                batch.push(copy)
            }
            None => false,
        },
        6..8 => batch.remove(at).is_some(),
        8 => {
            let other = dice.index(count);
            batch.walks_mut().swap(at, other);
            batch.walks().get(at) != batch.walks().get(other)
        }
        9 => {
            let other = batch.walks().get(dice.index(count)).copied();
            match (batch.walks_mut().get_mut(at), other) {
                (Some(walk), Some(other)) => {
                    let before = *walk;
                    splice(walk, &before, &other, dice);
                    *walk != before
                }
                _ => false,
            }
        }
        // The moment.
        10 => replace(&mut batch.thread, dice.below(256) as u8),
        11 => replace(&mut batch.steps, distribution::steps(dice)),
        12 => {
            let near = batch.steps.wrapping_add_signed(dice.around_zero(4) as i8);
            replace(&mut batch.steps, near)
        }
        13 => replace(&mut batch.depth, distribution::depth(dice)),
        // One walk.
        _ => match batch.walks_mut().get_mut(at) {
            Some(walk) => {
                let before = *walk;
                mutate_walk(walk, dice, arch);
                *walk != before
            }
            None => false,
        },
    }
}

fn replace<T: PartialEq>(place: &mut T, new: T) -> bool {
    let differs = *place != new;
    *place = new;
    differs
}

pub(super) fn mutate_walk(walk: &mut Perturbation, dice: &mut impl Dice, arch: Arch) {
    let count = walk.edits().len();
    let at = dice.index(count);
    match dice.below(16) {
        0..2 if count < MAX_EDITS => {
            walk.push(distribution::edit(dice, arch));
        }
        2..4 => {
            walk.remove(at);
        }
        // Often: independent edits soon leave nothing that a walker would get past.
        4..8 => distribution::perturb(walk, dice, arch),
        8 if count > 1 => walk.edits_mut().swap(at, dice.index(count)),
        choice => match walk.edits_mut().get_mut(at) {
            Some(edit) if choice < 10 => *edit = distribution::edit(dice, arch),
            Some(edit) => tweak(edit, dice, arch),
            None => {
                walk.push(distribution::edit(dice, arch));
            }
        },
    }
}

/// Changes one operand of an edit, a little.
fn tweak(edit: &mut Edit, dice: &mut impl Dice, arch: Arch) {
    match edit {
        Edit::Nudge { register, delta: d } => {
            *d = match dice.below(4) {
                0 => delta(dice, arch, *register),
                1 => d.wrapping_neg(),
                _ => d.wrapping_add(delta(dice, arch, *register)),
            };
        }
        Edit::Set { register, value } => match dice.below(8) {
            0 => value.class = class_for(dice, arch, *register),
            1..3 => value.selector = selector(dice),
            3..5 => {
                value.selector = value
                    .selector
                    .wrapping_add_signed(dice.around_zero(4) as i16);
            }
            5 => value.offset = offset(dice),
            _ => {
                let nudge = delta(dice, arch, *register) as i16;
                value.offset = value.offset.wrapping_add(nudge);
            }
        },
        Edit::Flip { bit, .. } => *bit = dice.below(64) as u8,
        Edit::Swap { a, b } => std::mem::swap(a, b),
        Edit::Alias {
            source, delta: d, ..
        } => {
            if dice.chance(1, 4) {
                *source = if *source == arch.sp() {
                    arch.fp()
                } else {
                    arch.sp()
                };
            } else {
                *d = d.wrapping_add(8 * dice.around_zero(8));
            }
        }
        Edit::Sign { bits, .. } => *bits ^= 1 + dice.below(u32::from(PAC_MASK)) as u8,
    }
}
