//! IPv6 on a link: Neighbour Discovery (RFC 4861) and autoconfiguration (RFC 4862) of a host.
//!
//! ```text
//!   state      what is known of each interface's link, and its timer
//!   input      neighbours' messages, advertisements of our own addresses
//!   dad        duplicate address detection; identifiers of interfaces
//!   router     asking routers, what they say, default routes
//!   slaac      prefixes and addresses from them
//!   addresses  addresses of both families, given and taken away
//! ```
//!
//! The messages are in `ip::ndp`. Hardware addresses are kept in the cache that ARP fills, too
//! (`link::neighbour`). Everything here has one timer per interface, which is set to the earliest
//! deadline. All lists are bounded by [`V6Config`](crate::V6Config): every node on the link may say
//! what it likes (RFC 3756), and can make us use it, but not run out of memory or time. Redirects
//! are not believed (RFC 4861 8.3 leaves that to the host): what they spare is one hop on a link.

mod addresses;
mod dad;
mod input;
mod router;
mod slaac;
mod state;

pub(crate) use state::NdLayer;
