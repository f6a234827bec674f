//! Reads of a stack that may be none. Signal-safe; no address makes them fault.

/// The word at `address`, if the kernel finds one there.
pub(crate) fn read(address: u64) -> Result<u64, ()> {
    let mut word = 0_u64;
    let here = libc::iovec {
        iov_base: (&raw mut word).cast(),
        iov_len: size_of::<u64>(),
    };
    let there = libc::iovec {
        iov_base: address as *mut libc::c_void,
        iov_len: size_of::<u64>(),
    };
    // SAFETY: the kernel checks the address that is read; what is written is ours.
    let read = unsafe {
        libc::process_vm_readv(libc::getpid(), &raw const here, 1, &raw const there, 1, 0)
    };
    if read == size_of::<u64>() as isize {
        Ok(word)
    } else {
        Err(())
    }
}

/// Whether the kernel reads for this process at all: some sandboxes forbid it.
pub(crate) fn can_read() -> bool {
    let word = 0x5aa5_u64;
    read(&raw const word as u64) == Ok(word)
}
