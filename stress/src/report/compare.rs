//! Two runs beside each other: cells matched by their ids, and what changed beyond chance.
//!
//! Many comparisons are made at once, so each family (crash rates; code shares) is adjusted by Benjamini and Hochberg, and a change is
//! *significant* where the adjusted value is at most 0.05. Walks of one cell are not independent of each other, and there are millions: for code
//! shares a change must also be large enough to matter. Contract: pure; docs/stress-schema.md documents the values.

use std::collections::{BTreeMap, HashMap, HashSet};

use jiff::Timestamp;
use walkfuzz_record::summary::Share;
use walkfuzz_record::{Generation, KOfN};

use super::Run;
use super::axes::in_order;
use super::comparison::{
    CodeChange, Comparison, FindingChange, RateChange, RunName, VerdictChange,
};
use super::significance::{LEVEL, adjusted, apart, inflation, rates_differ, sign_test, two_sided};
use super::summary::{crashes, generation};
use crate::cell::Dimension;
use crate::result::{CellResult, SCHEMA, Verdict};

/// What a code's share must change by, as a ratio and in all, to be called a change.
const RATIO: f64 = 1.25;
const POINTS: f64 = 0.001;

type Pair<'a> = (&'a CellResult, &'a CellResult);

/// Puts two runs beside each other.
#[must_use]
pub fn compare(before: Run<'_>, after: Run<'_>) -> Comparison {
    let ids: HashMap<&str, &CellResult> = before
        .cells
        .iter()
        .map(|cell| (cell.id.as_str(), cell))
        .collect();
    let others: HashSet<&str> = after.cells.iter().map(|cell| cell.id.as_str()).collect();
    let pairs: Vec<Pair<'_>> = after
        .in_order()
        .into_iter()
        .filter_map(|cell| Some((*ids.get(cell.id.as_str())?, cell)))
        .collect();
    let judged: Vec<Pair<'_>> = pairs
        .iter()
        .copied()
        .filter(|(a, b)| a.verdict != Verdict::Outside && b.verdict != Verdict::Outside)
        .collect();
    let (rates, rates_compared) = rates(&judged);
    let (codes, codes_compared) = codes(&judged);
    let ids_of = |run: Run<'_>, known: &dyn Fn(&str) -> bool| {
        let cells = run.in_order().into_iter();
        cells
            .filter(|cell| !known(&cell.id))
            .map(|cell| cell.id.clone())
            .collect()
    };
    Comparison {
        schema: SCHEMA,
        before: name(before),
        after: name(after),
        cautions: cautions(before, after),
        matched: pairs.len() as u64,
        only_before: ids_of(before, &|id| others.contains(id)),
        only_after: ids_of(after, &|id| ids.contains_key(id)),
        verdicts: verdicts(&pairs),
        rates,
        rates_compared,
        codes,
        codes_compared,
        appeared: findings(&judged, |(a, b)| (b, a)),
        gone: findings(&judged, |(a, b)| (a, b)),
    }
}

fn name(run: Run<'_>) -> RunName {
    RunName {
        profile: run.facts.profile.clone(),
        started: run.facts.started,
        walkfuzz: run.facts.walkfuzz.clone(),
        cells: run.cells.len() as u64,
    }
}

fn cautions(before: Run<'_>, after: Run<'_>) -> Vec<String> {
    let (a, b) = (before.facts, after.facts);
    let mut cautions = Vec::new();
    let mut note = |what: &str, a: &str, b: &str| {
        if a != b {
            cautions.push(format!("{what}: {a} before, {b} after"));
        }
    };
    note("another profile", &a.profile, &b.profile);
    note("another version of walkfuzz", &a.walkfuzz, &b.walkfuzz);
    note("another kind of machine", &a.machine.arch, &b.machine.arch);
    note("another kernel", &a.machine.kernel, &b.machine.kernel);
    note(
        "other cpus",
        &a.machine.cpus.to_string(),
        &b.machine.cpus.to_string(),
    );
    let ended = |finished: Option<Timestamp>| {
        if finished.is_some() {
            "finished"
        } else {
            "cut off"
        }
    };
    note(
        "one of them did not finish",
        ended(a.finished),
        ended(b.finished),
    );
    cautions
}

fn verdicts(pairs: &[Pair<'_>]) -> Vec<VerdictChange> {
    let place = |verdict| Verdict::ALL.iter().position(|&other| other == verdict);
    let mut changes: Vec<VerdictChange> = pairs
        .iter()
        .filter(|(a, b)| a.verdict != b.verdict)
        .map(|(a, b)| VerdictChange {
            id: b.id.clone(),
            cell: b.cell.to_string(),
            before: a.verdict,
            after: b.verdict,
            reason: b.reason.clone(),
            command: b.command.clone(),
        })
        .collect();
    // Stable: equals stay in the order of the plan.
    changes.sort_by_key(|change| {
        let worse = place(change.after) < place(change.before);
        (!worse, place(change.after), place(change.before))
    });
    changes
}

/// Where cells are counted together: everything, and each value of the axes on which matched cells differ.
fn scopes(pairs: &[Pair<'_>], axes: &[Dimension]) -> Vec<(String, Vec<usize>)> {
    let mut scopes = vec![("all".to_owned(), (0..pairs.len()).collect())];
    for &axis in axes {
        let mut values: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (place, (_, cell)) in pairs.iter().enumerate() {
            values.entry(cell.cell.get(axis)).or_default().push(place);
        }
        if values.len() < 2 {
            continue;
        }
        let mut values: Vec<(&str, Vec<usize>)> = values.into_iter().collect();
        values.sort_by(|(a, _), (b, _)| in_order(axis, a, b));
        scopes.extend(
            values
                .into_iter()
                .map(|(value, places)| (format!("{}={value}", axis.name()), places)),
        );
    }
    scopes
}

fn rates(pairs: &[Pair<'_>]) -> (Vec<RateChange>, u64) {
    let counts: Vec<(KOfN, KOfN)> = pairs
        .iter()
        .map(|(a, b)| (crashes(a), crashes(b)))
        .collect();
    let scopes = scopes(pairs, Dimension::ALL);
    let groups = scopes.len();
    let sums = scopes.into_iter().map(|(scope, places)| {
        let sum = |of: &dyn Fn(&(KOfN, KOfN)) -> KOfN| {
            places.iter().fold(KOfN::default(), |sum, &place| {
                let count = of(&counts[place]);
                KOfN::new(sum.k + count.k, sum.of + count.of)
            })
        };
        (
            scope,
            sum(&|(before, _)| *before),
            sum(&|(_, after)| *after),
        )
    });
    let mut rows: Vec<(String, KOfN, KOfN)> = sums.collect();
    // Where nothing crashed nothing can be told, whatever the walks: such cells are no comparisons.
    let cells = pairs
        .iter()
        .zip(&counts)
        .filter(|(_, (a, b))| a.k + b.k > 0);
    rows.extend(cells.map(|((_, cell), (a, b))| (cell.id.clone(), *a, *b)));
    let told: Vec<usize> = (0..rows.len())
        .filter(|&at| rows[at].1.k + rows[at].2.k > 0)
        .collect();
    let chances: Vec<f64> = told
        .iter()
        .map(|&at| rates_differ(rows[at].1, rows[at].2))
        .collect();
    let corrected = adjusted(&chances);
    let mut found: HashMap<usize, (f64, f64)> = HashMap::new();
    for ((&at, &chance), &corrected) in told.iter().zip(&chances).zip(&corrected) {
        found.insert(at, (chance, corrected));
    }
    let changes = rows
        .into_iter()
        .enumerate()
        .filter_map(|(at, (scope, before, after))| {
            let (chance, adjusted) = found.get(&at).copied().unwrap_or((1.0, 1.0));
            let significant = adjusted <= LEVEL;
            (at < groups || significant).then(|| RateChange {
                scope,
                before: Share::new(before.k, before.of),
                after: Share::new(after.k, after.of),
                chance,
                adjusted,
                significant,
            })
        });
    (changes.collect(), told.len() as u64)
}

type Key<'a> = (Generation, i32, &'a str);

fn codes(pairs: &[Pair<'_>]) -> (Vec<CodeChange>, u64) {
    let counts: Vec<BTreeMap<Key<'_>, (u64, u64)>> = pairs
        .iter()
        .map(|(a, b)| {
            let mut counts: BTreeMap<Key<'_>, (u64, u64)> = BTreeMap::new();
            for row in &a.codes {
                counts
                    .entry((row.generation, row.code, &row.name))
                    .or_default()
                    .0 += row.untouched;
            }
            for row in &b.codes {
                counts
                    .entry((row.generation, row.code, &row.name))
                    .or_default()
                    .1 += row.untouched;
            }
            counts
        })
        .collect();
    let mut changes = Vec::new();
    for (scope, places) in scopes(pairs, &[Dimension::Jdk]) {
        changes.extend(codes_of(&scope, &places, pairs, &counts));
    }
    let groups = changes.len();
    for change in &mut changes {
        change.chance = sign_test(change.rose, change.fell);
    }
    for (place, (_, cell)) in pairs.iter().enumerate() {
        changes.extend(codes_of(&cell.id, &[place], pairs, &counts));
    }
    chances_of_cells(&mut changes[groups..]);
    let compared = changes.len() as u64;
    let chances: Vec<f64> = changes.iter().map(|change| change.chance).collect();
    for (change, adjusted) in changes.iter_mut().zip(adjusted(&chances)) {
        change.adjusted = adjusted;
        change.significant = adjusted <= LEVEL && matters(change.before, change.after);
    }
    let mut place = 0;
    changes.retain(|change| {
        place += 1;
        place <= groups || change.significant
    });
    (changes, compared)
}

/// A cell's shares differ from night to night by more than its walks' number lets expect; all cells together show by how much.
fn chances_of_cells(changes: &mut [CodeChange]) {
    let count = |share: Share| KOfN::new(share.k, share.of);
    let distance = |change: &CodeChange| apart(count(change.before), count(change.after));
    let mut distances: BTreeMap<(Generation, i32), Vec<f64>> = BTreeMap::new();
    for change in changes.iter() {
        let key = (change.generation, change.code);
        distances.entry(key).or_default().push(distance(change));
    }
    let noise: BTreeMap<(Generation, i32), f64> = distances
        .into_iter()
        .map(|(key, distances)| (key, inflation(&distances)))
        .collect();
    for change in changes {
        let noise = noise[&(change.generation, change.code)];
        change.chance = two_sided(distance(change) / noise);
    }
}

/// The codes of the cells at `places`; the denominator are the walks of those cells that speak the code's generation.
fn codes_of(
    scope: &str,
    places: &[usize],
    pairs: &[Pair<'_>],
    counts: &[BTreeMap<Key<'_>, (u64, u64)>],
) -> Vec<CodeChange> {
    let mut sums: BTreeMap<Key<'_>, (u64, u64)> = BTreeMap::new();
    let mut walks: BTreeMap<Generation, (u64, u64)> = BTreeMap::new();
    for &place in places {
        let (a, b) = pairs[place];
        if let Some(generation) = generation(a).or_else(|| generation(b)) {
            let sum = walks.entry(generation).or_default();
            *sum = (sum.0 + a.untouched.walks, sum.1 + b.untouched.walks);
        }
        for (&key, count) in &counts[place] {
            let sum = sums.entry(key).or_default();
            *sum = (sum.0 + count.0, sum.1 + count.1);
        }
    }
    let rows = sums
        .into_iter()
        .filter(|(_, (before, after))| before + after > 0);
    rows.filter_map(|((generation, code, name), (before, after))| {
        let walks = walks
            .get(&generation)
            .filter(|walks| walks.0 > 0 && walks.1 > 0)?;
        let (mut rose, mut fell) = (0, 0);
        for &place in places {
            let (a, b) = pairs[place];
            let (before, after) = counts[place]
                .get(&(generation, code, name))
                .copied()
                .unwrap_or_default();
            let one = KOfN::new(before, a.untouched.walks).share();
            let other = KOfN::new(after, b.untouched.walks).share();
            match (one, other) {
                (Some(one), Some(other)) if one < other => rose += 1,
                (Some(one), Some(other)) if one > other => fell += 1,
                _ => {}
            }
        }
        Some(CodeChange {
            scope: scope.to_owned(),
            generation,
            code,
            name: name.to_owned(),
            before: Share::new(before, walks.0),
            after: Share::new(after, walks.1),
            rose,
            fell,
            chance: 1.0,
            adjusted: 1.0,
            significant: false,
        })
    })
    .collect()
}

fn matters(before: Share, after: Share) -> bool {
    let share = |share: Share| KOfN::new(share.k, share.of).share().unwrap_or(0.0);
    let (low, high) = (
        share(before).min(share(after)),
        share(before).max(share(after)),
    );
    high - low >= POINTS && high >= RATIO * low
}

/// Findings of the one (as `order` tells) that the other has nowhere.
fn findings<'a>(
    pairs: &[Pair<'a>],
    order: impl Fn(Pair<'a>) -> (&'a CellResult, &'a CellResult),
) -> Vec<FindingChange> {
    let ordered: Vec<(&CellResult, &CellResult)> = pairs.iter().map(|&pair| order(pair)).collect();
    let there: HashSet<&str> = ordered
        .iter()
        .flat_map(|(_, other)| &other.findings)
        .map(|finding| finding.signature.as_str())
        .collect();
    let mut groups: BTreeMap<&str, (FindingChange, u64, u64)> = BTreeMap::new();
    for (one, other) in &ordered {
        for finding in &one.findings {
            if finding.perturbed || there.contains(finding.signature.as_str()) {
                continue;
            }
            let (group, walks, others) = groups.entry(&finding.signature).or_insert_with(|| {
                let group = FindingChange {
                    signature: finding.signature.clone(),
                    title: finding.title.clone(),
                    count: 0,
                    cells: 0,
                    chance: 1.0,
                    command: one.command.clone(),
                };
                (group, 0, 0)
            });
            group.count += finding.count;
            group.cells += 1;
            *walks += crashes(one).of;
            *others += crashes(other).of;
        }
    }
    let mut findings: Vec<FindingChange> = groups
        .into_values()
        .map(|(mut group, walks, others)| {
            group.chance = rates_differ(KOfN::new(group.count, walks), KOfN::new(0, others));
            group
        })
        .collect();
    findings.sort_by_key(|group| std::cmp::Reverse((group.cells, group.count)));
    findings
}
