//! `movb $1, offset(register)`.

use super::OFFSETS;

/// The offset of the first store of a byte 1 into a field of some object.
pub(in super::super) fn first_byte_set_to_one(code: &[u8]) -> Option<u64> {
    code.windows(9).find_map(|bytes| {
        // C6 /0 with a 32-bit displacement; base rsp or r12 needs a SIB byte.
        let [0xc6, mode, rest @ ..] = bytes else {
            return None;
        };
        if mode & 0xf8 != 0x80 {
            return None;
        }
        let rest = match mode & 7 {
            4 if rest.first()? & 0x3f == 0x24 => rest.get(1..)?,
            4 => return None,
            _ => rest,
        };
        let (offset, value) = rest.get(..5)?.split_at(4);
        let offset = u64::from(u32::from_le_bytes(offset.try_into().ok()?));
        (value == [1] && OFFSETS.contains(&offset)).then_some(offset)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_as_compilers_write_them() {
        // movb $1, 0x280(%r12) of 17; movb $1, 0x360(%rbx) of 21: a prefix, or none, before them.
        let r12 = [0x41, 0xc6, 0x84, 0x24, 0x80, 2, 0, 0, 1, 0x90];
        let rbx = [0x90, 0xc6, 0x83, 0x60, 3, 0, 0, 1, 0x90, 0x90];
        assert_eq!(first_byte_set_to_one(&r12), Some(0x280));
        assert_eq!(first_byte_set_to_one(&rbx), Some(0x360));
        let zero = [0x90, 0xc6, 0x83, 0x60, 3, 0, 0, 0, 0x90, 0x90];
        assert_eq!(first_byte_set_to_one(&zero), None);
        let far = [0x90, 0xc6, 0x83, 0x60, 3, 1, 0, 1, 0x90, 0x90];
        assert_eq!(first_byte_set_to_one(&far), None);
        assert_eq!(first_byte_set_to_one(&[0xc6]), None);
    }
}
