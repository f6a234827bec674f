//! A walk that can be put down and taken up again.

use walkfuzz_context::{Registers, Sp};
use walkfuzz_vmstructs::Memory;

use crate::frame::{End, Frames};
use crate::reference::Reference;
use crate::thread::Thread;
use crate::walk::{Position, Walker};

/// Where a walk stands: [`Reference::begin`] makes it, [`Reference::step`] moves it on. It refers to nothing; the thread must stand still while it is of use.
#[derive(Clone, Copy, Debug)]
pub struct Steps {
    at: Result<Position, End>,
    left: u64,
}

impl Steps {
    /// The stack pointer of the frames that come next; `None` if there are none.
    #[inline]
    #[must_use]
    pub fn upcoming_sp(&self) -> Option<Sp> {
        self.at.ok().map(|position| Sp(position.own_sp))
    }
}

/// Takes no frames.
struct Nothing;

impl Frames for Nothing {
    fn push(&mut self, _: &crate::ReferenceFrame) -> bool {
        false
    }
}

impl Reference {
    /// The begin of the walk that [`walk`](Self::walk) makes.
    #[must_use]
    pub fn begin<M: Memory + ?Sized>(
        &self,
        memory: &M,
        thread: &Thread,
        registers: &Registers,
    ) -> Steps {
        let walker = Walker {
            reference: self,
            memory,
            thread,
            frames: &mut Nothing,
        };
        Steps {
            at: walker.start(registers),
            left: walker.limit(),
        }
    }

    /// Gives the frames of one position, which are several where methods were inlined, and goes on to the next. Had `frames` no room for all of them, the next step
    /// gives the same position again.
    ///
    /// # Errors
    /// Why there are no more positions, perhaps after some frames; [`End::Full`] if `frames` had no room.
    pub fn step<M: Memory + ?Sized, F: Frames + ?Sized>(
        &self,
        memory: &M,
        thread: &Thread,
        steps: &mut Steps,
        frames: &mut F,
    ) -> Result<(), End> {
        // Where it is: a copy of it would cost as much as a read of the stack.
        let position = steps.at.as_ref().map_err(|end| *end)?;
        let mut walker = Walker {
            reference: self,
            memory,
            thread,
            frames,
        };
        let next = match walker.step(position) {
            Err(End::Full) => return Err(End::Full),
            next => next,
        };
        let Some(left) = steps.left.checked_sub(1) else {
            steps.at = Err(End::TooMany);
            return Err(End::TooMany);
        };
        (steps.at, steps.left) = (next, left);
        next.map(|_| ())
    }
}
