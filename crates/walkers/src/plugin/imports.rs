//! Leads a loaded library's imports of allocating and locking functions through [`watch`](super::watch)'s forwarders.
//!
//! Contract: ordinary threads, before the library's code runs in walks. Only that library's global offset table changes.

use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::Ordering;

use super::watch::WATCHED;

/// `dlinfo`'s request for the linker's record of a library (dlfcn.h).
const RTLD_DI_LINKMAP: i32 = 2;
/// Relocations that hold a symbol's address: R_*_64/ABS64, R_*_GLOB_DAT, R_*_JUMP_SLOT (elf.h).
#[cfg(target_arch = "x86_64")]
const ADDRESSES: [u64; 3] = [1, 6, 7];
#[cfg(target_arch = "aarch64")]
const ADDRESSES: [u64; 3] = [257, 1025, 1026];
// Tags of the dynamic section (elf.h).
const DT_NULL: i64 = 0;
const DT_PLTRELSZ: i64 = 2;
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_RELA: i64 = 7;
const DT_RELASZ: i64 = 8;
const DT_JMPREL: i64 = 23;

/// The public part of glibc's `struct link_map` (link.h).
#[repr(C)]
struct LinkMap {
    base: usize,
    name: *const c_char,
    dynamic: *const Dynamic,
}

#[repr(C)]
struct Dynamic {
    tag: i64,
    value: usize,
}

#[repr(C)]
struct Rela {
    offset: usize,
    info: u64,
    addend: i64,
}

#[repr(C)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: u64,
    size: u64,
}

/// Redirects the watched imports of the library behind `handle`; how many there were. Doing it again changes nothing.
pub(super) fn redirect(handle: *mut c_void) -> Result<usize, String> {
    let mut map: *const LinkMap = std::ptr::null();
    // SAFETY: a loaded library's handle; the linker writes one pointer.
    let answer = unsafe { libc::dlinfo(handle, RTLD_DI_LINKMAP, (&raw mut map).cast()) };
    if answer != 0 || map.is_null() {
        return Err("the linker does not say where it is mapped".to_owned());
    }
    // SAFETY: the linker's own record; glibc has made the addresses in the dynamic section absolute.
    let (base, tables) = unsafe { ((*map).base, Tables::of((*map).dynamic)) };
    let mut redirected = 0;
    for (rela, bytes) in [
        (tables.rela, tables.rela_bytes),
        (tables.plt, tables.plt_bytes),
    ] {
        if rela.is_null() {
            continue;
        }
        // SAFETY: the dynamic section gives the table's place and size.
        let relocations = unsafe { std::slice::from_raw_parts(rela, bytes / size_of::<Rela>()) };
        for relocation in relocations {
            if !ADDRESSES.contains(&(relocation.info & 0xffff_ffff)) || relocation.addend != 0 {
                continue;
            }
            // SAFETY: a relocation's symbol is in the symbol table, its name in the string table.
            let name = unsafe {
                let symbol = &*tables.symbols.add((relocation.info >> 32) as usize);
                CStr::from_ptr(tables.strings.add(symbol.name as usize))
            };
            let watched = WATCHED
                .iter()
                .find(|watched| name.to_bytes() == watched.symbol.as_bytes());
            if let Some(watched) = watched {
                let slot = (base + relocation.offset) as *mut usize;
                let forwarder = watched.forwarder as *const () as usize;
                // SAFETY: the linker wrote the function's address there.
                let real = unsafe { slot.read() };
                if real != forwarder && real != 0 {
                    watched.real.store(real, Ordering::Relaxed);
                    make_writable(slot)?;
                    // SAFETY: the slot is an aligned word of the library's, writable now, and nobody calls through it yet.
                    unsafe { slot.write(forwarder) };
                }
                redirected += 1;
            }
        }
    }
    Ok(redirected)
}

struct Tables {
    strings: *const c_char,
    symbols: *const Symbol,
    rela: *const Rela,
    rela_bytes: usize,
    plt: *const Rela,
    plt_bytes: usize,
}

impl Tables {
    /// # Safety
    /// `dynamic` is a loaded library's.
    unsafe fn of(dynamic: *const Dynamic) -> Self {
        let value = |tag: i64| {
            let mut entry = dynamic;
            // SAFETY: the section ends with a null tag.
            unsafe {
                while (*entry).tag != DT_NULL {
                    if (*entry).tag == tag {
                        return (*entry).value;
                    }
                    entry = entry.add(1);
                }
            }
            0
        };
        Self {
            strings: value(DT_STRTAB) as *const c_char,
            symbols: value(DT_SYMTAB) as *const Symbol,
            rela: value(DT_RELA) as *const Rela,
            rela_bytes: value(DT_RELASZ),
            plt: value(DT_JMPREL) as *const Rela,
            plt_bytes: value(DT_PLTRELSZ),
        }
    }
}

/// The linker may have made the page read-only when it had filled it; it stays writable, as in libraries that are linked without that.
fn make_writable(slot: *mut usize) -> Result<(), String> {
    // SAFETY: asks for a constant of this machine.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    let start = (slot as usize) & !(page - 1);
    // SAFETY: a page of the library's data, whose contents stay.
    let answer = unsafe {
        libc::mprotect(
            start as *mut c_void,
            page,
            libc::PROT_READ | libc::PROT_WRITE,
        )
    };
    if answer == 0 {
        Ok(())
    } else {
        Err(format!(
            "its imports cannot be watched: {}",
            std::io::Error::last_os_error()
        ))
    }
}
