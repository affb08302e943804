//! The Internet checksum's sum (RFC 1071).

#![allow(unsafe_code)]

use std::ptr;

/// The Internet checksum's sum (RFC 1071) of bytes of our own, not complemented. An odd byte at the
/// end counts as if a zero followed.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u16 {
    // SAFETY: a slice is valid for reads of its length.
    unsafe { ones_complement_sum(bytes.as_ptr(), bytes.len()) }
}

/// RFC 1071: the sum depends on byte order only by a swap at the end, and not on the size of the
/// words that are added. So this adds native 32-bit words in 64-bit lanes and folds.
///
/// # Safety
/// `from` is valid for reads of `len` bytes. Others may be writing them.
#[inline(never)]
pub(super) unsafe fn ones_complement_sum(from: *const u8, len: usize) -> u16 {
    const LANES: usize = 8;
    const STEP: usize = 4 * LANES;
    // A lane takes 2^32 additions of 32-bit words; folding each megabyte is far from that.
    const BLOCK: usize = 1 << 20;
    let mut sum = 0_u64;
    let mut at = 0;
    while len - at >= STEP {
        let end = at + (len - at).min(BLOCK) / STEP * STEP;
        let mut lanes = [0_u64; LANES];
        while at < end {
            // SAFETY: at + STEP <= end <= len.
            let step = unsafe { from.add(at) }.cast::<[u32; LANES]>();
            // SAFETY: as above; any bytes are a valid array, alignment is not needed.
            let words = unsafe { step.read_unaligned() };
            for (lane, word) in lanes.iter_mut().zip(words) {
                *lane += u64::from(word);
            }
            at += STEP;
        }
        sum += lanes.iter().map(|lane| (lane >> 32) + (lane & 0xffff_ffff)).sum::<u64>();
    }
    let mut tail = [0_u8; STEP];
    // SAFETY: at <= len.
    let rest = unsafe { from.add(at) };
    // SAFETY: len - at < STEP bytes are left, and `tail` is private and large enough.
    unsafe { ptr::copy_nonoverlapping(rest, tail.as_mut_ptr(), len - at) };
    for word in tail.chunks_exact(4) {
        sum += u64::from(u32::from_ne_bytes([word[0], word[1], word[2], word[3]]));
    }
    u16::from_be(fold(sum))
}

/// Adds the carries of a sum of 16-bit words, or of their sums, back in until 16 bits are left
/// (RFC 1071).
#[must_use]
pub fn fold(mut sum: u64) -> u16 {
    loop {
        match u16::try_from(sum) {
            Ok(folded) => return folded,
            Err(_) => sum = (sum >> 16) + (sum & 0xffff),
        }
    }
}
