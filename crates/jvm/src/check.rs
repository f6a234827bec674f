//! Whether a libjvm can be used by this program, found out without loading it.

use std::fs::File;
use std::path::Path;

use object::read::elf::ElfFile64;
use object::{Architecture, Endianness, FileKind, Object, ObjectSymbol, ReadCache, ReadRef, elf};
use sha2::{Digest, Sha256};
use walkfuzz_context::Arch;

use crate::JvmError;

/// What a libjvm must export: the start of a JVM, the walker, the JVM's own fault handler and the tables that describe HotSpot.
pub const REQUIRED_EXPORTS: [&str; 4] = [
    "JNI_CreateJavaVM",
    "AsyncGetCallTrace",
    "JVM_handle_linux_signal",
    "gHotSpotVMStructs",
];

/// What is known about a usable libjvm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibjvmFacts {
    /// The architecture, which is the one that was wanted.
    pub arch: Arch,
    /// The build id that the linker noted, in hexadecimal. Some builds have none (Temurin's before 25).
    pub build_id: Option<String>,
    /// Which build it is: the build id, else a hash of the exported symbols with their addresses, which change with the code.
    pub identity: String,
    /// Whether there is a full symbol table.
    pub symtab: bool,
}

/// [`inspect_for`] this program's architecture.
///
/// # Errors
/// As [`inspect_for`].
pub fn inspect(path: &Path) -> Result<LibjvmFacts, JvmError> {
    inspect_for(path, Arch::NATIVE)
}

/// Reads the headers, dynamic section and exported symbols of a libjvm that a program for `wanted` shall load.
///
/// # Errors
/// If it cannot be read, is built for another architecture or C library, or lacks one of [`REQUIRED_EXPORTS`].
pub fn inspect_for(path: &Path, wanted: Arch) -> Result<LibjvmFacts, JvmError> {
    let file = File::open(path).map_err(|source| JvmError::Unreadable {
        path: path.to_owned(),
        source,
    })?;
    // Reads only the parts that are asked for: a libjvm with debug information has hundreds of megabytes.
    let cache = ReadCache::new(file);
    match FileKind::parse(&cache).map_err(|e| not_elf(path, e))? {
        FileKind::Elf64 => {}
        FileKind::Elf32 => return Err(wrong_arch(path, "a 32-bit machine".to_owned(), wanted)),
        kind => return Err(not_elf(path, format!("it is of kind {kind:?}"))),
    }
    let elf = ElfFile64::<Endianness, _>::parse(&cache).map_err(|e| not_elf(path, e))?;
    let arch = match elf.architecture() {
        Architecture::X86_64 => Arch::X86_64,
        Architecture::Aarch64 => Arch::Aarch64,
        other => return Err(wrong_arch(path, format!("{other:?}"), wanted)),
    };
    if arch != wanted {
        return Err(wrong_arch(path, arch.name().to_owned(), wanted));
    }
    check_libc(path, &elf)?;
    let mut missing = REQUIRED_EXPORTS.to_vec();
    for symbol in elf.dynamic_symbols().filter(ObjectSymbol::is_definition) {
        if let Ok(name) = symbol.name() {
            missing.retain(|wanted| *wanted != name);
        }
    }
    if !missing.is_empty() {
        return Err(JvmError::MissingExport {
            path: path.to_owned(),
            names: missing.join(", "),
        });
    }
    let build_id = elf.build_id().map_err(|e| not_elf(path, e))?.map(hex);
    Ok(LibjvmFacts {
        arch,
        identity: build_id.clone().unwrap_or_else(|| hash_of_exports(&elf)),
        build_id,
        symtab: elf.symbol_table().is_some(),
    })
}

fn not_elf(path: &Path, reason: impl ToString) -> JvmError {
    JvmError::NotElf {
        path: path.to_owned(),
        reason: reason.to_string(),
    }
}

fn wrong_arch(path: &Path, found: String, wanted: Arch) -> JvmError {
    JvmError::WrongArch {
        path: path.to_owned(),
        found,
        wanted: wanted.name(),
    }
}

/// A libjvm for musl cannot live in a process that runs on glibc, nor the other way round.
fn check_libc<'a, R: ReadRef<'a>>(
    path: &Path,
    elf: &ElfFile64<'a, Endianness, R>,
) -> Result<(), JvmError> {
    let table = elf.elf_dynamic_table().map_err(|e| not_elf(path, e))?;
    let mut musl = false;
    for entry in table.iter().filter(|entry| entry.tag == elf::DT_NEEDED) {
        let name = table.string(entry).map_err(|e| not_elf(path, e))?;
        musl |= name.windows(4).any(|part| part == b"musl");
    }
    if musl == cfg!(target_env = "musl") {
        return Ok(());
    }
    let name = |musl| if musl { "musl" } else { "glibc" };
    Err(JvmError::WrongLibc {
        path: path.to_owned(),
        found: name(musl),
        ours: name(!musl),
    })
}

fn hash_of_exports<'a, R: ReadRef<'a>>(elf: &ElfFile64<'a, Endianness, R>) -> String {
    let mut hash = Sha256::new();
    for symbol in elf.dynamic_symbols() {
        hash.update(symbol.name_bytes().unwrap_or_default());
        hash.update(symbol.address().to_le_bytes());
    }
    hex(&hash.finalize()[..20])
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
