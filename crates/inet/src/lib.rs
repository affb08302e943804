//! Sans-IO TCP/IP protocol core: a [`Stack`] without clock, thread, system call or `std`.
//!
//! Frames go in, frames and events come out, and time is an argument; whoever owns the stack moves
//! them. Payload is not copied: see [`TxBytes`] and [`RxBytes`].
//!
//! ```text
//!   stack        joins the layers; turns, timers, events
//!   sockets/     table, demux, ports, options, owner's calls, listeners
//!   tcp/  udp/  icmp  icmp6  dhcp/      the protocols
//!   nd/          IPv6 on a link: neighbours, routers, addresses of its own
//!   ip/          packets, fragments, routes, source addresses, groups
//!   link/        Ethernet, ARP, neighbours, conflicts of addresses
//!   net          what all share: interfaces, neighbours, the way out
//!   offload      what interfaces do for frames: checksums, super-segments
//!   configure    addresses and routes at run time
//!   loopback     the interface to ourselves
//!   wheel  held  limit  secret  counters       mechanisms
//! ```
//!
//! Input is parsed into legal values before any logic sees it; what cannot be parsed is dropped and
//! counted by its cause. All memory is bounded by [`Config`], but for chunks queued on streams,
//! which their owner bounds.
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
mod error;
mod held;
mod icmp;
mod interface_id;
mod ip;
mod limit;
mod link;
mod nd;
mod offload;
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
pub use crate::sockets::kinds::{Family, How, Received, SendError, SocketInfo, SocketKind};
pub use bytes::{Egress, Frame, MAX_TX_PIECES, RxBytes, RxPiece, Stage, TxBytes, TxPiece};
pub use cidr::Cidr;
pub use config::{AcdConfig, Config, ReassemblyConfig, V6Config};
pub use dhcp::client::DhcpState;
pub use dhcp::wire::{DhcpLease, DhcpRoute};
pub use error::Error;
pub use interface_id::InterfaceId;
pub use ip::groups::FilterMode;
pub use ip::route::Route;
pub use link::address::{Address, AddressOrigin, AddressState};
pub use link::interfaces::InterfaceConfig;
pub use link::neighbour::NeighbourInfo;
pub use offload::{Checksum, Features, RxOffload, SegmentKind, Segments, TxOffload};
pub use sockets::events::{Event, EventKind};
pub use sockets::options::{MtuDiscover, OptionName, SockOption};
pub use stack::Stack;
pub use table::Handle;
pub use time::Instant;
pub use udp::message::{Arrived, SendOptions};
