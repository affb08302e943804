//! Reassembly of fragmented packets: IPv4 (RFC 791 3.2, RFC 815, RFC 1122 3.3.2) and IPv6 (RFC 8200
//! 4.5).
//!
//! Fragments remain in their frames until the last one has come. Then they are copied once, into
//! one buffer that looks like a packet that was never fragmented.
//!
//! Stored fragments are bounded in bytes and in frames, for the stack and for each source. A
//! datagram that would exceed a bound displaces the one that has waited longest. If the bound is a
//! source's, the displaced datagram is of that source. Real datagrams are complete within
//! milliseconds, so the datagram that has waited longest will most likely never be.
//!
//! Fragments that overlap make their datagram inconsistent (RFC 5722 3; RFC 1858 and RFC 3128 give
//! the reasons, and Linux does the same for IPv4). Exact duplicates are dropped. A discarded
//! datagram retains its entry, without frames, until its time is over, so that later fragments are
//! dropped, too.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::ops::Range;

use hashbrown::HashMap;

use crate::bytes::RxBytes;
use crate::config::ReassemblyConfig;
use crate::ip::packet::Packet;
use crate::secret::KeyedHash;
use crate::table::Handle;
use crate::time::Instant;

/// Most bytes that a length field can name.
const LONGEST: usize = 65_535;
/// Length of the IPv6 header, which its length field does not count.
const HEADER_V6: usize = 40;
/// Fragments but the last are multiples of this, bytes.
const UNIT: usize = 8;

/// Which datagram a fragment belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct DatagramKey {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) id: u32,
    /// IPv4's protocol; 0 for IPv6, where the identification alone distinguishes (RFC 8200 4.5).
    pub(crate) protocol: u8,
    /// The security association that has opened the fragment. Fragments of others, and unprotected
    /// ones, are of another datagram.
    pub(crate) secured: Option<Handle>,
}

/// A fragment and the frame it is in.
#[derive(Debug)]
pub(crate) struct Fragment<F> {
    pub(crate) key: DatagramKey,
    /// Position of its payload in the datagram's, bytes.
    pub(crate) at: usize,
    /// It is not the last fragment.
    pub(crate) more: bool,
    pub(crate) ecn: u8,
    /// The type of the payload: IPv4's protocol, or the fragment header's next header.
    pub(crate) next_header: u8,
    /// Range in the frame of the headers with which the reassembled packet starts. That is IPv4's
    /// header with its options, or IPv6's with the extension headers before the fragment header.
    pub(crate) header: Range<usize>,
    /// Its payload in the frame.
    pub(crate) payload: Range<usize>,
    /// The fragment as a packet, for complaints.
    pub(crate) packet: Packet,
    pub(crate) frame: F,
}

impl<F> Fragment<F> {
    fn end(&self) -> usize {
        self.at + self.payload.len()
    }

    /// Most payload that the reassembled packet can have.
    fn most(&self) -> usize {
        let counted = match self.key.source {
            IpAddr::V4(_) => self.header.len(),
            IpAddr::V6(_) => self.header.len().saturating_sub(HEADER_V6),
        };
        LONGEST.saturating_sub(counted)
    }
}

/// A reassembled packet: header and payload of the fragments. The header's length and fragment
/// fields are still those of the first fragment.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reassembled {
    pub(crate) bytes: Box<[u8]>,
    /// Where the payload starts in it.
    pub(crate) header_len: usize,
    /// Of the fragments together (RFC 3168 5.3).
    pub(crate) ecn: u8,
    pub(crate) next_header: u8,
}

/// The outcome of a fragment.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ReassemblyOutcome {
    /// It is stored until the others arrive.
    Stored,
    /// It was stored already.
    Duplicate,
    /// It was the missing fragment.
    Complete(Reassembled),
    /// It is empty, or it is not the last one and no multiple of 8 bytes.
    BadLength,
    /// The packet would be longer than a packet can be.
    TooLong,
    /// It contradicts the other fragments of its datagram, or belongs to a datagram that was
    /// discarded for such a fragment.
    Inconsistent,
}

/// A datagram whose reassembly timed out.
#[derive(Debug)]
pub(crate) struct ExpiredDatagram<F> {
    /// Its first fragment, if that is there.
    pub(crate) first: Option<Fragment<F>>,
}

/// When the time of a datagram is over, and a number that makes it unique.
type Deadline = (Instant, u64);

#[derive(Debug)]
struct Assembly<F> {
    due: Deadline,
    /// Ordered by position, without overlaps.
    pieces: Vec<Fragment<F>>,
    /// Payload bytes in these.
    len: usize,
    /// Payload bytes of the reassembled packet, once the last fragment has arrived.
    total: Option<usize>,
    /// Which of the four ECN values were seen, one bit each.
    ecns: u8,
    discarded: bool,
}

/// The memory that the datagrams of a source take.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct SourceUsage {
    bytes: usize,
    /// A spoilt datagram counts as one.
    frames: usize,
}

#[derive(Debug, Default)]
struct FragmentSource {
    taken: SourceUsage,
    waiting: BTreeMap<Deadline, DatagramKey>,
}

/// All incomplete datagrams of one stack.
#[derive(Debug)]
pub(crate) struct Reassembler<F> {
    assemblies: HashMap<DatagramKey, Assembly<F>, KeyedHash>,
    sources: HashMap<IpAddr, FragmentSource, KeyedHash>,
    waiting: BTreeMap<Deadline, DatagramKey>,
    taken: SourceUsage,
    limits: ReassemblyConfig,
    serial: u64,
    /// Datagrams dropped to make room for others.
    pub(crate) displaced: u64,
}

impl<F: RxBytes> Reassembler<F> {
    pub(crate) fn new(hash: KeyedHash, limits: ReassemblyConfig) -> Self {
        Self {
            assemblies: HashMap::with_hasher(hash.clone()),
            sources: HashMap::with_hasher(hash),
            waiting: BTreeMap::new(),
            taken: SourceUsage::default(),
            limits,
            serial: 0,
            displaced: 0,
        }
    }

    /// Handles a fragment. An atomic one (the first and the last at once) must not come here.
    pub(crate) fn insert(&mut self, now: Instant, fragment: Fragment<F>) -> ReassemblyOutcome {
        let len = fragment.payload.len();
        if len == 0 || fragment.more && !len.is_multiple_of(UNIT) {
            return ReassemblyOutcome::BadLength;
        }
        if fragment.end() > fragment.most() {
            return ReassemblyOutcome::TooLong;
        }
        let key = fragment.key;
        if let Some(refused) = self.assemblies.get(&key).and_then(|held| held.refuses(&fragment)) {
            if refused == ReassemblyOutcome::Inconsistent {
                self.discard(&key);
            }
            return refused;
        }
        self.make_room(key.source, fragment.frame.frame_len());
        self.add(now, fragment);
        match self.assemblies.get(&key) {
            Some(held) if held.total == Some(held.len) => self.join(&key),
            _ => ReassemblyOutcome::Stored,
        }
    }

    /// When the next datagram's time is over.
    pub(crate) fn poll_at(&self) -> Option<Instant> {
        self.waiting.first_key_value().map(|((at, _), _)| *at)
    }

    /// The next datagram whose reassembly has timed out.
    pub(crate) fn pop_expired(&mut self, now: Instant) -> Option<ExpiredDatagram<F>> {
        while self.poll_at().is_some_and(|at| at <= now) {
            let (_, key) = self.waiting.first_key_value()?;
            let mut held = self.remove(&key.clone())?;
            if !held.discarded {
                let is_first = held.pieces.first().is_some_and(|piece| piece.at == 0);
                return Some(ExpiredDatagram {
                    first: is_first.then(|| held.pieces.swap_remove(0)),
                });
            }
        }
        None
    }

    /// Adds a fragment that passed all checks.
    fn add(&mut self, now: Instant, fragment: Fragment<F>) {
        let key = fragment.key;
        if !self.assemblies.contains_key(&key) {
            let time = match key.source {
                IpAddr::V4(_) => self.limits.timeout_v4,
                IpAddr::V6(_) => self.limits.timeout_v6,
            };
            self.serial += 1;
            let due = (now + time, self.serial);
            self.waiting.insert(due, key);
            self.sources.entry(key.source).or_default().waiting.insert(due, key);
            self.assemblies.insert(key, Assembly::new(due));
        }
        let more = SourceUsage { bytes: fragment.frame.frame_len(), frames: 1 };
        self.taken.add(more);
        if let Some(source) = self.sources.get_mut(&key.source) {
            source.taken.add(more);
        }
        if let Some(held) = self.assemblies.get_mut(&key) {
            held.add(fragment);
        }
    }

    /// Displaces datagrams until one more frame of `bytes` fits.
    fn make_room(&mut self, source: IpAddr, bytes: usize) {
        let more = SourceUsage { bytes, frames: 1 };
        let own =
            SourceUsage { bytes: self.limits.source_bytes, frames: self.limits.source_frames };
        let all = SourceUsage { bytes: self.limits.bytes, frames: self.limits.frames };
        while let Some(held) = self.sources.get(&source)
            && held.taken.exceeds(more, own)
            && let Some((_, key)) = held.waiting.first_key_value()
        {
            self.displace(&key.clone());
        }
        while self.taken.exceeds(more, all)
            && let Some((_, key)) = self.waiting.first_key_value()
        {
            self.displace(&key.clone());
        }
    }

    fn displace(&mut self, key: &DatagramKey) {
        self.displaced += 1;
        self.remove(key);
    }

    /// Frees a datagram's frames, and lets it refuse all later fragments (RFC 5722 4).
    fn discard(&mut self, key: &DatagramKey) {
        let Some(held) = self.assemblies.get_mut(key) else { return };
        let before = held.taken();
        held.discarded = true;
        held.pieces = Vec::new();
        let after = held.taken();
        self.taken.replace(before, after);
        if let Some(source) = self.sources.get_mut(&key.source) {
            source.taken.replace(before, after);
        }
    }

    fn remove(&mut self, key: &DatagramKey) -> Option<Assembly<F>> {
        let held = self.assemblies.remove(key)?;
        self.waiting.remove(&held.due);
        self.taken.replace(held.taken(), SourceUsage::default());
        if let Some(source) = self.sources.get_mut(&key.source) {
            source.waiting.remove(&held.due);
            source.taken.replace(held.taken(), SourceUsage::default());
            if source.waiting.is_empty() {
                self.sources.remove(&key.source);
            }
        }
        Some(held)
    }

    /// Makes one packet of a complete datagram.
    fn join(&mut self, key: &DatagramKey) -> ReassemblyOutcome {
        let Some(held) = self.remove(key) else { return ReassemblyOutcome::Inconsistent };
        let Some(first) = held.pieces.first() else { return ReassemblyOutcome::Inconsistent };
        // The first fragment's header may be longer than those of the other fragments.
        if held.len > first.most() {
            return ReassemblyOutcome::TooLong;
        }
        let Some(ecn) = joint_ecn(held.ecns, first.ecn) else {
            return ReassemblyOutcome::Inconsistent;
        };
        let (header_len, next_header) = (first.header.len(), first.next_header);
        let mut bytes = Vec::with_capacity(header_len + held.len);
        let mut copy = |frame: &F, range: &Range<usize>| {
            let at = bytes.len();
            bytes.resize(at + range.len(), 0);
            frame.read(range.start, bytes.get_mut(at..).unwrap_or_default());
        };
        copy(&first.frame, &first.header);
        held.pieces.iter().for_each(|piece| copy(&piece.frame, &piece.payload));
        if bytes.len() != header_len + held.len {
            return ReassemblyOutcome::BadLength;
        }
        ReassemblyOutcome::Complete(Reassembled {
            bytes: bytes.into_boxed_slice(),
            header_len,
            ecn,
            next_header,
        })
    }
}

/// RFC 3168 5.3: a mark on one fragment marks the reassembled packet. A mark beside a fragment that
/// could not be marked is forged.
fn joint_ecn(seen: u8, first: u8) -> Option<u8> {
    const NOT_ECT: u8 = 0b00;
    const CE: u8 = 0b11;
    match (seen & 1 << CE != 0, seen & 1 << NOT_ECT != 0) {
        (true, true) => None,
        (true, false) => Some(CE),
        (false, true) => Some(NOT_ECT),
        (false, false) => Some(first),
    }
}

impl<F: RxBytes> Assembly<F> {
    fn new(due: Deadline) -> Self {
        Self { due, pieces: Vec::new(), len: 0, total: None, ecns: 0, discarded: false }
    }

    /// The reason to refuse `new`.
    fn refuses(&self, new: &Fragment<F>) -> Option<ReassemblyOutcome> {
        if self.discarded {
            return Some(ReassemblyOutcome::Inconsistent);
        }
        let at = self.pieces.partition_point(|piece| piece.at < new.at);
        let before = at.checked_sub(1).and_then(|before| self.pieces.get(before));
        let after = self.pieces.get(at);
        if after.is_some_and(|a| a.at == new.at && a.end() == new.end() && a.more == new.more) {
            return Some(ReassemblyOutcome::Duplicate);
        }
        let overlaps = before.is_some_and(|before| before.end() > new.at)
            || after.is_some_and(|after| after.at < new.end());
        let ends_otherwise = match self.total {
            Some(total) => new.end() > total || !new.more && new.end() != total,
            None => !new.more && self.pieces.last().is_some_and(|last| last.end() > new.end()),
        };
        (overlaps || ends_otherwise).then_some(ReassemblyOutcome::Inconsistent)
    }

    fn add(&mut self, new: Fragment<F>) {
        self.len += new.payload.len();
        self.ecns |= 1 << (new.ecn & 3);
        if !new.more {
            self.total = Some(new.end());
        }
        let at = self.pieces.partition_point(|piece| piece.at < new.at);
        self.pieces.insert(at, new);
    }

    fn taken(&self) -> SourceUsage {
        let bytes = self.pieces.iter().map(|piece| piece.frame.frame_len()).sum();
        SourceUsage { bytes, frames: self.pieces.len() + usize::from(self.discarded) }
    }
}

impl SourceUsage {
    fn add(&mut self, more: Self) {
        self.bytes += more.bytes;
        self.frames += more.frames;
    }

    fn replace(&mut self, before: Self, after: Self) {
        self.bytes = (self.bytes + after.bytes).saturating_sub(before.bytes);
        self.frames = (self.frames + after.frames).saturating_sub(before.frames);
    }

    /// Whether `more` would go over `limit`.
    fn exceeds(self, more: Self, limit: Self) -> bool {
        self.bytes + more.bytes > limit.bytes || self.frames + more.frames > limit.frames
    }
}

#[cfg(test)]
mod tests;
