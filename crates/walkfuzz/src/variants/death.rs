//! How a cell's JVM died: what its crash log and its record say.

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use walkfuzz_record::RunFolder;
use walkfuzz_triage::{CrashLog, Ended, Exit, Signature};

/// A JVM's death.
pub(crate) struct Death {
    pub(crate) signature: String,
    pub(crate) words: String,
}

impl Death {
    /// Of process `pid`, whose one run folder is below `folder`.
    pub(crate) fn of(folder: &Path, pid: u32, status: ExitStatus) -> Self {
        let exit = match (status.code(), status.signal()) {
            (_, Some(signal)) => Exit::Signal(signal),
            (code, None) => Exit::Code(code.unwrap_or(-1)),
        };
        let ended = Ended::ByItself(exit);
        let log = crash_log(folder, pid);
        let in_walk = has_open_walk(folder);
        // Where no walk was open and none is on the stack, the walker has no place in the signature.
        let signature = log
            .as_ref()
            .and_then(|log| log.signature(in_walk.then_some("agct")))
            .unwrap_or_else(|| Signature::death(&ended.describe(), in_walk, "agct"));
        let when = if in_walk {
            "in a walk"
        } else {
            "outside walks"
        };
        let words = match &log {
            Some(_) => format!("JVM died {when}: {}", signature.title(None)),
            None => format!("JVM died {when}: {}, without a crash log", ended.describe()),
        };
        Self {
            signature: signature.to_string(),
            words,
        }
    }
}

/// The run folders below `folder`: one, unless the child did not come so far.
fn runs(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let runs = std::fs::read_dir(folder).into_iter().flatten().flatten();
    runs.map(|run| run.path())
}

/// Whether a record says that a walk was under way.
fn has_open_walk(folder: &Path) -> bool {
    let records = runs(folder).filter_map(|run| RunFolder::open(&run).ok()?.records().ok());
    records
        .flatten()
        .flatten()
        .any(|record| !record.in_flight().is_empty())
}

/// The JVM's crash log. Those of other processes are its frozen copies'.
fn crash_log(folder: &Path, pid: u32) -> Option<CrashLog> {
    let name = format!("hs_err_pid{pid}.log");
    let log = runs(folder)
        .map(|run| run.join(&name))
        .find(|path| path.is_file())?;
    CrashLog::read(log).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_death_says_where_and_whether_there_is_a_log() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("run");
        std::fs::create_dir(&run).unwrap();
        let killed = ExitStatus::from_raw(11);
        let none = Death::of(folder.path(), 7, killed);
        assert_eq!(
            none.words,
            "JVM died outside walks: killed by SIGSEGV, without a crash log"
        );
        assert_eq!(none.signature, "death|no walk open|agct|killed by SIGSEGV");
        let log = "#\n# A fatal error has been detected by the Java Runtime Environment:\n#\n\
            #  SIGSEGV (0xb) at pc=0x00007f0000000010, pid=7, tid=9\n#\n# Problematic frame:\n\
            # V  [libjvm.so+0xe5a12c]  XMark::mark_and_follow(XMarkContext*, XMarkStackEntry)+0xec\n#\n";
        // A frozen copy's.
        std::fs::write(run.join("hs_err_pid8.log"), log).unwrap();
        assert_eq!(Death::of(folder.path(), 7, killed).words, none.words);
        std::fs::write(run.join("hs_err_pid7.log"), log).unwrap();
        let aborted = Death::of(folder.path(), 7, ExitStatus::from_raw(6));
        assert_eq!(
            aborted.words,
            "JVM died outside walks: SIGSEGV in XMark::mark_and_follow"
        );
        assert_eq!(aborted.signature, "SIGSEGV|XMark::mark_and_follow|none");
    }
}
