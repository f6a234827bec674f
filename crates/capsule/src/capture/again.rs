//! Another walk of a snapshot: from other registers, judged by the puppet, as a capsule of its own.

use std::io;

use walkfuzz_context::{Address, Registers};

use crate::arch;
use crate::capsule::{Capsule, Content, PageBytes};
use crate::capture::{minimise, pages, verified_as};
use crate::error::CaptureError;
use crate::format::limits::PAGE;
use crate::outcome::Ended;
use crate::puppet::{Puppet, Source, Tracee};

impl Source for Capsule {
    fn page(&self, address: u64) -> io::Result<Box<PageBytes>> {
        match self.pages.get(&address).map(|page| &page.entry) {
            Some(Content::Bytes(bytes)) => Ok(bytes.clone()),
            Some(Content::Zero) => Ok(Box::new([0; PAGE as usize])),
            Some(Content::File { .. }) | None => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

/// Walks `snapshot`, whose pages are not by reference, from `registers` under the puppet; before, the words `memory` are written, which the
/// capsule then holds. What comes of it, with the pages that the walk needs, is a capsule.
///
/// # Errors
/// [`CaptureError::NoOutcome`] if the walk does not end; [`CaptureError::Puppet`] also where it leaves the snapshot.
pub fn again(
    snapshot: &Capsule,
    registers: &Registers,
    memory: &[(Address, u64)],
    depth: i32,
    signature: &str,
    perturbation: &str,
) -> Result<Capsule, CaptureError> {
    let mut facts = snapshot.facts.clone();
    facts.entry.depth = depth.clamp(1, facts.entry.depth);
    facts.signature = signature.to_owned();
    facts.perturbation = perturbation.to_owned();
    let mut tracee = Tracee::spawn()?;
    tracee.map_stub(facts.stub.0)?;
    let mut puppet = Puppet::empty(tracee, &facts, snapshot.layout.clone())?;
    puppet.bring(snapshot, facts.entry.stack.0, |_| {})?;
    let context = registers
        .words
        .iter()
        .zip(arch::context_offsets())
        .map(|(word, offset)| (facts.entry.context.0 + offset, *word));
    let edited = memory.iter().map(|(address, word)| (address.0, *word));
    for (at, word) in edited.chain(context) {
        let in_page = (at % PAGE) as usize;
        puppet.bring(snapshot, at, |_| {})?;
        puppet.set(at - at % PAGE, in_page, &word.to_le_bytes())?;
    }
    let expected = match puppet.walk_on_demand(snapshot)? {
        Ended::Outcome(expected) => expected,
        other => return Err(CaptureError::NoOutcome(Box::new(other))),
    };
    facts.expected = expected;
    minimise::minimise(&mut puppet, &facts)?;
    let last = puppet.walk()?;
    verified_as(&facts, &last)?;
    let pages = pages(&puppet)?;
    Ok(Capsule {
        facts,
        layout: snapshot.layout.clone(),
        pages,
    })
}
