//! `mov wN, #1` and later `strb wN, [xM, #offset]`.

use super::OFFSETS;

/// The offset of the first store of a byte 1 into a field of some object.
pub(in super::super) fn first_byte_set_to_one(code: &[u8]) -> Option<u64> {
    let mut holds_one = 0_u32;
    code.chunks_exact(4).find_map(|bytes| {
        let word = u32::from_le_bytes(bytes.try_into().ok()?);
        let register = word & 31;
        if word & 0xffff_ffe0 == 0x5280_0020 {
            holds_one |= 1 << register;
            return None;
        }
        // STRB, unsigned offset.
        let offset = u64::from(word >> 10 & 0xfff);
        let stores = word & 0xffc0_0000 == 0x3900_0000 && holds_one & (1 << register) != 0;
        (stores && OFFSETS.contains(&offset)).then_some(offset)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_as_compilers_write_them() {
        let code = |words: &[u32]| -> Vec<u8> {
            let bytes = words.iter().flat_map(|word| word.to_le_bytes());
            bytes.collect()
        };
        // mov w1, #1; strb w1, [x20, #0x448]
        let found = code(&[0x5280_0021, 0x3900_0000 | 0x448 << 10 | 20 << 5 | 1]);
        assert_eq!(first_byte_set_to_one(&found), Some(0x448));
        // strb wzr, [x20, #0x448]
        let cleared = code(&[0x5280_0021, 0x3900_0000 | 0x448 << 10 | 20 << 5 | 31]);
        assert_eq!(first_byte_set_to_one(&cleared), None);
        assert_eq!(first_byte_set_to_one(&[1, 2, 3]), None);
    }
}
