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
    fn read_u8(&self, at: Address) -> Result<u8, Unreadable> {
        part(at, 1).map(|part| part as u8)
    }

    #[inline]
    fn read_u16(&self, at: Address) -> Result<u16, Unreadable> {
        part(at, 2).map(|part| part as u16)
    }

    #[inline]
    fn read_u32(&self, at: Address) -> Result<u32, Unreadable> {
        part(at, 4).map(|part| part as u32)
    }

    #[inline]
    fn read_i32(&self, at: Address) -> Result<i32, Unreadable> {
        self.read_u32(at).map(u32::cast_signed)
    }

    #[inline]
    fn read_u64(&self, at: Address) -> Result<u64, Unreadable> {
        read_word(at).map_err(|_| Unreadable {
            address: at,
            length: 8,
        })
    }
}

/// `length` bytes (fewer than a word has) in the low bits, by one load: the aligned word around them is on their page.
#[inline]
fn part(at: Address, length: usize) -> Result<u64, Unreadable> {
    let unreadable = |_| Unreadable {
        address: at,
        length,
    };
    let shift = 8 * (at.0 % 8) as usize;
    if shift + 8 * length <= 64 {
        return Ok(read_word(Address(at.0 & !7)).map_err(unreadable)? >> shift);
    }
    let mut bytes = [0; 8];
    read_checked(at, bytes.get_mut(..length).unwrap_or_default()).map_err(unreadable)?;
    Ok(u64::from_le_bytes(bytes))
}
