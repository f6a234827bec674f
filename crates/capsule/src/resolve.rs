//! Pages by reference: taken from the file on this machine that is the same build.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use crate::capsule::{Capsule, Content, Facts, FileFacts};
use crate::error::PuppetError;
use crate::format::limits::PAGE;

impl Facts {
    /// What is said where a file is missing.
    pub(crate) fn needs(&self, file: u16) -> PuppetError {
        let file = self.files.get(usize::from(file));
        PuppetError::NeedsFile {
            name: file.map_or_else(String::new, |file| file.name.clone()),
            identity: file.map_or_else(String::new, |file| file.identity.clone()),
            jvm: self.jvm.clone(),
        }
    }
}

impl Capsule {
    /// Whether it has pages by reference.
    #[must_use]
    pub fn has_references(&self) -> bool {
        self.pages
            .values()
            .any(|page| matches!(page.entry, Content::File { .. }))
    }

    /// Drops the bytes of pages that stand in files which the facts name, unchanged, and refers to them. `find` says where a file is.
    /// Returns how many pages it dropped.
    pub fn refer(&mut self, mut find: impl FnMut(&FileFacts) -> Option<PathBuf>) -> usize {
        let mut dropped = 0;
        for (index, facts) in (0_u16..).zip(&self.facts.files) {
            let Some(file) = find(facts).and_then(|path| File::open(path).ok()) else {
                continue;
            };
            for mapping in &facts.mappings {
                if mapping.start > mapping.end || mapping.offset % PAGE != 0 {
                    continue;
                }
                for (&address, page) in self.pages.range_mut(mapping.start..mapping.end) {
                    let Content::Bytes(bytes) = &page.entry else {
                        continue;
                    };
                    let offset = mapping.offset.saturating_add(address - mapping.start);
                    let mut there = Box::new([0; PAGE as usize]);
                    let read = file.read_exact_at(&mut there[..], offset).is_ok();
                    if read && there == *bytes && page.outcome.is_none() {
                        page.entry = Content::File {
                            file: index,
                            offset,
                        };
                        dropped += 1;
                    }
                }
            }
        }
        dropped
    }

    /// Brings the pages that are by reference. `find` says where a file of that [identity](FileFacts::identity) is.
    ///
    /// # Errors
    /// [`PuppetError::NeedsFile`] where it is not, or ends too early.
    pub fn resolve(
        &mut self,
        mut find: impl FnMut(&FileFacts) -> Option<PathBuf>,
    ) -> Result<(), PuppetError> {
        let mut files: Vec<Option<File>> = Vec::new();
        let mut searched = vec![false; self.facts.files.len()];
        files.resize_with(self.facts.files.len(), || None);
        for page in self.pages.values_mut() {
            let Content::File { file, offset } = page.entry else {
                continue;
            };
            let index = usize::from(file);
            if let (Some(searched), Some(slot), Some(facts)) = (
                searched.get_mut(index),
                files.get_mut(index),
                self.facts.files.get(index),
            ) && !*searched
            {
                *searched = true;
                *slot = find(facts).and_then(|path| File::open(path).ok());
            }
            let mut bytes = Box::new([0; PAGE as usize]);
            let read = files
                .get(index)
                .and_then(Option::as_ref)
                .and_then(|file| file.read_exact_at(&mut bytes[..], offset).ok());
            if read.is_none() {
                return Err(self.facts.needs(file));
            }
            page.entry = Content::Bytes(bytes);
        }
        Ok(())
    }
}
