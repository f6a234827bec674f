//! libc's code does not go into a capsule: where a walk calls a few small functions of it, the capsule has [shims](arch::shims).
//!
//! The words through which the walk finds these functions (libjvm's global offset table) are made to point to the shims, the pages of libc's
//! code are taken away, and the walk must come to the same end: signal, code, address and pc, or frames. What a function leaves in
//! registers that it need not keep may be different, so the end of this walk is the one that the capsule expects. A walk that calls other
//! functions, or ends in one, keeps libc's pages.

use crate::arch;
use crate::capsule::{Facts, FaultOutcome, Layout, Outcome, Protection};
use crate::capture::frozen::Frozen;
use crate::error::PuppetError;
use crate::format::limits::PAGE;
use crate::outcome::Ended;
use crate::puppet::{Puppet, Source as _};

/// A word of the puppet's that was changed: its page, where on it, what it was.
type Word = (u64, usize, [u8; 8]);

/// Takes libc's code out of the puppet, whose last walk ended as `facts` expect, if it can do without. `facts` and `layout` say what came of it.
pub(crate) fn shim(
    puppet: &mut Puppet,
    source: &Frozen,
    facts: &mut Facts,
    layout: &mut Layout,
) -> Result<(), PuppetError> {
    let text: Vec<u64> = puppet
        .images()
        .iter()
        .filter(|(page, image)| image.protection.execute() && source.is_libc(**page))
        .map(|(page, _)| *page)
        .collect();
    if text.is_empty() {
        return Ok(());
    }
    let (shims, code) = arch::shims();
    let place = facts.shim_pages();
    let mut words: Vec<Word> = Vec::new();
    let mut names = Vec::new();
    for shim in shims {
        if !text.contains(&(shim.function & !(PAGE - 1))) {
            continue;
        }
        let found = puppet.find(shim.function);
        let to = (place + shim.offset).to_le_bytes();
        for &(page, at) in &found {
            puppet.set(page, at, &to)?;
            words.push((page, at, shim.function.to_le_bytes()));
        }
        if !found.is_empty() {
            names.push(shim.name.to_owned());
        }
    }
    let (run, read) = (
        Protection::new(true, false, true),
        Protection::new(true, false, false),
    );
    puppet.add(place, run, &code)?;
    puppet.add(place + PAGE, read, &arch::thread_values())?;
    for &page in &text {
        puppet.remove(page)?;
    }
    let ended = puppet.walk()?;
    if let Ended::Outcome(outcome) = ended
        && is_same_end(&facts.expected, &outcome)
    {
        facts.expected = outcome;
        facts.shims = names;
        layout.insert(place..place + PAGE, run);
        layout.insert(place + PAGE..place + 2 * PAGE, read);
        return Ok(());
    }
    facts.libc_code = why(&ended, source);
    puppet.remove(place)?;
    puppet.remove(place + PAGE)?;
    for (page, at, before) in words {
        puppet.set(page, at, &before)?;
    }
    for page in text {
        let protection = layout.find(walkfuzz_context::Address(page));
        let bytes = source.page(page).map_err(|source| PuppetError::System {
            what: "read a page of the frozen process",
            source,
        })?;
        puppet.add(page, protection.unwrap_or(run), &bytes)?;
    }
    Ok(())
}

/// But for registers.
fn is_same_end(before: &Outcome, after: &Outcome) -> bool {
    match (before, after) {
        (Outcome::Fault(before), Outcome::Fault(after)) => {
            let end = |fault: &FaultOutcome| {
                (
                    fault.signal,
                    fault.code,
                    fault.address,
                    fault.registers.pc(),
                    fault.near_misses,
                )
            };
            end(before) == end(after)
        }
        (Outcome::Frames(before), Outcome::Frames(after)) => before == after,
        _ => false,
    }
}

/// Why the pages stay.
fn why(ended: &Ended, source: &Frozen) -> String {
    match ended {
        Ended::MissingPage(address) if source.is_libc(address.0) => {
            format!("the walk runs {}", source.name_of(address.0))
        }
        other => format!("with shims the walk ends otherwise ({other})"),
    }
}
