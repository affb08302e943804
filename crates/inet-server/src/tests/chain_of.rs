//! How a driver cuts a received segment into a chain.

/// A segment with much payload, cut into that many parts; the first one has the headers. Or the
/// frame alone.
pub(super) fn chain_of(frame: &[u8], parts: usize) -> Vec<Vec<u8>> {
    const TCP: u8 = 6;
    let headers = 34 + frame.get(46).map_or(0, |offset| usize::from(offset >> 4) * 4);
    let Some(payload) = frame.get(headers..) else { return vec![frame.to_vec()] };
    if parts < 2 || payload.len() < 8 * parts || frame[12..14] != [8, 0] || frame[23] != TCP {
        return vec![frame.to_vec()];
    }
    let size = payload.len().div_ceil(parts);
    let mut cut: Vec<_> = payload.chunks(size).map(<[u8]>::to_vec).collect();
    let mut first = [&frame[..headers], &cut[0]].concat();
    let total = u16::try_from(first.len() - 14).unwrap();
    first[16..18].copy_from_slice(&total.to_be_bytes());
    first[24..26].fill(0);
    let sum = !shm::checksum(&first[14..34]);
    first[24..26].copy_from_slice(&sum.to_be_bytes());
    cut[0] = first;
    cut
}
