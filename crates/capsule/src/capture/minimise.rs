//! Which words of memory does the outcome need? All others become zeros.
//!
//! What is left explains the walk: the words that the walker looked at and decided on. Deterministic, because the puppet is.

use crate::capsule::Facts;
use crate::error::PuppetError;
use crate::format::limits::PAGE;
use crate::puppet::Puppet;

/// What is tried at once: a page, half a kilobyte, a line, a word.
const SIZES: [usize; 4] = [PAGE as usize, 512, LINE, WORD];
/// Bytes in a line.
const LINE: usize = 64;
/// Bytes in a word.
const WORD: usize = 8;

/// Tries each part of each page of data. Returns how many walks it took.
pub(crate) fn minimise(puppet: &mut Puppet, facts: &Facts) -> Result<u64, PuppetError> {
    let pages = data_pages(puppet);
    let mut walks = 0;
    for page in pages {
        minimise_part(puppet, facts, page, 0, &SIZES, &mut walks)?;
    }
    Ok(walks)
}

/// Zeroes the part at `at` of the first of `sizes`, or what of it can be.
fn minimise_part(
    puppet: &mut Puppet,
    facts: &Facts,
    page: u64,
    at: usize,
    sizes: &[usize],
    walks: &mut u64,
) -> Result<(), PuppetError> {
    let Some((&size, smaller)) = sizes.split_first() else {
        return Ok(());
    };
    let now = puppet
        .images()
        .get(&page)
        .and_then(|image| image.bytes.get(at..at + size));
    let Some(before) = now.map(<[u8]>::to_vec) else {
        return Ok(());
    };
    let without = without(facts, page + at as u64, size);
    if before == without {
        return Ok(());
    }
    puppet.set(page, at, &without)?;
    *walks += 1;
    let ended = puppet.walk()?;
    if facts.expected.is(&ended) {
        return Ok(());
    }
    puppet.set(page, at, &before)?;
    if let Some(&part) = smaller.first() {
        for at in (at..at + size).step_by(part) {
            minimise_part(puppet, facts, page, at, smaller, walks)?;
        }
    }
    Ok(())
}

/// Zeros; where the walk's return address lies, that.
fn without(facts: &Facts, address: u64, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    let at = facts.entry.stack.0.wrapping_sub(address);
    let word = usize::try_from(at)
        .ok()
        .and_then(|at| bytes.get_mut(at..at.checked_add(8)?));
    if let Some(word) = word {
        word.copy_from_slice(&facts.stub.0.to_le_bytes());
    }
    bytes
}

/// Pages that hold data.
fn data_pages(puppet: &Puppet) -> Vec<u64> {
    let images = puppet.images().iter();
    images
        .filter(|(_, image)| image.protection.is_data())
        .map(|(&address, _)| address)
        .collect()
}

/// Lines of data that are not zero.
pub(crate) fn lines(puppet: &Puppet) -> usize {
    let pages = data_pages(puppet);
    let bytes = pages.iter().filter_map(|page| puppet.images().get(page));
    bytes
        .flat_map(|image| image.bytes.chunks(LINE))
        .filter(|line| line.iter().any(|byte| *byte != 0))
        .count()
}
