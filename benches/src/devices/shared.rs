//! The memory that a packet socket shares with the kernel: a ring to send by (TPACKET_V2), and one
//! to receive by (TPACKET_V3). Tasuki's driver has the receive ring of version 2.

use std::io;
use std::mem;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::{MapFlags, ProtFlags};

use super::frames::{Places, TOGETHER, set_option};

/// Bytes of a slot to send by, and of a block to receive by.
const SLOT: usize = 2048;
const BLOCK: usize = 1 << 16;
const BLOCKS: usize = 64;
const LEN: usize = BLOCK * BLOCKS;
/// Milliseconds after which a block is given away that is not full: the least that there are.
const RETIRE: u32 = 1;
/// Where virtio's header is in a slot to send by.
const DATA: usize = libc::TPACKET2_HDRLEN - mem::size_of::<libc::sockaddr_ll>();

/// A ring, mapped.
pub(super) struct Shared {
    socket: OwnedFd,
    map: *mut u8,
    /// The next slot or block.
    next: usize,
}

impl Shared {
    /// Of frames to send.
    pub(super) fn to_send(socket: OwnedFd) -> io::Result<Self> {
        set_option(&socket, libc::PACKET_VERSION, &libc::tpacket_versions::TPACKET_V2)?;
        let ring = libc::tpacket_req {
            tp_block_size: BLOCK as u32,
            tp_block_nr: BLOCKS as u32,
            tp_frame_size: SLOT as u32,
            tp_frame_nr: (LEN / SLOT) as u32,
        };
        set_option(&socket, libc::PACKET_TX_RING, &ring)?;
        Self::map(socket)
    }

    /// Of received frames.
    pub(super) fn to_receive(socket: OwnedFd) -> io::Result<Self> {
        set_option(&socket, libc::PACKET_VERSION, &libc::tpacket_versions::TPACKET_V3)?;
        let ring = libc::tpacket_req3 {
            tp_block_size: BLOCK as u32,
            tp_block_nr: BLOCKS as u32,
            tp_frame_size: SLOT as u32,
            tp_frame_nr: (LEN / SLOT) as u32,
            tp_retire_blk_tov: RETIRE,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        set_option(&socket, libc::PACKET_RX_RING, &ring)?;
        Self::map(socket)
    }

    fn map(socket: OwnedFd) -> io::Result<Self> {
        let (protection, kind) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        let any = std::ptr::null_mut();
        // SAFETY: a new mapping at an address that the kernel chooses touches no other memory.
        let map = unsafe { rustix::mm::mmap(any, LEN, protection, kind, socket.as_fd(), 0) }?;
        Ok(Self { socket, map: map.cast(), next: 0 })
    }

    /// The word at an offset.
    fn word(&self, at: usize) -> &AtomicU32 {
        assert!(at.is_multiple_of(4) && at + 4 <= LEN, "a word of the ring");
        // SAFETY: the word is inside of the mapping, which lives as long as `self`, and aligned.
        // The kernel uses it atomically, too.
        unsafe { AtomicU32::from_ptr(self.map.wrapping_add(at).cast()) }
    }

    /// Puts `count` copies of a frame, its header included, into the ring. One call sends each
    /// [`TOGETHER`] of them.
    pub(super) fn send(&mut self, frame: &[u8], count: usize) -> io::Result<()> {
        assert!(DATA + frame.len() <= SLOT, "a frame is no longer than a slot");
        for number in 1..=count {
            let at = self.next * SLOT;
            self.next = (self.next + 1) % (LEN / SLOT);
            if self.word(at).load(Ordering::Acquire) != libc::TP_STATUS_AVAILABLE {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            // SAFETY: the slot is inside of the mapping, has room for the frame, and is ours.
            unsafe { self.map.wrapping_add(at + DATA).copy_from(frame.as_ptr(), frame.len()) };
            // tp_len
            self.word(at + 4).store(frame.len() as u32, Ordering::Relaxed);
            self.word(at).store(libc::TP_STATUS_SEND_REQUEST, Ordering::Release);
            if number % TOGETHER == 0 || number == count {
                rustix::net::send(&self.socket, &[], rustix::net::SendFlags::DONTWAIT)?;
            }
        }
        Ok(())
    }

    /// Waits until the kernel has given away blocks with so many frames.
    pub(super) fn wait(&self, count: usize) {
        loop {
            let (mut block, mut frames) = (self.next, 0);
            while frames < count && self.is_ours(block) {
                frames += self.frames(block);
                block = (block + 1) % BLOCKS;
            }
            if frames >= count {
                return;
            }
        }
    }

    /// `block_status` and `num_pkts` of a block are behind its version and an offset.
    fn is_ours(&self, block: usize) -> bool {
        self.word(block * BLOCK + 8).load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    fn frames(&self, block: usize) -> usize {
        self.word(block * BLOCK + 12).load(Ordering::Relaxed) as usize
    }

    /// Copies out the frames of all blocks that the kernel has given away, and gives the blocks
    /// back. Returns the number of frames.
    pub(super) fn receive(&mut self, places: &mut Places) -> usize {
        let mut sum = 0;
        while self.is_ours(self.next) {
            let base = self.next * BLOCK;
            let number = |at| self.word(at).load(Ordering::Relaxed) as usize;
            // offset_to_first_pkt
            let mut at = base + number(base + 16);
            for _ in 0..self.frames(self.next) {
                // tp_snaplen; tp_mac, the first half of its word
                let (len, frame) = (number(at + 12), at + (number(at + 24) & 0xffff));
                let into = places.next();
                let len = len.min(into.len());
                assert!(frame + len <= LEN, "a frame is inside of the ring");
                // SAFETY: the frame is inside of the mapping and ours, `into` has room for it.
                unsafe { into.as_mut_ptr().copy_from(self.map.wrapping_add(frame), len) };
                // tp_next_offset
                at += number(at);
                sum += 1;
            }
            self.word(base + 8).store(libc::TP_STATUS_KERNEL, Ordering::Release);
            self.next = (self.next + 1) % BLOCKS;
        }
        sum
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no reference into it outlives `self`.
        let _ = unsafe { rustix::mm::munmap(self.map.cast(), LEN) };
    }
}
