//! The file through which a JVM is fed: edits one behind the other, and how many of them were taken ([`FED`]).

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use walkfuzz_context::codec::encode_perturbation;
use walkfuzz_context::element::FED;
use walkfuzz_context::{Arch, Perturbation};

use crate::error::QueueError;

/// See the module.
#[derive(Debug)]
pub(super) struct Feed {
    path: PathBuf,
    file: File,
    given: u64,
}

impl Feed {
    pub(super) fn new(folder: &Path) -> Result<Self, QueueError> {
        let path = folder.join("edits.bin");
        let opened = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path);
        let file = opened.map_err(|source| failed(&path, source))?;
        let feed = Self {
            path,
            file,
            given: 0,
        };
        feed.write(&[0; FED], 0)?;
        Ok(feed)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends edits. How many there are now.
    pub(super) fn give(&mut self, edits: &[Perturbation]) -> Result<u64, QueueError> {
        for edits in edits {
            let mut bytes = [0; FED];
            encode_perturbation(Arch::NATIVE, edits, &mut bytes);
            // A place is taken only once it is there as a whole.
            self.write(&bytes, (1 + self.given) * FED as u64)?;
            self.given += 1;
        }
        Ok(self.given)
    }

    /// How many were taken.
    pub(super) fn taken(&self) -> Result<u64, QueueError> {
        let mut taken = [0; 8];
        self.file
            .read_exact_at(&mut taken, 0)
            .map_err(|source| failed(&self.path, source))?;
        Ok(u64::from_le_bytes(taken))
    }

    fn write(&self, bytes: &[u8], at: u64) -> Result<(), QueueError> {
        self.file
            .write_all_at(bytes, at)
            .map_err(|source| failed(&self.path, source))
    }
}

fn failed(path: &Path, source: std::io::Error) -> QueueError {
    QueueError::File {
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use walkfuzz_context::codec::decode_perturbation;
    use walkfuzz_context::element::parse;

    #[test]
    fn what_is_given_stands_behind_the_count() {
        let folder = tempfile::tempdir().unwrap();
        let mut feed = Feed::new(folder.path()).unwrap();
        let edits = ["sp~bit5", "bcp=0 ticks+=9"].map(|text| parse(Arch::NATIVE, text).unwrap());
        assert_eq!(feed.give(&edits).unwrap(), 2);
        assert_eq!(feed.taken().unwrap(), 0);
        let bytes = std::fs::read(feed.path()).unwrap();
        assert_eq!(bytes.len(), 3 * FED);
        let read = [1, 2].map(|place| decode_perturbation(&bytes[place * FED..]).1);
        assert_eq!(read, edits);
    }
}
