//! Disconnecting: `connect` with AF_UNSPEC, as Linux's `tcp_disconnect` and `udp_disconnect`.

use crate::bytes::{RxBytes, TxBytes};
use crate::context::Context;
use crate::error::Error;
use crate::sockets::layer::SocketLayer;
use crate::sockets::ports::receive_addresses;
use crate::sockets::socket::{Binding, SocketBody};
use crate::table::Handle;
use crate::tcp::State;
use crate::time::Instant;

impl<T: TxBytes, R: RxBytes> SocketLayer<T, R> {
    /// See [`Stack::disconnect`](crate::Stack::disconnect).
    pub(crate) fn disconnect(
        &mut self,
        cx: &mut Context,
        now: Instant,
        handle: Handle,
    ) -> Result<bool, Error> {
        let socket = self.open_socket(handle)?;
        let mut cut_short = false;
        match &mut socket.body {
            SocketBody::Datagram(_) => self.forget_peer(handle),
            SocketBody::Listener(_) => self.stop_listening(cx, now, handle),
            SocketBody::Connection(stream) => {
                let ends = stream.connection.endpoints();
                let unsent = stream.connection.unsent_len() > 0;
                cut_short = match stream.connection.state() {
                    State::Closing | State::LastAck => unsent,
                    State::Closed | State::TimeWait => false,
                    _ => true,
                };
                let reset = stream.connection.abort(now);
                socket.events.clear();
                if let Some(reset) = reset {
                    self.tcp.queue_reset(ends, reset);
                }
                self.leave_network(cx, handle);
                if let Some(socket) = self.sockets.get_mut(handle) {
                    socket.body = SocketBody::Idle;
                }
            }
            SocketBody::Idle | SocketBody::Gone => {}
        }
        self.restore_address(handle);
        Ok(cut_short)
    }

    /// Gives a socket the address that `bind` named. As on Linux, a port that `bind` chose is free
    /// for others, and a stream shows a port that it has no more.
    pub(super) fn restore_address(&mut self, handle: Handle) {
        let Some(socket) = self.sockets.get_mut(handle) else { return };
        let (kind, dual, owner) = (socket.kind(), socket.is_dual(), socket.owner);
        let Some(local) = socket.local else { return };
        let binding = socket.binding;
        // Without a port it has been restored before.
        if local.port() == 0 || binding.names_address() && binding.names_port() {
            return;
        }
        if binding.names_port() {
            let mut any = socket.family.unbound();
            any.set_port(local.port());
            if any != local {
                self.take_address(handle, any, None);
            }
            return;
        }
        let mut address = local;
        address.set_port(0);
        socket.local = Some(address).filter(|_| binding.names_address());
        if socket.local.is_none() {
            socket.binding = Binding::None;
        }
        if !kind.is_datagram() {
            socket.rare.get_or_insert_default().former_port = local.port();
        }
        if let Some(claim) = socket.claim.take() {
            self.ports.release(&claim, owner);
        }
        if kind.is_datagram() {
            let demux = self.demux.datagrams(kind);
            receive_addresses(local, dual).for_each(|at| demux.remove_bound(at, handle));
        }
    }
}
