//! Which single perturbations were worth something, and making batches out of them.
//!
//! A fuzzer's corpus keeps whole batches, and cannot tell which of a batch's walks did what was new: of sixteen walks in a
//! child, one would come of what made the parent worth keeping. The pool keeps, for each feature (a feedback counter), the
//! smallest perturbation that showed it, and how often it was seen; children of rare features are bred more often.
//!
//! [`Pool::saw`] allocates nothing.

use super::distribution::{depth, is_sibling, perturb, sibling, steps};
use super::mutate::{mutate_walk, splice};
use super::{Dice, Rng};
use crate::batch::{Batch, MAX_WALKS};
use crate::edit::Perturbation;
use crate::registers::Arch;

/// Perturbations by the feature that they showed.
pub struct Pool {
    smallest: Box<[Perturbation]>,
    seen: Box<[u32]>,
    /// The features that were seen first by a walk that was refused at once, and those by a walk that got further.
    known: [Vec<u16>; 2],
}

impl Pool {
    /// A pool for features below `features` (at most 65,536).
    #[must_use]
    pub fn new(features: usize) -> Self {
        let features = features.min(1 << 16);
        Self {
            smallest: vec![Perturbation::UNTOUCHED; features].into_boxed_slice(),
            seen: vec![0; features].into_boxed_slice(),
            known: [(); 2].map(|()| Vec::with_capacity(features)),
        }
    }

    /// A walk showed a feature; `further` if it got past the walker's first checks. Untouched walks count and are not kept. True for a
    /// feature that no perturbation showed before.
    #[inline]
    pub fn saw(&mut self, feature: usize, by: &Perturbation, further: bool) -> bool {
        let (Some(seen), Some(smallest)) =
            (self.seen.get_mut(feature), self.smallest.get_mut(feature))
        else {
            return false;
        };
        *seen = seen.saturating_add(1);
        let (edits, kept) = (by.edits().len(), smallest.edits().len());
        if edits == 0 || kept != 0 && kept <= edits {
            return false;
        }
        *smallest = *by;
        if kept == 0 {
            self.known[usize::from(further)].push(feature as u16);
        }
        kept == 0
    }

    /// How many perturbations there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.known.iter().map(Vec::len).sum()
    }

    /// Whether there is none yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A feature; of three drawn the one that was seen the least.
    fn draw(&self, dice: &mut impl Dice) -> Option<usize> {
        let [refused, further] = &self.known;
        let known = if refused.is_empty() || !further.is_empty() && dice.chance(7, 8) {
            further
        } else {
            refused
        };
        let mut draw = || {
            let feature = usize::from(*known.get(dice.index(known.len()))?);
            Some((*self.seen.get(feature)?, feature))
        };
        let (first, second, third) = (draw()?, draw()?, draw()?);
        Some(first.min(second).min(third).1)
    }

    /// The smallest perturbation of such a feature.
    fn pick(&self, dice: &mut impl Dice) -> Option<&Perturbation> {
        self.smallest.get(self.draw(dice)?)
    }

    /// Makes `batch`, whose moment is its parent's, a full one of new walks: ten in sixteen fresh, the others children of the pool's.
    pub fn breed(&self, batch: &mut Batch, seed: u64) {
        let dice = &mut Rng::new(seed);
        let arch = batch.arch;
        if dice.chance(1, 2) {
            batch.thread = dice.below(256) as u8;
        }
        if dice.chance(1, 4) {
            batch.steps = steps(dice);
        }
        if dice.chance(1, 4) {
            batch.depth = depth(dice);
        }
        batch.refill(MAX_WALKS, |before, walk| match before.last() {
            Some(last) if is_sibling(before.len(), dice) => sibling(walk, last, dice),
            _ => self.child(walk, dice, arch),
        });
    }

    fn child(&self, walk: &mut Perturbation, dice: &mut impl Dice, arch: Arch) {
        let kind = dice.below(16);
        if kind >= 10
            && let Some(parent) = self.pick(dice)
        {
            if kind == 15
                && let Some(other) = self.pick(dice)
            {
                splice(walk, parent, other, dice);
            } else {
                walk.copy_from(parent);
                mutate_walk(walk, dice, arch);
            }
            if !walk.is_untouched() {
                return;
            }
        }
        perturb(walk, dice, arch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edit::Edit;
    use crate::value::ValueClass;

    fn walk(text: &str) -> Perturbation {
        Perturbation::parse(Arch::X86_64, text).unwrap()
    }

    #[test]
    fn keeps_the_smallest_of_each_feature() {
        let mut pool = Pool::new(8);
        assert!(!pool.saw(3, &Perturbation::UNTOUCHED, true));
        assert!(pool.saw(3, &walk("rsp+=8 rip+=1"), true));
        assert!(!pool.saw(3, &walk("rbp+=8"), true));
        assert!(!pool.saw(3, &walk("rbp+=16 rsp+=8"), true));
        assert!(!pool.saw(8, &walk("rbp+=8"), true), "out of range");
        assert_eq!(pool.len(), 1);
        assert_eq!(pool.pick(&mut Rng::new(1)).copied(), Some(walk("rbp+=8")));
    }

    #[test]
    fn breeds_full_batches_without_untouched_walks_from_what_it_knows() {
        let mut pool = Pool::new(8);
        let mut batch = Batch::untouched(Arch::X86_64);
        pool.breed(&mut batch, 1);
        assert_eq!(batch.walks().len(), MAX_WALKS);
        let rare = walk("r15=heap[4242]");
        pool.saw(1, &rare, false);
        let mut from_rare = 0;
        for seed in 0..200 {
            pool.breed(&mut batch, seed);
            assert_eq!(batch.walks().len(), MAX_WALKS);
            let walks = batch.walks().iter();
            from_rare += walks
                .filter(|walk| {
                    // A sibling has another selector, the same register and class.
                    matches!(walk.edits().first(), Some(Edit::Set { register, value })
                        if Some(*register) == rare.edits().first().map(Edit::register)
                            && value.class == ValueClass::Heap)
                })
                .count();
        }
        assert!(from_rare > 200, "{from_rare} of 3200");
    }

    #[test]
    fn prefers_rare_features() {
        let mut pool = Pool::new(8);
        let (common, rare) = (walk("rsp+=8"), walk("rbp+=8"));
        for _ in 0..100 {
            pool.saw(0, &common, true);
        }
        pool.saw(1, &rare, true);
        let dice = &mut Rng::new(7);
        let picked = (0..1000).filter(|_| pool.pick(dice) == Some(&rare)).count();
        assert!((800..950).contains(&picked), "{picked}");
    }
}
