//! What became of what was put into queues. Everything that is not delivered as it was sampled is counted, by its cause.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

/// `WALKFUZZ_QueueStatistics`: counts since the queue was registered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct QueueStatistics {
    /// Elements that were taken.
    pub enqueued: i64,
    /// Refused: the queue was full.
    pub refused_full: i64,
    /// Refused: no Java frame to begin with, at a safepoint, or in the middle of another one.
    pub refused_other: i64,
    /// Delivered as sampled: the frame still stood, and its caller was the same.
    pub unbiased: i64,
    /// Delivered, but the sampled frame had returned: the iterator begins with the safepoint's own frame.
    pub biased_gone: i64,
    /// Delivered, but where the thread stood could not be walked as far as the sampled frame: as above.
    pub biased_unknown: i64,
    /// Not delivered: the thread ended before.
    pub lost_thread_end: i64,
    /// Not delivered: the queue was deregistered before.
    pub lost_deregistered: i64,
}

/// What becomes of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// See [`QueueStatistics::unbiased`].
    Unbiased,
    /// See [`QueueStatistics::biased_gone`].
    Gone,
    /// See [`QueueStatistics::biased_unknown`].
    Unknown,
}

/// The counters.
#[derive(Debug, Default)]
pub(super) struct Counts {
    enqueued: AtomicI64,
    refused_full: AtomicI64,
    refused_other: AtomicI64,
    unbiased: AtomicI64,
    biased_gone: AtomicI64,
    biased_unknown: AtomicI64,
    lost_thread_end: AtomicI64,
    lost_deregistered: AtomicI64,
}

/// Of queues that have ended.
pub(super) static ENDED: Counts = Counts::new();

impl Counts {
    const fn new() -> Self {
        Self {
            enqueued: AtomicI64::new(0),
            refused_full: AtomicI64::new(0),
            refused_other: AtomicI64::new(0),
            unbiased: AtomicI64::new(0),
            biased_gone: AtomicI64::new(0),
            biased_unknown: AtomicI64::new(0),
            lost_thread_end: AtomicI64::new(0),
            lost_deregistered: AtomicI64::new(0),
        }
    }

    pub(super) fn taken(&self) {
        self.enqueued.fetch_add(1, Relaxed);
    }

    pub(super) fn refused(&self, full: bool) {
        let counter = if full {
            &self.refused_full
        } else {
            &self.refused_other
        };
        counter.fetch_add(1, Relaxed);
    }

    pub(super) fn delivered(&self, fate: Fate) {
        let counter = match fate {
            Fate::Unbiased => &self.unbiased,
            Fate::Gone => &self.biased_gone,
            Fate::Unknown => &self.biased_unknown,
        };
        counter.fetch_add(1, Relaxed);
    }

    pub(super) fn lost(&self, count: usize, thread_ended: bool) {
        let counter = if thread_ended {
            &self.lost_thread_end
        } else {
            &self.lost_deregistered
        };
        counter.fetch_add(count as i64, Relaxed);
    }

    pub(super) fn read(&self) -> QueueStatistics {
        QueueStatistics {
            enqueued: self.enqueued.load(Relaxed),
            refused_full: self.refused_full.load(Relaxed),
            refused_other: self.refused_other.load(Relaxed),
            unbiased: self.unbiased.load(Relaxed),
            biased_gone: self.biased_gone.load(Relaxed),
            biased_unknown: self.biased_unknown.load(Relaxed),
            lost_thread_end: self.lost_thread_end.load(Relaxed),
            lost_deregistered: self.lost_deregistered.load(Relaxed),
        }
    }

    /// Adds the counts of another.
    pub(super) fn add(&self, more: &QueueStatistics) {
        self.enqueued.fetch_add(more.enqueued, Relaxed);
        self.refused_full.fetch_add(more.refused_full, Relaxed);
        self.refused_other.fetch_add(more.refused_other, Relaxed);
        self.unbiased.fetch_add(more.unbiased, Relaxed);
        self.biased_gone.fetch_add(more.biased_gone, Relaxed);
        self.biased_unknown.fetch_add(more.biased_unknown, Relaxed);
        self.lost_thread_end
            .fetch_add(more.lost_thread_end, Relaxed);
        self.lost_deregistered
            .fetch_add(more.lost_deregistered, Relaxed);
    }
}
