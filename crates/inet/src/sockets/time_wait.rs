//! A connection in TIME-WAIT whose socket is closed.

use super::ports::PortClaim;
use crate::owner_id::OwnerId;
use crate::sockets::kinds::{Family, SocketInfo, SocketKind};
use crate::tcp::{State, TimeWait};
use crate::wheel::TimerId;

/// A connection in TIME-WAIT.
#[derive(Debug)]
pub(crate) struct TimeWaitRecord {
    pub(super) wait: TimeWait,
    pub(super) claim: Option<PortClaim>,
    pub(super) timer: Option<TimerId>,
    /// Of the socket that it was.
    pub(super) tag: u64,
    pub(super) family: Family,
    pub(super) owner: OwnerId,
    /// Of the packets that answer for it: hops and type of service.
    pub(super) hops: u8,
    pub(super) class: u8,
}

impl TimeWaitRecord {
    /// Its record for `ss`.
    pub(crate) fn info(&self) -> SocketInfo {
        let ends = self.wait.endpoints();
        SocketInfo {
            tag: self.tag,
            kind: SocketKind::Stream,
            state: State::TimeWait.name(),
            recv_q: 0,
            send_q: 0,
            local: self.family.show(ends.local),
            peer: self.family.show(ends.remote),
        }
    }
}
