//! Datagram sockets over a fake server.

mod common;

use std::io::{IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use abi::client::ClientParams;
use abi::data::DataDescriptor;
use common::{Fake, SOON, index_of, small};
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
        fake.core().deliver_datagram(index, bytes, 0, addr(n as u16 + 1));
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

    fake.core().deliver_datagram(index, b"kept", DataDescriptor::TRUNCATED, addr(9));
    let bufs = &mut [IoSliceMut::new(&mut buf)];
    let cut = socket.as_socket().recv(bufs, RecvFlags::default(), Wait::No).unwrap();
    assert_eq!((cut.len, cut.full_len), (4, 5), "cut by the server");
}

#[test]
fn a_receive_that_waits_is_woken() {
    let (fake, client) = Fake::with_client(small());
    let socket = UdpSocket::bind_via(&client, "0.0.0.0:53").unwrap();
    let index = index_of(socket.as_socket());
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| socket.recv_from(&mut [0; 9]));
        std::thread::sleep(Duration::from_millis(30));
        let start = Instant::now();
        fake.core().deliver_datagram(index, b"hello", 0, addr(7));
        assert_eq!(reader.join().unwrap().unwrap(), (5, addr(7)));
        assert!(start.elapsed() < SOON);
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
    fake.core().deliver_datagram(index, b"data", 0, addr(9));
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
    assert_eq!(send(&socket, &[0; 16_385], Some(addr(1))), Err(Errno::MSGSIZE), "above an area");
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
fn large_areas_take_the_largest_datagram() {
    let params =
        ClientParams { area_pages: 32, sockets: 2, tx_pages: 96, rx_pages: 256, ..small() };
    let (fake, client) = Fake::with_client(params);
    let socket = client.socket(Family::V4, SocketKind::Datagram).unwrap();
    assert_eq!(send(&socket, &[7; 65_507], Some(addr(1))), Ok(65_507));
    assert_eq!(send(&socket, &[7; 65_508], Some(addr(1))), Err(Errno::MSGSIZE));
    fake.eventually("it", |core| core.sock(0).datagrams.len() == 1);
    assert_eq!(fake.core().sock(0).datagrams[0].0.len(), 65_507);
}
