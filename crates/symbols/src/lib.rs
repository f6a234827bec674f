//! Symbols, demangling and disassembly of the code that a walk runs in or walks over.
//!
//! Contract: nothing here is signal-safe (it allocates, reads files and caches behind locks): call it before a campaign
//! starts or after a walk has ended, never from a handler. It reads files and `/proc`; it does not look into memory by
//! itself, callers pass bytes or a reader.
//!
//! Two kinds of numbers are kept apart by type: *offsets* are addresses as linked, plain `u64`; run-time addresses are
//! [`Address`](walkfuzz_context::Address) and [`Pc`](walkfuzz_context::Pc).
#![forbid(unsafe_code)]

pub mod arch;
pub mod blocks;
pub mod disassemble;
pub mod error;
pub mod instruction;
pub mod modules;
pub mod name;
pub mod safefetch;
pub mod table;
pub mod unwind;

pub use blocks::block_starts;
pub use disassemble::{Line, around, instruction_at};
pub use error::Error;
pub use instruction::{Instruction, InstructionKind, InstructionMap};
pub use modules::{Module, Modules, SymbolisedPc};
pub use name::{demangle, short_name};
pub use safefetch::{SafeFetchSite, safefetch_sites};
pub use table::{Symbol, SymbolTable};
pub use unwind::{FRAME_LIMIT, unwind, unwind_tables};

/// What this crate's functions return.
pub type Result<T, E = Error> = std::result::Result<T, E>;
