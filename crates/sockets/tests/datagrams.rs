//! Datagram sockets over a fake server.

mod common;

use std::io::{IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use abi::ancillary::{AncillarySet, RecvAncillary, SendAncillary};
use abi::call::Op;
use abi::client::ClientParams;
use abi::data::DataFlags;
use common::{Fake, HANG, index_of, make_lost_wake_ups_hang, small};
use tasuki_sockets::{
    Errno, Family, RecvFlags, SendFlags, Socket, SocketKind, UdpSocket, Wait, poll,
};

fn addr(port: u16) -> SocketAddr {
    SocketAddr::from(([10, 219, 0, 1], port))
}

fn send(socket: &Socket, bytes: &[u8], to: Option<SocketAddr>) -> Result<usize, Errno> {
    socket.send(&[IoSlice::new(bytes)], SendFlags::default(), to, Wait::No)
}

#[test]
fn datagrams_keep_their_bounds_and_addresses() {
    let (fake, client) = Fake::with_client(small());
    let socket = UdpSocket::bind_via(&client, "0.0.0.0:53").unwrap();
    let index = index_of(socket.as_socket());
    assert_eq!(socket.send_to(b"one", addr(1)).unwrap(), 3);
    assert_eq!(socket.send_to(b"", addr(2)).unwrap(), 0);
    let bufs = &[IoSlice::new(b"th"), IoSlice::new(b""), IoSlice::new(b"ree")];
    let sent = socket.as_socket().send(bufs, SendFlags::default(), Some(addr(3)), Wait::No);
    assert_eq!(sent, Ok(5));
    fake.eventually("datagrams", |core| core.sock(index).datagrams.len() == 3);
    let expected: [(&[u8], _); 3] = [(b"one", addr(1)), (b"", addr(2)), (b"three", addr(3))];
    for (got, (bytes, to)) in fake.core().sock(index).datagrams.iter().zip(expected) {
        assert_eq!((got.0.as_slice(), got.1), (bytes, Some(to)));
    }

    for (n, bytes) in [b"first".as_slice(), b"", b"third, and longer"].iter().enumerate() {
        fake.core().deliver_datagram(index, bytes, addr(n as u16 + 1));
    }
    let mut buf = [0; 8];
    assert_eq!(socket.as_socket().readable_len(), 5);
    assert_eq!(socket.peek_from(&mut buf).unwrap(), (5, addr(1)));
    assert_eq!(socket.recv_from(&mut buf).unwrap(), (5, addr(1)));
    assert_eq!(&buf[..5], b"first");
    assert_eq!(socket.recv_from(&mut buf).unwrap(), (0, addr(2)));
    let bufs = &mut [IoSliceMut::new(&mut buf)];
    let third = socket.as_socket().recv(bufs, RecvFlags::default(), Wait::No).unwrap();
    assert_eq!((third.len, third.full_len, third.from), (8, 17, Some(addr(3))));
    assert_eq!(&buf, b"third, a");
    let nothing = socket.as_socket().recv(&mut [], RecvFlags::default(), Wait::No);
    assert_eq!(nothing, Err(Errno::AGAIN), "the rest of a cut datagram is lost");
}

#[test]
fn a_receive_that_waits_is_woken() {
    let (fake, client) = Fake::with_client(small());
    make_lost_wake_ups_hang(&client);
    let socket = UdpSocket::bind_via(&client, "0.0.0.0:53").unwrap();
    let index = index_of(socket.as_socket());
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| socket.recv_from(&mut [0; 9]));
        std::thread::sleep(Duration::from_millis(30));
        let start = Instant::now();
        fake.core().deliver_datagram(index, b"hello", addr(7));
        assert_eq!(reader.join().unwrap().unwrap(), (5, addr(7)));
        assert!(start.elapsed() < HANG);
    });
}

#[test]
fn errors_come_before_data_and_once() {
    let (fake, client) = Fake::with_client(small());
    let socket = client.socket(Family::V4, SocketKind::Datagram).unwrap();
    let index = index_of(&socket);
    assert_eq!(send(&socket, b"x", None), Err(Errno::DESTADDRREQ));
    let v6 = "[::1]:5".parse().unwrap();
    assert_eq!(send(&socket, b"x", Some(v6)), Err(Errno::AFNOSUPPORT));
    assert_eq!(socket.connect(v6, Wait::Forever), Err(Errno::AFNOSUPPORT));
    socket.connect(addr(9), Wait::Forever).unwrap();
    assert_eq!(send(&socket, b"x", None), Ok(1));
    let refused = Errno::CONNREFUSED.raw_os_error().unsigned_abs();
    let word = fake.core().sock(index).words.error.clone();
    fake.core().deliver_datagram(index, b"data", addr(9));
    for _ in 0..2 {
        word.store(refused, std::sync::atomic::Ordering::SeqCst);
        let events = socket.readiness().events;
        assert_eq!(events & (poll::ERR | poll::IN | poll::HUP), poll::ERR | poll::IN);
        let mut buf = [0; 9];
        let mut recv = || {
            let bufs = &mut [IoSliceMut::new(&mut buf)];
            socket.recv(bufs, RecvFlags { peek: true }, Wait::No).map(|received| received.len)
        };
        assert_eq!(recv(), Err(Errno::CONNREFUSED));
        assert_eq!(recv(), Ok(4));
        word.store(refused, std::sync::atomic::Ordering::SeqCst);
        assert_eq!(send(&socket, b"x", None), Err(Errno::CONNREFUSED));
        assert_eq!(send(&socket, b"x", None), Ok(1));
    }
}

#[test]
fn what_poll_calls_writable_takes_a_datagram_of_any_size() {
    let (fake, client) = Fake::with_client(small());
    fake.core().manner.releases = false;
    let socket = client.socket(Family::V4, SocketKind::Datagram).unwrap();
    let index = index_of(&socket);
    let mut sent = 0_u64;
    let mut rounds = 0;
    loop {
        let writable = socket.readiness().events & poll::OUT != 0;
        match send(&socket, &[1; 10_000], Some(addr(1))) {
            Ok(10_000) => sent += 10_000,
            Err(Errno::AGAIN) => {
                assert!(!writable);
                rounds += 1;
                if rounds == 20 {
                    break;
                }
                fake.eventually("taking", |core| core.sock(index).taken == sent);
                fake.core().release(index, 9_999);
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(sent > 64 * 1024);
}

#[test]
fn the_largest_datagram_has_room() {
    // In one area, in several, and in a pool that has no room for it.
    for (area_pages, sockets, tx_pages, fits) in
        [(32, 2, 96, true), (4, 8, 64, true), (4, 8, 40, false)]
    {
        let params = ClientParams { area_pages, sockets, tx_pages, rx_pages: 512, ..small() };
        let (fake, client) = Fake::with_client(params);
        let socket = client.socket(Family::V4, SocketKind::Datagram).unwrap();
        for n in 1..=3 {
            if !fits {
                assert_eq!(send(&socket, &[7; 65_507], Some(addr(1))), Err(Errno::MSGSIZE));
                assert_eq!(send(&socket, &[7; 16_384], Some(addr(1))), Ok(16_384));
                break;
            }
            let flags = SendFlags::default();
            let sent =
                socket.send(&[IoSlice::new(&[7; 65_507])], flags, Some(addr(1)), Wait::Forever);
            assert_eq!(sent, Ok(65_507));
            assert_eq!(send(&socket, &[7; 65_536], Some(addr(1))), Err(Errno::MSGSIZE));
            fake.eventually("it", |core| core.sock(0).datagrams.len() == n);
            assert_eq!(fake.core().sock(0).datagrams[n - 1].0.len(), 65_507);
        }
    }
}

#[test]
fn the_first_to_each_destination_waits_for_the_server() {
    let (fake, client) = Fake::with_client(small());
    let socket = client.socket(Family::V4, SocketKind::Datagram).unwrap();
    let flushes =
        |fake: &Fake| fake.core().calls.iter().filter(|op| matches!(op, Op::Flush)).count();
    fake.core().flush = Err(Errno::NETUNREACH);
    assert_eq!(send(&socket, b"x", Some(addr(1))), Err(Errno::NETUNREACH));
    fake.core().flush = Ok(abi::call::Reply::Done);
    for n in 0..3 {
        assert_eq!(send(&socket, &[1; 1500][..500 * n], Some(addr(1))), Ok(500 * n));
    }
    assert_eq!(flushes(&fake), 2);
    // Who has sent something is known.
    fake.core().deliver_datagram(index_of(&socket), b"hello", addr(2));
    let mut buf = [0; 9];
    let bufs = &mut [IoSliceMut::new(&mut buf)];
    let received = socket.recv(bufs, RecvFlags::default(), Wait::Forever);
    assert_eq!(received.map(|received| received.from), Ok(Some(addr(2))));
    assert_eq!(send(&socket, b"x", Some(addr(2))), Ok(1));
    assert_eq!(flushes(&fake), 2);
    // An option may change all of it.
    socket.set_int(0, 10, 2).unwrap();
    for (len, count) in [(9, 3), (8, 3), (10, 4), (10, 4)] {
        assert_eq!(send(&socket, &[1; 10][..len], Some(addr(1))), Ok(len));
        assert_eq!(flushes(&fake), count, "what may not be cut is known up to its length");
    }
}

#[test]
fn what_is_said_of_a_datagram_travels_with_it() {
    let (fake, client) = Fake::with_client(small());
    let socket = client.socket(Family::V4, SocketKind::Datagram).unwrap();
    let index = index_of(&socket);
    let said = SendAncillary { ttl: Some(7), interface: 2, ..SendAncillary::default() };
    let send = |said: &SendAncillary, wait| {
        let flags = SendFlags { more: true, ..SendFlags::default() };
        socket.send_message(&[IoSlice::new(b"x")], flags, Some(addr(1)), said, wait)
    };
    assert_eq!(send(&said, Wait::No), Ok(1));
    assert_eq!(send(&SendAncillary::default(), Wait::No), Ok(1));
    fake.eventually("both", |core| core.sock(index).datagrams.len() == 2);
    let got: Vec<_> = fake.core().sock(index).descriptors.iter().map(|d| d.flags).collect();
    assert_eq!(got, [DataFlags::MORE | DataFlags::ANCILLARY, DataFlags::MORE]);
    assert_eq!(fake.core().sock(index).said, [said]);
    let stream = client.socket(Family::V4, SocketKind::Stream).unwrap();
    let refused = stream.send_message(&[], SendFlags::default(), None, &said, Wait::No);
    assert_eq!(refused, Err(Errno::OPNOTSUPP));
    // And the other way.
    let how = RecvAncillary {
        asked: AncillarySet::TTL,
        to: addr(0).ip(),
        port: 9,
        ours: [10, 0, 0, 1].into(),
        interface: 1,
        ttl: 3,
        tos: 4,
        segment: 5,
        at: 6,
    };
    fake.core().deliver_with(index, b"hello", addr(2), &how);
    fake.core().deliver_datagram(index, b"next", addr(3));
    let mut buf = [0; 9];
    for (from, ancillary) in [(addr(2), Some(how)), (addr(3), None)] {
        for peek in [true, false] {
            let bufs = &mut [IoSliceMut::new(&mut buf)];
            let received = socket.recv(bufs, RecvFlags { peek }, Wait::Forever).unwrap();
            assert_eq!((received.from, received.ancillary), (Some(from), ancillary));
        }
    }
    let consumed =
        fake.core().sock(index).words.rx_consumed.load(std::sync::atomic::Ordering::SeqCst);
    assert_eq!(consumed, 2, "datagrams are counted, not slots");
}
