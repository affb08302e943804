//! Generic segmentation offload, as Linux's. The stack leaves work of a frame to the device. Work
//! that the device does not do is done here, just before the frame leaves. So the stack makes one
//! super-segment instead of tens of segments, for every device. The work for each frame, from TCP
//! down to the rings, is done once for all of them.
//!
//! Nothing is copied for it. Each segment gets headers of its own out of those of the super-segment
//! ([`superframe::adapt`]: lengths, identification, sequence number, and flags that only the first
//! or the last has). Its payload is named where it lies, and the checksum is summed over those
//! bytes. A client that writes to them meanwhile spoils its own frame.
//!
//! A device may have no room in the midst of a super-segment. The sent part is remembered, and the
//! rest goes when the same frame is offered again. If the device refuses one segment with an error,
//! the rest is given up with it, as frames on a link that fails.

use std::io;

use abi::offload::{Checksum, Features, SegmentKind, Segments, TxOffload};
use shm::{checksum, fold};

use crate::device::{Device, MAX_PARTS, Part, frame_len};
use crate::error::BadFrame;
use crate::superframe::{self, Headers, SegmentPosition};

/// Where TCP and UDP have their checksum.
const TCP_SUM: u8 = 16;
const UDP_SUM: u8 = 6;

/// The work that the device leaves to us for a frame.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SegmentationWork {
    /// Nothing: the device does all that is left.
    None,
    /// The checksum.
    Sum(Checksum),
    /// Segments of so many bytes of payload.
    Segment(Headers, usize),
}

/// The frame at hand, as far as the device has taken it.
#[derive(Debug)]
pub(crate) struct Gso {
    /// The device's own offloads.
    device: Features,
    /// A head as it leaves; a frame's own is never longer than a page.
    head: Box<[u8]>,
    /// Payload bytes, and segments, that are out.
    done: usize,
    count: u16,
    /// Super-segments that were cut.
    pub(crate) cut: u64,
}

/// How far a frame was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TransmitProgress {
    /// The device has all of it; else it has no room, and the same frame is to be offered again.
    pub(crate) whole: bool,
    /// Frames that the device took, and their bytes.
    pub(crate) frames: usize,
    pub(crate) bytes: usize,
}

impl Gso {
    /// For a device that does `device` itself.
    pub(crate) fn new(device: Features) -> Self {
        let head = vec![0; shm::PAGE].into_boxed_slice();
        Self { device, head, done: 0, count: 0, cut: 0 }
    }

    /// The work for the unsent part of a frame. Frames given to the device have at most `longest`
    /// bytes.
    ///
    /// # Errors
    /// The frame does not fit its offload, or its segments are too long.
    pub(crate) fn work(
        &self,
        frame: &[Part<'_>],
        offload: &TxOffload,
        longest: usize,
    ) -> Result<SegmentationWork, BadFrame> {
        let TxOffload { checksum, segments } = *offload;
        let head = frame.first().map_or(&[][..], Part::head);
        let sums = self.device.has(Features::TX_CHECKSUM);
        let Some(Segments { kind, size }) = segments else {
            let Some(sum) = checksum.filter(|_| !sums) else { return Ok(SegmentationWork::None) };
            let end = usize::from(sum.start) + usize::from(sum.offset) + 2;
            let fits = end <= head.len() && head.len() <= self.head.len();
            return if fits { Ok(SegmentationWork::Sum(sum)) } else { Err(BadFrame::Offload) };
        };
        let cuts = match kind {
            SegmentKind::Tcp4 => Features::TSO4,
            SegmentKind::Tcp6 => Features::TSO6,
        };
        if sums && self.device.has(cuts) {
            return Ok(SegmentationWork::None);
        }
        let headers = superframe::find(head).ok_or(BadFrame::Offload)?;
        let same = !headers.udp && headers.ipv6 == (kind == SegmentKind::Tcp6);
        let place = checksum.map(|sum| (usize::from(sum.start), sum.offset));
        // All headers are in the first part, and nothing else.
        let alone = headers.payload == head.len() && head.len() <= self.head.len();
        if !same || !alone || size == 0 || place != Some((headers.transport, TCP_SUM)) {
            return Err(BadFrame::Offload);
        }
        let fits = headers.payload + usize::from(size) <= longest;
        let work = SegmentationWork::Segment(headers, size.into());
        fits.then_some(work).ok_or(BadFrame::Length)
    }

    /// Sends a frame, or the unsent part of it.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn transmit<D: Device>(
        &mut self,
        device: &mut D,
        frame: &[Part<'_>],
        offload: TxOffload,
        work: SegmentationWork,
    ) -> io::Result<TransmitProgress> {
        match work {
            SegmentationWork::None => {
                let whole = device.transmit(frame, offload)?;
                Ok(TransmitProgress::one(whole, frame))
            }
            SegmentationWork::Sum(sum) => self.summed(device, frame, sum),
            SegmentationWork::Segment(headers, size) => {
                let cut = self.segments(device, frame, &headers, size);
                if cut.as_ref().map_or(true, |passed| passed.whole) {
                    (self.done, self.count) = (0, 0);
                    self.cut += 1;
                }
                cut
            }
        }
    }

    /// Sends a frame whose checksum is completed here.
    fn summed<D: Device>(
        &mut self,
        device: &mut D,
        frame: &[Part<'_>],
        sum: Checksum,
    ) -> io::Result<TransmitProgress> {
        let mut parts = [Part::EMPTY; MAX_PARTS];
        let parts = &mut parts[..frame.len().min(MAX_PARTS)];
        parts.copy_from_slice(&frame[..parts.len()]);
        let Some((head, body)) = parts.split_first_mut() else {
            return Ok(TransmitProgress::NOTHING);
        };
        let own = &mut self.head[..head.len()];
        own.copy_from_slice(head.head());
        complete(own, sum.start.into(), sum.offset.into(), 0, body);
        *head = Part::local(own);
        let whole = device.transmit(parts, TxOffload::NONE)?;
        Ok(TransmitProgress::one(whole, parts))
    }

    fn segments<D: Device>(
        &mut self,
        device: &mut D,
        frame: &[Part<'_>],
        headers: &Headers,
        size: usize,
    ) -> io::Result<TransmitProgress> {
        let Some((head, body)) = frame.split_first() else { return Ok(TransmitProgress::NOTHING) };
        let own = &mut self.head[..headers.payload];
        let all = frame_len(body);
        let mut passed = TransmitProgress::NOTHING;
        // One segment at least: of no payload there is one without.
        while passed.frames == 0 || self.done < all {
            let len = (all - self.done.min(all)).min(size);
            own.copy_from_slice(head.head());
            let last = self.done + len >= all;
            let cut = SegmentPosition { size: len, done: self.done, count: self.count, last };
            superframe::adapt(own, headers, &cut);
            let mut parts = [Part::EMPTY; MAX_PARTS];
            let count = pick(body, self.done, len, &mut parts[1..]);
            complete(own, headers.transport, TCP_SUM.into(), all - len, &parts[1..=count]);
            parts[0] = Part::local(own);
            if !device.transmit(&parts[..=count], TxOffload::NONE)? {
                return Ok(TransmitProgress { whole: false, ..passed });
            }
            self.done += len;
            self.count = self.count.wrapping_add(1);
            passed.frames += 1;
            passed.bytes += headers.payload + len;
        }
        Ok(passed)
    }
}

impl TransmitProgress {
    const NOTHING: Self = Self { whole: true, frames: 0, bytes: 0 };

    fn one(whole: bool, frame: &[Part<'_>]) -> Self {
        match whole {
            true => Self { whole, frames: 1, bytes: frame_len(frame) },
            false => Self { whole, ..Self::NOTHING },
        }
    }
}

/// Completes the checksum of all bytes from `start` on; it lies at `start + offset`. Its place
/// holds the sum of the pseudo-header of a packet that is longer by `longer` bytes.
fn complete(head: &mut [u8], start: usize, offset: usize, longer: usize, body: &[Part<'_>]) {
    let place = start + offset..start + offset + 2;
    // RFC 1624: the length in the pseudo-header is one of the words that were added.
    let longer = u16::try_from(longer).unwrap_or(u16::MAX);
    let mut sum = u32::from(checksum(&head[start..])) + u32::from(!longer);
    let mut odd = (head.len() - start) % 2 == 1;
    for part in body {
        let of_part = part.checksum();
        sum += u32::from(if odd { of_part.swap_bytes() } else { of_part });
        odd ^= part.len() % 2 == 1;
    }
    let mut sum = !fold(sum.into());
    if sum == 0 && offset == usize::from(UDP_SUM) {
        // RFC 768: zero says that there is none.
        sum = u16::MAX;
    }
    head[place].copy_from_slice(&sum.to_be_bytes());
}

/// Names `len` bytes of `body` from `from` on; how many parts they are.
fn pick<'a>(body: &[Part<'a>], mut from: usize, mut len: usize, into: &mut [Part<'a>]) -> usize {
    let mut count = 0;
    for part in body {
        let here = part.len();
        if from >= here {
            from -= here;
            continue;
        }
        if len == 0 {
            break;
        }
        let take = (here - from).min(len);
        // There are no more parts than in the frame itself.
        into[count] = part.slice(from, take);
        count += 1;
        len -= take;
        from = 0;
    }
    count
}
