//! Contexts that the code at a held thread's pc passes through, as perturbations of where it is.

use walkfuzz_context::tier::Position;
use walkfuzz_context::{Address, Edit, Perturbation, Registers};

use crate::world::World;

/// States of one blob that are looked at.
const MOST: usize = 600;

/// States that the code at `untouched`'s pc passes through (tier T1), and those with an odd fp (T2). Decodes the code: allocates.
pub(crate) fn natural_states(world: &mut World, untouched: &Registers) -> Vec<Perturbation> {
    let pc = untouched.pc();
    let place = world.classifier.place(&world.code, pc);
    let Some(depth) = place.depth else {
        return Vec::new();
    };
    let returns = world
        .classifier
        .return_address(&world.code, untouched, &place);
    let Some(blob) = world.code.blob(Address(pc.0)).cloned() else {
        return Vec::new();
    };
    let arch = untouched.arch;
    // Where nothing of the frame is there, lr holds the return address.
    let to_return = arch.lr().zip(returns).and_then(|(lr, (_, address))| {
        let by = address.wrapping_sub(untouched.get(lr)).cast_signed();
        Some((lr, i32::try_from(by).ok()?))
    });
    let mut candidates = Vec::new();
    for state in world.classifier.frame_map(&blob).states().iter().take(MOST) {
        let (Some(there), false) = (state.depth, state.position == Position::Unknown) else {
            continue;
        };
        let mut perturbation = Perturbation::UNTOUCHED;
        let by_pc = i32::try_from(state.pc.0.wrapping_sub(pc.0).cast_signed()).unwrap_or(0);
        let by_sp = i64::from(depth) - i64::from(there);
        if by_pc != 0 {
            perturbation.push(Edit::Nudge {
                register: arch.pc(),
                delta: by_pc,
            });
        }
        if by_sp != 0 {
            perturbation.push(Edit::Nudge {
                register: arch.sp(),
                delta: by_sp as i32,
            });
        }
        if let (Some((register, delta)), Position::Entry | Position::BeforeReturn) =
            (to_return.filter(|(_, delta)| *delta != 0), state.position)
        {
            perturbation.push(Edit::Nudge { register, delta });
        }
        if !perturbation.edits().is_empty() {
            candidates.push(perturbation);
        }
    }
    candidates
}
