//! Making perturbations and batches: at random, from the `arbitrary` crate's bytes, and out of one another.
//!
//! All three draw from the same distributions, so that a comparison of guided with blind fuzzing compares the guidance. They
//! favour pc, sp and fp, small multiples of a word, and value classes that suit the register; ten perturbations in sixteen are a
//! *recipe*: edits that together make a context which code nearly has (a caller's frame, an entry, an epilogue, registers
//! of different moments), since independent edits hardly ever pass a walker's first plausibility check.
//!
//! Why not the mutatis crate: it enumerates all candidate mutations of a value and gives each the same weight, so that a
//! batch's 96 edits would crowd out its few walks and its moment, and the enumeration alone costs more than a mutation may.
//!
//! No allocation and no panic; meant for the fuzzing loop, not for handlers.

mod arbitrary;
mod dice;
mod distribution;
mod mutate;
mod pool;
mod torn;

pub use dice::{Dice, Rng};
pub use distribution::{batch, edit, perturbation, value_for};
pub use mutate::{crossover, mutate, mutate_batch};
pub use pool::Pool;
pub use torn::tear;

use crate::batch::Batch;
use crate::registers::Arch;

/// A batch for this machine from a seed alone: the generator of `--blind` runs.
#[must_use]
pub fn blind(seed: u64) -> Batch {
    batch(&mut Rng::new(seed), Arch::NATIVE)
}
