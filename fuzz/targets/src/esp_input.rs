//! Arbitrary packets of ESP to a host with associations in both modes.
//!
//! The input is a sequence of records: a byte of flags, a byte with the packet's number, a byte
//! with the length of what follows, and so many bytes. Bit 0 of the flags sends the bytes as they
//! are behind the number; otherwise they are what would be encrypted, and the check value is right.
//! Bit 1 chooses the tunnel. Bit 2 makes the number a large one, bit 3 repeats the last frame, bit
//! 4 changes one bit of it. The upper three bits let time pass.
//!
//! For any input there is no panic, no packet is taken twice, and what the core holds is bounded.
//! Nothing is left when the socket has been read and the time of all fragments is over.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use inet::{
    Cidr, Config, EspCipher, EspCipherError, EspHeader, EspMode, EspSelector, EspShape, Family,
    Handle, Instant, InterfaceConfig, InterfaceId, SaConfig, SaId, SaLifetimes, SocketKind,
    SpAction, SpConfig, SpDirection, SpTemplate, Stack,
};

use crate::memory::{Chunk, Frame, Wire};
use crate::packet::{MAC, OURS, PEER, arp, sum};

const ID: InterfaceId = InterfaceId(0);
/// The associations: in transport mode, and in a tunnel.
const SPIS: [u32; 2] = [0x1000, 0x2000];
const ICV: usize = 8;
/// Most frames held.
const HELD: u64 = 64;

/// Sums, and encrypts nothing.
#[derive(Debug)]
struct Sum;

fn check_value(header: &EspHeader, body: &[u8]) -> [u8; ICV] {
    let (low, high) = body.split_at(body.len() / 2);
    let parts = [sum(&header.wire()), sum(&header.sequence.to_be_bytes()), sum(low), sum(high)];
    let mut out = [0; ICV];
    for (place, part) in out.chunks_mut(2).zip(parts) {
        place.copy_from_slice(&part.to_be_bytes());
    }
    out
}

impl EspCipher for Sum {
    fn shape(&self) -> EspShape {
        EspShape { iv: 0, icv: ICV, block: 4 }
    }

    fn seal(
        &mut self,
        header: &EspHeader,
        _: &mut [u8],
        body: &mut [u8],
        icv: &mut [u8],
    ) -> Result<(), EspCipherError> {
        icv.copy_from_slice(&check_value(header, body));
        Ok(())
    }

    fn open(
        &mut self,
        header: &EspHeader,
        _: &[u8],
        body: &mut [u8],
        icv: &[u8],
    ) -> Result<(), EspCipherError> {
        let right = check_value(header, body) == icv;
        if right { Ok(()) } else { Err(EspCipherError::BadCheckValue) }
    }
}

fn association(tunnel: bool, source: IpAddr, destination: IpAddr) -> SaConfig {
    SaConfig {
        id: SaId { spi: SPIS[usize::from(tunnel)], destination },
        source,
        reqid: 1,
        mode: if tunnel { EspMode::Tunnel } else { EspMode::Transport },
        cipher: Box::new(Sum),
        replay_window: 32,
        extended: tunnel,
        sent: 0,
        received: 0,
        lifetimes: SaLifetimes { hard_packets: Some(200), ..SaLifetimes::default() },
        selector: None,
        padded_to: 0,
    }
}

fn stack(tunnel: bool) -> (Stack<Chunk, Frame>, Handle) {
    let config = Config { held_frames: 64, joined_bytes: 200_000, ..Config::default() };
    let mut stack = Stack::new(config, [7; 16]);
    stack.add_interface(InterfaceConfig { mac: MAC, mtu: 1500 });
    stack.add_address(ID, Cidr::new(OURS, 24)).expect("free");
    let socket = stack.open_in(Family::V4, SocketKind::Datagram, 1).expect("room");
    stack.bind(socket, SocketAddr::new(OURS.into(), 9)).expect("free");
    let now = Instant::from_nanos(1);
    let (ours, peer) = (OURS.into(), PEER.into());
    for (direction, from, to) in [(SpDirection::In, peer, ours), (SpDirection::Out, ours, peer)] {
        for tunnel in [false, true] {
            stack.add_association(now, association(tunnel, from, to)).expect("possible");
        }
        let mode = if tunnel { EspMode::Tunnel } else { EspMode::Transport };
        let ends = tunnel.then_some((from, to));
        let template = SpTemplate { mode, reqid: 1, spi: None, ends, optional: false };
        let selector = EspSelector::between(Cidr::host(from), Cidr::host(to));
        let action = SpAction::Protect(template);
        let policy = SpConfig { direction, selector, priority: 0, action };
        stack.add_policy(policy).expect("possible");
    }
    (stack, socket)
}

/// An IPv4 frame from the peer with a packet of ESP.
fn frame(esp: &[u8]) -> Vec<u8> {
    let mut frame = [&MAC[..], &[2, 0, 0, 0, 0, 1, 8, 0]].concat();
    let total = (20 + esp.len() as u16).to_be_bytes();
    let mut header = [&[0x45, 0][..], &total, &[0, 0, 0x40, 0, 64, 50, 0, 0]].concat();
    header.extend_from_slice(&PEER.octets());
    header.extend_from_slice(&OURS.octets());
    let right = !sum(&header);
    header[10..12].copy_from_slice(&right.to_be_bytes());
    frame.extend_from_slice(&header);
    frame.extend_from_slice(esp);
    frame
}

fn packet(flags: u8, number: u8, content: &[u8]) -> Vec<u8> {
    let tunnel = flags & 2 != 0;
    let high = if flags & 4 != 0 { 0xffff_ff00 } else { 0 };
    let sequence = high | u64::from(number);
    let header = EspHeader { spi: SPIS[usize::from(tunnel)], sequence, extended: tunnel };
    if flags & 1 != 0 {
        return frame(&[&header.wire(), content].concat());
    }
    frame(&[&header.wire()[..], content, &check_value(&header, content)].concat())
}

fn counter(stack: &Stack<Chunk, Frame>, name: &str) -> u64 {
    stack.counters().find(|(known, _)| *known == name).map_or(u64::MAX, |(_, value)| value)
}

/// Runs the target.
pub fn run(data: &[u8]) {
    let (mut stack, socket) = stack(data.first().is_some_and(|first| first & 2 != 0));
    let mut wire = Wire::default();
    let mut now = Instant::from_nanos(1_000_000_000);
    stack.handle_frame(now, ID, Frame(arp()), &mut wire);
    let (mut rest, mut last) = (data, Vec::new());
    while let [flags, number, len, tail @ ..] = rest {
        let (content, next) = tail.split_at(tail.len().min(usize::from(*len)));
        rest = next;
        let repeats = flags & 8 != 0 && !last.is_empty();
        if !repeats {
            last = packet(*flags, *number, content);
        }
        let mut bytes = last.clone();
        if flags & 16 != 0 {
            let at = 34 + usize::from(*number) % (bytes.len() - 34);
            bytes[at] ^= 1;
        }
        let before = counter(&stack, "xfrm.packets-in");
        stack.handle_frame(now, ID, Frame(bytes.clone()), &mut wire);
        let taken = counter(&stack, "xfrm.packets-in") - before;
        assert!(taken <= 1, "one packet of ESP is one");
        stack.handle_frame(now, ID, Frame(bytes), &mut wire);
        assert_eq!(counter(&stack, "xfrm.packets-in") - before, taken, "it was taken twice");
        now += Duration::from_secs(u64::from(flags >> 5));
        stack.poll(now, &mut wire);
        assert!(counter(&stack, "memory.frames-held") <= HELD);
        assert!(counter(&stack, "memory.joined-bytes") <= 200_000 + 65_535);
        assert!(wire.0.len() < 1000, "a packet is not answered a thousand times");
        wire.0.clear();
    }
    stack.poll(now + Duration::from_secs(61), &mut wire);
    while stack.recv(socket).is_some() {}
    assert_eq!(counter(&stack, "memory.frames-held"), 0);
    assert_eq!(counter(&stack, "memory.joined-bytes"), 0);
}
