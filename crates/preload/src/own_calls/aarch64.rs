//! System calls in code of AArch64: `svc #0`, with the number in X8.
//!
//! All instructions have four bytes and lie at multiples of four.

use super::loaded::Loaded;

/// `svc #0`.
pub(super) const INSTRUCTION: [u8; 4] = 0xd400_0001_u32.to_le_bytes();
/// Instructions lie at multiples of this.
pub(super) const ALIGNMENT: usize = 4;
/// Instructions before a call in which the number is loaded.
const REACH: usize = 12;
/// The register of the number.
const X8: u32 = 8;

/// The number that the call behind `before` has.
pub(super) fn loaded(before: &[u8]) -> Option<Loaded> {
    let words = before.rchunks_exact(4).take(REACH).filter_map(|word| word.first_chunk());
    let found = words.map(|word| u32::from_le_bytes(*word)).find_map(|word| match word {
        // movz: 16 bits of a number, not shifted.
        _ if word & 0x7fe0_001f == 0x5280_0000 | X8 => Some(Loaded::Number(word >> 5 & 0xffff)),
        // orr of a register with nothing, which is mov; ldr; ldur; ldp into X8.
        _ if word & 0x7fe0_ffff == 0x2a00_03e0 | X8 => Some(Loaded::Unknown),
        _ if word & 0xbfc0_001f == 0xb940_0000 | X8 => Some(Loaded::Unknown),
        _ => None,
    });
    // What four aligned bytes call is a call.
    Some(found.unwrap_or(Loaded::Unknown))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(words: &[u32]) -> Option<Loaded> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        loaded(&bytes)
    }

    #[test]
    fn numbers_in_front_of_a_call() {
        // mov x8, #22; mov x5, x9
        assert_eq!(known(&[0xd280_02c8, 0xaa09_03e5]), Some(Loaded::Number(22)));
        // mov w8, #64
        assert_eq!(known(&[0x5280_0808]), Some(Loaded::Number(64)));
        // mov x8, x0; ldr x8, [sp, #8]
        assert_eq!(known(&[0xaa00_03e8]), Some(Loaded::Unknown));
        assert_eq!(known(&[0xd280_02c8, 0xf940_07e8]), Some(Loaded::Unknown));
        assert_eq!(known(&[]), Some(Loaded::Unknown));
    }
}
