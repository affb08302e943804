//! What EXTENDED COPY can do: the limits that RECEIVE COPY RESULTS reports, and the Third-party
//! Copy page (SPC-4 6.4, 6.18, 7.8.17).

/// Most target descriptors (CSCD descriptors) of a copy.
pub(crate) const MOST_TARGETS: usize = 16;
/// Most segment descriptors of a copy.
pub(crate) const MOST_SEGMENTS: usize = 64;
/// Most bytes of both lists of descriptors.
pub(crate) const MOST_DESCRIPTOR_BYTES: usize = 32 * MOST_TARGETS + 32 * MOST_SEGMENTS;
/// Most bytes of a segment.
pub(crate) const MOST_SEGMENT_BYTES: u32 = 256 << 20;

/// The identification descriptor of a target (SPC-4 6.4.4.4).
pub(crate) const IDENTIFICATION: u8 = 0xe4;
/// Copy blocks to blocks (SPC-4 6.4.5.4).
pub(crate) const BLOCKS: u8 = 0x02;
/// Copy blocks to blocks, with byte offsets (SPC-4 6.4.5.12).
pub(crate) const BLOCKS_WITH_OFFSETS: u8 = 0x0a;

/// The descriptors that a copy may have, in ascending order.
pub(crate) const DESCRIPTORS: [u8; 3] = [BLOCKS, BLOCKS_WITH_OFFSETS, IDENTIFICATION];

/// The body of the Third-party Copy page: each descriptor is padded to whole words.
pub(crate) fn page() -> Vec<u8> {
    let mut page = Vec::new();
    let mut descriptor = |kind: u16, body: &[u8]| {
        let length = body.len().next_multiple_of(4);
        page.extend(kind.to_be_bytes());
        page.extend(u16::try_from(length).unwrap_or(0).to_be_bytes());
        page.extend(body);
        page.resize(page.len() + length - body.len(), 0);
    };
    // SPC-4 7.8.17.4 Supported Commands: EXTENDED COPY, RECEIVE COPY RESULTS.
    descriptor(0x0001, &[9, 0x83, 1, 0x00, 0x84, 4, 0x00, 0x01, 0x03, 0x04]);
    // SPC-4 7.8.17.5 Parameter Data.
    let mut limits = vec![0; 28];
    limits[4..6].copy_from_slice(&as16(MOST_TARGETS));
    limits[6..8].copy_from_slice(&as16(MOST_SEGMENTS));
    let bytes = u32::try_from(MOST_DESCRIPTOR_BYTES).unwrap_or(0);
    limits[8..12].copy_from_slice(&bytes.to_be_bytes());
    descriptor(0x0004, &limits);
    // SPC-4 7.8.17.6 Supported Descriptors.
    descriptor(0x0008, &[3, BLOCKS, BLOCKS_WITH_OFFSETS, IDENTIFICATION]);
    // SPC-4 7.8.17.9 General Copy Operations: one copy at a time for a task, bytes.
    let mut general = vec![0; 32];
    general[0..4].copy_from_slice(&128_u32.to_be_bytes());
    general[4..8].copy_from_slice(&16_u32.to_be_bytes());
    general[8..12].copy_from_slice(&MOST_SEGMENT_BYTES.to_be_bytes());
    general[12] = 9;
    descriptor(0x8001, &general);
    page
}

fn as16(value: usize) -> [u8; 2] {
    u16::try_from(value).unwrap_or(u16::MAX).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_fill_the_page() {
        let page = page();
        let mut rest = &page[..];
        let mut kinds = Vec::new();
        while let [high, low, long, length, after @ ..] = rest {
            let length = usize::from(u16::from_be_bytes([*long, *length]));
            assert_eq!(length % 4, 0);
            kinds.push((u16::from_be_bytes([*high, *low]), length));
            rest = &after[length..];
        }
        assert!(rest.is_empty());
        assert_eq!(kinds, [(0x0001, 12), (0x0004, 28), (0x0008, 4), (0x8001, 32)]);
        assert_eq!(page[4..14], [9, 0x83, 1, 0x00, 0x84, 4, 0x00, 0x01, 0x03, 0x04]);
    }
}
