//! Packets of ESP made by hand: dummies, padding of all kinds, payload that does not fit the mode.

use super::esp_world::*;
use super::*;

/// A packet of ESP from A to B with this number, whose decrypted bytes are `plain`.
fn frame_of(sequence: u64, plain: &[u8]) -> Vec<u8> {
    let header = EspHeader { spi: SPI, sequence, extended: false };
    let (mut iv, mut body, mut icv) = ([0; 8], Vec::from(plain), [0; 16]);
    Toy::new(1).seal(&header, &mut iv, &mut body, &mut icv).unwrap();
    ip_frame(50, &[&header.wire()[..], &iv, &body, &icv].concat())
}

/// `payload` with this padding, as protocol `next`.
fn padded(payload: &[u8], padding: &[u8], next: u8) -> Vec<u8> {
    [payload, padding, &[u8::try_from(padding.len()).unwrap(), next]].concat()
}

/// B with a socket on port 7, and its protected peer.
fn receiver(mode: EspMode) -> (Pair, Handle) {
    let mut pair = Pair::protected(mode, |_| {});
    let socket = pair.b.stack.open(SocketKind::Datagram, 2).unwrap();
    pair.b.stack.bind(socket, at(IP_B, 7)).unwrap();
    (pair, socket)
}

/// RFC 4303 2.6: whatever is in it, it is dropped without an answer. It counts as received.
#[test]
fn dummy_packets_are_dropped() {
    for mode in [EspMode::Transport, EspMode::Tunnel] {
        let (mut pair, socket) = receiver(mode);
        let noise = [0xa5; 38];
        let dummies = [padded(&noise, &[], 59), padded(&[], &[1, 2], 59)];
        for (number, plain) in (1..).zip(&dummies) {
            let frame = frame_of(number, plain);
            pair.b.take(&frame);
            assert_eq!(pair.b.counter("xfrm.dummies-in"), number);
            // Once more it is a replay.
            pair.b.take(&frame);
            assert_eq!(pair.b.counter("xfrm.in-state-seq-error"), number);
        }
        assert!(pair.b.sent().is_empty());
        assert!(pair.b.received(socket).is_empty());
        assert_eq!(pair.b.counter("xfrm.packets-in"), 2);
    }
}

/// RFC 4303 2.4: 1, 2, 3 and so on, up to 255 bytes, more than alignment needs.
#[test]
fn padding_of_any_length_is_taken() {
    let (mut pair, socket) = receiver(EspMode::Transport);
    let datagram = &udp_frame(7, 7, b"text")[34..];
    let mut number = 0;
    for len in (0..=255_u8).filter(|len| (datagram.len() + usize::from(*len) + 2).is_multiple_of(4))
    {
        number += 1;
        let padding: Vec<u8> = (1..=len).collect();
        pair.b.take(&frame_of(number, &padded(datagram, &padding, 17)));
        assert_eq!(pair.b.received(socket), b"text", "{len}");
    }
    assert_eq!(number, 64);
}

#[test]
fn bad_padding_is_refused() {
    let (mut pair, socket) = receiver(EspMode::Transport);
    let datagram = &udp_frame(7, 7, b"text")[34..];
    let good = padded(datagram, &[1, 2], 17);
    let changed = |at: usize, byte: u8| {
        let mut plain = good.clone();
        plain[at] = byte;
        plain
    };
    let (first, last, length) = (good.len() - 4, good.len() - 3, good.len() - 2);
    let all = [
        changed(first, 0),
        changed(last, 3),
        // Longer than what is there, and by one too long and too short.
        changed(length, 255),
        changed(length, 3),
        Vec::from([1, 2, 5, 17]),
        padded(datagram, &[0, 0], 17),
        padded(datagram, &[2, 1], 17),
    ];
    for (number, plain) in (1..).zip(&all) {
        pair.b.take(&frame_of(number, plain));
        assert_eq!(pair.b.counter("xfrm.in-state-proto-error"), number, "{plain:?}");
    }
    assert!(pair.b.received(socket).is_empty());
    let id = SaId { spi: SPI, destination: IP_B.into() };
    let info = pair.b.stack.associations().find(|info| info.id == id).unwrap();
    // Their check values were right.
    assert_eq!((info.failures, info.usage.packets), (0, 0));
    pair.b.take(&frame_of(50, &good));
    assert_eq!(pair.b.received(socket), b"text");
}

/// RFC 4303 2.7: more bytes behind the payload, which the payload's own length leaves out.
#[test]
fn padding_that_hides_lengths_is_left_out() {
    let (mut pair, socket) = receiver(EspMode::Transport);
    let datagram = &udp_frame(7, 7, b"text")[34..];
    let plain = padded(&[datagram, &[0; 96]].concat(), &[1, 2], 17);
    pair.b.take(&frame_of(1, &plain));
    assert_eq!(pair.b.received(socket), b"text");
    let (mut pair, socket) = receiver(EspMode::Tunnel);
    let packet = &udp_frame(7, 7, b"text")[14..];
    let plain = padded(&[packet, &[0; 96]].concat(), &[1, 2], 4);
    pair.b.take(&frame_of(1, &plain));
    assert_eq!(pair.b.received(socket), b"text");
}

#[test]
fn a_tunnel_takes_whole_packets_alone() {
    let (mut pair, socket) = receiver(EspMode::Tunnel);
    let packet = &udp_frame(7, 7, b"text")[14..];
    let datagram = &packet[20..];
    let wrong = [
        padded(datagram, &[1, 2], 17),
        // IPv4 that is said to be IPv6, and nothing at all.
        padded(packet, &[1, 2], 41),
        padded(&[], &[1, 2], 4),
    ];
    for (number, plain) in (1..).zip(&wrong) {
        pair.b.take(&frame_of(number, plain));
        assert_eq!(pair.b.counter("xfrm.in-state-mode-error"), number, "{plain:?}");
    }
    assert!(pair.b.received(socket).is_empty());
    // ESP in ESP.
    let inner = &frame_of(9, &padded(packet, &[1, 2], 4))[14..];
    let fill: Vec<u8> = (1..=(4 - (inner.len() + 2) % 4) as u8 % 4).collect();
    pair.b.take(&frame_of(10, &padded(inner, &fill, 4)));
    assert_eq!(pair.b.counter("xfrm.in-error"), 1);
    assert!(pair.b.received(socket).is_empty());
}
