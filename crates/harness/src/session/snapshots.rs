//! Taking snapshots: many healthy moments, spread over what threads do.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use walkfuzz_capsule::capture::Keep;
use walkfuzz_capsule::{Capsule, Outcome};
use walkfuzz_context::{Address, BlobKind};
use walkfuzz_engine::Request;
use walkfuzz_walkers::MAX_DEPTH;

use crate::capsules::{Wanted, keep};
use crate::error::HarnessError;
use crate::interrupt;
use crate::snapshots::{
    CAPSULE, GROUPS, SCENE, Scene, Taken, WITHOUT_FRAMES, extent, group, kind, regions,
};

use super::Session;

/// When nothing new comes for so long, a further one of each kind is welcome.
const PATIENCE: Duration = Duration::from_millis(1_500);
/// Frames of which one is better not to have more: each walk goes over all of them, and those far from the pc are the same each time.
const FEW_FRAMES: i32 = 32;
/// When nothing new comes for so long, one with more frames is welcome.
const PATIENCE_WITH_FEW: Duration = Duration::from_millis(750);
/// Words of the walked stack that are looked through for a caller.
const WORDS: usize = 64;
/// Moments after which another thread is looked at.
const MOMENTS_A_TURN: u64 = 512;
/// Kinds of work that a workload has; it takes them modulo what it has.
const WORKS: u64 = 64;
/// Code is read anew for a pc in code that was compiled since, but not more often.
const LOOK: Duration = Duration::from_millis(100);
/// The share of the time in which places are kept for the groups that have not come.
const WAIT: u32 = 4;
/// Failures in a row after which taking is given up.
const FAILURES: u32 = 20;

/// What a moment was good for.
enum Seen {
    /// It was taken.
    Taken(Taken),
    /// Code was read anew.
    UnknownCode,
    /// It would have been taken, but its walk comes to no frames.
    Failed {
        /// Its kind.
        kind: String,
        /// What it comes to: a code, or none.
        code: Option<i32>,
    },
    /// Neither.
    Nothing,
}

impl Session {
    /// Takes `count` snapshots into `folder`, or as many as come within `limit`, and tells `told` of each.
    ///
    /// # Errors
    /// No thread can be held any more, or nothing can be written.
    pub fn take_snapshots(
        &mut self,
        count: usize,
        folder: &Path,
        limit: Duration,
        mut told: impl FnMut(&Taken),
    ) -> Result<Vec<Taken>, HarnessError> {
        std::fs::create_dir_all(folder).map_err(|error| {
            HarnessError::Snapshot(format!("cannot make {}: {error}", folder.display()))
        })?;
        let works = self.works_of_groups()?;
        let began = Instant::now();
        let mut last = began;
        let mut allowed = 1;
        let mut missing: Vec<&'static str> = GROUPS.map(|(group, _)| group).to_vec();
        let mut looked = began;
        let mut failed: BTreeMap<(String, Option<i32>), u64> = BTreeMap::new();
        let mut of_kind: BTreeMap<String, usize> = BTreeMap::new();
        let mut all = Vec::new();
        let mut failures = 0;
        while all.len() < count && began.elapsed() < limit && !interrupt::seen() {
            if last.elapsed() > PATIENCE {
                (allowed, last) = (allowed + 1, Instant::now());
            }
            // Of rare groups at least one, if they come in time.
            let kept = if began.elapsed() < limit / WAIT {
                missing.len().min(count / 2)
            } else {
                0
            };
            let only_missing = all.len() + kept >= count;
            let known = |kind: &str| {
                of_kind.get(kind).copied().unwrap_or(0) >= allowed
                    || only_missing && !missing.contains(&group(kind))
            };
            let turn = self.engine.moments() / MOMENTS_A_TURN;
            let aimed = missing.get(turn as usize / 2 % missing.len().max(1));
            let aimed = aimed.and_then(|group| works.get(group));
            let work = match aimed {
                Some(works) if turn.is_multiple_of(2) => {
                    works.get(turn as usize / 4 % works.len().max(1)).copied()
                }
                _ => None,
            };
            let work = work.unwrap_or((1 + turn % WORKS) as u32);
            let may_look = looked.elapsed() >= LOOK;
            let most_frames = if last.elapsed() > PATIENCE_WITH_FEW {
                i32::MAX
            } else {
                FEW_FRAMES
            };
            match self.take_one(folder, known, most_frames, work, may_look) {
                Ok(Seen::UnknownCode) => looked = Instant::now(),
                Ok(Seen::Nothing) => {}
                Ok(Seen::Failed { kind, code }) => {
                    *failed.entry((group(&kind).to_owned(), code)).or_default() += 1;
                }
                Ok(Seen::Taken(taken)) => {
                    missing.retain(|missing| *missing != group(&taken.kind));
                    *of_kind.entry(taken.kind.clone()).or_default() += 1;
                    told(&taken);
                    all.push(taken);
                    (last, failures) = (Instant::now(), 0);
                }
                Err(HarnessError::Snapshot(problem)) if failures < FAILURES => {
                    // One moment's: its walk may depend on more than memory.
                    eprintln!("walkfuzz: no snapshot of one moment: {problem}");
                    failures += 1;
                }
                Err(error) => return Err(error),
            }
            self.upkeep()?;
        }
        if interrupt::seen() {
            return Ok(all);
        }
        for group in missing {
            let of_group = failed.iter().filter(|((failed, _), _)| failed == group);
            let codes: Vec<String> = of_group
                .map(|((_, code), times)| match code {
                    Some(code) => format!("{times} walks gave {code}"),
                    None => format!("{times} walks faulted"),
                })
                .collect();
            let why = if codes.is_empty() {
                "no thread was met there".to_owned()
            } else {
                codes.join(", ")
            };
            eprintln!("walkfuzz: no snapshot in {group}: {why}");
        }
        Ok(all)
    }

    /// Numbers of the kinds of work in which threads of a group are likely to be met.
    fn works_of_groups(&self) -> Result<BTreeMap<&'static str, Vec<u32>>, HarnessError> {
        let names = self
            .jvm
            .workload_kinds()
            .map_err(|error| HarnessError::Snapshot(error.to_string()))?;
        let number = |work: &&str| {
            let at = names.iter().position(|name| name == work)?;
            u32::try_from(at + 1).ok()
        };
        Ok(GROUPS
            .iter()
            .map(|(group, works)| (*group, works.iter().filter_map(number).collect()))
            .collect())
    }

    /// A snapshot of the next moment, unless its kind is known, its walk fails or has too many frames.
    fn take_one(
        &mut self,
        folder: &Path,
        known: impl Fn(&str) -> bool,
        most_frames: i32,
        work: u32,
        may_look: bool,
    ) -> Result<Seen, HarnessError> {
        let Self {
            settings,
            engine,
            world,
            walker,
            hunt,
            trace,
            ..
        } = self;
        let turn = engine.moments() / MOMENTS_A_TURN;
        let request = Request {
            worker: Some(turn as usize % settings.threads),
            kind: work,
            steps: 0,
            fresh: false,
            natural: &|_| {},
        };
        let jvm = hunt.jvm().clone();
        let mut looked = false;
        let mut unhealthy = None;
        let mut taken: Result<_, HarnessError> = Ok(None);
        engine.visit(&request, &mut |moment| {
            // Compiled since the last survey: nothing is known of it yet. Code that was replaced on the stack always is.
            let pc = Address(moment.untouched.pc().0);
            if world.code.kind(pc) == BlobKind::FreeCode {
                if !may_look {
                    return;
                }
                looked = true;
                world.look_at_code_again(walkfuzz_vmstructs::Tid(moment.thread.tid));
            }
            world.stack.keep(moment);
            let words = world.stack.words();
            let words = words.get(..WORDS).unwrap_or(words);
            let kind = kind(&world.code, &moment.untouched, words);
            if known(&kind) {
                return;
            }
            let untouched = moment.untouched;
            let walked = moment.walk(&**walker, &untouched, MAX_DEPTH as i32, trace);
            let code = walked.and_then(|walked| match walked.ended {
                walkfuzz_engine::Ended::Returned(code) => Some(code.0),
                _ => None,
            });
            let poor = WITHOUT_FRAMES.contains(&group(&kind));
            if code.is_none_or(|code| code <= 0 && !poor) {
                unhealthy = Some(Seen::Failed { kind, code });
                return;
            }
            if code > Some(most_frames) {
                return;
            }
            world.meet(moment);
            taken = (|| {
                let tid = walkfuzz_vmstructs::Tid(moment.thread.tid);
                let regions = regions(world, world.stack_of(tid).unwrap_or_default())?;
                let wanted = Wanted {
                    registers: untouched,
                    depth: MAX_DEPTH as i32,
                    jvm: jvm.version.clone(),
                    keep: Keep {
                        whole: extent(&regions),
                        ..Keep::default()
                    },
                };
                let name = name(&kind, moment.serial);
                let path = folder.join(format!("{name}.{CAPSULE}"));
                let healthy = |outcome: &Outcome| match outcome {
                    Outcome::Frames(frames) if frames.frames > 0 || poor => Ok(()),
                    other => Err(format!("an untouched walk does not succeed: {other}")),
                };
                keep(moment, world, &**walker, &wanted, healthy, &path)
                    .map_err(HarnessError::Snapshot)?;
                let scene = Scene::of(world, kind.clone(), jvm.clone(), regions);
                scene.write(&folder.join(format!("{name}.{SCENE}")))?;
                Ok(Some((kind.clone(), path)))
            })();
        })?;
        let Some((kind, path)) = taken? else {
            return Ok(match unhealthy {
                _ if looked => Seen::UnknownCode,
                Some(unhealthy) => unhealthy,
                None => Seen::Nothing,
            });
        };
        let capsule =
            Capsule::read(&path).map_err(|error| HarnessError::Snapshot(error.to_string()))?;
        Ok(Seen::Taken(Taken {
            kind,
            frames: match capsule.facts.expected {
                Outcome::Frames(frames) => frames.frames,
                Outcome::Fault(_) => 0,
            },
            pages: capsule.pages.len(),
            bytes: std::fs::metadata(&path).map_or(0, |file| file.len()),
            path: path.display().to_string(),
        }))
    }
}

/// A file name.
fn name(kind: &str, serial: u64) -> String {
    let kind: String = kind
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    format!("{kind}-{}-{serial}", std::process::id())
}
