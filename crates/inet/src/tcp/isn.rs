//! The first sequence number of a connection.

use super::endpoints::Endpoints;
use super::seq::Seq;
use crate::secret::Secret;
use crate::time::Instant;

impl Secret {
    /// Initial sequence number of a connection between `ends` (RFC 9293 3.4.1).
    pub(crate) fn isn(&self, now: Instant, ends: &Endpoints) -> Seq {
        Seq::new(self.isn_number(now, ends))
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use core::net::SocketAddr;

    use super::*;

    /// One of the 4-tuples: port `port` here, host `host` there.
    fn ends(host: u8, port: u16) -> Endpoints {
        Endpoints {
            local: SocketAddr::from(([10, 0, 0, 1], port)),
            remote: SocketAddr::from(([10, 0, 1, host], 80)),
        }
    }

    fn start_number(secret: u8, nanos: u64, ends: &Endpoints) -> Seq {
        Secret::new(&[secret; 16]).isn(Instant::from_nanos(nanos), ends)
    }

    #[test]
    fn initial_numbers_differ_by_tuple_and_by_secret() {
        let tuples = || (1..=50).flat_map(|host| (1..=50).map(move |port| ends(host, port)));
        let numbers: BTreeSet<i32> = tuples()
            .flat_map(|ends| [1, 2].map(|secret| start_number(secret, 0, &ends)))
            .map(|number| number.offset_from(Seq::new(0)))
            .collect();
        // Five thousand random numbers of 32 bits hold about 0.003 pairs of equal ones.
        assert_eq!(numbers.len(), 2 * 50 * 50);
        // A peer that knows the distance of two tuples under one secret knows none under another.
        let (a, b) = (ends(1, 1), ends(2, 1));
        let distance =
            |secret| start_number(secret, 0, &a).offset_from(start_number(secret, 0, &b));
        assert_ne!(distance(1), distance(2));
        assert_eq!(start_number(1, 0, &a), start_number(1, 0, &a));
    }

    /// RFC 9293 3.4.1 MUST-8: the clock advances every 4 µs or so.
    #[test]
    fn initial_numbers_of_a_tuple_grow_with_the_clock() {
        let tuple = ends(1, 1);
        let first = start_number(1, 0, &tuple);
        for (nanos, growth) in
            [(4095, 0), (4096, 1), (1_000_000_000, 244_140), (4096 << 31, 1 << 31)]
        {
            assert_eq!(start_number(1, nanos, &tuple), first + growth, "after {nanos} ns");
        }
    }
}
