//! Walkers beside AsyncGetCallTrace: what a frame costs, and how fast two of them are compared.

use std::process::Stdio;

use super::Figure;
use super::parts::{Bench, last_line};
use crate::child::myself;
use crate::failure::Failure;

/// The reference walker may take so many times as long a frame, though each of its reads is checked.
const AT_MOST: f64 = 2.0;
/// Contexts a second that `walkfuzz compare` walks with two walkers in a frozen copy.
const COMPARED: f64 = 200e3;

pub(crate) fn figures(bench: &Bench<'_>) -> Result<Vec<Figure>, Failure> {
    let seconds = bench.args.seconds.to_string();
    let costs = bench.measure(&["walkers", &seconds])?;
    let agct = costs.agct_ns_a_frame;
    let figure = Figure::new(
        "walkers",
        "reference",
        costs.reference_ns_a_frame,
        "ns a frame",
    );
    Ok(vec![
        figure.beside("agct", agct).at_most(AT_MOST * agct),
        Figure::new(
            "walkers",
            "compared in copies",
            compared(bench)?,
            "contexts/s",
        )
        .at_least(COMPARED),
    ])
}

/// The rate that the program's own `compare` reaches.
fn compared(bench: &Bench<'_>) -> Result<f64, Failure> {
    eprintln!("bench: compare {} s", bench.args.seconds);
    let mut command = myself()?;
    command
        .args(["compare", "--json", "--seconds"])
        .arg(bench.args.seconds.to_string())
        .arg("--runs")
        .arg(bench.runs.join("compare"))
        .stdin(Stdio::null());
    if let Some(jdk) = bench.jdk {
        command.arg("--jdk").arg(&jdk.home);
    }
    let output = command.output().map_err(Failure::environment)?;
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    said.get("per_second_in_copies")
        .and_then(serde_json::Value::as_f64)
        .ok_or_else(|| {
            let errors = String::from_utf8_lossy(&output.stderr);
            Failure::environment(format_args!("compare failed: {}", last_line(&errors)))
        })
}
