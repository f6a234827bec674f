//! How natural a context is: facts at its pc, its tier, and the class that witnesses are counted by.
//!
//! Runs in the flow, on a held thread: allocates, reads the held thread's stack through checked reads.

use std::collections::HashMap;
use std::ops::Range;

use walkfuzz_context::tier::{Naturalness, PcFacts, Position, Tier, WalkMode, tier};
use walkfuzz_context::witness::{FpClass, NaturalClass, OffsetClass, SpClass};
use walkfuzz_context::{Address, Arch, BlobKind, LandscapeTable, Pc, Registers, ValueClass};
use walkfuzz_guard::{read_checked, read_word};
use walkfuzz_vmstructs::{Blob, CodeMap};

use crate::frame_map::{FrameMap, FrameState};

/// Blobs that are larger are not decoded: HotSpot compiles no method to so much code.
const LARGEST_CODE: u64 = 1 << 22;

/// Classifies contexts of one process. Forget it when the code cache is read anew.
pub struct Classifier {
    maps: HashMap<u64, FrameMap>,
    own_stack: Range<u64>,
    foreign_stacks: Vec<Range<u64>>,
}

/// What is known about a pc: the facts, and the frame's state there.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// For the tier.
    pub facts: PcFacts,
    /// Bytes from sp to the slot of the return address, where known.
    pub depth: Option<i32>,
    /// For the witness.
    pub offset: OffsetClass,
}

impl Classifier {
    /// A classifier for these stacks: the held thread's own, and all others.
    #[must_use]
    pub fn new(own_stack: Range<u64>, foreign_stacks: Vec<Range<u64>>) -> Self {
        Self {
            maps: HashMap::new(),
            own_stack,
            foreign_stacks,
        }
    }

    /// The held thread has changed.
    pub fn set_own_stack(&mut self, own_stack: Range<u64>) {
        self.own_stack = own_stack;
    }

    /// The frame states of `blob`, decoded once.
    pub fn frame_map(&mut self, blob: &Blob) -> &FrameMap {
        self.maps.entry(blob.code.start.0).or_insert_with(|| {
            // The stub section behind an nmethod's instructions has no frame to follow.
            let end = blob
                .nmethod
                .map_or(blob.code.end, |nmethod| nmethod.stub_begin);
            let length = end.0.saturating_sub(blob.code.start.0).min(LARGEST_CODE) as usize;
            let mut code = vec![0; length];
            if read_checked(blob.code.start, &mut code).is_err() {
                code.clear();
            }
            FrameMap::of(
                Arch::NATIVE,
                &code,
                Pc(blob.code.start.0),
                blob.frame_size.saturating_sub(8),
            )
        })
    }

    /// What is known about `pc`.
    pub fn place(&mut self, code: &CodeMap, pc: Pc) -> Place {
        let kind = code.kind(Address(pc.0));
        let unknown = Place {
            facts: PcFacts {
                kind,
                ..PcFacts::UNKNOWN
            },
            depth: None,
            offset: match kind {
                BlobKind::Interpreter => OffsetClass::Codelet,
                BlobKind::Outside | BlobKind::Libjvm | BlobKind::FreeCode => OffsetClass::Unknown,
                _ => OffsetClass::Stub,
            },
        };
        let Some(blob) = code.blob(Address(pc.0)) else {
            return unknown;
        };
        let facts = PcFacts {
            kind,
            blob: Some(blob.span.start.0),
            instruction_boundary: false,
            position: Position::Unknown,
            frame_bytes: blob.frame_size.saturating_sub(8),
            fp_is_frame_pointer: matches!(kind, BlobKind::Interpreter | BlobKind::NativeWrapper),
        };
        let Some(nmethod) = blob.nmethod else {
            // Stubs and codelets: boundaries are known, the frame is not.
            let boundary = self.frame_map(blob).at(pc).is_some();
            return Place {
                facts: PcFacts {
                    instruction_boundary: boundary,
                    ..facts
                },
                ..unknown
            };
        };
        let at = Address(pc.0);
        if at >= nmethod.stub_begin {
            let deopt = nmethod.deopt_handler.is_some_and(|handler| at >= handler);
            let offset = if deopt {
                OffsetClass::DeoptHandler
            } else {
                OffsetClass::ExceptionHandler
            };
            return Place {
                facts,
                depth: None,
                offset,
            };
        }
        match self.frame_map(blob).at(pc).copied() {
            Some(FrameState {
                depth,
                position,
                offset,
                ..
            }) => Place {
                facts: PcFacts {
                    instruction_boundary: true,
                    position,
                    ..facts
                },
                depth,
                offset,
            },
            None => Place {
                facts,
                depth: None,
                offset: OffsetClass::Unknown,
            },
        }
    }

    /// Where the return address of the activation is or will be stored, and the return address, if that is a pc in the code cache.
    pub(crate) fn return_address(
        &self,
        code: &CodeMap,
        registers: &Registers,
        place: &Place,
    ) -> Option<(Address, u64)> {
        let depth = i64::from(place.depth?);
        let slot = Address(registers.sp().0.wrapping_add_signed(depth));
        if !self.own_stack.contains(&slot.0) {
            return None;
        }
        let frameless = matches!(
            place.facts.position,
            Position::Entry | Position::BeforeReturn
        );
        let word = match registers.arch.lr() {
            Some(lr) if frameless => registers.get(lr),
            _ => read_word(slot).ok()?,
        };
        let kind = code.kind(Address(word));
        (!matches!(
            kind,
            BlobKind::Outside | BlobKind::Libjvm | BlobKind::FreeCode
        ))
        .then_some((slot, word))
    }

    /// The class of a context.
    pub fn class(&mut self, code: &CodeMap, registers: &Registers) -> NaturalClass {
        let place = self.place(code, registers.pc());
        let slot = self
            .return_address(code, registers, &place)
            .map(|(slot, _)| slot);
        NaturalClass {
            kind: place.facts.kind,
            offset: place.offset,
            sp: SpClass::of(registers.sp(), slot, place.facts.frame_bytes),
            fp: FpClass::of(
                registers.fp(),
                registers.sp(),
                slot,
                (Address(self.own_stack.start), Address(self.own_stack.end)),
                |address| {
                    self.foreign_stacks
                        .iter()
                        .any(|stack| stack.contains(&address.0))
                },
                |address| code.kind(address) != BlobKind::Outside,
            ),
        }
    }

    /// The tier of `after`, made from `before`.
    pub fn tier(
        &mut self,
        code: &CodeMap,
        landscape: &LandscapeTable,
        before: &Registers,
        after: &Registers,
        mode: WalkMode,
    ) -> Tier {
        let place_before = self.place(code, before.pc());
        let place_after = self.place(code, after.pc());
        let returns = self.return_address(code, before, &place_before);
        let slot = returns.map(|(slot, _)| slot);
        // Compiled code keeps the caller's frame pointer right below the return address.
        let caller_fp = match place_before.facts.position {
            Position::Entry | Position::BeforeReturn => Some(before.fp().0),
            Position::Pushed | Position::Body => {
                slot.and_then(|slot| read_word(Address(slot.0 - 8)).ok())
            }
            Position::Unknown => None,
        };
        let seen = |class, value: u64| landscape.values(class).contains(&value);
        let natural = Naturalness {
            sp_is_own_stack: self.own_stack.contains(&after.sp().0),
            sp_is_aligned: after.sp().0.is_multiple_of(after.arch.sp_alignment()),
            caller_fp,
            return_slot_before: slot.map(|slot| slot.0),
            return_address: returns.map(|(_, address)| address),
            pc_seen: seen(ValueClass::NaturalPc, after.pc().0),
            sp_seen: seen(ValueClass::NaturalSp, after.sp().0),
            fp_seen: seen(ValueClass::NaturalFp, after.fp().0),
            lr_seen: false,
        };
        tier(
            before,
            after,
            &place_before.facts,
            &place_after.facts,
            &natural,
            mode,
        )
    }
}
