//! What a check changes in the corpus: an entry's count of misses, and the folder that it stands in.

use walkfuzz_triage::corpus::{Entry, State};

use crate::corpus::args::CheckArgs;
use crate::corpus::capsule;
use crate::corpus::check::Checked;
use crate::failure::Failure;

/// Writes down what the rules say.
pub(super) fn settle(
    args: &CheckArgs,
    state: State,
    mut entry: Entry,
    checked: &Checked,
) -> Result<(), Failure> {
    let target = State::ALL
        .into_iter()
        .find(|state| Some(state.folder()) == checked.moves_to);
    if entry.misses == checked.misses && target.is_none() {
        return Ok(());
    }
    entry.misses = checked.misses;
    let here = args.corpus.join(state.folder());
    let folder = match target {
        Some(target) => {
            entry.expected = target.expected();
            if state == State::Regression {
                // It crashes the version that was to have the fix: that is the one to look at from now on.
                entry.jdk = entry.fixed.take().or(entry.jdk);
            }
            args.corpus.join(target.folder())
        }
        None => here.clone(),
    };
    let there = folder.join(format!("{}.toml", entry.name));
    if target.is_some() && there.exists() {
        return Err(Failure::environment(format_args!(
            "cannot move {} to {}: one of that name is there already",
            entry.name,
            folder.display()
        )));
    }
    entry.write(&folder).map_err(Failure::environment)?;
    if target.is_some() {
        let old = here.join(format!("{}.toml", entry.name));
        std::fs::remove_file(&old).map_err(|error| {
            Failure::environment(format_args!("cannot remove {}: {error}", old.display()))
        })?;
        capsule::follow(&here, &folder, &entry.name)?;
    }
    Ok(())
}
