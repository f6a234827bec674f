//! One cell: a JDK, a collector and a compiler mode, tried in child processes until it has walked enough or its JVMs have died too often.

use std::time::{Duration, Instant};

use walkfuzz_harness::interrupt;
use walkfuzz_jvm::{Collector, Jdk};
use walkfuzz_record::finding::hex_bytes;
use walkfuzz_record::{CellState, KOfN, VariantCell, VariantSite};

use crate::failure::Failure;
use crate::variants::args::CompilerMode;
use crate::variants::death::Death;
use crate::variants::exchange::{Request, Said};
use crate::variants::subject::Subject;
use crate::variants::watched::{End, Watched};

/// JVMs that may die before a cell is given up.
const DEATHS: u64 = 4;
/// Time for the start of a JVM, -Xcomp's included.
const START: Duration = Duration::from_secs(90);
/// Share of control walks that must succeed for a cell to have walked at all.
const SANE: f64 = 0.1;

/// Where a finding is tried.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) jdk: Jdk,
    pub(crate) collector: Option<Collector>,
    pub(crate) mode: CompilerMode,
}

/// How hard a cell tries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// Moments of the class.
    pub(crate) moments: u64,
    /// How often it has to happen for no more to be tried.
    pub(crate) enough: u64,
    /// How long, after the JVM's start.
    pub(crate) time: Duration,
    /// How long to wait for the first moment of the class.
    pub(crate) patience: Duration,
}

/// Tries `subject` in a JVM.
pub(crate) fn run(
    subject: &Subject,
    place: &Place,
    effort: Effort,
) -> Result<VariantCell, Failure> {
    let time = effort.time;
    let began = Instant::now();
    let mut sum = Said::default();
    let mut deaths = 0;
    let mut last_words = None;
    while deaths < DEATHS
        && sum.again.of < effort.moments
        && sum.again.k < effort.enough
        && (deaths == 0 || began.elapsed() < time)
    {
        let folder = tempfile::tempdir().map_err(|error| {
            Failure::environment(format_args!("cannot make a temporary folder: {error}"))
        })?;
        let request = Request {
            batch: hex_bytes(&subject.batch.to_bytes()),
            kind: subject.kind.map(|kind| kind.name().to_owned()),
            offset: subject.offset.map(|offset| offset.name().to_owned()),
            signature: subject.signature.clone(),
            instruction: subject.instruction.clone(),
            moments: effort.moments - sum.again.of,
            enough: effort.enough.saturating_sub(sum.again.k).max(1),
            seconds: time.saturating_sub(began.elapsed()).as_secs_f64().max(1.0),
            patience: effort.patience.as_secs_f64(),
            seed: deaths,
        };
        let child = Watched::start(subject, place, &request, folder.path())?;
        let pid = child.pid();
        let (said, end) = child.wait(START + time);
        sum.add(&said);
        match end {
            End::Done | End::Interrupted => break,
            End::Failed(words) => {
                last_words = Some(words);
                break;
            }
            End::Died(status) => {
                deaths += 1;
                let death = Death::of(folder.path(), pid, status);
                let wanted = death.signature == subject.signature;
                sum.again = KOfN::new(sum.again.k + u64::from(wanted), sum.again.of + 1);
                sum.add(&Said {
                    sites: vec![VariantSite {
                        signature: death.signature,
                        instruction: None,
                        moments: 1,
                        wanted,
                    }],
                    ..Said::default()
                });
                last_words = Some(death.words);
            }
        }
    }
    Ok(cell(
        place,
        sum,
        deaths,
        last_words,
        began.elapsed().as_secs_f64(),
    ))
}

/// What a cell's numbers mean.
fn cell(
    place: &Place,
    said: Said,
    deaths: u64,
    last_words: Option<String>,
    seconds: f64,
) -> VariantCell {
    let walked = said.controls.share().unwrap_or(0.0);
    let (state, reason) = if said.again.k > 0 {
        // It happened: whatever else happened does not undo that.
        (CellState::Tried, last_words)
    } else if said.controls.of == 0 && said.others == 0 {
        let nothing = if interrupt::seen() {
            "interrupted"
        } else {
            "nothing was walked"
        };
        let words = last_words.unwrap_or_else(|| nothing.to_owned());
        (CellState::CouldNotRun, Some(words))
    } else if said.controls.of == 0 {
        (CellState::NotMet, last_words)
    } else if walked < SANE {
        let KOfN { k, of } = said.controls;
        let vacuous = format!("vacuous: control walks failed ({k} of {of} succeeded)");
        (CellState::CouldNotRun, Some(vacuous))
    } else {
        (CellState::Tried, last_words)
    };
    VariantCell {
        jdk: place.jdk.version.to_string(),
        build_id: place.jdk.identity.clone(),
        collector: place
            .collector
            .map_or("default", Collector::name)
            .to_owned(),
        mode: place.mode.name().to_owned(),
        state,
        reason,
        again: said.again,
        frozen: said.frozen,
        others: said.others,
        controls: said.controls,
        deaths,
        sites: said.sites,
        seconds,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> Place {
        Place {
            jdk: Jdk {
                home: "/jdk".into(),
                libjvm: "/jdk/lib/server/libjvm.so".into(),
                version: walkfuzz_jvm::Version::parse("17.0.9").unwrap(),
                implementor: None,
                source: walkfuzz_jvm::Source::Named,
                arch: walkfuzz_context::Arch::NATIVE,
                build_id: None,
                identity: "00".to_owned(),
                symtab: true,
            },
            collector: None,
            mode: CompilerMode::Default,
        }
    }

    #[test]
    fn nothing_seen_is_told_from_nothing_walked() {
        let state =
            |again: (u64, u64), controls: (u64, u64), others, deaths, words: Option<&str>| {
                let said = Said {
                    again: KOfN::new(again.0, again.1),
                    controls: KOfN::new(controls.0, controls.1),
                    others,
                    ..Said::default()
                };
                let cell = cell(&place(), said, deaths, words.map(str::to_owned), 1.0);
                (cell.state, cell.reason.unwrap_or_default())
            };
        let tried = |reason: &str| (CellState::Tried, reason.to_owned());
        assert_eq!(state((3, 9), (9, 9), 0, 0, None), tried(""));
        assert_eq!(state((0, 9), (9, 9), 5, 0, None), tried(""));
        assert_eq!(state((0, 0), (0, 0), 5, 0, None).0, CellState::NotMet);
        let none = state((0, 0), (0, 0), 0, 0, Some("no such collector"));
        assert_eq!(
            none,
            (CellState::CouldNotRun, "no such collector".to_owned())
        );
        // Dead before anything was walked, and dead after all was.
        let dead = state((0, 4), (0, 0), 0, 4, Some("JVM died: x"));
        assert_eq!(dead, (CellState::CouldNotRun, "JVM died: x".to_owned()));
        assert_eq!(
            state((0, 9), (8, 8), 0, 1, Some("JVM died: x")),
            tried("JVM died: x")
        );
        // The death itself may be what was looked for.
        assert_eq!(state((1, 1), (0, 0), 0, 1, None), tried(""));
        let (vacuous, why) = state((0, 100), (3, 100), 0, 0, None);
        assert_eq!(vacuous, CellState::CouldNotRun);
        assert_eq!(why, "vacuous: control walks failed (3 of 100 succeeded)");
    }
}
