use std::vec::Vec;

use super::super::wire::tests::{MAC, SERVER, USUAL, message};
use super::*;

const ADDRESS: [u8; 4] = [10, 0, 0, 7];
const OFFER: u8 = 2;
const ACK: u8 = 5;
const NAK: u8 = 6;

/// A client, its clock, and what it has sent.
struct World {
    client: Client,
    random: Secret,
    now: Instant,
}

impl World {
    fn new() -> Self {
        let mut world = Self {
            client: Client::new(MAC, 1500),
            random: Secret::new(&[9; 16]),
            now: Instant::from_nanos(1_000_000_000),
        };
        world.client.link_up(world.now, &mut world.random);
        world
    }

    fn actions(&mut self) -> Vec<DhcpAction> {
        core::iter::from_fn(|| self.client.poll_action()).collect()
    }

    /// The one message that was sent: its type, whether it asks for a broadcast, where it went.
    fn sent(&mut self) -> (u8, bool, Option<(Ipv4Addr, Ipv4Addr)>) {
        let actions = self.actions();
        let [DhcpAction::Send { payload, to }] = &actions[..] else { panic!("{actions:?}") };
        (payload[242], payload[10] == 0x80, *to)
    }

    fn answer(&mut self, kind: u8, options: &[(u8, &[u8])]) -> bool {
        let bytes = message(kind, ADDRESS, self.client.xid, options);
        self.client.handle(self.now, &bytes, &mut self.random)
    }

    /// Lets the time come that the client waits for; how long that was, in seconds.
    fn wait(&mut self) -> u64 {
        let at = self.client.poll_at().expect("it waits for something");
        let waited = at.since(self.now);
        self.now = self.now.max(at);
        self.client.handle_timer(self.now, &mut self.random);
        waited.as_secs()
    }

    fn checked(&mut self, free: bool) {
        self.client.checked(self.now, free, &mut self.random);
    }

    fn bound() -> Self {
        let mut world = Self::new();
        assert_eq!(world.sent(), (1, true, None));
        assert!(world.answer(OFFER, &USUAL));
        assert_eq!(world.sent(), (3, true, None));
        assert!(world.answer(ACK, &USUAL));
        assert_eq!(world.actions(), [DhcpAction::Check(ADDRESS.into())]);
        assert_eq!((world.client.state(), world.client.lease()), (DhcpState::Checking, None));
        world.checked(true);
        let actions = world.actions();
        let [DhcpAction::Bound(lease)] = &actions[..] else { panic!("{actions:?}") };
        assert_eq!(world.client.lease(), Some(&**lease));
        assert_eq!(world.client.state(), DhcpState::Bound);
        world
    }
}

#[test]
fn silence_is_met_with_patience() {
    let mut world = World::new();
    for expected in [4, 8, 16, 32, 64, 64, 64] {
        assert_eq!(world.sent(), (1, true, None));
        let waited = world.wait();
        assert!(waited.abs_diff(expected) <= 1, "{waited} {expected}");
    }
    assert_eq!(world.client.state(), DhcpState::Selecting);
}

#[test]
fn a_server_that_offers_and_vanishes() {
    let mut world = World::new();
    world.actions();
    world.answer(OFFER, &USUAL);
    for _ in 0..4 {
        assert_eq!(world.sent().0, 3);
        world.wait();
    }
    assert_eq!((world.sent().0, world.client.state()), (1, DhcpState::Selecting));
}

#[test]
fn renewed_rebound_and_over() {
    let mut world = World::bound();
    let began = world.now;
    // T1 is 1800 s, less a little.
    let waited = world.wait();
    assert!((1700..=1800).contains(&waited), "{waited}");
    assert_eq!(world.client.state(), DhcpState::Renewing);
    let unicast = Some((ADDRESS.into(), SERVER.into()));
    assert_eq!(world.sent(), (3, false, unicast));
    assert!(world.answer(ACK, &USUAL));
    assert!(matches!(world.actions()[..], [DhcpAction::Bound(_)]));
    world.wait();
    world.sent();
    // Nobody answers: half of the time until T2, again and again, at least a minute.
    let mut last = u64::MAX;
    while world.client.state() == DhcpState::Renewing {
        let waited = world.wait();
        assert!(waited <= last, "{waited} {last}");
        last = waited;
        if world.client.state() == DhcpState::Renewing {
            assert_eq!(world.sent(), (3, false, unicast));
        }
    }
    assert_eq!(world.client.state(), DhcpState::Rebinding);
    assert_eq!(world.sent().2, Some((ADDRESS.into(), Ipv4Addr::BROADCAST)));
    while world.client.state() == DhcpState::Rebinding {
        assert!(world.client.lease().is_some());
        world.actions();
        world.wait();
    }
    assert_eq!(world.client.lease(), None);
    let actions = world.actions();
    assert!(matches!(actions[..], [DhcpAction::Unbound, DhcpAction::Send { .. }]), "{actions:?}");
    assert_eq!(world.client.state(), DhcpState::Selecting);
    let lived = world.now.since(began).as_secs();
    assert!((5300..=5400).contains(&lived), "1800 s and an hour: {lived}");
}

#[test]
fn another_server_may_rebind() {
    let mut world = World::bound();
    while world.client.state() != DhcpState::Rebinding {
        world.wait();
    }
    world.actions();
    let other = [(54, &[10, 0, 0, 9][..]), USUAL[1], USUAL[2]];
    assert!(world.answer(ACK, &other));
    assert_eq!(world.client.lease().map(|lease| lease.server), Some([10, 0, 0, 9].into()));
}

#[test]
fn who_was_not_asked_is_not_heard() {
    let other = [(54, &[10, 0, 0, 9][..]), USUAL[1], USUAL[2]];
    let mut world = World::new();
    assert!(!world.answer(ACK, &USUAL), "nothing was requested");
    assert!(!world.answer(NAK, &USUAL));
    world.answer(OFFER, &USUAL);
    assert!(!world.answer(OFFER, &other), "one offer is enough");
    assert!(!world.answer(ACK, &other));
    assert!(!world.answer(NAK, &other));
    let wrong = message(ACK, [10, 0, 0, 8], world.client.xid, &USUAL);
    assert!(!world.client.handle(world.now, &wrong, &mut world.random), "another address");
    let late = message(ACK, ADDRESS, world.client.xid ^ 1, &USUAL);
    assert!(!world.client.handle(world.now, &late, &mut world.random), "another transaction");
    assert_eq!(world.client.state(), DhcpState::Requesting);
    let mut world = World::bound();
    assert!(!world.answer(NAK, &USUAL), "a bound client asks nothing");
    world.wait();
    assert!(!world.answer(NAK, &other) && !world.answer(ACK, &other));
    assert_eq!(world.client.state(), DhcpState::Renewing);
}

#[test]
fn a_server_that_says_no_is_asked_less_and_less() {
    let mut world = World::new();
    let mut times = Vec::new();
    for _ in 0..8 {
        while world.client.state() == DhcpState::Selecting && world.client.tries == 0 {
            times.push(world.wait());
        }
        world.actions();
        assert!(world.answer(OFFER, &USUAL));
        assert!(world.answer(NAK, &USUAL));
    }
    assert_eq!(times, [16, 32, 64, 64, 64, 64]);
    // In the middle of a lease: it ends at once.
    let mut world = World::bound();
    world.wait();
    world.actions();
    assert!(world.answer(NAK, &USUAL));
    let actions = world.actions();
    assert!(matches!(actions[..], [DhcpAction::Unbound, DhcpAction::Send { .. }]), "{actions:?}");
}

#[test]
fn an_address_that_somebody_has_is_declined() {
    let mut world = World::new();
    for round in 0..12 {
        world.actions();
        assert!(world.answer(OFFER, &USUAL));
        assert!(world.answer(ACK, &USUAL));
        world.actions();
        world.checked(false);
        let actions = world.actions();
        let [DhcpAction::Unbound, DhcpAction::Send { payload, to: None }] = &actions[..] else {
            panic!("{actions:?}")
        };
        assert_eq!(payload[242], 4, "DHCPDECLINE");
        assert_eq!(world.wait(), if round < 9 { 10 } else { 60 });
        assert_eq!(world.client.state(), DhcpState::Selecting);
    }
    let mut world = World::bound();
    world.client.conflict(world.now, &mut world.random);
    assert!(matches!(world.actions()[..], [DhcpAction::Unbound, DhcpAction::Send { .. }]));
    assert_eq!(world.client.lease(), None);
}

#[test]
fn the_link_goes_and_comes_back() {
    let mut world = World::bound();
    world.client.link_down();
    assert!(world.client.lease().is_some() && world.actions().is_empty());
    world.now += Duration::from_secs(60);
    world.client.link_up(world.now, &mut world.random);
    assert_eq!((world.client.state(), world.sent()), (DhcpState::Rebooting, (3, true, None)));
    assert!(world.answer(ACK, &USUAL));
    assert!(matches!(world.actions()[..], [DhcpAction::Bound(_)]), "in use, so not looked at");
    // To another network: nobody knows the address.
    world.client.link_down();
    world.client.link_up(world.now, &mut world.random);
    world.sent();
    world.wait();
    world.sent();
    world.wait();
    let actions = world.actions();
    assert!(matches!(actions[..], [DhcpAction::Unbound, DhcpAction::Send { .. }]), "{actions:?}");
    // Its time is over while the link is down.
    let mut world = World::bound();
    world.client.link_down();
    assert_eq!(world.wait(), 3600);
    assert_eq!((world.actions(), world.client.poll_at()), ([DhcpAction::Unbound].into(), None));
    world.client.link_up(world.now, &mut world.random);
    assert_eq!(world.sent(), (1, true, None));
    // And while an address is being looked at.
    world.answer(OFFER, &USUAL);
    world.answer(ACK, &USUAL);
    world.actions();
    world.client.link_down();
    assert_eq!(world.actions(), [DhcpAction::Unbound]);
    world.checked(true);
    assert_eq!(world.client.lease(), None);
}

#[test]
fn a_lease_for_ever() {
    let mut world = World::new();
    let options = [(54, &SERVER[..]), (51, &[0xff; 4]), USUAL[2]];
    world.answer(OFFER, &options);
    world.answer(ACK, &options);
    world.checked(true);
    assert_eq!((world.client.state(), world.client.poll_at()), (DhcpState::Bound, None));
}
