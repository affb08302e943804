//! The wire format (RFC 9293 3.1, 3.2; options of RFC 7323 and RFC 2018).
//!
//! [`SegmentRepr`] holds the legal values of a header. [`SegmentRepr::parse`] turns bytes into one.
//! It refuses segments that are too short or have a bad checksum. It skips unknown options (MUST-6)
//! and those of a wrong length; an impossible length ends the options (MUST-7).
//! [`SegmentRepr::emit`] writes a header whose checksum covers payload pieces that stay in place.

use core::net::IpAddr;

use smoltcp::wire::{IpProtocol, checksum};

use super::ecn_field::EcnField;
use super::fastopen_option::FastOpenOption;
use super::sack_blocks::{SackBlock, SackBlocks};
use super::seq::Seq;
use crate::{RxOffload, TxBytes, TxPiece, ip};

/// Longest header, bytes.
pub const MAX_HEADER: usize = 60;

/// Header without options, bytes.
const FIXED: usize = 20;

/// Where the checksum is in the header.
pub const CHECKSUM_AT: usize = 16;

const FIN: u16 = 0x01;
const SYN: u16 = 0x02;
const RST: u16 = 0x04;
const PSH: u16 = 0x08;
const ACK: u16 = 0x10;
const URG: u16 = 0x20;
const ECE: u16 = 0x40;
const CWR: u16 = 0x80;

const END_OF_OPTIONS: u8 = 0;
const NO_OPERATION: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;
const FAST_OPEN: u8 = 34;
/// An experiment (RFC 6994), and the number by which it is the older form of Fast Open.
const EXPERIMENT: u8 = 254;
const EXPERIMENT_FAST_OPEN: [u8; 2] = [0xf9, 0x89];

/// Largest meaningful shift (RFC 7323 2.3).
pub(super) const MAX_SCALE: u8 = 14;

/// The timestamps option (RFC 7323 3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timestamps {
    /// The sender's clock, TSval.
    pub value: u32,
    /// The last timestamp of the receiver's, TSecr; 0 if the segment has no ACK.
    pub echo: u32,
}

/// The fault of a segment that could not be parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SegmentError {
    /// Shorter than its header.
    #[error("the segment is shorter than its header")]
    Truncated,
    /// The data offset is less than the fixed header.
    #[error("the data offset is less than 5")]
    Offset,
    /// The checksum does not fit.
    #[error("bad checksum")]
    Checksum,
}

/// A segment's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SegmentRepr {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Number of the first byte, or of the SYN.
    pub seq: Seq,
    /// Next byte expected, if the ACK bit is set.
    pub ack: Option<Seq>,
    /// SYN bit.
    pub syn: bool,
    /// FIN bit.
    pub fin: bool,
    /// RST bit.
    pub rst: bool,
    /// PSH bit.
    pub psh: bool,
    /// The urgent pointer, if the URG bit is set: how far after `seq` urgent data ends.
    pub urgent: Option<u16>,
    /// Window as it is on the wire, not scaled.
    pub window: u16,
    /// Largest segment that the sender of this can take, bytes of payload.
    pub mss: Option<u16>,
    /// Shift of the sender's windows, 0..=14.
    pub window_scale: Option<u8>,
    /// SACK may be used.
    pub sack_permitted: bool,
    /// Timestamps.
    pub timestamps: Option<Timestamps>,
    /// Blocks received out of order (RFC 2018 3); at most 3 beside timestamps.
    pub sack: SackBlocks,
    /// Congestion is echoed (RFC 3168 6.1); in a SYN: ECN is asked for.
    pub ece: bool,
    /// The congestion window was reduced.
    pub cwr: bool,
    /// The ECN field of the packet. It is the IP header's, but it is decided with
    /// the rest of the segment; [`parse`](Self::parse) and [`emit`](Self::emit) do not see it.
    pub ecn: EcnField,
    /// Payload bytes of each segment that a device has joined to this one; 0 for a single segment.
    /// [`emit`](Self::emit) ignores it.
    pub joined: u16,
    /// Fast Open; on a SYN only.
    pub fast_open: Option<FastOpenOption>,
}

/// A parsed segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParsedSegment {
    /// Its header.
    pub repr: SegmentRepr,
    /// Start of its payload, bytes from the start of the segment. The payload ends with the
    /// segment.
    pub payload: usize,
}

impl SegmentRepr {
    /// Reads the segment `bytes` that came in a packet from `src` to `dst`.
    ///
    /// # Errors
    /// Its fault. Only the sender, or the network, can be the cause.
    pub fn parse(src: IpAddr, dst: IpAddr, bytes: &[u8]) -> Result<ParsedSegment, SegmentError> {
        Self::parse_with(src, dst, bytes, RxOffload::NONE)
    }

    /// Parses a segment whose `offload` is known: a verified checksum is not computed again.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn parse_with(
        src: IpAddr,
        dst: IpAddr,
        bytes: &[u8],
        offload: RxOffload,
    ) -> Result<ParsedSegment, SegmentError> {
        Self::parse_head((src, dst), bytes, bytes.len(), || checksum::data(bytes), offload)
    }

    /// As [`parse_with`](Self::parse_with), for a segment of `len` bytes, the first of which are
    /// `head`, at least up to the end of its header. `sum` gives the sum of all.
    #[inline]
    pub(crate) fn parse_head(
        (src, dst): (IpAddr, IpAddr),
        head: &[u8],
        len: usize,
        sum: impl FnOnce() -> u16,
        offload: RxOffload,
    ) -> Result<ParsedSegment, SegmentError> {
        let header: &[u8; FIXED] = head.first_chunk().ok_or(SegmentError::Truncated)?;
        let payload = usize::from(header[12] >> 4) * 4;
        if payload < FIXED {
            return Err(SegmentError::Offset);
        }
        let options = head.get(FIXED..payload).ok_or(SegmentError::Truncated)?;
        let sum = || {
            let pseudo = ip::pseudo_sum(src, dst, IpProtocol::Tcp, len);
            checksum::combine(&[pseudo, sum()])
        };
        if !offload.verified && sum() != 0xffff {
            return Err(SegmentError::Checksum);
        }
        let mut fields = header.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
        let mut next = || fields.next().unwrap_or_default();
        let (src_port, dst_port) = (next(), next());
        let seq = Seq::new(u32::from(next()) << 16 | u32::from(next()));
        let ack = Seq::new(u32::from(next()) << 16 | u32::from(next()));
        let (control, window) = (next(), next());
        let (_, urgent) = (next(), next());
        let mut repr = Self {
            src_port,
            dst_port,
            seq,
            ack: (control & ACK != 0).then_some(ack),
            syn: control & SYN != 0,
            fin: control & FIN != 0,
            rst: control & RST != 0,
            psh: control & PSH != 0,
            urgent: (control & URG != 0).then_some(urgent),
            ece: control & ECE != 0,
            cwr: control & CWR != 0,
            window,
            joined: offload.segment,
            ..Self::default()
        };
        repr.parse_options(options);
        Ok(ParsedSegment { repr, payload })
    }

    /// RFC 9293 3.2. An option of unknown kind is skipped (MUST-6), as one whose length is wrong
    /// for its kind. After a length that cannot be (MUST-7) nothing tells where the next option
    /// is: as on Linux the rest is ignored, and the segment is not.
    fn parse_options(&mut self, mut options: &[u8]) {
        while let [kind, rest @ ..] = options {
            match *kind {
                END_OF_OPTIONS => return,
                NO_OPERATION => {
                    options = rest;
                    continue;
                }
                _ => {}
            }
            let len = usize::from(rest.first().copied().unwrap_or_default());
            let Some(value) = options.get(2..len) else { return };
            self.take_option(*kind, value);
            options = options.get(len..).unwrap_or_default();
        }
    }

    fn take_option(&mut self, kind: u8, value: &[u8]) {
        match (kind, value) {
            (MSS, &[a, b]) => self.mss = Some(u16::from_be_bytes([a, b])),
            // RFC 7323 2.3: a larger shift counts as 14.
            (WINDOW_SCALE, &[shift]) => self.window_scale = Some(shift.min(MAX_SCALE)),
            (SACK_PERMITTED, &[]) => self.sack_permitted = true,
            (TIMESTAMPS, &[a, b, c, d, e, f, g, h]) => {
                self.timestamps = Some(Timestamps {
                    value: u32::from_be_bytes([a, b, c, d]),
                    echo: u32::from_be_bytes([e, f, g, h]),
                });
            }
            (FAST_OPEN, cookie) if self.syn => self.take_fast_open(false, cookie),
            (EXPERIMENT, value) if self.syn && value.starts_with(&EXPERIMENT_FAST_OPEN) => {
                self.take_fast_open(true, value.get(2..).unwrap_or_default());
            }
            (SACK, blocks) if blocks.len() % 8 == 0 => {
                let edge = |at: &[u8]| {
                    Seq::new(at.first_chunk().map_or(0, |edge| u32::from_be_bytes(*edge)))
                };
                for block in blocks.chunks_exact(8) {
                    let (start, end) = block.split_at(4);
                    self.sack.push(SackBlock { start: edge(start), end: edge(end) });
                }
            }
            _ => {}
        }
    }

    /// RFC 7413 4.1.1: a cookie of impossible length is as none.
    fn take_fast_open(&mut self, experimental: bool, cookie: &[u8]) {
        self.fast_open = match cookie {
            [] => Some(FastOpenOption::request(experimental)),
            cookie => FastOpenOption::new(experimental, cookie),
        };
    }

    /// Length of the header that [`emit`](Self::emit) writes: 20..=60 bytes, a multiple of 4.
    pub fn header_len(&self) -> usize {
        let option = |present: bool, len: usize| if present { len } else { 0 };
        let blocks = self.sack.as_slice().len();
        // The option SACK-permitted replaces the padding before timestamps.
        FIXED
            + option(self.mss.is_some(), 4)
            + option(self.window_scale.is_some(), 4)
            + option(self.sack_permitted && self.timestamps.is_none(), 4)
            + option(self.timestamps.is_some(), 12)
            + option(blocks > 0, 4 + 8 * blocks)
            + self.fast_open.map_or(0, |fast| fast_open_len(&fast).next_multiple_of(4))
    }

    /// Writes the header with a checksum over header and `body` to the start of `out`, and returns
    /// its length.
    ///
    /// # Panics
    /// If `out` is shorter than [`header_len`](Self::header_len); [`MAX_HEADER`] bytes always do.
    pub fn emit<T: TxBytes>(
        &self,
        src: IpAddr,
        dst: IpAddr,
        body: &[TxPiece<'_, T>],
        out: &mut [u8],
    ) -> usize {
        let (body_sum, body_len) = sum_of(body);
        let len = self.emit_partial(src, dst, body_len, out);
        let out = &mut out[..len];
        // The checksum field holds the sum of the pseudo-header, so the header's sum includes it.
        let total = checksum::combine(&[checksum::data(out), body_sum]);
        out[CHECKSUM_AT..CHECKSUM_AT + 2].copy_from_slice(&(!total).to_be_bytes());
        len
    }

    /// Writes the header for `body_len` bytes of payload, with the sum of the pseudo-header in the
    /// checksum field at [`CHECKSUM_AT`]. The device completes the checksum.
    ///
    /// # Panics
    /// As [`emit`](Self::emit).
    pub fn emit_partial(&self, src: IpAddr, dst: IpAddr, body_len: usize, out: &mut [u8]) -> usize {
        let len = self.header_len();
        let out = &mut out[..len];
        let bit = |on: bool, bit: u16| if on { bit } else { 0 };
        let control = (len as u16 / 4) << 12
            | bit(self.fin, FIN)
            | bit(self.syn, SYN)
            | bit(self.rst, RST)
            | bit(self.psh, PSH)
            | bit(self.urgent.is_some(), URG)
            | bit(self.ece, ECE)
            | bit(self.cwr, CWR)
            | bit(self.ack.is_some(), ACK);
        out[0..2].copy_from_slice(&self.src_port.to_be_bytes());
        out[2..4].copy_from_slice(&self.dst_port.to_be_bytes());
        out[4..8].copy_from_slice(&self.seq.get().to_be_bytes());
        out[8..12].copy_from_slice(&self.ack.map_or(0, Seq::get).to_be_bytes());
        out[12..14].copy_from_slice(&control.to_be_bytes());
        out[14..16].copy_from_slice(&self.window.to_be_bytes());
        let pseudo = ip::pseudo_sum(src, dst, IpProtocol::Tcp, len + body_len);
        out[CHECKSUM_AT..CHECKSUM_AT + 2].copy_from_slice(&pseudo.to_be_bytes());
        out[18..20].copy_from_slice(&self.urgent.unwrap_or(0).to_be_bytes());
        self.emit_options(&mut out[FIXED..]);
        len
    }

    /// Each option is filled up to a multiple of four bytes.
    fn emit_options(&self, mut out: &mut [u8]) {
        let mut put = |option: &[u8]| {
            let (here, rest) = core::mem::take(&mut out).split_at_mut(option.len());
            here.copy_from_slice(option);
            out = rest;
        };
        if let Some(mss) = self.mss {
            let [a, b] = mss.to_be_bytes();
            put(&[MSS, 4, a, b]);
        }
        if self.sack_permitted && self.timestamps.is_none() {
            put(&[NO_OPERATION, NO_OPERATION, SACK_PERMITTED, 2]);
        }
        if let Some(Timestamps { value, echo }) = self.timestamps {
            let padding = if self.sack_permitted {
                [SACK_PERMITTED, 2]
            } else {
                [NO_OPERATION, NO_OPERATION]
            };
            put(&padding);
            put(&[TIMESTAMPS, 10]);
            put(&value.to_be_bytes());
            put(&echo.to_be_bytes());
        }
        if let Some(shift) = self.window_scale {
            put(&[NO_OPERATION, WINDOW_SCALE, 3, shift]);
        }
        let blocks = self.sack.as_slice();
        if !blocks.is_empty() {
            put(&[NO_OPERATION, NO_OPERATION, SACK, 2 + 8 * blocks.len() as u8]);
        }
        for block in blocks {
            put(&block.start.get().to_be_bytes());
            put(&block.end.get().to_be_bytes());
        }
        if let Some(fast) = &self.fast_open {
            let len = fast_open_len(fast);
            if fast.experimental {
                let [a, b] = EXPERIMENT_FAST_OPEN;
                put(&[EXPERIMENT, len as u8, a, b]);
            } else {
                put(&[FAST_OPEN, len as u8]);
            }
            put(fast.cookie());
            put(&[NO_OPERATION; 3][..len.next_multiple_of(4) - len]);
        }
    }
}

/// Length of a Fast Open option, bytes.
fn fast_open_len(fast: &FastOpenOption) -> usize {
    fast.cookie().len() + if fast.experimental { 4 } else { 2 }
}

/// The one's complement sum of `body`, and its length.
fn sum_of<T: TxBytes>(body: &[TxPiece<'_, T>]) -> (u16, usize) {
    let mut total = 0;
    let mut len = 0;
    for piece in body {
        let part = piece.bytes.checksum(piece.range.clone());
        // RFC 1071 2 (B): a part that starts at an odd offset has its bytes swapped.
        let part = if len % 2 == 1 { part.swap_bytes() } else { part };
        total = checksum::combine(&[total, part]);
        len += piece.range.len();
    }
    (total, len)
}

#[cfg(test)]
mod tests;
