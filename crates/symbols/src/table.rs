//! The symbols of one ELF file.
//!
//! A libjvm has 60 to 70 thousand symbols. Only the symbol and string tables are read (5 of 30 MB), names stay as
//! offsets into the string table, and nothing is demangled before somebody asks.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use object::LittleEndian;
use object::elf;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, Sym};
use object::read::{ReadCache, ReadRef};
use sha2::{Digest, Sha256};
use walkfuzz_context::Arch;

use crate::{Error, Result};

/// How far back a lookup looks for an enclosing function: symbols seldom nest, labels do.
const NESTING: usize = 32;

/// One symbol of a [`SymbolTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol<'a> {
    /// The name as it stands in the file.
    pub mangled: &'a str,
    /// Address as linked.
    pub offset: u64,
    /// Size in bytes; 0 where the file does not say (hand-written assembly).
    pub size: u64,
}

#[derive(Clone, Copy)]
struct Entry {
    offset: u64,
    size: u64,
    name: u32,
    rank: u8,
}

/// Labels: worth finding by name, but an enclosing function is the better answer for an address.
const LABEL: u8 = 0x40;

#[derive(Clone, Copy)]
struct Segment {
    offset: u64,
    in_file: u64,
    file_offset: u64,
    executable: bool,
}

/// Sections that unwinding wants to know.
const SECTIONS: [&str; 4] = [".text", ".got", ".eh_frame", ".eh_frame_hdr"];

/// Function and data symbols of an ELF file, by address and by name.
pub struct SymbolTable {
    path: PathBuf,
    arch: Arch,
    link_base: u64,
    build_id: Option<String>,
    identity: OnceLock<Option<String>>,
    entries: Vec<Entry>,
    strings: Vec<u8>,
    segments: Vec<Segment>,
    sections: Vec<(&'static str, Range<u64>)>,
    bytes: Option<Vec<u8>>,
}

impl SymbolTable {
    /// Reads the symbols of the file at `path`: `.symtab`, or `.dynsym` if the file is stripped.
    ///
    /// # Errors
    /// The file cannot be read, is no 64-bit little-endian ELF file, or is for another machine. A file without any
    /// symbols is an empty table.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let file = File::open(path).map_err(|source| read_error(path, source))?;
        let cache = ReadCache::new(file);
        Self::parse(path, &cache)
    }

    /// The same for an ELF image in memory, such as the vdso. `path` only names it.
    ///
    /// # Errors
    /// As [`SymbolTable::load`].
    pub fn from_bytes(path: impl AsRef<Path>, bytes: Vec<u8>) -> Result<Self> {
        let mut table = Self::parse(path.as_ref(), bytes.as_slice())?;
        table.bytes = Some(bytes);
        Ok(table)
    }

    fn parse<'data, R: ReadRef<'data>>(path: &Path, data: R) -> Result<Self> {
        let elf_error = |source| Error::Elf {
            path: path.to_owned(),
            source,
        };
        let header = elf::FileHeader64::<LittleEndian>::parse(data).map_err(elf_error)?;
        let endian = header.endian().map_err(elf_error)?;
        let arch = match header.e_machine(endian) {
            elf::EM_X86_64 => Arch::X86_64,
            elf::EM_AARCH64 => Arch::Aarch64,
            machine => {
                return Err(Error::Machine {
                    path: path.to_owned(),
                    machine: machine.0,
                });
            }
        };
        let mut segments = Vec::new();
        for program_header in header.program_headers(endian, data).map_err(elf_error)? {
            if program_header.p_type(endian) == elf::PT_LOAD {
                segments.push(Segment {
                    offset: program_header.p_vaddr(endian),
                    in_file: program_header.p_filesz(endian),
                    file_offset: program_header.p_offset(endian),
                    executable: program_header.p_flags(endian) & elf::PF_X != elf::ProgramFlags(0),
                });
            }
        }
        let link_base = segments.iter().map(|s| s.offset).min().unwrap_or(0) & !0xfff;
        let sections = header.sections(endian, data).map_err(elf_error)?;
        let build_id = sections.iter().find_map(|section| {
            let mut notes = section.notes(endian, data).ok()??;
            while let Ok(Some(note)) = notes.next() {
                if note.name() == elf::ELF_NOTE_GNU && note.n_type(endian) == elf::NT_GNU_BUILD_ID {
                    return Some(hex(note.desc()));
                }
            }
            None
        });
        let placed = SECTIONS.into_iter().filter_map(|name| {
            let (_, section) = sections.section_by_name(endian, name.as_bytes())?;
            let start = section.sh_addr(endian);
            Some((name, start..start.checked_add(section.sh_size(endian))?))
        });
        let placed = placed.collect();
        let mut symbols = sections
            .symbols(endian, data, elf::SHT_SYMTAB)
            .map_err(elf_error)?;
        if symbols.is_empty() {
            symbols = sections
                .symbols(endian, data, elf::SHT_DYNSYM)
                .map_err(elf_error)?;
        }
        let strings = if symbols.is_empty() {
            Vec::new()
        } else {
            let section = sections
                .section(symbols.string_section())
                .map_err(elf_error)?;
            section.data(endian, data).map_err(elf_error)?.to_vec()
        };
        let mut entries = Vec::with_capacity(symbols.len());
        for symbol in symbols.iter() {
            if symbol.is_undefined(endian) || symbol.st_shndx(endian) == elf::SHN_ABS {
                continue;
            }
            let name = symbol.st_name(endian);
            let Some(rank) = rank(symbol.st_type(), symbol.st_bind(), text(&strings, name)) else {
                continue;
            };
            entries.push(Entry {
                offset: symbol.st_value(endian),
                size: symbol.st_size(endian),
                name,
                rank,
            });
        }
        entries.sort_by_key(|e| (e.offset, e.rank));
        Ok(Self {
            path: path.to_owned(),
            arch,
            link_base,
            build_id,
            identity: OnceLock::new(),
            entries,
            strings,
            segments,
            sections: placed,
            bytes: None,
        })
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The machine that the file is for.
    #[must_use]
    pub fn arch(&self) -> Arch {
        self.arch
    }

    /// The lowest address that the file wants, page-aligned: 0 for a shared library. What a loader's base minus this is
    /// added to an offset to give a run-time address.
    #[must_use]
    pub fn link_base(&self) -> u64 {
        self.link_base
    }

    /// The GNU build id as hexadecimal digits. Some Temurin builds have none: see [`SymbolTable::identity`].
    #[must_use]
    pub fn build_id(&self) -> Option<&str> {
        self.build_id.as_deref()
    }

    /// What tells this build from every other: the build id, or `sha256:` and 40 digits of the file's hash where there
    /// is none. `None` if the file has become unreadable.
    #[must_use]
    pub fn identity(&self) -> Option<&str> {
        self.identity
            .get_or_init(|| {
                if let Some(id) = &self.build_id {
                    return Some(id.clone());
                }
                let digest = match &self.bytes {
                    Some(bytes) => Sha256::digest(bytes),
                    None => {
                        let mut hash = Sha256::new();
                        std::io::copy(&mut File::open(&self.path).ok()?, &mut hash).ok()?;
                        hash.finalize()
                    }
                };
                Some(format!("sha256:{}", &hex(&digest)[..40]))
            })
            .as_deref()
    }

    /// How many symbols there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no symbol.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The symbol that covers `offset`. A symbol of unknown size reaches to the next one; a function is preferred to a
    /// label inside it.
    #[must_use]
    pub fn lookup(&self, offset: u64) -> Option<Symbol<'_>> {
        let end = self.entries.partition_point(|e| e.offset <= offset);
        let next = self.entries.get(end).map_or(u64::MAX, |e| e.offset);
        let last = self.entries.get(end.wrapping_sub(1))?.offset;
        let mut label = None;
        for entry in self.entries[..end].iter().rev().take(NESTING) {
            let covers = if entry.size > 0 {
                offset - entry.offset < entry.size
            } else {
                entry.offset == last && offset < next && self.same_segment(entry.offset, offset)
            };
            if covers && entry.rank < LABEL {
                return Some(self.symbol(entry));
            }
            if covers && label.is_none() {
                label = Some(entry);
            }
        }
        label.map(|entry| self.symbol(entry))
    }

    /// The offset of the symbol with exactly this (mangled) name. If several have it, a global one, else the lowest.
    #[must_use]
    pub fn address_of(&self, mangled: &str) -> Option<u64> {
        self.named(mangled).map(|symbol| symbol.offset)
    }

    /// The symbol with exactly this (mangled) name; of several as [`SymbolTable::address_of`].
    #[must_use]
    pub fn named(&self, mangled: &str) -> Option<Symbol<'_>> {
        self.entries
            .iter()
            .filter(|e| is_name(&self.strings, e.name, mangled))
            .min_by_key(|e| (e.rank & GLOBAL == 0, e.offset))
            .map(|e| self.symbol(e))
    }

    /// Every symbol whose (mangled) name begins with `prefix`, by address.
    pub fn find_prefix<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = Symbol<'a>> + 'a {
        self.entries
            .iter()
            .filter(move |e| has_prefix(&self.strings, e.name, prefix))
            .map(|e| self.symbol(e))
    }

    /// Every symbol, by address.
    pub fn iter(&self) -> impl Iterator<Item = Symbol<'_>> {
        self.entries.iter().map(|e| self.symbol(e))
    }

    /// The executable parts of the file: first offset and length in bytes.
    pub fn text(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.segments
            .iter()
            .filter(|s| s.executable)
            .map(|s| (s.offset, s.in_file))
    }

    /// Where a section that is loaded lies, as linked: `.text`, `.got`, `.eh_frame` and `.eh_frame_hdr`.
    #[must_use]
    pub fn section(&self, name: &str) -> Option<Range<u64>> {
        let found = self.sections.iter().find(|(known, _)| *known == name);
        found.map(|(_, range)| range.clone())
    }

    /// `length` bytes at `offset`, read from the file.
    ///
    /// # Errors
    /// The range lies in no segment of the file, or the file cannot be read.
    pub fn read(&self, offset: u64, length: u64) -> Result<Vec<u8>> {
        let outside = || Error::NotInFile {
            path: self.path.clone(),
            offset,
            length,
        };
        let file_offset = self
            .segments
            .iter()
            .find(|s| {
                offset >= s.offset && length <= s.in_file && offset - s.offset <= s.in_file - length
            })
            .and_then(|s| s.file_offset.checked_add(offset - s.offset))
            .ok_or_else(outside)?;
        if let Some(bytes) = &self.bytes {
            let start = usize::try_from(file_offset).map_err(|_| outside())?;
            let end = start.saturating_add(usize::try_from(length).map_err(|_| outside())?);
            return bytes
                .get(start..end)
                .map(<[u8]>::to_vec)
                .ok_or_else(outside);
        }
        let io_error = |source| read_error(&self.path, source);
        let file = File::open(&self.path).map_err(io_error)?;
        // A declared size is not a reason to allocate it: the file's own size bounds it.
        let available = file.metadata().map_err(io_error)?.len();
        if file_offset
            .checked_add(length)
            .is_none_or(|end| end > available)
        {
            return Err(outside());
        }
        let mut bytes = vec![0; usize::try_from(length).map_err(|_| outside())?];
        file.read_exact_at(&mut bytes, file_offset)
            .map_err(io_error)?;
        Ok(bytes)
    }

    fn same_segment(&self, a: u64, b: u64) -> bool {
        self.segments.iter().any(|s| {
            a >= s.offset && b >= s.offset && a - s.offset < s.in_file && b - s.offset < s.in_file
        })
    }

    fn symbol(&self, entry: &Entry) -> Symbol<'_> {
        Symbol {
            mangled: text(&self.strings, entry.name),
            offset: entry.offset,
            size: entry.size,
        }
    }
}

impl std::fmt::Debug for SymbolTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SymbolTable")
            .field("path", &self.path)
            .field("symbols", &self.entries.len())
            .field("build_id", &self.build_id)
            .finish_non_exhaustive()
    }
}

/// Global symbols win against local ones of the same name.
const GLOBAL: u8 = 1;

/// Orders the symbols at one address; the highest below [`LABEL`] names it. `None`: not a symbol of interest.
fn rank(kind: elf::SymbolType, binding: elf::SymbolBind, name: &str) -> Option<u8> {
    // `$x` and `$d` are aarch64 mapping symbols, `.L` assembler-local labels.
    if name.is_empty() || name.starts_with('$') || name.starts_with(".L") {
        return None;
    }
    let base = match kind {
        elf::STT_FUNC | elf::STT_GNU_IFUNC => 8,
        elf::STT_OBJECT => 4,
        elf::STT_NOTYPE => LABEL,
        _ => return None,
    };
    // The better the name reads, the higher: `_SafeFetch32_fault` and `SafeFetch32_impl` share an address.
    let reads_well = if name.starts_with("_Z") || !name.starts_with('_') {
        2
    } else {
        0
    };
    let global = if binding == elf::STB_LOCAL { 0 } else { GLOBAL };
    Some(base | reads_well | global)
}

fn tail(strings: &[u8], name: u32) -> &[u8] {
    strings.get(name as usize..).unwrap_or_default()
}

fn text(strings: &[u8], name: u32) -> &str {
    let tail = tail(strings, name);
    let end = tail.iter().position(|&b| b == 0).unwrap_or(tail.len());
    std::str::from_utf8(&tail[..end]).unwrap_or("")
}

fn has_prefix(strings: &[u8], name: u32, prefix: &str) -> bool {
    tail(strings, name).starts_with(prefix.as_bytes())
}

fn is_name(strings: &[u8], name: u32, wanted: &str) -> bool {
    has_prefix(strings, name, wanted)
        && tail(strings, name)
            .get(wanted.len())
            .is_none_or(|&b| b == 0)
}

fn read_error(path: &Path, source: std::io::Error) -> Error {
    Error::Read {
        path: path.to_owned(),
        source,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
