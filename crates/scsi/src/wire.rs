//! Big-endian fields at offsets that may lie outside the bytes.

/// The unsigned number of `N` bytes at `offset`; `None` if the bytes end before it.
pub(crate) fn be<const N: usize>(bytes: &[u8], offset: usize) -> Option<u64> {
    const { assert!(N <= 8) };
    let field = bytes.get(offset..)?.get(..N)?;
    Some(field.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

/// Two bytes at `offset`.
pub(crate) fn be16(bytes: &[u8], offset: usize) -> Option<u16> {
    be::<2>(bytes, offset).and_then(|value| u16::try_from(value).ok())
}

/// Four bytes at `offset`.
pub(crate) fn be32(bytes: &[u8], offset: usize) -> Option<u32> {
    be::<4>(bytes, offset).and_then(|value| u32::try_from(value).ok())
}

/// Eight bytes at `offset`.
pub(crate) fn be64(bytes: &[u8], offset: usize) -> Option<u64> {
    be::<8>(bytes, offset)
}

/// A number in as many bits as there are: the highest number if it is too large.
pub(crate) fn clamp16(value: usize) -> u16 {
    u16::try_from(value).unwrap_or(u16::MAX)
}

/// A number in as many bits as there are: the highest number if it is too large.
pub(crate) fn clamp32(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// Text in a field of fixed length: padded with spaces, cut, and other than graphic ASCII replaced
/// (SPC-4 4.3.1).
pub(crate) fn padded<const N: usize>(text: &str) -> [u8; N] {
    let mut field = [b' '; N];
    for (place, byte) in field.iter_mut().zip(text.bytes()) {
        *place = if (0x20..0x7f).contains(&byte) { byte } else { b'?' };
    }
    field
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_end_with_the_bytes() {
        let bytes = [1, 2, 3, 4, 5, 6, 7, 8];
        assert_eq!(be16(&bytes, 6), Some(0x0708));
        assert_eq!(be16(&bytes, 7), None);
        assert_eq!(be::<3>(&bytes, 1), Some(0x02_0304));
        assert_eq!(be32(&bytes, usize::MAX), None);
        assert_eq!(be64(&bytes, 0), Some(0x0102_0304_0506_0708));
    }

    #[test]
    fn text_fills_its_field() {
        assert_eq!(&padded::<6>("ab\u{e4}"), b"ab??  ");
        assert_eq!(&padded::<2>("abc"), b"ab");
    }
}
