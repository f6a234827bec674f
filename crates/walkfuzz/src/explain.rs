//! `walkfuzz explain`: one page about a finding, for a terminal, a browser or a bug tracker.
//!
//! The page is built once ([`page::Page`]), as typed sections; the formats only lay it out.

mod cause;
mod code;
mod html;
mod markdown;
mod page;
mod sections;
mod text;

use std::path::Path;

use serde::Serialize;
use walkfuzz_record::{Finding, RunFolder, Variants};

use self::page::Page;
use self::sections::Material;
use crate::cli::{ExplainArgs, ExplainFormat};
use crate::failure::Failure;
use crate::finding::known_finding;
use crate::visible::visible;

/// What `--json` prints.
#[derive(Serialize)]
struct Explained {
    finding: Finding,
    page: Page,
}

pub(crate) fn run(args: &ExplainArgs) -> Result<(), Failure> {
    let (folder, mut finding) = known_finding(&args.finding, &args.runs)?;
    let variants = grid(folder.as_ref(), &finding.id, &args.runs)?;
    let code = code::disassembly(&finding, args.jdk.as_deref());
    if let (Ok(lines), Some(site)) = (&code, &mut finding.site) {
        // A finding that nobody examined does not name it, and the libjvm does.
        site.instruction = site.instruction.take().or_else(|| code::faulting(lines));
    }
    let page = sections::page(Material {
        code,
        finding: &finding,
        variants: variants.as_ref(),
        named: &args.finding,
        runs: &args.runs,
        run: folder.as_ref(),
    });
    let text = if args.json {
        let explained = Explained { finding, page };
        let mut text = serde_json::to_string_pretty(&explained).map_err(Failure::environment)?;
        text.push('\n');
        text
    } else {
        let format = args.format.unwrap_or_else(|| of_name(args.out.as_deref()));
        let text = match format {
            ExplainFormat::Text => text::render(&page),
            ExplainFormat::Markdown => markdown::render(&page),
            ExplainFormat::Html => html::render(&page),
        };
        visible(&text).into_owned()
    };
    match &args.out {
        None => crate::write_out(text.as_bytes()),
        Some(path) => std::fs::write(path, text).map_err(|error| {
            Failure::environment(format_args!("cannot write {}: {error}", path.display()))
        }),
    }
}

/// What is known of the finding on other JVMs: from its run, and from those beside it and below `runs`, where it was tried as well.
fn grid(run: Option<&RunFolder>, finding: &str, runs: &Path) -> Result<Option<Variants>, Failure> {
    let mut known = run.map_or(Ok(None), |run| run.variants(finding))?;
    let place = |run: &RunFolder| run.path().canonicalize().ok();
    let beside = run.and_then(|run| std::path::absolute(run.path()).ok());
    let beside = beside.as_deref().and_then(Path::parent);
    let mut seen: Vec<_> = run.map(place).into_iter().collect();
    for base in beside.into_iter().chain([runs]) {
        for other in RunFolder::newest_first(base).unwrap_or_default() {
            if seen.contains(&place(&other)) {
                continue;
            }
            seen.push(place(&other));
            // A damaged file of another run hides nothing of this one.
            if let Ok(Some(earlier)) = other.variants(finding) {
                known = Some(match known {
                    Some(known) => known.with_earlier(earlier),
                    None => earlier,
                });
            }
        }
    }
    Ok(known)
}

/// The format that a file's name asks for.
fn of_name(path: Option<&Path>) -> ExplainFormat {
    match path.and_then(Path::extension).and_then(|end| end.to_str()) {
        Some("html" | "htm") => ExplainFormat::Html,
        Some("md" | "markdown") => ExplainFormat::Markdown,
        _ => ExplainFormat::Text,
    }
}
