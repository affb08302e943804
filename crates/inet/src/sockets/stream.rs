//! The state of a connected stream socket.

use super::maybe_dormant::MaybeDormant;
use crate::bytes::{RxBytes, TxBytes};
use crate::held::HeldFrame;
use crate::table::Handle;
use crate::tcp::Connection;

/// A connection, and the events of which its owner knows.
#[derive(Debug)]
pub(crate) struct Stream<T, R> {
    pub(crate) connection: MaybeDormant<T, HeldFrame<R>>,
    /// The listener that owns it until it is accepted.
    listener: Option<Handle>,
    pub(crate) notified: NotifiedState,
    /// Received bytes are thrown away.
    pub(crate) read_shut: bool,
    /// Closed with a reset, which leaves after what may be sent now.
    pub(super) aborts: bool,
    /// How much had arrived at both ends when something was sent last.
    pub(super) proven: u64,
}

/// Events of which the owner has been notified.
#[derive(Debug, Default)]
pub(crate) struct NotifiedState {
    pub(crate) connected: bool,
    pub(crate) readable: usize,
    pub(crate) acked: u64,
    /// The low half of `sent`, of streams with `NotSentLowat`.
    pub(crate) sent: u32,
    pub(crate) eof: bool,
    pub(crate) failed: bool,
    pub(crate) closed: bool,
}

impl<T: TxBytes, R: RxBytes> Stream<T, R> {
    pub(crate) fn new(connection: Connection<T, HeldFrame<R>>, listener: Option<Handle>) -> Self {
        let connection = MaybeDormant::new(connection);
        Self {
            connection,
            listener,
            notified: NotifiedState::default(),
            read_shut: false,
            aborts: false,
            proven: 0,
        }
    }
}

impl<T, R> Stream<T, R> {
    /// The listener that owns it until it is accepted.
    #[inline]
    pub(super) fn listener(&self) -> Option<Handle> {
        self.listener
    }

    /// Gives it to the application.
    #[inline]
    pub(super) fn accept(&mut self) {
        self.listener = None;
        self.notified.connected = true;
    }
}
