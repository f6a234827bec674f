//! Contexts that make no sense, on live memory: the reference walker ends, and within its bounds.

use walkfuzz_context::generate::blind;
use walkfuzz_context::{Address, Arch};
use walkfuzz_engine::{Engine, Live, Request};
use walkfuzz_harness::world::World;
use walkfuzz_reference::{CheckedMemory, Reference, ReferenceFrame};

use crate::Options;

/// Perturbed contexts of each moment.
const BATCHES: u64 = 64;

pub(crate) fn perturbed(live: &mut Live, world: &World, reference: &Reference, options: &Options) {
    let mut frames = vec![ReferenceFrame::NONE; 4096];
    let (mut walks, mut with_frames, mut seed) = (0_u64, 0_u64, 1_u64);
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
                    assert!(walk.frames <= frames.len());
                    walks += 1;
                    with_frames += u64::from(walk.frames > 0);
                }
            }
        })
        .unwrap();
    }
    live.go_home().unwrap();
    println!("robust: {walks} walks of perturbed contexts, {with_frames} with frames, none faulted");
    assert!(with_frames * 10 > walks, "walks that walk nowhere");
}
