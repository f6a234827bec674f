//! What a thread was doing, in a word: what a set of snapshots is spread over.

use walkfuzz_context::{Address, BlobKind, Registers};
use walkfuzz_vmstructs::{CodeMap, Nmethod};

/// Levels of C1: without profiling, with counters, with full profiling.
const C1: std::ops::RangeInclusive<i8> = 1..=3;

/// Groups that a set of snapshots should have one of each, if threads are met there, and the workload's kinds of work that bring them.
pub(crate) const GROUPS: [(&str, &[&str]); 7] = [
    ("interpreter", &["interpreted"]),
    ("c1", &[]),
    ("c2", &[]),
    ("osr", &["osr"]),
    (
        "stub-routine",
        &[
            "array-copies",
            "checksums",
            "ciphers",
            "digests",
            "big-numbers",
        ],
    ),
    ("native-wrapper", &["native-methods", "native-libraries"]),
    ("deopt", &["deoptimisation"]),
];

/// Groups in which walkers give a code for an untouched context, most of them always: a snapshot of them need not have frames.
pub(crate) const WITHOUT_FRAMES: [&str; 2] = ["stub-routine", DEOPT];
const DEOPT: &str = "deopt";

/// The group of a kind: of its topmost frame, but for a thread with a frame that is to be deoptimised.
pub(crate) fn group(kind: &str) -> &str {
    let (top, under) = kind.split_once(" under ").unwrap_or((kind, ""));
    match (top, under) {
        (_, DEOPT) => DEOPT,
        (top, _) if top.ends_with("-osr") => "osr",
        (top, _) => top,
    }
}

/// The kind of frame at the pc, and of its first caller in generated code: `c2 under interpreted`.
pub(crate) fn kind(code: &CodeMap, registers: &Registers, stack: &[u64]) -> String {
    let pc = Address(registers.pc().0);
    let top = one(code, pc);
    let own = code.blob(pc).map(|blob| blob.span);
    let caller = stack.iter().find_map(|&word| {
        let at = Address(word);
        let blob = code.blob(at)?;
        let other = own.is_none_or(|own| own != blob.span);
        (other && crate::world::is_return_address(code, word)).then(|| one(code, at))
    });
    match caller {
        Some(caller) => format!("{top} under {caller}"),
        None => top,
    }
}

/// The kind of one frame.
fn one(code: &CodeMap, pc: Address) -> String {
    let name = match code.blob(pc) {
        Some(blob) => match (&blob.nmethod, blob.kind) {
            // A frame's return address that was replaced because the frame is to be deoptimised.
            (Some(nmethod), _) if nmethod.deopt_handler == Some(pc) => DEOPT,
            (Some(nmethod), BlobKind::Nmethod) => return compiled(nmethod),
            (_, BlobKind::RuntimeStub) if blob.name.contains("eopt") => DEOPT,
            (_, kind) => kind.name(),
        },
        None => code.kind(pc).name(),
    };
    name.to_owned()
}

fn compiled(nmethod: &Nmethod) -> String {
    let compiler = if C1.contains(&nmethod.level) {
        "c1"
    } else {
        "c2"
    };
    let osr = if nmethod.is_osr() { "-osr" } else { "" };
    format!("{compiler}{osr}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_that_of_the_topmost_frame() {
        assert_eq!(group("c2-osr under interpreter"), "osr");
        assert_eq!(group("deopt under c1-osr"), "deopt");
        assert_eq!(group("interpreter"), "interpreter");
        assert_eq!(group("interpreter under deopt"), "deopt");
        assert!(GROUPS.iter().all(|(name, _)| group(name) == *name));
    }
}
