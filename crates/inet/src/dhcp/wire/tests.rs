use std::string::ToString;
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;

pub(in crate::dhcp) const MAC: Mac = smoltcp::wire::EthernetAddress([2, 0, 0, 0, 0, 2]);
pub(in crate::dhcp) const XID: u32 = 0x1234_5678;
pub(in crate::dhcp) const SERVER: [u8; 4] = [10, 0, 0, 1];

/// A server's message: type, `yiaddr`, and further options.
pub(in crate::dhcp) fn message(
    kind: u8,
    yours: [u8; 4],
    xid: u32,
    options: &[(u8, &[u8])],
) -> Vec<u8> {
    let mut bytes = vec![0; 240];
    bytes[..4].copy_from_slice(&[2, 1, 6, 0]);
    bytes[4..8].copy_from_slice(&xid.to_be_bytes());
    bytes[16..20].copy_from_slice(&yours);
    bytes[28..34].copy_from_slice(&MAC.0);
    bytes[236..240].copy_from_slice(&[0x63, 0x82, 0x53, 0x63]);
    bytes.extend_from_slice(&[53, 1, kind]);
    for (code, data) in options {
        bytes.extend_from_slice(&[*code, u8::try_from(data.len()).unwrap()]);
        bytes.extend_from_slice(data);
    }
    bytes.push(255);
    bytes
}

/// What every server says.
pub(in crate::dhcp) const USUAL: [(u8, &[u8]); 3] =
    [(54, &SERVER), (51, &[0, 0, 14, 16]), (1, &[255, 255, 255, 0])];

/// Reads a message to a client without a lease.
fn parse(bytes: &[u8], mac: Mac, xid: u32) -> Option<DhcpReply> {
    super::parse(bytes, mac, xid, None)
}

fn offer_with(options: &[(u8, &[u8])]) -> Option<DhcpLease> {
    let all = [&USUAL[..], options].concat();
    match parse(&message(2, [10, 0, 0, 7], XID, &all), MAC, XID)? {
        DhcpReply::Offer(lease) => Some(lease),
        other => panic!("{other:?}"),
    }
}

#[test]
fn all_that_is_asked_for() {
    let lease = offer_with(&[
        (3, &[10, 0, 0, 1, 10, 0, 0, 1, 10, 0, 0, 2, 192, 0, 2, 1]),
        (6, &[8, 8, 8, 8, 0, 0, 0, 0, 9, 9, 9, 9]),
        (15, b"example.org\0"),
        (26, &[0x23, 0x28]),
        (58, &[0, 0, 0, 60]),
        (59, &[0, 0, 0, 90]),
    ])
    .unwrap();
    assert_eq!(lease.address, Ipv4Addr::new(10, 0, 0, 7));
    assert_eq!((lease.prefix, lease.server), (24, SERVER.into()));
    let routers: [Ipv4Addr; 2] = [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()];
    assert_eq!(lease.routers, routers, "each once, and only those on the link");
    let dns: [Ipv4Addr; 2] = [[8, 8, 8, 8].into(), [9, 9, 9, 9].into()];
    assert_eq!(lease.dns, dns);
    assert_eq!((lease.domain.as_deref(), lease.mtu), (Some("example.org"), Some(9000)));
    assert_eq!(lease.lease, Some(Duration::from_secs(3600)));
    assert_eq!((lease.renew.as_secs(), lease.rebind.as_secs()), (60, 90));
}

#[test]
fn times_out_of_order_are_replaced() {
    for (t1, t2) in [(90u32, 60u32), (60, 60), (0, 60), (60, 3600), (4000, 5000)] {
        let lease = offer_with(&[(58, &t1.to_be_bytes()), (59, &t2.to_be_bytes())]).unwrap();
        assert_eq!((lease.renew.as_secs(), lease.rebind.as_secs()), (1800, 3150), "{t1} {t2}");
    }
    let all = [(54, &SERVER[..]), (51, &[0xff; 4])];
    let Some(DhcpReply::Ack(lease)) = parse(&message(5, [10, 0, 0, 7], XID, &all), MAC, XID) else {
        panic!("an infinite lease")
    };
    assert_eq!((lease.lease, lease.renew, lease.prefix), (None, Duration::MAX, 8));
}

#[test]
fn classless_routes_replace_routers() {
    let routes = [
        &[0, 10, 0, 0, 1][..],
        &[16, 172, 16, 10, 0, 0, 2],
        &[25, 192, 0, 2, 129, 0, 0, 0, 0],
        &[8, 224, 10, 0, 0, 2],
        &[16, 172, 17, 192, 0, 2, 1],
    ]
    .concat();
    let lease = offer_with(&[(3, &[10, 0, 0, 9]), (121, &routes)]).unwrap();
    assert!(lease.routers.is_empty());
    let shown: Vec<_> = lease
        .routes
        .iter()
        .map(|route| {
            let router = route.router.map(|router| router.to_string());
            (route.network.to_string(), route.prefix, router)
        })
        .collect();
    let expected = [
        ("0.0.0.0".into(), 0, Some("10.0.0.1".into())),
        ("172.16.0.0".into(), 16, Some("10.0.0.2".into())),
        ("192.0.2.128".into(), 25, None),
    ];
    assert_eq!(shown, expected, "no groups, no routers elsewhere");
    // What cannot be read is as if it were not there.
    for broken in [&routes[..routes.len() - 1], &[33, 1, 2, 3, 4, 5, 10, 0, 0, 1]] {
        let lease = offer_with(&[(3, &[10, 0, 0, 9]), (121, broken)]).unwrap();
        assert_eq!((lease.routers.len(), lease.routes.len()), (1, 0));
    }
    let many: Vec<u8> = (0..60).flat_map(|n| [24, 10, 1, n, 10, 0, 0, 1]).collect();
    let (head, tail) = many.split_at(243);
    let lease = offer_with(&[(121, head), (121, tail)]).unwrap();
    assert_eq!(lease.routes.len(), MOST_ROUTES, "RFC 3396: in two parts");
}

#[test]
fn what_is_not_for_us_or_impossible_is_nothing() {
    let good = message(5, [10, 0, 0, 7], XID, &USUAL);
    assert!(parse(&good, MAC, XID).is_some());
    // A byte, and what is wrong about it.
    for (place, value) in [(0, 1), (1, 6), (2, 5), (4, 0), (28, 4), (33, 3), (236, 0), (242, 1)] {
        let mut bytes = good.clone();
        bytes[place] = value;
        assert_eq!(parse(&bytes, MAC, XID), None, "byte {place}");
    }
    for yours in
        [[0, 0, 0, 0], [127, 0, 0, 1], [224, 0, 0, 1], [255; 4], [10, 0, 0, 0], [10, 0, 0, 255]]
    {
        assert_eq!(parse(&message(5, yours, XID, &USUAL), MAC, XID), None, "{yours:?}");
    }
    let replaced = |code, data| {
        let mut options = USUAL;
        options.iter_mut().find(|(known, _)| *known == code).unwrap().1 = data;
        parse(&message(5, [10, 0, 0, 7], XID, &options), MAC, XID)
    };
    let table: [(u8, &[u8]); 7] = [
        (54, &[0, 0, 0, 0]),
        (54, &[255; 4]),
        (54, &[10, 0, 0]),
        (51, &[0, 0, 1]),
        (1, &[255, 0, 255, 0]),
        (1, &[0, 0, 0, 0]),
        (1, &[0, 0, 0, 255]),
    ];
    for (code, data) in table {
        assert_eq!(replaced(code, data), None, "{code} {data:?}");
    }
    for options in [&USUAL[1..], &USUAL[..1]] {
        assert_eq!(parse(&message(5, [10, 0, 0, 7], XID, options), MAC, XID), None);
    }
}

#[test]
fn what_is_optional_and_wrong_is_left_out() {
    let bad: [&[u8]; 5] = [b"", b"a..b", b"a b", b"-\xff", &[b'a'; 64]];
    for domain in bad {
        assert_eq!(offer_with(&[(15, domain)]).unwrap().domain, None, "{domain:?}");
    }
    for mtu in [&[0, 68][..], &[2, 63], &[9], &[]] {
        assert_eq!(offer_with(&[(26, mtu)]).unwrap().mtu, None, "{mtu:?}");
    }
    let lease = offer_with(&[(6, &[8, 8, 8]), (3, &[10, 0])]).unwrap();
    assert!(lease.dns.is_empty() && lease.routers.is_empty());
}

#[test]
fn options_in_the_fields_for_names() {
    let mut bytes = message(2, [10, 0, 0, 7], XID, &[(52, &[3]), USUAL[0], USUAL[1]]);
    bytes[108..116].copy_from_slice(&[1, 4, 255, 255, 0, 0, 255, 0]);
    bytes[44..52].copy_from_slice(&[0, 6, 4, 9, 9, 9, 9, 255]);
    let Some(DhcpReply::Offer(lease)) = parse(&bytes, MAC, XID) else { panic!("an offer") };
    assert_eq!((lease.prefix, lease.dns.len()), (16, 1));
}

#[test]
fn a_request_as_it_is_sent() {
    let request = DhcpRequest {
        kind: DhcpMessageType::Request,
        xid: XID,
        secs: 300,
        client: Ipv4Addr::UNSPECIFIED,
        broadcast: true,
        requested: Some([10, 0, 0, 7].into()),
        server: Some(SERVER.into()),
    };
    let bytes = request.emit(MAC, 1500);
    assert_eq!(bytes.len(), SHORTEST);
    assert_eq!(bytes[..12], [1, 1, 6, 0, 0x12, 0x34, 0x56, 0x78, 1, 44, 0x80, 0]);
    assert_eq!(bytes[28..34], MAC.0);
    let options = DhcpOptions::collect(&bytes).unwrap();
    assert_eq!(options.get(code::MESSAGE_TYPE), Some(&[3][..]));
    let id = [255, 0, 0, 0, 2, 0, 3, 0, 1, 2, 0, 0, 0, 0, 2];
    assert_eq!(options.get(code::CLIENT), Some(&id[..]), "RFC 4361");
    assert_eq!(options.address(code::REQUESTED), Some([10, 0, 0, 7].into()));
    assert_eq!(options.address(code::SERVER), Some(SERVER.into()));
    assert_eq!(options.get(code::MOST_BYTES), Some(&1500u16.to_be_bytes()[..]));
    assert_eq!(options.get(code::PARAMETERS), Some(&PARAMETERS[..]));
    assert!(bytes.ends_with(&[0]));
}

proptest! {
    /// Whatever a server sends, what is believed can be used.
    #[test]
    fn a_lease_is_legal(
        kind in 1u8..8,
        yours in any::<[u8; 4]>(),
        options in prop::collection::vec(
            (prop::sample::select(vec![1u8, 3, 6, 15, 26, 51, 52, 54, 58, 59, 121]),
             prop::collection::vec(any::<u8>(), 0..20)), 0..12),
        cut in any::<prop::sample::Index>(),
    ) {
        let options: Vec<(u8, &[u8])> =
            options.iter().map(|(code, data)| (*code, &data[..])).collect();
        let all = [&USUAL[..], &options].concat();
        let mut bytes = message(kind, yours, XID, &all);
        if cut.index(4) == 0 {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Some(DhcpReply::Offer(lease) | DhcpReply::Ack(lease)) = parse(&bytes, MAC, XID) {
            prop_assert!(is_host(lease.address) && is_host(lease.server));
            prop_assert!((1..=32).contains(&lease.prefix));
            prop_assert!(!is_reserved(lease.address, lease.prefix));
            prop_assert!(lease.renew < lease.rebind || lease.lease.is_none());
            prop_assert!(lease.lease.is_none_or(|end| lease.rebind < end));
            prop_assert!(lease.routers.len() <= 4 && lease.dns.len() <= 8);
            prop_assert!(lease.mtu.is_none_or(|mtu| mtu >= 576));
        }
    }
}

#[test]
fn leases_of_seconds_are_taken_and_shorter_ones_named() {
    let with = |seconds: u32| {
        let options = [(54, &SERVER[..]), (51, &seconds.to_be_bytes())];
        parse(&message(5, [10, 0, 0, 7], XID, &options), MAC, XID)
    };
    for seconds in [0, 1] {
        let time = Duration::from_secs(seconds.into());
        assert_eq!(with(seconds), Some(DhcpReply::TooShort(time)));
    }
    let Some(DhcpReply::Ack(lease)) = with(2) else { panic!("a lease") };
    assert_eq!((lease.renew, lease.rebind), (Duration::from_secs(1), Duration::from_millis(1750)));
}

#[test]
fn what_a_message_leaves_out_stays_as_it_was() {
    let all: [(u8, &[u8]); 7] = [
        USUAL[0],
        USUAL[1],
        USUAL[2],
        (3, &SERVER),
        (6, &SERVER),
        (15, b"example.org"),
        (26, &[5, 0]),
    ];
    let whole = message(5, [10, 0, 0, 7], XID, &all);
    let Some(DhcpReply::Ack(known)) = parse(&whole, MAC, XID) else { panic!("a lease") };
    let renewed = |yours, options: &[(u8, &[u8])]| {
        let options = [&USUAL[..2], options].concat();
        match super::parse(&message(5, yours, XID, &options), MAC, XID, Some(&known)) {
            Some(DhcpReply::Ack(lease)) => lease,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(renewed([10, 0, 0, 7], &[]), known);
    // What it says counts, and another address has nothing to keep.
    let other = renewed([10, 0, 0, 7], &[(6, &[8, 8, 8, 8])]);
    assert_eq!(other, DhcpLease { dns: vec![[8, 8, 8, 8].into()], ..known.clone() });
    let other = renewed([10, 0, 0, 8], &[]);
    assert_eq!((other.prefix, other.routers.len(), other.mtu), (8, 0, None));
}
