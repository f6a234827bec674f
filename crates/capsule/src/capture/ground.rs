//! Ground that walks go over: a moment's memory, and a puppet that walks it again and again, from any registers.
//!
//! Each walk begins with the memory as it was, so that the same registers always end the same, whatever was walked before: what a search
//! in it finds does not depend on chance.

use std::io;
use std::time::Instant;

use walkfuzz_context::{Address, Registers, Sp};

use crate::arch;
use crate::capsule::{Capsule, Content, Facts, Layout, PageBytes};
use crate::capture::frozen::Frozen;
use crate::capture::{
    Copies, Effort, Request, facts_of, minimise, pages, shim, verified_as, walk_stack, whole,
};
use crate::error::{CaptureError, PuppetError};
use crate::format::limits::PAGE;
use crate::outcome::{Ended, ReturnedFrame};
use crate::puppet::{Absent, Puppet, Source, Tracee, Walk, judge};
use crate::request::Keep;
use crate::resident::{KeptSnapshot, Pages};

/// A moment's memory, with a puppet in it.
pub struct Ground<'a> {
    source: Memory<'a>,
    puppet: Puppet,
    facts: Facts,
    /// Words that are something else than they were: addresses and what stands there.
    edits: Vec<(Address, u64)>,
    /// Whether the puppet has pages of other walks.
    strayed: bool,
    effort: Effort,
}

/// Where pages come from.
enum Memory<'a> {
    Frozen(Frozen),
    Capsule(&'a Capsule),
    Resident(&'a KeptSnapshot, &'a Pages),
}

impl Source for Memory<'_> {
    fn page(&self, address: u64) -> io::Result<Box<PageBytes>> {
        match self {
            Self::Frozen(frozen) => frozen.page(address),
            Self::Capsule(capsule) => match capsule.pages.get(&address).map(|page| &page.entry) {
                Some(Content::Bytes(bytes)) => Ok(bytes.clone()),
                Some(Content::Zero) => Ok(Box::new([0; PAGE as usize])),
                Some(Content::File { .. }) | None => Err(io::ErrorKind::NotFound.into()),
            },
            Self::Resident(kept, pages) => pages.page(kept, address),
        }
    }
}

impl Memory<'_> {
    fn layout<'b>(&'b self, puppet: &'b Puppet) -> &'b Layout {
        match self {
            Self::Frozen(_) => puppet.layout(),
            Self::Capsule(capsule) => &capsule.layout,
            Self::Resident(kept, _) => &kept.layout,
        }
    }
}

impl Ground<'static> {
    /// Of the calling process, and verified: what `request` describes ends in the puppet as it does in the whole memory.
    ///
    /// # Errors
    /// [`CaptureError`]; [`CaptureError::Unverified`] if the walk depends on more than memory.
    pub fn of_process(request: &Request) -> Result<Self, CaptureError> {
        let began = Instant::now();
        let (source, verifier) = (Tracee::spawn()?, Tracee::spawn()?);
        Self::of_tracees(request, source, verifier, walk_stack(), began)
    }

    /// Of a moment in a signal handler, of which copies were made there: as [`of_process`](Self::of_process), on another thread.
    ///
    /// # Errors
    /// As there.
    pub fn of_copies(copies: Copies, request: &Request) -> Result<Self, CaptureError> {
        let began = Instant::now();
        let stack = copies.stack();
        let (source, verifier) = copies.adopt()?;
        Self::of_tracees(request, source, verifier, stack, began)
    }

    fn of_tracees(
        request: &Request,
        source: Tracee,
        mut verifier: Tracee,
        stack: Sp,
        began: Instant,
    ) -> Result<Self, CaptureError> {
        let mut effort = Effort::default();
        let source = Frozen::new(source)?;
        effort.fork = began.elapsed();
        let layout = source.layout();
        let mut facts = facts_of(request, &source, &verifier, &layout, stack)?;
        verifier.map_stub(facts.stub.0)?;
        verifier.set_float_state(&arch::float_at_entry(&facts.entry))?;
        verifier.write(facts.entry.stack.0, &facts.stub.0.to_le_bytes())?;
        let verified = judge(&mut verifier, &Walk::of(&facts), &mut |_, _| {
            Ok(Absent::Unmapped)
        })?;
        let Ended::Outcome(expected) = verified else {
            return Err(CaptureError::NoOutcome(Box::new(verified)));
        };
        facts.expected = expected;
        let mut ground = Self {
            puppet: Puppet::empty(verifier, &facts, layout)?,
            source: Memory::Frozen(source),
            facts,
            edits: Vec::new(),
            strayed: false,
            effort,
        };
        ground.bring_entry()?;
        let demanded = ground.puppet.walk_on_demand(&ground.source)?;
        verified_as(&ground.facts, &demanded)?;
        ground.effort.verify = began.elapsed() - effort.fork;
        Ok(ground)
    }
}

impl<'a> Ground<'a> {
    /// Of a capsule, whose pages are not by reference. A walk that leaves them ends with [`Ended::MissingPage`].
    ///
    /// # Errors
    /// When there can be no puppet.
    pub fn of_capsule(capsule: &'a Capsule) -> Result<Self, CaptureError> {
        Self::over(Memory::Capsule(capsule), &capsule.facts, &capsule.layout)
    }

    /// Of a snapshot in this process. A walk that leaves it ends with [`Ended::MissingPage`].
    pub(crate) fn of_kept(kept: &'a KeptSnapshot, pages: &'a Pages) -> Result<Self, CaptureError> {
        Self::over(Memory::Resident(kept, pages), &kept.facts, &kept.layout)
    }

    fn over(source: Memory<'a>, facts: &Facts, layout: &Layout) -> Result<Self, CaptureError> {
        let mut tracee = Tracee::spawn()?;
        tracee.map_stub(facts.stub.0)?;
        let mut ground = Self {
            puppet: Puppet::empty(tracee, facts, layout.clone())?,
            source,
            facts: facts.clone(),
            edits: Vec::new(),
            strayed: true,
            effort: Effort::default(),
        };
        ground.bring_entry()?;
        Ok(ground)
    }

    /// What the walks have in common.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Asks for at most `depth` frames from now on, if that is less.
    pub fn limit_depth(&mut self, depth: i32) {
        self.facts.entry.depth = depth.clamp(1, self.facts.entry.depth);
        self.puppet.expect(&self.facts);
    }

    /// Writes words of memory, for all walks to come; a capsule has them as they are now.
    ///
    /// # Errors
    /// [`PuppetError::Map`] if there is no such memory.
    pub fn edit(&mut self, words: &[(Address, u64)]) -> Result<(), PuppetError> {
        self.edits.extend_from_slice(words);
        self.write_edits()
    }

    /// Walks once, from `registers`.
    ///
    /// # Errors
    /// [`PuppetError`], when the process cannot be watched any more.
    pub fn walk(&mut self, registers: &Registers) -> Result<Ended, PuppetError> {
        self.strayed = true;
        self.puppet.restore()?;
        self.set(registers)?;
        self.puppet.walk_on_demand(&self.source)
    }

    /// The frames that the last walk gave, if it came back.
    ///
    /// # Errors
    /// When the process's memory cannot be read.
    pub fn frames(&self) -> Result<Vec<ReturnedFrame>, PuppetError> {
        self.puppet.frames()
    }

    /// The walk from `keep.registers`, with the pages that it needs.
    ///
    /// # Errors
    /// [`CaptureError::NoOutcome`] if it does not end, or leaves the memory that there is.
    pub fn capsule(&mut self, keep: &Keep) -> Result<(Capsule, Effort), CaptureError> {
        let mut effort = self.effort;
        if self.strayed || keep.registers.is_some() {
            self.strayed = true;
            self.puppet.forget(&self.facts)?;
            self.bring_entry()?;
            self.write_edits()?;
            if let Some(registers) = &keep.registers {
                self.set(registers)?;
            }
            match self.puppet.walk_on_demand(&self.source)? {
                Ended::Outcome(expected) => self.facts.expected = expected,
                other => return Err(CaptureError::NoOutcome(Box::new(other))),
            }
        }
        let mut facts = self.facts.clone();
        facts.signature.clone_from(&keep.signature);
        facts.perturbation.clone_from(&keep.perturbation);
        facts.perturbed.clone_from(&keep.perturbed);
        let mut layout = self.source.layout(&self.puppet).clone();
        match &self.source {
            Memory::Frozen(source) if keep.whole.is_empty() => {
                shim::shim(&mut self.puppet, source, &mut facts, &mut layout)?;
            }
            Memory::Frozen(_) => {
                facts.libc_code = "other walks than the captured one may call it".to_owned();
            }
            Memory::Capsule(_) | Memory::Resident(..) => {}
        }
        effort.lines.0 = minimise::lines(&self.puppet);
        if keep.minimise {
            let began = Instant::now();
            effort.walks = minimise::minimise(&mut self.puppet, &facts)?;
            effort.minimise = began.elapsed();
        }
        effort.lines.1 = minimise::lines(&self.puppet);
        let last = self.puppet.walk()?;
        verified_as(&facts, &last)?;
        let mut pages = pages(&self.puppet)?;
        whole::add(&self.source, &layout, &keep.whole, &mut pages);
        // Zeros are where words were.
        self.strayed = true;
        self.puppet.forget(&self.facts)?;
        self.bring_entry()?;
        self.write_edits()?;
        Ok((
            Capsule {
                facts,
                layout,
                pages,
                opinion: None,
            },
            effort,
        ))
    }

    /// Brings the page with the word that the walk returns to.
    fn bring_entry(&mut self) -> Result<(), PuppetError> {
        self.write(Address(self.facts.entry.stack.0), self.facts.stub.0)
    }

    fn write_edits(&mut self) -> Result<(), PuppetError> {
        for (address, word) in self.edits.clone() {
            self.write(address, word)?;
        }
        Ok(())
    }

    fn set(&mut self, registers: &Registers) -> Result<(), PuppetError> {
        for (word, offset) in registers
            .words
            .iter()
            .zip(walkfuzz_guard::register_offsets())
        {
            let Address(context) = self.facts.entry.context;
            self.write(Address(context.wrapping_add(offset as u64)), *word)?;
        }
        Ok(())
    }

    /// Writes a word that lies in one page, which is brought.
    fn write(&mut self, Address(at): Address, word: u64) -> Result<(), PuppetError> {
        self.puppet.bring(&self.source, at)?;
        self.puppet
            .set(at & !(PAGE - 1), (at % PAGE) as usize, &word.to_le_bytes())
    }
}
