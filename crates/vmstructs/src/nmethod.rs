//! What is known of compiled Java code beyond its being a blob.

use walkfuzz_context::Address;

use crate::cursor::{Cursor, Slot};
use crate::span::Span;
use crate::tables::{MissingEntry, Tables};

/// An nmethod: compiled Java code, or the wrapper of a native method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nmethod {
    /// The `Method*`; null once the nmethod is unloaded.
    pub method: Address,
    /// Entry with the receiver's class check.
    pub entry: Address,
    /// Entry behind the class check: where the frame's set-up begins.
    pub verified_entry: Address,
    /// Entry for on-stack replacement.
    pub osr_entry: Option<Address>,
    /// The exception handler in the stub section.
    pub exception_handler: Option<Address>,
    /// The deoptimisation handler in the stub section.
    pub deopt_handler: Option<Address>,
    /// The deoptimisation handler for method-handle call sites.
    pub deopt_mh_handler: Option<Address>,
    /// Where the instructions end and the stub section begins.
    pub stub_begin: Address,
    /// The bytecode that an OSR nmethod is entered at; -1 for others.
    pub entry_bci: i32,
    /// The number in `-XX:+PrintCompilation`.
    pub compile_id: i32,
    /// Tier: 0 for native wrappers, 1 to 3 for C1, 4 for C2.
    pub level: i8,
    /// `nmethod::_state`; the values differ between versions.
    pub state: i8,
    /// Whether this is the wrapper of a native method (or a method-handle linker).
    pub is_native_wrapper: bool,
    /// Offset from sp of the slot that holds the original pc of a deoptimised frame; 0 if there is none.
    pub orig_pc_offset: i32,
    /// The array of `PcDesc`.
    pub pc_descs: Span,
    /// The compressed scopes that the `PcDesc`s point into; empty where this JDK does not say where they are.
    pub scopes_data: Span,
    /// The `Metadata*` that scopes name by number, from 1; empty where this JDK does not say where they are.
    pub metadata: Span,
}

impl Nmethod {
    /// Whether this nmethod was compiled for on-stack replacement.
    #[must_use]
    pub fn is_osr(&self) -> bool {
        self.entry_bci != -1
    }
}

/// Where something inside an nmethod is.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// The field holds its address (up to 22).
    Absolute(Slot),
    /// The field holds its offset from the blob's start.
    FromHeader(Slot),
    /// The field holds its offset from the code's start (entries since 23).
    FromCode(Slot),
}

impl Place {
    /// `None` for the values that mean "there is none": 0, -1, and anything outside the blob.
    #[inline(always)] // A few instructions each, and a walk has a dozen.
    fn resolve(self, header: Cursor<'_>, blob: Span, code: Span) -> Option<Address> {
        let address = match self {
            Place::Absolute(slot) => header.pointer(slot),
            Place::FromHeader(slot) => match header.signed(slot) {
                offset if offset > 0 => Address(blob.start.0.checked_add_signed(offset)?),
                _ => return None,
            },
            Place::FromCode(slot) => Address(code.start.0.checked_add(header.unsigned(slot))?),
        };
        // A stub section may be empty and then begins where the blob's code ends.
        (blob.contains(address) || address == blob.end).then_some(address)
    }
}

/// Where the array of PcDesc is.
#[derive(Clone, Copy, Debug)]
enum PcDescs {
    /// Offsets from the blob's start.
    InBlob { begin: Slot, end: Slot },
    /// Offsets from separately allocated immutable data (since 23).
    Outside { data: Slot, begin: Slot, end: Slot },
}

/// Where the compressed scopes are.
#[derive(Clone, Copy, Debug)]
enum ScopesData {
    /// From an address up to the array of PcDesc (up to 22).
    InBlob { begin: Slot },
    /// Offsets from separately allocated immutable data (since 23); they end where that ends.
    Outside { data: Slot, begin: Slot, size: Slot },
}

/// Where the array of `Metadata*` is.
#[derive(Clone, Copy, Debug)]
enum Metadata {
    /// An offset from the blob's start, up to the scopes (up to 22).
    InBlob { begin: Slot },
    /// Behind the relocation entries in separately allocated mutable data (nmethod.hpp, `metadata_begin`, 25).
    Outside {
        data: Slot,
        relocations: Slot,
        size: Slot,
    },
}

/// Where what an nmethod says about its scopes is.
#[derive(Clone, Copy, Debug)]
struct DebugPlaces {
    scopes_data: ScopesData,
    metadata: Metadata,
}

impl DebugPlaces {
    fn resolve(tables: &Tables) -> Result<Self, MissingEntry> {
        let field = |name: &str| Slot::require(tables, "nmethod", name);
        let scopes_data = match Slot::find(tables, "nmethod", "_immutable_data") {
            Some(data) => ScopesData::Outside {
                data,
                begin: field("_scopes_data_offset")?,
                size: field("_immutable_data_size")?,
            },
            None => ScopesData::InBlob {
                begin: Slot::require_any(
                    tables,
                    &[
                        ("nmethod", "_scopes_data_begin"),
                        ("CompiledMethod", "_scopes_data_begin"),
                    ],
                )?,
            },
        };
        let metadata = match Slot::find(tables, "CodeBlob", "_mutable_data") {
            Some(data) => Metadata::Outside {
                data,
                relocations: Slot::require(tables, "CodeBlob", "_relocation_size")?,
                size: Slot::require(tables, "CodeBlob", "_mutable_data_size")?,
            },
            None => Metadata::InBlob {
                begin: field("_metadata_offset")?,
            },
        };
        Ok(Self {
            scopes_data,
            metadata,
        })
    }

    /// Scopes and metadata; both empty if they make no sense.
    #[inline]
    fn decode(&self, header: Cursor<'_>, blob: Span, pc_descs: Span) -> (Span, Span) {
        let scopes_data = match self.scopes_data {
            ScopesData::InBlob { begin } => Span::new(header.pointer(begin), pc_descs.start),
            ScopesData::Outside { data, begin, size } => {
                let data = header.pointer(data).0;
                let at = |slot| Address(data.wrapping_add(header.unsigned(slot)));
                Span::new(at(begin), at(size))
            }
        };
        let metadata = match self.metadata {
            Metadata::InBlob { begin } => Span::new(
                Address(blob.start.0.wrapping_add(header.unsigned(begin))),
                scopes_data.start,
            ),
            Metadata::Outside {
                data,
                relocations,
                size,
            } => {
                let data = header.pointer(data).0;
                let at = |slot| Address(data.wrapping_add(header.unsigned(slot)));
                Span::new(at(relocations), at(size))
            }
        };
        if scopes_data.length() > MAX_DEBUG || metadata.length() > MAX_DEBUG {
            return (Span::default(), Span::default());
        }
        (scopes_data, metadata)
    }

    fn header_length(&self) -> usize {
        let scopes = match self.scopes_data {
            ScopesData::InBlob { begin } => begin.end(),
            ScopesData::Outside { data, begin, size } => {
                data.end().max(begin.end()).max(size.end())
            }
        };
        let metadata = match self.metadata {
            Metadata::InBlob { begin } => begin.end(),
            Metadata::Outside {
                data,
                relocations,
                size,
            } => data.end().max(relocations.end()).max(size.end()),
        };
        scopes.max(metadata)
    }
}

/// More debug information than this is garbage.
const MAX_DEBUG: u64 = 1 << 26;

/// Where this JDK keeps an nmethod's fields.
#[derive(Clone, Debug)]
pub struct NmethodLayout {
    method: Slot,
    entry: Place,
    verified_entry: Place,
    osr_entry: Slot,
    exception_handler: Place,
    deopt_handler: Place,
    deopt_mh_handler: Option<Place>,
    stub_begin: Place,
    entry_bci: Slot,
    compile_id: Slot,
    level: Slot,
    state: Slot,
    orig_pc_offset: Slot,
    pc_descs: PcDescs,
    debug: Option<DebugPlaces>,
}

impl NmethodLayout {
    /// Looks the fields up: `CompiledMethod` was merged into `nmethod` in 23, and absolute addresses became offsets.
    ///
    /// # Errors
    /// [`MissingEntry`] naming the first field that is in no known place.
    pub fn resolve(tables: &Tables) -> Result<Self, MissingEntry> {
        let field = |name: &str| Slot::require(tables, "nmethod", name);
        let moved =
            |name: &str| Slot::require_any(tables, &[("nmethod", name), ("CompiledMethod", name)]);
        let entry = |offset: &str, address: &str| match Slot::find(tables, "nmethod", offset) {
            Some(slot) => Ok(Place::FromCode(slot)),
            None => field(address).map(Place::Absolute),
        };
        let handler = |offset: &str, address: &str| match Slot::find(tables, "nmethod", offset) {
            Some(slot) => Ok(Place::FromHeader(slot)),
            None => moved(address).map(Place::Absolute),
        };
        let pc_descs = match Slot::find(tables, "nmethod", "_immutable_data") {
            Some(data) => PcDescs::Outside {
                data,
                begin: field("_scopes_pcs_offset")?,
                end: field("_scopes_data_offset")?,
            },
            None => PcDescs::InBlob {
                begin: field("_scopes_pcs_offset")?,
                end: field("_dependencies_offset")?,
            },
        };
        Ok(Self {
            method: moved("_method")?,
            entry: entry("_entry_offset", "_entry_point")?,
            verified_entry: entry("_verified_entry_offset", "_verified_entry_point")?,
            osr_entry: field("_osr_entry_point")?,
            exception_handler: Place::FromHeader(field("_exception_offset")?),
            deopt_handler: handler("_deopt_handler_offset", "_deopt_handler_begin")?,
            deopt_mh_handler: handler("_deopt_mh_handler_offset", "_deopt_mh_handler_begin").ok(),
            stub_begin: Place::FromHeader(field("_stub_offset")?),
            entry_bci: field("_entry_bci")?,
            compile_id: field("_compile_id")?,
            level: field("_comp_level")?,
            state: field("_state")?,
            orig_pc_offset: field("_orig_pc_offset")?,
            pc_descs,
            debug: DebugPlaces::resolve(tables).ok(),
        })
    }

    /// What is missing if nothing is known of [`Nmethod::scopes_data`] and [`Nmethod::metadata`].
    ///
    /// # Errors
    /// [`MissingEntry`] naming the first field that is in no known place.
    pub fn require_scopes(tables: &Tables) -> Result<(), MissingEntry> {
        DebugPlaces::resolve(tables).map(|_| ())
    }

    /// Everything inside the blob that starts at `blob.start`; `None` if the fields contradict each other.
    #[inline(always)] // What it returns is large, and would be moved several times.
    pub(crate) fn decode(
        &self,
        header: Cursor<'_>,
        blob: Span,
        code: Span,
        is_native_wrapper: bool,
    ) -> Option<Nmethod> {
        let entry_bci = header.signed(self.entry_bci) as i32;
        let pc_descs = self.pc_descs(header, blob);
        let debug = self.debug.as_ref();
        let (scopes_data, metadata) = debug
            .map(|debug| debug.decode(header, blob, pc_descs))
            .unwrap_or_default();
        let nmethod = Nmethod {
            method: header.pointer(self.method),
            entry: self.entry.resolve(header, blob, code)?,
            verified_entry: self.verified_entry.resolve(header, blob, code)?,
            osr_entry: Some(header.pointer(self.osr_entry))
                .filter(|address| entry_bci != -1 && code.contains(*address)),
            exception_handler: self
                .exception_handler
                .resolve(header, blob, code)
                .filter(|a| code.contains(*a)),
            deopt_handler: self
                .deopt_handler
                .resolve(header, blob, code)
                .filter(|a| code.contains(*a)),
            deopt_mh_handler: self
                .deopt_mh_handler
                .and_then(|place| place.resolve(header, blob, code))
                .filter(|address| code.contains(*address)),
            stub_begin: self.stub_begin.resolve(header, blob, code)?,
            entry_bci,
            compile_id: header.signed(self.compile_id) as i32,
            level: header.signed(self.level) as i8,
            state: header.signed(self.state) as i8,
            is_native_wrapper,
            orig_pc_offset: header.signed(self.orig_pc_offset) as i32,
            pc_descs,
            scopes_data,
            metadata,
        };
        let sane = code.contains(nmethod.entry)
            && code.contains(nmethod.verified_entry)
            && nmethod.entry <= nmethod.verified_entry
            && code.start <= nmethod.stub_begin
            && nmethod.stub_begin <= code.end
            && (-1..=4).contains(&nmethod.level);
        sane.then_some(nmethod)
    }

    #[inline]
    fn pc_descs(&self, header: Cursor<'_>, blob: Span) -> Span {
        let (base, begin, end) = match self.pc_descs {
            PcDescs::InBlob { begin, end } => (blob.start, begin, end),
            PcDescs::Outside { data, begin, end } => (header.pointer(data), begin, end),
        };
        let at = |slot| Address(base.0.wrapping_add_signed(header.signed(slot)));
        let span = Span::new(at(begin), at(end));
        // Native wrappers have none; more than this is garbage.
        if base.0 == 0 || span.length() > 1 << 24 {
            return Span::default();
        }
        span
    }

    /// How many bytes of the header the fields take.
    pub(crate) fn header_length(&self) -> usize {
        let place = |place: Place| match place {
            Place::Absolute(slot) | Place::FromHeader(slot) | Place::FromCode(slot) => slot.end(),
        };
        let descs = match self.pc_descs {
            PcDescs::InBlob { begin, end } => begin.end().max(end.end()),
            PcDescs::Outside { data, begin, end } => data.end().max(begin.end()).max(end.end()),
        };
        [
            self.method.end(),
            place(self.entry),
            place(self.verified_entry),
            self.osr_entry.end(),
            place(self.exception_handler),
            place(self.deopt_handler),
            self.deopt_mh_handler.map_or(0, place),
            place(self.stub_begin),
            self.entry_bci.end(),
            self.compile_id.end(),
            self.level.end(),
            self.state.end(),
            self.orig_pc_offset.end(),
            descs,
            self.debug.as_ref().map_or(0, DebugPlaces::header_length),
        ]
        .into_iter()
        .max()
        .unwrap_or(0)
    }
}
