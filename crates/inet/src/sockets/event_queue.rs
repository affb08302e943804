//! The queue of sockets that have events.

use alloc::collections::VecDeque;

use super::events::{Event, EventKind};
use super::socket::Socket;
use crate::table::{Handle, Table};

/// The sockets with pending events, first come first served.
#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    sockets: VecDeque<Handle>,
}

impl EventQueue {
    /// Adds an event of `socket`, whose handle is `handle`. A closing socket gives only one more
    /// event.
    pub(crate) fn add<T, R>(&mut self, handle: Handle, socket: &mut Socket<T, R>, kind: EventKind) {
        if socket.is_closing() && kind != EventKind::Closed {
            return;
        }
        if socket.events.is_empty() {
            self.sockets.push_back(handle);
        }
        socket.events.add(kind);
    }

    /// The next event, with its socket.
    #[inline]
    pub(crate) fn next<T, R>(
        &mut self,
        sockets: &mut Table<Socket<T, R>>,
    ) -> Option<(Handle, Event)> {
        while let Some(handle) = self.sockets.front().copied() {
            if let Some(socket) = sockets.get_mut(handle)
                && let Some(kind) = socket.events.take()
            {
                if socket.events.is_empty() {
                    self.sockets.pop_front();
                }
                return Some((handle, Event { tag: socket.tag, kind }));
            }
            self.sockets.pop_front();
        }
        None
    }
}
