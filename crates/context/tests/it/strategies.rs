//! Any value at all, not only what the generators like.

use proptest::collection::vec;
use proptest::prelude::*;
use walkfuzz_context::{
    Arch, Batch, DepthLimit, Edit, MAX_EDITS, MAX_WALKS, Perturbation, Register, Value, ValueClass,
};

pub(crate) fn arch() -> impl Strategy<Value = Arch> {
    prop::sample::select(Arch::ALL.as_slice())
}

pub(crate) fn value() -> impl Strategy<Value = Value> {
    (
        prop::sample::select(ValueClass::ALL.as_slice()),
        any::<u16>(),
        any::<i16>(),
    )
        .prop_map(|(class, selector, offset)| Value::new(class, selector, offset))
}

fn register(arch: Arch) -> impl Strategy<Value = Register> {
    (0..arch.register_count() as u8).prop_map(Register)
}

fn edit(arch: Arch) -> impl Strategy<Value = Edit> {
    let register = move || register(arch);
    prop_oneof![
        (register(), any::<i32>()).prop_map(|(register, delta)| Edit::Nudge { register, delta }),
        (register(), value()).prop_map(|(register, value)| Edit::Set { register, value }),
        (register(), 0..64u8).prop_map(|(register, bit)| Edit::Flip { register, bit }),
        (register(), register()).prop_map(|(a, b)| Edit::Swap { a, b }),
        (register(), register(), any::<i32>()).prop_map(|(register, source, delta)| Edit::Alias {
            register,
            source,
            delta
        }),
        (register(), 0..128u8).prop_map(|(register, bits)| Edit::Sign { register, bits }),
    ]
}

fn perturbation(arch: Arch) -> impl Strategy<Value = Perturbation> {
    vec(edit(arch), 0..=MAX_EDITS).prop_map(|edits| Perturbation::from_edits(&edits))
}

pub(crate) fn arch_perturbation() -> impl Strategy<Value = (Arch, Perturbation)> {
    arch().prop_flat_map(|arch| (Just(arch), perturbation(arch)))
}

pub(crate) fn batch() -> impl Strategy<Value = Batch> {
    let depth = (0..DepthLimit::LIMITS.len() as u8).prop_map(DepthLimit::from_index);
    arch().prop_flat_map(move |arch| {
        (
            any::<u8>(),
            any::<u8>(),
            depth.clone(),
            vec(perturbation(arch), 1..=MAX_WALKS),
        )
            .prop_map(move |(thread, steps, depth, walks)| {
                let mut batch = Batch::untouched(arch);
                (batch.thread, batch.steps, batch.depth) = (thread, steps, depth);
                batch.set_walks(&walks);
                batch
            })
    })
}
