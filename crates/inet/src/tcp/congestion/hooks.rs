//! Where a connection meets its congestion control.

use core::time::Duration;

use super::{Event, RttSample, Sent};
use crate::tcp::connection::Connection;
use crate::tcp::loss::CaState;
use crate::{Instant, RxBytes, TxBytes};

impl<T: TxBytes, R: RxBytes> Connection<T, R> {
    /// An ACK gave a round-trip time.
    pub(in crate::tcp) fn take_rtt(&mut self, now: Instant, rtt: Option<Duration>) {
        let Some(rtt) = rtt else { return };
        let sample = RttSample {
            now,
            rtt: rtt.max(Duration::from_micros(1)),
            una: self.durable.snd_una,
            nxt: self.durable.snd_max,
            mss: u32::from(self.durable.snd_mss),
        };
        self.congestion.on_rtt(&mut self.window, &sample);
    }

    /// The first segment leaves after nothing was in flight.
    pub(in crate::tcp) fn start_after_idle(&mut self, now: Instant) {
        let idle = now - self.sent_at;
        let rto = self.rtt.timeout();
        if self.config.slow_start_after_idle && idle > rto {
            self.window.restart(now, idle, rto);
        }
        self.congestion.on_event(&mut self.window, now, Event::TxStart { idle });
    }

    /// Something was sent, or the congestion window did not let it; it is what `limits` a burst.
    pub(in crate::tcp) fn use_window(&mut self, now: Instant, limited: bool) {
        let (una, nxt) = (self.durable.snd_una, self.durable.snd_max);
        let open = self.loss.state() == CaState::Open;
        let decays = self.config.slow_start_after_idle && open && !self.writer_waits;
        self.window.sent(&Sent {
            now,
            una,
            nxt,
            packets_out: self.loss.sent.packets_out(),
            limited,
            decay_after: decays.then(|| self.rtt.timeout()),
        });
    }
}
