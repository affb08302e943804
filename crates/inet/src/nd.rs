//! IPv6 on a link: Neighbour Discovery (RFC 4861) and autoconfiguration (RFC 4862) of a host.
//!
//! ```text
//!   state      the state of each interface's link, and its timer
//!   input      neighbours' messages, advertisements of this host's addresses
//!   dad        duplicate address detection; identifiers of interfaces
//!   router     solicitations, advertisements, default routes
//!   slaac      prefixes and addresses from them
//!   addresses  addresses of both families, added and removed
//! ```
//!
//! The messages are in `ip::ndp`. Hardware addresses are stored in the cache that ARP fills, too
//! (`link::neighbour`). Each interface has one timer here, set to its earliest deadline.
//!
//! Every node on the link may send any advertisement (RFC 3756), and this host uses it. All lists
//! are bounded by [`V6Config`](crate::V6Config), so no node can exhaust memory or time. Redirects
//! are ignored (RFC 4861 8.3 leaves that to the host): they would save one hop on a link.

mod addresses;
mod dad;
mod input;
mod router;
mod slaac;
mod state;

pub(crate) use state::NdLayer;
