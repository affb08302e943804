//! The DHCP client for IPv4 (RFC 2131, RFC 2132, RFC 3442, RFC 4361): messages, states, and the
//! clients of a stack. [`Stack`](crate::Stack) moves their messages and applies their leases.

pub(crate) mod client;
mod layer;
pub(crate) mod wire;

pub(crate) use layer::DhcpLayer;
