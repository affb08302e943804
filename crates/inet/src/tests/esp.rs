//! ESP: protected connections and datagrams, policies, replays, lifetimes, path MTUs, hostile
//! packets.

use std::boxed::Box;

use super::esp_world::*;
use super::*;

const BOTH: [EspMode; 2] = [EspMode::Transport, EspMode::Tunnel];

fn protocols(frames: &[Vec<u8>]) -> Vec<u8> {
    frames.iter().filter(|frame| frame[12..14] == [8, 0]).map(|frame| frame[23]).collect()
}

/// Moves frames between the hosts until both are quiet, and gives all of them.
fn settle_watched(pair: &mut Pair) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        let (to_b, to_a) = (pair.a.sent(), pair.b.sent());
        if to_b.is_empty() && to_a.is_empty() {
            return all;
        }
        to_b.iter().for_each(|frame| pair.b.take(frame));
        to_a.iter().for_each(|frame| pair.a.take(frame));
        all.extend(to_b.into_iter().chain(to_a));
    }
}

#[test]
fn a_connection_is_protected_and_its_segments_fit() {
    for mode in BOTH {
        let mut pair = Pair::protected(mode, |_| {});
        let (client, server, _) = pair.connected();
        let payload: Vec<u8> = (0..100_000_u32).map(|n| n as u8).collect();
        pair.a.send(client, &payload);
        let mut got = Vec::new();
        for _ in 0..200 {
            let frames = settle_watched(&mut pair);
            assert!(frames.iter().all(|frame| frame.len() <= 1514), "{mode:?}");
            assert!(protocols(&frames).iter().all(|protocol| *protocol == 50), "{mode:?}");
            let clear = |frame: &Vec<u8>| frame.windows(64).any(|part| part == &payload[..64]);
            assert!(!frames.iter().any(clear), "{mode:?}");
            got.extend(pair.b.received(server));
            pair.pass(Duration::from_millis(50));
        }
        assert_eq!(got.len(), payload.len(), "{mode:?}: {}", pair.b.counted());
        assert_eq!(got, payload);
        // 1500 - 20 - 8 - 8 - 16 = 1448, a multiple of 4, less the trailer.
        let overhead = if mode == EspMode::Transport { 0 } else { 20 };
        let info = pair.a.stack.tcp_info(pair.a.now, client).unwrap();
        assert_eq!(info.snd_mss, 1448 - 2 - 20 - 12 - overhead, "{mode:?}");
        assert_eq!(pair.a.counter("ip.fragments-out"), 0);
        assert!(pair.a.counter("xfrm.packets-out") > 70);
        assert_eq!(pair.a.counter("xfrm.packets-out"), pair.b.counter("xfrm.packets-in"));
    }
}

#[test]
fn full_segments_fill_the_packet() {
    let mut pair = Pair::protected(EspMode::Transport, |_| {});
    let (client, _, _) = pair.connected();
    pair.a.send(client, &[1; 20_000]);
    let longest = settle_watched(&mut pair).iter().map(Vec::len).max().unwrap();
    assert!((1511..=1514).contains(&longest), "{longest}");
}

/// A datagram socket on each host, with port 7.
fn datagram_sockets(pair: &mut Pair) -> (Handle, Handle) {
    let a = pair.a.stack.open(SocketKind::Datagram, 1).unwrap();
    let b = pair.b.stack.open(SocketKind::Datagram, 2).unwrap();
    pair.a.stack.bind(a, at(IP_A, 7)).unwrap();
    pair.b.stack.bind(b, at(IP_B, 7)).unwrap();
    (a, b)
}

fn send_to_b(pair: &mut Pair, socket: Handle, payload: &[u8]) -> Result<(), Error> {
    let chunk = Chunk(Vec::from(payload));
    let sent = pair.a.stack.send(pair.a.now, socket, chunk, Some(at(IP_B, 7)));
    sent.map_err(|refused| refused.error)
}

#[test]
fn a_long_datagram_is_sealed_whole_and_then_fragmented() {
    for mode in BOTH {
        let mut pair = Pair::protected(mode, |_| {});
        let (a, b) = datagram_sockets(&mut pair);
        let payload: Vec<u8> = (0..20_000_u32).map(|n| (n / 7) as u8).collect();
        send_to_b(&mut pair, a, &payload).unwrap();
        let frames = settle_watched(&mut pair);
        assert!(frames.iter().all(|frame| frame.len() <= 1514), "{mode:?}");
        assert_eq!(pair.b.received(b), payload, "{mode:?}: {}", pair.b.counted());
        assert_eq!(pair.a.counter("xfrm.packets-out"), 1);
        assert!(pair.a.counter("ip.fragments-out") >= 14);
        // Longer than a packet of ESP can be.
        assert_eq!(send_to_b(&mut pair, a, &[0; 65_500]), Err(Error::MessageSize));
    }
}

#[test]
fn echoes_and_errors_are_protected() {
    let mut pair = Pair::protected(EspMode::Transport, |_| {});
    let (a, _) = datagram_sockets(&mut pair);
    let nobody = at(IP_B, 9);
    pair.a.stack.connect(pair.a.now, a, nobody).unwrap();
    pair.a.send(a, b"hello");
    let frames = settle_watched(&mut pair);
    assert_eq!(protocols(&frames), [50, 50]);
    assert_eq!(pair.a.events_of(1), [EventKind::Acked, EventKind::Failed(Error::Refused)]);
    // An echo request without protection gets no answer.
    pair.b.take(&echo_frame(b"x"));
    assert!(pair.b.sent().is_empty());
    assert_eq!(pair.b.counter("xfrm.in-tmpl-mismatch"), 1);
}

#[test]
fn plaintext_that_should_be_protected_is_dropped() {
    let mut pair = Pair::protected(EspMode::Transport, |_| {});
    let (_, b) = datagram_sockets(&mut pair);
    pair.b.take(&udp_frame(7, 7, b"plain"));
    assert!(pair.b.received(b).is_empty());
    assert_eq!(pair.b.counter("xfrm.in-tmpl-mismatch"), 1);
    // Of other hosts nothing was said.
    let mut other = udp_frame(7, 7, b"other");
    other[29] = 9;
    fix_ip(&mut other);
    fix_transport(&mut other);
    pair.b.take(&other);
    assert_eq!(pair.b.received(b), b"other");
}

#[test]
fn without_an_association_nothing_leaves() {
    let mut pair = Pair::protected(EspMode::Transport, |_| {});
    let (a, _) = datagram_sockets(&mut pair);
    pair.a.stack.remove_association(&SaId { spi: SPI, destination: IP_B.into() }).unwrap();
    send_to_b(&mut pair, a, b"secret").unwrap();
    let frames = settle_watched(&mut pair);
    assert!(protocols(&frames).is_empty());
    assert_eq!(pair.a.counter("xfrm.out-no-states"), 1);
    let gone = SaId { spi: SPI, destination: IP_B.into() };
    assert_eq!(pair.a.stack.remove_association(&gone), Err(Error::BadHandle));
}

/// So keys are changed: the newer association serves from the next packet on.
#[test]
fn a_newer_association_takes_over() {
    let mut pair = Pair::protected(EspMode::Transport, |_| {});
    let (a, b) = datagram_sockets(&mut pair);
    send_to_b(&mut pair, a, b"one").unwrap();
    pair.settle();
    let newer = || {
        let mut newer = association(EspMode::Transport, IP_A, IP_B);
        newer.id.spi = SPI + 1;
        newer.cipher = Box::new(Toy::new(2));
        newer
    };
    pair.b.add_association(newer());
    pair.a.add_association(newer());
    send_to_b(&mut pair, a, b"two").unwrap();
    pair.settle();
    assert_eq!(pair.b.received(b), b"onetwo");
    let used = |host: &Host, spi| {
        let id = SaId { spi, destination: IP_B.into() };
        host.stack.associations().find(|info| info.id == id).unwrap().usage.packets
    };
    assert_eq!((used(&pair.a, SPI), used(&pair.a, SPI + 1)), (1, 1));
    // Back to the older one, if the newer is removed.
    let id = SaId { spi: SPI + 1, destination: IP_B.into() };
    pair.a.stack.remove_association(&id).unwrap();
    send_to_b(&mut pair, a, b"three").unwrap();
    pair.settle();
    assert_eq!(pair.b.received(b), b"three");
}

#[test]
fn a_wrong_key_opens_nothing() {
    let mut pair = Pair::protected(EspMode::Transport, |_| {});
    let (a, b) = datagram_sockets(&mut pair);
    let id = SaId { spi: SPI, destination: IP_B.into() };
    pair.b.stack.remove_association(&id).unwrap();
    let mut wrong = association(EspMode::Transport, IP_A, IP_B);
    wrong.cipher = Box::new(Toy::new(2));
    pair.b.add_association(wrong);
    send_to_b(&mut pair, a, b"secret").unwrap();
    pair.settle();
    assert!(pair.b.received(b).is_empty());
    assert_eq!(pair.b.counter("xfrm.in-state-proto-error"), 1);
    let info = pair.b.stack.associations().find(|info| info.id == id).unwrap();
    assert_eq!((info.failures, info.received, info.usage.packets), (1, 0, 0));
}

#[test]
fn discard_and_bypass_do_what_they_say() {
    let mut pair = Pair::protected(EspMode::Transport, |_| {});
    let (a, b) = datagram_sockets(&mut pair);
    let to = |port| EspSelector {
        protocol: Some(17),
        destination_port: Some(port),
        ..EspSelector::between(Cidr::host(IP_A), Cidr::host(IP_B))
    };
    let config = |direction, action| SpConfig { direction, selector: to(7), priority: 0, action };
    // Of equal priority the older one counts, so the first ones go.
    let hosts = EspSelector::between(Cidr::host(IP_A), Cidr::host(IP_B));
    pair.a.stack.remove_policy(SpDirection::Out, &hosts).unwrap();
    pair.b.stack.remove_policy(SpDirection::In, &hosts).unwrap();
    pair.a.add_policy(config(SpDirection::Out, SpAction::Bypass));
    pair.b.add_policy(config(SpDirection::In, SpAction::Bypass));
    send_to_b(&mut pair, a, b"clear").unwrap();
    assert_eq!(protocols(&settle_watched(&mut pair)), [17]);
    assert_eq!(pair.b.received(b), b"clear");
    pair.b.stack.remove_policy(SpDirection::In, &to(7)).unwrap();
    pair.b.add_policy(config(SpDirection::In, SpAction::Discard));
    send_to_b(&mut pair, a, b"clear").unwrap();
    pair.settle();
    assert!(pair.b.received(b).is_empty());
    assert_eq!(pair.b.counter("xfrm.in-pol-block"), 1);
    pair.a.stack.remove_policy(SpDirection::Out, &to(7)).unwrap();
    pair.a.add_policy(config(SpDirection::Out, SpAction::Discard));
    send_to_b(&mut pair, a, b"clear").unwrap();
    assert!(settle_watched(&mut pair).is_empty());
    assert_eq!(pair.a.counter("xfrm.out-pol-block"), 1);
}

#[test]
fn an_optional_template_lets_plain_packets_through() {
    let mut pair = Pair::new();
    let (a, b) = datagram_sockets(&mut pair);
    let optional = SpTemplate { optional: true, ..template(EspMode::Transport, None) };
    let action = SpAction::Protect(optional);
    pair.a.add_policy(policy(SpDirection::Out, (IP_A, IP_B), action));
    pair.b.add_policy(policy(SpDirection::In, (IP_A, IP_B), action));
    send_to_b(&mut pair, a, b"one").unwrap();
    assert_eq!(protocols(&settle_watched(&mut pair)), [17]);
    pair.a.add_association(association(EspMode::Transport, IP_A, IP_B));
    pair.b.add_association(association(EspMode::Transport, IP_A, IP_B));
    send_to_b(&mut pair, a, b"two").unwrap();
    assert_eq!(protocols(&settle_watched(&mut pair)), [50]);
    assert_eq!(pair.b.received(b), b"onetwo");
}

/// One packet of ESP from A to B that carries a datagram.
fn sealed_datagram(pair: &mut Pair, payload: &[u8]) -> Vec<u8> {
    let (a, _) = datagram_sockets(pair);
    // The neighbour is known then.
    send_to_b(pair, a, b"first").unwrap();
    pair.settle();
    send_to_b(pair, a, payload).unwrap();
    pair.a.sent().pop().unwrap()
}

#[test]
fn a_replayed_packet_is_dropped() {
    let mut pair = Pair::protected(EspMode::Transport, |_| {});
    let frame = sealed_datagram(&mut pair, b"once");
    let before = pair.b.counter("udp.datagrams-in");
    pair.b.take(&frame);
    pair.b.take(&frame);
    assert_eq!(pair.b.counter("udp.datagrams-in"), before + 1);
    assert_eq!(pair.b.counter("xfrm.in-state-seq-error"), 1);
    let info = pair.b.stack.associations().find(|info| info.id.destination == IP_B).unwrap();
    assert_eq!((info.replays, info.received), (1, 2));
}

#[test]
fn a_changed_packet_does_not_move_the_window() {
    let mut pair = Pair::protected(EspMode::Transport, |_| {});
    let frame = sealed_datagram(&mut pair, b"once");
    for at in 34..frame.len() {
        let mut changed = frame.clone();
        changed[at] ^= 1;
        pair.b.take(&changed);
    }
    let info = pair.b.stack.associations().find(|info| info.id.destination == IP_B).unwrap();
    assert_eq!(info.received, 1);
    let before = pair.b.counter("udp.datagrams-in");
    pair.b.take(&frame);
    assert_eq!(pair.b.counter("udp.datagrams-in"), before + 1);
}

#[test]
fn extended_numbers_go_on_where_short_ones_end() {
    let last = u64::from(u32::MAX) - 2;
    for (extended, sent) in [(true, 6), (false, 2)] {
        let mut pair = Pair::protected(EspMode::Transport, |config| {
            config.extended = extended;
            (config.sent, config.received) = (last, last);
        });
        let (a, b) = datagram_sockets(&mut pair);
        for _ in 0..6 {
            send_to_b(&mut pair, a, b"x").unwrap();
            pair.settle();
        }
        let context = std::format!("{extended}: {}", pair.a.counted());
        assert_eq!(pair.b.received(b).len(), sent, "{context}");
        assert_eq!(pair.a.counter("xfrm.out-state-seq-error") > 0, !extended, "{context}");
        let notice = pair.a.stack.poll_esp_notice().map(|notice| notice.kind);
        assert_eq!(notice, (!extended).then_some(EspNoticeKind::SequenceExhausted));
        let info = pair.b.stack.associations().find(|info| info.id.destination == IP_B).unwrap();
        assert_eq!(info.received, if extended { last + 6 } else { last + 2 });
    }
}

#[test]
fn lifetimes_warn_and_end() {
    let mut pair = Pair::protected(EspMode::Transport, |config| {
        config.lifetimes.soft_packets = Some(2);
        config.lifetimes.hard_packets = Some(3);
        config.lifetimes.hard_time = Some(Duration::from_secs(100));
    });
    let (a, b) = datagram_sockets(&mut pair);
    for _ in 0..5 {
        send_to_b(&mut pair, a, b"x").unwrap();
        pair.settle();
    }
    assert_eq!(pair.b.received(b).len(), 3);
    let notices: Vec<_> = core::iter::from_fn(|| pair.a.stack.poll_esp_notice()).collect();
    let kinds: Vec<_> = notices.iter().map(|notice| notice.kind).collect();
    assert_eq!(kinds, [EspNoticeKind::Dying, EspNoticeKind::Expired]);
    assert!(notices.iter().all(|notice| notice.id.destination == IP_B));
    assert_eq!(pair.a.counter("xfrm.out-state-expired"), 2);
    // A newer one takes its place.
    for host in [&mut pair.a, &mut pair.b] {
        let mut config = association(EspMode::Transport, IP_A, IP_B);
        config.id.spi = SPI + 1;
        host.add_association(config);
    }
    send_to_b(&mut pair, a, b"x").unwrap();
    pair.settle();
    assert_eq!(pair.b.received(b).len(), 1);
    // Time alone ends the one that was never used.
    pair.pass(Duration::from_secs(101));
    let notices = core::iter::from_fn(|| pair.a.stack.poll_esp_notice());
    let ended = notices.filter(|notice| notice.kind == EspNoticeKind::Expired);
    assert_eq!(ended.map(|notice| notice.id.destination).collect::<Vec<_>>(), [IP_A]);
}

#[test]
fn an_exhausted_key_sends_nothing_more() {
    let mut pair = Pair::protected(EspMode::Transport, |config| {
        config.cipher = Box::new(Toy { left: 1, ..Toy::new(1) });
    });
    let (a, b) = datagram_sockets(&mut pair);
    for _ in 0..3 {
        send_to_b(&mut pair, a, b"x").unwrap();
        pair.settle();
    }
    assert_eq!(pair.b.received(b).len(), 1);
    let notice = pair.a.stack.poll_esp_notice().map(|notice| notice.kind);
    assert_eq!(notice, Some(EspNoticeKind::KeyExhausted));
    assert!(pair.a.stack.poll_esp_notice().is_none(), "one is enough");
}

#[test]
fn the_mtu_that_a_router_reports_about_esp_shortens_segments() {
    let mut pair = Pair::protected(EspMode::Transport, |_| {});
    let (client, server, _) = pair.connected();
    let payload = [3; 30_000];
    pair.a.send(client, &payload);
    let lost = pair.a.sent();
    assert!(lost.iter().any(|frame| frame.len() > 1400));
    let report = |frame: &[u8], mtu: u16| {
        let mut message = std::vec![3, 4, 0, 0, 0, 0];
        message.extend_from_slice(&mtu.to_be_bytes());
        message.extend_from_slice(&frame[14..14 + 28]);
        let router = Ipv4Addr::new(10, 0, 0, 254);
        let mut frame = ip_frame_with(router, IP_A, 1, &[], &message);
        frame[0..6].copy_from_slice(&MAC_A.0);
        fix_ip(&mut frame);
        fix_transport(&mut frame);
        frame
    };
    // A number that was not sent is not believed.
    let mut forged = lost[0].clone();
    forged[14 + 20 + 4] ^= 0x80;
    pair.a.take(&report(&forged, 1000));
    assert_eq!(pair.a.counter("icmp.errors-stray"), 1);
    pair.a.take(&report(&lost[0], 1000));
    assert_eq!(pair.a.counter("icmp.errors-in"), 1);
    let mut got = Vec::new();
    for _ in 0..100 {
        pair.pass(Duration::from_millis(100));
        got.extend(pair.b.received(server));
    }
    assert_eq!(got.len(), payload.len());
    // 1000 - 20 - 8 - 8 - 16 = 948 less the trailer, the TCP header and timestamps.
    let info = pair.a.stack.tcp_info(pair.a.now, client).unwrap();
    assert_eq!(info.snd_mss, 948 - 2 - 32);
    assert_eq!(pair.a.counter("ip.fragments-out"), 0);
}

#[test]
fn a_tunnel_leads_to_its_end() {
    // The inner addresses are not on the link; the outer ones are.
    let inner = (Ipv4Addr::new(10, 50, 0, 1), Ipv4Addr::new(10, 60, 0, 2));
    let mut pair = Pair::new();
    for (host, address, network, via) in
        [(&mut pair.a, inner.0, inner.1, IP_B), (&mut pair.b, inner.1, inner.0, IP_A)]
    {
        host.stack.add_address(ID, Cidr::host(address)).unwrap();
        let to = Route { gateway: Some(via.into()), ..Route::on_link(Cidr::host(network), ID) };
        host.stack.add_route(Route { source: Some(address.into()), ..to }).unwrap();
    }
    let ends = (inner.0.into(), inner.1.into());
    pair.protect(EspMode::Tunnel, ends, (IP_A.into(), IP_B.into()), |config| {
        config.padded_to = 1000;
    });
    let a = pair.a.stack.open(SocketKind::Datagram, 1).unwrap();
    let b = pair.b.stack.open(SocketKind::Datagram, 2).unwrap();
    pair.b.stack.bind(b, at(inner.1, 7)).unwrap();
    let chunk = Chunk(Vec::from(b"through"));
    pair.a.stack.send(pair.a.now, a, chunk, Some(at(inner.1, 7))).ok().unwrap();
    let frames = settle_watched(&mut pair);
    let sealed = frames.iter().find(|frame| frame[12..14] == [8, 0]).unwrap();
    assert_eq!((sealed[23], &sealed[26..34]), (50, &[10, 0, 0, 1, 10, 0, 0, 2][..]));
    assert!(sealed.len() > 1034, "padding hides the length");
    assert_eq!(pair.b.received(b), b"through", "{}", pair.b.counted());
    // Without a policy nothing out of a tunnel is let in.
    pair.b.stack.clear_policies();
    let chunk = Chunk(Vec::from(b"through"));
    pair.a.stack.send(pair.a.now, a, chunk, Some(at(inner.1, 7))).ok().unwrap();
    pair.settle();
    assert!(pair.b.received(b).is_empty());
    assert_eq!(pair.b.counter("xfrm.in-no-pols"), 1);
}

#[test]
fn an_association_protects_only_its_own_flows() {
    let mut pair = Pair::protected(EspMode::Transport, |_| {});
    let (a, b) = datagram_sockets(&mut pair);
    let id = SaId { spi: SPI, destination: IP_B.into() };
    pair.b.stack.remove_association(&id).unwrap();
    let mut narrow = association(EspMode::Transport, IP_A, IP_B);
    let hosts = EspSelector::between(Cidr::host(IP_A), Cidr::host(IP_B));
    narrow.selector = Some(EspSelector { protocol: Some(6), ..hosts });
    pair.b.add_association(narrow);
    send_to_b(&mut pair, a, b"x").unwrap();
    pair.settle();
    assert!(pair.b.received(b).is_empty());
    assert_eq!(pair.b.counter("xfrm.in-state-mismatch"), 1);
}

#[test]
fn impossible_associations_are_refused() {
    let mut host = Host::b();
    let changes: [fn(&mut SaConfig); 7] = [
        |config| config.id.spi = 255,
        |config| config.source = Cidr::ANY_V6.address,
        |config| config.replay_window = 31,
        |config| config.replay_window = 4097,
        |config| (config.replay_window, config.extended) = (0, true),
        |config| {
            let shape = EspShape { block: 5, ..SHAPE };
            config.cipher = Box::new(Toy { shape, ..Toy::new(1) });
        },
        |config| config.selector = Some(EspSelector::between(Cidr::ANY_V4, Cidr::ANY_V6)),
    ];
    for change in changes {
        let mut config = association(EspMode::Transport, IP_A, IP_B);
        change(&mut config);
        assert_eq!(host.stack.add_association(host.now, config), Err(Error::Invalid));
    }
    host.add_association(association(EspMode::Transport, IP_A, IP_B));
    let again = association(EspMode::Transport, IP_A, IP_B);
    assert_eq!(host.stack.add_association(host.now, again), Err(Error::AddrInUse));
}

#[test]
fn packets_of_esp_that_cannot_be_are_counted() {
    let mut pair = Pair::protected(EspMode::Transport, |_| {});
    let mut esp = Vec::from(SPI.to_be_bytes());
    esp.extend_from_slice(&9_u32.to_be_bytes());
    for (len, name) in [(3, "xfrm.in-header-error"), (8, "xfrm.in-header-error")] {
        let before = pair.b.counter(name);
        pair.b.take(&ip_frame(50, &esp[..len]));
        assert_eq!(pair.b.counter(name), before + 1, "{len}");
    }
    esp[3] ^= 1;
    pair.b.take(&ip_frame(50, &esp));
    assert_eq!(pair.b.counter("xfrm.in-no-states"), 1);
    // A host without policies does not speak ESP.
    let mut b = Host::b_knowing_a();
    b.take(&ip_frame(50, &esp));
    assert_eq!(protocols(&b.sent()), [1]);
    assert_eq!(b.counter("ip.unknown-protocol"), 1);
}

#[test]
fn protected_and_plain_fragments_are_not_joined() {
    // B trusts what comes in the tunnel; half of a datagram comes beside it.
    let mut pair = Pair::protected(EspMode::Tunnel, |_| {});
    let (_, b) = datagram_sockets(&mut pair);
    let whole = udp_frame(7, 7, &[9; 64]);
    let fragment = |at: usize, more: bool| {
        let mut frame = Vec::from(&whole[..34]);
        let end = if more { 34 + at + 40 } else { whole.len() };
        frame.extend_from_slice(&whole[34 + at..end]);
        let total = (frame.len() - 14) as u16;
        frame[16..18].copy_from_slice(&total.to_be_bytes());
        frame[18..20].copy_from_slice(&[0, 77]);
        let field = (at / 8) as u16 | if more { 0x2000 } else { 0 };
        frame[20..22].copy_from_slice(&field.to_be_bytes());
        fix_ip(&mut frame);
        frame
    };
    // What A would send if it tunnelled fragments.
    let sealed = |pair: &mut Pair, frame: &[u8]| {
        let cx = pair.a.stack.context();
        let flow = crate::esp::EspFlow::of_own(&frame[14..]).unwrap();
        let crate::esp::Treatment::Protect(by) = cx.esp.treatment(pair.a.now, &flow) else {
            panic!("no policy");
        };
        let carrier = (64, 1, 1500);
        let sealed = cx.esp.seal(pair.a.now, by, &frame[14..], carrier, &mut cx.timers).unwrap();
        let mut frame = sealed.frame;
        ethernet::emit(EtherPayload::Ipv4, MAC_A, MAC_B, &mut frame);
        frame
    };
    let (first, last) = (fragment(0, true), fragment(40, false));
    let sealed_last = sealed(&mut pair, &last);
    pair.b.take(&first);
    pair.b.take(&sealed_last);
    assert!(pair.b.received(b).is_empty());
    let sealed_first = sealed(&mut pair, &first);
    pair.b.take(&sealed_first);
    assert_eq!(pair.b.received(b), [9; 64], "{}", pair.b.counted());
}
