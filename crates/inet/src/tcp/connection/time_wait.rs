//! The record of a connection in TIME-WAIT after its application has closed it.
//!
//! TIME-WAIT only answers stray segments of the connection (RFC 9293 3.6.1). The durable half is
//! enough for that. There is no second implementation of those answers: for the rare segment that
//! comes, the record becomes a connection, and then a record again.

use alloc::sync::Arc;
use core::net::IpAddr;
use core::time::Duration;

use super::Connection;
use crate::tcp::challenge::ChallengeLimit;
use crate::tcp::config::TcpConfig;
use crate::tcp::durable::{self, Durable};
use crate::tcp::endpoints::Endpoints;
use crate::tcp::recv_queue::ReceiveQueue;
use crate::tcp::send_queue::TcpSendQueue;
use crate::tcp::seq::Seq;
use crate::tcp::state::State;
use crate::tcp::timers::TcpTimer;
use crate::tcp::timestamps::PeerTimestamp;
use crate::{Instant, RxBytes, TxBytes};

/// Distance of a new connection's first sequence number from the old connection's last. All
/// segments of the new one are then newer than any old one. RFC 6191 2 leaves the distance open;
/// this is Linux's.
const DISTANCE: u32 = 65_535 + 2;

/// Age of the last timestamp from which on a later timestamp differs from it: the clock's unit,
/// with Linux's margin (`tcp_tw_reuse_delay`).
const REUSE_AGE: Duration = Duration::from_secs(1);

/// The record of a connection in TIME-WAIT that its application has closed.
#[derive(Debug, Clone)]
pub struct TimeWait {
    durable: Durable,
    config: Arc<TcpConfig>,
    /// When TIME-WAIT ends.
    until: Instant,
    peer_timestamp: PeerTimestamp,
    challenges: ChallengeLimit,
}

impl TimeWait {
    /// The two ends.
    pub fn endpoints(&self) -> Endpoints {
        self.durable.endpoints()
    }

    /// When it is over.
    pub fn until(&self) -> Instant {
        self.until
    }

    /// The connection that this was.
    pub fn to_connection<T: TxBytes, R: RxBytes>(&self, now: Instant) -> Connection<T, R> {
        let durable = self.durable;
        let config = Arc::clone(&self.config);
        let (ends, iss) = (durable.endpoints(), durable.iss);
        let mut connection = Connection::new(now, config, ends, iss, State::TimeWait);
        connection.durable = durable;
        connection.send = TcpSendQueue::resumed(durable.acked);
        connection.recv = ReceiveQueue::new(self.config.recv_buffer, 0);
        connection.recv.resume(usize::from(durable.rcv_mss), durable.finished());
        connection.acks.acked(durable.rcv_nxt);
        connection.challenges = self.challenges;
        connection.peer_timestamp = self.peer_timestamp;
        connection.timers.set(TcpTimer::Wait, self.until);
        connection
    }

    /// First sequence number of a new connection that this side opens between the same ends. `None`
    /// unless that is safe and `tw_reuse` permits it. It is safe if timestamps tell the new
    /// segments from the old ones (RFC 6191 2, RFC 7323 5.8).
    pub fn reused_by_connect(&self, now: Instant) -> Option<Seq> {
        let ends = self.endpoints();
        let inside = |ip: IpAddr| ip.is_loopback();
        let permitted = match self.config.tw_reuse {
            0 => false,
            1 => true,
            _ => inside(ends.local.ip()) || inside(ends.remote.ip()),
        };
        let age = now - self.peer_timestamp.taken_at();
        let told_apart = self.durable.has(durable::TIMESTAMPS) && age > REUSE_AGE;
        (permitted && told_apart).then(|| self.used() + DISTANCE)
    }

    /// As [`reused_by_connect`](Self::reused_by_connect), for want of any other port. Without
    /// timestamps the distance of the sequence numbers and a second must do.
    pub fn replaced_by_connect(&self, now: Instant) -> Option<Seq> {
        let left = self.until.since(now);
        let age = self.config.time_wait.saturating_sub(left);
        (self.config.tw_reuse != 0 && age > REUSE_AGE).then(|| self.used() + DISTANCE)
    }

    /// One more than the largest sequence number used.
    pub fn used(&self) -> Seq {
        self.durable.snd_max
    }
}

impl<T: TxBytes, R: RxBytes> Connection<T, R> {
    /// The record of a connection in TIME-WAIT that has nothing to send.
    pub fn to_time_wait(&self) -> Option<TimeWait> {
        let until = self.timers.at(TcpTimer::Wait)?;
        let over = self.state() == State::TimeWait && !self.pending.wants_poll();
        over.then(|| TimeWait {
            durable: self.durable,
            config: Arc::clone(&self.config),
            until,
            peer_timestamp: self.peer_timestamp,
            challenges: self.challenges,
        })
    }
}
