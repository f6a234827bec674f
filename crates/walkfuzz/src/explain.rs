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
use walkfuzz_record::Finding;

use self::page::Page;
use self::sections::Material;
use crate::cli::{ExplainArgs, ExplainFormat};
use crate::failure::Failure;
use crate::finding::find_finding;

/// What `--json` prints.
#[derive(Serialize)]
struct Explained {
    finding: Finding,
    page: Page,
}

pub(crate) fn run(args: &ExplainArgs) -> Result<(), Failure> {
    let (folder, finding) = find_finding(&args.finding, &args.runs)?;
    let variants = folder.variants(&finding.id)?;
    let page = sections::page(Material {
        code: code::disassembly(&finding, args.jdk.as_deref()),
        finding: &finding,
        variants: variants.as_ref(),
        named: &args.finding,
    });
    let text = if args.json {
        let explained = Explained { finding, page };
        let mut text = serde_json::to_string_pretty(&explained).map_err(Failure::environment)?;
        text.push('\n');
        text
    } else {
        match args.format.unwrap_or_else(|| of_name(args.out.as_deref())) {
            ExplainFormat::Text => text::render(&page),
            ExplainFormat::Markdown => markdown::render(&page),
            ExplainFormat::Html => html::render(&page),
        }
    };
    match &args.out {
        None => crate::print(text.as_bytes()),
        Some(path) => std::fs::write(path, text).map_err(|error| {
            Failure::environment(format_args!("cannot write {}: {error}", path.display()))
        }),
    }
}

/// The format that a file's name asks for.
fn of_name(path: Option<&Path>) -> ExplainFormat {
    match path.and_then(Path::extension).and_then(|end| end.to_str()) {
        Some("html" | "htm") => ExplainFormat::Html,
        Some("md" | "markdown") => ExplainFormat::Markdown,
        _ => ExplainFormat::Text,
    }
}
