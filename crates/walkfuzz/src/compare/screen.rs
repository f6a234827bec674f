//! A comparison for the terminal.

use std::fmt::Write as _;

use walkfuzz_harness::compared::{Comparison, Example, ThirdVoice};
use walkfuzz_record::KOfN;
use walkfuzz_record::finding::{FindingContradiction, JavaFrame};
use walkfuzz_record::render::numbers::{compact, count};

use crate::table::table;

/// Codes that are shown of each walker.
const CODES: usize = 6;
/// Examples that are shown; the run folder has all.
const EXAMPLES: usize = 4;
/// Frames of an example.
const FRAMES: usize = 3;

/// `subject` says what was walked.
pub(crate) fn screen(comparison: &Comparison, subject: &str) -> String {
    let [first, second] = &comparison.walkers;
    let (first, second) = (&*first.name, &*second.name);
    let mut text = format!("walkfuzz compare {first} and {second}: {subject}\n\n");
    let agreement = comparison.untouched_agreement();
    let equal = comparison.untouched_equal();
    let _ = writeln!(
        text,
        "untouched  {} of {} walks in which both give frames agree or differ in a known way ({}); equal {} ({})",
        count(agreement.k),
        count(agreement.of),
        share(agreement),
        count(equal.k),
        share(equal)
    );
    let contexts: u64 = comparison
        .tiers
        .iter()
        .map(|row| row.agreements.contexts)
        .sum();
    let rate = comparison
        .per_second_in_copies
        .map_or_else(String::new, |rate| {
            format!(", {}/s inside copies", compact(rate))
        });
    let _ = writeln!(
        text,
        "contexts   {} in {:.1} s{rate}; {} frozen copies, {} lost\n",
        count(contexts),
        comparison.seconds,
        count(comparison.copies),
        count(comparison.lost)
    );
    text.push_str(&tiers(comparison, first, second));
    text.push('\n');
    text.push_str(&known(comparison));
    for (own, other) in [(0, second), (1, first)] {
        text.push_str(&codes(comparison, own, other));
    }
    if let Some(jvmti) = &comparison.jvmti {
        text.push_str(&third(jvmti));
    }
    for example in different(&comparison.examples).take(EXAMPLES) {
        text.push_str(&in_full(example, first, second));
    }
    text
}

/// Those that do not look like one before them.
fn different(examples: &[Example]) -> impl Iterator<Item = &Example> {
    let look = |example: &'_ Example| {
        let said = &example.contradiction;
        let shown = |frames: &[JavaFrame]| frames.iter().take(FRAMES).cloned().collect::<Vec<_>>();
        let reason = (said.kind, said.frame, said.known);
        let frames = (shown(&said.given), shown(&said.expected));
        (example.tier.clone(), reason, frames)
    };
    examples
        .iter()
        .enumerate()
        .filter_map(move |(at, example)| {
            let before = examples.get(..at).unwrap_or_default();
            let is_new = !before.iter().any(|one| look(one) == look(example));
            is_new.then_some(example)
        })
}

/// JVMTI beside both.
fn third(jvmti: &ThirdVoice) -> String {
    let mut text = format!(
        "jvmti      asked {} threads outside Java: {} stood still, with {} different stacks; {} moved, {} carry a virtual thread, {} missed\n\n",
        count(jvmti.asked),
        count(jvmti.stood_still),
        count(jvmti.stacks),
        count(jvmti.moved),
        count(jvmti.carriers),
        count(jvmti.missed)
    );
    let head = [
        "beside jvmti",
        "threads",
        "agrees",
        "shorter",
        "longer",
        "differs",
        "for a known reason",
        "no frames",
        "with an entry as -1",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for row in &jvmti.walkers {
        let it = &row.agreements;
        let numbers = [
            it.contexts,
            it.agree,
            it.first_shorter,
            it.second_shorter,
            it.differ,
            row.known,
            it.only_second,
            row.at_entry,
        ];
        let name = std::iter::once(row.name.clone());
        rows.push(name.chain(numbers.map(count)).collect());
    }
    let _ = writeln!(text, "{}", table(&rows));
    for row in &jvmti.walkers {
        for said in row.examples.iter().take(EXAMPLES) {
            let _ = writeln!(
                text,
                "jvmti contradicts {}: {}",
                row.name,
                what_differs(said)
            );
            text.push_str(&both(said, &row.name, "jvmti"));
        }
    }
    text
}

fn tiers(comparison: &Comparison, first: &str, second: &str) -> String {
    let mut rows = vec![vec![
        "tier".to_owned(),
        "contexts".to_owned(),
        "agree".to_owned(),
        format!("{first} shorter"),
        format!("{second} shorter"),
        "differ".to_owned(),
        format!("only {first}"),
        format!("only {second}"),
        "neither".to_owned(),
    ]];
    for row in comparison
        .tiers
        .iter()
        .filter(|row| row.agreements.contexts > 0)
    {
        let it = &row.agreements;
        let numbers = [
            it.contexts,
            it.agree,
            it.first_shorter,
            it.second_shorter,
            it.differ,
            it.only_first,
            it.only_second,
            it.neither,
        ];
        let name = std::iter::once(row.tier.clone());
        rows.push(name.chain(numbers.map(count)).collect());
    }
    table(&rows)
}

/// Why walks do not agree; nothing if all do.
fn known(comparison: &Comparison) -> String {
    let mut rows = vec![
        ["not the same", "untouched", "T1 to T3"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for row in &comparison.known {
        if row.untouched + row.natural > 0 {
            let name = row
                .known
                .map_or("for no known reason", |known| known.words());
            rows.push(vec![
                name.to_owned(),
                count(row.untouched),
                count(row.natural),
            ]);
        }
    }
    if rows.len() == 1 {
        return String::new();
    }
    format!("{}\n", table(&rows))
}

fn codes(comparison: &Comparison, own: usize, other: &str) -> String {
    let Some(voice) = comparison.walkers.get(own) else {
        return String::new();
    };
    if voice.codes.is_empty() && voice.broke == 0 {
        return String::new();
    }
    let mut rows = vec![vec![
        format!("{} without frames", voice.name),
        "walks".to_owned(),
        format!("{other} gives frames, unproven"),
    ]];
    for code in voice.codes.iter().take(CODES) {
        rows.push(vec![
            format!("{} {}", code.code, code.name),
            count(code.other_has_frames.of),
            format!(
                "{} ({})",
                count(code.other_has_frames.k),
                share(code.other_has_frames)
            ),
        ]);
    }
    if voice.broke > 0 {
        rows.push(vec![
            "fault, hang, too many".to_owned(),
            count(voice.broke),
            String::new(),
        ]);
    }
    format!("{}\n", table(&rows))
}

fn in_full(example: &Example, first: &str, second: &str) -> String {
    let said = &example.contradiction;
    format!(
        "{}: {}\n  {} in {} {}\n{}",
        example.tier,
        what_differs(said),
        example.perturbation,
        example.code.kind,
        example.code.name.as_deref().unwrap_or_default(),
        both(said, first, second)
    )
}

fn what_differs(said: &FindingContradiction) -> String {
    let known = said
        .known
        .map_or_else(String::new, |known| format!(", {}", known.words()));
    format!("{} at frame {}{known}", said.kind.words(), said.frame)
}

/// The first frames of both from where they differ.
fn both(said: &FindingContradiction, first: &str, second: &str) -> String {
    let mut text = String::new();
    for (name, frames) in [(first, &said.given), (second, &said.expected)] {
        for frame in frames.iter().take(FRAMES) {
            let _ = writeln!(text, "    {name:<10} {} @ {}", frame.method, frame.bci);
        }
    }
    text
}

fn share(count: KOfN) -> String {
    count
        .share()
        .map_or_else(|| "-".to_owned(), |share| format!("{:.2} %", share * 100.0))
}

#[cfg(test)]
mod tests {
    use walkfuzz_record::ContradictionKind;
    use walkfuzz_record::finding::FindingBlob;

    use super::*;

    #[test]
    fn an_example_is_shown_once() {
        let example = |tier: &str, bci: i32, pc: &str| Example {
            tier: tier.to_owned(),
            perturbation: pc.to_owned(),
            code: FindingBlob {
                kind: "nmethod".to_owned(),
                name: None,
                ..FindingBlob::default()
            },
            contradiction: FindingContradiction {
                oracle: "reference".to_owned(),
                kind: ContradictionKind::OtherBci,
                frame: 0,
                known: None,
                given: vec![JavaFrame {
                    method: "A.b()V".to_owned(),
                    bci,
                }],
                expected: Vec::new(),
            },
        };
        let all = [
            example("T0", 1, "untouched"),
            example("T0", 1, "untouched"),
            example("T4", 1, "pc~bit34"),
            example("T0", 2, "untouched"),
            example("T4", 1, "pc~bit35"),
        ];
        let shown: Vec<&Example> = different(&all).collect();
        assert_eq!(shown, [&all[0], &all[2], &all[3]]);
    }
}
