//! Names of entries, which are names of files.

use crate::corpus::EntryError;

/// Whether a file of this name stays in its folder.
///
/// # Errors
/// It does not, or might not.
pub fn check_name(name: &str) -> Result<(), EntryError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.#".contains(c);
    let first = name
        .chars()
        .next()
        .is_some_and(|c| c.is_ascii_alphanumeric());
    if first && name.len() <= 100 && name.chars().all(plain) {
        Ok(())
    } else {
        Err(EntryError::Name(name.chars().take(100).collect()))
    }
}
