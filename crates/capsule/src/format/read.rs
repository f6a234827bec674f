//! Reading a capsule: every byte is somebody else's.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use object::elf;
use object::endian::LittleEndian;
use object::read::elf::{FileHeader as _, ProgramHeader as _};
use serde::Deserialize;
use walkfuzz_context::Arch;

use crate::capsule::{Capsule, Content, Facts, Layout, Page, PageBytes, Protection, VERSION};
use crate::error::FormatError;
use crate::format::limits::{self, PAGE};
use crate::format::notes::{take_entry_pages, take_layout, take_opinion, take_references};
use crate::format::{ENTRY_PAGES, FACTS, LAYOUT, OPINION, OWNER, REFERENCES, debugger, note_name};

type Header = elf::FileHeader64<LittleEndian>;
const ENDIAN: LittleEndian = LittleEndian;

impl Capsule {
    /// Reads a file.
    ///
    /// # Errors
    /// [`FormatError`], which says what is wrong with it.
    pub fn read(path: &Path) -> Result<Self, FormatError> {
        let failed = |source| FormatError::Io {
            path: path.display().to_string(),
            source,
        };
        let about = std::fs::metadata(path).map_err(failed)?;
        // A device or a pipe has no end.
        if !about.is_file() && !about.is_dir() {
            return Err(failed(std::io::Error::other("it is no regular file")));
        }
        if about.len() > limits::UNPACKED {
            return Err(FormatError::TooBig {
                limit: limits::UNPACKED,
            });
        }
        let bytes = std::fs::read(path).map_err(failed)?;
        Self::from_bytes(&bytes)
    }

    /// Reads a file's bytes.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, FormatError> {
        let packed = zstd::Decoder::with_buffer(bytes).map_err(FormatError::Compression)?;
        let mut core = Vec::new();
        // One byte more than allowed shows that there is more, whatever the header declares.
        packed
            .take(limits::UNPACKED + 1)
            .read_to_end(&mut core)
            .map_err(FormatError::Compression)?;
        if core.len() as u64 > limits::UNPACKED {
            return Err(FormatError::TooBig {
                limit: limits::UNPACKED,
            });
        }
        Self::from_core(&core)
    }

    /// Reads the core, unpacked.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn from_core(core: &[u8]) -> Result<Self, FormatError> {
        let header = Header::parse(core)?;
        // `parse` takes any class and byte order that the type can be laid over.
        let ident = header.e_ident();
        if ident.class != elf::ELFCLASS64 || ident.data != elf::ELFDATA2LSB {
            return Err(FormatError::Architecture {
                found: "a 32-bit or big-endian machine".to_owned(),
                ours: Arch::NATIVE.name(),
            });
        }
        let kind = header.e_type(ENDIAN);
        if kind != elf::ET_CORE {
            return Err(FormatError::NotACore(kind.0));
        }
        check_machine(header.e_machine(ENDIAN))?;
        let segments = header.program_headers(ENDIAN, core)?;
        let notes = Notes::take(segments, core)?;
        let facts = read_facts(notes.need(FACTS)?)?;
        let layout = take_layout(notes.need(LAYOUT)?)?;
        check_stub(&facts, &layout)?;
        let mut pages = read_pages(segments, core, &facts)?;
        refer(&mut pages, notes.need(REFERENCES)?, &facts)?;
        let entry_pages = take_entry_pages(notes.need(ENTRY_PAGES)?)?;
        for (address, bytes) in entry_pages {
            let page = pages
                .get_mut(&address)
                .ok_or(FormatError::NoContent { address })?;
            let Content::Bytes(shown) = std::mem::replace(&mut page.entry, content(bytes)) else {
                return Err(FormatError::NoContent { address });
            };
            page.outcome = Some(shown);
        }
        Ok(Self {
            facts,
            layout,
            pages,
            opinion: notes.get(OPINION).map(take_opinion).transpose()?,
        })
    }
}

/// Zeros need no bytes.
fn content(bytes: Box<PageBytes>) -> Content {
    if bytes.iter().all(|byte| *byte == 0) {
        Content::Zero
    } else {
        Content::Bytes(bytes)
    }
}

fn check_machine(machine: elf::Machine) -> Result<(), FormatError> {
    let arch = match machine {
        elf::EM_X86_64 => Some(Arch::X86_64),
        elf::EM_AARCH64 => Some(Arch::Aarch64),
        _ => None,
    };
    if arch == Some(Arch::NATIVE) {
        return Ok(());
    }
    Err(FormatError::Architecture {
        found: arch.map_or_else(
            || format!("ELF machine {}", machine.0),
            |arch| arch.name().to_owned(),
        ),
        ours: Arch::NATIVE.name(),
    })
}

/// Our notes by type.
struct Notes<'a>(BTreeMap<u32, &'a [u8]>);

impl<'a> Notes<'a> {
    fn take(
        segments: &[elf::ProgramHeader64<LittleEndian>],
        core: &'a [u8],
    ) -> Result<Self, FormatError> {
        let mut found = BTreeMap::new();
        for segment in segments {
            let Some(mut notes) = segment.notes(ENDIAN, core)? else {
                continue;
            };
            while let Some(note) = notes.next()? {
                if note.name() != OWNER.as_bytes() {
                    continue;
                }
                let kind = note.n_type(ENDIAN).0;
                if found.insert(kind, note.desc()).is_some() {
                    return Err(FormatError::TwoNotes(note_name(kind)));
                }
            }
        }
        Ok(Self(found))
    }

    fn get(&self, kind: u32) -> Option<&'a [u8]> {
        self.0.get(&kind).copied()
    }

    fn need(&self, kind: u32) -> Result<&'a [u8], FormatError> {
        self.get(kind).ok_or(FormatError::NoNote(note_name(kind)))
    }
}

/// What is looked at before anything else is believed.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
    arch: String,
    page_size: u64,
}

fn read_facts(bytes: &[u8]) -> Result<Facts, FormatError> {
    let found = bytes.len() as u64;
    if found > limits::FACTS {
        return Err(FormatError::TooMany {
            what: "bytes of facts",
            found,
            limit: limits::FACTS,
        });
    }
    let Versioned {
        version,
        arch,
        page_size,
    } = serde_json::from_slice(bytes).map_err(FormatError::Facts)?;
    if version != VERSION {
        return Err(FormatError::Version {
            found: version,
            known: VERSION,
        });
    }
    if arch != Arch::NATIVE.name() {
        return Err(FormatError::Architecture {
            found: arch,
            ours: Arch::NATIVE.name(),
        });
    }
    if page_size != PAGE {
        return Err(FormatError::PageSize {
            found: page_size,
            ours: PAGE,
        });
    }
    let facts: Facts = serde_json::from_slice(bytes).map_err(FormatError::Facts)?;
    let found = facts.safefetch.len() as u64;
    if found > limits::SAFEFETCH {
        return Err(FormatError::TooMany {
            what: "SafeFetch loads",
            found,
            limit: limits::SAFEFETCH,
        });
    }
    check_text(&facts)?;
    let entry = &facts.entry;
    let user = |address: u64| address < limits::USER_SPACE;
    let addresses = [
        entry.trace.0,
        entry.context.0,
        entry.thread.0,
        entry.stack.0,
        entry.function.0,
    ];
    if !addresses.into_iter().all(user) {
        return Err(FormatError::BadFacts(
            "an address of the entry lies outside of user space",
        ));
    }
    if entry.stack.0 % 16 != 8 {
        return Err(FormatError::BadFacts("the entry's stack is not aligned"));
    }
    if !(1..=limits::DEPTH).contains(&entry.depth) {
        return Err(FormatError::BadFacts("the depth is out of bounds"));
    }
    // A float control word with reserved bits cannot be loaded.
    if entry.float_control > 0xffff {
        return Err(FormatError::BadFacts(
            "the floating-point control word has bits that are none",
        ));
    }
    Ok(facts)
}

/// Texts are shown on terminals: what moves a cursor or rings a bell is none of them.
fn check_text(facts: &Facts) -> Result<(), FormatError> {
    let of_files = facts
        .files
        .iter()
        .flat_map(|file| [&file.name, &file.identity, &file.path]);
    let own = [
        &facts.libc_code,
        &facts.walker,
        &facts.signature,
        &facts.perturbation,
        &facts.jvm,
        &facts.walkfuzz,
    ];
    let mut texts = of_files.chain(own).chain(&facts.shims);
    if texts.any(|text| text.chars().any(char::is_control)) {
        return Err(FormatError::BadFacts("a text has control characters"));
    }
    Ok(())
}

fn check_stub(facts: &Facts, layout: &Layout) -> Result<(), FormatError> {
    let stub = facts.stub.0;
    let room = limits::STUB_PAGES * PAGE;
    if !stub.is_multiple_of(PAGE) || stub < limits::LOWEST || stub > limits::USER_SPACE - room {
        return Err(FormatError::BadFacts(
            "the replayer's page is no page of user space",
        ));
    }
    let over = layout
        .ranges()
        .iter()
        .find(|(range, _)| range.start < stub + room && range.end > stub);
    match over {
        Some((range, _)) => Err(FormatError::OverReplayer {
            address: range.start,
        }),
        None => Ok(()),
    }
}

fn read_pages(
    segments: &[elf::ProgramHeader64<LittleEndian>],
    core: &[u8],
    facts: &Facts,
) -> Result<BTreeMap<u64, Page>, FormatError> {
    let loads = || {
        segments
            .iter()
            .filter(|segment| segment.p_type(ENDIAN) == elf::PT_LOAD)
    };
    let mut total = 0_u64;
    for segment in loads() {
        total = total.saturating_add(segment.p_memsz(ENDIAN) / PAGE);
    }
    if total > limits::PAGES {
        return Err(FormatError::TooMany {
            what: "pages",
            found: total,
            limit: limits::PAGES,
        });
    }
    let mut pages = BTreeMap::new();
    for segment in loads() {
        let (address, length) = (segment.p_vaddr(ENDIAN), segment.p_memsz(ENDIAN));
        if address == debugger::address(facts) && length == PAGE {
            continue;
        }
        let bytes = segment
            .data(ENDIAN, core)
            .map_err(|()| FormatError::BadNote {
                note: "program header",
                what: "a segment lies outside of the file",
            })?;
        let end = address.checked_add(length);
        let inside = address >= limits::LOWEST
            && length > 0
            && end.is_some_and(|end| end <= limits::USER_SPACE);
        let aligned = address % PAGE == 0 && length % PAGE == 0;
        let complete = bytes.is_empty() || bytes.len() as u64 == length;
        if !inside || !aligned || !complete {
            return Err(FormatError::Segment { address, length });
        }
        let (stored, _) = bytes.as_chunks::<{ PAGE as usize }>();
        let mut stored = stored.iter();
        for at in (address..address + length).step_by(PAGE as usize) {
            if (facts.stub.0..facts.stub.0 + limits::STUB_PAGES * PAGE).contains(&at) {
                return Err(FormatError::OverReplayer { address: at });
            }
            let page = Page {
                protection: Protection::from_elf(segment.p_flags(ENDIAN).0),
                entry: stored
                    .next()
                    .map_or(Content::Zero, |bytes| Content::Bytes(Box::new(*bytes))),
                outcome: None,
            };
            if pages.insert(at, page).is_some() {
                return Err(FormatError::Overlap { address: at });
            }
        }
    }
    Ok(pages)
}

/// Pages that are in files elsewhere.
fn refer(pages: &mut BTreeMap<u64, Page>, note: &[u8], facts: &Facts) -> Result<(), FormatError> {
    for reference in take_references(note)? {
        if usize::from(reference.file) >= facts.files.len() {
            return Err(FormatError::BadFacts(
                "a page refers to a file that the facts do not name",
            ));
        }
        for index in 0..reference.pages {
            let address = reference.address + index * PAGE;
            let page = pages
                .get_mut(&address)
                .filter(|page| page.entry == Content::Zero)
                .ok_or(FormatError::NoContent { address })?;
            page.entry = Content::File {
                file: reference.file,
                offset: reference.offset + index * PAGE,
            };
        }
    }
    Ok(())
}
