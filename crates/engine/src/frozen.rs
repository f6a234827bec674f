//! The frozen engine: each visit happens in a copy of the process.

use std::time::Duration;

use crate::error::EngineError;
use crate::freeze::{FrozenEnd, freeze};
use crate::live::{Counts, Live};
use crate::moment::Moment;
use crate::{Engine, Request};

/// The frozen engine: each visit happens in a forked copy, where nothing else moves.
///
/// What the visitor writes is lost unless it writes to [`Shared`](crate::Shared) memory.
pub struct Frozen {
    live: Live,
    limit: Duration,
}

impl Frozen {
    /// Each copy may live for `limit`.
    #[must_use]
    pub fn new(live: Live, limit: Duration) -> Self {
        Self { live, limit }
    }
}

impl Engine for Frozen {
    fn name(&self) -> &'static str {
        "frozen"
    }

    fn visit(
        &mut self,
        request: &Request,
        visitor: &mut dyn FnMut(&mut Moment),
    ) -> Result<(), EngineError> {
        let limit = self.limit;
        let mut ended = Ok(FrozenEnd::Done);
        self.live.visit(request, &mut |moment| {
            ended = freeze(moment, limit, |moment| visitor(moment)).map(|mut copy| copy.wait());
        })?;
        match ended {
            Ok(FrozenEnd::Done) => Ok(()),
            Ok(end) => Err(EngineError::Copy(end)),
            Err(error) => Err(EngineError::Fork(error)),
        }
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
        self.live.go_home()
    }
}
