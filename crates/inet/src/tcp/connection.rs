//! A connection: its two halves and the application's calls.
//!
//! Calls, segments (`input`) and timers (`timeout`) only change state and set wishes ([`Wishes`]);
//! segments are made by `output`, one at a time, when the caller polls. So nothing is sent twice,
//! an ACK rides on data whenever there is some, and the caller decides how much leaves when.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::hash::{Hash, Hasher};
use core::net::SocketAddr;
use core::time::Duration;

use super::congestion::{Congestion, CongestionKind, Window};
use super::durable::{self, Durable};
use super::ecn::Ecn;
use super::fastopen::FastOpen;
use super::info::Meter;
use super::loss::Recovery;
use super::mtu_probe::MtuProbing;
use super::recv::Receiver;
use super::rtt::RttEstimator;
use super::segment::MAX_SCALE;
use super::send::{SendFlags, SendQueue};
use super::state::Event;
use super::timers::{Timer, Timers};
use super::tuning::Tuner;
use super::urgent::Urgent;
use super::{SegmentRepr, Seq, State, TcpConfig};
use crate::{Error, Instant, RxBytes, RxPiece, TxBytes};

/// The two ends of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoints {
    /// This side.
    pub local: SocketAddr,
    /// The peer; of the same family.
    pub remote: SocketAddr,
}

impl Hash for Endpoints {
    /// Two words for IPv4: this is hashed for every segment received.
    fn hash<H: Hasher>(&self, state: &mut H) {
        for end in [self.local, self.remote] {
            match end {
                SocketAddr::V4(end) => {
                    let address = u64::from(end.ip().to_bits());
                    state.write_u64(address << 16 | u64::from(end.port()));
                }
                SocketAddr::V6(end) => {
                    state.write_u128(end.ip().to_bits());
                    state.write_u64(u64::from(end.scope_id()) << 16 | u64::from(end.port()));
                }
            }
        }
    }
}

/// What the caller has to do after [`Connection::handle_segment`]. Acknowledgements and data are
/// not here: they wait for [`Connection::poll_segment`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// Nothing.
    None,
    /// Send this RST to the segment's sender.
    Reset(SegmentRepr),
    /// The segment is a SYN that may reuse this connection in TIME-WAIT: remove the connection and
    /// give the segment to the listener, if there is one (RFC 9293 3.10.7.4, RFC 6191).
    Reuse,
}

/// What happened on a connection; counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Segments sent again, for whatever reason.
    pub retransmits: u64,
    /// Segments sent again in fast recovery.
    pub fast_retransmits: u64,
    /// Segments sent again after a timeout.
    pub timeout_retransmits: u64,
    /// Expired retransmission timers.
    pub timeouts: u64,
    /// Timeouts that were needless (RFC 5682).
    pub spurious_timeouts: u64,
    /// Fast recoveries entered.
    pub fast_recoveries: u64,
    /// Window reductions taken back (RFC 3522, RFC 3708, RFC 5682).
    pub undos: u64,
    /// Segments held to be lost because a later one had arrived and time had passed (RFC 8985).
    pub rack_lost: u64,
    /// Tail loss probes sent (RFC 8985 7).
    pub tail_loss_probes: u64,
    /// Losses that a tail loss probe repaired.
    pub probe_recoveries: u64,
    /// Reports of duplicates received and sent (RFC 2883).
    pub dsacks_in: u64,
    /// See `dsacks_in`.
    pub dsacks_out: u64,
    /// SACK blocks that were not believed.
    pub sack_discards: u64,
    /// Peers found to have thrown away what they had reported by SACK.
    pub sack_reneges: u64,
    /// Segments that were found to have overtaken others.
    pub reorderings: u64,
    /// Segments received that were marked for congestion (RFC 3168).
    pub ecn_marks_in: u64,
    /// Duplicate acknowledgements received.
    pub duplicate_acks: u64,
    /// Segments received out of order and kept.
    pub out_of_order: u64,
    /// Segments received outside the window, or without anything new.
    pub unacceptable: u64,
    /// Segments dropped for their timestamp (RFC 7323 5.3).
    pub old_timestamps: u64,
    /// Challenge ACKs sent (RFC 5961).
    pub challenges: u64,
    /// Segments sent to find out how long packets the path takes (RFC 4821).
    pub mtu_probes: u64,
    /// How many of them arrived, and were lost.
    pub mtu_probe_successes: u64,
    /// See `mtu_probe_successes`.
    pub mtu_probe_failures: u64,
    /// Times that segments became shorter because long ones seemed to be swallowed.
    pub black_holes: u64,
    /// Window probes sent.
    pub window_probes: u64,
    /// Keep-alive probes sent.
    pub keep_alive_probes: u64,
    /// RST received and believed.
    pub resets: u64,
    /// Attempts whose data in the SYN was taken, and those where it was not or which timed out.
    pub fast_connects: u64,
    /// See `fast_connects`.
    pub fast_connect_fails: u64,
    /// Attempts with Fast Open that look as if they had been swallowed on their way (RFC 7413
    /// 4.1.3.1), and those watched that were not.
    pub fast_open_black_holes: u64,
    /// See `fast_open_black_holes`.
    pub fast_open_works: u64,
}

/// What is to be sent when the caller polls, beside queued data.
#[derive(Debug, Default)]
pub(super) struct Wishes {
    /// There may be something to send.
    pub(super) anything: bool,
    /// A SYN or SYN-ACK.
    pub(super) syn: bool,
    /// Acknowledge at once.
    pub(super) ack: bool,
    /// Acknowledge the peer's FIN: see `fin_ack`.
    pub(super) fin_ack: bool,
    /// Duplicate ACKs: one for each segment that came early, so that the peer can count them
    /// (RFC 5681 4.2).
    pub(super) duplicates: u16,
    /// Send a tail loss probe.
    pub(super) tail: bool,
    /// An ACK that the peer must answer, for its window or its life.
    pub(super) probe: bool,
    /// Send what fits the window, however little (RFC 9293 3.8.6.2.1, the override timeout).
    pub(super) little: bool,
    /// With PSH.
    pub(super) push: bool,
    /// A last segment, after which the connection is over.
    pub(super) farewell: Option<Box<SegmentRepr>>,
}

/// A TCP connection.
#[derive(Debug)]
pub struct Connection<T, R> {
    pub(super) durable: Durable,
    pub(super) config: Arc<TcpConfig>,
    /// These two are set more often than shared.
    pub(super) nodelay: bool,
    pub(super) cork: bool,
    /// Super-segments are cut by what carries them.
    pub(super) cuts: bool,
    /// The last write said that more follows, and no ACK has come since.
    pub(super) more: bool,
    pub(super) send: SendQueue<T>,
    pub(super) recv: Receiver<R>,
    pub(super) tuner: Tuner,
    pub(super) urgent: Urgent,
    pub(super) rtt: RttEstimator,
    pub(super) loss: Recovery,
    pub(super) ecn: Ecn,
    /// Our SYN asked for ECN.
    pub(super) ecn_asked: bool,
    pub(super) congestion: Box<dyn Congestion>,
    pub(super) window: Window,
    pub(super) timers: Timers,
    pub(super) wishes: Wishes,
    pub(super) stats: Stats,
    pub(super) fast_open: Option<Box<FastOpen>>,
    pub(super) mtu_probing: Option<Box<MtuProbing>>,
    pub(super) meter: Meter,
    /// The application has more to send than its buffer takes.
    pub(super) writer_waits: bool,
    pub(super) error: Option<Error>,
    /// The network's complaint, should the connection time out.
    pub(super) soft_error: Option<Error>,
    /// Window field of the last segment taken.
    pub(super) window_field: u16,
    /// Sequence number of the segment that last updated the window (SND.WL1).
    pub(super) window_seq: Seq,
    /// Largest window ever offered by the peer.
    pub(super) window_max: u32,
    /// End of the last segment sent that was not full (Minshall's variant of Nagle's rule).
    pub(super) small_end: Seq,
    /// `rcv_nxt` in the last ACK sent (Last.ACK.sent).
    pub(super) acked_to: Seq,
    pub(super) quick_acks: u8,
    /// Expired timers since the peer last made progress.
    pub(super) retries: u8,
    /// Window probes since the window closed, and those not answered.
    pub(super) probes: u32,
    pub(super) unanswered: u8,
    pub(super) keep_alive_probes: u8,
    /// When the peer last acknowledged something new, or something was sent while nothing was in
    /// flight.
    pub(super) progress_at: Instant,
    /// When data was last sent, for the first time or again.
    pub(super) sent_at: Instant,
    /// What is sent again after the last timeout may be timed: see `RttEstimator::is_clear`.
    pub(super) clear_repeats: bool,
    pub(super) heard_at: Instant,
    pub(super) recent_at: Instant,
    pub(super) challenged_at: Option<Instant>,
}

impl<T: TxBytes, R: RxBytes> Connection<T, R> {
    /// Starts a connection attempt; [`poll_segment`](Self::poll_segment) gives the SYN.
    pub fn connect(
        now: Instant,
        config: impl Into<Arc<TcpConfig>>,
        endpoints: Endpoints,
        iss: Seq,
    ) -> Self {
        let mut connection = Self::new(now, config.into(), endpoints, iss, State::SynSent);
        connection.wish(|wishes| wishes.syn = true);
        connection
    }

    /// Makes the passive side of a connection of a SYN without ACK, RST and FIN that a listener
    /// got; [`poll_segment`](Self::poll_segment) gives the SYN-ACK. Payload of the SYN is not used:
    /// the peer will send it again.
    pub fn accept(
        now: Instant,
        config: impl Into<Arc<TcpConfig>>,
        endpoints: Endpoints,
        syn: &SegmentRepr,
        iss: Seq,
    ) -> Self {
        let mut connection = Self::new(now, config.into(), endpoints, iss, State::SynReceived);
        connection.durable.set(durable::PASSIVE);
        connection.take_syn(now, syn);
        connection.wish(|wishes| wishes.syn = true);
        connection
    }

    /// The SYN-ACK of this connection, just made by [`accept`](Self::accept), was sent at `sent_at`
    /// by somebody else, and perhaps repeated.
    pub fn resume_handshake(&mut self, sent_at: Instant, repeated: bool) {
        self.poll_segment(sent_at);
        if repeated {
            self.rtt.retransmitted();
            self.retries = 1;
        }
    }

    pub(super) fn new(
        now: Instant,
        config: Arc<TcpConfig>,
        endpoints: Endpoints,
        iss: Seq,
        state: State,
    ) -> Self {
        let mut durable = Durable::new(endpoints, iss, state);
        durable.rcv_mss = config.mss;
        durable.snd_mss = config.mss;
        durable.ts_offset = config.timestamp_offset;
        if config.window_scaling {
            durable.rcv_scale = scale_for(config.recv_buffer.max(config.recv_buffer_max));
        }
        let mut connection = Self {
            durable,
            nodelay: config.nodelay,
            cork: config.cork,
            cuts: false,
            more: false,
            send: SendQueue::new(),
            recv: Receiver::new(config.recv_buffer, config.out_of_order_limit),
            tuner: Tuner::new(config.recv_buffer_granted),
            urgent: Urgent::default(),
            rtt: RttEstimator::new(&config),
            loss: Recovery::new(now, &config),
            ecn: Ecn::default(),
            ecn_asked: false,
            // The one that is wanted starts with the connection; this one takes no memory.
            congestion: CongestionKind::Reno.start(now, iss),
            window: Window::new(now, 1, iss),
            timers: Timers::default(),
            wishes: Wishes::default(),
            stats: Stats::default(),
            fast_open: None,
            mtu_probing: None,
            meter: Meter::default(),
            writer_waits: false,
            error: None,
            soft_error: None,
            window_field: 0,
            window_seq: iss,
            window_max: 0,
            small_end: iss,
            acked_to: Seq::new(0),
            quick_acks: config.quick_acks,
            retries: 0,
            probes: 0,
            unanswered: 0,
            keep_alive_probes: 0,
            progress_at: now,
            sent_at: now,
            clear_repeats: false,
            heard_at: now,
            recent_at: now,
            challenged_at: None,
            config,
        };
        connection.tuner.kept.threshold = connection.syn_window().into();
        connection
    }

    /// When [`poll_segment`](Self::poll_segment) or [`handle_timer`](Self::handle_timer) is to be
    /// called again if nothing else happens: `now` if there may be something to send.
    pub fn poll_at(&self, now: Instant) -> Option<Instant> {
        if self.wishes.anything { Some(now) } else { self.timers.next() }
    }

    /// Queues a chunk, the whole of a write: [`send_with`](Self::send_with) without flags.
    ///
    /// # Errors
    /// Those of `send_with`.
    pub fn send(&mut self, now: Instant, chunk: T) -> Result<(), (Error, T)> {
        self.send_with(now, chunk, SendFlags::default())
    }

    /// Queues a chunk. The caller bounds the queue ([`unacked_len`](Self::unacked_len)).
    ///
    /// # Errors
    /// The chunk and why: the write side is shut (`BrokenPipe`), there is no connection
    /// (`NotConnected`), or the connection's own [`error`](Self::error). Before the connection is
    /// established data is queued.
    pub fn send_with(
        &mut self,
        now: Instant,
        chunk: T,
        flags: SendFlags,
    ) -> Result<(), (Error, T)> {
        if let Some(error) = self.error {
            return Err((error, chunk));
        }
        if self.durable.has(durable::WRITE_SHUT) {
            return Err((Error::BrokenPipe, chunk));
        }
        if self.state() == State::Closed {
            return Err((Error::NotConnected, chunk));
        }
        self.stop_deferring();
        self.send.push(chunk, flags, u64::from(self.window_max / 2));
        self.more = flags.more;
        self.writer_waits = false;
        self.note_limit(now);
        self.wish(|_| {});
        Ok(())
    }

    /// The next received bytes, in order. They count against the receive buffer until
    /// [`consumed`](Self::consumed).
    pub fn recv(&mut self) -> Option<RxPiece<R>> {
        self.recv.pop()
    }

    /// The application has taken `bytes` received bytes: the window may open.
    pub fn consumed(&mut self, now: Instant, bytes: usize) {
        self.recv.consumed(bytes);
        self.tune_reading(now);
        self.offer_window();
    }

    /// Ends the stream towards the peer after what is queued (half-close).
    pub fn shutdown_write(&mut self, _now: Instant) {
        if self.state() == State::Closed || self.durable.has(durable::WRITE_SHUT) {
            return;
        }
        self.durable.set(durable::WRITE_SHUT);
        // RFC 9293 3.10.4: before the handshake is over this waits for it.
        if !self.state().opening() {
            self.change(Event::Shut);
        }
        self.wish(|_| {});
    }

    /// The application will not read any more; once this side has sent its FIN, data that arrives
    /// is answered with RST, as Linux does.
    pub fn shutdown_read(&mut self) {
        self.durable.set(durable::READ_SHUT);
    }

    /// The application is gone: queued data and FIN are still sent. If received bytes were not
    /// consumed, or there is no connection yet, this is [`abort`](Self::abort) (RFC 9293 3.6.1, RFC
    /// 2525 2.17): the RST to be sent, if any.
    pub fn close(&mut self, now: Instant) -> Option<SegmentRepr> {
        if self.recv.unconsumed() > 0 || self.state() == State::SynSent {
            return self.abort(now);
        }
        self.durable.set(durable::READ_SHUT | durable::ORPHAN);
        self.shutdown_write(now);
        if self.state() == State::FinWait2 {
            self.timers.set(Timer::Wait, now + self.config.fin_timeout);
        }
        None
    }

    /// Ends the connection at once; gives the RST to be sent, if the peer knows of the connection.
    pub fn abort(&mut self, now: Instant) -> Option<SegmentRepr> {
        // RFC 9293 3.10.5.
        let told = match self.state() {
            State::SynReceived
            | State::Established
            | State::FinWait1
            | State::FinWait2
            | State::CloseWait => true,
            State::Closed | State::SynSent | State::Closing | State::LastAck | State::TimeWait => {
                false
            }
        };
        let reset = told.then(|| self.reset(now));
        self.discard();
        reset
    }

    /// Ends the connection at once, without a word to the peer.
    pub fn discard(&mut self) {
        self.end(None);
        self.recv.clear();
    }

    /// ICMP says that the peer cannot be reached: ends a connection that is being opened, else is
    /// remembered as the reason should the connection time out (RFC 9293 3.9.2.2). Check
    /// [`is_outstanding`](Self::is_outstanding) first.
    pub fn handle_unreachable(&mut self, error: Error) {
        if self.state().opening() || self.is_half_open() {
            self.end(Some(error));
        } else {
            self.soft_error = Some(error);
        }
    }

    /// Whether `seq` is sent and unacknowledged: an ICMP message quoting another is forged (RFC
    /// 5927 4).
    pub fn is_outstanding(&self, seq: Seq) -> bool {
        seq.at_or_after(self.durable.snd_una) && seq.before(self.durable.snd_max)
    }

    /// The state.
    pub fn state(&self) -> State {
        self.durable.state()
    }

    /// The two ends.
    pub fn endpoints(&self) -> Endpoints {
        self.durable.endpoints()
    }

    /// Payload bytes that the peer has acknowledged in total.
    pub fn acked(&self) -> u64 {
        self.durable.acked
    }

    /// Payload bytes queued and not acknowledged.
    pub fn unacked_len(&self) -> usize {
        self.send.unacked()
    }

    /// Received bytes that [`recv`](Self::recv) would give.
    pub fn readable_len(&self) -> usize {
        self.recv.ready_len()
    }

    /// Received bytes that the application has not consumed (given out by `recv` or not).
    pub fn unconsumed_len(&self) -> usize {
        self.recv.unconsumed()
    }

    /// Received pieces that wait for what is missing before them.
    pub fn early_count(&self) -> usize {
        self.recv.early_count()
    }

    /// Whether the peer's FIN was received and `recv` has given out all before it.
    pub fn eof(&self) -> bool {
        self.durable.has(durable::FIN_RECEIVED) && self.recv.ready_len() == 0
    }

    /// Whether nothing more can be received than what is there: the peer's FIN was, or the
    /// connection is over.
    pub fn is_at_end(&self) -> bool {
        self.durable.has(durable::FIN_RECEIVED) || self.state() == State::Closed
    }

    /// Why the connection failed. Stays.
    pub fn error(&self) -> Option<Error> {
        self.error
    }

    /// Whether the connection is over (CLOSED) and will not send or receive anything. What was
    /// received can still be read.
    pub fn is_done(&self) -> bool {
        self.state() == State::Closed && self.wishes.farewell.is_none()
    }

    /// What must outlive the process; up to date whenever a segment has been given out.
    pub fn durable(&self) -> &Durable {
        &self.durable
    }

    /// What happened since the last call.
    pub fn take_stats(&mut self) -> Stats {
        core::mem::take(&mut self.stats)
    }

    /// Largest payload of a segment sent now, bytes.
    pub fn send_mss(&self) -> usize {
        usize::from(self.durable.snd_mss)
    }
}

/// The shift for windows up to `buffer` bytes, as Linux chooses it: the buffer counts memory, of
/// which at most half is payload.
fn scale_for(buffer: usize) -> u8 {
    let bits = buffer.checked_ilog2().unwrap_or(0).saturating_sub(15);
    u8::try_from(bits).unwrap_or(MAX_SCALE).min(MAX_SCALE)
}

/// What the parts share.
impl<T: TxBytes, R: RxBytes> Connection<T, R> {
    /// Sets a wish, and that there is one.
    pub(super) fn wish(&mut self, set: impl FnOnce(&mut Wishes)) {
        set(&mut self.wishes);
        self.wishes.anything = true;
    }

    /// Goes to the state that follows `event`.
    pub(super) fn change(&mut self, event: Event) {
        let state = self.state().after(event);
        self.durable.state = state as u8;
        if state == State::Closed {
            self.end(None);
        }
    }

    /// Ends the connection: nothing more is sent, what was received stays.
    pub(super) fn end(&mut self, error: Option<Error>) {
        self.judge_fast_open();
        self.durable.state = self.state().after(Event::Gone) as u8;
        self.error = self.error.or(error);
        self.timers.clear_all();
        self.send.clear();
        self.loss.clear();
        self.recv.clear_early();
        self.wishes = Wishes::default();
    }

    /// Sequence number of the FIN, if the write side is shut.
    pub(super) fn fin_seq(&self) -> Option<Seq> {
        let shut = self.durable.has(durable::WRITE_SHUT);
        // The stream's offsets are sequence numbers modulo 2^32.
        shut.then(|| self.durable.iss + 1 + self.send.end() as u32)
    }

    /// Whether there is data, or a FIN, that was never sent.
    pub(super) fn has_unsent(&self) -> bool {
        let fin = self.fin_seq().is_some_and(|fin| self.durable.snd_max.at_or_before(fin));
        self.send.unsent() > 0 || fin
    }

    /// A challenge ACK, or the answer to a segment that cannot be accepted. Two sides that do not
    /// agree would answer each other for ever, so this is limited to two in a second, as in Linux,
    /// unless the segment had payload (RFC 5961 7).
    pub(super) fn challenge(&mut self, now: Instant, payload: bool) {
        const PAUSE: Duration = Duration::from_millis(500);
        if !payload {
            if self.challenged_at.is_some_and(|at| now - at < PAUSE) {
                return;
            }
            self.challenged_at = Some(now);
            self.stats.challenges += 1;
        }
        self.wish(|wishes| wishes.ack = true);
    }
}
