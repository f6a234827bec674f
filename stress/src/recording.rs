//! JFR as a walker: what `walkfuzz.programs.Recording` counts in a flight recording, as a cell's numbers.

use walkfuzz_record::codes::code_name;
use walkfuzz_record::summary::Quantiles;
use walkfuzz_record::{Code, Generation};

use crate::result::{CodeCount, Numbers, Sampling, WalkCounts};

/// JFR's samplers: a walker's name, its event, its setting and the feature release that brought it.
pub const WALKERS: [(&str, &str, &str, u32); 2] = [
    ("jfr-execution", "jdk.ExecutionSample", "period", 11),
    ("jfr-cputime", "jdk.CPUTimeSample", "throttle", 25),
];

/// Whether a walker of that name is one of JFR's.
#[must_use]
pub fn is_jfr(walker: &str) -> bool {
    WALKERS.iter().any(|(name, ..)| *name == walker)
}

/// Samples a second of a running thread that JFR's samplers are meant to give: they walk some threads each round, every 10 ms by default.
#[must_use]
pub fn usual_rate(walker: &str) -> Option<f64> {
    is_jfr(walker).then_some(100.0)
}

/// The settings file (`.jfc`) that turns one sampler on; `interval` as JFR writes times, `1 ms`.
#[must_use]
pub fn settings(walker: &str, interval: &str) -> Option<String> {
    let (_, event, setting, _) = WALKERS.iter().find(|(name, ..)| *name == walker)?;
    let on = |event: &str, more: &str| {
        format!(
            "  <event name=\"{event}\"><setting name=\"enabled\">true</setting>{more}</event>\n"
        )
    };
    let mut text =
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<configuration version=\"2.0\">\n".to_owned();
    let every = format!("<setting name=\"{setting}\">{interval}</setting>");
    text.push_str(&on(event, &every));
    if *event == "jdk.ExecutionSample" {
        text.push_str(&on("jdk.NativeMethodSample", &every));
    } else {
        text.push_str(&on("jdk.CPUTimeSamplesLost", ""));
    }
    text.push_str(&on("jdk.DataLoss", ""));
    text.push_str("</configuration>\n");
    Some(text)
}

/// Reads what was counted. `None` if no recording could be read.
#[must_use]
pub fn numbers(said: &str) -> Option<(Numbers, Vec<String>)> {
    let mut numbers = Numbers::of(&walkfuzz_record::Totals::default());
    let mut warnings = Vec::new();
    let (mut failed, mut read) = (0, false);
    let mut depths: Vec<(u64, u64)> = Vec::new();
    for line in said
        .lines()
        .filter_map(|line| line.strip_prefix("walkfuzz: "))
    {
        let mut words = line.split(' ');
        match words.next() {
            Some("samples") => {
                read = true;
                let field = |name: &str| -> u64 {
                    let mut fields = line.split(' ');
                    let value = fields.find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
                    value.and_then(|value| value.parse().ok()).unwrap_or(0)
                };
                numbers.untouched.walks += field("all");
                numbers.untouched.frames += field("frames");
                numbers.sampling.biased += field("biased");
                numbers.sampling.repeated += field("repeated");
                failed += field("failed");
            }
            Some("depth") => {
                let mut next = || words.next().and_then(|word| word.parse().ok());
                if let (Some(up_to), Some(count)) = (next(), next()) {
                    depths.push((up_to, count));
                }
            }
            Some("lost") => {
                numbers.sampling.lost =
                    words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
            }
            Some("data-loss") if words.next() != Some("0") => {
                warnings.push("JFR lost data while it recorded".to_owned());
            }
            Some("cut") => warnings.push(format!("recording {line}")),
            _ => {}
        }
    }
    let WalkCounts { walks, frames, .. } = numbers.untouched;
    numbers.sampling = Sampling {
        delivered: walks,
        ..numbers.sampling
    };
    let lost = numbers.sampling.lost;
    // A lost sample was a try to walk, too.
    numbers.untouched.walks += lost;
    let counts = [
        (
            0,
            walks - frames.min(walks) - failed.min(walks - frames.min(walks)),
        ),
        (-1, failed),
        (-2, lost),
    ];
    numbers.codes = counts
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(code, untouched)| CodeCount {
            generation: Generation::Jfr,
            code,
            name: code_name(Generation::Jfr, Code(code)).to_owned(),
            untouched,
            perturbed: 0,
        })
        .collect();
    numbers.depth = quantiles(&depths);
    numbers.depth_curve = depths;
    (read || !warnings.is_empty()).then_some((numbers, warnings))
}

fn quantiles(steps: &[(u64, u64)]) -> Quantiles {
    let of: u64 = steps.iter().map(|(_, count)| count).sum();
    let at = |share: f64| {
        let mut seen = 0;
        let reached = steps.iter().find(|(_, count)| {
            seen += count;
            seen as f64 >= share * of as f64
        });
        reached.map_or(0, |(up_to, _)| *up_to)
    };
    Quantiles {
        p50: at(0.5),
        p99: at(0.99),
        max: steps.last().map_or(0, |(up_to, _)| *up_to),
        of,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_become_numbers() {
        let said = "walkfuzz: samples jdk.CPUTimeSample all=285 frames=270 failed=10 biased=185 truncated=0 repeated=3\n\
                    walkfuzz: depth 1 100\nwalkfuzz: depth 16 170\nwalkfuzz: lost 15\nwalkfuzz: data-loss 0\n";
        let (numbers, warnings) = numbers(said).unwrap();
        assert_eq!(numbers.untouched.walks, 300);
        assert_eq!(numbers.untouched.frames, 270);
        let codes: Vec<_> = numbers
            .codes
            .iter()
            .map(|row| (row.code, row.untouched))
            .collect();
        assert_eq!(codes, [(0, 5), (-1, 10), (-2, 15)]);
        assert_eq!(
            (
                numbers.sampling.biased,
                numbers.sampling.repeated,
                numbers.sampling.lost,
                numbers.sampling.delivered
            ),
            (185, 3, 15, 285)
        );
        assert_eq!((numbers.depth.p50, numbers.depth.of), (16, 270));
        assert!(warnings.is_empty());
    }

    #[test]
    fn a_recording_that_is_cut_or_absent_is_said() {
        assert_eq!(numbers("nothing\n"), None);
        let (cut, warnings) =
            numbers("walkfuzz: cut r.jfr: java.io.IOException: short\nwalkfuzz: lost 0\n").unwrap();
        assert_eq!(cut.untouched.walks, 0);
        assert!(warnings[0].contains("r.jfr"));
    }

    #[test]
    fn one_sampler_is_turned_on() {
        let text = settings("jfr-cputime", "1 ms").unwrap();
        assert!(text.contains("jdk.CPUTimeSample\"") && !text.contains("jdk.ExecutionSample"));
        assert!(text.contains("<setting name=\"throttle\">1 ms</setting>"));
        assert_eq!(settings("agct", "1 ms"), None);
    }
}
