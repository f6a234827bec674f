//! The step engine: the trap flag brings a Java thread through its code, and each instruction is a moment.

use walkfuzz_guard::has_trap_flag;

use crate::error::EngineError;
use crate::live::{Counts, Live};
use crate::moment::Moment;
use crate::{Engine, Request};

/// A visit at every instruction of Java code, in bursts that begin at a sample.
pub struct Step {
    live: Live,
    burst: u32,
    left: u32,
}

impl Step {
    /// Steps `burst` instructions after each sample.
    ///
    /// # Errors
    /// Where the architecture cannot step.
    pub fn new(live: Live, burst: u32) -> Result<Self, EngineError> {
        if has_trap_flag() {
            Ok(Self {
                live,
                burst,
                left: 0,
            })
        } else {
            Err(EngineError::CannotStep)
        }
    }
}

impl Engine for Step {
    fn name(&self) -> &'static str {
        "step"
    }

    fn visit(
        &mut self,
        request: &Request,
        visitor: &mut dyn FnMut(&mut Moment),
    ) -> Result<(), EngineError> {
        if self.left == 0 || request.fresh || !self.live.step()? {
            self.live.sample(request.worker, request.kind)?;
            self.left = self.burst;
        } else {
            self.left -= 1;
        }
        visitor(&mut self.live.moment);
        Ok(())
    }

    fn moments(&self) -> u64 {
        self.live.moments()
    }

    fn held(&mut self) -> Option<&mut Moment> {
        self.live.held()
    }

    fn counts(&self) -> Counts {
        self.live.counts()
    }

    fn go_home(&mut self) -> Result<(), EngineError> {
        self.left = 0;
        self.live.go_home()
    }
}
