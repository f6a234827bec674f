//! A loaded library's imports: other functions in the place of those that the loader bound.
//!
//! Only calls through the global offset table are redirected: what a library calls by an address that it got otherwise (dlsym), or inside itself, is
//! not seen.
//!
//! Contract: not for handlers. The library must stay loaded.

use std::ffi::{CStr, c_void};
use std::io;

use libc::{Elf64_Phdr, Elf64_Rela, Elf64_Sym, dl_phdr_info};
use walkfuzz_context::{Address, Arch};
use walkfuzz_vmstructs::Span;

/// The relocations whose word is a symbol's address, as the ABI of the architecture numbers them.
const ADDRESSES: [u32; 3] = match Arch::NATIVE {
    // R_X86_64_64, R_X86_64_GLOB_DAT, R_X86_64_JUMP_SLOT
    Arch::X86_64 => [1, 6, 7],
    // R_AARCH64_ABS64, R_AARCH64_GLOB_DAT, R_AARCH64_JUMP_SLOT
    Arch::Aarch64 => [257, 1025, 1026],
};

// What libc does not name: elf.h.
const DT_PLTRELSZ: i64 = 2;
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_RELA: i64 = 7;
const DT_RELASZ: i64 = 8;
const DT_JMPREL: i64 = 23;

/// A library in this process.
#[derive(Clone, Debug, Default)]
pub struct Library {
    bias: u64,
    dynamic: u64,
    /// What the loader made read-only again.
    relro: Option<Span>,
    /// Its writable memory.
    pub writable: Vec<Span>,
}

/// What the loader noted about it.
#[derive(Clone, Copy, Debug, Default)]
struct Tables {
    symbols: u64,
    names: u64,
    relocations: [(u64, u64); 2],
}

impl Library {
    /// The library that holds the address.
    #[must_use]
    pub fn of(address: *const c_void) -> Option<Self> {
        let mut wanted = (address as u64, None);
        // SAFETY: the callback gets our pointer back, during the call.
        unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut wanted).cast()) };
        wanted.1
    }

    fn tables(&self) -> Tables {
        let mut tables = Tables::default();
        let mut at = self.dynamic as *const [i64; 2];
        // The loader has made addresses of all values but the sizes; musl leaves offsets.
        let absolute = |value: i64| {
            let value = value as u64;
            if value < self.bias {
                value + self.bias
            } else {
                value
            }
        };
        loop {
            // SAFETY: the dynamic section of a loaded library ends with DT_NULL.
            let [tag, value] = unsafe { at.read() };
            match tag {
                0 => return tables,
                DT_SYMTAB => tables.symbols = absolute(value),
                DT_STRTAB => tables.names = absolute(value),
                DT_RELA => tables.relocations[0].0 = absolute(value),
                DT_RELASZ => tables.relocations[0].1 = value as u64,
                DT_JMPREL => tables.relocations[1].0 = absolute(value),
                DT_PLTRELSZ => tables.relocations[1].1 = value as u64,
                _ => {}
            }
            // SAFETY: as above.
            at = unsafe { at.add(1) };
        }
    }

    /// Puts `function` in the place of what the library imports as `name`; how many words that were.
    ///
    /// # Errors
    /// The kernel does not let a word be written.
    ///
    /// # Safety
    /// `function` behaves like the one that is imported, for ever.
    pub unsafe fn redirect(&self, name: &CStr, function: *const c_void) -> io::Result<u32> {
        // SAFETY: the caller's promise.
        unsafe { self.redirect_each(&mut |called, _| (called == name).then_some(function as u64)) }
    }

    /// Asks `instead` for each import, by its name and the address that the loader found (0: none), what to put in its place; how many
    /// words it had an answer for. An answer that stands there already changes nothing.
    ///
    /// # Errors
    /// The kernel does not let a word be written.
    ///
    /// # Safety
    /// Each answer is a function that behaves like the one that is imported, for ever.
    pub unsafe fn redirect_each(
        &self,
        instead: &mut dyn FnMut(&CStr, u64) -> Option<u64>,
    ) -> io::Result<u32> {
        let tables = self.tables();
        let mut words = 0;
        for (start, bytes) in tables.relocations {
            if start == 0 {
                continue;
            }
            let count = bytes as usize / size_of::<Elf64_Rela>();
            // SAFETY: the dynamic section gives the table's place and size.
            let relocations =
                unsafe { std::slice::from_raw_parts(start as *const Elf64_Rela, count) };
            for relocation in relocations {
                let kind = relocation.r_info as u32;
                if !ADDRESSES.contains(&kind) || relocation.r_addend != 0 {
                    continue;
                }
                let word = self.bias + relocation.r_offset;
                // SAFETY: a relocation's symbol is in the symbol table, its name in the string table, and its word in the library.
                let (called, bound) = unsafe {
                    let symbol = (relocation.r_info >> 32) as usize;
                    let symbol = (tables.symbols as *const Elf64_Sym).add(symbol);
                    let called = (tables.names + u64::from((*symbol).st_name)) as *const _;
                    (CStr::from_ptr(called), (word as *const u64).read())
                };
                let Some(answer) = instead(called, bound) else {
                    continue;
                };
                if answer != bound {
                    // SAFETY: the caller's promise.
                    unsafe { self.write(word, answer)? };
                }
                words += 1;
            }
        }
        Ok(words)
    }

    /// Writes a word that may be read-only.
    unsafe fn write(&self, word: u64, value: u64) -> io::Result<()> {
        let sealed = self.relro.is_some_and(|span| span.contains(Address(word)));
        let protect = |protection| {
            let bytes = page_bytes();
            let page = (word & !(bytes - 1)) as *mut c_void;
            // SAFETY: a page of a loaded library, which stays readable.
            let done = unsafe { libc::mprotect(page, bytes as usize, protection) };
            if done == 0 {
                Ok(())
            } else {
                Err(io::Error::last_os_error())
            }
        };
        if sealed {
            protect(libc::PROT_READ | libc::PROT_WRITE)?;
        }
        // SAFETY: a word of the global offset table, writable now; others may read it meanwhile.
        unsafe { (word as *mut u64).write_volatile(value) };
        if sealed {
            protect(libc::PROT_READ)?;
        }
        Ok(())
    }
}

/// Kernels for arm64 have pages of 4, 16 or 64 KiB.
fn page_bytes() -> u64 {
    // SAFETY: no pointers.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).unwrap_or(4096)
}

unsafe extern "C" fn visit(info: *mut dl_phdr_info, _: usize, wanted: *mut c_void) -> i32 {
    // SAFETY: the loader's, and `Library::of`'s.
    let (info, wanted) = unsafe { (&*info, &mut *wanted.cast::<(u64, Option<Library>)>()) };
    // SAFETY: the loader's table.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let span = |header: &Elf64_Phdr| {
        let start = info.dlpi_addr + header.p_vaddr;
        Span::new(Address(start), Address(start + header.p_memsz))
    };
    let loaded = || {
        headers
            .iter()
            .filter(|header| header.p_type == libc::PT_LOAD)
    };
    if !loaded().any(|header| span(header).contains(Address(wanted.0))) {
        return 0;
    }
    let of_kind = |kind: u32| {
        headers
            .iter()
            .find(|header| header.p_type == kind)
            .map(span)
    };
    // The loader seals whole pages.
    let page = |address: Address| Address(address.0 & !(page_bytes() - 1));
    let relro = of_kind(libc::PT_GNU_RELRO).map(|span| Span::new(page(span.start), page(span.end)));
    let behind_relro = |span: Span| match relro {
        Some(relro) if relro.contains(span.start) => Span::new(relro.end.max(span.start), span.end),
        _ => span,
    };
    let writable = loaded().filter(|header| header.p_flags & libc::PF_W != 0);
    wanted.1 = of_kind(libc::PT_DYNAMIC).map(|dynamic| Library {
        bias: info.dlpi_addr,
        dynamic: dynamic.start.0,
        relro,
        writable: writable.map(span).map(behind_relro).collect(),
    });
    1
}
