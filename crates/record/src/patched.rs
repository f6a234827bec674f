//! Damaged records, for the fuzz target `parse_record`: whole ones with bytes replaced.

use std::sync::OnceLock;

use crate::Generation;
use crate::recorder::{Options, Recorder, WalkerInfo};

/// The bytes of a record with one lane.
fn whole() -> &'static [u8] {
    static WHOLE: OnceLock<Vec<u8>> = OnceLock::new();
    WHOLE.get_or_init(|| {
        let path = std::env::temp_dir().join(format!("walkfuzz-record-{}", std::process::id()));
        let mut options = Options::new(WalkerInfo {
            name: "agct".into(),
            generation: Generation::Agct,
            version: "17".into(),
        });
        options.lanes = 1;
        Recorder::create(&path, &options).expect("a record in the temporary folder");
        let bytes = std::fs::read(&path);
        std::fs::remove_file(&path).expect("our own file");
        bytes.expect("the record reads")
    })
}

/// A whole record with one lane after these patches, one behind the other: offset (3 bytes, little-endian), length, bytes. Offsets count from the
/// front again when they are past the end; a patch ends with the record or with the last byte there is.
///
/// # Panics
/// Without a temporary folder to make the record in.
#[must_use]
pub fn patched(mut patches: &[u8]) -> Vec<u8> {
    let mut bytes = whole().to_vec();
    while let [low, middle, high, length, rest @ ..] = patches {
        let (patch, rest) = rest.split_at(rest.len().min(usize::from(*length)));
        let at = u32::from_le_bytes([*low, *middle, *high, 0]) as usize % bytes.len();
        let end = bytes.len().min(at + patch.len());
        bytes[at..end].copy_from_slice(&patch[..end - at]);
        patches = rest;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::patched;
    use crate::RecordReader;

    #[test]
    fn no_patch_gives_a_whole_record_and_a_patch_damages_it() {
        let path = Path::new("patched");
        let whole = RecordReader::parse(path, &patched(&[])).unwrap();
        assert!(whole.damage.is_empty(), "{:?}", whole.damage);
        let header = patched(&[0, 0, 0, 2, 0xff, 0xff]);
        assert!(RecordReader::parse(path, &header).is_err());
        // An offset past the end, and a patch that is cut off.
        assert_eq!(patched(&[0xff, 0xff, 0xff, 9, 1]).len(), patched(&[]).len());
    }
}
