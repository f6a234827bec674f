//! The smallest perturbation with the same signature: lowest tier, then fewest edits, then smallest values.
//!
//! Deterministic: the same answers of `attempt` give the same result. The search knows nothing of walks; it is told by a
//! closure whether a candidate still has the signature, and at which tier.

use walkfuzz_context::tier::Tier;
use walkfuzz_context::{Arch, Edit, Perturbation, Value, ValueClass};

/// What candidates are ordered by; less is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Weight {
    tier: Tier,
    edits: usize,
    size: u64,
}

impl Weight {
    /// The weight of a perturbation that has the signature at `tier`.
    #[must_use]
    pub fn of(perturbation: &Perturbation, tier: Tier) -> Self {
        Self {
            tier,
            edits: perturbation.edits().len(),
            size: perturbation.edits().iter().map(size).sum(),
        }
    }
}

/// How much an edit changes: bytes and bits, with a surcharge for what is harder to read.
fn size(edit: &Edit) -> u64 {
    match *edit {
        Edit::Nudge { delta, .. } => u64::from(delta.unsigned_abs()),
        Edit::Flip { bit, .. } => 1 + u64::from(bit),
        Edit::Swap { .. } => 1 << 16,
        Edit::Alias { delta, .. } => (1 << 16) + u64::from(delta.unsigned_abs()),
        Edit::Sign { bits, .. } => (1 << 17) + u64::from(bits),
        Edit::Set { value, .. } => {
            let class = match value.class {
                ValueClass::Literal | ValueClass::NullPage => 0,
                class => 1 + class as u64,
            };
            (1 << 18)
                + class * (1 << 18)
                + u64::from(value.selector) * 4
                + u64::from(value.offset.unsigned_abs())
        }
    }
}

/// Searches from `start`, which has the signature at `tier`. Asks `attempt` at most `budget` times.
///
/// `natural` are further candidates of low tiers, which the caller knows how to make (states that the code passes through).
/// Returns the best perturbation, its tier and how many questions were asked.
pub fn minimise(
    arch: Arch,
    start: &Perturbation,
    tier: Tier,
    natural: &[Perturbation],
    budget: usize,
    mut attempt: impl FnMut(&Perturbation) -> Option<Tier>,
) -> (Perturbation, Tier, usize) {
    let mut best = (*start, tier, Weight::of(start, tier));
    let mut asked = 0;
    let mut consider = |candidate: &Perturbation, best: &mut (Perturbation, Tier, Weight)| {
        // No candidate is lighter than it would be at T0: spare the walk if even that would not do.
        if asked >= budget || Weight::of(candidate, Tier::T0) >= best.2 {
            return false;
        }
        asked += 1;
        let Some(tier) = attempt(candidate) else {
            return false;
        };
        let weight = Weight::of(candidate, tier);
        if weight < best.2 {
            *best = (*candidate, tier, weight);
            return true;
        }
        false
    };

    for subset in subsets(start) {
        consider(&subset, &mut best);
    }
    for candidate in natural {
        consider(candidate, &mut best);
    }
    for candidate in single_edits(arch) {
        consider(&candidate, &mut best);
    }
    // Shrink values until nothing gets smaller.
    loop {
        let mut smaller = false;
        for index in 0..best.0.edits().len() {
            for edit in simpler(best.0.edits().get(index).copied()) {
                let mut candidate = best.0;
                if let Some(slot) = candidate.edits_mut().get_mut(index) {
                    *slot = edit;
                    smaller |= consider(&candidate, &mut best);
                }
            }
        }
        if !smaller {
            break;
        }
    }
    (best.0, best.1, asked)
}

/// Every proper, non-empty part of a perturbation's edits, in order, the smallest first.
fn subsets(of: &Perturbation) -> Vec<Perturbation> {
    let edits = of.edits();
    let mut masks: Vec<u32> = (1..(1_u32 << edits.len()).saturating_sub(1)).collect();
    masks.sort_by_key(|mask| (mask.count_ones(), *mask));
    masks
        .into_iter()
        .map(|mask| {
            let mut part = Perturbation::UNTOUCHED;
            for (index, edit) in edits.iter().enumerate() {
                if mask & (1 << index) != 0 {
                    part.push(*edit);
                }
            }
            part
        })
        .collect()
}

/// A catalogue of single edits of pc, sp and fp: small nudges first, then the first values of each class.
fn single_edits(arch: Arch) -> Vec<Perturbation> {
    let mut all = Vec::new();
    let mut add = |edit| {
        let mut one = Perturbation::UNTOUCHED;
        one.push(edit);
        all.push(one);
    };
    // fp first: where it is no frame pointer, any value of it is natural.
    for register in [arch.fp(), arch.sp(), arch.pc()] {
        for delta in [8, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024, 4096, 1, 4] {
            add(Edit::Nudge { register, delta });
            add(Edit::Nudge {
                register,
                delta: -delta,
            });
        }
        for class in ValueClass::ALL {
            for selector in [0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233] {
                add(Edit::Set {
                    register,
                    value: Value::new(class, selector, 0),
                });
            }
        }
    }
    all
}

/// Simpler forms of an edit, the simplest first.
fn simpler(edit: Option<Edit>) -> Vec<Edit> {
    match edit {
        Some(Edit::Nudge { register, delta }) => smaller_numbers(i64::from(delta))
            .map(|delta| Edit::Nudge {
                register,
                delta: delta as i32,
            })
            .collect(),
        Some(Edit::Alias {
            register,
            source,
            delta,
        }) => smaller_numbers(i64::from(delta))
            .map(|delta| Edit::Alias {
                register,
                source,
                delta: delta as i32,
            })
            .collect(),
        Some(Edit::Set { register, value }) => {
            let literals = [0, 8, 1]
                .into_iter()
                .map(|literal| Value::new(ValueClass::Literal, literal, 0));
            let offsets = smaller_numbers(i64::from(value.offset))
                .map(|offset| Value {
                    offset: offset as i16,
                    ..value
                })
                .collect::<Vec<_>>();
            let selectors = smaller_numbers(i64::from(value.selector))
                .map(|selector| Value {
                    selector: selector as u16,
                    ..value
                })
                .collect::<Vec<_>>();
            literals
                .chain(offsets)
                .chain(selectors)
                .filter(|simpler| *simpler != value)
                .map(|value| Edit::Set { register, value })
                .collect()
        }
        Some(Edit::Flip { register, bit }) => {
            (0..bit).map(|bit| Edit::Flip { register, bit }).collect()
        }
        Some(Edit::Swap { .. } | Edit::Sign { .. }) | None => Vec::new(),
    }
}

/// Numbers nearer to zero, the nearest first, the next ones in small steps.
fn smaller_numbers(number: i64) -> impl Iterator<Item = i64> {
    let sign = number.signum();
    let size = number.abs();
    let mut all: Vec<i64> =
        std::iter::successors(Some(size / 2), |size| (*size > 0).then_some(size / 2)).collect();
    all.reverse();
    all.extend(
        [size - 64, size - 8, size - 1]
            .into_iter()
            .filter(|smaller| *smaller > size / 2),
    );
    all.dedup();
    all.into_iter()
        .filter(move |smaller| (0..size).contains(smaller))
        .map(move |size| size * sign)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn perturbation(text: &str) -> Perturbation {
        Perturbation::parse(Arch::X86_64, text).unwrap()
    }

    const ARCH: Arch = Arch::X86_64;

    #[test]
    fn drops_what_the_signature_does_not_need() {
        let start = perturbation("rsp+=1000 rip~bit3 rbp=heap[7]+5");
        let needs_bit = |candidate: &Perturbation| {
            candidate
                .edits()
                .iter()
                .any(|edit| matches!(edit, Edit::Flip { .. }))
                .then_some(Tier::T4)
        };
        let (best, tier, _) = minimise(ARCH, &start, Tier::T4, &[], 10_000, needs_bit);
        assert_eq!(best, perturbation("rip~bit0"));
        assert_eq!(tier, Tier::T4);
    }

    #[test]
    fn prefers_a_lower_tier_to_fewer_edits() {
        let start = perturbation("rip+=100");
        let natural = [perturbation("rip+=1 rsp+=8")];
        let (best, tier, _) = minimise(ARCH, &start, Tier::T4, &natural, 10_000, |candidate| {
            if *candidate == natural[0] {
                Some(Tier::T1)
            } else {
                (candidate.edits().len() == 1).then_some(Tier::T4)
            }
        });
        assert_eq!((best, tier), (natural[0], Tier::T1));
    }

    #[test]
    fn finds_the_smallest_value() {
        let start = perturbation("rsp+=5000");
        let (best, ..) = minimise(
            ARCH,
            &start,
            Tier::T4,
            &[],
            10_000,
            |candidate| match candidate.edits() {
                [Edit::Nudge { register, delta }] if *register == ARCH.sp() && *delta >= 777 => {
                    Some(Tier::T4)
                }
                _ => None,
            },
        );
        assert_eq!(best, perturbation("rsp+=777"));
    }

    #[test]
    fn keeps_the_start_when_nothing_smaller_does_and_stays_in_budget() {
        let start = perturbation("rip~bit9 rsp+=64");
        let mut questions = 0;
        let (best, tier, asked) = minimise(ARCH, &start, Tier::T2, &[], 50, |_| {
            questions += 1;
            None
        });
        assert_eq!((best, tier), (start, Tier::T2));
        assert!(asked <= 50 && asked == questions);
    }
}
