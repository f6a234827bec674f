//! Contexts that make no sense, on live memory: the reference walker ends, and within its bounds.

use std::cell::Cell;

use walkfuzz_context::generate::blind;
use walkfuzz_context::{Address, Arch};
use walkfuzz_engine::{Engine, Live, Request};
use walkfuzz_harness::world::World;
use walkfuzz_reference::{CheckedMemory, Reference, ReferenceFrame};
use walkfuzz_vmstructs::{Memory, Unreadable};

use crate::Options;

/// Perturbed contexts of each moment.
const BATCHES: u64 = 64;
/// No walk reads more often: a frame needs fewer than this, and the deepest stack has fewer frames.
const READS: u64 = 4096 * 512;

/// Live memory in which one read in so many finds something else, or nothing.
struct Torn {
    state: Cell<u64>,
    one_in: u64,
    reads: Cell<u64>,
}

impl Torn {
    /// xorshift64.
    fn next(&self) -> u64 {
        let mut state = self.state.get();
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        self.state.set(state);
        state
    }
}

impl Memory for Torn {
    fn read(&self, at: Address, into: &mut [u8]) -> Result<(), Unreadable> {
        self.reads.set(self.reads.get() + 1);
        CheckedMemory.read(at, into)?;
        if !into.is_empty() && self.next().is_multiple_of(self.one_in) {
            let index = self.next() as usize % into.len().max(1);
            match self.next() % 4 {
                0 => {
                    return Err(Unreadable {
                        address: at,
                        length: into.len(),
                    });
                }
                1 => into.fill(self.next() as u8),
                2 => into[index] ^= 1 << (self.next() % 8),
                _ => into[index] = self.next() as u8,
            }
        }
        Ok(())
    }
}

pub(crate) fn perturbed(live: &mut Live, world: &World, reference: &Reference, options: &Options) {
    let mut frames = vec![ReferenceFrame::NONE; 4096];
    let (mut walks, mut with_frames, mut seed) = (0_u64, 0_u64, 1_u64);
    let (mut most_reads, mut ends) = (0, std::collections::BTreeMap::new());
    let torn = Torn {
        state: Cell::new(0x2545_f491_4f6c_dd1d),
        one_in: 32,
        reads: Cell::new(0),
    };
    while walks < options.walks * 10 {
        let request = Request {
            worker: Some(seed as usize / 1024 % 4),
            kind: (1 + seed / 1024 % 64) as u32,
            steps: 0,
            fresh: true,
            natural: &|_| {},
        };
        live.visit(&request, &mut |moment| {
            let thread = reference
                .thread(&CheckedMemory, Address(moment.java_thread))
                .unwrap();
            for _ in 0..BATCHES {
                seed += 1;
                let batch = blind(seed).adapt(Arch::NATIVE);
                for perturbation in batch.walks() {
                    let mut registers = moment.untouched;
                    perturbation.apply(&mut registers, &world.landscape);
                    let walk = reference.walk(&CheckedMemory, &thread, &registers, &mut frames);
                    walks += 1;
                    with_frames += u64::from(walk.frames > 0);
                    assert!(walk.frames <= frames.len());
                    *ends.entry(walk.end.name()).or_insert(0_u64) += 1;
                    torn.reads.set(0);
                    let start = if seed.is_multiple_of(2) {
                        &moment.untouched
                    } else {
                        &registers
                    };
                    let walk = reference.walk(&torn, &thread, start, &mut frames);
                    walks += 1;
                    assert!(walk.frames <= frames.len());
                    *ends.entry(walk.end.name()).or_insert(0_u64) += 1;
                    most_reads = most_reads.max(torn.reads.get());
                    assert!(most_reads < READS, "{most_reads} reads, {walk:?}");
                }
            }
        })
        .unwrap();
    }
    live.go_home().unwrap();
    println!(
        "robust: {walks} walks of perturbed contexts and torn memory, none faulted, at most {most_reads} reads; ends {ends:?}"
    );
    assert!(with_frames * 20 > walks, "walks that walk nowhere");
}
