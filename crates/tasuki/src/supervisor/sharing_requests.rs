//! Clients' requests for shared sockets: those that the inet server has, and those that wait.

use std::collections::VecDeque;

use abi::SocketId;

use super::connections::ConnectionId;

/// Requests for shared sockets.
#[derive(Default)]
pub(super) struct SharingRequests {
    pub(super) in_flight: usize,
    pub(super) waiting: VecDeque<(ConnectionId, Vec<SocketId>)>,
}
