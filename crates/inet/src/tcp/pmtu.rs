//! What a connection does when its path takes smaller packets than was thought (RFC 1191, 8201).

use super::connection::Connection;
use super::durable;
use super::input::TIMESTAMPS_LEN;
use crate::{RxBytes, TxBytes};

/// Length of a TCP header without options, bytes.
const TCP_HEADER: u16 = 20;

impl<T: TxBytes, R: RxBytes> Connection<T, R> {
    /// The path takes packets of `mtu` bytes only: what is longer and on its way is lost, which
    /// says nothing about congestion (RFC 1191 6.4), and leaves again in smaller segments.
    pub fn handle_too_big(&mut self, mtu: u16) {
        let ip = if self.endpoints().remote.is_ipv4() { 20 } else { 40 };
        let stamps = if self.durable.has(durable::TIMESTAMPS) { TIMESTAMPS_LEN } else { 0 };
        let mss = mtu.saturating_sub(ip + TCP_HEADER + stamps).max(1);
        if mss < self.durable.snd_mss {
            self.durable.snd_mss = mss;
            self.loss.path_takes(u32::from(mss));
            self.wish(|_| {});
        }
    }
}
