//! The Internet layer: IPv4 packets and the choice of routes.

pub(crate) mod route;
pub(crate) mod v4;
