//! `walkfuzz variants`: on which JVMs a finding happens again. A grid of JDK x collector x compiler mode, or the patch levels of a line.

pub(crate) mod args;
pub(crate) mod cell;
mod death;
mod exchange;
mod grid;
mod plan;
pub(crate) use plan::every as every_jdk;
mod range;
pub(crate) mod subject;
pub(crate) mod trial_process;
mod watched;

use std::time::{Duration, Instant};

use jiff::Timestamp;
use walkfuzz_harness::interrupt;
use walkfuzz_record::{CellState, KOfN, SCHEMA, VariantCell, Variants};

use crate::failure::{Failure, INTERRUPTED, UNKNOWN};
use crate::variants::args::VariantsArgs;
use crate::variants::cell::{Effort, Place};
use crate::variants::subject::Subject;
use crate::visible::visible;

/// What a cell may take at least.
const LEAST: Duration = Duration::from_secs(3);

pub(crate) fn run(args: &VariantsArgs) -> Result<(), Failure> {
    let subject = Subject::find(&args.finding, &args.runs)?;
    let (places, absent) = plan::places(args)?;
    interrupt::catch();
    if places.is_empty() {
        return Err(Failure::environment(
            "no JDK to try it on; bring one with: walkfuzz jdk install",
        ));
    }
    if args.dry_run {
        return crate::print(planned(&subject, args, &places, &absent).as_bytes());
    }
    eprintln!(
        "walkfuzz: {} on {} JVMs, at up to {} moments each",
        visible(&subject.title),
        places.len(),
        args.moments
    );
    let mut cells: Vec<Option<VariantCell>> = vec![None; places.len()];
    let began = Instant::now();
    let order = plan::order(&places);
    for (done, index) in order.iter().copied().enumerate() {
        let Some((place, slot)) = places.get(index).zip(cells.get_mut(index)) else {
            continue;
        };
        let left = args.budget.saturating_sub(began.elapsed());
        if left.is_zero() || interrupt::seen() {
            continue;
        }
        // Most cells need less than their share: what they leave is for those that come later.
        let share = left
            / u32::try_from(places.len() - done)
                .unwrap_or(u32::MAX)
                .max(1);
        let effort = Effort {
            moments: args.moments,
            enough: u64::MAX,
            time: (share * 2).max(LEAST).min(left),
            patience: share.max(LEAST),
        };
        let cell = cell::run(&subject, place, effort)?;
        if interrupt::seen() && cell.state != CellState::Tried {
            // That it has walked nothing says nothing of its JVM.
            continue;
        }
        eprintln!("walkfuzz: {}", grid::line(&cell));
        *slot = Some(cell);
    }
    let cells = places.iter().zip(cells);
    let variants = Variants {
        schema: SCHEMA,
        finding: subject.id.clone(),
        signature: subject.signature.clone(),
        perturbation: subject.perturbation(),
        kind: subject.kind.map(|kind| kind.name().to_owned()),
        offset: subject.offset.map(|offset| offset.name().to_owned()),
        moments: args.moments,
        made: Timestamp::now(),
        cells: cells
            .map(|(place, cell)| cell.unwrap_or_else(|| not_run(place)))
            .collect(),
    };
    let kept = subject
        .run
        .as_ref()
        .map(|run| run.write_variants(&variants))
        .transpose();
    if args.json {
        crate::print_json(&variants)?;
    } else {
        let mut text = grid::text(&subject, &variants);
        if let Some(line) = args.range {
            text.push_str(&range::text(line, &variants.cells, &absent));
        }
        if let Ok(Some(path)) = &kept {
            text.push_str(&format!("kept in {}\n", path.display()));
        }
        crate::print(text.as_bytes())?;
    }
    // After what was found: that is not lost where it cannot be kept.
    kept?;
    if interrupt::seen() {
        return Err(Failure::said(INTERRUPTED));
    }
    let tried = |cell: &VariantCell| cell.state == CellState::Tried;
    if variants.cells.iter().any(tried) {
        Ok(())
    } else {
        Err(Failure::said(UNKNOWN))
    }
}

/// What would be done.
fn planned(subject: &Subject, args: &VariantsArgs, places: &[Place], absent: &[String]) -> String {
    let mut text = format!(
        "{}\n{}\nwould be tried at up to {} moments each, within {} s, on {} JVMs:\n",
        subject.title,
        subject.perturbation_in_short(),
        args.moments,
        args.budget.as_secs(),
        places.len()
    );
    for place in places {
        text.push_str(&format!(
            "  {} {} {}\n",
            place.jdk,
            place
                .collector
                .map_or("default", walkfuzz_jvm::Collector::name),
            place.mode.name()
        ));
    }
    if args.install && !absent.is_empty() {
        text.push_str(&format!("and installed before: {}\n", absent.join(", ")));
    }
    text
}

/// A cell that the budget did not reach, or that was not begun before an interrupt.
fn not_run(place: &Place) -> VariantCell {
    VariantCell {
        jdk: place.jdk.version.to_string(),
        build_id: place.jdk.identity.clone(),
        collector: place
            .collector
            .map_or("default", walkfuzz_jvm::Collector::name)
            .to_owned(),
        mode: place.mode.name().to_owned(),
        state: CellState::NotRun,
        reason: Some(if interrupt::seen() {
            "interrupted".to_owned()
        } else {
            "the budget was used up (--budget)".to_owned()
        }),
        again: KOfN::new(0, 0),
        frozen: None,
        others: 0,
        controls: KOfN::new(0, 0),
        deaths: 0,
        sites: Vec::new(),
        seconds: 0.0,
    }
}
