//! Shards of a run put together.
//!
//! What a merged run reports is, byte for byte, what the run in one piece reports of the same results. Contract: pure; copying the cells'
//! folders is the caller's: [`Merged::from`] says from where.

use std::collections::BTreeMap;

use crate::cell::Cell;
use crate::plan::parse_shard;
use crate::result::CellResult;
use crate::store::StressFacts;
use walkfuzz_record::ProcessOutcome;

/// A run to be merged.
#[derive(Clone, Debug)]
pub struct Part {
    /// What messages call it: its folder.
    pub name: String,
    /// What was planned.
    pub facts: StressFacts,
    /// Its finished cells.
    pub cells: Vec<CellResult>,
}

/// Runs as one.
#[derive(Clone, Debug, PartialEq)]
pub struct Merged {
    /// What was planned in all.
    pub facts: StressFacts,
    /// The finished cells, in the order of the plan.
    pub cells: Vec<CellResult>,
    /// For each of the cells the place of its part.
    pub from: Vec<usize>,
}

/// Why runs are not parts of one.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    /// No run at all.
    #[error("there is nothing to merge: name the folders of the shards")]
    Nothing,
    /// Runs of other things.
    #[error(
        "{one} and {other} are no shards of one run: they differ in {what} ({left} and {right})"
    )]
    Differ {
        /// A part.
        one: String,
        /// Another one.
        other: String,
        /// In what they differ.
        what: &'static str,
        /// The one's.
        left: String,
        /// The other's.
        right: String,
    },
    /// A label that means nothing.
    #[error("{name}: {reason}")]
    Shard {
        /// The part.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Two results that cannot both be it.
    #[error("{one} and {other} both finished cell {cell}, and differently: leave one of them out")]
    Twice {
        /// A part.
        one: String,
        /// Another one.
        other: String,
        /// The cell's id.
        cell: String,
    },
}

/// Puts the shards of a run together. Some may be missing: then the merged run says of which shards it is.
///
/// A cell that two parts have is taken from the one in which it finished; one that finished in both must be the same in both.
///
/// # Errors
/// The parts are not of one run: another profile, seed, plan, version of walkfuzz, kind of machine; or two results of one cell.
pub fn merge(parts: Vec<Part>) -> Result<Merged, MergeError> {
    let first = parts.first().ok_or(MergeError::Nothing)?;
    let mut shards: BTreeMap<usize, &Part> = BTreeMap::new();
    let (_, of) = shard(first)?;
    for part in &parts {
        alike(first, part)?;
        let (number, count) = shard(part)?;
        differ(first, part, "the number of shards", &of, &count)?;
        match shards.get(&number) {
            Some(same) if same.facts.plan != part.facts.plan => {
                return Err(differing(
                    same,
                    part,
                    "the plan",
                    &"other cells",
                    &"for the same shard",
                ));
            }
            Some(_) => {}
            None => {
                shards.insert(number, part);
            }
        }
    }
    let plan = whole_plan(&shards, of)?;
    let facts = facts(&parts, &shards, of, plan);
    let (cells, from) = cells(&parts, &facts.plan)?;
    Ok(Merged { facts, cells, from })
}

fn shard(part: &Part) -> Result<(usize, usize), MergeError> {
    let Some(label) = &part.facts.shard else {
        return Ok((1, 1));
    };
    parse_shard(label).map_err(|reason| MergeError::Shard {
        name: part.name.clone(),
        reason,
    })
}

fn alike(first: &Part, part: &Part) -> Result<(), MergeError> {
    let (a, b) = (&first.facts, &part.facts);
    differ(first, part, "the profile", &a.profile, &b.profile)?;
    differ(first, part, "the seed", &a.seed, &b.seed)?;
    differ(
        first,
        part,
        "the version of walkfuzz",
        &a.walkfuzz,
        &b.walkfuzz,
    )?;
    differ(first, part, "the machine", &a.machine.arch, &b.machine.arch)?;
    differ(
        first,
        part,
        "the points of the matrix",
        &a.points,
        &b.points,
    )?;
    let pairs = |facts: &StressFacts| format!("{} of {}", facts.pairs.0, facts.pairs.1);
    differ(first, part, "the pairs to cover", &pairs(a), &pairs(b))?;
    let left_out = |facts: &StressFacts| format!("{:?}", facts.impossible);
    differ(first, part, "what cannot run", &left_out(a), &left_out(b))
}

fn differ<T: PartialEq + ToString>(
    one: &Part,
    other: &Part,
    what: &'static str,
    left: &T,
    right: &T,
) -> Result<(), MergeError> {
    if left == right {
        return Ok(());
    }
    Err(differing(one, other, what, left, right))
}

fn differing(
    one: &Part,
    other: &Part,
    what: &'static str,
    left: &impl ToString,
    right: &impl ToString,
) -> MergeError {
    MergeError::Differ {
        one: one.name.clone(),
        other: other.name.clone(),
        what,
        left: left.to_string(),
        right: right.to_string(),
    }
}

/// Shards take turns ([`crate::Plan::shard`]), so do their cells here. A cell in two shards means that their plans are not parts of one.
fn whole_plan(shards: &BTreeMap<usize, &Part>, of: usize) -> Result<Vec<Cell>, MergeError> {
    let longest = shards
        .values()
        .map(|part| part.facts.plan.len())
        .max()
        .unwrap_or(0);
    let mut plan = Vec::new();
    let mut owners: BTreeMap<&Cell, &Part> = BTreeMap::new();
    for place in 0..longest {
        for part in shards.values() {
            let Some(cell) = part.facts.plan.get(place) else {
                continue;
            };
            if let Some(owner) = owners.insert(cell, part) {
                return Err(differing(owner, part, "the plan", &"both have", &cell.id()));
            }
            plan.push(cell.clone());
        }
    }
    // Earlier shards are as long as later ones or one cell longer.
    let mut before: Option<(&Part, usize)> = None;
    for (number, part) in shards {
        let length = part.facts.plan.len();
        let wrong = length + 1 < longest
            || before.is_some_and(|(_, earlier)| earlier < length)
            || *number > of;
        if wrong {
            let (other, cells) = before.unwrap_or((part, longest));
            return Err(differing(other, part, "the plan's length", &cells, &length));
        }
        before = Some((part, length));
    }
    Ok(plan)
}

fn facts(
    parts: &[Part],
    shards: &BTreeMap<usize, &Part>,
    of: usize,
    plan: Vec<Cell>,
) -> StressFacts {
    // The caller has made sure that there is one.
    let first = shards.values().next().map_or(&parts[0], |part| part);
    let mut facts = first.facts.clone();
    facts.plan = plan;
    facts.command = without_shard(&facts.command);
    facts.shard = (shards.len() < of).then(|| {
        let numbers: Vec<String> = shards.keys().map(ToString::to_string).collect();
        format!("{}/{of}", numbers.join("+"))
    });
    for part in parts {
        facts.started = facts.started.min(part.facts.started);
        facts.finished = match (facts.finished, part.facts.finished) {
            (Some(one), Some(other)) => Some(one.max(other)),
            _ => None,
        };
        let (all, machine) = (&mut facts.machine, &part.facts.machine);
        all.cpus = all.cpus.min(machine.cpus);
        all.emulated |= machine.emulated;
        if !all
            .kernel
            .split(", ")
            .any(|kernel| kernel == machine.kernel)
        {
            all.kernel = format!("{}, {}", all.kernel, machine.kernel);
        }
    }
    facts
}

/// The command of the run in one piece.
fn without_shard(command: &[String]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut words = command.iter();
    while let Some(word) = words.next() {
        if word == "--" {
            kept.push(word.clone());
            kept.extend(words.by_ref().cloned());
        } else if word == "--shard" {
            words.next();
        } else if !word.starts_with("--shard=") {
            kept.push(word.clone());
        }
    }
    kept
}

fn cells(parts: &[Part], plan: &[Cell]) -> Result<(Vec<CellResult>, Vec<usize>), MergeError> {
    let mut best: BTreeMap<&str, (usize, &CellResult)> = BTreeMap::new();
    for (part, number) in parts.iter().zip(0..) {
        for cell in &part.cells {
            let Some((other, same)) = best.get(cell.id.as_str()).copied() else {
                best.insert(&cell.id, (number, cell));
                continue;
            };
            match (is_finished(same), is_finished(cell)) {
                (true, true) if same != cell => {
                    return Err(MergeError::Twice {
                        one: parts[other].name.clone(),
                        other: part.name.clone(),
                        cell: cell.id.clone(),
                    });
                }
                (false, true) => {
                    best.insert(&cell.id, (number, cell));
                }
                _ => {}
            }
        }
    }
    let mut from = Vec::new();
    let mut cells = Vec::new();
    for id in plan.iter().map(Cell::id) {
        if let Some((number, cell)) = best.remove(id.as_str()) {
            cells.push(cell.clone());
            from.push(number);
        }
    }
    for (number, cell) in best.into_values() {
        cells.push(cell.clone());
        from.push(number);
    }
    Ok((cells, from))
}

/// A cell that the user interrupted has a result, and none that counts.
fn is_finished(cell: &CellResult) -> bool {
    cell.process.outcome != ProcessOutcome::Interrupted
}
