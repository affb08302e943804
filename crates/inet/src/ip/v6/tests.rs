use super::*;
use proptest::prelude::*;
use std::vec::Vec;

const ID: InterfaceId = InterfaceId(0);
const A: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const B: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);

fn parse(
    frame: &[u8],
    at: usize,
    interface: InterfaceId,
) -> Result<(Packet, Content), Ipv6Refusal> {
    super::parse(frame, frame.len(), at, interface)
}

fn packet(next: u8, rest: &[u8]) -> Vec<u8> {
    packet_between(A, B, next, rest)
}

fn packet_between(source: Ipv6Addr, destination: Ipv6Addr, next: u8, rest: &[u8]) -> Vec<u8> {
    let len = u16::try_from(rest.len()).unwrap().to_be_bytes();
    let mut bytes = std::vec![0x6b, 0xc0, 0, 0, len[0], len[1], next, 64];
    bytes.extend_from_slice(&source.octets());
    bytes.extend_from_slice(&destination.octets());
    bytes.extend_from_slice(rest);
    bytes
}

/// What a packet carries, where, and what was found.
type Looked = Result<(u8, usize, Content), Ipv6Refusal>;

fn content(next: u8, rest: &[u8]) -> Looked {
    let (packet, content) = parse(&packet(next, rest), 0, ID)?;
    Ok((packet.protocol.into(), packet.payload.start, content))
}

const UDP: u8 = 17;
const PADDED: [u8; 8] = [UDP, 0, 1, 4, 0, 0, 0, 0];

fn problem(code: ProblemCode, pointer: u32) -> Content {
    Content::Problem(Problem { code, pointer, to_groups: false })
}

#[test]
fn a_plain_packet() {
    let bytes = packet(UDP, b"payload");
    let mut frame = Vec::from(&[9; 14][..]);
    frame.extend_from_slice(&bytes);
    frame.extend_from_slice(b"padding of the link");
    let (packet, content) = parse(&frame, 14, ID).unwrap();
    assert_eq!(content, Content::Upper);
    assert_eq!((packet.source, packet.destination), (A.into(), B.into()));
    assert_eq!((packet.tos, packet.ttl, packet.protocol_at), (0xbc, 64, 6));
    assert_eq!(&frame[packet.payload], b"payload");
    for cut in 0..bytes.len() {
        assert_eq!(parse(&bytes[..cut], 0, ID), Err(Ipv6Refusal::Malformed), "{cut}");
    }
    let mut other = bytes;
    other[0] = 0x45;
    assert_eq!(parse(&other, 0, ID), Err(Ipv6Refusal::Malformed));
}

#[test]
fn martians() {
    let ip = |text: &str| text.parse::<Ipv6Addr>().unwrap();
    for source in ["ff02::1", "::1", "::ffff:10.0.0.1"] {
        let bytes = packet_between(ip(source), B, UDP, b"");
        assert_eq!(parse(&bytes, 0, ID), Err(Ipv6Refusal::Martian), "{source}");
    }
    for destination in ["::", "::1", "ff01::1", "ff00::1", "::ffff:10.0.0.1"] {
        let bytes = packet_between(A, ip(destination), UDP, b"");
        assert_eq!(parse(&bytes, 0, ID), Err(Ipv6Refusal::Martian), "{destination}");
    }
    assert!(parse(&packet_between(ip("::"), ip("ff02::1"), UDP, b""), 0, ID).is_ok());
}

#[test]
fn extension_headers_are_walked() {
    let with = |headers: &[&[u8]]| headers.concat();
    let padded = |next: u8| [next, 0, 1, 4, 0, 0, 0, 0];
    let routed = |next: u8, kind: u8, left: u8| [next, 0, kind, left, 0, 0, 0, 0];
    let pad1s = |next: u8| [next, 0, 0, 0, 0, 0, 0, 0];
    let option = |kind: u8| [UDP, 0, kind, 0, 1, 2, 0, 0];
    let alert = [UDP, 0, 5, 2, 0, 0, 1, 0];
    let whole = |at| Ok((UDP, at, Content::Upper));
    let table: Vec<(u8, Vec<u8>, Looked)> = std::vec![
        (0, with(&[&PADDED, b"data"]), whole(48)),
        (60, with(&[&PADDED, b"data"]), whole(48)),
        (0, with(&[&padded(60), &pad1s(43), &routed(UDP, 0, 0)]), whole(64)),
        (0, with(&[&alert]), whole(48)),
        // The two highest bits of an unknown option's type.
        (60, with(&[&option(0x3e)]), whole(48)),
        (60, with(&[&option(0x7e)]), Ok((60, 40, Content::Nothing))),
        (
            60,
            with(&[&option(0xbe)]),
            Ok((
                60,
                40,
                Content::Problem(Problem {
                    code: ProblemCode::Option,
                    pointer: 42,
                    to_groups: true
                })
            ))
        ),
        (60, with(&[&option(0xfe)]), Ok((60, 40, problem(ProblemCode::Option, 42)))),
        // Routes that have not ended, of type 0 and of others.
        (43, with(&[&routed(UDP, 0, 1)]), Ok((43, 40, problem(ProblemCode::Field, 42)))),
        (43, with(&[&routed(UDP, 4, 9)]), Ok((43, 40, problem(ProblemCode::Field, 42)))),
        (43, with(&[&routed(UDP, 99, 0)]), whole(48)),
        // Hop-by-hop options in the second place.
        (60, with(&[&padded(0), &PADDED]), Ok((0, 48, problem(ProblemCode::NextHeader, 40)))),
        (59, with(&[b"ignored"]), Ok((59, 40, Content::Nothing))),
        (0, with(&[&padded(59)]), Ok((59, 48, Content::Nothing))),
        // What nobody knows is the caller's business.
        (200, with(&[b"x"]), Ok((200, 40, Content::Upper))),
        // Lengths that cannot be.
        (0, with(&[&[UDP, 1, 1, 4, 0, 0, 0, 0]]), Err(Ipv6Refusal::Malformed)),
        (0, with(&[&[UDP, 0, 1, 5, 0, 0, 0, 0]]), Err(Ipv6Refusal::Malformed)),
        (0, with(&[&[UDP, 0, 1, 3, 0, 0, 0, 1]]), Err(Ipv6Refusal::Malformed)),
        (0, with(&[&[UDP]]), Err(Ipv6Refusal::Malformed)),
        (44, with(&[&[UDP, 0, 0, 0]]), Err(Ipv6Refusal::Malformed)),
    ];
    for (next, rest, expected) in table {
        assert_eq!(content(next, &rest), expected, "{next} {rest:?}");
    }
}

#[test]
fn fragments() {
    let fragment = |field: u16, len: usize| {
        let [high, low] = field.to_be_bytes();
        let mut bytes = std::vec![UDP, 0, high, low, 0, 0, 1, 2];
        bytes.resize(8 + len, 7);
        bytes
    };
    let cut = |bytes: &[u8]| parse(&packet(44, bytes), 0, ID).unwrap().0.fragment;
    let is =
        |at, more| Some(FragmentHeader { id: 0x102, at, more, header: 0..40, next_header_at: 6 });
    assert_eq!(cut(&fragment(1, 16)), is(0, true));
    assert_eq!(cut(&fragment(16, 3)), is(16, false));
    assert_eq!(content(44, &fragment(16, 3)), Ok((UDP, 48, Content::Upper)));
    assert_eq!(cut(&fragment(0, 3)), None, "atomic");
    assert_eq!(content(44, &fragment(0, 3)), Ok((UDP, 48, Content::Upper)));
    let bad_length = Ok((UDP, 48, problem(ProblemCode::Field, 4)));
    assert_eq!(content(44, &fragment(1, 15)), bad_length);
    let too_long = Ok((UDP, 48, problem(ProblemCode::Field, 42)));
    assert_eq!(content(44, &fragment(0xfff8, 8)), too_long);
    // What follows the header of a fragment is not looked at.
    let mut unknown = fragment(16, 3);
    unknown[0] = 0;
    assert_eq!(content(44, &unknown), Ok((0, 48, Content::Upper)));
    let padded = [&[44, 0, 1, 4, 0, 0, 0, 0], &fragment(16, 3)[..]].concat();
    let (found, _) = parse(&packet(60, &padded), 0, ID).unwrap();
    let cut = found.fragment.unwrap();
    assert_eq!((cut.header, cut.next_header_at), (0..48, 40));
}

#[test]
fn the_walk_is_bounded() {
    let chain = |n: usize| {
        let mut bytes: Vec<u8> = [60, 0, 1, 4, 0, 0, 0, 0].repeat(n);
        bytes.extend_from_slice(&PADDED);
        bytes
    };
    assert_eq!(content(60, &chain(MOST_HEADERS - 1)).map(|(next, ..)| next), Ok(UDP));
    assert_eq!(content(60, &chain(MOST_HEADERS)), Err(Ipv6Refusal::Excessive));
    let mut many = std::vec![UDP, 12];
    many.resize(104, 0);
    assert_eq!(content(0, &many), Err(Ipv6Refusal::Excessive));
}

#[test]
fn groups_of_neighbours() {
    let address: Ipv6Addr = "2037::01:800:200e:8c6c".parse().unwrap();
    assert_eq!(solicited_node(address), "ff02::1:ff0e:8c6c".parse::<Ipv6Addr>().unwrap());
}

proptest! {
    /// Whatever the bytes: places are within the packet, in order, and what comes out is either
    /// not an extension header or says why the walk ended there.
    #[test]
    fn walks_end_within_the_packet(
        next in prop::sample::select(std::vec![0u8, 43, 44, 60, 59, UDP]),
        mut rest in prop::collection::vec(any::<u8>(), 0..200),
        lengths in prop::collection::vec((any::<prop::sample::Index>(), 0..64u8), 0..10),
    ) {
        // Small numbers are what lengths and types of options are.
        for (place, value) in lengths {
            if !rest.is_empty() {
                let place = place.index(rest.len());
                rest[place] = value;
            }
        }
        let bytes = packet(next, &rest);
        let Ok((packet, content)) = parse(&bytes, 0, ID) else { return Ok(()) };
        prop_assert_eq!(packet.extent.clone(), 0..bytes.len());
        prop_assert!(packet.payload.start >= HEADER && packet.payload.end == bytes.len());
        prop_assert!(packet.payload.start <= packet.payload.end);
        prop_assert!(packet.protocol_at < packet.payload.start);
        prop_assert_eq!(u8::from(packet.protocol), bytes[packet.protocol_at]);
        let is_extension = matches!(u8::from(packet.protocol), 0 | 43 | 44 | 59 | 60);
        match content {
            Content::Upper => prop_assert!(!is_extension || packet.fragment.is_some()),
            Content::Problem(problem) => prop_assert!((problem.pointer as usize) < bytes.len()),
            Content::Nothing => prop_assert!(is_extension),
        }
        if let Some(cut) = packet.fragment {
            prop_assert_eq!(cut.header.end + 8, packet.payload.start);
            prop_assert!(cut.next_header_at < cut.header.end);
        }
    }
}
