//! Which of the programs' sockets are still there, by sock_diag(7).
//!
//! Nobody tells the relay when a program closes a socket that listens or that waits for datagrams.
//! So it asks the kernel for all of them, now and then.

use std::collections::HashSet;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use netlink_packet_core::{
    NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP, IPPROTO_UDP};
use netlink_packet_sock_diag::inet::nlas::Nla;
use netlink_packet_sock_diag::inet::{
    ExtensionFlags, InetRequest, InetResponse, SocketId, StateFlags,
};
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use netlink_sys::{Socket, SocketAddr as NetlinkAddr};

/// A connection to the namespace's sock_diag.
pub(crate) struct Sweep(Socket);

/// The local ends of the sockets of one kind.
#[derive(Debug, Default)]
pub(crate) struct LocalEnds(HashSet<SocketAddr>);

impl LocalEnds {
    /// A socket of both families counts as one of each.
    fn insert(&mut self, socket: &InetResponse) {
        let id = &socket.header.socket_id;
        let (address, port) = (id.source_address.to_canonical(), id.source_port);
        let only = socket.nlas.iter().any(|one| matches!(one, Nla::SkV6Only(true)));
        if address == Ipv6Addr::UNSPECIFIED && !only {
            self.0.insert((Ipv4Addr::UNSPECIFIED, port).into());
        }
        self.0.insert((address, port).into());
    }

    /// All of them.
    pub(crate) fn all(self) -> impl Iterator<Item = SocketAddr> {
        self.0.into_iter()
    }

    /// Is there a socket with exactly this local end?
    pub(crate) fn contains(&self, local: SocketAddr) -> bool {
        self.0.contains(&local)
    }

    /// Is there a socket with this port, of either family?
    pub(crate) fn has_port(&self, port: u16) -> bool {
        self.0.iter().any(|local| local.port() == port)
    }
}

impl Sweep {
    /// Of the calling thread's network namespace.
    pub(crate) fn new() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_SOCK_DIAG)?;
        socket.bind_auto()?;
        socket.connect(&NetlinkAddr::new(0, 0))?;
        Ok(Self(socket))
    }

    /// All sockets that listen.
    pub(crate) fn listeners(&self) -> io::Result<LocalEnds> {
        self.all(IPPROTO_TCP, &StateFlags::LISTEN)
    }

    /// All stream sockets that have an address and do nothing yet. None on Linux before 6.8, which
    /// does not list them.
    pub(crate) fn bound(&self) -> io::Result<LocalEnds> {
        const BOUND_INACTIVE: u32 = 1 << 13;
        self.all(IPPROTO_TCP, &StateFlags::from_bits_retain(BOUND_INACTIVE))
    }

    /// All sockets for datagrams that have a port.
    pub(crate) fn datagram_sockets(&self) -> io::Result<LocalEnds> {
        self.all(IPPROTO_UDP, &StateFlags::all())
    }

    fn all(&self, protocol: u8, states: &StateFlags) -> io::Result<LocalEnds> {
        let mut ends = LocalEnds::default();
        for (family, socket_id) in [(AF_INET, SocketId::new_v4()), (AF_INET6, SocketId::new_v6())] {
            let request = InetRequest {
                family,
                protocol,
                extensions: ExtensionFlags::empty(),
                states: states.clone(),
                socket_id,
            };
            self.dump(request, &mut ends)?;
        }
        Ok(ends)
    }

    fn dump(&self, request: InetRequest, ends: &mut LocalEnds) -> io::Result<()> {
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | NLM_F_DUMP;
        let mut message = NetlinkMessage::new(header, SockDiagMessage::InetRequest(request).into());
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.0.send(&bytes, 0)?;
        let mut buffer = vec![0; 64 << 10];
        loop {
            let len = self.0.recv(&mut &mut buffer[..], 0)?;
            let mut rest = buffer.get(..len).unwrap_or_default();
            while !rest.is_empty() {
                let message = NetlinkMessage::<SockDiagMessage>::deserialize(rest)
                    .map_err(io::Error::other)?;
                let taken = (message.header.length as usize).next_multiple_of(4).max(16);
                rest = rest.get(taken..).unwrap_or_default();
                match message.payload {
                    NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(socket)) => {
                        ends.insert(&socket);
                    }
                    NetlinkPayload::Done(_) => return Ok(()),
                    NetlinkPayload::Error(error) => return Err(error.to_io()),
                    _ => {}
                }
            }
        }
    }
}
