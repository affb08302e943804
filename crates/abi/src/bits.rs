//! Packing of small fields into slot words; low field first.

#[inline]
pub(crate) fn pack16(a: u16, b: u16, c: u16, d: u16) -> u64 {
    u64::from(a) | u64::from(b) << 16 | u64::from(c) << 32 | u64::from(d) << 48
}

#[inline]
pub(crate) fn pack32(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

#[expect(clippy::cast_possible_truncation, reason = "the truncation is the field extraction")]
#[inline]
pub(crate) fn u16_at(word: u64, index: u32) -> u16 {
    (word >> (16 * index)) as u16
}

#[expect(clippy::cast_possible_truncation, reason = "the truncation is the field extraction")]
#[inline]
pub(crate) fn u32_at(word: u64, index: u32) -> u32 {
    (word >> (32 * index)) as u32
}
