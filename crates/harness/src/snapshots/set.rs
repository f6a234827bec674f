//! Snapshots read from a folder into this process.

use std::path::{Path, PathBuf};

use walkfuzz_capsule::resident::Resident;
use walkfuzz_capsule::{Capsule, FileFacts, ResidentError};
use walkfuzz_context::LandscapeTable;
use walkfuzz_symbols::{Modules, SymbolTable};
use walkfuzz_vmstructs::CodeMap;

use crate::error::HarnessError;
use crate::snapshots::{CAPSULE, SCENE, Scene};

/// Says how often this program was started anew to find free addresses.
const ATTEMPT: &str = "WALKFUZZ_SNAPSHOT_ATTEMPT";
/// How often that is tried, with randomised addresses and without by turns.
const ATTEMPTS: u32 = 6;

/// A snapshot, but for its memory.
pub(crate) struct Known {
    pub(crate) path: PathBuf,
    pub(crate) scene: Scene,
    pub(crate) landscape: LandscapeTable,
    pub(crate) code: CodeMap,
    pub(crate) modules: Modules,
    pub(crate) walker: String,
}

/// Reads the folder's snapshots, in the order of their names.
pub(crate) fn read(folder: &Path) -> Result<(Resident, Vec<Known>), HarnessError> {
    let failed = |what: String| HarnessError::Snapshot(format!("{}: {what}", folder.display()));
    let wrong = |what: String| HarnessError::SnapshotFile(format!("{}: {what}", folder.display()));
    let entries = std::fs::read_dir(folder).map_err(|error| {
        wrong(format!(
            "{error}; walkfuzz snapshots take makes a folder of them"
        ))
    })?;
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|ending| ending == CAPSULE))
        .collect();
    paths.sort();
    let mut resident = Resident::new().map_err(|error| failed(error.to_string()))?;
    let mut known = Vec::new();
    for path in paths {
        let capsule = read_whole(&path)?;
        match resident.add(&capsule) {
            Ok(_) => {}
            Err(error @ ResidentError::Collision { .. }) => {
                drop(resident);
                return Err(failed(error.to_string()));
            }
            Err(error) => return Err(failed(error.to_string())),
        }
        let scene = Scene::read(&path.with_extension(SCENE))?;
        known.push(Known {
            landscape: scene.landscape(),
            code: scene.code(),
            modules: modules(&capsule),
            walker: capsule.facts.walker.clone(),
            scene,
            path,
        });
    }
    if known.is_empty() {
        return Err(wrong(
            "no snapshots; walkfuzz snapshots take makes some".to_owned(),
        ));
    }
    Ok((resident, known))
}

/// A capsule with the pages that it has by reference.
fn read_whole(path: &Path) -> Result<Capsule, HarnessError> {
    let failed = |what: String| HarnessError::Snapshot(format!("{}: {what}", path.display()));
    let wrong = |what: String| HarnessError::SnapshotFile(format!("{}: {what}", path.display()));
    let mut capsule = Capsule::read(path).map_err(|error| wrong(error.to_string()))?;
    capsule
        .resolve(|file: &FileFacts| {
            let path = PathBuf::from(&file.path);
            let table = SymbolTable::load(&path).ok()?;
            (table.identity() == Some(&file.identity)).then_some(path)
        })
        .map_err(|error| failed(error.to_string()))?;
    Ok(capsule)
}

/// The libraries, where they were.
pub(crate) fn modules(capsule: &Capsule) -> Modules {
    let mut maps = String::new();
    for file in &capsule.facts.files {
        for mapping in &file.mappings {
            let protection = capsule
                .layout
                .find(walkfuzz_context::Address(mapping.start))
                .unwrap_or_default();
            let flag = |is: bool, letter| if is { letter } else { '-' };
            maps.push_str(&format!(
                "{:x}-{:x} {}{}{}p {:08x} 00:00 1 {}\n",
                mapping.start,
                mapping.end,
                flag(protection.read(), 'r'),
                flag(protection.write(), 'w'),
                flag(protection.execute(), 'x'),
                mapping.offset,
                file.path
            ));
        }
    }
    Modules::parse(&maps)
}

/// Starts this program again, where it may lie at other addresses; returns if that was tried often enough.
pub fn start_again() {
    let attempt: u32 = std::env::var(ATTEMPT)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(0);
    if attempt >= ATTEMPTS {
        return;
    }
    let fixed = attempt.is_multiple_of(2);
    let persona = if fixed {
        libc::ADDR_NO_RANDOMIZE as libc::c_ulong
    } else {
        0
    };
    // SAFETY: changes where the next program of this process lies.
    unsafe { libc::personality(persona) };
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_default();
    let mut command = std::process::Command::new("/proc/self/exe");
    command
        .args(arguments)
        .env(ATTEMPT, (attempt + 1).to_string());
    let error = {
        use std::os::unix::process::CommandExt as _;
        command.arg0(name).exec()
    };
    eprintln!("walkfuzz: cannot start this program again: {error}");
}
