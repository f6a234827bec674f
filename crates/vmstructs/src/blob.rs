//! One `CodeBlob`: a piece of generated code with its header.

use std::collections::HashMap;
use std::sync::Arc;

use walkfuzz_context::{Address, BlobKind};

use crate::cursor::{Cursor, Slot};
use crate::memory::{Memory, text};
use crate::nmethod::{Nmethod, NmethodLayout};
use crate::span::Span;
use crate::tables::{MissingEntry, Tables};

/// `CodeOffsets::frame_never_safe`: the value of [`Blob::frame_complete`] for code that is not asked.
pub const FRAME_NEVER_SAFE: i32 = -1;

/// Frames beyond this (in words) are garbage: HotSpot's own limit for methods is far lower.
const MAX_FRAME_WORDS: i64 = 1 << 20;

/// A blob of generated code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    /// From the `CodeBlob*` to the end of its data.
    pub span: Span,
    /// Its instructions, stub section included.
    pub code: Span,
    /// `CodeBlob::_name`.
    pub name: Arc<str>,
    /// What kind of code.
    pub kind: BlobKind,
    /// Size in bytes of the frame that the code runs in; 0 where that means nothing.
    pub frame_size: u32,
    /// Offset from the code's start at which the frame is set up; [`FRAME_NEVER_SAFE`] where it never is.
    pub frame_complete: i32,
    /// More, if this is compiled Java code or a native wrapper.
    pub nmethod: Option<Nmethod>,
}

/// A blob as it is now, read without allocating: see [`crate::LiveCode`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveBlob {
    /// From the `CodeBlob*` to the end of its data.
    pub span: Span,
    /// Its instructions, stub section included.
    pub code: Span,
    /// What kind of code.
    pub kind: BlobKind,
    /// Whether native code comes back to Java through it (since 17).
    pub is_upcall_stub: bool,
    /// As [`Blob::frame_size`].
    pub frame_size: u32,
    /// As [`Blob::frame_complete`].
    pub frame_complete: i32,
    /// More, if this is compiled Java code or a native wrapper.
    pub nmethod: Option<Nmethod>,
}

/// The C++ class of a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Nmethod,
    Buffer,
    Adapter,
    Vtable,
    RuntimeStub,
    UpcallStub,
}

/// How this JDK tells the classes apart.
#[derive(Clone, Debug)]
enum Classes {
    /// `CodeBlob::_kind` (since 23).
    Kind {
        slot: Slot,
        values: Vec<(u64, Class)>,
    },
    /// The pointer to the C++ virtual table at offset 0.
    VirtualTable { tables: Vec<(u64, Class)> },
    /// Neither (a stripped libjvm): by name, and runtime stubs by their having a frame.
    Name,
}

/// Class, its name in `CodeBlobKind::`, its virtual table's symbol.
const CLASSES: [(Class, &str, &str); 12] = [
    (Class::Nmethod, "Nmethod", "_ZTV7nmethod"),
    (Class::Buffer, "Buffer", "_ZTV10BufferBlob"),
    (Class::Adapter, "Adapter", "_ZTV11AdapterBlob"),
    (Class::Vtable, "Vtable", "_ZTV10VtableBlob"),
    (Class::Buffer, "MHAdapter", "_ZTV24MethodHandlesAdapterBlob"),
    (Class::RuntimeStub, "RuntimeStub", "_ZTV11RuntimeStub"),
    (
        Class::RuntimeStub,
        "Deoptimization",
        "_ZTV18DeoptimizationBlob",
    ),
    (Class::RuntimeStub, "Safepoint", "_ZTV13SafepointBlob"),
    (Class::RuntimeStub, "Exception", "_ZTV13ExceptionBlob"),
    (Class::RuntimeStub, "UncommonTrap", "_ZTV16UncommonTrapBlob"),
    // Called OptimizedEntryBlob in 17.
    (Class::UpcallStub, "Upcall", "_ZTV10UpcallStub"),
    (Class::UpcallStub, "Upcall", "_ZTV18OptimizedEntryBlob"),
];

/// How the names of runtime stubs end that have no frame of their own: some of C1's, and collectors' barriers.
const FRAMELESS_STUBS: [&str; 3] = [" Runtime1 stub", "_slow", "_runtime_stub"];

/// Offset from a virtual table's symbol to what objects point to (Itanium C++ ABI: offset to top and type info come first).
const VIRTUAL_TABLE_HEAD: u64 = 16;

/// Where this JDK keeps a blob's fields.
#[derive(Clone, Debug)]
pub struct BlobLayout {
    name: Slot,
    size: Slot,
    frame_size: Slot,
    frame_complete: Slot,
    code: CodePlace,
    classes: Classes,
    nmethod: NmethodLayout,
    header_size: u64,
    header_length: usize,
}

#[derive(Clone, Copy, Debug)]
enum CodePlace {
    /// `_code_begin`, `_code_end` (up to 22).
    Addresses { begin: Slot, end: Slot },
    /// `_code_offset`, `_data_offset` from the blob's start.
    Offsets { begin: Slot, end: Slot },
}

/// Names that were read already: most blobs share few.
pub(crate) type Names = HashMap<Address, Arc<str>>;

impl BlobLayout {
    /// Looks the fields up.
    ///
    /// # Errors
    /// [`MissingEntry`] naming the first field that is in no known place.
    pub fn resolve(
        tables: &Tables,
        symbol: &dyn Fn(&str) -> Option<u64>,
    ) -> Result<Self, MissingEntry> {
        let field = |name: &str| Slot::require(tables, "CodeBlob", name);
        let code = match (field("_code_begin"), field("_code_end")) {
            (Ok(begin), Ok(end)) => CodePlace::Addresses { begin, end },
            _ => CodePlace::Offsets {
                begin: field("_code_offset")?,
                end: field("_data_offset")?,
            },
        };
        let (CodePlace::Addresses { begin, end } | CodePlace::Offsets { begin, end }) = code;
        let mut layout = Self {
            name: field("_name")?,
            size: field("_size")?,
            frame_size: field("_frame_size")?,
            frame_complete: field("_frame_complete_offset")?,
            code,
            classes: Classes::resolve(tables, symbol),
            nmethod: NmethodLayout::resolve(tables)?,
            header_size: tables.require_size("CodeBlob")?,
            header_length: 0,
        };
        layout.header_length = [
            layout.name,
            layout.size,
            layout.frame_size,
            layout.frame_complete,
            begin,
            end,
        ]
        .into_iter()
        .map(Slot::end)
        .max()
        .unwrap_or(0)
        .max(layout.classes.header_length())
        .max(layout.nmethod.header_length());
        Ok(layout)
    }

    /// How many bytes of a header [`BlobLayout::decode`] wants.
    pub(crate) fn header_length(&self) -> usize {
        self.header_length
    }

    /// The blob at `at`, of which `header` holds the first bytes and which may take `limit` bytes; `None` if it makes no
    /// sense.
    pub(crate) fn decode(
        &self,
        memory: &dyn Memory,
        names: &mut Names,
        at: Address,
        header: &[u8],
        limit: u64,
    ) -> Option<Blob> {
        let cursor = Cursor(header);
        let name = name_of(memory, names, cursor.pointer(self.name))?;
        let known = self.decode_known(at, cursor, limit, &name)?;
        Some(Blob {
            span: known.span,
            code: known.code,
            kind: known.kind,
            frame_size: known.frame_size,
            frame_complete: known.frame_complete,
            nmethod: known.nmethod,
            name,
        })
    }

    /// As [`decode`](Self::decode) without owning anything: for handlers. Of a long name only the beginning is looked at.
    #[inline(always)] // As `NmethodLayout::decode`.
    pub(crate) fn decode_known(
        &self,
        at: Address,
        header: Cursor<'_>,
        limit: u64,
        name: &str,
    ) -> Option<LiveBlob> {
        let size = header.unsigned(self.size);
        if size < self.header_size || size > limit {
            return None;
        }
        let span = Span::sized(at, size);
        let code = match self.code {
            CodePlace::Addresses { begin, end } => {
                Span::new(header.pointer(begin), header.pointer(end))
            }
            CodePlace::Offsets { begin, end } => {
                let place = |slot| Address(at.0.wrapping_add(header.unsigned(slot)));
                Span::new(place(begin), place(end))
            }
        };
        let frame_words = header.signed(self.frame_size);
        if !span.covers(&code) || !(-1..MAX_FRAME_WORDS).contains(&frame_words) {
            return None;
        }
        let frame_complete = header.signed(self.frame_complete) as i32;
        let class = self.classes.class(header, name, frame_words > 0)?;
        let nmethod = match class {
            Class::Nmethod => {
                Some(
                    self.nmethod
                        .decode(header, span, code, name == "native nmethod")?,
                )
            }
            _ => None,
        };
        Some(LiveBlob {
            span,
            code,
            kind: kind_of(class, name),
            is_upcall_stub: class == Class::UpcallStub,
            frame_size: u32::try_from(frame_words.max(0) * 8).unwrap_or(0),
            frame_complete,
            nmethod,
        })
    }

    /// Where a header has the address of its blob's name.
    pub(crate) fn name_at(&self, header: Cursor<'_>) -> Address {
        header.pointer(self.name)
    }
}

impl Classes {
    fn resolve(tables: &Tables, symbol: &dyn Fn(&str) -> Option<u64>) -> Self {
        if let Some(slot) = Slot::find(tables, "CodeBlob", "_kind") {
            let values = CLASSES
                .iter()
                .filter_map(|(class, kind, _)| {
                    let value = tables.constant(&format!("CodeBlobKind::{kind}"))?;
                    Some((u64::try_from(value).ok()?, *class))
                })
                .collect();
            return Self::Kind { slot, values };
        }
        let tables: Vec<(u64, Class)> = CLASSES
            .iter()
            .filter_map(|(class, _, table)| {
                Some((symbol(table)?.wrapping_add(VIRTUAL_TABLE_HEAD), *class))
            })
            .collect();
        let known = |wanted: Class| tables.iter().any(|(_, class)| *class == wanted);
        if known(Class::Nmethod) && known(Class::Buffer) && known(Class::RuntimeStub) {
            Self::VirtualTable { tables }
        } else {
            Self::Name
        }
    }

    fn class(&self, header: Cursor<'_>, name: &str, has_frame: bool) -> Option<Class> {
        let among = |known: &[(u64, Class)], value: u64| {
            known
                .iter()
                .find(|(known, _)| *known == value)
                .map(|(_, class)| *class)
        };
        match self {
            Self::Kind { slot, values } => among(values, header.unsigned(*slot)),
            Self::VirtualTable { tables } => among(tables, header.unsigned(Slot::new(0, 8))),
            Self::Name => Some(match name {
                "nmethod" | "native nmethod" => Class::Nmethod,
                "I2C/C2I adapters" => Class::Adapter,
                "vtable chunks" => Class::Vtable,
                _ if has_frame || FRAMELESS_STUBS.iter().any(|suffix| name.ends_with(suffix)) => {
                    Class::RuntimeStub
                }
                _ => Class::Buffer,
            }),
        }
    }

    fn header_length(&self) -> usize {
        match self {
            Self::Kind { slot, .. } => slot.end(),
            Self::VirtualTable { .. } | Self::Name => 8,
        }
    }
}

fn kind_of(class: Class, name: &str) -> BlobKind {
    match class {
        Class::Nmethod if name == "native nmethod" => BlobKind::NativeWrapper,
        Class::Nmethod => BlobKind::Nmethod,
        Class::Adapter => BlobKind::Adapter,
        Class::Vtable => BlobKind::VtableStub,
        Class::RuntimeStub | Class::UpcallStub => BlobKind::RuntimeStub,
        Class::Buffer if name == "Interpreter" => BlobKind::Interpreter,
        Class::Buffer if name.starts_with("StubRoutines") => BlobKind::StubRoutine,
        Class::Buffer => BlobKind::Buffer,
    }
}

fn name_of(memory: &dyn Memory, names: &mut Names, at: Address) -> Option<Arc<str>> {
    if let Some(name) = names.get(&at) {
        return Some(Arc::clone(name));
    }
    let name: Arc<str> = text(memory, at, 128).ok()?.into();
    names.insert(at, Arc::clone(&name));
    Some(name)
}
