//! What an edited element did.

use std::path::{Path, PathBuf};

use serde::Serialize;
use walkfuzz_record::KOfN;

use crate::error::QueueError;

/// A finding of a queue, in a file of its own: `finding-SIGNATURE.json` in the run's folder.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QueueFinding {
    /// What findings of the same cause share.
    pub signature: String,
    /// One line for people.
    pub title: String,
    /// How often it was seen.
    pub count: u64,
    /// The smallest edits of an element that do it again, in the text form of docs/queues.md; absent if none did.
    pub edits: Option<String>,
    /// How often these edits did it again, of the JVMs that were tried.
    pub reproduced: KOfN,
    /// The last elements' edits before the JVM died, the last one first.
    pub last: Vec<String>,
    /// The JVM.
    pub jvm: String,
    /// What the JVM left when it died.
    pub evidence: PathBuf,
    /// Does it again.
    pub command: String,
}

impl QueueFinding {
    /// Writes it into the run's folder, over what stood there of the same signature.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn keep(&self, folder: &Path) -> Result<PathBuf, QueueError> {
        let name: String = self
            .signature
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .collect();
        let path = folder.join(format!("finding-{name}.json"));
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        std::fs::write(&path, text).map_err(|source| QueueError::File {
            path: path.clone(),
            source,
        })?;
        Ok(path)
    }

    /// For people, in two lines.
    #[must_use]
    pub fn lines(&self) -> String {
        let KOfN { k, of } = self.reproduced;
        let edits = match &self.edits {
            Some(edits) => format!("{edits}: again in {k} of {of} JVMs"),
            None => format!("not reproduced in {of} JVMs, one element at a time"),
        };
        format!(
            "walkfuzz: {} x {}\n          {edits}; again: {}",
            self.count, self.title, self.command
        )
    }
}
