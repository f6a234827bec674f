//! Register contexts, perturbations, tiers and witness classes of asynchronous stack walks.
//!
//! Contract: no unsafe code, no I/O; everything on the walking path (decode, apply, classify) is free of allocation and
//! locks, so that it may run in a signal handler. Each module says which of its functions that holds for.
//!
//! | module | holds |
//! |---|---|
//! | [`address`], [`registers`], [`arch`], [`blob`] | the words everything else is made of |
//! | [`value`] | value classes, and the landscape that they resolve in |
//! | [`edit`], [`batch`] | perturbations, and the batch that one fuzzer input is |
//! | [`codec`], [`text`] | their byte form and their text form |
//! | [`element`] | queued samples: their words as registers |
//! | [`memory`] | edits of a snapshot's memory |
//! | [`generate`] | making and mutating them |
//! | [`mod@tier`], [`witness`] | how natural a context is, and how often its like was observed |
#![forbid(unsafe_code)]

pub mod address;
pub mod arch;
pub mod batch;
pub mod blob;
pub mod codec;
pub mod edit;
pub mod element;
pub mod generate;
pub mod landscape;
pub mod memory;
pub mod registers;
pub mod round_trip;
pub mod text;
pub mod tier;
pub mod value;
pub mod witness;

pub use address::{Address, Fp, Pc, Sp};
pub use batch::{Batch, DepthLimit, MAX_WALKS};
pub use blob::BlobKind;
pub use edit::{Applied, Edit, MAX_EDITS, Perturbation};
pub use landscape::{Landscape, LandscapeTable};
pub use memory::{MemoryEdit, MemoryEdits};
pub use registers::{Arch, MAX_REGISTERS, Register, Registers};
pub use tier::{Naturalness, PcFacts, Position, Tier, WalkMode, tier};
pub use value::{Value, ValueClass};
pub use witness::{FpClass, Grade, NaturalClass, OffsetClass, SpClass, Witness, WitnessTable};
