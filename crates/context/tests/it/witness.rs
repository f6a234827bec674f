//! Classes of natural contexts, and counting them.

use walkfuzz_context::{
    Address, BlobKind, Fp, FpClass, Grade, NaturalClass, OffsetClass, Sp, SpClass, Tier, Witness,
    WitnessTable,
};

const CLASS: NaturalClass = NaturalClass {
    kind: BlobKind::Nmethod,
    offset: OffsetClass::Epilogue,
    sp: SpClass::AtSpPlus8,
    fp: FpClass::HeapLike,
};

#[test]
fn every_class_has_an_index_of_its_own() {
    const { assert!(NaturalClass::COUNT <= 4096) };
    for index in 0..NaturalClass::COUNT {
        let class = NaturalClass::from_index(index).unwrap();
        assert_eq!(class.index(), index);
    }
    assert_eq!(NaturalClass::from_index(NaturalClass::COUNT), None);
    for kinds in BlobKind::ALL.iter().enumerate() {
        assert_eq!(*kinds.1 as usize, kinds.0);
    }
}

#[test]
fn a_table_counts_by_class_and_says_so() {
    let table = WitnessTable::new();
    assert_eq!(table.witness(CLASS).to_string(), "never observed (0 of 0)");
    let other = NaturalClass {
        fp: FpClass::Small,
        ..CLASS
    };
    table.add(other, 9988);
    assert_eq!(
        table.witness(CLASS).to_string(),
        "never observed (0 of 9988)"
    );
    for _ in 0..12 {
        table.observe(CLASS);
    }
    assert_eq!(table.witness(CLASS).to_string(), "observed 12 of 10000");
    let observed: Vec<_> = table.observed().collect();
    assert_eq!(observed, [(CLASS, 12), (other, 9988)]);
}

#[test]
fn threads_lose_no_counts() {
    static TABLE: WitnessTable = WitnessTable::new();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..10_000).for_each(|_| TABLE.observe(CLASS)));
        }
    });
    assert_eq!(TABLE.witness(CLASS).observed, 40_000);
    assert_eq!(TABLE.total(), 40_000);
}

#[test]
fn only_untouched_or_witnessed_contexts_make_bugs() {
    let seen = Witness { observed: 1, of: 9 };
    let unseen = Witness { observed: 0, of: 9 };
    for (tier, with, without) in [
        (Tier::T0, Grade::Bug, Grade::Bug),
        (Tier::T1, Grade::Bug, Grade::Robustness),
        (Tier::T2, Grade::Bug, Grade::Robustness),
        (Tier::T3, Grade::Bug, Grade::Robustness),
        (Tier::T4, Grade::Robustness, Grade::Robustness),
    ] {
        assert_eq!(Grade::of(tier, seen), with, "{tier}");
        assert_eq!(Grade::of(tier, unseen), without, "{tier}");
    }
}

#[test]
fn sp_is_sorted_by_where_the_return_address_is() {
    let slot = Some(Address(0x1040));
    for (sp, class) in [
        (0x1000, SpClass::AtFrameSize),
        (0x1040, SpClass::AtSp),
        (0x1038, SpClass::AtSpPlus8),
        (0x1030, SpClass::Elsewhere),
        (0x1048, SpClass::BelowSp),
        (0x1050, SpClass::Elsewhere),
    ] {
        assert_eq!(SpClass::of(Sp(sp), slot, 0x40), class, "{sp:#x}");
    }
    assert_eq!(SpClass::of(Sp(0x1000), None, 0x40), SpClass::Elsewhere);
}

#[test]
fn fp_is_sorted_by_what_it_points_at() {
    let sp = Sp(0x7000_1000);
    let stack = (Address(0x7000_0000), Address(0x7000_2000));
    for (fp, class) in [
        (0x7000_1038, FpClass::OwnFrame),
        (0x7000_1000, FpClass::OwnStackAbove),
        (0x7000_1fff, FpClass::OwnStackAbove),
        (0x7000_0fff, FpClass::OwnStackBelow),
        (0x7000_2000, FpClass::OtherStack),
        (0x9000_0000, FpClass::Code),
        (0x5000_0000, FpClass::HeapLike),
        (0, FpClass::Small),
        (0xffff, FpClass::Small),
        (u64::MAX, FpClass::Small),
        (u64::MAX << 16, FpClass::Small),
        (0x1_0000, FpClass::HeapLike),
        (0xdead_beef_dead_beef, FpClass::NonCanonical),
    ] {
        let got = FpClass::of(
            Fp(fp),
            sp,
            Some(Address(0x7000_1040)),
            stack,
            |address| address.0 >> 28 == 7,
            |address| address.0 >> 28 == 9,
        );
        assert_eq!(got, class, "{fp:#x}");
    }
}
