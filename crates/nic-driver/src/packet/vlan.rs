//! VLAN tags, which the kernel takes out of frames and reports apart.

/// Length of a VLAN tag, and where it is in a frame.
pub(super) const TAG: usize = 4;
const TAG_AT: usize = 12;

/// A VLAN tag that the kernel took out of a frame, as its status says.
pub(super) fn vlan_tag(status: u32, identifier: u16, protocol: u16) -> Option<[u8; TAG]> {
    let known = status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
    let [a, b] = if known { protocol } else { libc::ETH_P_8021Q as u16 }.to_be_bytes();
    let [c, d] = identifier.to_be_bytes();
    (status & libc::TP_STATUS_VLAN_VALID != 0).then_some([a, b, c, d])
}

/// Puts a tag back into a frame of `len` bytes; its new length.
pub(super) fn put_tag(frame: &mut [u8], len: usize, tag: [u8; TAG]) -> usize {
    let kept = len.min(frame.len().saturating_sub(TAG));
    if kept >= TAG_AT {
        frame.copy_within(TAG_AT..kept, TAG_AT + TAG);
        frame[TAG_AT..TAG_AT + TAG].copy_from_slice(&tag);
    }
    len + TAG
}
