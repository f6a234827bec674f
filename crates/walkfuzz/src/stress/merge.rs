//! `walkfuzz merge`: the shards of a stress run as the run in one piece, with what their cells left.

use std::path::Path;

use walkfuzz_stress::CellResult;
use walkfuzz_stress::report::{self, MergeError, Merged, Part};
use walkfuzz_stress::store::StressFolder;

use crate::failure::Failure;
use crate::stress::args::MergeArgs;
use crate::stress::reports::{read, show, write_reports};

pub(crate) fn run(args: &MergeArgs) -> Result<(), Failure> {
    let mut folders = Vec::new();
    let mut parts = Vec::new();
    for path in &args.runs {
        let folder = StressFolder::open(path)?;
        let (facts, cells) = read(&folder)?;
        parts.push(Part {
            name: path.display().to_string(),
            facts,
            cells,
        });
        folders.push(folder);
    }
    let Merged { facts, cells, from } = report::merge(parts)?;
    let merged = StressFolder::create_at(&args.out, &facts)?;
    for (cell, &part) in cells.iter().zip(&from) {
        if let Some(folder) = folders.get(part) {
            bring(cell, folder, &merged)?;
        }
        merged.append(cell)?;
    }
    write_reports(&merged)?;
    show(&merged, args.json, false)
}

/// Copies a cell's folder, if it left one.
fn bring(cell: &CellResult, from: &StressFolder, to: &StressFolder) -> Result<(), Failure> {
    // Not by the id that the results name: that is a word in somebody's file.
    let (from, to) = (from.cell(&cell.cell), to.cell(&cell.cell));
    if !from.is_dir() {
        return Ok(());
    }
    copy(&from, &to).map_err(|error| {
        Failure::environment(format_args!(
            "cannot copy {} to {}: {error}",
            from.display(),
            to.display()
        ))
    })
}

/// Copies a folder's files; cells make no folders.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            std::fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

impl From<MergeError> for Failure {
    fn from(error: MergeError) -> Self {
        Self::usage(error)
    }
}
