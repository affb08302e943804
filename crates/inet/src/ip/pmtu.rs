//! Path MTUs that routers have reported (RFC 1191, RFC 8201).
//!
//! The table keeps values below the link's MTU, for ten minutes and for a bounded number of hosts;
//! the one learnt first gives way. The caller has checked that the message quotes a packet that is
//! really in flight (RFC 5927 7.2). A value below the protocol's least MTU is taken as that MTU.

use alloc::collections::VecDeque;
use core::net::IpAddr;
use core::time::Duration;

use hashbrown::HashMap;

use crate::secret::KeyedHash;
use crate::time::Instant;

/// Lifetime of a path's MTU (RFC 1191 6.3; Linux: mtu_expires).
const LIFE: Duration = Duration::from_secs(600);

/// Least accepted MTU of an IPv4 path, as Linux (min_pmtu). Smaller ones are an attack.
pub(crate) const LEAST_V4: u16 = 552;

/// Least MTU of IPv6 (RFC 8200 5).
pub(crate) const LEAST_V6: u16 = 1280;

/// The stored MTUs of paths.
#[derive(Debug)]
pub(crate) struct PathMtus {
    known: HashMap<IpAddr, (u16, Instant), KeyedHash>,
    /// In the order of learning; some may have been learnt again.
    order: VecDeque<IpAddr>,
    limit: usize,
}

impl PathMtus {
    pub(crate) fn new(hash: KeyedHash, limit: usize) -> Self {
        Self { known: HashMap::with_hasher(hash), order: VecDeque::new(), limit }
    }

    /// The MTU of the path to `host`, bytes, if it is stored and less than the link's.
    pub(crate) fn get(&self, now: Instant, host: IpAddr) -> Option<u16> {
        self.known.get(&host).filter(|(_, until)| now < *until).map(|(mtu, _)| *mtu)
    }

    /// The path to `host` takes packets of at most `mtu` bytes. Gives the MTU that is used from
    /// then on. It never grows by a report, which may be about an earlier path (RFC 8201 4).
    pub(crate) fn learn(&mut self, now: Instant, host: IpAddr, mtu: u16) -> u16 {
        let least = if host.is_ipv4() { LEAST_V4 } else { LEAST_V6 };
        let mtu = mtu.max(least);
        if let Some(known) = self.get(now, host).filter(|known| *known < mtu) {
            return known;
        }
        if self.known.insert(host, (mtu, now + LIFE)).is_none() {
            self.order.push_back(host);
            if self.order.len() > self.limit
                && let Some(oldest) = self.order.pop_front()
            {
                self.known.remove(&oldest);
            }
        }
        mtu
    }
}

/// The MTU of a report from an old router, which names none. It is the next lower common MTU (RFC
/// 1191 7.1).
pub(crate) fn plateau(quoted: u16) -> u16 {
    const PLATEAUS: [u16; 7] = [8166, 4352, 2002, 1492, 1006, 576, LEAST_V4];
    PLATEAUS.into_iter().find(|mtu| *mtu < quoted).unwrap_or(LEAST_V4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::Secret;

    #[test]
    fn paths_are_known_for_a_time_and_few() {
        let mut paths = PathMtus::new(Secret::new(&[1; 16]).tables(), 2);
        let host = |n: u8| IpAddr::from([10, 0, 0, n]);
        let start = Instant::from_nanos(5);
        assert_eq!(paths.learn(start, host(1), 1400), 1400);
        assert_eq!(paths.learn(start, host(1), 68), LEAST_V4);
        assert_eq!(paths.learn(start, host(2), 1300), 1300);
        assert_eq!(paths.get(start, host(1)), Some(LEAST_V4));
        paths.learn(start, host(3), 1200);
        assert_eq!((paths.get(start, host(1)), paths.get(start, host(2))), (None, Some(1300)));
        assert_eq!(paths.get(start + LIFE, host(2)), None);
        // A longer one than is known means nothing, and the shorter one ends in its time.
        assert_eq!(paths.learn(start + LIFE / 2, host(2), 1400), 1300);
        assert_eq!(paths.get(start + LIFE, host(2)), None);
        assert_eq!(paths.learn(start + LIFE, host(2), 1400), 1400);
        let v6 = IpAddr::from([1_u16; 8]);
        assert_eq!(paths.learn(start, v6, 100), LEAST_V6);
    }

    #[test]
    fn an_old_router_means_the_next_plateau() {
        let means = [(9000, 8166), (1500, 1492), (1492, 1006), (560, 552), (100, 552)];
        for (quoted, mtu) in means {
            assert_eq!(plateau(quoted), mtu);
        }
    }
}
