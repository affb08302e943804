//! Datagrams between a client's queues and the protocol core, with their ancillary data.

use std::net::{IpAddr, Ipv4Addr};

use abi::Errno;
use abi::ancillary::{AncillarySet, RecvAncillary, SendAncillary};
use abi::data::{DataDescriptor, DataFlags};
use inet::{DatagramInfo, Error, InterfaceId, SendOptions};
use rustix::time::{ClockId, clock_gettime};
use shm::Pool;

use crate::engine::Engine;
use crate::refusal::errno;
use crate::socket::Socket;
use crate::tx::chunk::ClientChunk;

/// Most bytes of datagrams joined to one (UDP_GRO): the payload of the longest IPv4 packet.
const MOST_JOINED: usize = 65_507;

/// Gives the core one descriptor's bytes: a datagram, or a part of one. False if it refuses them.
#[inline]
pub(crate) fn submit(
    engine: &mut Engine,
    socket: &mut Socket,
    (descriptor, ancillary): (&DataDescriptor, &SendAncillary),
    chunk: ClientChunk,
) -> bool {
    if socket.write_shut {
        return false;
    }
    let done = match interface(engine, ancillary.interface) {
        // As Linux.
        None => Err(Errno::NODEV),
        Some(interface) => {
            let options = SendOptions {
                to: descriptor.peer,
                source: ancillary.source,
                interface,
                ttl: ancillary.ttl,
                tos: ancillary.tos,
                segment: ancillary.segment,
                more: descriptor.flags.has(DataFlags::MORE),
                ..SendOptions::default()
            };
            let sent = engine.stack.send_with(engine.now, socket.handle, chunk, &options);
            sent.map_err(|refused| match refused.error {
                // As Linux, if the source is the datagram's and not the socket's.
                Error::AddrNotAvailable => match ancillary.source {
                    Some(IpAddr::V4(_)) => Errno::NETUNREACH,
                    Some(IpAddr::V6(_)) => Errno::INVAL,
                    None => Errno::ADDRNOTAVAIL,
                },
                error => errno(error),
            })
        }
    };
    // A full queue drops a datagram as a full interface would: without an error.
    if let Err(errno) = done
        && errno != Errno::NOBUFS
    {
        (socket.error, socket.refusal) = (Some(errno), Some(errno));
    }
    done.is_ok()
}

/// The interface with an index; `Some(None)` for 0, `None` if there is no such interface.
fn interface(engine: &Engine, index: u32) -> Option<Option<InterfaceId>> {
    if index == 0 {
        return Some(None);
    }
    let mut all = engine.stack.interfaces().chain([InterfaceId::LOOPBACK]);
    all.find(|id| id.scope_id() == index).map(Some)
}

/// Copies the core's received datagrams into the client's areas. Returns the number of copied
/// bytes.
pub(crate) fn receive(engine: &mut Engine, socket: &mut Socket, pool: &Pool) -> usize {
    let handle = socket.handle;
    let most = if socket.asked.has(AncillarySet::GRO) { MOST_JOINED } else { 0 };
    let mut copied = 0;
    while let Some((number, segment)) = engine.stack.recv_run(handle, most) {
        // A single datagram can be longer than joined ones may be; then `segment` is its length.
        let number = if most == 0 { 1 } else { number };
        let has_room = socket.rx.begin_datagram(pool, number * segment);
        let (mut len, mut about) = (0, None);
        for _ in 0..number {
            let Some(received) = engine.stack.recv(handle) else { break };
            let bytes = received.piece.range.len();
            if has_room {
                socket.rx.add_to_datagram(&received.piece);
                len += bytes;
            } else {
                engine.counters.datagrams_dropped += 1;
            }
            about = received.info.map(|info| (received.from, info));
            // The shell bounds a datagram socket's queue; for the core the datagram is consumed.
            engine.stack.consumed(engine.now, handle, bytes);
        }
        if let Some((from, info)) = about.filter(|_| has_room) {
            let segment = if number > 1 { segment } else { 0 };
            let ancillary =
                (!socket.asked.is_empty()).then(|| ancillary(engine, socket, &info, segment));
            socket.rx.end_datagram(len, from, ancillary);
            copied += len;
        }
    }
    copied
}

/// The ancillary data of a datagram, or of the message that reported an error.
pub(crate) fn ancillary(
    engine: &Engine,
    socket: &Socket,
    info: &DatagramInfo,
    segment: usize,
) -> RecvAncillary {
    let DatagramInfo { to, interface, ttl, tos, .. } = *info;
    let ours = match to {
        IpAddr::V4(to) => spec_dst(engine, interface, to),
        IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
    };
    let local = engine.stack.local_addr(socket.handle);
    let wants_time = socket.asked.has_any(AncillarySet::TIMESTAMP | AncillarySet::TIMESTAMPNS);
    RecvAncillary {
        asked: socket.asked,
        to,
        port: local.map_or(0, |local| local.port()),
        ours,
        interface: shown_interface(engine, interface, to).scope_id(),
        ttl,
        tos,
        segment: u16::try_from(segment).unwrap_or(0),
        at: if wants_time { wall_clock() } else { 0 },
    }
}

/// The interface that a program is told. As Linux: of a datagram of this host to itself over IPv4
/// it is that of the address.
fn shown_interface(engine: &Engine, interface: InterfaceId, to: IpAddr) -> InterfaceId {
    let has = |id: &InterfaceId| engine.stack.addresses(*id).any(|one| one.cidr.address == to);
    match (interface, to) {
        (InterfaceId::LOOPBACK, IpAddr::V4(ip)) if !ip.is_loopback() => {
            engine.stack.interfaces().find(has).unwrap_or(interface)
        }
        _ => interface,
    }
}

/// As Linux's `ipi_spec_dst`: the destination if it is one of the stack's addresses, else the
/// stack's first address on the interface.
fn spec_dst(engine: &Engine, interface: InterfaceId, to: Ipv4Addr) -> Ipv4Addr {
    let mut first = None;
    for address in engine.stack.addresses(interface) {
        match address.cidr.address {
            IpAddr::V4(ours) if ours == to => return to,
            IpAddr::V4(ours) => first = first.or(Some(ours)),
            IpAddr::V6(_) => {}
        }
    }
    let on_loopback = interface == InterfaceId::LOOPBACK && to.is_multicast();
    first.unwrap_or(if on_loopback { Ipv4Addr::LOCALHOST } else { to })
}

/// Nanoseconds since 1970.
fn wall_clock() -> u64 {
    let now = clock_gettime(ClockId::Realtime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec.unsigned_abs())
}
