//! Received frames in memory that the kernel and the driver share (TPACKET_V2).
//!
//! The ring is an array of slots, which the kernel fills in turn. The first word of a slot names
//! its owner. The slot is the kernel's until the kernel sets TP_STATUS_USER, and ours until we set
//! TP_STATUS_KERNEL. Behind the word are lengths and offsets, then virtio's header, then the frame.
//! So receiving a frame means reading memory. The kernel's copy into the slot is made at the
//! frame's origin: over a virtual cable, on the processor of the other end.
//!
//! Slots are as long as the frames of the interface's MTU need. The other end of a virtual cable
//! makes longer frames with its segmentation offload. The kernel puts such a frame into the
//! socket's queue, and marks that in the next slot (PACKET_COPY_THRESH, TP_STATUS_COPY). So frames
//! of ring and queue keep their order. Version 3 packs frames of any length into blocks, but gives
//! a block away only when it is full or a millisecond old. Version 2 gives each frame away at once.

use std::mem;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};

use super::vlan::{TAG, vlan_tag};
use crate::device::ETHERNET_HEADER;
use crate::packet_socket::set_option;
use crate::vnet;

/// Bytes of a ring: at an MTU of 1,500 it has 4,096 slots, more than a window of 4 MiB needs.
const RING: usize = 8 << 20;
/// Bytes that the kernel puts before a frame: `tpacket2_hdr`, a `sockaddr_ll`, and virtio's header.
/// The frame begins there, aligned, if it has the shortest possible header.
const BEFORE: usize = 76;
/// Bytes of a slot's own header, which nothing else may lie in.
const HEADER: usize = mem::size_of::<libc::tpacket2_hdr>();
/// Bytes that the kernel allocates at once; slots do not cross from one to the next.
const BLOCK: usize = 1 << 16;

/// How a ring lies in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Geometry {
    /// Bytes of a slot, a power of two.
    slot: usize,
    /// Their number.
    slots: usize,
}

impl Geometry {
    fn of(mtu: u16) -> Self {
        let slot = (BEFORE + ETHERNET_HEADER + TAG + usize::from(mtu)).next_power_of_two();
        Self { slot, slots: RING / slot }
    }

    fn len(&self) -> usize {
        self.slot * self.slots
    }
}

/// Gives a packet socket a ring, or takes it away.
pub(super) fn set_ring(socket: &OwnedFd, geometry: Option<Geometry>) -> Result<(), Errno> {
    let Geometry { slot, slots } = geometry.unwrap_or(Geometry { slot: 0, slots: 0 });
    let (block, len) = if slots == 0 { (0, 0) } else { (slot.max(BLOCK), slot * slots) };
    // All are at most 2^23.
    let request = libc::tpacket_req {
        tp_block_size: block as libc::c_uint,
        tp_block_nr: len.checked_div(block).unwrap_or(0) as libc::c_uint,
        tp_frame_size: slot as libc::c_uint,
        tp_frame_nr: slots as libc::c_uint,
    };
    set_option(socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)
}

/// The ring of a socket, mapped.
#[derive(Debug)]
pub(super) struct PacketRing {
    map: *mut libc::c_void,
    geometry: Geometry,
    /// The slot that the kernel fills next, or has filled.
    next: usize,
}

// SAFETY: the mapping belongs to no thread, and the owner of the value is the ring's only reader.
unsafe impl Send for PacketRing {}

/// The contents of a slot, as the kernel wrote them.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PacketSlot<'a> {
    /// A frame: virtio's header, a VLAN tag that was taken out, and the bytes.
    Frame([u8; vnet::HEADER], Option<[u8; TAG]>, &'a [u8]),
    /// The next frame of the socket's queue.
    Queued,
    /// The beginning of a longer frame, for which the socket's queue had no room.
    Lost,
}

impl PacketRing {
    /// Makes the ring of a packet socket that has PACKET_VNET_HDR. An earlier ring of the socket
    /// goes, with all its frames: its user (in mode `library` a program that ended) left no record
    /// of the kernel's next slot.
    ///
    /// # Errors
    /// The system's, when the kernel has no such rings or no memory. The socket has no ring then.
    /// EBUSY when another process still has the earlier ring.
    pub(super) fn make(socket: &OwnedFd, mtu: u16) -> Result<Self, Errno> {
        let geometry = Geometry::of(mtu);
        set_ring(socket, None)?;
        let set = |option, value| set_option(socket, libc::SOL_PACKET, option, &value);
        set(libc::PACKET_VERSION, libc::tpacket_versions::TPACKET_V2 as libc::c_int)?;
        set(libc::PACKET_COPY_THRESH, 1)?;
        set_ring(socket, Some(geometry))?;
        Self::map(socket.as_fd(), geometry).inspect_err(|_| _ = set_ring(socket, None))
    }

    fn map(socket: BorrowedFd<'_>, geometry: Geometry) -> Result<Self, Errno> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        let (anywhere, len) = (std::ptr::null_mut(), geometry.len());
        // SAFETY: a new mapping at an address that the kernel chooses touches no other memory.
        let map = unsafe { rustix::mm::mmap(anywhere, len, protection, flags, socket, 0) }?;
        let ring = Self { map, geometry, next: 0 };
        // A forked child of a program that hosts the driver would keep the ring from its next
        // owner. SAFETY: the range is the new mapping, which no child uses: it has no stack.
        unsafe { rustix::mm::madvise(map, len, Advice::LinuxDontFork) }?;
        Ok(ring)
    }

    fn slot(&self) -> *mut libc::c_void {
        // SAFETY: `next` is below `slots`, so the slot is inside of the mapping.
        unsafe { self.map.byte_add(self.next * self.geometry.slot) }
    }

    /// The status word of the next slot, the first of it.
    fn status(&self) -> &AtomicU32 {
        // SAFETY: slots are aligned to their size, which is a power of two above four. The mapping
        // lives as long as `self`. While the slot may be the kernel's, the word is used by atomic
        // accesses only.
        unsafe { AtomicU32::from_ptr(self.slot().cast()) }
    }

    /// The next slot, if the kernel has filled it.
    pub(super) fn front(&self) -> Option<PacketSlot<'_>> {
        // The kernel wrote the slot's contents before its status.
        if self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the slot is inside of the mapping (see `slot`), and ours. The kernel writes to it
        // only after `pass` has given it back, and `pass` needs `self` exclusively.
        let bytes =
            unsafe { std::slice::from_raw_parts(self.slot().cast::<u8>(), self.geometry.slot) };
        Some(read(bytes).unwrap_or(PacketSlot::Lost))
    }

    /// Gives the slot that [`PacketRing::front`] found filled back to the kernel.
    pub(super) fn pass(&mut self) {
        self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % self.geometry.slots;
    }
}

/// The frame in a slot. `None` if lengths and offsets in the slot lead out of it.
fn read(slot: &[u8]) -> Option<PacketSlot<'_>> {
    let word = |at: usize| Some(u32::from_ne_bytes(slot.get(at..at + 4)?.try_into().ok()?));
    let short = |at: usize| Some(u16::from_ne_bytes(slot.get(at..at + 2)?.try_into().ok()?));
    let status = word(mem::offset_of!(libc::tpacket2_hdr, tp_status))?;
    if status & libc::TP_STATUS_COPY != 0 {
        return Some(PacketSlot::Queued);
    }
    let len = word(mem::offset_of!(libc::tpacket2_hdr, tp_len))?;
    let kept = word(mem::offset_of!(libc::tpacket2_hdr, tp_snaplen))? as usize;
    if kept != len as usize {
        return Some(PacketSlot::Lost);
    }
    let at = usize::from(short(mem::offset_of!(libc::tpacket2_hdr, tp_mac))?);
    let before = at.checked_sub(vnet::HEADER).filter(|before| *before >= HEADER)?;
    let header = slot.get(before..at)?.try_into().ok()?;
    let frame = slot.get(at..)?.get(..kept)?;
    let identifier = short(mem::offset_of!(libc::tpacket2_hdr, tp_vlan_tci))?;
    let protocol = short(mem::offset_of!(libc::tpacket2_hdr, tp_vlan_tpid))?;
    Some(PacketSlot::Frame(header, vlan_tag(status, identifier, protocol), frame))
}

impl Drop for PacketRing {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no reference into it outlives `self`.
        let _ = unsafe { rustix::mm::munmap(self.map, self.geometry.len()) };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn slots_hold_the_longest_frame_of_every_mtu() {
        for mtu in 68..=u16::MAX {
            let Geometry { slot, slots } = Geometry::of(mtu);
            assert!(slot.is_power_of_two() && slot >= BEFORE + 18 + usize::from(mtu), "{mtu}");
            assert!(slots >= 64 && slot * slots == RING, "{mtu}");
            assert_eq!(RING % slot.max(BLOCK), 0, "{mtu}");
        }
        assert_eq!(Geometry::of(1500), Geometry { slot: 2048, slots: 4096 });
    }

    /// A slot of 256 bytes with a header of this status, lengths, place, and VLAN tag.
    fn slot(status: u32, len: u32, kept: u32, at: u16, tag: [u16; 2]) -> [u8; 256] {
        let mut slot: [u8; 256] = std::array::from_fn(|n| n as u8);
        for (at, word) in [(0, status), (4, len), (8, kept)] {
            slot[at..at + 4].copy_from_slice(&word.to_ne_bytes());
        }
        for (to, short) in [(12, at), (24, tag[0]), (26, tag[1])] {
            slot[to..to + 2].copy_from_slice(&short.to_ne_bytes());
        }
        slot
    }

    #[test]
    fn a_slot_says_what_is_in_it() {
        let user = libc::TP_STATUS_USER;
        let plain = slot(user, 60, 60, 76, [0; 2]);
        let Some(PacketSlot::Frame(header, None, frame)) = read(&plain) else {
            panic!("it has a frame without a tag")
        };
        assert_eq!((header[0], header[9], frame[0], frame.len()), (66, 75, 76, 60));
        let tagged = slot(user | libc::TP_STATUS_VLAN_VALID, 60, 60, 76, [42, 0x88a8]);
        let tag = |slot: &[u8]| match read(slot) {
            Some(PacketSlot::Frame(_, tag, _)) => tag,
            other => panic!("{other:?}"),
        };
        assert_eq!(tag(&tagged), Some([0x81, 0, 0, 42]));
        let both = user | libc::TP_STATUS_VLAN_VALID | libc::TP_STATUS_VLAN_TPID_VALID;
        assert_eq!(tag(&slot(both, 60, 60, 76, [42, 0x88a8])), Some([0x88, 0xa8, 0, 42]));
        // A longer frame: in the queue, or nowhere.
        assert_eq!(
            read(&slot(user | libc::TP_STATUS_COPY, 999, 180, 76, [0; 2])),
            Some(PacketSlot::Queued)
        );
        assert_eq!(read(&slot(user, 999, 180, 76, [0; 2])), Some(PacketSlot::Lost));
    }

    proptest! {
        #[test]
        fn no_slot_leads_out_of_itself(
            status in any::<u32>(),
            len in prop_oneof![0..300_u32, any::<u32>()],
            same in any::<bool>(),
            other in any::<u32>(),
            at in prop_oneof![0..300_u16, any::<u16>()],
            size in 0..=256_usize,
        ) {
            let kept = if same { len } else { other };
            let slot = slot(status, len, kept, at, [0; 2]);
            let (from, to) = (u64::from(at), u64::from(at) + u64::from(kept));
            let inside = from >= (HEADER + vnet::HEADER) as u64 && to <= size as u64;
            match read(&slot[..size]) {
                Some(PacketSlot::Queued) => prop_assert!(status & libc::TP_STATUS_COPY != 0),
                Some(PacketSlot::Lost) => prop_assert!(len != kept),
                Some(PacketSlot::Frame(header, _, frame)) => {
                    prop_assert!(inside && len == kept);
                    let at = usize::from(at);
                    prop_assert_eq!(&header[..], &slot[at - vnet::HEADER..at]);
                    prop_assert_eq!(frame, &slot[at..at + frame.len()]);
                }
                None => prop_assert!(!inside),
            }
        }
    }
}
