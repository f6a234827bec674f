//! The process that stands still: what is mapped in it, and its pages.

use std::fs::File;
use std::io;
use std::path::Path;

use object::elf;
use object::endian::LittleEndian;
use object::read::ReadCache;
use object::read::elf::{FileHeader as _, ProgramHeader as _};

use walkfuzz_vmstructs::{Mapping, Maps};

use crate::capsule::{FileFacts, FileMapping, Layout, PageBytes, Protection};
use crate::capture::KnownFile;
use crate::error::CaptureError;
use crate::format::limits::{self, PAGE};
use crate::puppet::{Source, Tracee};

pub(crate) struct Frozen {
    tracee: Tracee,
    maps: Maps,
}

impl Source for Frozen {
    fn page(&self, address: u64) -> io::Result<Box<PageBytes>> {
        let mut bytes = Box::new([0; PAGE as usize]);
        self.tracee.read(address, &mut bytes[..])?;
        Ok(bytes)
    }
}

impl Frozen {
    /// `tracee` is never run.
    pub(crate) fn new(tracee: Tracee) -> Result<Self, CaptureError> {
        let path = format!("/proc/{}/maps", tracee.pid());
        let text = std::fs::read(&path).map_err(|error| CaptureError::Maps(error.to_string()))?;
        let maps = Maps::parse(&String::from_utf8_lossy(&text))
            .map_err(|error| CaptureError::Maps(error.to_string()))?;
        Ok(Self { tracee, maps })
    }

    /// Everything in user space.
    pub(crate) fn layout(&self) -> Layout {
        let mut layout = Layout::default();
        for mapping in self.maps.all() {
            let (start, end) = (mapping.span.start.0, mapping.span.end.0);
            if end <= limits::USER_SPACE {
                layout.push(start..end, protection(mapping));
            }
        }
        layout
    }

    /// The known files that are mapped.
    pub(crate) fn files(&self, known: &[KnownFile]) -> Vec<FileFacts> {
        let facts = known.iter().map(|file| {
            let path = file.path.to_string_lossy().into_owned();
            let mappings: Vec<FileMapping> = self
                .mapped(file)
                .map(|mapping| FileMapping {
                    start: mapping.span.start.0,
                    end: mapping.span.end.0,
                    offset: mapping.offset,
                })
                .collect();
            let base = mappings
                .first()
                .map_or(0, |first| first.start.wrapping_sub(first.offset));
            FileFacts {
                name: file
                    .path
                    .file_name()
                    .map(|name| name.to_string_lossy().into_owned())
                    .unwrap_or_default(),
                identity: file.identity.clone(),
                path,
                base,
                dynamic: dynamic_section(&file.path).map_or(0, |offset| base.wrapping_add(offset)),
                mappings,
            }
        });
        facts.collect()
    }

    /// Whether this is an address in libc or in the program that loads libraries: one of the files that a system's libc is made of.
    pub(crate) fn is_libc(&self, address: u64) -> bool {
        const NAMES: [&str; 6] = ["libc.so", "libc-", "ld-", "libpthread", "libm.so", "libm-"];
        self.file_at(address)
            .is_some_and(|(name, _)| NAMES.iter().any(|begin| name.starts_with(begin)))
    }

    /// The file that is mapped at an address, and how far from its first byte that is: `libc.so.6+0x8ab00`.
    pub(crate) fn name_of(&self, address: u64) -> String {
        self.file_at(address).map_or_else(
            || format!("{address:#x}"),
            |(name, offset)| format!("{name}+{offset:#x}"),
        )
    }

    fn file_at(&self, address: u64) -> Option<(&str, u64)> {
        let all = self.maps.all();
        let mut holding = all
            .iter()
            .filter(|mapping| (mapping.span.start.0..mapping.span.end.0).contains(&address));
        let mapping = holding.next()?;
        let name = Path::new(&*mapping.path).file_name()?.to_str()?;
        Some((name, address - mapping.span.start.0 + mapping.offset))
    }

    fn mapped<'a>(&'a self, file: &'a KnownFile) -> impl Iterator<Item = &'a Mapping> {
        let is_file = |mapping: &&Mapping| Path::new(&*mapping.path) == file.path;
        self.maps.all().iter().filter(is_file)
    }
}

/// How far behind an ELF file's first byte in memory its dynamic section is.
fn dynamic_section(path: &Path) -> Option<u64> {
    let cache = ReadCache::new(File::open(path).ok()?);
    let header = elf::FileHeader64::<LittleEndian>::parse(&cache).ok()?;
    let headers = header.program_headers(LittleEndian, &cache).ok()?;
    let first = |kind| {
        let mut of_kind = headers
            .iter()
            .filter(|header| header.p_type(LittleEndian) == kind);
        Some(of_kind.next()?.p_vaddr(LittleEndian))
    };
    let begin = first(elf::PT_LOAD)? & !(PAGE - 1);
    first(elf::PT_DYNAMIC)?.checked_sub(begin)
}

fn protection(mapping: &Mapping) -> Protection {
    Protection::new(mapping.readable, mapping.writable, mapping.executable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dynamic_sections_are_found() {
        let maps = Maps::parse(&std::fs::read_to_string("/proc/self/maps").unwrap()).unwrap();
        let libc = maps
            .all()
            .iter()
            .find(|mapping| mapping.path.contains("/libc.so"))
            .unwrap();
        let path = Path::new(&*libc.path);
        let offset = dynamic_section(path).unwrap();
        assert_eq!(libc.offset, 0, "its first mapping");
        // A dynamic section begins with a library that is needed (DT_NEEDED).
        let at = (libc.span.start.0 + offset) as *const u64;
        // SAFETY: mapped by the dynamic loader, which reads it as well.
        assert_eq!(unsafe { at.read() }, 1);
        assert_eq!(dynamic_section(Path::new("/dev/null")), None);
    }
}
