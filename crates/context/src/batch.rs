//! A batch: what one fuzzer input means.
//!
//! Signal-safe: everything here; a batch is plain data of fixed size (under 900 bytes).

use std::fmt;
use std::hash::{Hash, Hasher};

use crate::edit::Perturbation;
use crate::registers::Arch;

/// The most walks that a batch has.
pub const MAX_WALKS: usize = 16;

/// How many frames a walker is asked for; one of [`DepthLimit::LIMITS`].
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DepthLimit(u8);

impl DepthLimit {
    /// The limits there are. The first is the default; their order is part of the [codec](crate::codec).
    pub const LIMITS: [u16; 12] = [64, 1, 2, 3, 4, 8, 16, 32, 128, 256, 1024, 2048];
    /// The largest limit: no frame buffer needs to be larger.
    pub const MAX: u16 = 2048;

    /// The limit at that index of [`Self::LIMITS`], modulo their number.
    #[inline]
    #[must_use]
    pub const fn from_index(index: u8) -> Self {
        Self(index % Self::LIMITS.len() as u8)
    }

    /// The index in [`Self::LIMITS`].
    #[inline]
    #[must_use]
    pub const fn index(self) -> u8 {
        self.0
    }

    /// The limit with that number of frames, if it is one of [`Self::LIMITS`].
    #[must_use]
    pub fn from_frames(frames: u16) -> Option<Self> {
        (0u8..)
            .zip(Self::LIMITS)
            .find(|(_, limit)| *limit == frames)
            .map(|(index, _)| Self(index))
    }

    /// How many frames.
    #[inline]
    #[must_use]
    pub fn frames(self) -> u16 {
        Self::LIMITS
            .get(usize::from(self.0))
            .copied()
            .unwrap_or(Self::LIMITS[0])
    }
}

impl fmt::Display for DepthLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.frames().fmt(f)
    }
}

impl fmt::Debug for DepthLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DepthLimit({})", self.frames())
    }
}

/// Several walks of one moment. Holds at least one walk, at most [`MAX_WALKS`].
#[derive(Clone, Copy)]
pub struct Batch {
    /// Whose registers the edits name.
    pub arch: Arch,
    /// Which thread, and with it which kind of sample; the engine reduces it modulo what it has.
    pub thread: u8,
    /// How many instructions to step before the thread is parked.
    pub steps: u8,
    /// How many frames each walk asks for.
    pub depth: DepthLimit,
    len: u8,
    walks: [Perturbation; MAX_WALKS],
}

impl Batch {
    /// One untouched walk of the first thread.
    #[must_use]
    pub const fn untouched(arch: Arch) -> Self {
        Self {
            arch,
            thread: 0,
            steps: 0,
            depth: DepthLimit::from_index(0),
            len: 1,
            walks: [Perturbation::UNTOUCHED; MAX_WALKS],
        }
    }

    /// The walks in order.
    #[inline]
    #[must_use]
    pub fn walks(&self) -> &[Perturbation] {
        self.walks.get(..usize::from(self.len)).unwrap_or(&[])
    }

    /// The walks, to change in place.
    #[inline]
    #[must_use]
    pub fn walks_mut(&mut self) -> &mut [Perturbation] {
        self.walks
            .get_mut(..usize::from(self.len))
            .unwrap_or(&mut [])
    }

    /// Replaces all walks by the first [`MAX_WALKS`] of `walks`; by one untouched walk if that is none.
    pub fn set_walks(&mut self, walks: &[Perturbation]) {
        self.reset_walks();
        for (index, walk) in walks.iter().take(MAX_WALKS).enumerate() {
            if index == 0 {
                self.walks[0] = *walk;
            } else {
                self.push(*walk);
            }
        }
    }

    /// Appends a walk; `false` if there is no room.
    #[inline]
    pub fn push(&mut self, walk: Perturbation) -> bool {
        match self.push_slot() {
            Some(slot) => {
                *slot = walk;
                true
            }
            None => false,
        }
    }

    /// Takes the walk at `index` out, keeping the order of the others. The last one stays.
    pub fn remove(&mut self, index: usize) -> Option<Perturbation> {
        if self.len <= 1 {
            return None;
        }
        let removed = *self.walks().get(index)?;
        self.walks.copy_within(index + 1.., index);
        self.len -= 1;
        Some(removed)
    }

    /// The same batch for another architecture: edits of pc, sp, fp and lr stay, the others go (also lr's, where there is none).
    #[must_use]
    pub fn adapt(&self, to: Arch) -> Self {
        let mut adapted = *self;
        if self.arch != to {
            adapted.arch = to;
            for walk in adapted.walks_mut() {
                *walk = walk.adapt(self.arch, to);
            }
        }
        adapted
    }

    /// Back to one untouched walk.
    #[inline]
    pub(crate) fn reset_walks(&mut self) {
        self.len = 1;
        self.walks[0].clear();
    }

    /// Replaces all walks by `count` (at least one, at most [`MAX_WALKS`]) that `make` fills in place. It
    /// gets the walks before, and finds in the new one what stood there.
    #[inline]
    pub(crate) fn refill(
        &mut self,
        count: usize,
        mut make: impl FnMut(&[Perturbation], &mut Perturbation),
    ) {
        let count = count.clamp(1, MAX_WALKS);
        self.len = count as u8;
        for index in 0..count {
            let (before, rest) = self.walks.split_at_mut(index);
            if let Some(walk) = rest.first_mut() {
                make(before, walk);
            }
        }
    }

    /// Room for one more walk, untouched.
    #[inline]
    pub(crate) fn push_slot(&mut self) -> Option<&mut Perturbation> {
        let slot = self.walks.get_mut(usize::from(self.len))?;
        slot.clear();
        self.len += 1;
        Some(slot)
    }
}

impl PartialEq for Batch {
    fn eq(&self, other: &Self) -> bool {
        (self.arch, self.thread, self.steps, self.depth)
            == (other.arch, other.thread, other.steps, other.depth)
            && self.walks() == other.walks()
    }
}

impl Eq for Batch {}

impl Hash for Batch {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.arch, self.thread, self.steps, self.depth).hash(state);
        self.walks().hash(state);
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch")
            .field("arch", &self.arch)
            .field("thread", &self.thread)
            .field("steps", &self.steps)
            .field("depth", &self.depth)
            .field("walks", &self.walks())
            .finish()
    }
}
