//! New inputs out of single walks that were worth something: what libFuzzer's custom mutator and crossover do, and what a survey
//! does by itself between two of the fuzzer's inputs.

use walkfuzz_context::codec::MAX_BATCH_BYTES;
use walkfuzz_context::generate::{Pool, Rng, crossover, mutate, tear};
use walkfuzz_context::{Arch, Batch};
use walkfuzz_coverage::COUNTERS;

use crate::error::HarnessError;

use super::{Mode, POOR_VISITS, Session};

/// Batches that a guided survey walks by itself for each input of the fuzzer.
pub(crate) const CHILDREN: u32 = 7;

/// Where children come from and wait.
pub(crate) struct Nursery {
    pub(crate) pool: Pool,
    /// Whether further children are walked between inputs.
    pub(crate) between_inputs: bool,
    /// The last child that was handed to the fuzzer, and its bytes.
    child: Box<Batch>,
    bytes: Vec<u8>,
    /// `child` was walked already and shall be the next input as it is.
    queued: bool,
    seed: u64,
    /// Every other walk gets registers of different moments.
    tears: bool,
}

impl Nursery {
    /// Each process of a run breeds others.
    pub(crate) fn new(tears: bool) -> Self {
        Self {
            tears,
            ..Self::seeded(u64::from(std::process::id()) << 32)
        }
    }

    /// Breeds the same batches for the same seed and feedback.
    pub(crate) fn seeded(seed: u64) -> Self {
        Self {
            pool: Pool::new(COUNTERS),
            between_inputs: false,
            child: Box::new(Batch::untouched(Arch::NATIVE)),
            bytes: Vec::with_capacity(MAX_BATCH_BYTES),
            queued: false,
            seed,
            tears: false,
        }
    }

    /// Swaps the last child into `batch` if `data` are its bytes: then they need not be decoded.
    #[inline]
    pub(crate) fn take_child(&mut self, data: &[u8], batch: &mut Box<Batch>) -> bool {
        let is_child = !data.is_empty() && data == self.bytes;
        if is_child {
            std::mem::swap(batch, &mut self.child);
            self.bytes.clear();
        }
        is_child
    }

    /// Lets `batch` be the fuzzer's next input.
    pub(crate) fn queue(&mut self, batch: &Batch) {
        *self.child = *batch;
        self.queued = true;
    }

    /// Breeds another batch with the seed after the last.
    pub(crate) fn breed(&mut self, batch: &mut Batch) {
        self.seed = self.seed.wrapping_add(1);
        self.pool.breed(batch, self.seed);
        if self.tears {
            tear(batch, &mut Rng::new(self.seed));
        }
    }

    /// Writes the next child, bred at the moment of `parent` unless one is waiting, to `data`; how long it is.
    fn hand_out(
        &mut self,
        parent: Option<&[u8]>,
        data: &mut [u8],
        max_size: usize,
        seed: u32,
    ) -> usize {
        if !std::mem::take(&mut self.queued) {
            self.child
                .decode_moment(parent.unwrap_or_else(|| data.get(..max_size).unwrap_or(data)));
            self.pool.breed(&mut self.child, u64::from(seed));
            if self.tears {
                tear(&mut self.child, &mut Rng::new(u64::from(seed)));
            }
        }
        let room = max_size.min(data.len());
        let length = self.child.encode(data.get_mut(..room).unwrap_or(&mut []));
        self.bytes.clear();
        // A child that lost walks for want of room is not what its bytes say.
        if length < room {
            self.bytes
                .extend_from_slice(data.get(..length).unwrap_or(&[]));
        }
        length
    }

    /// Changes the input in `data[..size]`; how long it is then, at most `max_size`. A survey breeds whole batches of new walks
    /// from what was worth something; where an input must stay recognisable, it changes a little.
    pub(crate) fn mutate(
        &mut self,
        mode: Mode,
        data: &mut [u8],
        size: usize,
        max_size: usize,
        seed: u32,
    ) -> usize {
        if mode == Mode::Survey {
            self.hand_out(None, data, max_size, seed)
        } else {
            mutate(data, size, max_size, seed)
        }
    }

    /// Crosses two inputs into `out`; how long the child is. See [`mutate`](Self::mutate).
    pub(crate) fn crossover(
        &mut self,
        mode: Mode,
        a: &[u8],
        b: &[u8],
        out: &mut [u8],
        seed: u32,
    ) -> usize {
        if mode == Mode::Survey {
            let parent = if seed.is_multiple_of(2) { a } else { b };
            let room = out.len();
            self.hand_out(Some(parent), out, room, seed)
        } else {
            crossover(a, b, out, seed)
        }
    }
}

impl Session {
    /// Lets a guided survey breed and walk by itself between two inputs. For fuzzers whose mutator is [`mutate`](Self::mutate): what
    /// shows something new comes out there.
    pub fn breed_between_inputs(&mut self) {
        self.nursery.between_inputs = self.mode == Mode::Survey && self.feedback.is_some();
    }

    /// Changes the input in `data[..size]`; how long it is then, at most `max_size`. A survey breeds whole batches of new walks
    /// from what was worth something; where an input must stay recognisable, it changes a little.
    pub fn mutate(&mut self, data: &mut [u8], size: usize, max_size: usize, seed: u32) -> usize {
        self.nursery.mutate(self.mode, data, size, max_size, seed)
    }

    /// Crosses two inputs into `out`; how long the child is. See [`mutate`](Self::mutate).
    pub fn crossover(&mut self, a: &[u8], b: &[u8], out: &mut [u8], seed: u32) -> usize {
        self.nursery.crossover(self.mode, a, b, out, seed)
    }

    /// Walks further children between two inputs of the fuzzer, whose own work for an input costs as much as several walks. One that
    /// shows something new is the fuzzer's next input, so that its corpus does not miss it.
    pub(super) fn breed_here(&mut self) -> Result<(), HarnessError> {
        for _ in 0..CHILDREN {
            self.nursery.breed(&mut self.batch);
            self.begin_batch();
            self.visit(self.poor_visits >= POOR_VISITS)?;
            if self.account(false)? {
                self.nursery.queue(&self.batch);
            }
        }
        Ok(())
    }
}
