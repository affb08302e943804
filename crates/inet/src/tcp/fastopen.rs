//! Fast Open (RFC 7413): data in the SYN, as far as one connection is concerned.
//!
//! A client's data travels in the SYN beside the send queue's own account: for the queue it is not
//! sent. If the SYN-ACK acknowledges it, it is done with; if not, it counts as sent and lost, which
//! says nothing about congestion, and leaves again at once. A SYN that is sent again is plain.
//!
//! A server's connection is given the data before the handshake is over, and is ESTABLISHED at once
//! for all that the application can do with it. Until its SYN is acknowledged it is *half open*:
//! it is shown as SYN-RECV, and what is sent again is the SYN-ACK. Which cookies are good is the
//! stack's business.

use alloc::boxed::Box;

use super::connection::Connection;
use super::send::{Marks, Pieces, SegmentOut};
use super::state::Event;
use super::timers::Timer;
use super::{SegmentRepr, Seq, State};
use crate::{Instant, RxBytes, RxPiece, TxBytes};

/// Longest cookie, bytes (RFC 7413 4.1.1).
pub const MAX_COOKIE: usize = 16;

/// A Fast Open option: an even number of cookie bytes, 4 to 16, or none, which asks for a cookie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FastOpenOption {
    /// In the form of before the option had a number (RFC 7413, appendix of its drafts; RFC 6994).
    pub experimental: bool,
    len: u8,
    bytes: [u8; MAX_COOKIE],
}

impl FastOpenOption {
    /// An option that asks for a cookie.
    pub fn request(experimental: bool) -> Self {
        Self { experimental, ..Self::default() }
    }

    /// An option with a cookie; `None` if its length is impossible.
    pub fn new(experimental: bool, cookie: &[u8]) -> Option<Self> {
        let legal = cookie.len().is_multiple_of(2) && (4..=MAX_COOKIE).contains(&cookie.len());
        let mut option =
            Self { experimental, len: u8::try_from(cookie.len()).ok()?, bytes: [0; 16] };
        option.bytes.get_mut(..cookie.len())?.copy_from_slice(cookie);
        legal.then_some(option)
    }

    /// The cookie; empty if one is asked for.
    pub fn cookie(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }
}

/// How a client's Fast Open went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FastOpenNews {
    /// What was in the SYN.
    pub asked: Option<FastOpenOption>,
    /// What was in the SYN-ACK.
    pub answer: Option<FastOpenOption>,
    /// The peer's segment size, bytes.
    pub mss: Option<u16>,
    /// There was data in the SYN.
    pub had_data: bool,
    /// The SYN was sent again.
    pub repeated: bool,
}

/// What a connection has to do with Fast Open.
#[derive(Debug, Default)]
pub(super) struct FastOpen {
    /// For our SYN.
    option: Option<FastOpenOption>,
    /// Most payload in it, bytes, and what there was.
    limit: u16,
    payload: u16,
    /// Where the payload ends that the SYN-ACK has not acknowledged, until it is held to be lost.
    refused_to: Option<Seq>,
    /// The SYN waits for data.
    deferred: bool,
    /// The SYN's payload, ours or the peer's, was taken.
    taken: bool,
    /// A server's connection whose SYN may be unacknowledged.
    early: bool,
    /// Whether data arrives is of interest: there was reason for doubt.
    watched: bool,
    news: Option<FastOpenNews>,
    /// As `TcpInfo::fastopen_client_fail`.
    fail: u8,
}

impl<T: TxBytes, R: RxBytes> Connection<T, R> {
    /// Makes a connection attempt a fast one: its SYN carries `option` and up to `limit` bytes of
    /// payload, of what is queued when it leaves; `deferred` if it is not to leave before there is
    /// some. To be called before the first segment is given out.
    pub fn connect_fast(&mut self, option: Option<FastOpenOption>, limit: u16, deferred: bool) {
        let fail = u8::from(limit == 0);
        let fast = FastOpen { option, limit, deferred, fail, ..FastOpen::default() };
        self.fast_open = Some(Box::new(fast));
        if deferred {
            self.wishes.syn = false;
        }
    }

    /// Takes the payload, and FIN, of the SYN that made this connection, before it is answered: the
    /// application may read, write and close from now on.
    /// `renewal` is a cookie for the SYN-ACK.
    pub fn accept_fast(
        &mut self,
        now: Instant,
        payload: Option<RxPiece<R>>,
        fin: bool,
        renewal: Option<FastOpenOption>,
    ) {
        let taken = payload.as_ref().is_some_and(|piece| !piece.range.is_empty());
        let fast = FastOpen { early: true, taken, option: renewal, ..FastOpen::default() };
        self.fast_open = Some(Box::new(fast));
        self.change(Event::AckOfSyn);
        self.established(now);
        let seq = self.durable.rcv_nxt;
        // What the SYN brings was sent without knowing our window.
        let len = payload.as_ref().map_or(0, |piece| piece.range.len());
        self.durable.rcv_adv = self.durable.rcv_adv.max(seq + len as u32);
        // The window of a SYN, which acknowledges nothing, counts from our first byte of data.
        self.durable.snd_wnd += 1;
        let rest = SegmentRepr { seq, fin, ..SegmentRepr::default() };
        let payload = payload.filter(|piece| !piece.range.is_empty());
        self.text(now, &rest, payload);
        self.wish(|wishes| wishes.syn = true);
    }

    /// What a client has learnt from the SYN-ACK, once.
    pub fn take_fast_open_news(&mut self) -> Option<FastOpenNews> {
        self.fast_open.as_mut()?.news.take()
    }

    /// Whether this is a server's fast connection whose SYN is not acknowledged.
    pub fn is_half_open(&self) -> bool {
        let early = self.fast_open.as_ref().is_some_and(|fast| fast.early);
        early && self.durable.snd_una == self.durable.iss && self.state() != State::Closed
    }

    /// How much data the SYN takes with it, if it waits for some.
    pub fn deferred_room(&self) -> Option<usize> {
        let fast = self.fast_open.as_ref().filter(|fast| fast.deferred)?;
        Some(usize::from(fast.limit))
    }

    /// Whether data in a SYN was taken, by us or by the peer.
    pub(super) fn syn_data_taken(&self) -> bool {
        self.fast_open.as_ref().is_some_and(|fast| fast.taken)
    }

    pub(super) fn fast_open_fail(&self) -> u8 {
        self.fast_open.as_ref().map_or(0, |fast| fast.fail)
    }

    /// There is data, or will be none: a SYN that waited for it may leave.
    pub fn stop_deferring(&mut self) {
        if let Some(fast) = &mut self.fast_open
            && core::mem::take(&mut fast.deferred)
        {
            self.wish(|wishes| wishes.syn = true);
        }
    }

    /// The SYN or SYN-ACK, with what Fast Open puts into it.
    pub(super) fn syn_segment(&mut self, now: Instant) -> SegmentOut<'_, T> {
        let first = self.durable.snd_max == self.durable.iss;
        let mut repr = self.syn(now);
        if repr.ack.is_some() {
            // The SYN-ACK acknowledges what came with the SYN, too.
            self.acked_to = self.durable.rcv_nxt;
            self.wishes.ack = false;
            self.timers.clear(Timer::DelayedAck);
        }
        let Some(fast) = self.fast_open.as_mut().filter(|_| first) else {
            return SegmentOut::new(repr, Pieces::none());
        };
        repr.fast_open = fast.option;
        if repr.ack.is_some() {
            return SegmentOut::new(repr, Pieces::none());
        }
        let stretch = self.send.at_next(usize::from(fast.limit));
        fast.payload = u16::try_from(stretch.len).unwrap_or(u16::MAX);
        if stretch.len > 0 {
            self.meter.sent(stretch.len, stretch.len, false);
        }
        SegmentOut::new(repr, self.send.pieces(&stretch))
    }

    /// The last number that may be acknowledged before the handshake is over.
    pub(super) fn syn_edge(&self) -> Seq {
        let payload = self.fast_open.as_ref().map_or(0, |fast| fast.payload);
        self.durable.snd_max.max(self.durable.iss + 1 + u32::from(payload))
    }

    /// `ack` acknowledges our SYN, and perhaps its payload, which counts as sent by that.
    pub(super) fn take_syn_data(&mut self, ack: Seq) {
        let data = ack.since(self.durable.iss + 1);
        let repeated = self.meter.total_retrans > 0;
        let Some(fast) = &mut self.fast_open else { return };
        if fast.payload == 0 {
            return;
        }
        self.durable.snd_max = self.durable.snd_max.max(ack);
        fast.taken = data == u32::from(fast.payload);
        if fast.taken {
            self.stats.fast_connects += 1;
        } else {
            self.stats.fast_connect_fails += 1;
            fast.refused_to = Some(self.durable.iss + 1 + u32::from(fast.payload));
            fast.fail = if repeated { 3 } else { 2 };
        }
    }

    /// What of the SYN's payload was not acknowledged is lost, and leaves again at once (RFC 7413
    /// 4.2.1): the handshake is over.
    pub(super) fn lose_syn_data(&mut self, now: Instant) {
        let start = self.durable.snd_una;
        let refused = self.fast_open.as_mut().and_then(|fast| fast.refused_to.take());
        let Some(end) = refused.filter(|end| start.before(*end)) else { return };
        let stretch = self.send.at_next(end.since(start) as usize);
        let (len, mss) = (stretch.len as u32, u32::from(self.durable.snd_mss));
        self.send.advance(&stretch);
        self.durable.snd_max = self.durable.snd_max.max(start + len);
        // The SYN's data was a write of its own.
        let marks = Marks { push: true, burst: true, ..stretch.marks };
        self.loss.on_sent(now, (start, len, false), mss, marks);
        let (loss, mut env) = self.loss_env(now);
        loss.lose_all(&mut env);
    }

    /// Whether `echo`, of a SYN-ACK, is a timestamp that a SYN of this attempt can have carried; as
    /// Linux. One that echoes none is believed (RFC 7323 3.2).
    pub(super) fn is_syn_echo(&self, now: Instant, echo: u32) -> bool {
        let first = Seq::new(self.timestamp(self.progress_at));
        let echo = Seq::new(echo);
        echo.get() == 0
            || echo.at_or_after(first) && echo.at_or_before(Seq::new(self.timestamp(now)))
    }

    /// There was more to be sent than the SYN has taken.
    pub(super) fn has_more_than_syn_data(&self) -> bool {
        let fast = self.fast_open.as_ref();
        fast.is_some_and(|fast| self.send.end() > u64::from(fast.payload))
    }

    /// Whether Fast Open works is in doubt: this connection is to show.
    pub fn watch_fast_open(&mut self) {
        if let Some(fast) = &mut self.fast_open {
            fast.watched = true;
        }
    }

    /// Whether this is a client's connection whose SYN had something of Fast Open.
    fn asked_fast_open(&self) -> bool {
        let fast = self.fast_open.as_ref();
        fast.is_some_and(|fast| !fast.early && (fast.option.is_some() || fast.payload > 0))
    }

    /// A retransmission timer has expired, `retries` times before without an answer; the last time
    /// if `over`. As Linux the third in a row, or an earlier last one, is taken for the work of a
    /// box that swallows what follows data in a SYN (RFC 7413 4.1.3.1).
    pub(super) fn suspect_swallowed(&mut self, over: bool) {
        if self.asked_fast_open() && (self.retries == 2 || self.retries < 2 && over) {
            self.stats.fast_open_black_holes += 1;
            self.stats.fast_connect_fails += 1;
        }
    }

    /// The connection ends: a FIN that came without the data before it is the work of such a box
    /// too. Data that came over a watched one shows that there is none; as Linux not within this
    /// host.
    pub(super) fn judge_fast_open(&mut self) {
        if !self.asked_fast_open() {
            return;
        }
        if self.meter.data_segs_in == 0 {
            let lone_fin = self.recv.fin.is_some_and(|fin| fin.after(self.durable.rcv_nxt));
            if lone_fin && !self.recv.has_early() {
                self.stats.fast_open_black_holes += 1;
            }
        } else {
            let ends = self.endpoints();
            let watched = self.fast_open.as_ref().is_some_and(|fast| fast.watched);
            let inside = ends.local.ip() == ends.remote.ip() || ends.remote.ip().is_loopback();
            self.stats.fast_open_works += u64::from(watched && !inside);
        }
    }

    /// Whether our SYN took data with it.
    pub(super) fn syn_has_data(&self) -> bool {
        self.fast_open.as_ref().is_some_and(|fast| fast.payload > 0)
    }

    /// Keeps what the SYN-ACK says of Fast Open.
    pub(super) fn learn_fast_open(&mut self, syn_ack: &SegmentRepr) {
        let repeated = self.meter.total_retrans > 0;
        if let Some(fast) = &mut self.fast_open {
            fast.news = Some(FastOpenNews {
                asked: fast.option,
                answer: syn_ack.fast_open,
                mss: syn_ack.mss,
                had_data: fast.payload > 0,
                repeated,
            });
        }
    }
}
