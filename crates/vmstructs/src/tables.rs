//! The tables that libjvm exports for its serviceability agent: fields, types and constants by name.
//!
//! `gHotSpotVMStructs` and its siblings are arrays whose layout is itself exported (`...EntryArrayStride`,
//! `...Entry*Offset`), see vmStructs.hpp. They are static data: readable as soon as libjvm is loaded.

use std::collections::HashMap;

use walkfuzz_context::Address;

use crate::memory::{Memory, Unreadable, text};

/// More entries than any JDK has (about 3,000); a table that does not end before is garbage.
const MAX_ENTRIES: usize = 100_000;
const MAX_NAME: usize = 256;
/// Fields within fields, and bases, that are followed.
const NESTING: u32 = 8;

/// Where a field is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Offset inside the object; 0 for static fields.
    pub offset: u64,
    /// Whether this is a static field.
    pub is_static: bool,
    /// Where a static field is; null for others.
    pub address: Address,
    /// The field's C++ type, as HotSpot spells it; empty where the table names none.
    pub type_name: Box<str>,
}

/// An entry that this JDK's tables lack.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("JDK {jdk} exports no VMStructs entry {type_name}::{field}")]
pub struct MissingEntry {
    /// The C++ type.
    pub type_name: Box<str>,
    /// The field (or constant) in it.
    pub field: Box<str>,
    /// The JDK's own version string.
    pub jdk: Box<str>,
}

/// Why the tables could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TablesError {
    /// libjvm lacks an exported symbol.
    #[error("libjvm has no symbol {0}")]
    NoSymbol(&'static str),
    /// A table or a name in it cannot be read.
    #[error("cannot read the VMStructs tables")]
    Unreadable(#[from] Unreadable),
    /// A table does not end.
    #[error("the table {0} does not end within {MAX_ENTRIES} entries")]
    Endless(&'static str),
}

/// Fields, types and constants of one libjvm.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    jdk: Box<str>,
    fields: HashMap<String, HashMap<String, Field>>,
    types: HashMap<String, u64>,
    supers: HashMap<String, String>,
    constants: HashMap<String, i64>,
}

/// One of the arrays: names of its exported symbols.
struct Array<'a> {
    memory: &'a dyn Memory,
    symbol: &'a dyn Fn(&str) -> Option<u64>,
}

impl Array<'_> {
    /// The value of an exported 64-bit variable.
    fn variable(&self, name: &'static str) -> Result<u64, TablesError> {
        let address = (self.symbol)(name).ok_or(TablesError::NoSymbol(name))?;
        Ok(self.memory.read_u64(Address(address))?)
    }

    fn text_at(&self, at: u64) -> Result<Option<String>, TablesError> {
        let pointer = self.memory.read_pointer(Address(at))?;
        if pointer.0 == 0 {
            return Ok(None);
        }
        Ok(Some(text(self.memory, pointer, MAX_NAME)?))
    }

    /// Calls `entry` with each element's address and name, until the element without a name.
    fn each(
        &self,
        array: &'static str,
        stride: &'static str,
        name_offset: &'static str,
        mut entry: impl FnMut(u64, String) -> Result<(), TablesError>,
    ) -> Result<(), TablesError> {
        let start = self.variable(array)?;
        let stride = self.variable(stride)?;
        let name_offset = self.variable(name_offset)?;
        for index in 0..MAX_ENTRIES as u64 {
            let at = start.wrapping_add(index.wrapping_mul(stride));
            match self.text_at(at.wrapping_add(name_offset))? {
                Some(name) => entry(at, name)?,
                None => return Ok(()),
            }
        }
        Err(TablesError::Endless(array))
    }
}

/// A type without its qualifiers.
fn plain(type_name: &str) -> &str {
    let mut plain = type_name.trim();
    for qualifier in ["const ", "volatile "] {
        plain = plain.strip_prefix(qualifier).unwrap_or(plain);
    }
    plain.trim()
}

impl Tables {
    /// Reads the four tables of the libjvm whose symbols `symbol` finds.
    ///
    /// # Errors
    /// [`TablesError`] if a symbol is missing or a table cannot be read.
    pub fn read(
        memory: &dyn Memory,
        symbol: &dyn Fn(&str) -> Option<u64>,
    ) -> Result<Self, TablesError> {
        let array = Array { memory, symbol };
        let mut tables = Self::default();
        tables.read_fields(&array)?;
        tables.read_types(&array)?;
        tables.read_int_constants(&array)?;
        tables.read_long_constants(&array)?;
        tables.jdk = tables.release(memory).unwrap_or_else(|| "unknown".into());
        Ok(tables)
    }

    fn read_fields(&mut self, array: &Array<'_>) -> Result<(), TablesError> {
        let field_name = array.variable("gHotSpotVMStructEntryFieldNameOffset")?;
        let type_string = array.variable("gHotSpotVMStructEntryTypeStringOffset")?;
        let is_static = array.variable("gHotSpotVMStructEntryIsStaticOffset")?;
        let offset = array.variable("gHotSpotVMStructEntryOffsetOffset")?;
        let address = array.variable("gHotSpotVMStructEntryAddressOffset")?;
        array.each(
            "gHotSpotVMStructs",
            "gHotSpotVMStructEntryArrayStride",
            "gHotSpotVMStructEntryTypeNameOffset",
            |at, type_name| {
                let name = array
                    .text_at(at.wrapping_add(field_name))?
                    .unwrap_or_default();
                let is_static = array.memory.read_i32(Address(at.wrapping_add(is_static)))? != 0;
                let field = Field {
                    offset: array.memory.read_u64(Address(at.wrapping_add(offset)))?,
                    is_static,
                    address: array
                        .memory
                        .read_pointer(Address(at.wrapping_add(address)))?,
                    type_name: array
                        .text_at(at.wrapping_add(type_string))?
                        .unwrap_or_default()
                        .into(),
                };
                self.fields
                    .entry(type_name)
                    .or_default()
                    .insert(name, field);
                Ok(())
            },
        )
    }

    fn read_types(&mut self, array: &Array<'_>) -> Result<(), TablesError> {
        let size = array.variable("gHotSpotVMTypeEntrySizeOffset")?;
        let superclass = array.variable("gHotSpotVMTypeEntrySuperclassNameOffset")?;
        array.each(
            "gHotSpotVMTypes",
            "gHotSpotVMTypeEntryArrayStride",
            "gHotSpotVMTypeEntryTypeNameOffset",
            |at, name| {
                let size = array.memory.read_u64(Address(at.wrapping_add(size)))?;
                if let Some(base) = array.text_at(at.wrapping_add(superclass))? {
                    self.supers.insert(name.clone(), base);
                }
                self.types.insert(name, size);
                Ok(())
            },
        )
    }

    fn read_int_constants(&mut self, array: &Array<'_>) -> Result<(), TablesError> {
        let value = array.variable("gHotSpotVMIntConstantEntryValueOffset")?;
        array.each(
            "gHotSpotVMIntConstants",
            "gHotSpotVMIntConstantEntryArrayStride",
            "gHotSpotVMIntConstantEntryNameOffset",
            |at, name| {
                let value = array.memory.read_i32(Address(at.wrapping_add(value)))?;
                self.constants.insert(name, i64::from(value));
                Ok(())
            },
        )
    }

    fn read_long_constants(&mut self, array: &Array<'_>) -> Result<(), TablesError> {
        let value = array.variable("gHotSpotVMLongConstantEntryValueOffset")?;
        array.each(
            "gHotSpotVMLongConstants",
            "gHotSpotVMLongConstantEntryArrayStride",
            "gHotSpotVMLongConstantEntryNameOffset",
            |at, name| {
                let value = array.memory.read_u64(Address(at.wrapping_add(value)))?;
                self.constants.insert(name, value.cast_signed());
                Ok(())
            },
        )
    }

    fn release(&self, memory: &dyn Memory) -> Option<Box<str>> {
        let field = self.field("Abstract_VM_Version", "_s_vm_release")?;
        let pointer = memory.read_pointer(field.address).ok()?;
        text(memory, pointer, MAX_NAME).ok().map(Into::into)
    }

    /// The JDK's own version string, such as `17.0.9+9`.
    #[must_use]
    pub fn jdk(&self) -> &str {
        &self.jdk
    }

    /// A field, if this JDK exports it.
    #[must_use]
    pub fn field(&self, type_name: &str, name: &str) -> Option<&Field> {
        self.fields.get(type_name)?.get(name)
    }

    /// A field that there must be.
    ///
    /// # Errors
    /// [`MissingEntry`] naming the field and the JDK.
    pub fn require(&self, type_name: &str, name: &str) -> Result<&Field, MissingEntry> {
        self.field(type_name, name)
            .ok_or_else(|| self.missing(type_name, name))
    }

    /// The first of several fields that this JDK exports: names that differ between versions.
    ///
    /// # Errors
    /// [`MissingEntry`] naming the last one and the JDK, if there is none of them.
    pub fn require_any(&self, candidates: &[(&str, &str)]) -> Result<&Field, MissingEntry> {
        candidates
            .iter()
            .find_map(|(type_name, name)| self.field(type_name, name))
            .ok_or_else(|| match candidates.last() {
                Some((type_name, name)) => self.missing(type_name, name),
                None => self.missing("", ""),
            })
    }

    /// The offset of a field of threads, which some releases have in `JavaThread` and others in `Thread`.
    ///
    /// # Errors
    /// [`MissingEntry`] naming it and the JDK.
    pub fn require_of_thread(&self, name: &str) -> Result<u64, MissingEntry> {
        let field = self.require_any(&[("JavaThread", name), ("Thread", name)])?;
        Ok(field.offset)
    }

    /// The number of a thread's state.
    ///
    /// # Errors
    /// [`MissingEntry`] naming it and the JDK.
    pub fn require_thread_state(&self, name: &str) -> Result<i32, MissingEntry> {
        let number = self.constant(name).and_then(|n| i32::try_from(n).ok());
        number.ok_or_else(|| self.missing("JavaThreadState", name))
    }

    /// The fields that lie in the word at `offset` of an object of this type, in the order of their offsets: each with its type and, for those
    /// inside other fields, the way there (`_anchor._last_Java_sp`).
    #[must_use]
    pub fn fields_of_word(&self, type_name: &str, offset: u64) -> Vec<(String, &str)> {
        let mut found = Vec::new();
        self.collect_fields(type_name, offset.cast_signed(), "", NESTING, &mut found);
        found.sort();
        found.dedup();
        found
            .into_iter()
            .map(|(_, name, type_name)| (name, type_name))
            .collect()
    }

    /// `offset` is negative where an inner object begins behind the word's begin.
    fn collect_fields<'a>(
        &'a self,
        type_name: &str,
        offset: i64,
        path: &str,
        nesting: u32,
        found: &mut Vec<(u64, String, &'a str)>,
    ) {
        const WORD: i64 = 8;
        let Some(nesting) = nesting.checked_sub(1) else {
            return;
        };
        for (name, field) in self.fields.get(type_name).into_iter().flatten() {
            let (at, kind) = (field.offset.cast_signed(), plain(&field.type_name));
            let size = if kind.ends_with('*') {
                WORD
            } else {
                // Of a type that the table does not have, only the first byte is certain.
                self.type_size(kind).map_or(1, u64::cast_signed).max(1)
            };
            if field.is_static || at >= offset + WORD || at + size <= offset {
                continue;
            }
            let path = format!("{path}{name}");
            if self.fields.contains_key(kind) {
                self.collect_fields(kind, offset - at, &format!("{path}."), nesting, found);
            } else {
                found.push((field.offset, path, &field.type_name));
            }
        }
        if let Some(base) = self.supers.get(type_name) {
            self.collect_fields(base, offset, path, nesting, found);
        }
    }

    /// The static field at `address`: its name, `CodeCache::_heaps`, and its type.
    #[must_use]
    pub fn static_at(&self, address: Address) -> Option<(String, &str)> {
        self.fields.iter().find_map(|(type_name, fields)| {
            let mut fields = fields.iter();
            let (name, field) =
                fields.find(|(_, field)| field.is_static && field.address == address)?;
            Some((format!("{type_name}::{name}"), &*field.type_name))
        })
    }

    /// The size of a type in bytes.
    #[must_use]
    pub fn type_size(&self, name: &str) -> Option<u64> {
        self.types.get(name).copied()
    }

    /// The size of a type that there must be.
    ///
    /// # Errors
    /// [`MissingEntry`] naming the type (field `sizeof`) and the JDK.
    pub fn require_size(&self, name: &str) -> Result<u64, MissingEntry> {
        self.type_size(name)
            .ok_or_else(|| self.missing(name, "sizeof"))
    }

    /// A constant (of either table).
    #[must_use]
    pub fn constant(&self, name: &str) -> Option<i64> {
        self.constants.get(name).copied()
    }

    /// Every constant whose name begins with `prefix`, by name.
    #[must_use]
    pub fn constants_with_prefix(&self, prefix: &str) -> Vec<(&str, i64)> {
        let mut found: Vec<(&str, i64)> = self
            .constants
            .iter()
            .filter(|(name, _)| name.starts_with(prefix))
            .map(|(name, value)| (name.as_str(), *value))
            .collect();
        found.sort_unstable();
        found
    }

    /// How many fields, types and constants there are.
    #[must_use]
    pub fn counts(&self) -> (usize, usize, usize) {
        let fields = self.fields.values().map(HashMap::len).sum();
        (fields, self.types.len(), self.constants.len())
    }

    fn missing(&self, type_name: &str, field: &str) -> MissingEntry {
        MissingEntry {
            type_name: type_name.into(),
            field: field.into(),
            jdk: self.jdk.clone(),
        }
    }
}
