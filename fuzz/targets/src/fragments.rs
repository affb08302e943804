//! Arbitrary IPv4 and IPv6 fragments of datagrams to a socket.
//!
//! The input is a sequence of records of five bytes: flags, the fragment's place in units of eight
//! bytes (two), its length, and a byte that fills its payload. Bit 0 of the flags makes it a
//! fragment of IPv6, bit 1 the last one. Bits 2 and 3 choose the datagram, bit 4 the source. The
//! upper three bits let time pass.
//!
//! For any input there is no panic, and the held fragments are bounded. Nothing is left when the
//! time of all of them is over and the socket has been read.

use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use core::time::Duration;

use inet::{
    Cidr, Config, Family, Handle, Instant, InterfaceConfig, InterfaceId, SocketKind, Stack,
    V6Config,
};

use crate::memory::{Chunk, Frame, Wire};
use crate::packet::{MAC, sum};

const OURS: [u8; 4] = [10, 0, 0, 2];
const OURS6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);
const ID: InterfaceId = InterfaceId(0);
/// Most frames held.
const HELD: u64 = 64;
const UDP: u8 = 17;

fn stack() -> (Stack<Chunk, Frame>, Handle) {
    let v6 = V6Config { dad_transmits: 0, ..V6Config::default() };
    let config = Config { v6, held_frames: 64, joined_bytes: 200_000, ..Config::default() };
    let mut stack = Stack::new(config, [7; 16]);
    stack.add_interface(InterfaceConfig { mac: MAC, mtu: 1500 });
    stack.add_address(ID, Cidr::new(OURS, 24)).expect("free");
    stack.add_address(ID, Cidr::new(OURS6, 64)).expect("free");
    let socket = stack.open_in(Family::V6, SocketKind::Datagram, 1).expect("room");
    stack.bind(socket, SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 9)).expect("free");
    (stack, socket)
}

/// A fragment's frame: `at` in units of eight bytes.
fn frame(flags: u8, at: u16, payload: &[u8]) -> Vec<u8> {
    let (more, id, host) = (flags & 2 == 0, flags >> 2 & 3, 10 + (flags >> 4 & 1));
    let mut frame = [&MAC[..], &[2, 0, 0, 0, 0, 1]].concat();
    if flags & 1 == 0 {
        let total = (20 + payload.len() as u16).to_be_bytes();
        let field = (at & 0x1fff | u16::from(more) << 13).to_be_bytes();
        let mut header = [&[0x45, 0][..], &total, &[0, id], &field, &[64, UDP, 0, 0]].concat();
        header.extend_from_slice(&Ipv4Addr::new(10, 0, 0, host).octets());
        header.extend_from_slice(&OURS);
        let right = !sum(&header);
        header[10..12].copy_from_slice(&right.to_be_bytes());
        frame.extend_from_slice(&[8, 0]);
        frame.extend_from_slice(&header);
    } else {
        let source = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, host.into());
        let len = (8 + payload.len() as u16).to_be_bytes();
        let field = (at << 3 | u16::from(more)).to_be_bytes();
        frame.extend_from_slice(&[0x86, 0xdd, 0x60, 0, 0, 0, len[0], len[1], 44, 64]);
        frame.extend_from_slice(&source.octets());
        frame.extend_from_slice(&OURS6.octets());
        frame.extend_from_slice(&[UDP, 0, field[0], field[1], 0, 0, 0, id]);
    }
    frame.extend_from_slice(payload);
    frame
}

fn counter(stack: &Stack<Chunk, Frame>, name: &str) -> u64 {
    stack.counters().find(|(known, _)| *known == name).map_or(u64::MAX, |(_, value)| value)
}

/// Runs the target.
pub fn run(data: &[u8]) {
    let (mut stack, socket) = stack();
    let mut wire = Wire::default();
    let mut now = Instant::from_nanos(1_000_000_000);
    let (records, _) = data.as_chunks::<5>();
    for [flags, high, low, len, byte] in records {
        // A UDP header without checksum, to our port, in front of what may be a first fragment.
        let mut payload = [0, 7, 0, 9, 0, 8, 0, 0].to_vec();
        payload[5] = *byte;
        payload.resize(usize::from(*len) * 8 + usize::from(flags >> 6), *byte);
        let at = u16::from_be_bytes([*high, *low]);
        stack.handle_frame(now, ID, Frame(frame(*flags, at, &payload)), &mut wire);
        now += Duration::from_secs(u64::from(flags >> 5));
        stack.poll(now, &mut wire);
        assert!(counter(&stack, "memory.frames-held") <= HELD);
        assert!(counter(&stack, "memory.joined-bytes") <= 200_000 + 65_535);
        assert!(wire.0.len() < 1000, "a fragment is not answered a thousand times");
        wire.0.clear();
    }
    stack.poll(now + Duration::from_secs(61), &mut wire);
    while stack.recv(socket).is_some() {}
    assert_eq!(counter(&stack, "memory.frames-held"), 0);
}
