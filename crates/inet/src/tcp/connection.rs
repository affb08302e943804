//! A connection: its parts, and the application's calls.
//!
//! Each part is a struct of its own module, with private fields. This module and its children
//! compose the parts. Calls are here; `input` and `ack` take segments; `timeout` acts on timers.
//! All three change state and leave requests in [`PendingOutput`]. `output` makes segments of the
//! requests, one at a time, when the caller polls. So nothing is sent twice, and an ACK rides on
//! data whenever there is some. The caller decides how much leaves when.

mod ack;
mod check;
mod data;
pub(super) mod dormant;
mod fastopen;
mod info;
mod input;
mod mtu;
mod output;
mod settings;
pub(super) mod time_wait;
mod timeout;

use alloc::boxed::Box;
use alloc::sync::Arc;

use super::ack_policy::AckPolicy;
use super::attempts::Attempts;
use super::challenge::ChallengeLimit;
use super::config::TcpConfig;
use super::congestion::CongestionControl;
use super::durable::{self, Durable};
use super::ecn::EcnState;
use super::endpoints::Endpoints;
use super::failure::ConnectionFailure;
use super::fastopen::FastOpenState;
use super::info_counters::InfoCounters;
use super::loss::{LossContext, LossRecovery};
use super::mtu_search::MtuSearch;
use super::nagle::Nagle;
use super::peer_window::PeerWindow;
use super::pending::PendingOutput;
use super::progress::Progress;
use super::recv_queue::ReceiveQueue;
use super::recv_tuning::BufferTuner;
use super::recv_window::WindowOffer;
use super::reset::reset_for;
use super::rtt::RttEstimator;
use super::segment::{MAX_SCALE, SegmentRepr};
use super::send_queue::{SendFlags, TcpSendQueue};
use super::seq::Seq;
use super::state::{State, StateEvent};
use super::stats::TcpStats;
use super::super_segments::SuperSegments;
use super::timers::{TcpTimer, TcpTimers};
use super::timestamps::PeerTimestamp;
use super::urgent::UrgentMarks;
use crate::held::OutOfOrderUse;
use crate::{Error, Instant, RxBytes, RxPiece, TxBytes};

/// The caller's duty after [`Connection::handle_segment`]. Acknowledgements and data are
/// not here: they wait for [`Connection::poll_segment`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SegmentReply {
    /// Nothing.
    None,
    /// Send this RST to the segment's sender.
    Reset(SegmentRepr),
    /// The segment is a SYN that may reuse this connection in TIME-WAIT. Remove the connection, and
    /// give the segment to the listener if there is one (RFC 9293 3.10.7.4, RFC 6191).
    Reuse,
}

impl SegmentReply {
    /// The RST that answers `segment`, if there is one (RFC 9293 3.10.7.1).
    fn reset(segment: &SegmentRepr, payload_len: usize) -> Self {
        reset_for(segment, payload_len).map_or(Self::None, Self::Reset)
    }
}

/// A TCP connection.
#[derive(Debug)]
pub struct Connection<T, R> {
    durable: Durable,
    config: Arc<TcpConfig>,
    send: TcpSendQueue<T>,
    nagle: Nagle,
    super_segments: SuperSegments,
    recv: ReceiveQueue<R>,
    tuner: BufferTuner,
    urgent: UrgentMarks,
    peer_window: PeerWindow,
    acks: AckPolicy,
    challenges: ChallengeLimit,
    peer_timestamp: PeerTimestamp,
    rtt: RttEstimator,
    loss: LossRecovery,
    congestion: CongestionControl,
    ecn: EcnState,
    timers: TcpTimers,
    progress: Progress,
    attempts: Attempts,
    pending: PendingOutput,
    failure: ConnectionFailure,
    fast_open: Option<Box<FastOpenState>>,
    mtu_search: Option<Box<MtuSearch>>,
    counters: InfoCounters,
    stats: TcpStats,
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
        connection.pending.request_syn();
        connection
    }

    /// Makes the passive side of a connection of a SYN without ACK, RST and FIN that a listener
    /// got; [`poll_segment`](Self::poll_segment) gives the SYN-ACK. Payload of the SYN is not used:
    /// the peer will retransmit it.
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
        connection.pending.request_syn();
        connection
    }

    /// The SYN-ACK of this connection, just made by [`accept`](Self::accept), has left already, at
    /// `sent_at`: a listener has sent it. `retransmitted` if it has left more than once.
    pub fn resume_handshake(&mut self, sent_at: Instant, retransmitted: bool) {
        self.poll_segment(sent_at);
        if retransmitted {
            self.rtt.retransmitted();
            self.attempts.timed_out();
        }
    }

    fn new(
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
            send: TcpSendQueue::new(),
            nagle: Nagle::new(config.nodelay, config.cork, iss),
            super_segments: SuperSegments::default(),
            recv: ReceiveQueue::new(config.recv_buffer, config.out_of_order_limit),
            tuner: BufferTuner::new(config.recv_buffer_granted),
            urgent: UrgentMarks::default(),
            peer_window: PeerWindow::new(iss),
            acks: AckPolicy::new(config.quick_acks),
            challenges: ChallengeLimit::default(),
            peer_timestamp: PeerTimestamp::new(now),
            rtt: RttEstimator::new(&config),
            loss: LossRecovery::new(now, &config),
            congestion: CongestionControl::opening(now, iss),
            ecn: EcnState::default(),
            timers: TcpTimers::default(),
            progress: Progress::new(now),
            attempts: Attempts::default(),
            pending: PendingOutput::default(),
            failure: ConnectionFailure::default(),
            fast_open: None,
            mtu_search: None,
            counters: InfoCounters::default(),
            stats: TcpStats::default(),
            config,
        };
        let window = connection.window_offer().syn_field();
        connection.tuner.raise_threshold(window.into());
        connection
    }

    /// When [`poll_segment`](Self::poll_segment) or [`handle_timer`](Self::handle_timer) is to be
    /// called again if nothing else happens: `now` if there may be something to send.
    pub fn poll_at(&self, now: Instant) -> Option<Instant> {
        if self.pending.wants_poll() { Some(now) } else { self.timers.next() }
    }

    /// Queues a chunk that is one complete write: [`send_with`](Self::send_with) without flags.
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
        if let Some(error) = self.failure.error() {
            return Err((error, chunk));
        }
        if self.durable.has(durable::WRITE_SHUT) {
            return Err((Error::BrokenPipe, chunk));
        }
        if self.state() == State::Closed {
            return Err((Error::NotConnected, chunk));
        }
        self.stop_deferring();
        self.send.push(chunk, flags, u64::from(self.peer_window.max() / 2));
        self.nagle.written(flags.more);
        self.counters.set_writer_waits(false);
        self.note_limit(now);
        self.pending.request_poll();
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
        self.tuner.on_read(now, &self.durable, &self.config, &mut self.recv);
        self.offer_window();
    }

    /// Ends the stream towards the peer after the queued data (half-close).
    pub fn shutdown_write(&mut self, _now: Instant) {
        if self.state() == State::Closed || self.durable.has(durable::WRITE_SHUT) {
            return;
        }
        self.durable.set(durable::WRITE_SHUT);
        // RFC 9293 3.10.4: before the handshake is over this waits for it.
        if !self.state().opening() {
            self.change(StateEvent::Shut);
        }
        self.pending.request_poll();
    }

    /// The application will not read any more; once this side has sent its FIN, data that arrives
    /// is answered with RST, as Linux does.
    pub fn shutdown_read(&mut self) {
        self.durable.set(durable::READ_SHUT);
    }

    /// Whether [`close`](Self::close) is [`abort`](Self::abort).
    pub fn resets_on_close(&self) -> bool {
        self.recv.unconsumed() > 0 || self.state() == State::SynSent
    }

    /// Whether data, or a FIN, was queued and never sent, and the state lets it leave.
    pub fn has_output(&self) -> bool {
        self.state().sends() && self.has_unsent()
    }

    /// Closes for an application that has left: queued data and FIN are still sent. With received
    /// bytes not consumed, or without a connection yet, this is [`abort`](Self::abort) (RFC 9293
    /// 3.6.1, RFC 2525 2.17). Gives the RST to be sent, if any.
    pub fn close(&mut self, now: Instant) -> Option<SegmentRepr> {
        if self.resets_on_close() {
            return self.abort(now);
        }
        self.durable.set(durable::READ_SHUT | durable::ORPHAN);
        self.shutdown_write(now);
        if self.state() == State::FinWait2 {
            self.timers.set(TcpTimer::Wait, now + self.config.fin_timeout);
        }
        None
    }

    /// Ends the connection at once; gives the RST to be sent, if the peer knows of the connection.
    pub fn abort(&mut self, now: Instant) -> Option<SegmentRepr> {
        // RFC 9293 3.10.5.
        let known = match self.state() {
            State::SynReceived
            | State::Established
            | State::FinWait1
            | State::FinWait2
            | State::CloseWait => true,
            // As Linux: the peer would take what it has for the whole stream.
            State::Closing | State::LastAck => self.has_unsent(),
            State::Closed | State::SynSent | State::TimeWait => false,
        };
        let reset = known.then(|| self.reset(now));
        self.discard();
        reset
    }

    /// Ends the connection at once and sends nothing to the peer.
    pub fn discard(&mut self) {
        self.end(None);
        self.recv.clear();
    }

    /// Handles an ICMP error which says that the peer cannot be reached. It ends a connection
    /// attempt. An established connection remembers it as the reason of a later timeout (RFC 9293
    /// 3.9.2.2). Check [`is_outstanding`](Self::is_outstanding) first.
    pub fn handle_unreachable(&mut self, error: Error) {
        if self.state().opening() || self.is_half_open() {
            self.end(Some(error));
        } else {
            self.failure.report(error);
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

    /// Received pieces that wait for missing data before them.
    pub fn out_of_order_count(&self) -> usize {
        self.recv.out_of_order_count()
    }

    /// Pieces that come out of order from now on count for the owner, too.
    pub(crate) fn count_out_of_order(&mut self, of_owner: &OutOfOrderUse) {
        self.recv.count_out_of_order(of_owner);
    }

    /// Whether the peer's FIN was received and `recv` has given out all before it.
    pub fn eof(&self) -> bool {
        self.durable.has(durable::FIN_RECEIVED) && self.recv.ready_len() == 0
    }

    /// Whether the peer's FIN was received.
    pub fn has_peer_ended(&self) -> bool {
        self.durable.has(durable::FIN_RECEIVED)
    }

    /// Whether nothing more can be received: the peer's FIN has come, or the connection is over.
    pub fn is_at_end(&self) -> bool {
        self.durable.has(durable::FIN_RECEIVED) || self.state() == State::Closed
    }

    /// Why the connection failed. It does not change any more.
    pub fn error(&self) -> Option<Error> {
        self.failure.error()
    }

    /// Whether the connection is over (CLOSED) and will not send or receive anything.
    /// Received data can still be read.
    pub fn is_done(&self) -> bool {
        self.state() == State::Closed && !self.pending.has_final()
    }

    /// The last byte that was queued is urgent (MSG_OOB). It leaves at once, as far as windows
    /// permit, whatever Nagle's rule says.
    pub fn mark_urgent(&mut self, _now: Instant) {
        let end = self.send.end();
        if end > self.durable.acked {
            self.urgent.mark(end);
            self.pending.request_poll();
        }
    }

    /// Position of the newest urgent byte in the peer's stream, whose first byte is at 0. It may
    /// not have arrived yet.
    pub fn urgent_mark(&self) -> Option<u64> {
        self.urgent.received()
    }

    /// Whether the mark has moved since the last call.
    pub fn take_urgent_mark_moved(&mut self) -> bool {
        self.urgent.take_moved()
    }

    /// The half that must outlive the process; up to date whenever a segment has been given out.
    pub fn durable(&self) -> &Durable {
        &self.durable
    }

    /// Counts since the last call.
    pub fn take_stats(&mut self) -> TcpStats {
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

/// Shared by the children of this module.
impl<T: TxBytes, R: RxBytes> Connection<T, R> {
    /// Changes to the state that follows `event`.
    fn change(&mut self, event: StateEvent) {
        let state = self.state().after(event);
        self.durable.state = state as u8;
        if state == State::Closed {
            self.end(None);
        }
    }

    /// Ends the connection: nothing more is sent, and received data remains readable.
    fn end(&mut self, error: Option<Error>) {
        self.detect_black_hole();
        self.durable.state = self.state().after(StateEvent::Gone) as u8;
        self.failure.set(error);
        self.timers.clear_all();
        self.send.clear();
        self.loss.clear();
        self.recv.clear_out_of_order();
        self.pending.clear();
    }

    /// Sequence number of the FIN, if the write side is shut.
    fn fin_seq(&self) -> Option<Seq> {
        let shut = self.durable.has(durable::WRITE_SHUT);
        // The stream's offsets are sequence numbers modulo 2^32.
        shut.then(|| self.durable.iss + 1 + self.send.end() as u32)
    }

    /// Whether there is data, or a FIN, that was never sent.
    fn has_unsent(&self) -> bool {
        let fin = self.fin_seq().is_some_and(|fin| self.durable.snd_max.at_or_before(fin));
        self.send.unsent() > 0 || fin
    }

    /// A challenge ACK, or the answer to a segment that cannot be accepted. Those without payload
    /// are limited (RFC 5961 7).
    fn challenge(&mut self, now: Instant, payload: bool) {
        if !payload {
            if !self.challenges.permits(now) {
                return;
            }
            self.stats.challenges += 1;
        }
        self.pending.request_ack();
    }

    /// Loss recovery, and the context that it needs.
    fn loss_context(&mut self, now: Instant) -> (&mut LossRecovery, LossContext<'_>) {
        let can_send_new =
            self.has_unsent() && self.durable.send_edge().after(self.durable.snd_max);
        let context = LossContext {
            now,
            una: self.durable.snd_una,
            nxt: self.durable.snd_max,
            mss: u32::from(self.durable.snd_mss).max(1),
            sack: self.durable.has(durable::SACK),
            can_send_new,
            max_window: self.peer_window.max(),
            congestion: &mut self.congestion,
            rtt: &self.rtt,
            config: &self.config,
            stats: &mut self.stats,
        };
        (&mut self.loss, context)
    }

    /// The next window that can be offered.
    #[inline]
    fn window_offer(&self) -> WindowOffer<'_> {
        WindowOffer::new(&self.durable, &self.config, &self.recv, self.tuner.threshold())
    }

    /// Requests an ACK if the peer should know at once how much the window has opened.
    fn offer_window(&mut self) {
        // As in Linux: the window of a SYN is at most 64 KiB. A side that has sent only a SYN
        // offers the rest with its next segment.
        let only_syn = self.counters.sent_at_most_one();
        if self.state().receives() && !only_syn && self.window_offer().deserves_ack() {
            self.pending.request_ack();
        }
    }
}

/// Access of tests.
#[cfg(test)]
impl<T, R> Connection<T, R> {
    pub(super) fn congestion(&self) -> &CongestionControl {
        &self.congestion
    }

    pub(super) fn timers(&self) -> &TcpTimers {
        &self.timers
    }

    /// Moves our sequence numbers by `by`.
    pub(super) fn shift(&mut self, by: u32) {
        self.durable.iss += by;
        self.durable.snd_una += by;
        self.durable.snd_max += by;
        self.nagle.shift(by);
    }
}
