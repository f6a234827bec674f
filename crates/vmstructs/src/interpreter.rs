//! The interpreter's codelets: one for each bytecode, method entry and so on.

use std::sync::Arc;

use walkfuzz_context::{Address, Arch};

use crate::cursor::{Cursor, Slot};
use crate::memory::{Memory, text};
use crate::span::Span;
use crate::tables::{MissingEntry, Tables};

/// The interpreter has about 280 codelets.
const MAX_CODELETS: u32 = 10_000;

/// One `InterpreterCodelet`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Codelet {
    /// Header and code.
    pub span: Span,
    /// Its code.
    pub code: Span,
    /// What it is, such as `method entry point (kind = zerolocals)` or a bytecode's name.
    pub description: Arc<str>,
    /// The bytecode it executes; -1 if none.
    pub bytecode: i32,
}

/// Where this JDK keeps the interpreter's fields.
#[derive(Clone, Debug)]
pub(crate) struct InterpreterLayout {
    code: Address,
    buffer: Slot,
    limit: Slot,
    begin: Slot,
    end: Slot,
    count: Slot,
    queue_size: usize,
    codelet_size: u64,
    size: Slot,
    description: Slot,
    bytecode: Slot,
}

impl InterpreterLayout {
    /// Looks the fields up.
    ///
    /// # Errors
    /// [`MissingEntry`] naming the first field that this JDK lacks.
    pub(crate) fn resolve(tables: &Tables) -> Result<Self, MissingEntry> {
        let queue = |name: &str| Slot::require(tables, "StubQueue", name);
        let codelet = |name: &str| Slot::require(tables, "InterpreterCodelet", name);
        Ok(Self {
            code: tables.require("AbstractInterpreter", "_code")?.address,
            buffer: queue("_stub_buffer")?,
            limit: queue("_buffer_limit")?,
            begin: queue("_queue_begin")?,
            end: queue("_queue_end")?,
            count: queue("_number_of_stubs")?,
            queue_size: tables.require_size("StubQueue")? as usize,
            codelet_size: tables.require_size("InterpreterCodelet")?,
            size: codelet("_size")?,
            description: codelet("_description")?,
            // Bytecodes::Code is an enum without an entry of its own: an int.
            bytecode: Slot::new(
                tables.require("InterpreterCodelet", "_bytecode")?.offset as usize,
                4,
            ),
        })
    }
}

/// The codelets, sorted by address, and how many could not be read. They never change once the JVM has started.
///
/// `alignment` is `CodeEntryAlignment`: interpreter.hpp has a codelet's code begin at the next multiple of it behind the
/// header.
pub(crate) fn codelets(
    layout: &InterpreterLayout,
    memory: &dyn Memory,
    alignment: u64,
) -> (Vec<Codelet>, u32) {
    let mut queue = vec![0; layout.queue_size];
    let readable = memory
        .read_pointer(layout.code)
        .and_then(|code| memory.read(code, &mut queue));
    if readable.is_err() {
        return (Vec::new(), 1);
    }
    let queue = Cursor(&queue);
    let buffer = queue.pointer(layout.buffer);
    let limit = queue.unsigned(layout.limit);
    let end = queue.unsigned(layout.end);
    let count = (queue.unsigned(layout.count) as u32).min(MAX_CODELETS);
    let mut codelets = Vec::with_capacity(count as usize);
    let mut offset = queue.unsigned(layout.begin);
    let mut bytes = vec![0; layout.codelet_size as usize];
    for done in 0..count {
        let start = Address(buffer.0.wrapping_add(offset));
        let size = match memory.read(start, &mut bytes) {
            Ok(()) => Cursor(&bytes).unsigned(layout.size),
            Err(_) => 0,
        };
        let next = offset.wrapping_add(size);
        if size < layout.codelet_size || next > limit || (offset < end && next > end) {
            return (codelets, count - done);
        }
        let span = Span::sized(start, size);
        let header_end = start.0.wrapping_add(layout.codelet_size);
        let code = Address(header_end.next_multiple_of(alignment));
        let description =
            text(memory, Cursor(&bytes).pointer(layout.description), 128).unwrap_or_default();
        codelets.push(Codelet {
            span,
            code: Span::new(code, span.end),
            description: description.into(),
            bytecode: Cursor(&bytes).signed(layout.bytecode) as i32,
        });
        offset = next;
    }
    codelets.sort_by_key(|codelet| codelet.span);
    (codelets, 0)
}

/// `CodeEntryAlignment` where the JVM has no such flag in product builds (11): `globals_<arch>.hpp`.
pub(crate) const fn default_code_entry_alignment(arch: Arch) -> u64 {
    match arch {
        Arch::X86_64 => 32,
        Arch::Aarch64 => 64,
    }
}
