//! The walk itself: from frame to frame.

use walkfuzz_context::{Address, BlobKind, Fp, Pc, Registers, Sp};
use walkfuzz_vmstructs::{CodeAt, LiveBlob, Memory, Nmethod, Span};

use crate::arch::strip;
use crate::debug_info::Wanted;
use crate::frame::{End, FrameKind, Frames, NATIVE_BCI, ReferenceFrame, Trust, Walk};
use crate::reference::Reference;
use crate::thread::{Anchor, Thread};

/// Methods that are inlined into one frame; compilers stop far earlier (MaxInlineLevel is 15, of lambda forms more).
const INLINED: usize = 256;

/// A frame that is to be looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Position {
    pub(crate) pc: u64,
    /// What the register would hold.
    pub(crate) sp: u64,
    /// What the frame itself takes for its stack pointer: an interpreted callee may have moved sp down.
    pub(crate) own_sp: u64,
    pub(crate) fp: u64,
    pub(crate) trust: Trust,
    pub(crate) at: At,
    pub(crate) is_deoptimised: bool,
}

/// What is known of a position's pc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// Any instruction; lr beside it, where the architecture has one.
    Instruction { lr: Option<u64> },
    /// Behind a call.
    Return,
}

/// One walk.
pub(crate) struct Walker<'a, M: Memory + ?Sized, F: Frames + ?Sized> {
    pub(crate) reference: &'a Reference,
    pub(crate) memory: &'a M,
    pub(crate) thread: &'a Thread,
    pub(crate) frames: &'a mut F,
}

impl Reference {
    /// Walks `thread` from `registers` (from its frame anchor, if it has one that is complete or is not in Java) and writes its frames, the innermost first.
    pub fn walk<M: Memory + ?Sized>(
        &self,
        memory: &M,
        thread: &Thread,
        registers: &Registers,
        frames: &mut [ReferenceFrame],
    ) -> Walk {
        let mut written = Written { frames, count: 0 };
        let end = self.walk_into(memory, thread, registers, &mut written);
        Walk {
            frames: written.count,
            end,
        }
    }

    /// [`walk`](Self::walk) into anything that takes frames. Returns why there are no more.
    pub fn walk_into<M: Memory + ?Sized, F: Frames + ?Sized>(
        &self,
        memory: &M,
        thread: &Thread,
        registers: &Registers,
        frames: &mut F,
    ) -> End {
        let mut walker = Walker {
            reference: self,
            memory,
            thread,
            frames,
        };
        match walker.run(registers) {
            Ok(never) => match never {},
            Err(end) => end,
        }
    }
}

/// Walks go on until there is a reason to end.
enum Never {}

/// Frames in a slice.
struct Written<'a> {
    frames: &'a mut [ReferenceFrame],
    count: usize,
}

impl Frames for Written<'_> {
    fn push(&mut self, frame: &ReferenceFrame) -> bool {
        let Some(slot) = self.frames.get_mut(self.count) else {
            return false;
        };
        *slot = *frame;
        self.count += 1;
        true
    }
}

impl<M: Memory + ?Sized, F: Frames + ?Sized> Walker<'_, M, F> {
    fn run(&mut self, registers: &Registers) -> Result<Never, End> {
        let mut position = self.start(registers)?;
        for _ in 0..=self.limit() {
            position = self.step(&position)?;
        }
        Err(End::TooMany)
    }

    /// How many positions there can be: a frame takes a word at least.
    #[inline]
    pub(crate) fn limit(&self) -> u64 {
        self.thread.stack.length() / 8
    }

    /// Writes the frames of one position, and goes to its caller's if that can be true.
    #[inline]
    pub(crate) fn step(&mut self, position: &Position) -> Result<Position, End> {
        let next = self.visit(position)?;
        self.checked(position, next)
    }

    /// That the next frame lies above, and on the stack.
    fn checked(&self, position: &Position, next: Position) -> Result<Position, End> {
        if !self.is_on_stack(next.sp) || !next.sp.is_multiple_of(8) {
            return Err(End::OutsideStack(Sp(next.sp)));
        }
        // Only what has been called and has done nothing yet shares its caller's sp, where a register has the return address.
        let may_share = matches!(position.at, At::Instruction { lr: Some(_) });
        if next.sp < position.sp || next.sp == position.sp && !may_share {
            return Err(End::NotAscending(Sp(next.sp)));
        }
        Ok(next)
    }

    /// The end counts: the oldest frame's caller may stand there.
    #[inline]
    pub(crate) fn is_on_stack(&self, address: u64) -> bool {
        let stack = &self.thread.stack;
        stack.start.0 <= address && address <= stack.end.0
    }

    #[inline]
    pub(crate) fn word(&self, at: u64) -> Result<u64, End> {
        let at = Address(at);
        self.memory.read_u64(at).map_err(|_| End::Unreadable(at))
    }

    /// The word at an offset.
    #[inline]
    pub(crate) fn slot(&self, base: u64, offset: i64) -> Result<u64, End> {
        self.word(base.wrapping_add_signed(offset))
    }

    /// A code address on the stack.
    #[inline]
    pub(crate) fn code_at(&self, at: u64) -> Result<u64, End> {
        Ok(strip(self.reference.arch, self.word(at)?))
    }

    #[inline]
    fn push(&mut self, frame: ReferenceFrame) -> Result<(), End> {
        if self.frames.push(&frame) {
            Ok(())
        } else {
            Err(End::Full)
        }
    }

    /// A frame of the position without a method.
    fn frame(position: &Position, kind: FrameKind) -> ReferenceFrame {
        ReferenceFrame {
            kind,
            trust: position.trust,
            pc: Pc(position.pc),
            is_deoptimised: position.is_deoptimised,
            sp: Sp(position.own_sp),
            fp: Fp(position.fp),
            ..ReferenceFrame::NONE
        }
    }

    /// Writes the frames of one position, and goes to its caller's.
    fn visit(&mut self, position: &Position) -> Result<Position, End> {
        let pc = Address(position.pc);
        if self.reference.interpreter.contains(pc) {
            return self.interpreted(position);
        }
        if pc == self.reference.call_stub_return {
            return self.entry(position);
        }
        let found = self.reference.code.find(self.memory, pc);
        // By reference: it is large.
        let blob = match &found {
            CodeAt::Blob(blob) => blob,
            CodeAt::Free | CodeAt::Outside => return Err(End::NoCode(Pc(position.pc))),
            CodeAt::Unreadable => return Err(End::Unreadable(pc)),
        };
        if !blob.code.contains(pc) {
            return Err(End::NoCode(Pc(position.pc)));
        }
        match (&blob.nmethod, blob.kind) {
            (Some(nmethod), _) => {
                let position = self.original(position, blob, nmethod)?;
                self.compiled(&position, blob, nmethod)
            }
            (None, _) if blob.is_upcall_stub => {
                self.push(Self::frame(position, FrameKind::Stub))?;
                Err(End::Upcall(Pc(position.pc)))
            }
            _ => self.stub(position, blob),
        }
    }

    fn interpreted(&mut self, position: &Position) -> Result<Position, End> {
        let shape = self.reference.shape;
        let fp = position.fp;
        let lowest = fp.wrapping_add_signed(shape.initial_sp);
        let is_frame =
            fp.is_multiple_of(8) && self.is_on_stack(fp) && position.sp <= lowest && lowest < fp;
        if !is_frame {
            return self.unframed(position, End::OutsideStack(Sp(fp)));
        }
        let method = Address(self.slot(fp, shape.method)?);
        let methods = &self.reference.methods;
        let Some(known) = methods.read(self.memory, method) else {
            return self.unframed(position, End::BadMethod(method));
        };
        let mut frame = ReferenceFrame {
            method,
            bci: NATIVE_BCI,
            ..Self::frame(position, FrameKind::Interpreted)
        };
        if !known.is_native {
            // A frame that is just being made stands at its method's begin.
            (frame.bci, frame.trust) = (0, Trust::Guess);
            for &slot in shape.bcp {
                let bcp = self.slot(fp, slot)?;
                if let Some(bci) = methods.bci(self.memory, &known, bcp) {
                    (frame.bci, frame.trust) = (bci, position.trust);
                    break;
                }
            }
        }
        self.push(frame)?;
        self.caller(
            position,
            frame.trust,
            self.code_at(fp.wrapping_add_signed(shape.return_address))?,
            fp.wrapping_add_signed(shape.sender_sp),
            self.slot(fp, -8)?,
            self.slot(fp, shape.link)?,
        )
    }

    fn entry(&mut self, position: &Position) -> Result<Position, End> {
        self.push(Self::frame(position, FrameKind::Entry))?;
        let wrapper = self.slot(position.fp, self.reference.call_wrapper)?;
        if !self.is_on_stack(wrapper) || wrapper <= position.fp {
            return Err(End::OutsideStack(Sp(wrapper)));
        }
        let at = Address(wrapper.wrapping_add(self.reference.wrapper_anchor));
        let threads = &self.reference.threads;
        let anchor = threads.anchor(self.memory, at);
        let anchor = anchor.map_err(|unreadable| End::Unreadable(unreadable.address))?;
        if anchor.sp.0 == 0 {
            return Err(End::Bottom);
        }
        self.anchored(&anchor)
    }

    /// The frame that an anchor names.
    pub(crate) fn anchored(&self, anchor: &Anchor) -> Result<Position, End> {
        if !self.is_on_stack(anchor.sp.0) || !anchor.sp.0.is_multiple_of(8) {
            return Err(End::OutsideStack(anchor.sp));
        }
        let pc = match anchor.pc {
            // A call from sp leaves it there.
            Pc(0) => self.code_at(anchor.sp.0.wrapping_sub(8))?,
            Pc(pc) => strip(self.reference.arch, pc),
        };
        Ok(Position {
            pc,
            sp: anchor.sp.0,
            own_sp: anchor.sp.0,
            fp: anchor.fp.0,
            trust: Trust::Anchor,
            at: At::Return,
            is_deoptimised: false,
        })
    }

    fn compiled(
        &mut self,
        position: &Position,
        blob: &LiveBlob,
        nmethod: &Nmethod,
    ) -> Result<Position, End> {
        let methods = &self.reference.methods;
        let method = nmethod.method;
        let Some(known) = methods.read(self.memory, method) else {
            return Err(End::BadMethod(method));
        };
        let outermost = ReferenceFrame {
            method,
            level: nmethod.level,
            ..Self::frame(position, FrameKind::Compiled)
        };
        if known.is_native {
            self.push(ReferenceFrame {
                bci: NATIVE_BCI,
                kind: FrameKind::NativeWrapper,
                ..outermost
            })?;
        } else {
            self.scopes(position, &blob.code, nmethod, outermost)?;
        }
        if let At::Instruction { lr } = position.at
            && let Some(edge) = self.edge(position.pc, blob, nmethod)
        {
            return self.beyond_edge(position, &edge, lr, Trust::Table);
        }
        self.by_frame_size(position, blob)
    }

    /// Writes a compiled frame's methods, the innermost first.
    fn scopes(
        &mut self,
        position: &Position,
        code: &Span,
        nmethod: &Nmethod,
        outermost: ReferenceFrame,
    ) -> Result<(), End> {
        let debug = &self.reference.debug;
        let wanted = match position.at {
            At::Return => Wanted::Exact,
            At::Instruction { .. } => Wanted::Behind,
        };
        let pc = Pc(position.pc);
        let mut number = debug.scope_at(self.memory, code, nmethod, pc, wanted);
        if number.is_none() && wanted == Wanted::Behind {
            number = debug.scope_at(self.memory, code, nmethod, pc, Wanted::Exact);
        }
        if number.is_none() {
            // The method at least.
            return self.push(outermost);
        }
        for _ in 0..INLINED {
            let Some(scope) = number.and_then(|number| debug.scope(self.memory, nmethod, number))
            else {
                return self.push(ReferenceFrame {
                    trust: Trust::Guess,
                    ..outermost
                });
            };
            let inlined = scope.sender != 0;
            self.push(ReferenceFrame {
                method: scope.method,
                bci: scope.bci,
                kind: if inlined {
                    FrameKind::Inlined
                } else {
                    FrameKind::Compiled
                },
                ..outermost
            })?;
            if !inlined {
                return Ok(());
            }
            number = Some(scope.sender);
        }
        Err(End::TooMany)
    }

    /// The caller of a complete frame of known size.
    pub(crate) fn by_frame_size(
        &self,
        position: &Position,
        blob: &LiveBlob,
    ) -> Result<Position, End> {
        let size = u64::from(blob.frame_size);
        if size < 16 {
            return Err(End::NoFrame(Pc(position.pc)));
        }
        let sender_sp = position.own_sp.wrapping_add(size);
        if !self.is_on_stack(sender_sp) {
            return Err(End::OutsideStack(Sp(sender_sp)));
        }
        self.caller(
            position,
            position.trust,
            self.code_at(sender_sp.wrapping_sub(8))?,
            sender_sp,
            sender_sp,
            self.word(sender_sp.wrapping_sub(16))?,
        )
    }

    fn stub(&mut self, position: &Position, blob: &LiveBlob) -> Result<Position, End> {
        self.push(Self::frame(position, FrameKind::Stub))?;
        let complete = blob
            .code
            .start
            .0
            .saturating_add_signed(i64::from(blob.frame_complete));
        let has_frame = blob.frame_size >= 16
            && (position.at == At::Return || blob.frame_complete < 0 || position.pc >= complete);
        if blob.kind == BlobKind::RuntimeStub && has_frame {
            return self.by_frame_size(position, blob);
        }
        self.unframed(position, End::NoFrame(Pc(position.pc)))
    }

    /// The caller: past the return barrier.
    pub(crate) fn caller(
        &self,
        position: &Position,
        trust: Trust,
        pc: u64,
        sp: u64,
        own_sp: u64,
        fp: u64,
    ) -> Result<Position, End> {
        // What was found by an anchor is by a table from here on.
        let trust = trust.max(Trust::Table);
        let caller = Position {
            pc,
            sp,
            own_sp,
            fp,
            trust,
            at: At::Return,
            is_deoptimised: false,
        };
        let reference = self.reference;
        if let Some(continuations) = &reference.continuations
            && continuations.is_barrier(pc)
        {
            let threads = &reference.threads;
            let thread = self.thread.address;
            let entry = continuations.enter_special(self.memory, threads, thread, sp);
            let entry = entry.ok_or(End::NoFrame(Pc(pc)))?;
            return Ok(Position {
                pc: entry.pc.0,
                sp: entry.sp.0,
                own_sp: entry.sp.0,
                fp: entry.fp.0,
                trust: if entry.is_known { trust } else { Trust::Guess },
                ..caller
            });
        }
        self.checked(position, caller)
    }

    /// A deoptimised frame returns to a handler; where it would have returned to stands in one of its slots.
    fn original(
        &self,
        position: &Position,
        blob: &LiveBlob,
        nmethod: &Nmethod,
    ) -> Result<Position, End> {
        let pc = Some(Address(position.pc));
        let deoptimised = nmethod.deopt_handler == pc || nmethod.deopt_mh_handler == pc;
        if position.at != At::Return || !deoptimised {
            return Ok(*position);
        }
        let original = self.slot(position.own_sp, i64::from(nmethod.orig_pc_offset))?;
        let original = strip(self.reference.arch, original);
        if !blob.code.contains(Address(original)) {
            return Err(End::NoCode(Pc(original)));
        }
        Ok(Position {
            pc: original,
            is_deoptimised: true,
            ..*position
        })
    }
}
