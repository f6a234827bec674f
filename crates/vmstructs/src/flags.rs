//! The JVM's `-XX` flags by name, with their present values.

use std::collections::HashMap;

use walkfuzz_context::Address;

use crate::cursor::{Cursor, Slot};
use crate::memory::{Memory, Unreadable, text};
use crate::tables::{MissingEntry, Tables};

/// More flags than any JVM has.
const MAX_FLAGS: u64 = 20_000;
const MAX_STRING: usize = 512;

/// `JVMFlag::_type` since 17 (flags/jvmFlag.hpp, `JVM_FLAG_NON_STRING_TYPES_DO` then the strings); before, the type was a
/// string.
const TYPE_NAMES: [&str; 10] = [
    "bool",
    "int",
    "uint",
    "intx",
    "uintx",
    "uint64_t",
    "size_t",
    "double",
    "ccstr",
    "ccstrlist",
];

/// What a flag holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlagKind {
    /// `bool`.
    Bool,
    /// A signed number of that many bytes.
    Signed(u8),
    /// An unsigned number of that many bytes.
    Unsigned(u8),
    /// `double`.
    Double,
    /// A C string or null.
    Text,
}

/// A flag's value.
#[derive(Clone, Debug, PartialEq)]
pub enum FlagValue {
    /// `bool`.
    Bool(bool),
    /// `int`, `intx`.
    Signed(i64),
    /// `uint`, `uintx`, `uint64_t`, `size_t`.
    Unsigned(u64),
    /// `double`.
    Double(f64),
    /// `ccstr`; `None` if not set.
    Text(Option<String>),
}

/// Why the flags could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlagError {
    /// The tables do not say where the flags are.
    #[error("cannot find the JVM's flags")]
    Missing(#[from] MissingEntry),
    /// The flag table cannot be read.
    #[error("cannot read the JVM's flags")]
    Unreadable(#[from] Unreadable),
    /// The flag table's length makes no sense.
    #[error("the JVM claims to have {0} flags")]
    Count(u64),
}

/// Where each flag is. Values are read when asked for.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    flags: HashMap<String, (Address, FlagKind)>,
}

impl Flags {
    /// Reads the flag table (`JVMFlag::flags`, before 11 `Flag::flags`).
    ///
    /// # Errors
    /// [`FlagError`] if it cannot be found or read.
    pub fn read(memory: &dyn Memory, tables: &Tables) -> Result<Self, FlagError> {
        let class = if tables.field("JVMFlag", "flags").is_some() {
            "JVMFlag"
        } else {
            "Flag"
        };
        let start = memory.read_pointer(tables.require(class, "flags")?.address)?;
        let count = memory.read_u64(tables.require(class, "numFlags")?.address)?;
        if count == 0 || count > MAX_FLAGS {
            return Err(FlagError::Count(count));
        }
        let stride = tables.require_size(class)? as usize;
        let name = Slot::require(tables, class, "_name")?;
        let address = Slot::require(tables, class, "_addr")?;
        let kind_field = tables.require(class, "_type")?;
        let kind_slot = Slot::of(tables, kind_field);
        let kind_is_text = kind_field.type_name.contains('*');

        let mut bytes = vec![0; stride * count as usize];
        memory.read(start, &mut bytes)?;
        let mut flags = HashMap::with_capacity(count as usize);
        for entry in bytes.chunks_exact(stride).map(Cursor) {
            let kind = if kind_is_text {
                text(memory, entry.pointer(kind_slot), 32)
                    .ok()
                    .and_then(|name| kind_of(&name))
            } else {
                TYPE_NAMES
                    .get(entry.unsigned(kind_slot) as usize)
                    .and_then(|name| kind_of(name))
            };
            // The last entry is a terminator without a name.
            if let (Some(kind), Ok(name)) = (kind, text(memory, entry.pointer(name), 128)) {
                flags.insert(name, (entry.pointer(address), kind));
            }
        }
        Ok(Self { flags })
    }

    /// How many flags are known.
    #[must_use]
    pub fn count(&self) -> usize {
        self.flags.len()
    }

    /// What the flag holds; `None` if this JVM has no such flag.
    #[must_use]
    pub fn kind(&self, name: &str) -> Option<FlagKind> {
        self.flags.get(name).map(|(_, kind)| *kind)
    }

    /// The flag's present value; `None` if this JVM has no such flag.
    #[must_use]
    pub fn value(&self, memory: &dyn Memory, name: &str) -> Option<FlagValue> {
        let (at, kind) = *self.flags.get(name)?;
        let mut bytes = [0; 8];
        let width = match kind {
            FlagKind::Bool => 1,
            FlagKind::Signed(width) | FlagKind::Unsigned(width) => usize::from(width),
            FlagKind::Double | FlagKind::Text => 8,
        };
        memory.read(at, bytes.get_mut(..width)?).ok()?;
        let slot = Slot::new(0, width);
        let cursor = Cursor(&bytes);
        Some(match kind {
            FlagKind::Bool => FlagValue::Bool(bytes[0] != 0),
            FlagKind::Signed(_) => FlagValue::Signed(cursor.signed(slot)),
            FlagKind::Unsigned(_) => FlagValue::Unsigned(cursor.unsigned(slot)),
            FlagKind::Double => FlagValue::Double(f64::from_le_bytes(bytes)),
            FlagKind::Text => match cursor.pointer(slot) {
                Address(0) => FlagValue::Text(None),
                pointer => FlagValue::Text(Some(text(memory, pointer, MAX_STRING).ok()?)),
            },
        })
    }

    /// Whether a boolean flag is on; false if there is no such flag.
    #[must_use]
    pub fn is_on(&self, memory: &dyn Memory, name: &str) -> bool {
        self.value(memory, name) == Some(FlagValue::Bool(true))
    }

    /// A numeric flag's value, if it is not negative.
    #[must_use]
    pub fn number(&self, memory: &dyn Memory, name: &str) -> Option<u64> {
        match self.value(memory, name)? {
            FlagValue::Signed(value) => u64::try_from(value).ok(),
            FlagValue::Unsigned(value) => Some(value),
            FlagValue::Bool(_) | FlagValue::Double(_) | FlagValue::Text(_) => None,
        }
    }
}

fn kind_of(name: &str) -> Option<FlagKind> {
    Some(match name {
        "bool" => FlagKind::Bool,
        "int" => FlagKind::Signed(4),
        "uint" => FlagKind::Unsigned(4),
        "intx" => FlagKind::Signed(8),
        "uintx" | "uint64_t" | "size_t" => FlagKind::Unsigned(8),
        "double" => FlagKind::Double,
        "ccstr" | "ccstrlist" => FlagKind::Text,
        _ => return None,
    })
}
