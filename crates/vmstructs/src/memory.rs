//! Memory that may be read, whoever's it is.

use walkfuzz_context::Address;

/// Strings are read up to the next multiple of this, so that a read never crosses into a page that may not be there.
const STRING_CHUNK: u64 = 64;

/// Bytes that could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{length} bytes at {address} are unreadable")]
pub struct Unreadable {
    /// Where the read began.
    pub address: Address,
    /// How many bytes were asked for.
    pub length: usize,
}

/// Memory of a JVM: this process's own, a frozen copy's, or one kept in a file.
///
/// Contract for implementations: never fault, whatever the address; fill all of `into` or report [`Unreadable`]; be
/// signal-safe (no allocation, no lock, errno kept) if they are to serve a walker. The helpers allocate nothing either.
/// Multi-byte values are little-endian, as on every machine that HotSpot's supported ports here run on.
pub trait Memory {
    /// Reads `into.len()` bytes from `at`. After an error the content of `into` is unspecified.
    ///
    /// # Errors
    /// [`Unreadable`] if any of the bytes cannot be read.
    fn read(&self, at: Address, into: &mut [u8]) -> Result<(), Unreadable>;

    /// One byte.
    ///
    /// # Errors
    /// As [`Memory::read`].
    fn read_u8(&self, at: Address) -> Result<u8, Unreadable> {
        read_array(self, at).map(u8::from_le_bytes)
    }

    /// An unsigned 16-bit value.
    ///
    /// # Errors
    /// As [`Memory::read`].
    fn read_u16(&self, at: Address) -> Result<u16, Unreadable> {
        read_array(self, at).map(u16::from_le_bytes)
    }

    /// An unsigned 32-bit value.
    ///
    /// # Errors
    /// As [`Memory::read`].
    fn read_u32(&self, at: Address) -> Result<u32, Unreadable> {
        read_array(self, at).map(u32::from_le_bytes)
    }

    /// A signed 32-bit value.
    ///
    /// # Errors
    /// As [`Memory::read`].
    fn read_i32(&self, at: Address) -> Result<i32, Unreadable> {
        read_array(self, at).map(i32::from_le_bytes)
    }

    /// An unsigned 64-bit value.
    ///
    /// # Errors
    /// As [`Memory::read`].
    fn read_u64(&self, at: Address) -> Result<u64, Unreadable> {
        read_array(self, at).map(u64::from_le_bytes)
    }

    /// A pointer.
    ///
    /// # Errors
    /// As [`Memory::read`].
    fn read_pointer(&self, at: Address) -> Result<Address, Unreadable> {
        self.read_u64(at).map(Address)
    }

    /// A C string without its terminator; cut off where `buffer` ends.
    ///
    /// # Errors
    /// [`Unreadable`] if a byte before the terminator cannot be read.
    fn read_cstring<'b>(&self, at: Address, buffer: &'b mut [u8]) -> Result<&'b [u8], Unreadable> {
        let mut filled = 0;
        while filled < buffer.len() {
            let from = at.0.wrapping_add(filled as u64);
            let chunk = (STRING_CHUNK - from % STRING_CHUNK) as usize;
            let until = buffer.len().min(filled + chunk);
            let Some(piece) = buffer.get_mut(filled..until) else {
                break;
            };
            self.read(Address(from), piece)?;
            if let Some(end) = piece.iter().position(|byte| *byte == 0) {
                filled += end;
                break;
            }
            filled = until;
        }
        Ok(buffer.get(..filled).unwrap_or_default())
    }
}

fn read_array<const N: usize, M: Memory + ?Sized>(
    memory: &M,
    at: Address,
) -> Result<[u8; N], Unreadable> {
    let mut bytes = [0; N];
    memory.read(at, &mut bytes)?;
    Ok(bytes)
}

impl<M: Memory + ?Sized> Memory for &M {
    fn read(&self, at: Address, into: &mut [u8]) -> Result<(), Unreadable> {
        (**self).read(at, into)
    }
}

/// A C string as owned text (outside handlers); at most `limit` bytes, foreign bytes replaced.
pub(crate) fn text(memory: &dyn Memory, at: Address, limit: usize) -> Result<String, Unreadable> {
    let mut buffer = [0; 512];
    let length = buffer.len().min(limit);
    let bytes = memory.read_cstring(at, &mut buffer[..length])?;
    Ok(String::from_utf8_lossy(bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BufferMemory;

    #[test]
    fn helpers_read_little_endian() {
        let mut memory = BufferMemory::new();
        memory.put(Address(0x1000), &[1, 2, 3, 4, 0xff, 0xff, 0xff, 0xff, 9]);
        assert_eq!(memory.read_u8(Address(0x1008)), Ok(9));
        assert_eq!(memory.read_u16(Address(0x1000)), Ok(0x0201));
        assert_eq!(memory.read_u32(Address(0x1000)), Ok(0x0403_0201));
        assert_eq!(memory.read_i32(Address(0x1004)), Ok(-1));
        assert_eq!(
            memory.read_pointer(Address(0x1000)),
            Ok(Address(0xffff_ffff_0403_0201))
        );
        let failure = memory.read_u32(Address(0x1006)).unwrap_err();
        assert_eq!(failure.to_string(), "4 bytes at 0x1006 are unreadable");
    }

    #[test]
    fn strings_end_at_the_terminator_the_buffer_or_the_page() {
        let mut memory = BufferMemory::new();
        // Ends exactly where the readable range ends: only chunks up to a boundary may be asked for.
        memory.put(Address(0x1fd0), &[b'x'; 0x2f]);
        memory.put(Address(0x1fff), &[0]);
        let mut buffer = [0; 100];
        assert_eq!(
            memory
                .read_cstring(Address(0x1fd0), &mut buffer)
                .unwrap()
                .len(),
            0x2f
        );
        assert_eq!(
            memory.read_cstring(Address(0x1fd0), &mut buffer[..5]),
            Ok(&b"xxxxx"[..])
        );
        let mut unterminated = BufferMemory::new();
        unterminated.put(Address(0x3000), &[b'y'; 64]);
        assert!(
            unterminated
                .read_cstring(Address(0x3000), &mut buffer)
                .is_err()
        );
        assert!(
            memory
                .read_cstring(Address(u64::MAX - 3), &mut buffer)
                .is_err()
        );
    }
}
