//! The modules (program, libraries, vdso) that a process has mapped, and which function a pc lies in.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use serde::{Deserialize, Serialize};
use walkfuzz_context::{Address, Pc};

use crate::name::{demangle, short_name};
use crate::table::SymbolTable;
use crate::{Error, Result};

/// One mapped ELF file.
#[derive(Clone, Debug)]
pub struct Module {
    /// The file, or `[vdso]`.
    pub path: PathBuf,
    /// Where its first byte is mapped; what crash logs count offsets from.
    pub base: Address,
    /// Its mappings, by address.
    pub ranges: Vec<Range<u64>>,
    /// Whether the file was deleted or replaced since: what now has its name need not be what is mapped.
    pub deleted: bool,
    table: Arc<OnceLock<Option<SymbolTable>>>,
}

impl Module {
    /// The file's name without folders.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or("?")
    }

    /// Whether an address lies in one of the mappings.
    #[must_use]
    pub fn contains(&self, address: Address) -> bool {
        self.ranges.iter().any(|range| range.contains(&address.0))
    }

    /// The module's symbols, read on first use. `None` if the file cannot be read or is gone.
    #[must_use]
    pub fn table(&self) -> Option<&SymbolTable> {
        self.table
            .get_or_init(|| match self.path.to_str() {
                _ if self.deleted => None,
                Some("[vdso]") => self
                    .vdso()
                    .and_then(|b| SymbolTable::from_bytes(&self.path, b).ok()),
                _ => SymbolTable::load(&self.path).ok(),
            })
            .as_ref()
    }

    /// What to add to an address as linked to get the address in this process.
    #[must_use]
    pub fn bias(&self) -> u64 {
        let linked = self.table().map_or(0, SymbolTable::link_base);
        self.base.0.wrapping_sub(linked)
    }

    /// Where the symbol is in this process, if the module's file still names it.
    #[must_use]
    pub fn address_of(&self, symbol: &str) -> Option<u64> {
        let offset = self.table()?.address_of(symbol)?;
        Some(offset.wrapping_add(self.bias()))
    }

    /// The vdso is in no file, but in every process of this kernel.
    fn vdso(&self) -> Option<Vec<u8>> {
        let range = self.ranges.first()?;
        let mut bytes = vec![0; usize::try_from(range.end - range.start).ok()?];
        let memory = File::open("/proc/self/mem").ok()?;
        memory.read_exact_at(&mut bytes, range.start).ok()?;
        Some(bytes)
    }
}

/// What is known of a pc.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SymbolisedPc {
    /// The address.
    pub pc: u64,
    /// The module's file name, such as `libjvm.so`; `None` outside every module (generated code, no code at all).
    pub module: Option<String>,
    /// The demangled function, with parameters.
    pub function: Option<String>,
    /// The function's short name, as signatures use it.
    pub short: Option<String>,
    /// Distance from the function's begin, in bytes; 0 without a function.
    pub offset: u64,
    /// Distance from the module's base, in bytes; 0 without a module.
    pub module_offset: u64,
    /// The module's GNU build id, where it has one.
    pub build_id: Option<String>,
}

impl SymbolisedPc {
    /// A pc that lies in no module.
    #[must_use]
    pub fn unknown(pc: Pc) -> Self {
        Self {
            pc: pc.0,
            module: None,
            function: None,
            short: None,
            offset: 0,
            module_offset: 0,
            build_id: None,
        }
    }

    /// What a signature calls this place: the function, else the module and the offset in it, else `unknown`.
    #[must_use]
    pub fn site(&self) -> String {
        match (&self.short, &self.module) {
            (Some(function), _) => function.clone(),
            (None, Some(module)) => format!("{module}+{:#x}", self.module_offset),
            (None, None) => "unknown".to_owned(),
        }
    }
}

impl fmt::Display for SymbolisedPc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.function, &self.module) {
            (Some(function), Some(module)) => {
                write!(
                    f,
                    "{function}+{:#x} ({module}+{:#x})",
                    self.offset, self.module_offset
                )
            }
            (Some(function), None) => write!(f, "{function}+{:#x}", self.offset),
            (None, Some(module)) => write!(f, "{module}+{:#x}", self.module_offset),
            (None, None) => write!(f, "{:#x}", self.pc),
        }
    }
}

/// The modules of a process, with their symbols read on demand.
#[derive(Debug, Default)]
pub struct Modules {
    modules: Vec<Module>,
    cache: Mutex<HashMap<u64, SymbolisedPc>>,
}

impl Modules {
    /// The modules that this process has mapped now.
    ///
    /// # Errors
    /// `/proc/self/maps` cannot be read.
    pub fn of_this_process() -> Result<Self> {
        Ok(Self::parse(&read_maps()?))
    }

    /// The modules named by the text of a `/proc/<pid>/maps`. Lines that are none are left out.
    #[must_use]
    pub fn parse(maps: &str) -> Self {
        Self {
            modules: modules_of(maps),
            cache: Mutex::default(),
        }
    }

    /// Looks at this process again, keeping what has been read of the modules that are still there.
    ///
    /// # Errors
    /// `/proc/self/maps` cannot be read; the old state stays.
    pub fn refresh(&mut self) -> Result<()> {
        let mut now = modules_of(&read_maps()?);
        for module in &mut now {
            let same = |old: &&Module| old.path == module.path && old.base == module.base;
            if let Some(old) = self.modules.iter().find(same) {
                module.table = Arc::clone(&old.table);
            }
        }
        self.modules = now;
        self.cache
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
        Ok(())
    }

    /// All modules, by base.
    pub fn iter(&self) -> impl Iterator<Item = &Module> {
        self.modules.iter()
    }

    /// The module whose file has this name, such as `libjvm.so`.
    #[must_use]
    pub fn by_name(&self, name: &str) -> Option<&Module> {
        self.modules.iter().find(|module| module.name() == name)
    }

    /// The module that an address lies in.
    #[must_use]
    pub fn find(&self, address: Address) -> Option<&Module> {
        self.modules.iter().find(|module| module.contains(address))
    }

    /// Everything that is known of `pc`. The answer is remembered.
    #[must_use]
    pub fn symbolise(&self, pc: Pc) -> SymbolisedPc {
        if let Some(known) = self
            .cache
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&pc.0)
        {
            return known.clone();
        }
        let fresh = self.symbolise_uncached(pc);
        self.cache
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(pc.0, fresh.clone());
        fresh
    }

    fn symbolise_uncached(&self, pc: Pc) -> SymbolisedPc {
        let mut result = SymbolisedPc::unknown(pc);
        let Some(module) = self.find(Address(pc.0)) else {
            return result;
        };
        result.module = Some(module.name().to_owned());
        result.module_offset = pc.0.wrapping_sub(module.base.0);
        let Some(table) = module.table() else {
            return result;
        };
        result.build_id = table.build_id().map(str::to_owned);
        let offset = pc.0.wrapping_sub(module.bias());
        if let Some(symbol) = table.lookup(offset) {
            let function = demangle(symbol.mangled);
            result.short = Some(short_name(&function));
            result.function = Some(function);
            result.offset = offset - symbol.offset;
        }
        result
    }
}

fn read_maps() -> Result<String> {
    let path = Path::new("/proc/self/maps");
    let bytes = std::fs::read(path).map_err(|source| Error::Read {
        path: path.to_owned(),
        source,
    })?;
    // A path may hold any bytes; the numbers are what counts.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

struct Mapping<'a> {
    range: Range<u64>,
    executable: bool,
    file_offset: u64,
    path: &'a str,
    deleted: bool,
}

fn mapping(line: &str) -> Option<Mapping<'_>> {
    // 7f1c2a000000-7f1c2a021000 r-xp 00000000 08:01 1234    /usr/lib/x.so
    let mut rest = line;
    let mut field = || {
        rest = rest.trim_start_matches(' ');
        let (head, tail) = rest.split_once(' ').unwrap_or((rest, ""));
        rest = tail;
        head
    };
    let (range, permissions, offset, _device, _inode) =
        (field(), field(), field(), field(), field());
    let (start, end) = range.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    let path = rest.trim_start_matches(' ');
    let (path, deleted) = match path.strip_suffix(" (deleted)") {
        Some(path) => (path, true),
        None => (path, false),
    };
    if !(path.starts_with('/') || path == "[vdso]") {
        return None;
    }
    Some(Mapping {
        range: number(start)?..number(end)?,
        executable: permissions.contains('x'),
        file_offset: number(offset)?,
        path,
        deleted,
    })
}

fn modules_of(maps: &str) -> Vec<Module> {
    let mut modules: Vec<(Module, bool)> = Vec::new();
    for mapping in maps.lines().filter_map(mapping) {
        // The first byte of a file begins a new module: one file may be mapped twice.
        let known = modules
            .iter_mut()
            .rev()
            .find(|(module, _)| module.path.as_os_str() == mapping.path)
            .filter(|_| mapping.file_offset != 0);
        match known {
            Some((module, executable)) => {
                module.ranges.push(mapping.range);
                *executable |= mapping.executable;
            }
            None => modules.push((
                Module {
                    path: PathBuf::from(mapping.path),
                    base: Address(mapping.range.start.wrapping_sub(mapping.file_offset)),
                    ranges: vec![mapping.range],
                    deleted: mapping.deleted,
                    table: Arc::default(),
                },
                mapping.executable,
            )),
        }
    }
    // Without executable pages it is a data file (an archive, a locale).
    modules
        .into_iter()
        .filter(|(_, code)| *code)
        .map(|(m, _)| m)
        .collect()
}
