//! This process's memory, read by the guard's checked load.

use walkfuzz_context::Address;
use walkfuzz_guard::{read_checked, read_word};
use walkfuzz_vmstructs::{Memory, Unreadable};

/// Own memory, for handlers and frozen copies: a fault of a read is caught and means "unreadable". About a nanosecond a word. Needs the guard's
/// handlers ([`walkfuzz_guard::Guard::install`]).
#[derive(Clone, Copy, Debug, Default)]
pub struct CheckedMemory;

impl Memory for CheckedMemory {
    #[inline]
    fn read(&self, at: Address, into: &mut [u8]) -> Result<(), Unreadable> {
        let length = into.len();
        read_checked(at, into).map_err(|_| Unreadable {
            address: at,
            length,
        })
    }

    #[inline]
    fn read_u64(&self, at: Address) -> Result<u64, Unreadable> {
        read_word(at).map_err(|_| Unreadable {
            address: at,
            length: 8,
        })
    }
}
