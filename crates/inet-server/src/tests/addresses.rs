//! Readiness of interfaces, and duplicate addresses.

use std::net::Ipv6Addr;

use abi::network::AddressStatus;

use super::*;

/// Made of the driver's hardware address.
const LOCAL: &str = "fe80::ff:fe00:1";
const STATIC: &str = "fd00::1";
const READY: [ServerEvent; 1] = [ServerEvent::InterfaceReady { nic: 0 }];

/// A server whose interface probes its addresses, [`STATIC`] among them.
struct Probing {
    host: Host,
    now: Instant,
}

impl Probing {
    fn new(dad_transmits: u8) -> Self {
        let interface = InterfaceSettings {
            name: "eth0".to_owned(),
            addresses: vec!["10.0.0.1/24".parse().unwrap(), "fd00::1/64".parse().unwrap()],
            dad_transmits,
            ..InterfaceSettings::default()
        };
        let host = Host::with(1, interface, Ipv6Mode::Auto, (false, false));
        let mut probing = Self { host, now: Instant::ZERO };
        probing.run_until_idle();
        probing
    }

    fn run_until_idle(&mut self) {
        while self.host.server.iterate(self.now) {
            self.host.driver.transmit();
        }
    }

    /// Time passes as for a server that sleeps. Returns the events since the last call.
    fn pass(&mut self, time: Duration) -> Vec<ServerEvent> {
        let end = self.now + time;
        while let Some(left) = self.host.server.deadline(self.now)
            && self.now + left <= end
        {
            self.now = (self.now + left).max(self.now + Duration::from_millis(1)).min(end);
            self.run_until_idle();
            if self.now == end {
                break;
            }
        }
        self.now = end;
        self.run_until_idle();
        self.host.server.take_events()
    }

    /// Another node advertises the address as its own.
    fn claim(&mut self, address: &str) {
        let address: Ipv6Addr = address.parse().unwrap();
        let mut message = vec![136, 0, 0, 0, 0x20, 0, 0, 0];
        message.extend(address.octets());
        message.extend([2, 1, 2, 0, 0, 0, 0, 9]);
        self.hear(address, message);
    }

    /// A router says that there are 60 seconds between probes.
    fn slow_down(&mut self) {
        let mut message = vec![134, 0, 0, 0, 64, 0, 0, 0, 0, 0, 0, 0];
        message.extend(60_000_u32.to_be_bytes());
        self.hear("fe80::9".parse().unwrap(), message);
    }

    /// An ICMPv6 message to all nodes arrives, with a right checksum.
    fn hear(&mut self, source: Ipv6Addr, mut message: Vec<u8>) {
        let all = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
        let len = u8::try_from(message.len()).unwrap();
        let mut sum = 58 + u32::from(len);
        for bytes in [&source.octets()[..], &all.octets(), &message] {
            let words = bytes.chunks(2).map(|two| u32::from(two[0]) << 8 | u32::from(two[1]));
            sum += words.sum::<u32>();
        }
        sum = (sum & 0xffff) + (sum >> 16);
        sum = (sum & 0xffff) + (sum >> 16);
        message[2..4].copy_from_slice(&(!u16::try_from(sum).unwrap()).to_be_bytes());
        let mut frame = vec![0x33, 0x33, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 0x86, 0xdd];
        frame.extend([0x60, 0, 0, 0, 0, len, 58, 255]);
        frame.extend(source.octets());
        frame.extend(all.octets());
        frame.extend(message);
        assert!(self.host.driver.receive(&frame));
        self.run_until_idle();
    }

    /// State of each address.
    fn states(&mut self) -> Vec<(String, String)> {
        let reply = self.host.server.request(self.now, ServerRequest::Network, Vec::new());
        let ServerReply::Network(status) = reply else { panic!("{reply:?}") };
        let eth0 = status.interfaces.into_iter().find(|one| one.name == "eth0").unwrap();
        let six = eth0.addresses.into_iter().filter(|one| one.address.is_ipv6());
        six.map(|AddressStatus { address, state, .. }| (address.to_string(), state)).collect()
    }

    fn assert_states(&mut self, local: &str, of_static: &str) {
        let want = [(LOCAL, local), (STATIC, of_static)];
        assert_eq!(self.states(), want.map(|(a, b)| (a.to_owned(), b.to_owned())));
    }
}

#[test]
fn an_interface_without_probes_is_ready_at_once() {
    let mut probing = Probing::new(0);
    assert_eq!(probing.host.server.take_events(), READY);
    assert!(probing.host.server.is_settled());
    probing.assert_states("preferred", "preferred");
}

#[test]
fn an_interface_is_ready_when_nobody_has_its_addresses() {
    let mut probing = Probing::new(1);
    assert_eq!(probing.pass(Duration::from_millis(990)), []);
    assert!(!probing.host.server.is_settled());
    let (_, local) = probing.states().remove(0);
    assert_eq!(local, "tentative");
    // The link-local address is probed up to a second later.
    assert_eq!(probing.pass(Duration::from_millis(1050)), READY);
    probing.assert_states("preferred", "preferred");
    assert!(probing.host.server.is_settled());
}

#[test]
fn an_address_that_is_somebody_elses_is_told_and_not_waited_for() {
    let mut probing = Probing::new(1);
    assert_eq!(probing.pass(Duration::from_millis(100)), []);
    probing.claim(STATIC);
    assert_eq!(probing.pass(Duration::from_secs(2)), READY);
    probing.assert_states("preferred", "dadfailed");
    let mut probing = Probing::new(1);
    probing.claim(LOCAL);
    probing.claim(STATIC);
    assert_eq!(probing.host.server.take_events(), READY, "nothing is left to wait for");
    probing.assert_states("dadfailed", "dadfailed");
}

#[test]
fn addresses_are_probed_again_when_the_device_is_back_and_nobody_waits() {
    let mut probing = Probing::new(1);
    assert_eq!(probing.pass(Duration::from_secs(3)), READY);
    let announce = ServerRequest::Announce { nic: 0 };
    let reply = probing.host.server.request(probing.now, announce, Vec::new());
    assert_eq!(reply, ServerReply::Done);
    probing.run_until_idle();
    probing.assert_states("tentative", "tentative");
    probing.claim(STATIC);
    assert_eq!(probing.pass(Duration::from_secs(3)), []);
    probing.assert_states("preferred", "dadfailed");
}

#[test]
fn a_router_that_slows_probes_down_does_not_hold_the_interface() {
    let mut probing = Probing::new(2);
    probing.slow_down();
    assert_eq!(probing.pass(Duration::from_millis(3900)), []);
    assert_eq!(probing.pass(Duration::from_millis(200)), READY);
    let tentative = |(_, state): &(String, String)| state == "tentative";
    assert!(probing.states().iter().any(tentative));
}
