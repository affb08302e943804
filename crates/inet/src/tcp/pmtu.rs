//! What a connection does when its path takes smaller packets than was thought (RFC 1191, 8201).

use alloc::sync::Arc;

use super::State;
use super::connection::Connection;
use crate::{Instant, RxBytes, TxBytes};

impl<T: TxBytes, R: RxBytes> Connection<T, R> {
    /// The path takes packets of `mtu` bytes only: what is longer and on its way is lost, which
    /// says nothing about congestion (RFC 1191 6.4), and leaves again in smaller segments.
    pub fn handle_too_big(&mut self, now: Instant, mtu: u16) {
        let mss = mtu.saturating_sub(self.packet_overhead()).max(1);
        self.bound_mtu_search(mtu);
        if mss < self.durable.snd_mss {
            self.durable.snd_mss = mss;
            self.forget_mtu_probe();
            if self.state() == State::SynSent {
                return self.shorten_syn(mss);
            }
            let (loss, mut env) = self.loss_env(now);
            loss.path_takes(&mut env, u32::from(mss));
            self.wish(|_| {});
        } else if self.mtu_probe_exceeds(mtu) {
            self.mtu_probe_lost(now);
        }
    }

    /// A SYN with payload did not arrive. One without leaves at once, and as Linux says that we
    /// take no more than `mss` either.
    fn shorten_syn(&mut self, mss: u16) {
        Arc::make_mut(&mut self.config).mss = mss;
        self.durable.rcv_mss = mss;
        let with_data = self.syn_has_data();
        self.wish(|wishes| wishes.syn |= with_data);
    }
}
