//! What the walker of a library calls its codes, in a file beside the record, which has no room for names.
//!
//! Contract: ordinary threads. The file is written when the record is made, so that it is there after a crash.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::codes::Code;
use crate::error::RecordError;

/// Writes the names beside the record at `record`, if there are any.
///
/// # Errors
/// The file cannot be written.
pub fn write(record: &Path, names: &[(Code, String)]) -> Result<(), RecordError> {
    if names.is_empty() {
        return Ok(());
    }
    let path = beside(record);
    let names: BTreeMap<i32, &str> = names.iter().map(|(code, name)| (code.0, &**name)).collect();
    let text = serde_json::to_vec(&names).unwrap_or_default();
    std::fs::write(&path, text).map_err(|source| RecordError::Create { path, source })
}

/// The names beside the record at `record`; none where there is no such file, or none that can be read.
#[must_use]
pub fn read(record: &Path) -> BTreeMap<i32, String> {
    let text = std::fs::read(beside(record)).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

/// `record-1.map` has `record-1.map.codes`.
fn beside(record: &Path) -> PathBuf {
    let mut path = record.as_os_str().to_owned();
    path.push(".codes");
    path.into()
}
