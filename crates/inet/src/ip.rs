//! The Internet layer: packets of both versions, networks, and the choice of routes.

mod fragments;
pub(crate) mod groups;
pub(crate) mod headers;
pub(crate) mod packet;
pub(crate) mod pmtu;
pub(crate) mod reassembly;
pub(crate) mod route;
pub(crate) mod source;
pub(crate) mod v4;
pub(crate) mod v6;

pub(crate) use crate::sockaddr::{canonical, is_link_scope, link_of, scoped, to_self, wildcard};
pub(crate) use headers::{allow_fragments, header_len, write_cut};
pub(crate) use packet::{FRAGMENT_HEADER, Header, pseudo_sum};
