//! Fragments that a stack receives.

use super::*;

/// The fragments of an IPv4 packet from A to B: cut at these multiples of 8.
pub(super) fn cut(whole: &[u8], id: u16, cuts: &[usize]) -> Vec<Vec<u8>> {
    let payload = &whole[34..];
    let mut bounds = std::vec![0];
    bounds.extend_from_slice(cuts);
    bounds.push(payload.len());
    let frames = bounds.windows(2).map(|pair| {
        let mut frame = Vec::from(&whole[..34]);
        frame.extend_from_slice(&payload[pair[0]..pair[1]]);
        let total = u16::try_from(frame.len() - 14).unwrap().to_be_bytes();
        frame[16..18].copy_from_slice(&total);
        frame[18..20].copy_from_slice(&id.to_be_bytes());
        let more = if pair[1] < payload.len() { 0x2000 } else { 0 };
        let field = u16::try_from(pair[0] / 8).unwrap() | more;
        frame[20..22].copy_from_slice(&field.to_be_bytes());
        fix_ip(&mut frame);
        frame
    });
    frames.collect()
}

#[test]
fn a_datagram_in_pieces_is_one_datagram() {
    let mut b = Host::b_knowing_a();
    let socket = b.stack.open(SocketKind::Datagram, 1).unwrap();
    b.stack.bind(socket, at(IP_B, 9)).unwrap();
    let payload: Vec<u8> = (0..60_000u32).map(|n| (n % 241) as u8).collect();
    let whole = udp_frame(7, 9, &payload);
    let cuts: Vec<usize> = (1..41).map(|n| n * 1480).take_while(|at| *at < 60_008).collect();
    let mut frames = cut(&whole, 5, &cuts);
    frames.reverse();
    for frame in &frames[1..] {
        b.take(frame);
        b.take(frame);
    }
    assert_eq!(b.counter("memory.frames-held"), frames.len() as u64 - 1);
    assert_eq!(b.events_of(1), []);
    b.take(&frames[0]);
    assert_eq!((b.counter("memory.frames-held"), b.counter("ip.reassembled")), (0, 1));
    assert_eq!(b.counter("copy.joined-bytes"), 60_028);
    let received = b.stack.recv(socket).unwrap();
    assert!(received.piece.bytes() == payload && received.from == Some(at(IP_A, 7)));
    assert_eq!((b.counter("memory.joined-bytes"), b.stack.poll_at().is_some()), (0, true));
    b.pass(Duration::from_secs(100));
    assert_eq!((b.sent().len(), b.counter("ip.reassembly-timeouts")), (0, 0));
}

#[test]
fn what_does_not_come_in_time_is_complained_about() {
    let mut b = Host::b_knowing_a();
    let whole = udp_frame(7, 9, &[1; 100]);
    let frames = cut(&whole, 5, &[48]);
    b.take(&frames[0]);
    // Without the first fragment nobody is told; nor about what was sent to all.
    b.take(&cut(&whole, 6, &[48])[1]);
    let mut to_all = cut(&whole, 7, &[48])[0].clone();
    to_all[..6].fill(0xff);
    to_all[30..34].fill(0xff);
    fix_ip(&mut to_all);
    b.take(&to_all);
    assert_eq!(b.counter("memory.frames-held"), 3);
    b.pass(Duration::from_secs(29));
    assert_eq!(b.sent().len(), 0);
    b.take(&arp_frame(MAC_A, IP_A, IP_B, false));
    b.pass(Duration::from_secs(2));
    let sent = b.sent();
    assert_eq!(sent.len(), 1);
    assert_eq!((sent[0][23], &sent[0][34..36]), (1, &[11, 1][..]));
    assert_eq!(&sent[0][42..62], &frames[0][14..34], "the first fragment is quoted");
    assert_eq!(b.counter("ip.reassembly-timeouts"), 3);
    assert_eq!(b.counter("memory.frames-held"), 0);
    b.take(&frames[1]);
    assert_eq!(b.counter("memory.frames-held"), 1, "too late: it waits alone");
}

#[test]
fn a_segment_and_an_echo_in_pieces() {
    let mut pair = Pair::new();
    let (client, server, _) = pair.connected();
    let payload: Vec<u8> = (0..1000u32).map(|n| (n % 251) as u8).collect();
    pair.a.send(client, &payload);
    for frame in pair.a.sent() {
        for part in cut(&frame, 9, &[200, 504]) {
            pair.b.take(&part);
        }
    }
    assert_eq!(pair.b.received(server), payload);
    let echo = echo_frame(&[7; 500]);
    for part in cut(&echo, 10, &[104, 208]) {
        pair.b.take(&part);
    }
    let sent = pair.b.sent();
    assert!(sent.iter().any(|frame| frame[23] == 1 && frame.ends_with(&[7; 500])));
}

#[test]
fn frames_held_are_bounded_for_fragments_too() {
    let config = Config { held_frames: 16, ..Config::default() };
    let mut b = Host::new(IP_B, MAC_B, config);
    for id in 0..100 {
        b.take(&cut(&udp_frame(7, 9, &[1; 100]), id, &[48])[0]);
    }
    assert_eq!(b.counter("memory.frames-held"), 12);
    assert_eq!(b.counter("memory.frames-refused"), 88);
    // Overlapping, and longer than a packet can be.
    let mut b = Host::b();
    let frames = cut(&udp_frame(7, 9, &[1; 100]), 5, &[48]);
    let mut over = cut(&udp_frame(7, 9, &[1; 100]), 5, &[40]).remove(1);
    b.take(&frames[0]);
    b.take(&over);
    b.take(&frames[1]);
    assert_eq!((b.counter("ip.bad-fragments"), b.counter("memory.frames-held")), (2, 0));
    over[20..22].copy_from_slice(&8190u16.to_be_bytes());
    fix_ip(&mut over);
    b.take(&over);
    assert_eq!(b.counter("ip.bad-fragments"), 3);
}
