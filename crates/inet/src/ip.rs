//! The Internet layer: packets of both versions, routes, source addresses, fragments, groups.
//!
//! [`IpLayer`] owns the routing table, the path MTUs and the multicast groups. [`Fragments`] owns
//! the fragments that wait for others. Interfaces and their addresses are the link layer's.

mod arrival;
mod fragments;
pub(crate) mod groups;
pub(crate) mod headers;
mod layer;
pub(crate) mod ndp;
pub(crate) mod packet;
pub(crate) mod pmtu;
pub(crate) mod reassembly;
pub(crate) mod route;
pub(crate) mod source;
pub(crate) mod v4;
pub(crate) mod v6;

pub(crate) use crate::sockaddr::{canonical, scoped, to_self};
pub(crate) use arrival::{Arrival, Origin};
pub(crate) use fragments::Fragments;
pub(crate) use headers::{
    MAX_HEADERS, allow_fragments, frame_headers, header_len, set_payload_len, write_fragment,
    write_headers, write_ip, write_link,
};
pub(crate) use layer::IpLayer;
pub(crate) use packet::{FRAGMENT_HEADER, Header, Packet, pseudo_sum};
