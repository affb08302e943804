//! The receiving queue of a socket: descriptors, and one copy out of the areas they name.
//!
//! A stream's descriptor may be taken in parts.

use std::io::IoSliceMut;
use std::net::SocketAddr;

use abi::ancillary::RecvAncillary;
use abi::client::QUEUE;
use abi::data::{DataDescriptor, DataFlags};
use shm::{Consumer, OutOfRange, Region};

use super::core::SocketCore;
use super::held_parts::HeldParts;
use super::urgent::UrgentAhead;
use crate::error::RegionFault;
use crate::membership::Membership;

/// So many bytes taken are always worth a bell.
const ALWAYS: u64 = 32 * 1024;
/// Fewer bytes taken are worth no bell, unless the receive buffer was made small. It is far less
/// than the smallest default buffer, and more than most answers of request-response programs.
pub(super) const DEFAULT_BELL_THRESHOLD: u32 = 4096;
/// So many descriptors taken are worth a bell: the server may be waiting for room in a full queue.
const SLOTS: u32 = QUEUE / 2;

/// The result of a receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Received {
    /// Bytes put into the buffers. 0 on a stream: the end, unless the buffers are empty.
    pub len: usize,
    /// The datagram's own length, which is above `len` when the buffers were too small (MSG_TRUNC).
    /// For streams the same as `len`.
    pub full_len: usize,
    /// The sender of the datagram. Streams: `None`.
    pub from: Option<SocketAddr>,
    /// How it came, if an option of the socket asks for it ([`abi::ancillary::AncillarySet`]).
    pub ancillary: Option<RecvAncillary>,
}

/// See the module's head. Behind the socket's receive lock.
pub(super) struct RecvQueue {
    pub(super) queue: Consumer,
    /// Bytes of the oldest descriptor that are taken already.
    pub(super) taken: u32,
    /// Bytes of a stream, or datagrams, that the program has taken.
    pub(super) consumed: u64,
    /// Parts that the program reads in place; `rx_consumed` stays behind them.
    pub(super) held: HeldParts,
    /// Bytes and descriptors taken since the server was last rung for it.
    pub(super) quiet_bytes: u64,
    pub(super) quiet_slots: u32,
}

impl RecvQueue {
    pub(super) fn attach(core: &SocketCore) -> Result<Self, OutOfRange> {
        let server = &core.membership.server;
        let offset = server.layout().rx_queue(core.id.index);
        Ok(Self {
            queue: Consumer::attach(server.region(), offset, QUEUE)?,
            taken: 0,
            consumed: 0,
            held: HeldParts::default(),
            quiet_bytes: 0,
            quiet_slots: 0,
        })
    }

    pub(super) fn consumed(&self) -> u64 {
        self.consumed
    }

    pub(super) fn descriptor(&mut self, n: u32) -> Result<Option<DataDescriptor>, RegionFault> {
        Ok(self.queue.peek_at(n)?.map(|slot| DataDescriptor::decode(&slot)).transpose()?)
    }

    /// Copies the bytes of a stream into `into`, up to an urgent byte, and returns how many. An
    /// urgent byte that comes first is skipped. `ahead` gives the urgent marks from a position on.
    /// It is called after the bytes there were seen.
    pub(super) fn read_stream(
        &mut self,
        membership: &Membership,
        into: &mut RecvBuffers<'_, '_>,
        peek: bool,
        ahead: impl Fn(u64) -> UrgentAhead,
    ) -> Result<usize, RegionFault> {
        let (mut got, mut passed, mut number, mut taken) = (0, 0, 0, self.taken);
        while into.left > 0 {
            let Some(descriptor) = self.descriptor(number)? else { break };
            let left =
                descriptor.len.checked_sub(taken).filter(|&left| left > 0).ok_or(RegionFault)?;
            let (most, pass) = match ahead(self.consumed + got + passed) {
                UrgentAhead::Nothing => (u32::MAX, false),
                UrgentAhead::Mark(0) | UrgentAhead::Hidden if got > 0 => break,
                UrgentAhead::Mark(0) => (u32::MAX, false),
                UrgentAhead::Hidden => (1, true),
                UrgentAhead::Mark(bytes) => (u32::try_from(bytes).unwrap_or(u32::MAX), false),
            };
            let room = u32::try_from(into.left).unwrap_or(u32::MAX);
            let now = left.min(most).min(room);
            if pass {
                passed += 1;
            } else {
                let offset = descriptor.offset.checked_add(taken).ok_or(RegionFault)?;
                let (pool, area) = (membership.pool_of(&descriptor)?, descriptor.area);
                let at = pool.borrow(area, offset, now)?;
                into.copy(membership, (pool.region(), at), now as usize)?;
                got += u64::from(now);
            }
            taken += now;
            if taken == descriptor.len {
                taken = 0;
                if peek {
                    number += 1;
                } else {
                    self.queue.advance();
                    self.quiet_slots += 1;
                }
            }
        }
        if !peek {
            self.taken = taken;
            self.consumed += got + passed;
            self.quiet_bytes += got + passed;
        }
        // No more than the length of the buffers.
        Ok(usize::try_from(got).unwrap_or(usize::MAX))
    }

    /// The byte of a stream after so many that were not taken, if it is there.
    pub(super) fn byte_after(
        &mut self,
        membership: &Membership,
        bytes: u64,
    ) -> Result<Option<u8>, RegionFault> {
        let (mut left, mut taken, mut number) = (bytes, self.taken, 0);
        while let Some(descriptor) = self.descriptor(number)? {
            let here = descriptor.len.checked_sub(taken).ok_or(RegionFault)?;
            if left < here.into() {
                let skip = taken + u32::try_from(left)?;
                let offset = descriptor.offset.checked_add(skip).ok_or(RegionFault)?;
                let pool = membership.pool_of(&descriptor)?;
                let at = pool.borrow(descriptor.area, offset, 1)?;
                let mut byte = [0];
                pool.region().read(at, &mut byte)?;
                return Ok(Some(byte[0]));
            }
            (left, taken, number) = (left - u64::from(here), 0, number + 1);
        }
        Ok(None)
    }

    /// Copies the oldest datagram, or as much of it as there is room for.
    pub(super) fn read_datagram(
        &mut self,
        membership: &Membership,
        into: &mut RecvBuffers<'_, '_>,
        peek: bool,
    ) -> Result<Option<Received>, RegionFault> {
        let Some(descriptor) = self.descriptor(0)? else { return Ok(None) };
        let ancillary = match descriptor.flags.has(DataFlags::ANCILLARY) {
            false => None,
            true => Some(RecvAncillary::decode(&self.queue.peek_at(1)?.ok_or(RegionFault)?)?),
        };
        let full_len = descriptor.len as usize;
        let len = full_len.min(into.left);
        if len > 0 {
            // All its bytes must exist, not only the copied ones.
            let pool = membership.pool_of(&descriptor)?;
            let at = pool.borrow(descriptor.area, descriptor.offset, descriptor.len)?;
            into.copy(membership, (pool.region(), at), len)?;
        }
        if !peek {
            let slots = 1 + u32::from(ancillary.is_some());
            self.queue.advance_by(slots);
            self.quiet_slots += slots;
            self.consumed += 1;
            self.quiet_bytes += u64::from(descriptor.len);
        }
        Ok(Some(Received { len, full_len, from: descriptor.peer, ancillary }))
    }

    /// Was so much taken without a bell that a peer may be waiting for room? `outstanding` counts
    /// the bytes that the server believes to be unread. `bell_threshold` is
    /// [`DEFAULT_BELL_THRESHOLD`], or less.
    ///
    /// A closed window holds the peer up. The rest of the buffer keeps the window open: bytes taken
    /// without a bell are fewer than `bell_threshold`, or than a quarter of the bytes that the
    /// server counts as unread.
    pub(super) fn is_worth_a_bell(&self, outstanding: u64, bell_threshold: u32) -> bool {
        self.quiet_slots >= SLOTS
            || self.quiet_bytes >= ALWAYS
            || (self.quiet_bytes >= u64::from(bell_threshold)
                && self.quiet_bytes >= outstanding / 4)
    }
}

/// The part of a list of buffers that is still to be filled.
pub(super) struct RecvBuffers<'a, 'b> {
    bufs: &'a mut [IoSliceMut<'b>],
    index: usize,
    at: usize,
    pub(super) left: usize,
}

impl<'a, 'b> RecvBuffers<'a, 'b> {
    pub(super) fn new(bufs: &'a mut [IoSliceMut<'b>]) -> Self {
        let left = bufs.iter().fold(0_usize, |sum, buf| sum.saturating_add(buf.len()));
        Self { bufs, index: 0, at: 0, left }
    }

    /// Fills the next `len` bytes (at most `left`) from the region.
    fn copy(
        &mut self,
        membership: &Membership,
        (region, mut from): (&Region, usize),
        mut len: usize,
    ) -> Result<(), RegionFault> {
        membership.server.count_copied_rx(len);
        while len > 0 {
            let buf = self.bufs.get_mut(self.index).ok_or(RegionFault)?;
            let room = buf.get_mut(self.at..).unwrap_or_default();
            if room.is_empty() {
                (self.index, self.at) = (self.index + 1, 0);
                continue;
            }
            let now = len.min(room.len());
            region.read(from, room.get_mut(..now).unwrap_or_default())?;
            (from, len) = (from + now, len - now);
            self.at += now;
            self.left -= now;
        }
        Ok(())
    }
}
