//! Witnesses: how often contexts of a class were observed untouched.
//!
//! While sampling and stepping, every untouched context is sorted into a [`NaturalClass`] and counted. A finding then looks
//! its own context's class up: "observed 12 of 10000", or "never observed (0 of 10000)". What this is not: proof that the very
//! same registers occurred; a class is as fine as the four things that stack walkers decide by.
//!
//! Signal-safe: everything but [`fmt::Display`]; the table is counters of fixed number, and many threads may count at once.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::address::{Address, Fp, Sp};
use crate::blob::BlobKind;
use crate::tier::Tier;

macro_rules! class_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum $name {
            $($(#[$vdoc])* $variant,)*
        }

        impl $name {
            /// Every one, in declaration order (the discriminants are 0..).
            pub const ALL: [$name; [$($text,)*].len()] = [$($name::$variant,)*];

            /// A short stable name.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $($name::$variant => $text,)*
                }
            }
        }
    };
}

class_enum! {
    /// Where in its code a pc is.
    OffsetClass {
        /// Before the frame is begun: the first instruction, or the inline cache check.
        Entry = "entry",
        /// While the frame is being built.
        Prologue = "prologue",
        /// With the frame complete.
        Body = "body",
        /// While the frame is being taken down, up to the return.
        Epilogue = "epilogue",
        /// In an nmethod's exception handler.
        ExceptionHandler = "exception-handler",
        /// In an nmethod's deoptimisation handler.
        DeoptHandler = "deopt-handler",
        /// In an interpreter codelet (which has no parts that walkers tell apart).
        Codelet = "codelet",
        /// In a stub, adapter or buffer.
        Stub = "stub",
        /// Nobody knows.
        Unknown = "unknown",
    }
}

class_enum! {
    /// Where the return address is, seen from sp.
    SpClass {
        /// Where a complete frame of the blob's frame size has it.
        AtFrameSize = "at-frame-size",
        /// At sp.
        AtSp = "at-sp",
        /// At sp + 8.
        AtSpPlus8 = "at-sp+8",
        /// Right below sp: popped, or (aarch64 at entry) still in lr.
        BelowSp = "below-sp",
        /// Elsewhere, or unknown.
        Elsewhere = "elsewhere",
    }
}

class_enum! {
    /// What fp holds.
    FpClass {
        /// The address of the frame record of this activation, right below the return address.
        OwnFrame = "own-frame",
        /// An address in the thread's own stack at or above sp.
        OwnStackAbove = "own-stack-above",
        /// An address in the thread's own stack below sp.
        OwnStackBelow = "own-stack-below",
        /// An address in another thread's stack.
        OtherStack = "other-stack",
        /// An address in the code cache or a library's text.
        Code = "code",
        /// A canonical address that is none of the above: the heap's, mostly.
        HeapLike = "heap-like",
        /// Less than 64 KiB, or as little below zero: null, counters, lengths.
        Small = "small",
        /// No address at all.
        NonCanonical = "non-canonical",
    }
}

impl SpClass {
    /// Sorts by where the return address is, if known, and by how far above sp a complete frame has it.
    /// A frame of zero or eight bytes counts as complete.
    #[must_use]
    pub fn of(sp: Sp, return_slot: Option<Address>, frame_bytes: u32) -> Self {
        match return_slot.map(|slot| slot.0.wrapping_sub(sp.0)) {
            Some(above) if above == u64::from(frame_bytes) => SpClass::AtFrameSize,
            Some(0) => SpClass::AtSp,
            Some(8) => SpClass::AtSpPlus8,
            Some(above) if above == 8u64.wrapping_neg() => SpClass::BelowSp,
            Some(_) | None => SpClass::Elsewhere,
        }
    }
}

impl FpClass {
    /// Sorts fp. `own_stack` is lowest address and end of the thread's stack; the closures answer about addresses elsewhere and
    /// must be as signal-safe as the caller needs.
    #[must_use]
    pub fn of(
        fp: Fp,
        sp: Sp,
        return_slot: Option<Address>,
        own_stack: (Address, Address),
        is_other_stack: impl FnOnce(Address) -> bool,
        is_code: impl FnOnce(Address) -> bool,
    ) -> Self {
        const SMALL: u64 = 1 << 16;
        // A user address of either architecture has 48 bits at most, and Linux hands out no more unless asked.
        const USER_BITS: u32 = 48;
        let address = Address(fp.0);
        if return_slot.is_some_and(|slot| slot.0.wrapping_sub(8) == fp.0) {
            FpClass::OwnFrame
        } else if fp.0.wrapping_add(SMALL) < 2 * SMALL {
            FpClass::Small
        } else if fp.0 >> USER_BITS != 0 {
            FpClass::NonCanonical
        } else if (own_stack.0..own_stack.1).contains(&address) {
            if fp.0 >= sp.0 {
                FpClass::OwnStackAbove
            } else {
                FpClass::OwnStackBelow
            }
        } else if is_other_stack(address) {
            FpClass::OtherStack
        } else if is_code(address) {
            FpClass::Code
        } else {
            FpClass::HeapLike
        }
    }
}

/// What a walker can tell apart about a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NaturalClass {
    /// The kind of code at the pc.
    pub kind: BlobKind,
    /// Where in it.
    pub offset: OffsetClass,
    /// Where the return address is, seen from sp.
    pub sp: SpClass,
    /// What fp holds.
    pub fp: FpClass,
}

impl NaturalClass {
    /// How many classes there are.
    pub const COUNT: usize =
        BlobKind::ALL.len() * OffsetClass::ALL.len() * SpClass::ALL.len() * FpClass::ALL.len();

    /// A number below [`COUNT`](Self::COUNT), a different one for each class.
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        ((self.kind as usize * OffsetClass::ALL.len() + self.offset as usize) * SpClass::ALL.len()
            + self.sp as usize)
            * FpClass::ALL.len()
            + self.fp as usize
    }

    /// The class with that [index](Self::index).
    #[must_use]
    pub fn from_index(index: usize) -> Option<Self> {
        let (index, fp) = (
            index / FpClass::ALL.len(),
            FpClass::ALL.get(index % FpClass::ALL.len())?,
        );
        let (index, sp) = (
            index / SpClass::ALL.len(),
            SpClass::ALL.get(index % SpClass::ALL.len())?,
        );
        let (index, offset) = (
            index / OffsetClass::ALL.len(),
            OffsetClass::ALL.get(index % OffsetClass::ALL.len())?,
        );
        Some(Self {
            kind: *BlobKind::ALL.get(index)?,
            offset: *offset,
            sp: *sp,
            fp: *fp,
        })
    }
}

impl fmt::Display for NaturalClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}, return address {}, fp {}",
            self.kind.name(),
            self.offset.name(),
            self.sp.name(),
            self.fp.name()
        )
    }
}

/// Counts of untouched contexts by class.
#[derive(Debug)]
pub struct WitnessTable {
    counts: [AtomicU64; NaturalClass::COUNT],
    total: AtomicU64,
}

impl Default for WitnessTable {
    fn default() -> Self {
        Self::new()
    }
}

impl WitnessTable {
    /// All zero. 32 KB: meant for a static or a box.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            counts: [const { AtomicU64::new(0) }; NaturalClass::COUNT],
            total: AtomicU64::new(0),
        }
    }

    /// Counts one untouched context.
    #[inline]
    pub fn observe(&self, class: NaturalClass) {
        self.add(class, 1);
    }

    /// Counts several: another table's, or an earlier run's.
    pub fn add(&self, class: NaturalClass, contexts: u64) {
        if let Some(count) = self.counts.get(class.index()) {
            // The total first, so that who asks meanwhile does not find more in a class than in all.
            self.total.fetch_add(contexts, Relaxed);
            count.fetch_add(contexts, Relaxed);
        }
    }

    /// How often the class was observed, of how many contexts.
    #[must_use]
    pub fn witness(&self, class: NaturalClass) -> Witness {
        let observed = self
            .counts
            .get(class.index())
            .map_or(0, |count| count.load(Relaxed));
        Witness {
            observed,
            of: self.total(),
        }
    }

    /// How many contexts were counted.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total.load(Relaxed)
    }

    /// The classes that were observed, with their counts.
    pub fn observed(&self) -> impl Iterator<Item = (NaturalClass, u64)> + '_ {
        self.counts.iter().enumerate().filter_map(|(index, count)| {
            let count = count.load(Relaxed);
            (count > 0)
                .then(|| NaturalClass::from_index(index).map(|class| (class, count)))
                .flatten()
        })
    }
}

/// How often a class of contexts was observed untouched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Witness {
    /// Contexts of the class.
    pub observed: u64,
    /// Contexts of any class.
    pub of: u64,
}

impl Witness {
    /// Whether the class was observed at all.
    #[must_use]
    pub const fn is_observed(self) -> bool {
        self.observed > 0
    }
}

impl fmt::Display for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_observed() {
            write!(f, "observed {} of {}", self.observed, self.of)
        } else {
            write!(f, "never observed (0 of {})", self.of)
        }
    }
}

/// What a finding may be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Grade {
    /// It happens to real programs: T0, or T1 to T3 with a witness.
    Bug,
    /// It takes a context that nobody has seen.
    Robustness,
}

impl Grade {
    /// The grade of a finding of that tier with that witness.
    #[must_use]
    pub fn of(tier: Tier, witness: Witness) -> Self {
        match tier {
            Tier::T0 => Grade::Bug,
            Tier::T1 | Tier::T2 | Tier::T3 if witness.is_observed() => Grade::Bug,
            Tier::T1 | Tier::T2 | Tier::T3 | Tier::T4 => Grade::Robustness,
        }
    }
}

impl fmt::Display for Grade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Grade::Bug => "bug",
            Grade::Robustness => "robustness",
        })
    }
}
