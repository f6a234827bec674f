//! A crash that is being made smaller stays the same crash: the signature of the first is handed to the processes that come after it.
//!
//! libFuzzer minimises in one process after another, and each ends at the first crash that it meets. It compares their tokens only
//! afterwards: by then the smaller file of another crash lies there, and is taken for the result.

use std::fs::File;
use std::io;
use std::os::fd::{IntoRawFd as _, RawFd};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use nix::sys::memfd::{MFdFlags, memfd_create};

/// Names the descriptor in the environment of the processes that libFuzzer starts.
const VARIABLE: &str = "WALKFUZZ_SAME_CRASH_FD";
/// Longer signatures are compared as far as that.
const MOST: usize = 4 << 10;

/// Makes a place for the first signature that every process started from here shares.
///
/// # Errors
/// The system's.
///
/// # Safety
/// No other thread reads or writes the environment.
pub(crate) unsafe fn begin() -> io::Result<()> {
    let place = memfd_create(c"walkfuzz-same-crash", MFdFlags::empty())?;
    // It stays open as long as the process.
    let descriptor = place.into_raw_fd();
    // SAFETY: the caller's promise.
    unsafe { std::env::set_var(VARIABLE, descriptor.to_string()) };
    Ok(())
}

/// Whether `signature` is that of the crash that is being made smaller. The first one is; so is any where nothing is made smaller.
pub(crate) fn is_the_same(signature: &str) -> bool {
    let Some(place) = place() else {
        return true;
    };
    let signature = signature.as_bytes();
    let signature = signature.get(..MOST).unwrap_or(signature);
    let mut first = vec![0; MOST];
    match place.read_at(&mut first, 0) {
        Ok(0) => place.write_all_at(signature, 0).is_ok(),
        Ok(length) => first.get(..length) == Some(signature),
        Err(_) => true,
    }
}

/// The shared place, through a descriptor of our own.
fn place() -> Option<File> {
    let descriptor: RawFd = std::env::var(VARIABLE).ok()?.parse().ok()?;
    let path = format!("/proc/self/fd/{descriptor}");
    // Not any file that a stray variable names.
    let target = std::fs::read_link(&path).ok()?;
    if !target.starts_with(Path::new("/memfd:walkfuzz-same-crash (deleted)")) {
        return None;
    }
    File::options().read(true).write(true).open(path).ok()
}
