//! Strings of the JVM's in the room that a caller gives.
//!
//! Contract: signal-safe. Never more than the room is written, and what is written ends with a zero.

use std::ffi::c_char;

use walkfuzz_reference::CheckedMemory;
use walkfuzz_vmstructs::Memory as _;

use super::tables::Symbol;

/// Writes as much of the symbol as fits, whole characters, and sets `length` to that of all of it; nothing and 0 if there is none. A null pointer or no room: it is
/// not wanted.
///
/// # Safety
/// `room` is null, or `*length` bytes can be written there.
pub(super) unsafe fn write(symbol: Option<Symbol>, room: *mut c_char, length: &mut i32) {
    let Some(size) = usize::try_from(*length).ok().filter(|size| *size > 0) else {
        return;
    };
    if room.is_null() {
        return;
    }
    // SAFETY: the caller's promise.
    let room = unsafe { std::slice::from_raw_parts_mut(room.cast::<u8>(), size) };
    let whole = symbol.map_or(0, |symbol| usize::from(symbol.length));
    let mut fits = whole.min(size - 1);
    let read = |symbol: Symbol, into: &mut [u8]| CheckedMemory.read(symbol.body, into).is_ok();
    let is_read = match (symbol, room.get_mut(..fits)) {
        (Some(symbol), Some(into)) => read(symbol, into),
        _ => false,
    };
    if !is_read {
        fits = 0;
    }
    *length = if is_read { whole as i32 } else { 0 };
    if fits < whole {
        fits = whole_characters(room.get(..fits).unwrap_or_default());
    }
    if let Some(end) = room.get_mut(fits) {
        *end = 0;
    }
}

/// How many of the bytes belong to characters that are there as a whole, when more bytes followed.
fn whole_characters(bytes: &[u8]) -> usize {
    let Some(start) = bytes.iter().rposition(|byte| byte & 0xc0 != 0x80) else {
        return 0;
    };
    // Modified UTF-8 has one to three bytes a character.
    let needed = match bytes.get(start) {
        Some(first) if *first < 0x80 => 1,
        Some(first) if *first < 0xe0 => 2,
        _ => 3,
    };
    if bytes.len() - start == needed {
        bytes.len()
    } else {
        start
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use walkfuzz_context::Address;

    fn written(text: &str, room: i32) -> (Vec<u8>, i32) {
        let mut bytes = [0xaa_u8; 16];
        let mut length = room;
        let symbol = Symbol {
            body: Address(text.as_ptr() as u64),
            length: text.len() as u16,
        };
        // SAFETY: no test gives more room than there is.
        unsafe { write(Some(symbol), bytes.as_mut_ptr().cast(), &mut length) };
        (bytes.to_vec(), length)
    }

    #[test]
    fn strings_end_within_their_room() {
        for room in 1..=10_usize {
            let (bytes, length) = written("charAt", room as i32);
            let fits = 6.min(room - 1);
            assert_eq!(&bytes[..fits], &b"charAt"[..fits]);
            assert_eq!(bytes[fits], 0);
            let behind = bytes.get(room..).unwrap();
            assert!(behind.iter().all(|byte| *byte == 0xaa), "room of {room}");
            assert_eq!(length, 6);
        }
    }

    #[test]
    fn no_room_is_no_wish() {
        for room in [0, -1, i32::MIN] {
            let (bytes, length) = written("charAt", room);
            assert!(bytes.iter().all(|byte| *byte == 0xaa));
            assert_eq!(length, room);
        }
    }

    #[test]
    fn characters_are_not_cut() {
        // Two bytes, then three.
        let (bytes, length) = written("aé€b", 3);
        assert_eq!((&bytes[..2], length), (&b"a\0"[..], 7));
        let (bytes, _) = written("aé€b", 6);
        assert_eq!(&bytes[..4], "aé\0".as_bytes());
        let (bytes, _) = written("aé€b", 7);
        assert_eq!(&bytes[..7], "aé€\0".as_bytes());
    }
}
