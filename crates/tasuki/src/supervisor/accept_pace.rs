//! A slower pace of accepting connections while a user's connections are of no use.
//!
//! Accepting, reading and closing a connection takes the supervisor longer than it takes a program
//! to make one. So a program that connects and sends garbage, in a loop, would have one processor
//! of its own and one of ours. A connection is *useless* if it makes no request, or if it is not
//! the first of its process and makes none that can be answered, or is a client that ends at once.
//! So children that each use the network for a moment are no fault of their program. Each user may
//! have [`USELESS`] such connections, and gets [`PER_SECOND`] of them back in a second. When they
//! are used up, and until they are all back, we accept nothing at that socket for [`PAUSE`] after
//! each connection of that user.
//!
//! The pace is for all, since the socket does not tell whose connection is next. A new connection
//! of another program waits for those before it in the socket's queue of 128, a pause for each.
//! Requests on connections that are there wait for nothing.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use abi::control::Audience;

/// Useless connections of a user that slow nothing down.
const USELESS: f64 = 64.0;
/// Given back in a second.
const PER_SECOND: f64 = 8.0;
/// Nothing is accepted for so long.
const PAUSE: Duration = Duration::from_millis(2);
/// Most users that are remembered.
const MOST_USERS: usize = 64;

/// Useless connections that a user may still have.
#[derive(Debug, Clone, Copy)]
struct Allowance {
    left: f64,
    since: Instant,
    /// It was used up, and has not been full since.
    spent: bool,
}

/// Who is slowed down, and until when nothing is accepted.
#[derive(Debug, Default)]
pub(super) struct AcceptPace {
    /// Those that are not full.
    users: BTreeMap<u32, Allowance>,
    programs: Option<Instant>,
    operators: Option<Instant>,
}

impl AcceptPace {
    /// A connection of this user was useless. True: from now on its connections are slow.
    pub(super) fn useless(&mut self, user: u32, now: Instant) -> bool {
        self.refill(now);
        if self.users.len() >= MOST_USERS && !self.users.contains_key(&user) {
            let fullest = self.users.iter().max_by(|(_, a), (_, b)| a.left.total_cmp(&b.left));
            let fullest = fullest.map(|(user, _)| *user);
            fullest.and_then(|user| self.users.remove(&user));
        }
        let full = Allowance { left: USELESS, since: now, spent: false };
        let allowance = self.users.entry(user).or_insert(full);
        allowance.left = (allowance.left - 1.0).max(0.0);
        let begins = allowance.left < 1.0 && !allowance.spent;
        allowance.spent |= begins;
        begins
    }

    /// A connection of this user was accepted.
    pub(super) fn accepted(&mut self, audience: Audience, user: u32, now: Instant) {
        self.refill(now);
        if self.users.get(&user).is_some_and(|allowance| allowance.spent) {
            *self.until(audience) = Some(now + PAUSE);
        }
    }

    /// How long nothing is to be accepted there, if so.
    pub(super) fn pause(&self, audience: Audience, now: Instant) -> Option<Duration> {
        let until = match audience {
            Audience::Programs => self.programs,
            Audience::Operators => self.operators,
        };
        until.map(|until| until.saturating_duration_since(now)).filter(|left| !left.is_zero())
    }

    fn until(&mut self, audience: Audience) -> &mut Option<Instant> {
        match audience {
            Audience::Programs => &mut self.programs,
            Audience::Operators => &mut self.operators,
        }
    }

    fn refill(&mut self, now: Instant) {
        self.users.retain(|_, allowance| {
            let seconds = now.saturating_duration_since(allowance.since).as_secs_f64();
            allowance.left += seconds * PER_SECOND;
            allowance.since = now;
            allowance.left < USELESS
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn useless_connections_slow_down_their_user_s() {
        let (mut pace, now) = (AcceptPace::default(), Instant::now());
        let slow: Vec<bool> = (0..70).map(|_| pace.useless(7, now)).collect();
        assert_eq!(slow.iter().filter(|slow| **slow).count(), 1, "it is said once");
        pace.accepted(Audience::Programs, 8, now);
        assert_eq!(pace.pause(Audience::Programs, now), None);
        pace.accepted(Audience::Programs, 7, now);
        assert_eq!(pace.pause(Audience::Programs, now), Some(PAUSE));
        assert_eq!(pace.pause(Audience::Operators, now), None, "their socket has its own pace");
        assert_eq!(pace.pause(Audience::Programs, now + PAUSE), None);
        // All is forgotten when all is given back.
        let now = now + 7 * SECOND;
        pace.accepted(Audience::Programs, 7, now);
        assert_eq!(pace.pause(Audience::Programs, now), Some(PAUSE));
        let now = now + 2 * SECOND;
        pace.accepted(Audience::Programs, 7, now);
        assert_eq!(pace.pause(Audience::Programs, now), None);
    }

    #[test]
    fn a_bounded_number_of_users_is_remembered() {
        let (mut pace, now) = (AcceptPace::default(), Instant::now());
        for _ in 0..100 {
            pace.useless(7, now);
        }
        for user in 100..1000 {
            pace.useless(user, now);
        }
        assert!(pace.users.len() <= MOST_USERS);
        assert!(pace.users.contains_key(&7), "the one with the least left is kept");
    }
}
