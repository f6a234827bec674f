//! What to do about a JVM's crash log: nothing, if no walker crashed; else a campaign on the nearest JDK, aimed at the same function.

use std::path::Path;

use walkfuzz_context::{Arch, Batch, BlobKind, Edit, Perturbation, Value, ValueClass};
use walkfuzz_jvm::{Jdk, Places, Version};
use walkfuzz_triage::{Cause, CompilerMode, CrashLog, CrashPlan, KnownIssues, WalkerCrash};

use crate::failure::Failure;
use crate::repro::answer::{Answer, Reproduction};
use crate::repro::campaign::{Aim, Campaign};
use crate::repro::plan::{Plan, Wishes};

/// The walker that campaigns drive.
const OURS: &str = "agct";

/// What a log leads to.
pub(crate) enum Lead {
    /// Nothing to try.
    Settled(Box<Reproduction>),
    /// Something to try.
    Try(Box<Plan>),
}

/// What the log leads to.
pub(crate) fn lead(path: &Path, log: &CrashLog, wishes: &Wishes) -> Result<Lead, Failure> {
    let plan = CrashPlan::new(log, KnownIssues::built_in());
    let what = format!("{}: {}", path.display(), plan.title);
    let settled = |answer| {
        Ok(Lead::Settled(Box::new(Reproduction::settled(
            what.clone(),
            answer,
            plan.known.clone(),
        ))))
    };
    match &plan.walker_crash {
        WalkerCrash::Yes { .. } => {}
        WalkerCrash::No { why } => {
            return settled(Answer::NotAWalkerCrash { why: why.clone() });
        }
        WalkerCrash::Unknown { why } => return settled(Answer::Unknown { why: why.clone() }),
    }
    let Some(function) = &plan.aim else {
        return settled(Answer::Unknown {
            why: "the log ends before it says where the JVM crashed".to_owned(),
        });
    };
    if let Some(module) = log.site().and_then(|site| site.module.as_deref())
        && module != "libjvm.so"
    {
        return settled(Answer::Unknown {
            why: format!(
                "it crashed in {module} ({function}), the code of a walker that walkfuzz does not drive; it drives {OURS}"
            ),
        });
    }
    if plan.arch.is_some_and(|arch| arch != Arch::NATIVE) {
        return settled(Answer::Unknown {
            why: format!(
                "the log is {}'s, this machine is {}",
                plan.arch.map_or("another architecture", Arch::name),
                Arch::NATIVE.name()
            ),
        });
    }
    let mut notes = vec![format!("a walker crashed: {}", plan.walker_crash.why())];
    let jdk = nearest(&plan, wishes, &mut notes)?;
    let mut environment = vec![("WALKFUZZ_JDK".to_owned(), jdk.home.display().to_string())];
    let collector = wishes.gc.clone().or(plan.collector.map(str::to_owned));
    environment.extend(collector.map(|gc| ("WALKFUZZ_GC".to_owned(), gc)));
    let mut options = plan.options.clone();
    options.extend(mode_options(plan.compiler));
    if !options.is_empty() {
        notes.push(format!("options taken over: {}", options.join(" ")));
        environment.push(("WALKFUZZ_JAVA_OPTIONS".to_owned(), options.join(" ")));
    }
    let mut inputs = Vec::new();
    if let Some(walked) = &plan.walked {
        let name = walked.name.as_deref().unwrap_or("no name");
        notes.push(format!(
            "walked from {} ({name}): {}",
            walked.kind.name(),
            walked.how
        ));
        inputs.extend(contexts_of(walked.kind).map(|batch| batch.to_bytes()));
    }
    Ok(Lead::Try(Box::new(Plan {
        what,
        notes,
        known: plan.known.clone(),
        jdk,
        campaign: Campaign {
            aim: aim(&plan, log),
            seeds: inputs,
            only_given: false,
            budget: wishes.budget,
            environment,
        },
    })))
}

/// What the log says to look for; nothing, if it does not say where the JVM crashed.
pub(crate) fn aim(plan: &CrashPlan, log: &CrashLog) -> Aim {
    Aim {
        // Another walker's signature names that walker; what both share is the function.
        signature: plan
            .signature
            .as_ref()
            .filter(|_| plan.walker_crash.walker() == Some(OURS))
            .map(ToString::to_string),
        failed_check: matches!(log.cause, Some(Cause::Internal { .. })),
        function: plan.aim.clone(),
    }
}

/// The JDK that is asked for; else that of the log; else another of the same feature release.
fn nearest(plan: &CrashPlan, wishes: &Wishes, notes: &mut Vec<String>) -> Result<Jdk, Failure> {
    let places = Places::from_env();
    if wishes.jdk.is_some() {
        return Ok(places.choose(wishes.jdk.as_deref())?);
    }
    let Some(version) = &plan.jdk else {
        notes.push("the log does not say which JDK it was".to_owned());
        return Ok(places.choose(None)?);
    };
    let text = version.to_string();
    let release = Version::release(&text);
    match places.choose(Some(release)) {
        Ok(jdk) => Ok(jdk),
        Err(missing) => {
            let feature = release.split('.').next().unwrap_or(release);
            let jdk = places.choose(Some(feature)).map_err(|_| missing)?;
            notes.push(format!(
                "JDK {release} is not installed; {jdk} is the nearest"
            ));
            Ok(jdk)
        }
    }
}

fn mode_options(mode: CompilerMode) -> Vec<String> {
    let option = match mode {
        CompilerMode::Mixed => return Vec::new(),
        CompilerMode::Interpreted => "-Xint",
        CompilerMode::Compiled => "-Xcomp",
        CompilerMode::C1Only => "-XX:TieredStopAtLevel=1",
        CompilerMode::C2Only => "-XX:-TieredCompilation",
    };
    vec![option.to_owned()]
}

/// Contexts whose pc lies in that kind of code: with the thread's own sp and fp, with frames made up, and with registers that are none.
fn contexts_of(kind: BlobKind) -> Option<Batch> {
    let class = match kind {
        BlobKind::Nmethod => ValueClass::NmethodBody,
        BlobKind::Interpreter => ValueClass::InterpreterCodelet,
        BlobKind::Adapter | BlobKind::Buffer => ValueClass::Adapter,
        BlobKind::VtableStub => ValueClass::VtableStub,
        BlobKind::RuntimeStub => ValueClass::RuntimeStub,
        BlobKind::StubRoutine => ValueClass::StubRoutine,
        BlobKind::Libjvm => ValueClass::LibjvmText,
        _ => return None,
    };
    let arch = Arch::NATIVE;
    let set = |register, class, selector| Edit::Set {
        register,
        value: Value::new(class, selector, 0),
    };
    let frames = [
        None,
        Some(ValueClass::StackSlot),
        Some(ValueClass::StackWord),
        Some(ValueClass::Heap),
    ];
    let mut walks = Vec::new();
    for (place, frame) in (0_u16..).zip((0..4).flat_map(|_| frames)) {
        let mut walk = Perturbation::UNTOUCHED;
        walk.push(set(arch.pc(), class, place.wrapping_mul(7)));
        if let Some(frame) = frame {
            walk.push(set(arch.fp(), frame, place));
        }
        walks.push(walk);
    }
    let mut batch = Batch::untouched(arch);
    batch.set_walks(&walks);
    Some(batch)
}
