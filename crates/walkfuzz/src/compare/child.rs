//! The child's side of `compare`: a JVM, and both walkers in it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use walkfuzz_harness::campaign::end_process;
use walkfuzz_harness::{ComparePlan, HarnessError, Mode, Session, Settings, interrupt};
use walkfuzz_record::RunFolder;

use crate::compare::CompareArgs;
use crate::failure::{ENVIRONMENT, Failure};

/// How often the progress is said.
const NEWS: Duration = Duration::from_secs(5);

/// What the child shall do.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    contexts: u64,
    seconds: u32,
    in_copy: u64,
    depth: u16,
    jvmti: u32,
}

impl Request {
    pub(crate) fn of(args: &CompareArgs) -> Self {
        Self {
            contexts: args.contexts.unwrap_or(u64::MAX),
            seconds: args.seconds,
            in_copy: u64::from(args.in_copy),
            depth: args.depth,
            jvmti: args.jvmti,
        }
    }
}

/// Never returns with a JVM running.
pub(crate) fn in_jvm(request: &str) -> Result<(), Failure> {
    let request: Request = serde_json::from_str(request).map_err(|error| {
        Failure::usage(format_args!("cannot understand the comparison: {error}"))
    })?;
    let settings = Settings::from_environment()?;
    let run = std::env::var_os("WALKFUZZ_RUN").map(PathBuf::from);
    let run = run.map(|path| RunFolder::open(&path)).transpose()?;
    let arguments: Vec<String> = std::env::args().collect();
    let mut session =
        Session::start(Mode::Merge, &arguments, run).unwrap_or_else(|error| fail(&error));
    // The JVM has taken these signals for its own shutdown.
    interrupt::catch();
    let plan = ComparePlan {
        contexts: request.contexts,
        time: Duration::from_secs(u64::from(request.seconds)),
        in_copy: request.in_copy,
        depth: i32::from(request.depth),
        seed: settings.seed,
        asked: u64::from(request.jvmti),
    };
    let began = Instant::now();
    let mut told = began;
    let compared = session.compare(&plan, |counts| {
        if told.elapsed() > NEWS {
            told = Instant::now();
            eprintln!(
                "walkfuzz: {} contexts in {} s",
                counts.contexts(),
                began.elapsed().as_secs()
            );
        }
        !interrupt::seen()
    });
    let said = match compared {
        Ok(comparison) => serde_json::to_string(&comparison).map_err(Failure::environment),
        Err(error) => fail(&error),
    };
    let said = said.and_then(|line| crate::write_out(format!("{line}\n").as_bytes()));
    end_process(if said.is_ok() {
        0
    } else {
        i32::from(ENVIRONMENT)
    })
}

fn fail(error: &HarnessError) -> ! {
    eprintln!("error: {error}");
    end_process(error.exit_code())
}
