//! Table tests with a fake clock: one real connection, and a peer played by the test.

mod close;
mod congestion;
mod ecn;
mod handshake;
mod hostile;
mod idle;
mod loss;
mod marks;
mod mtu;
mod timestamps;
mod transfer;
mod tuning;
mod urgent;
mod window;

use alloc::vec::Vec;
use core::net::SocketAddr;
use core::ops::Range;
use core::time::Duration;

use super::*;
use crate::{Instant, RxBytes, RxPiece, TxBytes};

/// A chunk; `joins` if it continues the chunk before it in memory.
#[derive(Debug, Clone)]
pub(super) struct Chunk {
    pub(super) bytes: Vec<u8>,
    pub(super) joins: bool,
}

impl TxBytes for Chunk {
    fn len(&self) -> usize {
        self.bytes.len()
    }

    fn checksum(&self, range: Range<usize>) -> u16 {
        let mut sum = 0_u32;
        for pair in self.bytes[range].chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    fn copy_to(&self, range: Range<usize>, out: &mut [u8]) {
        out.copy_from_slice(&self.bytes[range]);
    }

    fn append(&mut self, next: Self) -> Result<(), Self> {
        if !next.joins {
            return Err(next);
        }
        self.bytes.extend(next.bytes);
        Ok(())
    }
}

/// A frame.
#[derive(Debug, Clone)]
pub(super) struct Frame(pub(super) Vec<u8>);

impl RxBytes for Frame {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Initial sequence numbers: own and the peer's.
const ISS: u32 = 1000;
const IRS: u32 = 5000;
const MSS: usize = 1000;
const LOCAL: u16 = 80;
const REMOTE: u16 = 4000;

/// A connection and its clock.
struct Rig {
    c: Connection<Chunk, Frame>,
    now: Instant,
    iss: u32,
    irs: u32,
    reply: SegmentReply,
}

/// No options but the MSS, no quick ACKs: what is sent is easy to tell.
fn plain() -> TcpConfig {
    TcpConfig {
        mss: MSS as u16,
        recv_buffer: 16 * MSS,
        quick_acks: 0,
        window_scaling: false,
        timestamps: false,
        congestion_control: CongestionKind::Reno,
        ..TcpConfig::default()
    }
}

fn endpoints() -> Endpoints {
    Endpoints {
        local: SocketAddr::new([10, 0, 0, 1].into(), LOCAL),
        remote: SocketAddr::new([10, 0, 0, 2].into(), REMOTE),
    }
}

fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn secs(s: u64) -> Duration {
    Duration::from_secs(s)
}

impl Rig {
    fn connect(config: &TcpConfig) -> Self {
        Self::connect_from(config, ISS, IRS)
    }

    fn connect_from(config: &TcpConfig, iss: u32, irs: u32) -> Self {
        let now = Instant::from_nanos(1_000_000_000_000);
        let c = Connection::connect(now, config, endpoints(), Seq::new(iss));
        Self { c, now, iss, irs, reply: SegmentReply::None }
    }

    fn accept(config: &TcpConfig, syn: &SegmentRepr) -> Self {
        let now = Instant::from_nanos(1_000_000_000_000);
        let c = Connection::accept(now, config, endpoints(), syn, Seq::new(ISS));
        Self { c, now, iss: ISS, irs: syn.seq.get(), reply: SegmentReply::None }
    }

    /// A connection opened by `connect`, with nothing to be sent.
    fn established(config: &TcpConfig) -> Self {
        Self::established_from(config, ISS, IRS)
    }

    fn established_from(config: &TcpConfig, iss: u32, irs: u32) -> Self {
        let mut rig = Self::connect_from(config, iss, irs);
        assert!(rig.sent().syn);
        rig.now += millis(10);
        let syn_ack = SegmentRepr { syn: true, mss: Some(MSS as u16), ..rig.seg(0, 1) };
        let scale = config.window_scaling.then_some(2);
        let timestamps = config.timestamps.then_some(Timestamps { value: 1, echo: 0 });
        rig.take(&SegmentRepr { window_scale: scale, timestamps, ..syn_ack }, b"");
        assert_eq!(rig.c.state(), State::Established);
        let ack = rig.sent();
        assert!(!ack.syn && ack.ack == Some(Seq::new(irs) + 1));
        rig.silent();
        rig
    }

    /// A segment of the peer's with numbers relative to the two initial ones, and a large window.
    fn seg(&self, seq: u32, ack: u32) -> SegmentRepr {
        SegmentRepr {
            src_port: REMOTE,
            dst_port: LOCAL,
            seq: Seq::new(self.irs) + seq,
            ack: Some(Seq::new(self.iss) + ack),
            window: 60_000,
            ..SegmentRepr::default()
        }
    }

    /// Takes a segment.
    fn take(&mut self, segment: &SegmentRepr, payload: &[u8]) -> SegmentReply {
        let piece = (!payload.is_empty()).then(|| {
            let range = 0..payload.len();
            RxPiece { frame: Frame(payload.to_vec()), range }
        });
        self.reply = self.c.handle_segment(self.now, segment, piece);
        self.reply
    }

    /// Takes an ACK of the first `ack` numbers.
    fn ack(&mut self, seq: u32, ack: u32) {
        assert_eq!(self.take(&self.seg(seq, ack), b""), SegmentReply::None);
    }

    /// Takes payload.
    fn data(&mut self, seq: u32, payload: &[u8]) {
        let una = self.c.durable().snd_una.get().wrapping_sub(self.iss);
        assert_eq!(self.take(&self.seg(seq, una), payload), SegmentReply::None);
    }

    /// The only segment that is sent now; without payload.
    fn sent(&mut self) -> SegmentRepr {
        let (repr, body) = self.sent_data();
        assert!(body.is_empty());
        repr
    }

    /// The next segment that is sent now, with its payload.
    fn sent_data(&mut self) -> (SegmentRepr, Vec<u8>) {
        let out = self.c.poll_segment(self.now).expect("a segment");
        let mut body = Vec::new();
        for piece in out.body() {
            body.extend_from_slice(&piece.bytes.bytes[piece.range.clone()]);
        }
        assert_eq!(body.len(), out.body_len());
        (out.repr, body)
    }

    /// All segments that are sent now, as (relative sequence number, length).
    fn burst(&mut self) -> Vec<(u32, usize)> {
        let mut all = Vec::new();
        while let Some(out) = self.c.poll_segment(self.now) {
            all.push((out.repr.seq.get().wrapping_sub(self.iss), out.body_len()));
            assert!(all.len() < 1000, "no end of segments");
        }
        all
    }

    /// Nothing is sent now.
    fn silent(&mut self) {
        let out = self.c.poll_segment(self.now);
        assert!(out.is_none(), "unexpected {out:?}");
    }

    /// Queues `len` bytes.
    fn write(&mut self, len: usize) {
        let bytes = (0..len).map(|i| i as u8).collect();
        self.c.send(self.now, Chunk { bytes, joins: false }).unwrap();
    }

    /// Lets time pass, and the timers act.
    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.c.handle_timer(self.now);
    }

    /// Nothing is sent until `time` from now, then something is.
    fn quiet_until(&mut self, time: Duration) {
        self.silent();
        let at = self.c.poll_at(self.now).expect("a timer");
        assert_eq!(at - self.now, time);
        self.now = at - Duration::from_nanos(1);
        self.silent();
        self.now = at;
    }

    /// Sequence number of the segment relative to our initial one.
    fn rel(&self, segment: &SegmentRepr) -> u32 {
        segment.seq.get().wrapping_sub(self.iss)
    }

    /// What the segment acknowledges relative to the peer's initial number.
    fn acked(&self, segment: &SegmentRepr) -> u32 {
        segment.ack.expect("an ACK").get().wrapping_sub(self.irs)
    }

    fn read(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        while let Some(piece) = self.c.recv() {
            all.extend_from_slice(piece.bytes());
        }
        all
    }
}
