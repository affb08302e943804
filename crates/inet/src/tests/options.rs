//! Socket options and what they do.

use super::*;
use crate::tcp::CongestionKind;

fn option(host: &mut Host, socket: Handle, option: SockOption) {
    host.stack.set_option(host.now, socket, option).unwrap();
}

fn stream(host: &mut Host, tag: u64) -> Handle {
    host.stack.open(SocketKind::Stream, tag).unwrap()
}

#[test]
fn a_listener_port_is_shared_and_spread_by_reuse_port() {
    let mut pair = Pair::new();
    let any = at(Ipv4Addr::UNSPECIFIED, 80);
    let share = SockOption::ReusePort(true);
    let listeners = [10, 11].map(|tag| {
        let listener = stream(&mut pair.b, tag);
        pair.b.stack.set_option(pair.b.now, listener, share).unwrap();
        pair.b.stack.bind(listener, any).unwrap();
        pair.b.stack.listen(listener, 64).unwrap();
        listener
    });
    let stranger = stream(&mut pair.b, 12);
    assert_eq!(pair.b.stack.bind(stranger, any), Err(Error::AddrInUse));
    for tag in 0..40 {
        let client = stream(&mut pair.a, tag);
        pair.a.stack.connect(pair.a.now, client, at(IP_B, 80)).unwrap();
    }
    pair.settle();
    let mut count =
        |listener| core::iter::from_fn(|| pair.b.stack.accept(listener, 3).unwrap()).count();
    let counts = listeners.map(&mut count);
    assert_eq!(counts.iter().sum::<usize>(), 40);
    assert!(counts.iter().all(|count| *count > 5), "{counts:?}");
    // What one leaves behind goes to the other.
    pair.b.stack.close(pair.b.now, listeners[0]).unwrap();
    let client = stream(&mut pair.a, 99);
    pair.a.stack.connect(pair.a.now, client, at(IP_B, 80)).unwrap();
    pair.settle();
    assert!(pair.b.stack.accept(listeners[1], 3).unwrap().is_some());
}

#[test]
fn datagrams_are_spread_by_reuse_port() {
    let mut b = Host::b_knowing_a();
    let sockets = [1, 2].map(|tag| {
        let socket = b.stack.open(SocketKind::Datagram, tag).unwrap();
        b.stack.set_option(b.now, socket, SockOption::ReusePort(true)).unwrap();
        b.stack.bind(socket, at(IP_B, 53)).unwrap();
        socket
    });
    for port in 1000..1040 {
        b.take(&udp_frame(port, 53, &[1]));
        b.take(&udp_frame(port, 53, &[1]));
    }
    let counts = sockets.map(|socket| b.received(socket).len());
    assert_eq!(counts.iter().sum::<usize>(), 80);
    assert!(counts.iter().all(|count| *count > 10 && count % 2 == 0), "{counts:?}");
}

#[test]
fn the_share_of_a_socket_of_another_device_is_spread_as_well() {
    let mut b = Host::b_knowing_a();
    let devices = [Some(InterfaceId::LOOPBACK), None, None, Some(InterfaceId::LOOPBACK)];
    let sockets = devices.map(|device| {
        let socket = b.stack.open(SocketKind::Datagram, 1).unwrap();
        option(&mut b, socket, SockOption::ReusePort(true));
        option(&mut b, socket, SockOption::BindToDevice(device));
        b.stack.bind(socket, at(IP_B, 53)).unwrap();
        socket
    });
    let mut counts = [0; 4];
    for port in 1000..1400 {
        b.take(&udp_frame(port, 53, &[1]));
        for (count, socket) in counts.iter_mut().zip(sockets) {
            *count += b.received(socket).len();
        }
    }
    let [none, first, second, no_more] = counts;
    assert_eq!((none, first + second, no_more), (0, 400, 0));
    assert!(first.min(second) > 160, "{counts:?}");
}

#[test]
fn the_reader_hears_of_enough_bytes_or_of_the_end() {
    let mut pair = Pair::new();
    let (client, server, _) = pair.connected();
    let now = pair.b.now;
    pair.b.stack.set_option(now, server, SockOption::RecvLowat(10)).unwrap();
    pair.a.send(client, &[1; 6]);
    pair.settle();
    assert_eq!(pair.b.events_of(3), []);
    pair.a.send(client, &[2; 6]);
    pair.settle();
    assert_eq!(pair.b.events_of(3), [EventKind::Readable]);
    assert_eq!(pair.b.received(server).len(), 12);
    pair.a.send(client, &[3; 3]);
    pair.a.stack.shutdown(now, client, ShutdownHow::Write).unwrap();
    pair.settle();
    assert_eq!(pair.b.events_of(3), [EventKind::Readable]);
    assert_eq!(pair.b.received(server).len(), 3);
    pair.a.events();
}

#[test]
fn less_than_enough_is_told_of_when_less_is_enough() {
    let mut pair = Pair::new();
    let (client, server, _) = pair.connected();
    pair.b.stack.set_option(pair.b.now, server, SockOption::RecvLowat(10)).unwrap();
    pair.a.send(client, &[1; 6]);
    pair.settle();
    assert_eq!(pair.b.events_of(3), []);
    pair.b.stack.set_option(pair.b.now, server, SockOption::RecvLowat(5)).unwrap();
    assert_eq!(pair.b.events_of(3), [EventKind::Readable]);
}

#[test]
fn a_clamp_bounds_the_window() {
    let mut pair = Pair::new();
    let listener = stream(&mut pair.b, 2);
    pair.b.stack.set_option(pair.b.now, listener, SockOption::WindowClamp(4000)).unwrap();
    pair.b.stack.bind(listener, at(Ipv4Addr::UNSPECIFIED, 80)).unwrap();
    pair.b.stack.listen(listener, 5).unwrap();
    let client = stream(&mut pair.a, 1);
    pair.a.stack.connect(pair.a.now, client, at(IP_B, 80)).unwrap();
    pair.settle();
    let info = pair.a.stack.tcp_info(pair.a.now, client).unwrap();
    assert_eq!((info.state, info.snd_wnd), (1, 4000));
}

#[test]
fn syn_count_bounds_an_attempt() {
    let mut a = Host::b_knowing_a();
    let client = stream(&mut a, 1);
    assert_eq!(a.stack.set_option(a.now, client, SockOption::SynCount(0)), Err(Error::Invalid));
    a.stack.set_option(a.now, client, SockOption::SynCount(2)).unwrap();
    a.stack.connect(a.now, client, at(IP_A, 80)).unwrap();
    a.pass(Duration::from_secs(8));
    let is_ip = |frame: &&Vec<u8>| frame[12..14] == [8, 0];
    assert_eq!(a.sent().iter().filter(is_ip).count(), 3);
    assert_eq!(a.events_of(1), [EventKind::Failed(Error::TimedOut)]);
}

#[test]
fn linger2_bounds_fin_wait_2() {
    let mut pair = Pair::new();
    let (client, _, _) = pair.connected();
    let time = Duration::from_secs(3);
    pair.a.stack.set_option(pair.a.now, client, SockOption::Linger2(time)).unwrap();
    pair.a.stack.close(pair.a.now, client).unwrap();
    pair.settle();
    pair.a.events();
    assert_eq!(pair.a.states(), ["FIN-WAIT-2"]);
    pair.pass(time + Duration::from_millis(10));
    assert!(pair.a.states().is_empty());
}

#[test]
fn quick_ack_sends_what_waits() {
    let mut pair = Pair::new();
    let (client, server, _) = pair.connected();
    let now = pair.b.now;
    let quick = |pair: &mut Pair, on| {
        pair.b.stack.set_option(now, server, SockOption::QuickAck(on)).unwrap();
    };
    quick(&mut pair, false);
    let value = pair.b.stack.option(server, OptionName::QuickAck);
    assert_eq!(value, Ok(SockOption::QuickAck(false)));
    pair.a.send(client, &[1; 6]);
    let frames = pair.a.sent();
    frames.iter().for_each(|frame| pair.b.take(frame));
    assert!(pair.b.sent().is_empty());
    quick(&mut pair, true);
    assert_eq!(pair.b.sent().len(), 1);
}

#[test]
fn information_counts_bytes_segments_and_what_limits() {
    let mut pair = Pair::new();
    let (client, server, _) = pair.connected();
    let second = Duration::from_secs(1);
    pair.a.send(client, &[1; 3000]);
    pair.settle();
    pair.pass(second);
    let info = pair.a.stack.tcp_info(pair.a.now, client).unwrap();
    assert_eq!((info.bytes_sent, info.bytes_acked, info.data_segs_out), (3000, 3000, 3));
    assert_eq!((info.notsent_bytes, info.total_retrans, info.unacked), (0, 0, 0));
    assert_eq!((info.snd_mss, info.advmss, info.pmtu), (1448, 1460, 1500));
    assert!(info.last_data_sent >= 1000 && info.busy_time < 100_000, "{info:?}");
    let info = pair.b.stack.tcp_info(pair.b.now, server).unwrap();
    assert_eq!((info.bytes_received, info.data_segs_in, info.bytes_sent), (3000, 3, 0));
    // A reader that does not read: the window closes, and that is what limits from then on.
    pair.a.send(client, &[1; 600_000]);
    pair.pass(second * 10);
    let info = pair.a.stack.tcp_info(pair.a.now, client).unwrap();
    assert!(info.rwnd_limited > 9_000_000 && info.notsent_bytes > 300_000, "{info:?}");
    assert_eq!(pair.a.stack.unsent(client), info.notsent_bytes as usize);
    assert!(info.busy_time >= info.rwnd_limited, "{info:?}");
    assert_eq!(info.sndbuf_limited, 0);
}

#[test]
fn an_owner_that_bounds_unsent_bytes_hears_of_what_is_sent() {
    let mut pair = Pair::new();
    let (client, server, _) = pair.connected();
    let tells = |pair: &mut Pair| pair.a.events_of(1).contains(&EventKind::Acked);
    let bound = SockOption::NotSentLowat(10_000);
    pair.a.stack.set_option(pair.a.now, client, bound).unwrap();
    pair.settle();
    let _ = tells(&mut pair);
    // The peer's window closes, then opens.
    pair.a.send(client, &[1; 600_000]);
    pair.settle();
    assert!(tells(&mut pair));
    let unsent = pair.a.stack.unsent(client);
    assert!(unsent > 300_000, "{unsent}");
    pair.pass(Duration::from_millis(100));
    assert!(!tells(&mut pair), "nothing has left");
    let read = pair.b.received(server).len();
    assert!(read > 50_000, "{read}");
    // The window's update acknowledges nothing new.
    pair.b.poll();
    pair.b.sent().iter().for_each(|frame| pair.a.take(frame));
    let acked = pair.a.stack.acked(client);
    pair.a.poll();
    assert_eq!(pair.a.stack.acked(client), acked);
    assert!(tells(&mut pair));
    assert!(pair.a.stack.unsent(client) < unsent);
}

#[test]
fn the_congestion_control_algorithm_is_inherited_and_can_be_changed() {
    let mut pair = Pair::new();
    let listener = stream(&mut pair.b, 2);
    let now = pair.b.now;
    let get = |pair: &Pair, handle| pair.b.stack.option(handle, OptionName::Congestion);
    let cubic = Ok(SockOption::Congestion(CongestionKind::Cubic));
    let reno = SockOption::Congestion(CongestionKind::Reno);
    assert_eq!(get(&pair, listener), cubic);
    pair.b.stack.set_option(now, listener, reno).unwrap();
    pair.b.stack.bind(listener, at(Ipv4Addr::UNSPECIFIED, 80)).unwrap();
    pair.b.stack.listen(listener, 5).unwrap();
    let client = stream(&mut pair.a, 1);
    pair.a.stack.connect(pair.a.now, client, at(IP_B, 80)).unwrap();
    pair.settle();
    let server = pair.b.stack.accept(listener, 3).unwrap().unwrap().0;
    assert_eq!(get(&pair, server), Ok(reno));
    let back = SockOption::Congestion(CongestionKind::Cubic);
    pair.b.stack.set_option(now, server, back).unwrap();
    assert_eq!((get(&pair, server), get(&pair, listener)), (cubic, Ok(reno)));
}

/// A datagram of `source` to B's port 700, without a checksum.
fn udp_from(source: Ipv4Addr) -> Vec<u8> {
    ip_frame_with(source, IP_B, 17, &[], &[0, 9, 2, 188, 0, 9, 0, 0, b'x'])
}

#[test]
fn a_source_that_is_elsewhere_is_refused_if_asked() {
    for (rp_filter, answered) in [(0, true), (1, false), (2, false)] {
        let config = Config { rp_filter, ..Config::default() };
        let mut b = Host::new(IP_B, MAC_B, config);
        let socket = b.stack.open(SocketKind::Datagram, 4).unwrap();
        b.stack.bind(socket, at(IP_B, 700)).unwrap();
        // There is no way to 192.0.2.1; to A there is.
        let elsewhere = udp_from(Ipv4Addr::new(192, 0, 2, 1));
        b.take(&elsewhere);
        assert_eq!(b.stack.recv(socket).is_some(), answered, "{rp_filter}");
        assert_eq!(b.counter("ip.reverse-path"), u64::from(!answered));
        b.take(&udp_from(IP_A));
        assert!(b.stack.recv(socket).is_some());
    }
}

#[test]
fn strict_wants_the_very_interface() {
    for (rp_filter, taken) in [(1, false), (2, true)] {
        let mut b = Host::new(IP_B, MAC_B, Config { rp_filter, ..Config::default() });
        let other = b.stack.add_interface(InterfaceConfig { mac: [2, 0, 0, 0, 1, 2], mtu: 1500 });
        b.stack.add_address(other, Cidr::new(Ipv4Addr::new(10, 0, 9, 2), 24)).unwrap();
        let socket = b.stack.open(SocketKind::Datagram, 4).unwrap();
        b.stack.bind(socket, at(Ipv4Addr::UNSPECIFIED, 700)).unwrap();
        // A's neighbour by the other interface.
        b.take(&udp_from(Ipv4Addr::new(10, 0, 9, 1)));
        assert_eq!(b.stack.recv(socket).is_some(), taken, "{rp_filter}");
    }
}

#[test]
fn a_listener_of_another_interface_is_not_there() {
    let mut b = Host::b_knowing_a();
    let other = b.stack.add_interface(InterfaceConfig { mac: [2, 0, 0, 0, 1, 2], mtu: 1500 });
    b.stack.add_address(other, Cidr::new(Ipv4Addr::new(10, 0, 9, 2), 24)).unwrap();
    let listener = super::streams::listener(&mut b, 2, 80, 5);
    let mut pair = Pair { a: Host::new(IP_A, MAC_A, Config::default()), b };
    let attempt = |pair: &mut Pair| {
        let client = super::streams::stream(&mut pair.a, 1);
        pair.a.stack.connect(pair.a.now, client, at(IP_B, 80)).unwrap();
        pair.settle();
        pair.a.events_of(1)
    };
    let device = |pair: &mut Pair, id| {
        pair.b.stack.set_option(pair.b.now, listener, SockOption::BindToDevice(id)).unwrap();
    };
    device(&mut pair, Some(other));
    assert_eq!(attempt(&mut pair), [EventKind::Failed(Error::Refused)]);
    device(&mut pair, Some(InterfaceId(0)));
    assert_eq!(attempt(&mut pair), [EventKind::Connected]);
    // And a connect leaves by it, or not at all.
    let client = super::streams::stream(&mut pair.b, 3);
    let bound = SockOption::BindToDevice(Some(other));
    pair.b.stack.set_option(pair.b.now, client, bound).unwrap();
    let outcome = pair.b.stack.connect(pair.b.now, client, at(IP_A, 80));
    assert_eq!(outcome, Err(Error::NetUnreachable));
}

#[test]
fn of_sockets_at_one_port_that_of_the_device_receives() {
    let mut b = Host::b_knowing_a();
    let other = b.stack.add_interface(InterfaceConfig { mac: [2, 0, 0, 0, 1, 2], mtu: 1500 });
    let open = |b: &mut Host, tag, device| {
        let socket = b.stack.open(SocketKind::Datagram, tag).unwrap();
        option(b, socket, SockOption::ReuseAddr(true));
        option(b, socket, SockOption::BindToDevice(device));
        b.stack.bind(socket, at(Ipv4Addr::UNSPECIFIED, 700)).unwrap();
        socket
    };
    let own = open(&mut b, 1, Some(InterfaceId(0)));
    // Of sockets without a device the last one would receive.
    let every = open(&mut b, 2, None);
    let elsewhere = open(&mut b, 3, Some(other));
    let receiver = |b: &mut Host| {
        b.take(&udp_from(IP_A));
        [own, every, elsewhere].map(|socket| b.stack.recv(socket).is_some())
    };
    assert_eq!(receiver(&mut b), [true, false, false]);
    // The device may change, and go, while the socket is bound.
    option(&mut b, own, SockOption::BindToDevice(Some(other)));
    assert_eq!(receiver(&mut b), [false, true, false]);
    option(&mut b, every, SockOption::BindToDevice(Some(InterfaceId(0))));
    option(&mut b, own, SockOption::BindToDevice(None));
    assert_eq!(receiver(&mut b), [false, true, false]);
}

#[test]
fn sockets_on_different_devices_may_have_one_port() {
    for kind in [SocketKind::Datagram, SocketKind::Stream] {
        let mut b = Host::b_knowing_a();
        let other = b.stack.add_interface(InterfaceConfig { mac: [2, 0, 0, 0, 1, 2], mtu: 1500 });
        let bind = |b: &mut Host, device| {
            let socket = b.stack.open(kind, 1).unwrap();
            option(b, socket, SockOption::BindToDevice(device));
            let bound = b.stack.bind(socket, at(Ipv4Addr::UNSPECIFIED, 700));
            if kind == SocketKind::Stream && bound.is_ok() {
                b.stack.listen(socket, 1).unwrap();
            }
            bound
        };
        assert_eq!(bind(&mut b, Some(other)), Ok(()));
        assert_eq!(bind(&mut b, Some(InterfaceId(0))), Ok(()));
        assert_eq!(bind(&mut b, Some(other)), Err(Error::AddrInUse));
        assert_eq!(bind(&mut b, None), Err(Error::AddrInUse));
    }
}
