//! What holds of tiers whatever the context: drawn from few addresses, so that contexts of every tier come up.

use std::cell::RefCell;
use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};
use walkfuzz_context::{
    Arch, BlobKind, Naturalness, PcFacts, Position, Registers, Tier, WalkMode, tier,
};

use crate::strategies;

const PLACES: [u64; 6] = [0x1000, 0x1008, 0x1010, 0x1018, 0x1020, 0x2000];

fn registers(arch: Arch) -> impl Strategy<Value = Registers> {
    [(); 4]
        .map(|()| select(&PLACES[..]))
        .prop_map(move |words| {
            let mut registers = Registers::zeroed(arch);
            let roles = [Some(arch.pc()), Some(arch.sp()), Some(arch.fp()), arch.lr()];
            for (register, word) in roles.into_iter().zip(words) {
                if let Some(register) = register {
                    registers.set(register, word);
                }
            }
            registers
        })
}

fn facts() -> impl Strategy<Value = PcFacts> {
    let positions = [
        Position::Entry,
        Position::Pushed,
        Position::Body,
        Position::BeforeReturn,
        Position::Unknown,
    ];
    let place = (select(vec![None, Some(0x1000)]), any::<bool>());
    let frame = (select(vec![0, 8, 16]), any::<bool>());
    (place, select(positions.to_vec()), frame).prop_map(
        |((blob, instruction_boundary), position, (frame_bytes, fp_is_frame_pointer))| PcFacts {
            kind: BlobKind::Nmethod,
            blob,
            instruction_boundary,
            position,
            frame_bytes,
            fp_is_frame_pointer,
        },
    )
}

fn natural() -> impl Strategy<Value = Naturalness> {
    let known = || prop::option::of(select(&PLACES[..]));
    (any::<[bool; 6]>(), known(), known(), known()).prop_map(
        |(yes, caller_fp, return_slot_before, return_address)| Naturalness {
            sp_is_own_stack: yes[0],
            sp_is_aligned: yes[1],
            caller_fp,
            return_slot_before,
            return_address,
            pc_seen: yes[2],
            sp_seen: yes[3],
            fp_seen: yes[4],
            lr_seen: yes[5],
        },
    )
}

/// Each way of knowing one thing less.
fn forget(natural: Naturalness) -> [Naturalness; 9] {
    let less = |change: fn(&mut Naturalness)| {
        let mut natural = natural;
        change(&mut natural);
        natural
    };
    [
        less(|natural| natural.sp_is_own_stack = false),
        less(|natural| natural.sp_is_aligned = false),
        less(|natural| natural.caller_fp = None),
        less(|natural| natural.return_slot_before = None),
        less(|natural| natural.return_address = None),
        less(|natural| natural.pc_seen = false),
        less(|natural| natural.sp_seen = false),
        less(|natural| natural.fp_seen = false),
        less(|natural| natural.lr_seen = false),
    ]
}

#[test]
fn what_is_not_known_never_makes_a_context_more_natural() {
    let seen = RefCell::new(BTreeMap::<Tier, u32>::new());
    let contexts = strategies::arch().prop_flat_map(|arch| (registers(arch), registers(arch)));
    let modes = select(vec![
        WalkMode::InHandler,
        WalkMode::OtherThreadBlocked,
        WalkMode::OtherThreadRunning,
    ]);
    TestRunner::new(Config::with_cases(20_000))
        .run(
            &(contexts, facts(), facts(), natural(), modes),
            |((before, after), facts_before, facts_after, natural, mode)| {
                // The same pc has the same facts.
                let same_pc = before.pc() == after.pc();
                let facts_after = if same_pc { facts_before } else { facts_after };
                let grade =
                    |facts_before: &PcFacts, facts_after: &PcFacts, natural: &Naturalness, mode| {
                        tier(&before, &after, facts_before, facts_after, natural, mode)
                    };
                let known = grade(&facts_before, &facts_after, &natural, mode);
                *seen.borrow_mut().entry(known).or_default() += 1;

                prop_assert_eq!(known == Tier::T0, before == after);
                for less in forget(natural) {
                    prop_assert!(grade(&facts_before, &facts_after, &less, mode) >= known);
                }
                let unknown = PcFacts::UNKNOWN;
                let facts_before = if same_pc { unknown } else { facts_before };
                prop_assert!(grade(&facts_before, &unknown, &natural, mode) >= known);
                for other in [WalkMode::InHandler, WalkMode::OtherThreadBlocked] {
                    let elsewhere = grade(&facts_before, &facts_after, &natural, other);
                    prop_assert_ne!(elsewhere, Tier::T3);
                }
                Ok(())
            },
        )
        .unwrap();
    let seen = seen.into_inner();
    for tier in Tier::ALL {
        assert!(seen.contains_key(&tier), "{tier} never came up: {seen:?}");
    }
}
