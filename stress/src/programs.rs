//! Our own programs: the jar that `scripts/build-workloads` makes of stress/workloads/programs, and how it is started.

use std::path::Path;

/// The jar.
pub const JAR: &[u8] = include_bytes!("../workloads/programs/programs.jar");
/// What its file is called.
pub const NAME: &str = "programs";
/// The class that runs a program.
pub const MAIN: &str = "walkfuzz.programs.Main";
/// The class that counts the samples of flight recordings.
const RECORDING: &str = "walkfuzz.programs.Recording";

/// The command that prints the samples of flight recordings, which go behind it.
#[must_use]
pub fn reader(java: &Path, jar: &Path) -> Vec<String> {
    let word = |path: &Path| path.display().to_string();
    vec![
        word(java),
        "-cp".to_owned(),
        word(jar),
        RECORDING.to_owned(),
    ]
}
