//! What a debugger needs to find libraries in a core: an auxiliary vector, a list of mapped files, and a dynamic linker's list of
//! loaded files (`struct r_debug`, `<link.h>`), on a page of its own made for this.
//!
//! The walked process has such a list as well, spread over a dozen pages that no walk reads. The one made here fits in one page and
//! names only the files that the capsule names.

use crate::capsule::{Facts, PageBytes};
use crate::format::limits::PAGE;

const AT_PHDR: u64 = 3;
const AT_PHENT: u64 = 4;
const AT_PHNUM: u64 = 5;
const AT_PAGESZ: u64 = 6;
const AT_ENTRY: u64 = 9;
const DT_DEBUG: u64 = 21;
const PT_DYNAMIC: u32 = 2;
const PT_PHDR: u32 = 6;
const PROGRAM_HEADER: u64 = 56;
/// Where things are on the page.
const DYNAMIC: u64 = 0x100;
const R_DEBUG: u64 = 0x140;
const LINK_MAPS: u64 = 0x180;
/// Bytes in a `struct link_map` as far as debuggers read it.
const LINK_MAP: u64 = 40;

/// Where the page is.
pub(crate) fn address(facts: &Facts) -> u64 {
    facts.stub.0 + PAGE
}

/// The page: program headers, dynamic section, `r_debug` and link maps.
pub(crate) fn page(facts: &Facts) -> Box<PageBytes> {
    let base = address(facts);
    let mut page = Box::new([0; PAGE as usize]);
    let mut put = |at: u64, bytes: &[u8]| {
        let at = at as usize;
        if let Some(target) = page.get_mut(at..at + bytes.len()) {
            target.copy_from_slice(bytes);
        }
    };
    let mut word = |at: u64, word: u64| put(at, &word.to_le_bytes());
    // Both headers: type and flags, offset, virtual address, physical address, sizes, alignment. Linked at 0, loaded at `base`.
    for (index, (kind, at, size)) in [
        (PT_PHDR, 0, 2 * PROGRAM_HEADER),
        (PT_DYNAMIC, DYNAMIC, 2 * 16),
    ]
    .into_iter()
    .enumerate()
    {
        let header = index as u64 * PROGRAM_HEADER;
        word(header, u64::from(kind) | 4 << 32);
        for field in 1..4 {
            word(header + field * 8, at);
        }
        word(header + 32, size);
        word(header + 40, size);
        word(header + 48, 8);
    }
    word(DYNAMIC, DT_DEBUG);
    word(DYNAMIC + 8, base + R_DEBUG);
    // r_version, r_map, r_brk, r_state, r_ldbase.
    word(R_DEBUG, 1);
    word(R_DEBUG + 8, base + LINK_MAPS);
    // The first one is the program itself.
    let known: Vec<_> = facts
        .files
        .iter()
        .filter(|file| file.dynamic != 0)
        .collect();
    let count = 1 + known.len() as u64;
    let mut name_at = LINK_MAPS + count * LINK_MAP;
    let mut names = Vec::new();
    let maps = std::iter::once((base, "", base + DYNAMIC)).chain(
        known
            .iter()
            .map(|file| (file.base, file.path.as_str(), file.dynamic)),
    );
    for (index, (load, name, dynamic)) in (0_u64..).zip(maps) {
        if name_at + name.len() as u64 + 1 > PAGE {
            break;
        }
        let at = LINK_MAPS + index * LINK_MAP;
        let neighbour = |there: bool, index: u64| {
            if there {
                base + LINK_MAPS + index * LINK_MAP
            } else {
                0
            }
        };
        word(at, load);
        word(at + 8, base + name_at);
        word(at + 16, dynamic);
        word(at + 24, neighbour(index + 1 < count, index + 1));
        word(at + 32, neighbour(index > 0, index.wrapping_sub(1)));
        names.push((name_at, name));
        name_at += name.len() as u64 + 1;
    }
    for (at, name) in names {
        put(at, name.as_bytes());
    }
    page
}

/// `NT_AUXV`.
pub(crate) fn auxiliary_vector(facts: &Facts) -> Vec<u8> {
    [
        (AT_PHDR, address(facts)),
        (AT_PHENT, PROGRAM_HEADER),
        (AT_PHNUM, 2),
        (AT_PAGESZ, PAGE),
        (AT_ENTRY, facts.stub.0),
        (0, 0),
    ]
    .into_iter()
    .flat_map(|(kind, value): (u64, u64)| [kind.to_le_bytes(), value.to_le_bytes()])
    .flatten()
    .collect()
}

/// `NT_FILE`: count, page size, (start, end, offset in pages) each, names each.
pub(crate) fn file_list(facts: &Facts) -> Vec<u8> {
    let all = || {
        facts
            .files
            .iter()
            .flat_map(|file| file.mappings.iter().map(move |mapping| (file, mapping)))
    };
    let mut out = Vec::new();
    out.extend((all().count() as u64).to_le_bytes());
    out.extend(PAGE.to_le_bytes());
    for (_, mapping) in all() {
        for word in [mapping.start, mapping.end, mapping.offset / PAGE] {
            out.extend(word.to_le_bytes());
        }
    }
    for (file, _) in all() {
        out.extend(file.path.bytes());
        out.push(0);
    }
    out
}
