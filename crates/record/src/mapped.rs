//! The mapping of a record: the only unsafe code of this crate.
//!
//! The file is preallocated in full before it is mapped. A full disk is then an error here, and not a SIGBUS in a handler
//! at the first touch of a page. The mapping is shared: what a thread stored is in the page cache, and stays there when the
//! process is killed. (It need not survive a crash of the machine.)
//!
//! Contract: creating allocates and makes system calls; the references handed out are for handlers.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use nix::fcntl::posix_fallocate;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

use crate::error::{RecordError, is_disk_full};
use crate::lane::Lane;
use crate::layout::{
    FileHeader, HEADER_BYTES, LANE_BYTES, LIVE_OFFSET, LaneBlock, LiveHeader, file_bytes,
};

// bytemuck cannot derive these for structures that are generic over the kind of word.
// SAFETY: `repr(C)`, nothing but (arrays of, structures of) u64 for W = u64: no padding, any bytes are valid, zeros too.
unsafe impl bytemuck::Zeroable for LaneBlock<u64> {}
// SAFETY: as above; Copy and 'static.
unsafe impl bytemuck::Pod for LaneBlock<u64> {}
// SAFETY: as above.
unsafe impl bytemuck::Zeroable for LiveHeader<u64> {}
// SAFETY: as above; Copy and 'static.
unsafe impl bytemuck::Pod for LiveHeader<u64> {}

/// A live, shared mapping of a whole record.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    bytes: NonZeroUsize,
    lanes: u32,
}

// SAFETY: the mapping is plain memory that lives until `drop`; everything behind `base` is only ever accessed as atomics.
unsafe impl Send for Mapping {}
// SAFETY: as for Send; `&Mapping` gives out shared references to atomics alone.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Makes a new file at `path` with `header` and `lanes` zeroed lanes, and maps it. A file that cannot be completed is removed.
    pub(crate) fn create(
        path: &Path,
        header: &FileHeader,
        lanes: u32,
    ) -> Result<Self, RecordError> {
        let bytes = file_bytes(lanes);
        let failed = |source: io::Error| {
            let path = path.to_path_buf();
            if is_disk_full(&source) {
                RecordError::DiskFull {
                    path,
                    bytes,
                    source,
                }
            } else {
                RecordError::Create { path, source }
            }
        };
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)
            .map_err(failed)?;
        preallocate(&file, bytes)
            .and_then(|()| file.write_all_at(bytemuck::bytes_of(header), 0))
            .and_then(|()| map(&file, bytes, lanes))
            .map_err(|source| {
                // What is left is no record; that it cannot be removed either is not worth hiding the cause.
                let _ = fs::remove_file(path);
                failed(source)
            })
    }

    /// The changing part of the header.
    pub(crate) fn live(&self) -> &LiveHeader<AtomicU64> {
        // SAFETY: the mapping covers HEADER_BYTES and more, LIVE_OFFSET is aligned for u64 (the base is page-aligned), any bytes
        // are valid atomics, and nobody takes a mutable reference. It lives as long as `self`.
        unsafe { self.base.add(LIVE_OFFSET).cast().as_ref() }
    }

    /// A lane, if there is one of that number. Signal-safe.
    #[inline]
    pub(crate) fn lane(&self, index: u32) -> Option<&Lane> {
        if index >= self.lanes {
            return None;
        }
        let offset = HEADER_BYTES + index as usize * LANE_BYTES;
        // SAFETY: `map` checked that HEADER_BYTES + lanes * LANE_BYTES bytes are mapped, and index < lanes. HEADER_BYTES and
        // LANE_BYTES are multiples of 64, so the block is aligned; any bytes are valid atomics; nobody takes a mutable
        // reference. It lives as long as `self`.
        Some(unsafe { self.base.add(offset).cast::<Lane>().as_ref() })
    }

    #[inline]
    pub(crate) fn lanes(&self) -> u32 {
        self.lanes
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: base and length are those that mmap gave; references into the mapping borrow from `self`.
        // An error would only mean that the memory stays mapped.
        let _ = unsafe { munmap(self.base.cast(), self.bytes.get()) };
    }
}

/// Reserves all of the file's blocks.
fn preallocate(file: &File, bytes: u64) -> io::Result<()> {
    let length = i64::try_from(bytes).map_err(|_| io::ErrorKind::FileTooLarge)?;
    match posix_fallocate(file, 0, length) {
        // musl does not emulate it where the file system lacks it (NFS, some FUSE): write the zeros.
        Err(nix::Error::EOPNOTSUPP | nix::Error::EINVAL) => write_zeros(file, bytes),
        result => result.map_err(io::Error::from),
    }
}

fn write_zeros(mut file: &File, bytes: u64) -> io::Result<()> {
    let zeros = [0_u8; 64 * 1024];
    let mut left = bytes;
    while left > 0 {
        let now = left.min(zeros.len() as u64) as usize;
        file.write_all(zeros.get(..now).unwrap_or(&zeros))?;
        left -= now as u64;
    }
    file.sync_data()
}

fn map(file: &File, bytes: u64, lanes: u32) -> io::Result<Mapping> {
    let wanted = usize::try_from(bytes)
        .ok()
        .filter(|&wanted| wanted >= HEADER_BYTES + lanes as usize * LANE_BYTES)
        .and_then(NonZeroUsize::new)
        .ok_or(io::ErrorKind::InvalidInput)?;
    // SAFETY: a fresh mapping at an address of the kernel's choice touches no memory that is in use. The file is ours (create_new) and
    // preallocated, so no access of its pages can fail unless somebody truncates it, which is documented as forbidden.
    // MAP_POPULATE spares handlers the page faults.
    let base = unsafe {
        mmap(
            None,
            wanted,
            ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
            MapFlags::MAP_SHARED | MapFlags::MAP_POPULATE,
            file,
            0,
        )
    }?;
    Ok(Mapping {
        base: base.cast(),
        bytes: wanted,
        lanes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_file_system_is_an_error_of_creation() {
        // tmpfs refuses a file beyond its own size at once, without filling up first.
        let Ok(shm) = nix::sys::statvfs::statvfs("/dev/shm") else {
            println!("skip: no /dev/shm");
            return;
        };
        let total = shm.blocks() * shm.fragment_size();
        let is_tmpfs = fs::read_to_string("/proc/mounts")
            .unwrap()
            .lines()
            .any(|line| line.starts_with("tmpfs /dev/shm ") || line.starts_with("shm /dev/shm "));
        if !is_tmpfs || total == 0 {
            println!("skip: /dev/shm is no tmpfs with a limit");
            return;
        }
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let file = File::create(folder.path().join("big")).unwrap();
        let error = preallocate(&file, total + 4096).unwrap_err();
        assert!(is_disk_full(&error), "{error}");
    }

    #[test]
    fn zeros_are_written_where_they_cannot_be_reserved() {
        let file = tempfile::tempfile().unwrap();
        write_zeros(&file, 100_000).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 100_000);
        assert!(
            file.metadata().unwrap().len()
                <= 512 * std::os::unix::fs::MetadataExt::blocks(&file.metadata().unwrap())
        );
    }
}
