//! The two ends of a connection.

use core::hash::{Hash, Hasher};
use core::net::SocketAddr;

/// The two ends of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoints {
    /// This side.
    pub local: SocketAddr,
    /// The peer; of the same family.
    pub remote: SocketAddr,
}

impl Hash for Endpoints {
    /// Two words for IPv4: this is hashed for every segment received.
    fn hash<H: Hasher>(&self, state: &mut H) {
        for end in [self.local, self.remote] {
            match end {
                SocketAddr::V4(end) => {
                    let address = u64::from(end.ip().to_bits());
                    state.write_u64(address << 16 | u64::from(end.port()));
                }
                SocketAddr::V6(end) => {
                    state.write_u128(end.ip().to_bits());
                    state.write_u64(u64::from(end.scope_id()) << 16 | u64::from(end.port()));
                }
            }
        }
    }
}
