//! `walkfuzz compare`: two walkers side by side on the same contexts, of a running JVM or in a capsule.

mod args;
mod capsule;
mod child;
mod screen;

use jiff::Timestamp;
use walkfuzz_context::Tier;
use walkfuzz_harness::WalkerChoice;
use walkfuzz_harness::compared::{Comparison, ThirdVoice};
use walkfuzz_harness::quoted;
use walkfuzz_record::{RunFacts, RunFolder};
use walkfuzz_walkers::Manner;

use crate::child::{environment, jvm_options, make_run, myself, output};
use crate::cli::FailOn;
use crate::failure::{ENVIRONMENT, FINDINGS, Failure, INTERRUPTED, UNKNOWN};

pub(crate) use self::args::{CompareArgs, EngineChoice};
pub(crate) use self::capsule::failed;
pub(crate) use self::child::{Request, in_jvm};
pub(crate) use self::screen::screen;

/// Untouched contexts in which both walkers have to give frames for the comparison to say anything.
const LEAST: u64 = 100;
/// Where the answer is kept in the run folder.
const ANSWER: &str = "comparison.json";

pub(crate) fn run(args: &CompareArgs) -> Result<(), Failure> {
    if let Some(file) = &args.capsule {
        return self::capsule::run(file, args);
    }
    let [walker, oracle] = match &args.walkers {
        Some(names) => two_of(names)?,
        None => [WalkerChoice::Agct, WalkerChoice::Reference],
    };
    let options = jvm_options(&args.subject)?;
    let engine = match args.engine {
        Some(EngineChoice::Step) if !walkfuzz_engine::can_step() => {
            return Err(Failure::environment(
                "this processor cannot step itself; say --engine live",
            ));
        }
        Some(EngineChoice::Step) => "step",
        Some(EngineChoice::Live) => "live",
        None if walkfuzz_engine::can_step() => "step",
        None => "live",
    };
    let request = Request::of(args);
    let text = serde_json::to_string(&request).map_err(Failure::environment)?;
    let mut variables = environment(&args.subject, &options);
    variables.extend([
        ("WALKFUZZ_WALKER", walker.setting()),
        ("WALKFUZZ_ORACLE", oracle.setting()),
        ("WALKFUZZ_ENGINE", engine.to_owned()),
    ]);
    if args.dry_run {
        let words = variables
            .iter()
            .map(|(name, value)| format!("{name}={}", quoted(value)));
        let words: Vec<String> = words.collect();
        let line = format!(
            "{} walkfuzz in-jvm compare {}\n",
            words.join(" "),
            quoted(&text)
        );
        return crate::print(line.as_bytes());
    }
    let folder = make_run("compare", &args.subject, &options, Some([walker, oracle]))?;
    eprintln!(
        "walkfuzz: {} and {} on JDK {}, at most {} s; run folder {}",
        walker.setting(),
        oracle.setting(),
        options.jdk,
        args.seconds,
        folder.path().display()
    );
    let mut command = myself()?;
    command.args(["in-jvm", "compare", &text]);
    command.envs(variables);
    command.env("WALKFUZZ_RUN", folder.path());
    let said = output(command)?;
    let interrupted = walkfuzz_harness::interrupt::seen();
    let answer = String::from_utf8_lossy(&said.stdout);
    let last = answer.lines().last().unwrap_or_default();
    let Ok(comparison) = serde_json::from_str::<Comparison>(last) else {
        let code = said.status.code().and_then(|code| u8::try_from(code).ok());
        return Err(match code {
            _ if interrupted => Failure::said(INTERRUPTED),
            Some(code) if code != 0 => Failure::said(code),
            _ => Failure::environment(format_args!(
                "the JVM ended before the comparison did ({})",
                said.status
            )),
        });
    };
    let path = folder.path().join(ANSWER);
    std::fs::write(&path, last).map_err(|error| {
        Failure::environment(format_args!("cannot write {}: {error}", path.display()))
    })?;
    let mut facts = folder.facts()?;
    facts.finished = Some(Timestamp::now());
    folder.write_facts(&facts)?;
    if args.subject.json {
        crate::print_json(&comparison)?;
    } else {
        crate::print(screen(&comparison, &subject(&facts)).as_bytes())?;
    }
    if interrupted {
        return Err(Failure::said(INTERRUPTED));
    }
    conclude(&comparison, args.subject.fail_on)
}

/// Which JVM was walked.
pub(crate) fn subject(facts: &RunFacts) -> String {
    format!("{}, {}", facts.jvm.version, facts.jvm.collector)
}

/// What a run folder keeps of its comparison; `None` if it is none, or did not come to its end.
pub(crate) fn kept(folder: &RunFolder) -> Result<Option<Comparison>, Failure> {
    let path = folder.path().join(ANSWER);
    match std::fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| {
            Failure::usage(format_args!("{} is no comparison: {error}", path.display()))
        }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::environment(format_args!(
            "cannot read {}: {error}",
            path.display()
        ))),
    }
}

/// The walkers that `--walkers` names.
fn two_of(names: &[String]) -> Result<[WalkerChoice; 2], Failure> {
    let [first, second] = names else {
        return Err(Failure::usage(format_args!(
            "--walkers names {} walkers, and two are compared: say --walkers agct,reference",
            names.len()
        )));
    };
    let choose = |name: &String| {
        WalkerChoice::from_name(name).ok_or_else(|| {
            Failure::usage(format_args!(
                "no walker is called {name}: there is {}",
                WalkerChoice::judges()
            ))
        })
    };
    let (first, second) = (choose(first)?, choose(second)?);
    for choice in [first, second] {
        let why = match choice {
            WalkerChoice::Remote(_) | WalkerChoice::Plugin(Manner::Held | Manner::Running, _) => {
                "walks threads from another one, and here each thread walks itself"
            }
            WalkerChoice::Request => "leaves the walk to the JVM, and here frames are compared",
            WalkerChoice::Frame(_) | WalkerChoice::PluginFrame(_) => {
                "begins at a frame, and here walks begin at a context"
            }
            WalkerChoice::Agct | WalkerChoice::Reference | WalkerChoice::Plugin(Manner::Own, _) => {
                continue;
            }
        };
        return Err(Failure::usage(format_args!(
            "--walkers names {}, which {why}: say --walkers agct,reference",
            choice.setting()
        )));
    }
    if first.is_same(second) {
        return Err(Failure::usage(format_args!(
            "--walkers names {} twice: a walker always agrees with itself",
            first.setting()
        )));
    }
    Ok([first, second])
}

/// How the program ends by what was found.
pub(crate) fn conclude(comparison: &Comparison, fail_on: FailOn) -> Result<(), Failure> {
    let nobody_walked = comparison
        .tiers
        .iter()
        .all(|row| row.agreements.contexts == 0);
    if nobody_walked {
        return Err(Failure::said(ENVIRONMENT));
    }
    if comparison.tier(Tier::T0).both() < LEAST {
        return Err(Failure::said(UNKNOWN));
    }
    judge(comparison, fail_on)
}

/// Whether what differs is what a failure was asked for.
fn judge(comparison: &Comparison, fail_on: FailOn) -> Result<(), Failure> {
    let natural: u64 = comparison
        .known
        .iter()
        .filter(|row| row.known.is_none())
        .map(|row| row.natural)
        .sum();
    let jvmti = comparison.jvmti.as_ref();
    let wrong = comparison.unexplained() + jvmti.map_or(0, ThirdVoice::contradicted);
    let fails = match fail_on {
        FailOn::Never => false,
        FailOn::Bug => wrong > 0,
        FailOn::Any => wrong + natural > 0,
    };
    if fails {
        Err(Failure::said(FINDINGS))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_different_walkers_are_compared() {
        let names = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
        let refused = |text: &str| two_of(&names(text)).unwrap_err().message;
        let chosen = two_of(&names("reference,agct")).unwrap();
        assert_eq!(chosen, [WalkerChoice::Reference, WalkerChoice::Agct]);
        assert!(refused("agct").contains("names 1 walkers"));
        assert!(refused("agct,agct").contains("agct twice"));
        let pinned = format!("/a/lib.so,plugin:/a/lib.so@sha256:{}", "ab".repeat(32));
        assert!(refused(&pinned).contains("/a/lib.so twice"));
        for (walkers, name) in [
            ("agct,agct-remote-running", "agct-remote-running"),
            ("agct-remote-tid,agct", "agct-remote-tid"),
            ("agct,request-stack-trace", "request-stack-trace"),
            ("agct,frame:/a/lib.so", "frame:/a/lib.so"),
            ("plugin-remote:/a/lib.so,agct", "plugin-remote:/a/lib.so"),
        ] {
            let said = refused(walkers);
            let names = said.contains(&format!("--walkers names {name}, which "));
            assert!(names && !said.contains("WALKFUZZ_"), "{said}");
        }
        assert!(refused("agct,jfr").contains("there is agct, reference or a library"));
    }
}
