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
use crate::snapshots::{CAPSULE, SCENE, Scene, Taken, extent, kind, regions};

use super::Session;

/// When nothing new comes for so long, a further one of each kind is welcome.
const PATIENCE: Duration = Duration::from_millis(1_500);
/// Words of the walked stack that are looked through for a caller.
const WORDS: usize = 64;
/// Moments after which another thread is looked at.
const MOMENTS_A_TURN: u64 = 512;
/// Kinds of work that a workload has; it takes them modulo what it has.
const WORKS: u64 = 64;
/// Failures in a row after which taking is given up.
const FAILURES: u32 = 20;

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
        let began = Instant::now();
        let mut last = began;
        let mut allowed = 1;
        let mut of_kind: BTreeMap<String, usize> = BTreeMap::new();
        let mut all = Vec::new();
        let mut failures = 0;
        while all.len() < count && began.elapsed() < limit {
            if last.elapsed() > PATIENCE {
                (allowed, last) = (allowed + 1, Instant::now());
            }
            let known = |kind: &str| of_kind.get(kind).copied().unwrap_or(0) >= allowed;
            match self.take_one(folder, known) {
                Ok(None) => {}
                Ok(Some(taken)) => {
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
        Ok(all)
    }

    /// A snapshot of the next moment, unless its kind is known or its walk fails.
    fn take_one(
        &mut self,
        folder: &Path,
        known: impl Fn(&str) -> bool,
    ) -> Result<Option<Taken>, HarnessError> {
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
            kind: (1 + turn % WORKS) as u32,
            steps: 0,
            fresh: false,
            natural: &|_| {},
        };
        let jvm = hunt.jvm().clone();
        let mut taken: Result<_, HarnessError> = Ok(None);
        engine.visit(&request, &mut |moment| {
            // Compiled since the last survey: nothing is known of it yet.
            let pc = Address(moment.untouched.pc().0);
            if world.code.kind(pc) == BlobKind::FreeCode {
                return;
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
            let healthy = walked.is_some_and(
                |walked| matches!(walked.ended, walkfuzz_engine::Ended::Returned(code) if code.0 > 0),
            );
            if !healthy {
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
                    Outcome::Frames(frames) if frames.frames > 0 => Ok(()),
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
            return Ok(None);
        };
        let capsule =
            Capsule::read(&path).map_err(|error| HarnessError::Snapshot(error.to_string()))?;
        Ok(Some(Taken {
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
