//! The keys of Fast Open cookies (RFC 7413).

use crate::tcp::{Endpoints, FastOpenOption};
use core::hash::Hasher;
use core::net::IpAddr;
use siphasher::sip::SipHasher24;

/// The keys of cookies: the key in use, and an older one whose cookies are still accepted
/// (TCP_FASTOPEN_KEY). The bytes are the four numbers of Linux's `net.ipv4.tcp_fastopen_key` in
/// little-endian order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FastOpenKeys {
    /// Makes cookies.
    pub current: [u8; 16],
    /// Its cookies are accepted too. A client with such a cookie gets a new one.
    pub other: Option<[u8; 16]>,
}

/// The key of the cookie that a SYN has brought.
pub(super) enum CookieCheck {
    Current,
    Other,
    Bad,
}

impl FastOpenKeys {
    /// The cookie for the peer of `ends` by `key`: as Linux makes it, so that servers of both kinds
    /// can share an address.
    fn cookie(key: &[u8; 16], ends: &Endpoints) -> [u8; 8] {
        let mut hash = SipHasher24::new_with_key(key);
        for ip in [ends.remote.ip(), ends.local.ip()] {
            match ip {
                IpAddr::V4(ip) => hash.write(&ip.octets()),
                IpAddr::V6(ip) => hash.write(&ip.octets()),
            }
        }
        hash.finish().to_le_bytes()
    }

    pub(super) fn check(&self, ends: &Endpoints, cookie: &[u8]) -> CookieCheck {
        if Self::cookie(&self.current, ends) == *cookie {
            return CookieCheck::Current;
        }
        match self.other {
            Some(other) if Self::cookie(&other, ends) == *cookie => CookieCheck::Other,
            _ => CookieCheck::Bad,
        }
    }

    /// The option that gives the peer of `ends` its cookie.
    pub(super) fn grant(&self, ends: &Endpoints, experimental: bool) -> Option<FastOpenOption> {
        FastOpenOption::new(experimental, &Self::cookie(&self.current, ends))
    }
}
