//! Walks of held moments, kept in files: captured in a copy of the moment, and checked before they are kept.

use std::path::Path;
use std::time::Duration;

use walkfuzz_capsule::capture::{Ground, Keep, KnownFile, Request};
use walkfuzz_capsule::{Capsule, Opinion, Outcome, SafeFetch};
use walkfuzz_context::{Address, Pc, Registers};
use walkfuzz_engine::{FrozenEnd, Moment, Shared, freeze};
use walkfuzz_guard::Fault;
use walkfuzz_record::Finding;
use walkfuzz_record::finding::FindingCapsule;
use walkfuzz_walkers::{TraceBuffer, Walker};

use crate::world::World;

/// How long a capture may take: some hundred milliseconds, unless the machine is busy with other things.
const LIMIT: Duration = Duration::from_secs(20);
/// What replays find again.
const LIBJVM: &str = "libjvm.so";
/// Room for the sentence in which a copy says what went wrong.
const PROBLEM: usize = 500;

/// The walk to be kept.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    /// What the walker gets.
    pub(crate) registers: Registers,
    /// The most frames.
    pub(crate) depth: i32,
    /// The JVM's version.
    pub(crate) jvm: String,
    /// What is kept of it. Where memory is kept that the walk does not read, libjvm's pages that are unchanged are kept by reference.
    pub(crate) keep: Keep,
}

/// What a walk came to here, and has to come to in its capsule.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End<'a> {
    /// This fault.
    Fault(&'a Fault),
    /// Frames with this hash, as [`TraceBuffer::hash`] makes it.
    Frames(u64),
}

impl End<'_> {
    fn is(&self, outcome: &Outcome) -> Result<(), String> {
        match (self, outcome) {
            (End::Fault(fault), Outcome::Fault(found))
                if (found.signal, found.registers.pc()) == (fault.signal, fault.pc()) =>
            {
                Ok(())
            }
            (End::Frames(hash), Outcome::Frames(found)) if found.hash == *hash => Ok(()),
            (End::Fault(fault), other) => Err(format!(
                "in the capsule the walk ends otherwise ({other}), and not with signal {} at {}",
                fault.signal,
                fault.pc()
            )),
            (End::Frames(_), other) => Err(format!(
                "in the capsule the walk ends otherwise ({other}), and not with the wrong frames"
            )),
        }
    }
}

/// Keeps the walk of `ground` that came to `end` here, and what another walker says of it, in the folder of `result`, which is the run folder.
pub(crate) fn of_walk(
    ground: Result<&mut Ground<'_>, String>,
    keep: &Keep,
    end: &End<'_>,
    opinion: Option<Opinion>,
    result: &Path,
) -> (FindingCapsule, Option<Capsule>) {
    let name = format!("capsules/{}.wfcap", Finding::id_of(&keep.signature));
    let same = |outcome: &Outcome| end.is(outcome);
    let path = result.with_file_name(&name);
    match ground.and_then(|ground| keep_of(ground, keep, same, opinion, &path)) {
        Ok(capsule) => {
            let kept = FindingCapsule {
                path: Some(name),
                problem: None,
            };
            (kept, Some(capsule))
        }
        Err(problem) => {
            let none = FindingCapsule {
                path: None,
                problem: Some(problem),
            };
            (none, None)
        }
    }
}

/// A sentence in memory that a copy and the process it comes from both see.
#[derive(Clone, Copy)]
struct Problem {
    length: usize,
    bytes: [u8; PROBLEM],
}

impl Problem {
    fn new(text: &str) -> Self {
        let mut problem = Self {
            length: text.len().min(PROBLEM),
            bytes: [0; PROBLEM],
        };
        for (target, byte) in problem.bytes.iter_mut().zip(text.bytes()) {
            *target = byte;
        }
        problem
    }

    fn text(&self) -> String {
        let bytes = self.bytes.get(..self.length).unwrap_or_default();
        String::from_utf8_lossy(bytes).into_owned()
    }
}

/// Keeps the walk `wanted` of `moment` at `path`, if `accept` likes what came of it. The calling process stands still for a fork.
///
/// # Errors
/// Why there is no capsule, in a sentence.
pub(crate) fn keep(
    moment: &mut Moment,
    world: &World,
    walker: &dyn Walker,
    wanted: &Wanted,
    accept: impl Fn(&Outcome) -> Result<(), String>,
    path: &Path,
) -> Result<(), String> {
    let mut problem = Shared::new(Problem::new("the copy did not come to an end"))
        .map_err(|error| error.to_string())?;
    let said = &raw mut *problem;
    let mut copy = freeze(moment, LIMIT, |moment| {
        let kept = keep_here(moment, world, walker, wanted, accept, path);
        let text = kept.err().unwrap_or_default();
        // SAFETY: the mapping is shared, lives until the copy has ended, and is read only after that.
        unsafe { said.write_volatile(Problem::new(&text)) };
    })
    .map_err(|error| format!("cannot fork: {error}"))?;
    match copy.wait() {
        FrozenEnd::Done if problem.length == 0 => Ok(()),
        FrozenEnd::Done => Err(problem.text()),
        FrozenEnd::Killed(signal) => Err(format!("the copy was killed by signal {signal}")),
        FrozenEnd::TimedOut => Err(format!("the copy took longer than {LIMIT:?}")),
    }
}

/// In the copy.
fn keep_here(
    moment: &mut Moment,
    world: &World,
    walker: &dyn Walker,
    wanted: &Wanted,
    accept: impl Fn(&Outcome) -> Result<(), String>,
    path: &Path,
) -> Result<(), String> {
    let mut trace = TraceBuffer::new();
    let mut keep = wanted.keep.clone();
    if !keep.whole.is_empty() {
        // Deeper walks than this one write there.
        let begin = std::ptr::from_ref(&*trace) as u64;
        keep.whole
            .push(begin..begin + size_of::<TraceBuffer>() as u64);
    }
    let mut ground = ground(moment, world, walker, wanted, &mut trace)?;
    keep_of(&mut ground, &keep, accept, None, path).map(|_| ())
}

/// The memory of `moment`, verified by the walk that is wanted. The calling process is a copy: it is forked twice.
pub(crate) fn ground(
    moment: &mut Moment,
    world: &World,
    walker: &dyn Walker,
    wanted: &Wanted,
    trace: &mut TraceBuffer,
) -> Result<Ground<'static>, String> {
    let call = moment
        .prepare(walker, &wanted.registers, wanted.depth, trace)
        .ok_or("the walker does not walk from a context")?;
    Ground::of_process(&Request {
        function: Pc(call.function as *const () as u64),
        trace: Address(call.first as u64),
        depth: call.depth,
        context: Address(call.last as u64),
        safefetch: world.safefetch.iter().map(SafeFetch::from).collect(),
        files: KnownFile::libraries(&world.modules),
        walker: walker.name().to_owned(),
        jvm: wanted.jvm.clone(),
        keep: wanted.keep.clone(),
    })
    .map_err(|error| error.to_string())
}

fn keep_of(
    ground: &mut Ground<'_>,
    keep: &Keep,
    accept: impl Fn(&Outcome) -> Result<(), String>,
    opinion: Option<Opinion>,
    path: &Path,
) -> Result<Capsule, String> {
    let (mut capsule, _effort) = ground.capsule(keep).map_err(|error| error.to_string())?;
    accept(&capsule.facts.expected)?;
    capsule.opinion = opinion;
    if !keep.whole.is_empty() {
        capsule.refer(|file| (file.name == LIBJVM).then(|| file.path.clone().into()));
    }
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    }
    capsule.write(path).map_err(|error| error.to_string())?;
    Ok(capsule)
}
