//! Named sets of JVM options: what a cell's `flags` mean.
//!
//! Whether a JVM takes a set is asked of the JVM itself (`java OPTIONS -version`), since that changes between releases.

/// A set that every profile may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlagSet {
    /// Its name.
    pub name: &'static str,
    /// The options.
    pub options: &'static [&'static str],
    /// What it does to a walker's life.
    pub meaning: &'static str,
}

const DIAGNOSTIC: &str = "-XX:+UnlockDiagnosticVMOptions";

/// The built-in sets.
pub const FLAG_SETS: &[FlagSet] = &[
    FlagSet {
        name: "default",
        options: &[],
        meaning: "as users run it",
    },
    FlagSet {
        name: "int",
        options: &["-Xint"],
        meaning: "interpreted frames only",
    },
    FlagSet {
        name: "c1",
        options: &["-XX:TieredStopAtLevel=1"],
        meaning: "compiled by C1 alone",
    },
    FlagSet {
        name: "c2",
        options: &["-XX:-TieredCompilation"],
        meaning: "compiled by C2 alone",
    },
    FlagSet {
        name: "comp",
        options: &["-Xcomp"],
        meaning: "everything compiled at its first call",
    },
    FlagSet {
        name: "small-code-cache",
        options: &[
            "-XX:ReservedCodeCacheSize=6m",
            "-XX:InitialCodeCacheSize=2500k",
        ],
        meaning: "compiled code is flushed and made again all the time",
    },
    FlagSet {
        name: "safepoint-alot",
        options: &[
            DIAGNOSTIC,
            "-XX:+SafepointALot",
            "-XX:GuaranteedSafepointInterval=5",
        ],
        meaning: "a safepoint every few milliseconds",
    },
    FlagSet {
        name: "handshake-alot",
        options: &[
            DIAGNOSTIC,
            "-XX:+HandshakeALot",
            "-XX:GuaranteedSafepointInterval=5",
        ],
        meaning: "a handshake of every thread every few milliseconds",
    },
    FlagSet {
        name: "stress-lcm",
        options: &[DIAGNOSTIC, "-XX:+StressLCM"],
        meaning: "instructions in random order within blocks",
    },
    FlagSet {
        name: "stress-gcm",
        options: &[DIAGNOSTIC, "-XX:+StressGCM"],
        meaning: "instructions in random blocks",
    },
    FlagSet {
        name: "deopt-barriers",
        options: &[DIAGNOSTIC, "-XX:+DeoptimizeNMethodBarriersALot"],
        meaning: "compiled methods are deoptimised at their entry barrier",
    },
];

/// The built-in set of that name.
#[must_use]
pub fn flag_set(name: &str) -> Option<&'static FlagSet> {
    FLAG_SETS.iter().find(|set| set.name == name)
}
