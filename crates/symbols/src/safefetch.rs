//! Where libjvm reads memory that may not be there.
//!
//! SafeFetch loads a word that may be unreadable; the JVM's signal handler resumes a fault of that one load at its
//! continuation. Such a fault is a near miss and never a crash, and no other fault may be given to the JVM's handler.
//!
//! Which way a libjvm implements it cannot be told from its version: the assembly of JDK 18 (JDK-8283326) came to 17
//! with 17.0.8. So the symbols decide, then the code itself.

use walkfuzz_context::{Address, Arch, Pc};

use crate::SymbolTable;
use crate::arch;

/// One SafeFetch load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SafeFetchSite {
    /// `SafeFetch32` or `SafeFetchN`.
    pub name: &'static str,
    /// The load that may fault.
    pub fault_pc: Pc,
    /// Where the JVM goes on after a fault.
    pub continuation_pc: Pc,
}

/// A SafeFetch body as code: the load is its first instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pattern {
    pub(crate) name: &'static str,
    pub(crate) bytes: &'static [u8],
    pub(crate) continuation: u64,
}

/// Assembly in libjvm's text, from JDK 18 on and in 17.0.8 and later: the labels themselves.
const LABELS: [[&str; 3]; 2] = [
    [
        "SafeFetch32",
        "_SafeFetch32_fault",
        "_SafeFetch32_continuation",
    ],
    [
        "SafeFetchN",
        "_SafeFetchN_fault",
        "_SafeFetchN_continuation",
    ],
];

/// Stubs in the code cache, before: static fields that hold the addresses once the VM has started.
const FIELDS: [[&str; 3]; 2] = [
    [
        "SafeFetch32",
        "_ZN12StubRoutines21_safefetch32_fault_pcE",
        "_ZN12StubRoutines28_safefetch32_continuation_pcE",
    ],
    [
        "SafeFetchN",
        "_ZN12StubRoutines20_safefetchN_fault_pcE",
        "_ZN12StubRoutines27_safefetchN_continuation_pcE",
    ],
];

/// The SafeFetch loads of the libjvm that `table` describes and that is loaded at `libjvm_base`.
///
/// `read_u64` reads a word of the process that the libjvm runs in; it is asked only for JDKs that keep the addresses in
/// static fields, and only gives them once the VM has started. Empty means that none was found: with a stripped libjvm
/// of such a JDK, look for the stubs with [`safefetch_in_code`].
pub fn safefetch_sites(
    table: &SymbolTable,
    libjvm_base: Address,
    read_u64: impl Fn(u64) -> Option<u64>,
) -> Vec<SafeFetchSite> {
    let bias = libjvm_base.0.wrapping_sub(table.link_base());
    let loaded = |symbol: &str| {
        table
            .address_of(symbol)
            .map(|offset| offset.wrapping_add(bias))
    };

    let labelled = LABELS.iter().filter_map(|[name, fault, continuation]| {
        Some(SafeFetchSite {
            name,
            fault_pc: Pc(loaded(fault)?),
            continuation_pc: Pc(loaded(continuation)?),
        })
    });
    let from_labels: Vec<_> = labelled.collect();
    if !from_labels.is_empty() {
        return from_labels;
    }

    let field = |symbol: &str| read_u64(loaded(symbol)?).filter(|&pc| pc != 0);
    let from_fields: Vec<_> = FIELDS
        .iter()
        .filter_map(|[name, fault, continuation]| {
            Some(SafeFetchSite {
                name,
                fault_pc: Pc(field(fault)?),
                continuation_pc: Pc(field(continuation)?),
            })
        })
        .collect();
    if !from_fields.is_empty() {
        return from_fields;
    }

    table
        .text()
        .filter_map(|(offset, length)| Some((offset, table.read(offset, length).ok()?)))
        .flat_map(|(offset, code)| {
            safefetch_in_code(table.arch(), &code, Pc(offset.wrapping_add(bias)))
        })
        .collect()
}

/// The SafeFetch loads in `code`, which lies at `start`, known by their bytes alone: for a libjvm without symbols
/// (its text), or, before 18, for the code cache's stubs.
#[must_use]
pub fn safefetch_in_code(arch: Arch, code: &[u8], start: Pc) -> Vec<SafeFetchSite> {
    let patterns = match arch {
        Arch::X86_64 => &arch::x86_64::SAFEFETCH,
        Arch::Aarch64 => &arch::aarch64::SAFEFETCH,
    };
    let mut sites = Vec::new();
    for pattern in patterns {
        let first = pattern.bytes[0];
        let mut at = 0;
        while let Some(found) = code[at..].iter().position(|&byte| byte == first) {
            at += found;
            if code[at..].starts_with(pattern.bytes) && !is_wider(arch, code, at) {
                let fault = start.0.wrapping_add(at as u64);
                sites.push(SafeFetchSite {
                    name: pattern.name,
                    fault_pc: Pc(fault),
                    continuation_pc: Pc(fault.wrapping_add(pattern.continuation)),
                });
            }
            at += 1;
        }
    }
    sites.sort_by_key(|site| site.fault_pc);
    sites
}

/// Whether the load at `at` is the tail of one with a prefix (`48 8b 37` holds `8b 37`).
fn is_wider(arch: Arch, code: &[u8], at: usize) -> bool {
    match arch {
        Arch::X86_64 => code[at] == 0x8b && at > 0 && (0x40..=0x4f).contains(&code[at - 1]),
        Arch::Aarch64 => !at.is_multiple_of(4),
    }
}
