//! One libjvm: its tables, its flags and where everything is.

use std::sync::Arc;

use walkfuzz_context::{Address, Arch};

use crate::code_cache::CodeCacheLayout;
use crate::flags::{FlagError, Flags};
use crate::heap::HeapLayout;
use crate::interpreter::{Codelet, InterpreterLayout, codelets, default_code_entry_alignment};
use crate::memory::Memory;
use crate::tables::{MissingEntry, Tables, TablesError};
use crate::threads::ThreadLayout;
use crate::zones::ZoneSizes;

/// Why a JVM cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AttachError {
    /// The exported tables cannot be read.
    #[error(transparent)]
    Tables(#[from] TablesError),
    /// The tables lack something.
    #[error(transparent)]
    Missing(#[from] MissingEntry),
    /// The flags cannot be read: has the JVM been started?
    #[error(transparent)]
    Flags(#[from] FlagError),
}

/// A JVM's version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// The feature release: 11, 17, 21, 25.
    pub feature: u32,
    /// The full string, such as `17.0.9+9`.
    pub release: Box<str>,
}

/// Everything about a JVM that does not change while it runs.
#[derive(Clone, Debug)]
pub struct HotSpot {
    tables: Tables,
    flags: Flags,
    version: Version,
    code_cache: CodeCacheLayout,
    codelets: Arc<[Codelet]>,
    skipped_codelets: u32,
    threads: ThreadLayout,
    heap: HeapLayout,
    zone_sizes: ZoneSizes,
    vtable_stub_table: Option<Address>,
    jni_function_tables: Vec<Address>,
    poll_page_statics: Vec<Address>,
}

impl HotSpot {
    /// Looks everything up, once. `symbol` gives the address of a libjvm symbol: exported ones at least, and those of
    /// `.symtab` by their mangled names for what no table has (virtual tables, vtable stubs, the polling page). Call it when
    /// the JVM has been started: flags and zone sizes are settled then.
    ///
    /// # Errors
    /// [`AttachError`] naming what is missing.
    pub fn attach(
        memory: &dyn Memory,
        symbol: &dyn Fn(&str) -> Option<u64>,
    ) -> Result<Self, AttachError> {
        let tables = Tables::read(memory, symbol)?;
        let flags = Flags::read(memory, &tables)?;
        let version = version(memory, &tables);
        let addresses = |names: &[&str]| {
            names
                .iter()
                .filter_map(|name| symbol(name))
                .map(Address)
                .collect()
        };
        let alignment = code_entry_alignment(memory, &flags);
        let (codelets, skipped_codelets) =
            codelets(&InterpreterLayout::resolve(&tables)?, memory, alignment);
        Ok(Self {
            codelets: codelets.into(),
            skipped_codelets,
            code_cache: CodeCacheLayout::resolve(&tables, symbol)?,
            threads: ThreadLayout::resolve(&tables)?,
            heap: HeapLayout::resolve(&tables)?,
            zone_sizes: ZoneSizes::read(memory, &flags, page_size(), symbol),
            vtable_stub_table: symbol("_ZN11VtableStubs6_tableE").map(Address),
            // The second one serves under -Xcheck:jni.
            jni_function_tables: addresses(&["jni_NativeInterface", "checked_jni_NativeInterface"]),
            poll_page_statics: addresses(&[
                "_ZN18SafepointMechanism13_polling_pageE",
                "_ZN2os13_polling_pageE",
            ]),
            tables,
            flags,
            version,
        })
    }

    /// The exported tables.
    #[must_use]
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// The JVM's flags.
    #[must_use]
    pub fn flags(&self) -> &Flags {
        &self.flags
    }

    /// Which JVM this is.
    #[must_use]
    pub fn version(&self) -> &Version {
        &self.version
    }

    /// Where the code cache's fields are.
    #[must_use]
    pub fn code_cache(&self) -> &CodeCacheLayout {
        &self.code_cache
    }

    /// The interpreter's codelets, sorted by address.
    #[must_use]
    pub fn codelets(&self) -> &Arc<[Codelet]> {
        &self.codelets
    }

    /// How many codelets could not be read.
    #[must_use]
    pub fn skipped_codelets(&self) -> u32 {
        self.skipped_codelets
    }

    /// Where a thread's fields are.
    #[must_use]
    pub fn threads(&self) -> &ThreadLayout {
        &self.threads
    }

    /// Where the heap's and the metadata's fields are.
    #[must_use]
    pub fn heap(&self) -> &HeapLayout {
        &self.heap
    }

    /// How large every stack's zones are.
    #[must_use]
    pub fn zone_sizes(&self) -> ZoneSizes {
        self.zone_sizes
    }

    pub(crate) fn vtable_stub_table(&self) -> Option<Address> {
        self.vtable_stub_table
    }

    pub(crate) fn is_jni_function_table(&self, address: Address) -> bool {
        self.jni_function_tables.contains(&address)
    }

    pub(crate) fn poll_page_statics(&self) -> &[Address] {
        &self.poll_page_statics
    }
}

fn code_entry_alignment(memory: &dyn Memory, flags: &Flags) -> u64 {
    flags
        .number(memory, "CodeEntryAlignment")
        .filter(|alignment| alignment.is_power_of_two())
        .unwrap_or(const { default_code_entry_alignment(Arch::NATIVE) })
}

fn version(memory: &dyn Memory, tables: &Tables) -> Version {
    let release = tables.jdk();
    let digits = release
        .split(|c: char| !c.is_ascii_digit())
        .next()
        .unwrap_or_default();
    let major = tables
        .field("Abstract_VM_Version", "_vm_major_version")
        .and_then(|field| memory.read_i32(field.address).ok())
        .and_then(|major| u32::try_from(major).ok());
    Version {
        feature: digits.parse().ok().or(major).unwrap_or(0),
        release: release.into(),
    }
}

fn page_size() -> u64 {
    // SAFETY: no preconditions.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(size).unwrap_or(4096)
}
