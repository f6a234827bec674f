//! Capturing: from a process in which one walk was just prepared to the capsule of that walk.
//!
//! The calling process is a frozen copy, or any other with one thread that nobody needs any more: it is only forked. Three processes
//! take part. The *source* stands still for ever; it is what the memory was. The *verifier* makes the walk in the whole memory:
//! what comes of that is what the capsule must do. Then it loses everything that is mapped and becomes a *puppet*, which is given
//! the source's pages one by one, as its walk asks for them. If the puppet's walk ends as the verifier's did, to the last register, the
//! pages that it was given are the capsule.
//!
//! Contract: the caller has room on its stack for the walk and some kilobytes more, and holds no lock that a forked child would need.

mod copies;
mod frozen;
mod ground;
mod minimise;
mod shim;
mod whole;

use std::collections::BTreeMap;

use walkfuzz_context::{Address, Arch, Sp};

use crate::arch;
use crate::capsule::{
    Capsule, Content, Entry, Facts, FramesOutcome, Layout, Outcome, Page, VERSION,
};
use crate::error::CaptureError;
use crate::format::limits::{self, PAGE};
use crate::outcome::Ended;
use crate::puppet::{Puppet, Tracee};

pub use crate::request::{Effort, Keep, KnownFile, Request};
pub use copies::{Copies, Meeting};
pub use ground::Ground;

use frozen::Frozen;

/// How far below the caller's stack pointer the walk's stack begins.
const STACK_GAP: u64 = 16 << 10;
/// Where the replayer's page is looked for: far from where Linux puts programs, libraries and heaps.
const FIRST_STUB: u64 = 0x1000_0000_0000;
const NEXT_STUB: u64 = 1 << 32;
/// Room around the replayer's page that must be free as well.
const STUB_MARGIN: u64 = 1 << 20;

/// Captures the walk that `request` describes.
///
/// # Errors
/// [`CaptureError`]; [`CaptureError::Unverified`] if the walk depends on more than memory.
pub fn capture(request: &Request) -> Result<(Capsule, Effort), CaptureError> {
    Ground::of_process(request)?.capsule(&request.keep)
}

/// What is known before the first walk.
fn facts_of(
    request: &Request,
    source: &Frozen,
    verifier: &Tracee,
    layout: &Layout,
    stack: Sp,
) -> Result<Facts, CaptureError> {
    let stub = free_pages(layout).ok_or(CaptureError::NoRoom)?;
    let entry = Entry {
        function: request.function,
        trace: request.trace,
        depth: request.depth,
        context: request.context,
        stack,
        thread: Address(arch::thread_pointer(&verifier.machine()?)),
        float_control: arch::float_control(&verifier.float_state()?),
    };
    Ok(Facts {
        version: VERSION,
        arch: Arch::NATIVE.name().to_owned(),
        page_size: PAGE,
        entry,
        stub: Address(stub),
        safefetch: request.safefetch.clone(),
        // Known after it.
        expected: Outcome::Frames(FramesOutcome {
            frames: 0,
            hash: 0,
            near_misses: 0,
        }),
        files: source.files(&request.files),
        shims: Vec::new(),
        libc_code: String::new(),
        walker: request.walker.clone(),
        signature: request.keep.signature.clone(),
        perturbation: request.keep.perturbation.clone(),
        perturbed: request.keep.perturbed.clone(),
        jvm: request.jvm.clone(),
        walkfuzz: env!("CARGO_PKG_VERSION").to_owned(),
    })
}

fn verified_as(facts: &Facts, ended: &Ended) -> Result<(), CaptureError> {
    let differences = facts.expected.differences(ended);
    if differences.is_empty() {
        Ok(())
    } else {
        Err(CaptureError::Unverified(differences))
    }
}

/// The puppet's pages, before its last walk and after.
fn pages(puppet: &Puppet) -> Result<BTreeMap<u64, Page>, CaptureError> {
    let changed = puppet.changed_pages()?;
    let mut pages = BTreeMap::new();
    for (&address, image) in puppet.images() {
        let outcome = if changed.contains(&address) {
            let mut now = Box::new([0; PAGE as usize]);
            puppet.read(address, &mut now)?;
            Some(now)
        } else {
            None
        };
        let entry = if image.bytes.iter().all(|byte| *byte == 0) {
            Content::Zero
        } else {
            Content::Bytes(image.bytes.clone())
        };
        let page = Page {
            protection: image.protection,
            entry,
            outcome,
        };
        pages.insert(address, page);
    }
    Ok(pages)
}

/// Where the walk's stack begins: on the caller's own, so that the walker finds itself where it would be called, at the end of a page
/// that nothing in use lies on.
#[inline(never)]
fn walk_stack() -> Sp {
    let here = 0_u64;
    let below = (&raw const here as u64).saturating_sub(STACK_GAP);
    Sp((below & !(PAGE - 1)) - 8)
}

/// A place for the replayer's pages.
fn free_pages(layout: &Layout) -> Option<u64> {
    let room = limits::STUB_PAGES * PAGE + STUB_MARGIN;
    (FIRST_STUB..limits::USER_SPACE)
        .step_by(NEXT_STUB as usize)
        .find(|&stub| {
            let free = stub - STUB_MARGIN..stub + room;
            layout
                .ranges()
                .iter()
                .all(|(range, _)| range.end <= free.start || range.start >= free.end)
        })
}
