//! `walkfuzz bench`: every figure beside its baseline, measured in the same run. The machine's own speed drops out of the ratio.

mod asgst;
mod guided;
mod parts;
mod repro;
mod snapshots;
mod stress;
mod walkers;

use std::borrow::Cow;

use serde::Serialize;
use walkfuzz_jvm::{Jdk, Places};

use crate::cli::{BenchArgs, BenchPart};
use crate::failure::Failure;
use crate::table::table;

/// One measured value.
#[derive(Debug, Serialize)]
pub(crate) struct Figure {
    part: &'static str,
    what: Cow<'static, str>,
    value: f64,
    unit: &'static str,
    baseline: Option<Baseline>,
    /// `value / baseline`.
    ratio: Option<f64>,
    limit: Option<Limit>,
}

#[derive(Debug, Serialize)]
struct Baseline {
    what: &'static str,
    value: f64,
}

#[derive(Debug, Serialize)]
struct Limit {
    text: String,
    kept: bool,
}

impl Figure {
    pub(crate) fn new(
        part: &'static str,
        what: impl Into<Cow<'static, str>>,
        value: f64,
        unit: &'static str,
    ) -> Self {
        Self {
            part,
            what: what.into(),
            value,
            unit,
            baseline: None,
            ratio: None,
            limit: None,
        }
    }

    /// In the figure's own unit.
    pub(crate) fn beside(mut self, what: &'static str, value: f64) -> Self {
        self.ratio = (value != 0.0).then_some(self.value / value);
        self.baseline = Some(Baseline { what, value });
        self
    }

    pub(crate) fn at_most(mut self, limit: f64) -> Self {
        let text = format!("at most {}", short(limit));
        self.limit = Some(Limit {
            text,
            kept: self.value <= limit,
        });
        self
    }

    pub(crate) fn at_least(mut self, limit: f64) -> Self {
        let text = format!("at least {}", short(limit));
        self.limit = Some(Limit {
            text,
            kept: self.value >= limit,
        });
        self
    }

    fn cells(&self) -> Vec<String> {
        let beside = self.baseline.as_ref().map_or_else(String::new, |base| {
            let ratio = self
                .ratio
                .map_or_else(String::new, |ratio| format!(", ratio {ratio:.3}"));
            format!("{} {}{ratio}", base.what, short(base.value))
        });
        let limit = self.limit.as_ref().map_or_else(String::new, |limit| {
            format!(
                "{} {}",
                limit.text,
                if limit.kept { "(kept)" } else { "(MISSED)" }
            )
        });
        vec![
            self.part.to_owned(),
            self.what.clone().into_owned(),
            format!("{} {}", short(self.value), self.unit),
            beside,
            limit,
        ]
    }
}

/// Three digits that matter.
fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 1e6 => format!("{:.2} M", value / 1e6),
        size if size >= 1e4 => format!("{:.1} k", value / 1e3),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 1.0 || size == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[derive(Serialize)]
struct Results {
    jdk: Option<String>,
    seconds: u32,
    figures: Vec<Figure>,
    guided: Option<guided::Comparison>,
    sampling: Option<stress::Sampling>,
}

pub(crate) fn run(args: &BenchArgs) -> Result<(), Failure> {
    let parts = if args.parts.is_empty() {
        BenchPart::ALL.to_vec()
    } else {
        args.parts.clone()
    };
    let needs_jvm = parts.iter().any(|part| *part != BenchPart::Guard);
    let jdk = if needs_jvm {
        Some(Places::from_env().choose(args.jdk.as_deref().filter(|jdk| !jdk.is_empty()))?)
    } else {
        None
    };
    let mut results = Results {
        jdk: jdk.as_ref().map(Jdk::to_string),
        seconds: args.seconds,
        figures: Vec::new(),
        guided: None,
        sampling: None,
    };
    let folder = tempfile::Builder::new()
        .prefix("walkfuzz-bench-")
        .tempdir()
        .map_err(|error| {
            Failure::environment(format_args!("cannot make a temporary folder: {error}"))
        })?;
    let bench = parts::Bench {
        args,
        jdk: jdk.as_ref(),
        runs: folder.path(),
    };
    results.figures = bench.figures(&parts)?;
    if let (true, Some(_)) = (parts.contains(&BenchPart::Guided), &jdk) {
        results.guided = Some(guided::compare(&bench)?);
    }
    if parts.contains(&BenchPart::Stress) {
        let (figures, sampling) = stress::measure(&bench)?;
        results.figures.extend(figures);
        results.sampling = Some(sampling);
    }
    if parts.contains(&BenchPart::Walkers) {
        results.figures.extend(walkers::figures(&bench)?);
        results.figures.extend(stress::remote_figures(&bench)?);
    }
    if parts.contains(&BenchPart::Asgst) {
        results.figures.extend(asgst::figures(&bench)?);
    }
    if args.json {
        return crate::print_json(&results);
    }
    let mut text = results
        .jdk
        .as_ref()
        .map_or_else(String::new, |jdk| format!("JDK {jdk}\n"));
    text.push_str(&table(
        &results
            .figures
            .iter()
            .map(Figure::cells)
            .collect::<Vec<_>>(),
    ));
    if let Some(comparison) = &results.guided {
        text.push_str(&comparison.for_people());
    }
    if let Some(sampling) = &results.sampling {
        text.push_str(&sampling.for_people());
    }
    crate::print(text.as_bytes())
}
