//! The window that is offered to the peer (RFC 9293 3.8.6).

use super::config::TcpConfig;
use super::durable::{self, Durable};
use super::recv_queue::ReceiveQueue;
use super::timestamps::TIMESTAMPS_LEN;

/// Units of the window's scale that are reserved for rounding.
const RESERVED_UNITS: usize = 64;

/// The values that the next offer follows from.
#[derive(Debug, Clone, Copy)]
pub(super) struct WindowOffer<'a> {
    durable: &'a Durable,
    config: &'a TcpConfig,
    /// The receive buffer, its free part, and received bytes that were not consumed.
    buffer: usize,
    free: usize,
    unconsumed: usize,
    /// Bound of the window within the buffer, bytes.
    threshold: usize,
}

impl<'a> WindowOffer<'a> {
    #[inline]
    pub(super) fn new<R>(
        durable: &'a Durable,
        config: &'a TcpConfig,
        queue: &ReceiveQueue<R>,
        threshold: u32,
    ) -> Self {
        Self {
            durable,
            config,
            buffer: queue.buffer(),
            free: queue.free(),
            unconsumed: queue.unconsumed(),
            threshold: threshold as usize,
        }
    }

    /// The window field of the next segment.
    ///
    /// The window's right edge moves only in large steps (RFC 9293 3.8.6.2.2) and never back. The
    /// rest of the window is rounded up to the scale's unit, because rounding down would withdraw a
    /// part of the offer. So each ACK may offer less than one unit too much, out of a reserve
    /// ([`capacity`](Self::capacity)). Bytes that come one by one and are not read may use up the
    /// reserve. Then the window shrinks by less than a unit, which RFC 7323 2.4 permits.
    #[inline]
    pub(super) fn field(&self) -> u16 {
        let scale = self.durable.rcv_scale;
        let left = self.durable.window_left() as usize;
        let wanted = self.largest();
        let units = if wanted >= left + self.step(1) {
            wanted >> scale
        } else if left.next_multiple_of(1 << scale) <= self.free {
            left.div_ceil(1 << scale)
        } else {
            left >> scale
        };
        units.min(0xffff) as u16
    }

    /// The window field of a SYN, which is never scaled (RFC 7323 2.2): whole segments, as Linux.
    pub(super) fn syn_field(&self) -> u16 {
        let room = self.free.min(0xffff);
        let options = if self.durable.has(durable::TIMESTAMPS) { TIMESTAMPS_LEN } else { 0 };
        let mss = usize::from(self.durable.rcv_mss.saturating_sub(options)).max(1);
        let full = if room > mss { room - room % mss } else { room };
        full.min(self.config.most_window()) as u16
    }

    /// Whether the application has made so much room that the peer should learn of it at once. That
    /// is a step of two segments or half the buffer, which doubles the peer's window. A smaller
    /// step would make a second ACK follow every ACK of a quick reader.
    #[inline]
    pub(super) fn deserves_ack(&self) -> bool {
        let left = self.durable.window_left() as usize;
        let wanted = self.largest();
        wanted >= left + self.step(2) && wanted >= 2 * left
    }

    /// The largest window that could be offered now, a multiple of the scale's unit.
    #[inline]
    fn largest(&self) -> usize {
        let scale = self.durable.rcv_scale;
        let room = self.capacity().saturating_sub(self.unconsumed).min(self.bound());
        (room >> scale).min(0xffff) << scale
    }

    /// Bound of the window that does not depend on the buffer's content, bytes.
    #[inline]
    fn bound(&self) -> usize {
        self.config.most_window().min(self.threshold)
    }

    /// The buffer without a reserve for rounding.
    #[inline]
    fn capacity(&self) -> usize {
        let scale = self.durable.rcv_scale;
        let reserve = if scale == 0 { 0 } else { (RESERVED_UNITS << scale).min(self.buffer / 8) };
        self.buffer - reserve
    }

    /// `segments` full segments or half of the largest offer.
    #[inline]
    fn step(&self, segments: usize) -> usize {
        let mss = usize::from(self.durable.rcv_mss);
        (segments * mss).min(self.capacity().min(self.bound()) / 2).max(1)
    }
}
