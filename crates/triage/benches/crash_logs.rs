//! How long 1,000 crash logs take to be read, planned for and grouped: `cargo bench -p walkfuzz-triage --bench crash_logs`.
//!
//! The logs are those of `corpus/hs_err`, again and again; unpacking them is not counted. Exit code 1: over 2 s.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use walkfuzz_triage::KnownIssues;
use walkfuzz_triage::crash_plan::group;

const LOGS: usize = 1_000;
const AT_MOST: Duration = Duration::from_secs(2);

fn main() -> std::io::Result<ExitCode> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/hs_err");
    let mut corpus = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "zst") {
            corpus.push(zstd::decode_all(std::fs::File::open(path)?)?);
        }
    }
    let logs = || corpus.iter().cycle().take(LOGS).map(Vec::as_slice);
    let bytes: usize = logs().map(<[u8]>::len).sum();
    let mut times: Vec<Duration> = Vec::new();
    let mut groups = 0;
    for _ in 0..5 {
        let start = Instant::now();
        groups = group(logs(), KnownIssues::built_in()).len();
        times.push(start.elapsed());
    }
    times.sort();
    println!(
        "{LOGS} crash logs, {} MB: {:?} (median of 5; {:?} to {:?}), {groups} groups",
        bytes >> 20,
        times[2],
        times[0],
        times[4]
    );
    Ok(if times[2] > AT_MOST {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}
