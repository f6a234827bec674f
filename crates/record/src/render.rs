//! A [`Summary`] as the end screen: 24 lines of 80 columns, whatever is in it.
//!
//! Contract: pure. The fullest form is `serde_json` of the same [`Summary`].

pub mod numbers;

use crate::finding::{FindingVerdict, WitnessCount};
use crate::summary::{FindingRow, OutcomeRow, Summary, Verdict};

use numbers::{compact, count, nanoseconds, percent, rate, share, short};

/// Columns of the screen.
pub const COLUMNS: usize = 80;
/// Lines of the screen.
pub const LINES: usize = 24;

const OUTCOME_ROWS: usize = 6;
const LEAST_OUTCOME_ROWS: usize = 4;
const FINDING_ROWS: usize = 5;

/// The end screen; every line ends in a newline.
#[must_use]
pub fn end_screen(summary: &Summary) -> String {
    let mut lines = vec![
        title(summary),
        format!("verdict   {}: {}", verdict(summary.verdict), summary.reason),
        walks(summary),
        format!("controls  {} succeeded", share(summary.controls, "%")),
        format!("faults    untouched {}", rate(summary.untouched_faults)),
        format!("          perturbed {}", rate(summary.perturbed_faults)),
        events(summary),
        engine(summary),
        time(summary),
    ];
    lines.extend(oracle(summary));
    lines.extend(mistakes(summary));
    lines.extend(blocks(summary));
    let (troubles, next) = (troubles(summary), next(summary));
    let rest = usize::from(troubles.is_some()) + next.len();
    // The table of outcomes makes room where titles or the command need several lines.
    let wanted = lines.len() + 1 + findings(summary, usize::MAX).len() + rest;
    let rows = LINES
        .saturating_sub(wanted)
        .clamp(LEAST_OUTCOME_ROWS, OUTCOME_ROWS);
    lines.extend(outcomes(summary, rows));
    let room = LINES.saturating_sub(lines.len() + rest);
    lines.extend(findings(summary, room));
    lines.extend(troubles);
    lines.extend(next);
    let fitted = lines
        .iter()
        .take(LINES)
        .map(|line| fit(line, COLUMNS) + "\n");
    fitted.collect()
}

fn title(summary: &Summary) -> String {
    let walkers: Vec<_> = summary.walkers.iter().map(|w| w.name.as_str()).collect();
    let machine = &summary.machine;
    let emulated = if machine.emulated { ", emulated" } else { "" };
    let cpus = if machine.cpus == 1 { "cpu" } else { "cpus" };
    format!(
        "walkfuzz {} {}: {} {}, {}, {} {cpus}{emulated}",
        summary.driver,
        walkers.join("+"),
        summary.jvm.version,
        summary.jvm.collector,
        machine.arch,
        machine.cpus,
    )
}

fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "pass",
        Verdict::Findings => "findings",
        Verdict::Unknown => "unknown",
    }
}

fn walks(summary: &Summary) -> String {
    let end = if summary.finished { "" } else { ", cut short" };
    let rate = summary
        .walks_per_second
        .map_or("no rate".to_owned(), |rate| format!("{}/s", compact(rate)));
    format!(
        "walks     {} in {:.1} s ({rate}{end}): {} untouched, {} perturbed",
        count(summary.walks),
        summary.seconds,
        count(summary.untouched_walks),
        count(summary.perturbed_walks),
    )
}

fn events(summary: &Summary) -> String {
    let events = &summary.events;
    format!(
        "events    near misses {}, recoveries {}, writes {}, hangs {}, drops {}, stale {}",
        count(events.near_misses),
        count(events.recoveries),
        count(events.stack_writes),
        count(events.hangs),
        count(events.drops),
        count(events.stale_hits),
    )
}

/// What an oracle said; absent where nobody asked one.
fn oracle(summary: &Summary) -> Option<String> {
    let oracle = &summary.oracle;
    (oracle.compared != 0).then(|| {
        format!(
            "oracle    {} compared: agree {}, cut short {}, unproven {}, wrong {}",
            count(oracle.compared),
            percent(oracle.agreed, oracle.compared),
            count(oracle.prefixes),
            count(oracle.unproven),
            count(oracle.wrong),
        )
    })
}

/// What the oracle itself has wrong; absent where that was never seen.
fn mistakes(summary: &Summary) -> Option<String> {
    let oracle = &summary.oracle;
    (oracle.known != 0).then(|| {
        format!(
            "          {} of {} are known mistakes of the oracle's own",
            count(oracle.known),
            count(oracle.compared)
        )
    })
}

/// What the walks reached of the code that walks; absent where nobody looked.
fn blocks(summary: &Summary) -> Option<String> {
    let events = &summary.events;
    (events.blocks_planted != 0).then(|| {
        format!(
            "blocks    {} of {} of the walk code",
            count(events.blocks_seen),
            count(events.blocks_planted)
        )
    })
}

fn engine(summary: &Summary) -> String {
    let engine = &summary.engine;
    let requested = if engine.requested == 0 {
        String::new()
    } else {
        format!(" of {} requested", count(engine.requested))
    };
    format!(
        "engine    inputs {}, parks {}, steps {}, samples {}{requested} ({} outside Java)",
        count(engine.inputs),
        count(engine.parks),
        count(engine.steps),
        count(engine.samples),
        percent(engine.outside_java, engine.samples),
    )
}

fn time(summary: &Summary) -> String {
    let walker = if summary.thread_seconds > 0.0 {
        format!(
            "{:.1} % of {:.1} s thread time",
            100.0 * summary.walker_seconds / summary.thread_seconds,
            summary.thread_seconds
        )
    } else {
        format!("{:.1} s", summary.walker_seconds)
    };
    let (depth, latency) = (&summary.depth_frames, &summary.latency_ns);
    format!(
        "walker    {walker}; p50/p99: {}/{} frames, {}/{}",
        depth.p50,
        depth.p99,
        nanoseconds(latency.p50),
        nanoseconds(latency.p99),
    )
}

fn outcomes(summary: &Summary, rows: usize) -> Vec<String> {
    let of = [summary.untouched_walks, summary.perturbed_walks];
    let row = |name: &str, untouched: u64, perturbed: u64| {
        format!(
            "  {:<34} {:>11} {:>8} {:>11} {:>8}",
            fit(name, 34),
            count(untouched),
            percent(untouched, of[0]),
            count(perturbed),
            percent(perturbed, of[1]),
        )
    };
    let mut lines = vec![format!(
        "{:<48}{:>9}{:>20}",
        "outcomes", "untouched", "perturbed"
    )];
    // The last row is for the rest, if one row is not enough for it.
    let whole = if summary.outcomes.len() > rows {
        rows - 1
    } else {
        rows
    };
    let (shown, rest) = summary.outcomes.split_at(whole.min(summary.outcomes.len()));
    lines.extend(
        shown
            .iter()
            .map(|outcome| row(&outcome_name(outcome), outcome.untouched, outcome.perturbed)),
    );
    if !rest.is_empty() {
        let sum = |of: fn(&OutcomeRow) -> u64| rest.iter().map(of).fold(0, u64::saturating_add);
        let name = format!("{} more", rest.len());
        lines.push(row(&name, sum(|o| o.untouched), sum(|o| o.perturbed)));
    }
    lines
}

fn outcome_name(outcome: &OutcomeRow) -> String {
    match (outcome.generation, outcome.code) {
        (Some(generation), Some(code)) => format!("{generation} {code} {}", outcome.name),
        _ => outcome.name.clone(),
    }
}

/// In at most so many lines; a title that is too long for its line goes on in the next while there are lines to spare.
fn findings(summary: &Summary, room: usize) -> Vec<String> {
    let last = summary
        .findings
        .iter()
        .max_by(|a, b| a.after_seconds.total_cmp(&b.after_seconds))
        .map_or(String::new(), |last| {
            format!("; last new after {:.1} s", last.after_seconds)
        });
    let most = FINDING_ROWS.min(room.saturating_sub(1));
    let more = match summary.findings.len().saturating_sub(most) {
        0 => String::new(),
        more => format!("; {more} not shown"),
    };
    let synthetic = match summary.synthetic {
        0 => String::new(),
        synthetic => format!(", {synthetic} synthetic"),
    };
    let mut lines = vec![format!(
        "findings  {} bugs, {} robustness{synthetic}{last}{more}",
        summary.bugs, summary.robustness
    )];
    let shown = summary.findings.iter().take(most);
    let rows: Vec<_> = shown.map(|row| finding(row, summary)).collect();
    // Columns as narrow as they can be: the titles need the room.
    let width = |cell: fn(&FindingCells) -> &str| {
        let widths = rows.iter().map(|row| cell(row).chars().count());
        widths.max().unwrap_or(0)
    };
    let (counts, seen) = (width(|row| &row.count), width(|row| &row.seen));
    let class = width(|row| &row.class);
    let mut spare = room.saturating_sub(lines.len() + rows.len());
    for row in &rows {
        let start = format!(
            "  {:<class$} {:>counts$} {:<seen$} ",
            row.class, row.count, row.seen
        );
        let indent = start.chars().count();
        let room = COLUMNS.saturating_sub(indent);
        let whole = [&*row.title, &*row.known].join(" ");
        if whole.trim_end().chars().count() <= room {
            lines.push(start + whole.trim_end());
        } else if spare > 0 {
            spare -= 1;
            let (first, rest) = broken(&row.title, room);
            lines.push(start + first);
            let rest = [rest, &*row.known].join(if rest.is_empty() { "" } else { " " });
            lines.push(format!("{:indent$}{}", "", rest.trim_end()));
        } else {
            // What an issue is called says more than the end of a function's name.
            let room = room.saturating_sub(row.known.chars().count() + 1);
            lines.push(format!("{start}{} {}", fit(&row.title, room), row.known));
        }
    }
    lines
}

/// Breaks a title where a word or a part of a qualified name ends, at most `columns` from its begin. A title that fits stays whole.
fn broken(title: &str, columns: usize) -> (&str, &str) {
    if title.chars().count() <= columns {
        return (title, "");
    }
    let limit = title
        .char_indices()
        .nth(columns)
        .map_or(title.len(), |(at, _)| at);
    let head = title.get(..limit).unwrap_or(title);
    let name = head.rfind("::").map(|at| at + 2);
    let word = head.rfind([' ', '_']).map(|at| at + 1);
    let at = name.max(word).filter(|at| *at > 0).unwrap_or(limit);
    title.split_at(at)
}

struct FindingCells {
    class: String,
    count: String,
    seen: String,
    title: String,
    known: String,
}

fn finding(row: &FindingRow, summary: &Summary) -> FindingCells {
    let verdict = match row.verdict {
        FindingVerdict::Bug => "bug",
        FindingVerdict::Robustness => "robust",
        FindingVerdict::Synthetic => "synthetic",
    };
    // What the columns and the first line say already.
    let tier_in_title = format!(" [{}]", row.tier);
    let mut title = row.title.strip_suffix(&tier_in_title).unwrap_or(&row.title);
    if let [walker] = &summary.walkers[..] {
        let walker_in_title = format!(" via {}", walker.name);
        title = title.strip_suffix(&walker_in_title).unwrap_or(title);
    }
    let tainted = if row.tainted { "(tainted) " } else { "" };
    FindingCells {
        class: format!("{} {verdict}", row.tier),
        count: format!("{}x", short(row.count)),
        seen: witness(row.witness),
        title: format!("{tainted}{title}"),
        known: known(row),
    }
}

/// `(known JDK-8313796)`: the best match whose versions fit or are not known.
fn known(row: &FindingRow) -> String {
    let fitting = row
        .known
        .iter()
        .find(|known| known.versions != "not-affected");
    fitting.map_or_else(String::new, |known| format!("(known {})", known.id))
}

fn witness(witness: WitnessCount) -> String {
    match witness.observed {
        0 => format!("never/{}", short(witness.of)),
        observed => format!("{}/{}", short(observed), short(witness.of)),
    }
}

/// What went wrong with processes and evidence, in one line, if anything did.
fn troubles(summary: &Summary) -> Option<String> {
    let processes = summary.processes.iter().filter(|(o, _)| !o.is_orderly());
    let mut parts: Vec<_> = processes
        .map(|(outcome, count)| format!("{count} {}", outcome.name()))
        .collect();
    let evidence = &summary.evidence;
    let damage = [
        (evidence.damaged_records, "damaged records"),
        (evidence.unreadable_records, "unreadable records"),
        (evidence.damaged_lines, "damaged lines"),
    ];
    let damage = damage.iter().filter(|(count, _)| *count != 0);
    parts.extend(damage.map(|(count, what)| format!("{count} {what}")));
    (!parts.is_empty()).then(|| format!("troubles  {}", parts.join(", ")))
}

/// The command, on several lines if it must be, as a shell reads it. One that is cut off is worse than a shorter one.
fn next(summary: &Summary) -> Vec<String> {
    const LABEL: usize = "next      ".len();
    const CONTINUED: usize = " \\".len();
    const MOST: usize = 4;
    let mut lines: Vec<String> = Vec::new();
    for word in words(&summary.command) {
        let width = word.chars().count();
        match lines.last_mut() {
            Some(line) if LABEL + line.chars().count() + 1 + width + CONTINUED <= COLUMNS => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    let fits = |line: &String| LABEL + line.chars().count() + CONTINUED <= COLUMNS;
    if lines.len() > MOST || !lines.iter().all(fits) {
        lines = vec!["walkfuzz report --findings".to_owned()];
    }
    let last = lines.len().saturating_sub(1);
    let labelled = lines.iter().enumerate().map(|(index, line)| {
        let label = if index == 0 { "next" } else { "" };
        let end = if index == last { "" } else { " \\" };
        format!("{label:<LABEL$}{line}{end}")
    });
    labelled.collect()
}

/// The words of a command, those in quotes whole.
fn words(command: &str) -> Vec<&str> {
    let (mut quoted, mut escaped) = (false, false);
    let words = command.split(|c: char| {
        quoted ^= c == '\'' && !escaped;
        escaped = c == '\\' && !quoted && !escaped;
        c == ' ' && !quoted
    });
    words.filter(|word| !word.is_empty()).collect()
}

/// At most so many characters, an ellipsis where something is missing, and no control characters.
fn fit(text: &str, columns: usize) -> String {
    let clean: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if clean.chars().count() <= columns {
        return clean.trim_end().to_owned();
    }
    let mut cut: String = clean.chars().take(columns.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_break_between_words_or_parts_of_names() {
        let title = "SIGSEGV in JavaThread::pd_get_top_frame_for_signal_handler";
        assert_eq!(broken(title, 80), (title, ""));
        assert_eq!(
            broken(title, 40),
            (
                "SIGSEGV in JavaThread::pd_get_top_frame_",
                "for_signal_handler"
            )
        );
        assert_eq!(
            broken(title, 24),
            (
                "SIGSEGV in JavaThread::",
                "pd_get_top_frame_for_signal_handler"
            )
        );
        assert_eq!(broken("unbreakable", 4), ("unbr", "eakable"));
    }

    #[test]
    fn a_command_is_split_at_its_words() {
        assert_eq!(
            words("A='x y' b  c='it'\\''s z'"),
            ["A='x y'", "b", "c='it'\\''s z'"]
        );
    }

    #[test]
    fn what_does_not_fit_ends_in_an_ellipsis() {
        assert_eq!(fit("abcdef", 6), "abcdef");
        assert_eq!(fit("abcdefg", 6), "abcde…");
        assert_eq!(fit("a\nb", 6), "a b");
    }
}
