//! Destinations of a datagram socket to which the server has already taken a datagram.
//!
//! A datagram is queued now and taken by the server later. Without more, an error about its
//! destination (no route, broadcast without permission, too long for the path) would reach the
//! program with its next call. So the first datagram to a destination waits until the server has
//! taken it, and the call returns with the server's answer. Later datagrams to it do not wait.
//! A sender of received datagrams counts as such a destination too. Any option, bind or connect
//! starts afresh.
//!
//! The destinations are in a small table, by hash: a program that sends to very many in turn waits
//! again now and then.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, SocketAddr};

use abi::ancillary::SendAncillary;

/// Destinations remembered.
const PLACES: usize = 64;

/// The properties of a datagram, beside destination and length, that decide whether it may be sent.
type SendManner = (Option<IpAddr>, u32, u16);

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct ConfirmedDestinations {
    /// Empty until there is one. Each with the longest that is taken.
    places: Vec<Option<(Option<SocketAddr>, usize)>>,
    /// The last way of sending that was taken, if it was not the plain one.
    manner: Option<SendManner>,
}

impl ConfirmedDestinations {
    /// Is a datagram of `len` bytes to `to`, or the connected peer, known to be taken?
    pub(crate) fn knows(&self, to: Option<SocketAddr>, len: usize, how: &SendAncillary) -> bool {
        let manner = manner_of(how);
        let usual = manner == SendManner::default() || self.manner == Some(manner);
        let place = self.places.get(place_of(to)).copied().flatten();
        usual && place.is_some_and(|(known, most)| known == to && len <= most)
    }

    /// Datagrams of up to `most` bytes to `to` are taken.
    pub(crate) fn note(&mut self, to: Option<SocketAddr>, most: usize) {
        self.places.resize(PLACES, None);
        if let Some(place) = self.places.get_mut(place_of(to)) {
            let before = place.filter(|(known, _)| *known == to).map_or(0, |(_, most)| most);
            *place = Some((to, most.max(before)));
        }
    }

    /// One that was sent in this manner was taken.
    pub(crate) fn note_manner(&mut self, how: &SendAncillary) {
        self.manner = Some(manner_of(how));
    }

    /// Nothing is known any more.
    pub(crate) fn clear(&mut self) {
        self.places.clear();
        self.manner = None;
    }
}

fn manner_of(how: &SendAncillary) -> SendManner {
    (how.source, how.interface, how.segment)
}

fn place_of(to: Option<SocketAddr>) -> usize {
    let mut hasher = DefaultHasher::new();
    to.hash(&mut hasher);
    // Less than the number of places.
    usize::try_from(hasher.finish() % PLACES as u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_is_known_until_something_changes() {
        let mut confirmed = ConfirmedDestinations::default();
        let plain = SendAncillary::default();
        let to = |n: u16| Some(SocketAddr::from(([10, 0, 0, 1], n)));
        assert!(!confirmed.knows(to(1), 1, &plain));
        confirmed.note(to(1), 100);
        confirmed.note(None, usize::MAX);
        assert!(confirmed.knows(to(1), 100, &plain) && !confirmed.knows(to(1), 101, &plain));
        confirmed.note(to(1), 50);
        assert!(confirmed.knows(to(1), 100, &plain), "what was longer stays known");
        assert!(confirmed.knows(None, 65_000, &plain) && !confirmed.knows(to(2), 1, &plain));
        let segmented = SendAncillary { segment: 10, ttl: Some(3), ..plain };
        assert!(!confirmed.knows(to(1), 1, &segmented));
        confirmed.note_manner(&segmented);
        assert!(confirmed.knows(to(1), 1, &SendAncillary { ttl: None, ..segmented }));
        assert!(confirmed.knows(to(1), 1, &plain));
        for n in 0..10_000 {
            confirmed.note(to(n), 1);
        }
        assert!(confirmed.places.len() == PLACES && confirmed.knows(to(9_999), 1, &plain));
        confirmed.clear();
        assert!(!confirmed.knows(None, 1, &plain) && !confirmed.knows(to(9_999), 1, &segmented));
    }
}
