//! The child's side of a cell: a JVM, and the trial in it.

use std::time::{Duration, Instant};

use walkfuzz_context::witness::OffsetClass;
use walkfuzz_context::{Batch, BlobKind};
use walkfuzz_harness::campaign::end_process;
use walkfuzz_harness::{HarnessError, Mode, Session, Trial, Tried};
use walkfuzz_triage::corpus::bytes_of_hex;

use crate::failure::{ENVIRONMENT, Failure};
use crate::variants::exchange::{Request, Said};

/// Never returns with a JVM running.
pub(crate) fn in_jvm(request: &str) -> Result<(), Failure> {
    let bad = |what: &str| Failure::usage(format_args!("cannot understand the trial: {what}"));
    let request: Request =
        serde_json::from_str(request).map_err(|error| bad(&error.to_string()))?;
    let batch = bytes_of_hex(&request.batch).ok_or_else(|| bad("its batch is no hex text"))?;
    let trial = Trial {
        batch: Batch::decode(&batch),
        kind: named(request.kind.as_deref(), &BlobKind::ALL, BlobKind::name).map_err(bad)?,
        offset: named(
            request.offset.as_deref(),
            &OffsetClass::ALL,
            OffsetClass::name,
        )
        .map_err(bad)?,
        signature: request.signature,
        instruction: request.instruction,
        moments: request.moments,
        enough: request.enough,
        time: Duration::from_secs_f64(request.seconds.clamp(0.0, 1e6)),
        patience: Duration::from_secs_f64(request.patience.clamp(0.0, 1e6)),
        seed: request.seed,
    };
    let arguments: Vec<String> = std::env::args().collect();
    let mut session =
        Session::start(Mode::Merge, &arguments, None).unwrap_or_else(|error| fail(&error));
    let mut told = Instant::now();
    let tried = session.try_out(&trial, |tried| {
        if told.elapsed() > Duration::from_millis(300) {
            told = Instant::now();
            let _ = say(tried);
        }
    });
    match tried {
        Ok(tried) => end_process(if say(&tried).is_ok() {
            0
        } else {
            i32::from(ENVIRONMENT)
        }),
        Err(error) => fail(&error),
    }
}

fn fail(error: &HarnessError) -> ! {
    eprintln!("error: {error}");
    end_process(error.exit_code())
}

fn say(tried: &Tried) -> Result<(), Failure> {
    let line = serde_json::to_string(&Said::from(tried)).map_err(Failure::environment)?;
    crate::print(format!("{line}\n").as_bytes())
}

/// The value of that name, if there is a name.
fn named<T: Copy>(
    name: Option<&str>,
    all: &[T],
    name_of: impl Fn(T) -> &'static str,
) -> Result<Option<T>, &'static str> {
    let Some(name) = name else {
        return Ok(None);
    };
    let found = all.iter().copied().find(|value| name_of(*value) == name);
    found.map(Some).ok_or("its class has an unknown name")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_looked_up_by_name() {
        let kind = |name| named(name, &BlobKind::ALL, BlobKind::name);
        assert_eq!(kind(Some("nmethod")), Ok(Some(BlobKind::Nmethod)));
        assert_eq!(kind(None), Ok(None));
        assert!(kind(Some("../x")).is_err());
    }
}
