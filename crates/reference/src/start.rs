//! Where a walk begins, and callers of code that has no frame, or not quite: what registers say.

use walkfuzz_context::{Address, BlobKind, Fp, Pc, Registers, Sp};
use walkfuzz_vmstructs::{CodeAt, LiveBlob, Memory, Nmethod};

use crate::arch::{Edge, LOOKED_AT, called, epilogue, prologue, strip};
use crate::frame::{End, Frames, Trust};
use crate::native::NativeFrame;
use crate::walk::{At, Position, Walker};

/// Native frames that are gone through from a leaf that Java called.
const NATIVE_FRAMES: usize = 1024;

impl<M: Memory + ?Sized, F: Frames + ?Sized> Walker<'_, M, F> {
    /// The frame that the walk begins with.
    pub(crate) fn start(&self, registers: &Registers) -> Result<Position, End> {
        let anchor = &self.thread.anchor;
        if anchor.sp.0 != 0 && (anchor.pc.0 != 0 || !self.thread.in_java) {
            return self.anchored(anchor);
        }
        if !self.thread.in_java {
            return Err(End::NoJavaFrames);
        }
        let sp = registers.sp().0;
        if !self.is_on_stack(sp) || !sp.is_multiple_of(8) {
            return Err(End::OutsideStack(Sp(sp)));
        }
        let lr = registers.arch.lr().map(|lr| registers.get(lr));
        let position = Position {
            pc: registers.pc().0,
            sp,
            own_sp: sp,
            fp: registers.fp().0,
            trust: Trust::Table,
            at: At::Instruction { lr },
            is_deoptimised: false,
        };
        if self.reference.code.reserves(Address(position.pc)) {
            return Ok(position);
        }
        self.called_native(position)
    }

    /// Java called C++ without leaving a trace: through frame pointers up to generated code.
    fn called_native(&self, mut position: Position) -> Result<Position, End> {
        for _ in 0..NATIVE_FRAMES {
            let stack = &self.thread.stack;
            let native = NativeFrame {
                pc: Pc(position.pc),
                sp: Sp(position.sp),
                fp: Fp(position.fp),
            };
            let caller = native.caller(self.reference, self.memory, stack)?;
            position = Position {
                pc: caller.pc.0,
                sp: caller.sp.0,
                own_sp: caller.sp.0,
                fp: caller.fp.0,
                trust: Trust::Guess,
                at: At::Return,
                is_deoptimised: false,
            };
            if self.reference.code.reserves(Address(position.pc)) {
                return Ok(position);
            }
        }
        Err(End::TooMany)
    }

    /// How the frame stands if `pc` is where it is set up or taken down.
    pub(crate) fn edge(&self, pc: u64, blob: &LiveBlob, nmethod: &Nmethod) -> Option<Edge> {
        let reference = self.reference;
        let (arch, size) = (reference.arch, u64::from(blob.frame_size));
        let mut code = [0; LOOKED_AT];
        // The class check in front of the frame's set-up needs none.
        if (nmethod.entry.0..nmethod.verified_entry.0).contains(&pc) {
            return Some(called(arch));
        }
        let entries = [Some(nmethod.verified_entry), nmethod.osr_entry];
        for entry in entries.into_iter().flatten() {
            let done = pc.checked_sub(entry.0).and_then(|length| {
                let code = code.get_mut(..usize::try_from(length).ok()?)?;
                self.memory.read(entry, code).ok()?;
                Some(code)
            });
            let edge = done.and_then(|done| prologue(arch, done, size));
            if edge.is_some() {
                return edge;
            }
        }
        let left = usize::try_from(blob.code.end.0.checked_sub(pc)?).ok()?;
        let next = code.get_mut(..left.min(LOOKED_AT))?;
        self.memory.read(Address(pc), next).ok()?;
        epilogue(arch, next, size)
    }

    /// The caller of a frame that is being set up or taken down.
    pub(crate) fn beyond_edge(
        &self,
        position: &Position,
        edge: &Edge,
        lr: Option<u64>,
        trust: Trust,
    ) -> Result<Position, End> {
        let pc = match edge.return_address {
            Some(offset) => self.code_at(position.sp.wrapping_add(offset))?,
            None => strip(
                self.reference.arch,
                lr.ok_or(End::NoFrame(Pc(position.pc)))?,
            ),
        };
        let fp = match edge.link {
            Some(offset) => self.word(position.sp.wrapping_add(offset))?,
            None => position.fp,
        };
        let sp = position.sp.wrapping_add(edge.sender_sp);
        self.caller(position, trust.max(position.trust), pc, sp, sp, fp)
    }

    /// The caller of code that has no frame of its own, or none that is understood; `otherwise` if there is no telling.
    pub(crate) fn unframed(&self, position: &Position, otherwise: End) -> Result<Position, End> {
        let At::Instruction { lr } = position.at else {
            return Err(otherwise);
        };
        let reference = self.reference;
        // Vtable stubs keep to registers. Of others this is a guess: many push nothing.
        let edge = called(reference.arch);
        let trust = match self.kind(position.pc) {
            Some(BlobKind::VtableStub) => Trust::Table,
            _ => Trust::Guess,
        };
        if let Ok(caller) = self.beyond_edge(position, &edge, lr, trust)
            && self.is_callers(caller.pc)
        {
            return Ok(caller);
        }
        // Most of the stubs that do set up a frame let fp point to it.
        let (shape, fp) = (reference.shape, position.fp);
        if fp.is_multiple_of(8) && self.is_on_stack(fp) && fp >= position.sp {
            let pc = self.code_at(fp.wrapping_add_signed(shape.return_address))?;
            if self.is_callers(pc) {
                let sp = fp.wrapping_add_signed(shape.sender_sp);
                let link = self.slot(fp, shape.link)?;
                return self.caller(position, Trust::Guess, pc, sp, sp, link);
            }
        }
        Err(otherwise)
    }

    fn kind(&self, pc: u64) -> Option<BlobKind> {
        match self.reference.code.find(self.memory, Address(pc)) {
            CodeAt::Blob(blob) => Some(blob.kind),
            CodeAt::Free | CodeAt::Outside | CodeAt::Unreadable => None,
        }
    }

    /// Whether `pc` is in code that calls: Java, or the call stub.
    fn is_callers(&self, pc: u64) -> bool {
        let at = Address(pc);
        self.reference.interpreter.contains(at)
            || at == self.reference.call_stub_return
            || matches!(
                self.kind(pc),
                Some(BlobKind::Nmethod | BlobKind::NativeWrapper)
            )
    }
}
