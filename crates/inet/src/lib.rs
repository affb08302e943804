//! Sans-IO TCP/IP protocol core: a [`Stack`] without clock, thread, system call or `std`.
//!
//! Frames go in, frames and events come out, and time is an argument; the owner of the stack moves
//! them. Payload is not copied: see [`TxBytes`] and [`RxBytes`].
//!
//! Two stacks on one wire, and a datagram from one to the other:
//!
//! ```
//! # use core::{net::Ipv4Addr, ops::Range};
//! # use tasuki_inet::{Cidr, Config, Egress, Instant, InterfaceConfig, InterfaceId, RxBytes};
//! # use tasuki_inet::{SocketKind, Stack, TxBytes, TxOffload, TxPiece};
//! /// Payload to be sent; a program would name memory of its own.
//! struct Text(&'static [u8]);
//!
//! impl TxBytes for Text {
//!     fn len(&self) -> usize {
//!         self.0.len()
//!     }
//!     fn checksum(&self, range: Range<usize>) -> u16 {
//!         smoltcp::wire::checksum::data(&self.0[range])
//!     }
//!     fn copy_to(&self, range: Range<usize>, out: &mut [u8]) {
//!         out.copy_from_slice(&self.0[range]);
//!     }
//!     fn append(&mut self, next: Self) -> Result<(), Self> {
//!         Err(next)
//!     }
//! }
//!
//! /// A received frame.
//! struct Frame(Vec<u8>);
//!
//! impl RxBytes for Frame {
//!     fn bytes(&self) -> &[u8] {
//!         &self.0
//!     }
//! }
//!
//! /// The wire: frames in flight.
//! #[derive(Default)]
//! struct Wire(Vec<Frame>);
//!
//! impl Egress<Text> for Wire {
//!     fn ready(&mut self, _: InterfaceId) -> bool {
//!         true
//!     }
//!     fn emit(
//!         &mut self,
//!         _: InterfaceId,
//!         head: &[u8],
//!         body: &[TxPiece<'_, Text>],
//!         _: TxOffload,
//!     ) -> bool {
//!         let mut frame = head.to_vec();
//!         body.iter().for_each(|piece| frame.extend(&piece.bytes.0[piece.range.clone()]));
//!         self.0.push(Frame(frame));
//!         true
//!     }
//! }
//!
//! fn host(number: u8) -> Stack<Text, Frame> {
//!     let mut stack = Stack::new(Config::default(), [number; 16]);
//!     let mac = [2, 0, 0, 0, 0, number];
//!     let interface = stack.add_interface(InterfaceConfig { mac, mtu: 1500 });
//!     stack.add_address(interface, Cidr::new(Ipv4Addr::new(10, 0, 0, number), 24)).unwrap();
//!     stack
//! }
//!
//! let (mut a, mut b) = (host(1), host(2));
//! let (from, to) = (a.open(SocketKind::Datagram, 1), b.open(SocketKind::Datagram, 2));
//! let (from, to) = (from.unwrap(), to.unwrap());
//! b.bind(to, "10.0.0.2:7".parse().unwrap()).unwrap();
//! let now = Instant::ZERO;
//! a.send(now, from, Text(b"hello"), Some("10.0.0.2:7".parse().unwrap())).ok().unwrap();
//!
//! // An ARP request, its answer, the datagram.
//! let link = InterfaceId(0);
//! let (mut from_a, mut from_b) = (Wire::default(), Wire::default());
//! for _ in 0..2 {
//!     a.poll(now, &mut from_a);
//!     from_a.0.drain(..).for_each(|frame| b.handle_frame(now, link, frame, &mut from_b));
//!     b.poll(now, &mut from_b);
//!     from_b.0.drain(..).for_each(|frame| a.handle_frame(now, link, frame, &mut from_a));
//! }
//! assert_eq!(b.recv(to).unwrap().piece.bytes(), b"hello");
//! ```
//!
//! The modules, each of which imports only from lines below its own:
//!
//! ```text layers
//! stack: calls of the owner; routes frames, time and results between the layers
//! sockets: the sockets: demultiplexing, ports, listeners, handshakes, scheduling, events
//! icmp nd: ICMP of both families; Neighbour Discovery, autoconfiguration, addresses
//! context: the layers below the protocols, and how a packet leaves through them
//! tcp udp dhcp: the TCP engine; datagrams and their queues; the DHCP client
//! esp: protected packets; security policies and associations
//! ip: packets of both families, fragments, routes, source addresses, groups, path MTUs
//! link: Ethernet, interfaces, neighbours, conflicts of addresses, the loopback queue
//! waiters timers held: sockets waiting for a neighbour; purposes of timers; held frames
//! limit: rate limits
//! bytes config secret sockaddr wheel: traits of payload, settings, keys, mechanisms
//! cidr counters ecn_field error interface_id offload owner_id table time: vocabulary
//! ```
//!
//! Each layer owns its tables and offers `handle_*` for input, `poll_*` for output, and getters.
//! Input is parsed into legal values before any logic sees it. A packet that cannot be parsed is
//! dropped and counted by its cause. All memory is bounded by [`Config`], but for chunks queued on
//! streams, which their owner bounds.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

#[macro_use]
mod counters;

mod bytes;
mod cidr;
mod config;
mod context;
mod dhcp;
mod ecn_field;
mod error;
mod esp;
mod held;
mod icmp;
mod interface_id;
mod ip;
mod limit;
mod link;
mod nd;
mod offload;
mod owner_id;
mod secret;
mod sockaddr;
mod sockets;
mod stack;
mod table;
pub mod tcp;
#[cfg(test)]
mod tests;
mod time;
mod timers;
mod udp;
mod waiters;
mod wheel;

pub use crate::sockets::fast_open_keys::FastOpenKeys;
pub use crate::sockets::kinds::{
    Family, ReceivedPayload, SendError, ShutdownHow, SocketInfo, SocketKind,
};
pub use bytes::{
    Egress, Frame, HEAD, MAX_TX_PIECES, ProcessingStage, RxBytes, RxPiece, TxBytes, TxPiece, gather,
};
pub use cidr::Cidr;
pub use config::{AcdConfig, Config, ReassemblyConfig, V6Config};
pub use dhcp::client::DhcpState;
pub use dhcp::wire::{DhcpLease, DhcpRoute};
pub use error::Error;
pub use esp::association::{EspMode, SaConfig, SaId, SaInfo};
pub use esp::cipher::{EspCipher, EspCipherError, EspHeader, EspShape};
pub use esp::flow::EspSelector;
pub use esp::lifetime::{SaAge, SaLifetimes, SaUsage};
pub use esp::notice::{EspNotice, EspNoticeKind};
pub use esp::policy::{SpAction, SpConfig, SpDirection, SpTemplate};
pub use interface_id::{InterfaceId, InterfaceSet};
pub use ip::groups::FilterMode;
pub use ip::route::Route;
pub use link::address::{Address, AddressOrigin, AddressState};
pub use link::interfaces::InterfaceConfig;
pub use link::neighbour::NeighbourInfo;
pub use offload::{Checksum, Features, RxOffload, SegmentKind, Segments, TxOffload};
pub use owner_id::OwnerId;
pub use sockets::error_queue::{ErrorOrigin, IcmpOrigin, PendingErrorChange, QueuedError};
pub use sockets::events::{Event, EventKind};
pub use sockets::options::{MtuDiscover, OptionName, SockOption};
pub use stack::Stack;
pub use table::Handle;
pub use time::Instant;
pub use udp::message::{DatagramInfo, SendOptions};
