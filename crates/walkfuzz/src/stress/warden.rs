//! What ends the JVMs of a stress run that was killed: a process of its own, which waits for the end of a pipe that only the run holds.
//!
//! A killed driver cannot end its cells, and `PR_SET_PDEATHSIG` would reach the programs that it started but not what those
//! started: a script's JVM would sample on for ever. The warden has a process group of its own, so that neither a Ctrl-C nor a
//! signal to the driver's group ends it.

use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Stdio};

use walkfuzz_stress::mark::{MARK, end_orphans};
use walkfuzz_stress::orphans::start_aside;

use crate::child::myself;
use crate::failure::Failure;

/// Watches as long as it lives.
pub(crate) struct Warden(Child);

impl Warden {
    /// Has this process's cells watched.
    pub(crate) fn set() -> Result<Self, Failure> {
        let mut command = myself()?;
        command
            .args(["in-jvm", "warden", &std::process::id().to_string()])
            // It must not end itself where a cell runs this program.
            .env_remove(MARK)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        let child = start_aside(&mut command).map_err(|error| {
            Failure::environment(format_args!("cannot start this program again: {error}"))
        })?;
        Ok(Self(child))
    }
}

impl Drop for Warden {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// The warden's work.
pub(crate) fn watch(driver: u32) {
    let mut nothing = Vec::new();
    // Nothing is ever written: it ends when the driver does.
    let _ = std::io::stdin().read_to_end(&mut nothing);
    end_orphans(driver);
}
