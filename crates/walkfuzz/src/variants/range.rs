//! What a walk through the patch levels of a line says: first bad, last good, fixed in.

use walkfuzz_record::{CellState, VariantCell};

/// What is known of one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Is {
    Bad,
    Good,
    Unknown,
}

/// The answer in words; versions come in ascending order, several cells of one version together.
pub(crate) fn text(line: u32, cells: &[VariantCell], absent: &[String]) -> String {
    let mut versions: Vec<(&str, Is)> = Vec::new();
    // How often it happens where it happens: what the absence elsewhere is measured against.
    let rate = cells
        .iter()
        .filter_map(|cell| cell.again.share().filter(|share| *share > 0.0))
        .fold(f64::INFINITY, f64::min);
    let mut weak = Vec::new();
    for cell in cells {
        let is = match cell.state {
            CellState::Tried if cell.again.k > 0 => Is::Bad,
            // Where it would have been missed one time in twenty, nothing is known.
            CellState::Tried
                if rate.is_finite() && (1.0 - rate).powf(cell.again.of as f64) > 0.05 =>
            {
                weak.push(cell.jdk.as_str());
                Is::Unknown
            }
            CellState::Tried => Is::Good,
            _ => Is::Unknown,
        };
        match versions.last_mut() {
            Some((version, known)) if *version == cell.jdk => {
                *known = match (*known, is) {
                    (Is::Bad, _) | (_, Is::Bad) => Is::Bad,
                    (Is::Unknown, _) | (_, Is::Unknown) => Is::Unknown,
                    _ => Is::Good,
                };
            }
            _ => versions.push((&cell.jdk, is)),
        }
    }
    let first_bad = versions.iter().position(|(_, is)| *is == Is::Bad);
    let last_bad = versions.iter().rposition(|(_, is)| *is == Is::Bad);
    let mut text = match (first_bad, last_bad) {
        (Some(first), Some(last)) => format!(
            "JDK {line}: first bad {}{}; last good before it {}; last bad {}; fixed in {}\n",
            versions[first].0,
            if first == 0 {
                " (the oldest tried)"
            } else {
                ""
            },
            good_before(&versions[..first]),
            versions[last].0,
            good_after(&versions[last + 1..]),
        ),
        _ if cells.iter().all(|cell| cell.state != CellState::Tried) => {
            format!("JDK {line}: not known: it was tried on no version\n")
        }
        _ => format!("JDK {line}: not seen on any version tried\n"),
    };
    if !weak.is_empty() {
        text.push_str(&format!(
            "too few moments to tell: {} (--moments)\n",
            weak.join(", ")
        ));
    }
    if !absent.is_empty() {
        text.push_str(&format!(
            "not installed: {} (--install brings them)\n",
            absent.join(", ")
        ));
    }
    text
}

/// The last good one of the versions before the first bad one.
fn good_before(before: &[(&str, Is)]) -> String {
    let good = before.iter().rfind(|(_, is)| *is == Is::Good);
    match good {
        Some((version, _)) => (*version).to_owned(),
        None if before.is_empty() => "none".to_owned(),
        None => "not known".to_owned(),
    }
}

/// The first good one of the versions behind the last bad one.
fn good_after(after: &[(&str, Is)]) -> String {
    let good = after.iter().position(|(_, is)| *is == Is::Good);
    match good.and_then(|at| Some((at, after.get(at)?))) {
        Some((0, (version, _))) => (*version).to_owned(),
        // Those between may have it already.
        Some((_, (version, _))) => format!("{version} at the latest"),
        None if after.is_empty() => "none".to_owned(),
        None => "not known".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use walkfuzz_record::KOfN;

    use super::*;

    fn cells(versions: &[(&str, u64, u64)]) -> Vec<VariantCell> {
        let cell = |&(jdk, k, of): &(&str, u64, u64)| VariantCell {
            jdk: jdk.to_owned(),
            build_id: String::new(),
            collector: "default".to_owned(),
            mode: "default".to_owned(),
            state: if of == 0 {
                CellState::CouldNotRun
            } else {
                CellState::Tried
            },
            reason: None,
            again: KOfN::new(k, of),
            frozen: None,
            others: 0,
            controls: KOfN::new(of, of),
            deaths: 0,
            sites: Vec::new(),
            seconds: 1.0,
        };
        versions.iter().map(cell).collect()
    }

    #[test]
    fn ends_of_a_range_are_named() {
        let of = |versions: &[(&str, u64, u64)]| text(17, &cells(versions), &[]);
        assert_eq!(
            of(&[
                ("17.0.2", 0, 400),
                ("17.0.3", 9, 400),
                ("17.0.7", 12, 400),
                ("17.0.9", 0, 400)
            ]),
            "JDK 17: first bad 17.0.3; last good before it 17.0.2; last bad 17.0.7; fixed in 17.0.9\n"
        );
        assert!(of(&[("17.0.2", 9, 400), ("17.0.9", 9, 400)]).contains("fixed in none"));
        assert!(of(&[("17.0.9", 0, 400)]).contains("not seen on any version"));
    }

    #[test]
    fn absence_counts_only_where_the_bug_would_have_shown() {
        let said = text(17, &cells(&[("17.0.7", 1, 1000), ("17.0.9", 0, 1000)]), &[]);
        assert!(said.contains("last good before it none; last bad 17.0.7; fixed in not known"));
        assert!(said.contains("too few moments to tell: 17.0.9"));
        let said = text(
            17,
            &cells(&[("17.0.7", 1, 100), ("17.0.9", 0, 0)]),
            &["17.0.2".to_owned()],
        );
        assert!(said.contains("fixed in not known") && said.contains("not installed: 17.0.2"));
        let of = |versions: &[(&str, u64, u64)]| text(17, &cells(versions), &[]);
        let said = of(&[
            ("17.0.2", 0, 0),
            ("17.0.7", 9, 400),
            ("17.0.9", 0, 5),
            ("17.0.15", 0, 400),
        ]);
        assert!(said.contains(
            "last good before it not known; last bad 17.0.7; fixed in 17.0.15 at the latest"
        ));
        assert!(of(&[("17.0.9", 0, 0)]).contains("tried on no version"));
    }
}
