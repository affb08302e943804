//! Path MTU: what a router says of it is believed if it can be true.

use super::*;

/// "Fragmentation needed" about `frame`, which B has sent, with the MTU of the next link.
fn too_big(frame: &[u8], mtu: u16) -> Vec<u8> {
    let mut message = std::vec![3, 4, 0, 0, 0, 0];
    message.extend_from_slice(&mtu.to_be_bytes());
    message.extend_from_slice(&frame[14..14 + 28]);
    let mut answer = ip_frame(1, &message);
    fix_transport(&mut answer);
    answer
}

/// Two hosts with a connection on which B has sent 10 full segments, which are lost.
fn sending() -> (Pair, Handle, Vec<Vec<u8>>) {
    let mut pair = Pair::new();
    let (_, server, _) = pair.connected();
    pair.settle();
    pair.b.send(server, &[7; 14480]);
    let sent = pair.b.sent();
    assert_eq!(sent.len(), 10);
    assert!(sent.iter().all(|frame| frame.len() == 1514));
    (pair, server, sent)
}

#[test]
fn what_was_too_big_leaves_again_in_smaller_segments() {
    let (mut pair, server, sent) = sending();
    pair.b.take(&too_big(&sent[0], 1000));
    let info = pair.b.stack.tcp_info(pair.b.now, server).unwrap();
    assert_eq!((info.snd_mss, info.snd_cwnd), (948, 10), "no word about congestion");
    let again = pair.b.sent();
    assert!(!again.is_empty() && again.iter().all(|frame| frame.len() <= 1014));
    assert_eq!(segment_of(&again[0]).seq, segment_of(&sent[0]).seq);
    again.iter().for_each(|frame| pair.a.take(frame));
    pair.pass(Duration::from_secs(20));
    let client = pair.a.stack.sockets().find(|socket| socket.state == "ESTAB").unwrap();
    assert_eq!(client.recv_q, 14480);
    assert_eq!(pair.b.counter("icmp.errors-in"), 1);
    // The next connection knows.
    let client = pair.b.stack.open(SocketKind::Stream, 9).unwrap();
    pair.b.stack.connect(pair.b.now, client, at(IP_A, 7)).unwrap();
    let syn = pair.b.sent().iter().map(|frame| segment_of(frame)).find(|repr| repr.syn);
    assert_eq!(syn.unwrap().mss, Some(960));
    // Until it is forgotten.
    pair.b.now += Duration::from_secs(601);
    pair.b.take(&arp_frame(MAC_A, IP_A, IP_B, true));
    let client = pair.b.stack.open(SocketKind::Stream, 10).unwrap();
    pair.b.stack.connect(pair.b.now, client, at(IP_A, 8)).unwrap();
    let sent = pair.b.sent();
    let segments = sent.iter().filter(|frame| frame[12..14] == [8, 0] && frame[23] == 6);
    let mut syns = segments.map(|frame| segment_of(frame)).filter(|repr| repr.dst_port == 8);
    assert_eq!(syns.next().unwrap().mss, Some(1460));
}

#[test]
fn what_cannot_be_true_is_not_believed() {
    let (mut pair, server, sent) = sending();
    let mss = |pair: &Pair| pair.b.stack.tcp_info(pair.b.now, server).unwrap().snd_mss;
    // A number that is not on its way.
    let mut forged = sent[0].clone();
    forged[14 + 24] ^= 0x40;
    pair.b.take(&too_big(&forged, 1000));
    assert_eq!(mss(&pair), 1448);
    assert_eq!(pair.b.counter("icmp.errors-stray"), 1);
    // More than it is.
    pair.b.take(&too_big(&sent[0], 9000));
    assert_eq!(mss(&pair), 1448);
    // Less than can be.
    pair.b.take(&too_big(&sent[0], 68));
    assert_eq!(mss(&pair), 500);
}

#[test]
fn an_old_router_names_no_mtu() {
    let (mut pair, server, sent) = sending();
    pair.b.take(&too_big(&sent[0], 0));
    let info = pair.b.stack.tcp_info(pair.b.now, server).unwrap();
    assert_eq!(info.snd_mss, 1492 - 52);
}

/// B's datagram socket, connected to A, which has just sent a datagram of `len` bytes; its frames.
fn datagram(how: MtuDiscover, len: usize) -> (Host, Handle, Vec<Vec<u8>>) {
    let mut b = Host::b_knowing_a();
    let socket = b.stack.open(SocketKind::Datagram, 4).unwrap();
    b.stack.set_option(b.now, socket, SockOption::MtuDiscover(how)).unwrap();
    b.stack.bind(socket, at(IP_B, 700)).unwrap();
    b.stack.connect(b.now, socket, at(IP_A, 7)).unwrap();
    b.send(socket, &std::vec![1; len]);
    let frames = b.sent();
    (b, socket, frames)
}

#[test]
fn datagrams_learn_the_path() {
    // How, the error that the socket gets, the path's MTU afterwards, frames of the next datagram.
    let told = Some(EventKind::Failed(Error::MessageSize));
    let table = [
        (MtuDiscover::Want, told, 1000, 2),
        (MtuDiscover::Dont, None, 1000, 2),
        (MtuDiscover::Do, told, 1000, 0),
        (MtuDiscover::Probe, told, 1000, 1),
        (MtuDiscover::Interface, None, 1500, 1),
        (MtuDiscover::Omit, None, 1500, 1),
    ];
    for (how, event, mtu, frames) in table {
        let (mut b, socket, sent) = datagram(how, 1400);
        assert_eq!(sent.len(), 1);
        b.events();
        assert_eq!(b.stack.path_mtu(b.now, socket), Ok(1500));
        b.take(&too_big(&sent[0], 1000));
        assert_eq!(b.events_of(4).first().copied(), event, "{how:?}");
        assert_eq!(b.stack.path_mtu(b.now, socket), Ok(mtu), "{how:?}");
        let chunk = Chunk(std::vec![1; 1400]);
        let refused = b.stack.send(b.now, socket, chunk, None).err().map(|e| e.error);
        assert_eq!(refused, (frames == 0).then_some(Error::MessageSize), "{how:?}");
        let next = b.sent();
        assert_eq!(next.len(), frames, "{how:?}");
        let longest = if frames == 2 { 1014 } else { 1514 };
        assert!(next.iter().all(|frame| frame.len() <= longest), "{how:?}");
    }
}

#[test]
fn an_unconnected_socket_learns_and_is_not_told() {
    let mut b = Host::b_knowing_a();
    let socket = b.stack.open(SocketKind::Datagram, 4).unwrap();
    b.stack.bind(socket, at(IP_B, 700)).unwrap();
    let chunk = Chunk(std::vec![1; 1400]);
    b.stack.send(b.now, socket, chunk.clone(), Some(at(IP_A, 7))).unwrap();
    let sent = b.sent();
    b.events();
    b.take(&too_big(&sent[0], 1000));
    assert!(b.events_of(4).is_empty());
    assert_eq!(b.stack.path_mtu(b.now, socket), Err(Error::NotConnected));
    b.stack.send(b.now, socket, chunk.clone(), Some(at(IP_A, 7))).unwrap();
    assert_eq!(b.sent().len(), 2, "cut for the path");
    // A port that nobody has here has sent nothing.
    let mut forged = sent[0].clone();
    forged[14 + 20] ^= 0x40;
    b.take(&too_big(&forged, 600));
    b.stack.send(b.now, socket, chunk, Some(at(IP_A, 7))).unwrap();
    assert_eq!(b.sent().len(), 2);
    assert_eq!(b.counter("icmp.errors-stray"), 1);
}

#[test]
fn segments_may_be_cut_only_where_the_socket_says_so() {
    for (how, smaller) in
        [(MtuDiscover::Want, true), (MtuDiscover::Dont, false), (MtuDiscover::Interface, false)]
    {
        let mut pair = Pair::new();
        let (_, server, _) = pair.connected();
        pair.b.stack.set_option(pair.b.now, server, SockOption::MtuDiscover(how)).unwrap();
        pair.settle();
        pair.b.send(server, &[7; 14480]);
        let sent = pair.b.sent();
        let df = sent.iter().all(|frame| frame[14 + 6] & 0x40 != 0);
        assert_eq!(df, how == MtuDiscover::Want, "{how:?}");
        pair.b.take(&too_big(&sent[0], 1000));
        let info = pair.b.stack.tcp_info(pair.b.now, server).unwrap();
        assert_eq!(info.snd_mss < 1448, smaller, "{how:?}");
    }
}
