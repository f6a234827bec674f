//! The set of findings of a run: the first artifact of each signature, and how often each was seen.

use std::collections::HashMap;

use crate::signature::Signature;

/// One signature of a [`Findings`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<A> {
    /// What tells it from the others.
    pub signature: Signature,
    /// What was kept of its first sight.
    pub artifact: A,
    /// How often it was seen; at least 1.
    pub count: u64,
    /// How many sightings of any signature there were before its first.
    pub first: u64,
}

/// Whether a sighting was the first of its signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The first.
    New,
    /// One of so many by now (at least 2).
    Again(u64),
}

/// Findings by signature, in the order of their first sight.
#[derive(Clone, Debug)]
pub struct Findings<A> {
    entries: Vec<Entry<A>>,
    by_signature: HashMap<Signature, usize>,
    sightings: u64,
}

impl<A> Default for Findings<A> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            by_signature: HashMap::new(),
            sightings: 0,
        }
    }
}

impl<A> Findings<A> {
    /// Counts one sighting. `artifact` is asked for only if it is the first of its signature.
    pub fn record(&mut self, signature: &Signature, artifact: impl FnOnce() -> A) -> Seen {
        let before = self.sightings;
        self.sightings = self.sightings.saturating_add(1);
        if let Some(entry) = self
            .by_signature
            .get(signature)
            .and_then(|&at| self.entries.get_mut(at))
        {
            entry.count = entry.count.saturating_add(1);
            return Seen::Again(entry.count);
        }
        self.by_signature
            .insert(signature.clone(), self.entries.len());
        self.entries.push(Entry {
            signature: signature.clone(),
            artifact: artifact(),
            count: 1,
            first: before,
        });
        Seen::New
    }

    /// The entry of a signature.
    #[must_use]
    pub fn get(&self, signature: &Signature) -> Option<&Entry<A>> {
        self.entries.get(*self.by_signature.get(signature)?)
    }

    /// The same, to put a better artifact in place (a minimised one).
    pub fn get_mut(&mut self, signature: &Signature) -> Option<&mut Entry<A>> {
        self.entries.get_mut(*self.by_signature.get(signature)?)
    }

    /// All entries in the order of their first sight.
    #[must_use]
    pub fn entries(&self) -> &[Entry<A>] {
        &self.entries
    }

    /// All entries, the most often seen first.
    #[must_use]
    pub fn most_frequent(&self) -> Vec<&Entry<A>> {
        let mut entries: Vec<_> = self.entries.iter().collect();
        entries.sort_by(|a, b| b.count.cmp(&a.count).then(a.first.cmp(&b.first)));
        entries
    }

    /// How many signatures.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing was found.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many sightings of all signatures.
    #[must_use]
    pub fn sightings(&self) -> u64 {
        self.sightings
    }
}
