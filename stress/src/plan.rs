//! The plan: which cells, in which order.
//!
//! The first cells cover as many pairs of values as they can (each JDK with each workload, each clock with each collector, ...), so that a run
//! that ends early has seen as much as its time allowed. The same seed gives the same plan; shards divide it.

use std::collections::{BTreeMap, HashSet};

use crate::cell::{Cell, Dimension};
use crate::filter::Filter;

/// Which cells there are to choose from.
pub struct Space<'a> {
    /// Values on each axis.
    pub matrix: &'a BTreeMap<Dimension, Vec<String>>,
    /// Cells that are wanted.
    pub filter: &'a Filter,
    /// Cells that are never run.
    pub exclude: &'a [Filter],
    /// Why a cell cannot be run here, if it cannot: a JVM without that collector, a workload that needs a newer one.
    pub impossible: &'a dyn Fn(&Cell) -> Option<String>,
}

/// Cells in the order in which they run.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Plan {
    /// The cells.
    pub cells: Vec<Cell>,
    /// All points of the matrix, unwanted and impossible ones included.
    pub points: u64,
    /// Pairs of values that some wanted and possible cell has, as far as was looked.
    pub pairs: usize,
    /// Of these, how many the plan has.
    pub covered: usize,
    /// Why cells were left out, and how many that were looked at.
    pub impossible: BTreeMap<String, u64>,
    /// Whether every wanted and possible cell is in the plan.
    pub complete: bool,
}

/// Points that are looked at one by one; of a larger matrix, that many at random.
const ENUMERATED: u64 = 30_000;
/// Candidates for each place of the plan.
const CANDIDATES: usize = 48;

/// Makes a plan of at most `most` cells.
#[must_use]
pub fn plan(space: &Space<'_>, most: usize, seed: u64) -> Plan {
    let axes: Vec<&[String]> = Dimension::ALL
        .iter()
        .map(|dimension| space.matrix.get(dimension).map_or(&[][..], Vec::as_slice))
        .collect();
    let points = axes.iter().fold(1_u64, |points, values| {
        points.saturating_mul(values.len() as u64)
    });
    let mut plan = Plan {
        points,
        ..Plan::default()
    };
    let mut random = Random(seed);
    let complete = points <= ENUMERATED;
    let mut choices: Vec<Point> = Vec::new();
    let mut seen = HashSet::new();
    for number in 0..points.min(ENUMERATED) {
        let point = if complete {
            Point::numbered(number, &axes)
        } else {
            Point::at(|axis| random.below(axes[axis].len()))
        };
        if !complete && !seen.insert(point.clone()) {
            continue;
        }
        let cell = point.cell(&axes);
        if !space.filter.matches(&cell) || space.exclude.iter().any(|e| e.matches(&cell)) {
            continue;
        }
        match (space.impossible)(&cell) {
            Some(why) => *plan.impossible.entry(why).or_default() += 1,
            None => choices.push(point),
        }
    }
    let mut uncovered: HashSet<Pair> = choices.iter().flat_map(Point::pairs).collect();
    plan.pairs = uncovered.len();
    let wanted = most.min(choices.len());
    plan.complete = complete && wanted == choices.len();
    while plan.cells.len() < wanted {
        let news = |point: &Point| {
            point
                .pairs()
                .filter(|pair| uncovered.contains(pair))
                .count()
        };
        // The best of some random ones; all of them while that is cheap.
        let tried = if choices.len() <= 4 * CANDIDATES {
            choices.len()
        } else if uncovered.is_empty() {
            1
        } else {
            CANDIDATES
        };
        let best = (0..tried)
            .map(|n| {
                if tried == choices.len() {
                    n
                } else {
                    random.below(choices.len())
                }
            })
            // The first of equals.
            .rev()
            .max_by_key(|&at| news(&choices[at]))
            .unwrap_or(0);
        let point = choices.swap_remove(best);
        for pair in point.pairs() {
            uncovered.remove(&pair);
        }
        plan.cells.push(point.cell(&axes));
    }
    plan.covered = plan.pairs - uncovered.len();
    plan
}

impl Plan {
    /// Keeps what belongs to shard `number` (from 1) of `of`: neighbours go to different shards, so that each covers much early.
    pub fn shard(&mut self, number: usize, of: usize) {
        let mut place = 0;
        self.cells.retain(|_| {
            place += 1;
            (place - 1) % of == number - 1
        });
    }
}

/// `K/N` as a shard.
///
/// # Errors
/// What was expected.
pub fn parse_shard(text: &str) -> Result<(usize, usize), String> {
    let wrong = || format!("`{text}` is no shard; expected K/N with 1 <= K <= N, such as 2/4");
    let (number, of) = text.split_once('/').ok_or_else(wrong)?;
    let (number, of) = (
        number.parse().map_err(|_| wrong())?,
        of.parse().map_err(|_| wrong())?,
    );
    if (1..=of).contains(&number) {
        Ok((number, of))
    } else {
        Err(wrong())
    }
}

const AXES: usize = Dimension::ALL.len();

/// A value on one axis with a value on another, by their places.
type Pair = (u8, u32, u8, u32);

/// A cell as the places of its values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Point([u32; AXES]);

impl Point {
    fn at(mut place: impl FnMut(usize) -> usize) -> Self {
        Self(std::array::from_fn(|axis| place(axis) as u32))
    }

    /// The point of that number, the last axis counting fastest.
    fn numbered(mut number: u64, axes: &[&[String]]) -> Self {
        let mut places = [0; AXES];
        for (place, values) in places.iter_mut().zip(axes).rev() {
            let length = values.len().max(1) as u64;
            *place = (number % length) as u32;
            number /= length;
        }
        Self(places)
    }

    fn cell(&self, axes: &[&[String]]) -> Cell {
        let mut places = self.0.iter().zip(axes);
        Cell::of(|_| {
            let value = places
                .next()
                .and_then(|(&at, values)| values.get(at as usize));
            value.cloned().unwrap_or_default()
        })
    }

    fn pairs(&self) -> impl Iterator<Item = Pair> {
        (0..AXES)
            .flat_map(move |a| (a + 1..AXES).map(move |b| (a as u8, self.0[a], b as u8, self.0[b])))
    }
}

/// splitmix64: the same numbers everywhere and for ever.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound.max(1) as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(sizes: &[usize]) -> BTreeMap<Dimension, Vec<String>> {
        let axes = Dimension::ALL
            .iter()
            .zip(sizes.iter().chain(std::iter::repeat(&1)));
        axes.map(|(&axis, &size)| (axis, (0..size).map(|n| format!("{n}")).collect()))
            .collect()
    }

    fn planned(sizes: &[usize], filter: &str, most: usize, seed: u64) -> Plan {
        let filter = Filter::parse(filter).unwrap_or_else(|_| Filter::everything());
        let space = Space {
            matrix: &matrix(sizes),
            filter: &filter,
            exclude: &[],
            impossible: &|cell| (cell.collector == "3").then(|| "no such collector".to_owned()),
        };
        plan(&space, most, seed)
    }

    #[test]
    fn a_small_matrix_is_planned_in_full_and_each_cell_once() {
        let plan = planned(&[3, 4, 5], "", usize::MAX, 1);
        assert!(plan.complete);
        assert_eq!(plan.points, 60);
        assert_eq!(plan.cells.len(), 45);
        assert_eq!(plan.impossible["no such collector"], 15);
        assert_eq!(plan.covered, plan.pairs);
        let distinct: HashSet<_> = plan.cells.iter().collect();
        assert_eq!(distinct.len(), 45);
    }

    #[test]
    fn few_cells_cover_all_pairs() {
        // 8 x 3 x 11 x 2 x 4 x 30: the largest pair needs 330 cells.
        let plan = planned(&[8, 3, 11, 2, 4, 30], "", 700, 7);
        assert_eq!(plan.cells.len(), 700);
        assert!(!plan.complete);
        assert_eq!(plan.covered, plan.pairs);
        let first = planned(&[8, 3, 11, 2, 4, 30], "", 330, 7);
        assert!(
            first.covered * 100 > first.pairs * 85,
            "{} of {}",
            first.covered,
            first.pairs
        );
        assert_eq!(first.cells, plan.cells[..330]);
    }

    #[test]
    fn the_seed_decides() {
        let cells = |seed| planned(&[4, 3, 9], "", 20, seed).cells;
        assert_eq!(cells(5), cells(5));
        let huge = |seed| planned(&[40, 6, 40, 9, 9, 50, 40], "", 20, seed).cells;
        assert_eq!(huge(5), huge(5));
        assert_ne!(huge(5), huge(6));
    }

    #[test]
    fn shards_divide_the_plan() {
        let whole = planned(&[3, 3, 7], "", usize::MAX, 1);
        let mut all = Vec::new();
        for number in 1..=4 {
            let mut part = whole.clone();
            part.shard(number, 4);
            assert!(part.cells.len() >= whole.cells.len() / 4);
            all.extend(part.cells);
        }
        all.sort();
        let mut cells = whole.cells;
        cells.sort();
        assert_eq!(all, cells);
        assert_eq!(parse_shard("2/4"), Ok((2, 4)));
        for wrong in ["0/4", "5/4", "x/4", "2", "1/0", ""] {
            assert!(parse_shard(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_filter_that_matches_nothing_leaves_nothing() {
        let plan = planned(&[3, 3], "jdk=77", usize::MAX, 1);
        assert!(plan.cells.is_empty() && plan.pairs == 0);
    }
}
