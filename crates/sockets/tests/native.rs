//! Slices over a fake server: the bytes named, the end of a slice, and the owner of the memory
//! then.

mod common;

use std::io::{IoSlice, IoSliceMut, Write};
use std::net::SocketAddr;
use std::slice::from_ref;
use std::sync::atomic::Ordering;
use std::time::Instant;

use abi::client::ClientParams;
use abi::data::DataFlags;
use common::{Fake, HANG, connected, index_of, pattern, small};
use tasuki_sockets::{
    Client, Errno, Family, MOST_AREA, MOST_SLICES, RecvFlags, SendFlags, Socket, SocketKind,
    TxSlice, Wait, poll,
};

fn slice(client: &Client, bytes: &[u8]) -> TxSlice {
    let mut area = client.alloc(bytes.len()).unwrap();
    area.copy_from_slice(bytes);
    area.freeze()
}

fn send(socket: &Socket, slices: &[TxSlice], wait: Wait) -> Result<std::ops::Range<u64>, Errno> {
    socket.send_slices(slices, SendFlags::default(), None, wait)
}

fn soon() -> Wait {
    Wait::Until(Instant::now() + HANG)
}

/// Room for the longest areas.
fn large() -> ClientParams {
    ClientParams { tx_pages: 4096, ..small() }
}

#[test]
fn a_slice_is_named_and_not_copied() {
    let (fake, client) = Fake::with_client(large());
    let (socket, index) = connected(&client);
    let data = pattern(0, MOST_AREA);
    let all = slice(&client, &data);
    assert_eq!(send(&socket, &[all.slice(1..MOST_AREA).unwrap()], soon()), Ok(0..1));
    fake.eventually("all of it", |core| core.sock(index).got.len() == MOST_AREA - 1);
    let core = &mut fake.core();
    assert!(core.sock(index).got == data[1..]);
    assert_eq!(core.sock(index).descriptors.len(), 1);
    assert_eq!(core.head.copied_tx.load(Ordering::Relaxed), 0);
}

#[test]
fn slices_of_one_send_are_one_piece_of_the_stream() {
    let (fake, client) = Fake::with_client(small());
    fake.core().manner.takes = false;
    let (socket, index) = connected(&client);
    let head = slice(&client, b"head ");
    let body = slice(&client, b"-body-");
    let parts = [head.clone(), body.slice(1..5).unwrap(), head];
    let eor = SendFlags { eor: true, ..SendFlags::default() };
    assert_eq!(socket.send_slices(&parts, eor, None, Wait::No), Ok(0..3));
    let core = &mut fake.core();
    core.take(index, usize::MAX);
    assert_eq!(core.sock(index).got, b"head bodyhead ");
    let flags: Vec<DataFlags> = core.sock(index).descriptors.iter().map(|d| d.flags).collect();
    let (more, record) = (DataFlags::MORE, DataFlags::RECORD);
    assert_eq!(flags, [more, more, record]);
}

#[test]
fn an_area_comes_back_when_the_last_reader_is_done() {
    let (fake, client) = Fake::with_client(small());
    (fake.core().manner.takes, fake.core().manner.releases) = (false, false);
    let free = client.free_tx_pages();
    let (socket, index) = connected(&client);
    let first = slice(&client, &[1; 1000]);
    let second = slice(&client, &[2; 1000]);
    assert_eq!(send(&socket, from_ref(&first), Wait::No), Ok(0..1));
    assert_eq!(socket.send(&[IoSlice::new(b"x")], SendFlags::default(), None, Wait::No), Ok(1));
    assert_eq!(send(&socket, &[second], Wait::No), Ok(1..2));
    assert_eq!(socket.slices_done(), Ok(0));
    let first = first.reclaim().unwrap_err();
    assert_eq!(socket.wait_slice(0, Wait::No), Err(Errno::AGAIN));
    assert_eq!(socket.wait_slice(2, Wait::No), Err(Errno::INVAL));
    let release = |bytes| {
        let core = &mut fake.core();
        core.take(index, usize::MAX);
        core.release(index, bytes);
    };
    release(999);
    assert_eq!(socket.slices_done(), Ok(0));
    release(1);
    assert_eq!(socket.wait_slice(0, Wait::No), Ok(()));
    assert_eq!(socket.slices_done(), Ok(1));
    let mut area = first.reclaim().unwrap();
    assert_eq!(area.len(), 1000);
    area[999] = 7;
    drop(area);
    assert_eq!(socket.wait_slice(1, Wait::No), Err(Errno::AGAIN));
    let awaited = |core: &mut common::server::Core| {
        core.sock(index).words.waiters.position.load(Ordering::SeqCst)
    };
    assert_eq!(awaited(&mut fake.core()), 2001, "the server rings for it");
    std::thread::scope(|scope| {
        scope.spawn(|| release(1001));
        assert_eq!(socket.wait_slice(1, soon()), Ok(()));
    });
    assert_eq!(socket.slices_done(), Ok(2));
    drop(socket);
    assert_eq!(client.free_tx_pages(), free, "every page is back");
    assert_eq!(fake.core().pages_held(), 0);
}

#[test]
fn a_closed_sockets_slices_come_back_when_its_place_is_free() {
    let (fake, client) = Fake::with_client(small());
    fake.core().manner.releases = false;
    let free = client.free_tx_pages();
    let (socket, index) = connected(&client);
    let kept = slice(&client, b"hello");
    send(&socket, from_ref(&kept), Wait::No).unwrap();
    fake.core().take(index, usize::MAX);
    let kept = kept.reclaim().unwrap_err();
    socket.close();
    assert_eq!(socket.slices_done(), Err(Errno::BADF));
    assert_eq!(send(&socket, from_ref(&kept), Wait::No), Err(Errno::BADF));
    drop(kept.reclaim().unwrap());
    assert_eq!(client.free_tx_pages(), free);
}

#[test]
fn only_what_can_be_sent_is_taken() {
    let (fake, client) = Fake::with_client(small());
    fake.core().manner.releases = false;
    let (other_fake, other) = Fake::with_client(small());
    let (socket, index) = connected(&client);
    let some = slice(&client, &[0; 10]);
    let empty = some.slice(5..5).unwrap();
    let many = vec![some.clone(); MOST_SLICES + 1];
    let of_other = slice(&other, &[0; 10]);
    for bad in [&[][..], &[empty], &many, &[some.clone(), of_other]] {
        assert_eq!(send(&socket, bad, Wait::No), Err(Errno::INVAL));
    }
    assert!(some.slice(5..11).is_none() && some.slice(..=10).is_none());
    for bytes in [0, MOST_AREA + 1, usize::MAX] {
        assert_eq!(client.alloc(bytes).unwrap_err(), Errno::INVAL);
    }
    // SO_SNDBUF (64 KiB there) is looked at before, not cut to.
    let long = slice(&client, &[3; 100_000]);
    assert_eq!(send(&socket, &[long], Wait::No), Ok(0..1));
    assert_eq!(send(&socket, from_ref(&some), Wait::No), Err(Errno::AGAIN));
    fake.eventually("taken", |core| core.sock(index).taken == 100_000);
    fake.core().release(index, u64::MAX);
    assert_eq!(send(&socket, &[some], soon()), Ok(1..2));
    drop(other_fake);
}

#[test]
fn areas_leave_what_sockets_were_promised() {
    let (_fake, client) = Fake::with_client(small());
    let (socket, _) = connected(&client);
    let mut areas = Vec::new();
    while let Ok(area) = client.alloc(16 * 1024) {
        areas.push(area);
    }
    assert_eq!(client.alloc(1).unwrap_err(), Errno::NOBUFS);
    // 8 sockets of 16 KiB each stay sure of theirs.
    assert_eq!(areas.len(), 64 / 4 - 8);
    assert_eq!(socket.send(&[IoSlice::new(b"x")], SendFlags::default(), None, Wait::No), Ok(1));
    let taken = send(&socket, &[areas.pop().unwrap().freeze()], soon());
    assert_eq!(taken, Ok(0..1));
}

#[test]
fn a_datagram_of_slices_is_one() {
    let (fake, client) = Fake::with_client(small());
    let socket = client.socket(Family::V4, SocketKind::Datagram).unwrap();
    let index = index_of(&socket);
    let to: SocketAddr = "10.219.0.1:9".parse().unwrap();
    let (head, body) = (slice(&client, b"head"), slice(&client, b"body"));
    let send =
        |slices: &[TxSlice]| socket.send_slices(slices, SendFlags::default(), Some(to), soon());
    assert_eq!(send(&[head.clone(), body]), Ok(0..2));
    let empty = head.slice(..0).unwrap();
    assert_eq!(send(&[empty]), Ok(2..3));
    assert_eq!(send(&vec![head; 6]), Err(Errno::MSGSIZE));
    fake.eventually("all parts", |core| core.sock(index).datagrams.len() == 3);
    let core = &mut fake.core();
    let parts: Vec<_> = core.sock(index).datagrams.iter().map(|(bytes, _)| &bytes[..]).collect();
    assert_eq!(parts, [&b"head"[..], b"body", b""]);
    let flags: Vec<DataFlags> = core.sock(index).descriptors.iter().map(|d| d.flags).collect();
    assert_eq!(flags, [DataFlags::MORE, DataFlags::NONE, DataFlags::NONE]);
}

#[test]
fn a_file_goes_by_areas_or_where_there_are_none_by_a_copy() {
    let (fake, client) = Fake::with_client(ClientParams { tx_pages: 256, ..small() });
    let (socket, index) = connected(&client);
    let data = pattern(0, 700_000);
    let mut file = tempfile();
    file.write_all(&data).unwrap();
    assert_eq!(socket.send_file(&file, 1, usize::MAX, soon()), Ok(699_999));
    assert_eq!(socket.send_file(&file, 700_000, 10, soon()), Ok(0), "the end");
    fake.eventually("all of it", |core| core.sock(index).released == 699_999);
    assert_eq!(socket.send_file(&file, 0, 10, Wait::No), Ok(10));
    fake.eventually("the rest", |core| core.sock(index).released == 700_009);
    // Looking for room takes back what was released.
    assert!(socket.readiness().events & poll::OUT != 0);
    {
        let core = &mut fake.core();
        assert!(core.sock(index).got[..699_999] == data[1..]);
        assert_eq!(core.head.copied_tx.load(Ordering::Relaxed), 0);
        core.sock(index).got.clear();
    }
    let mut areas = Vec::new();
    while let Ok(area) = client.alloc(4096) {
        areas.push(area);
    }
    assert_eq!(socket.send_file(&file, 0, 100_000, soon()), Ok(100_000));
    fake.eventually("all of it", |core| core.sock(index).got.len() == 100_000);
    assert!(fake.core().sock(index).got == data[..100_000]);
    assert_eq!(fake.core().head.copied_tx.load(Ordering::Relaxed), 100_000);
    let none = std::fs::File::open("/").unwrap();
    assert_eq!(socket.send_file(&none, 0, 10, soon()), Err(Errno::ISDIR));
}

/// A file without a name.
fn tempfile() -> std::fs::File {
    let path = std::env::temp_dir().join(format!("tasuki-native-{}", std::process::id()));
    let open = &mut std::fs::File::options();
    let file = open.read(true).write(true).create_new(true).open(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    file
}

/// The program's count of consumed bytes of a socket.
fn consumed(fake: &Fake, index: u16) -> u64 {
    fake.core().sock(index).words.rx_consumed.load(Ordering::SeqCst)
}

fn recv(socket: &Socket, most: usize) -> Vec<u8> {
    let mut bytes = vec![0; most];
    let bufs = &mut [IoSliceMut::new(&mut bytes)];
    let len = socket.recv(bufs, RecvFlags::default(), Wait::No).unwrap().len;
    bytes.truncate(len);
    bytes
}

#[test]
fn what_is_read_in_place_stays_until_it_is_given_back() {
    let (fake, client) = Fake::with_client(small());
    let (socket, index) = connected(&client);
    assert_eq!(socket.recv_area(Wait::No).unwrap_err(), Errno::AGAIN);
    for part in [&b"first"[..], b"second", b"third", b"fourth"] {
        assert_eq!(fake.core().deliver(index, part), part.len());
    }
    let first = socket.recv_area(soon()).unwrap();
    let second = socket.recv_area(soon()).unwrap();
    assert_eq!((&first[..], &second[..], first.from()), (&b"first"[..], &b"second"[..], None));
    // A copying receive in between, of a part of a descriptor.
    assert_eq!(recv(&socket, 3), b"thi");
    assert_eq!(socket.readable_len(), 8);
    let rest = socket.recv_area(soon()).unwrap();
    assert_eq!(&rest[..], b"rd");
    assert_eq!(consumed(&fake, index), 0);
    drop(second);
    assert_eq!((consumed(&fake, index), &first[..]), (0, &b"first"[..]), "the first is still held");
    drop(first);
    assert_eq!(consumed(&fake, index), 14, "up to the next that is held");
    drop(rest);
    assert_eq!(consumed(&fake, index), 16);
    assert_eq!(recv(&socket, 10), b"fourth");
    assert_eq!(consumed(&fake, index), 22);
    assert_eq!(fake.core().head.copied_rx.load(Ordering::Relaxed), 9, "of the receives that copy");
    let wait = socket.recv_area(Wait::No).unwrap_err();
    assert_eq!((wait, socket.readable_len()), (Errno::AGAIN, 0));
    fake.core().set_flags(index, abi::SocketFlags::READ_CLOSED | common::server::CONNECTED);
    assert!(socket.recv_area(soon()).unwrap().is_empty());
}

#[test]
fn a_socket_is_closed_with_the_last_of_what_is_read_in_place() {
    let (fake, client) = Fake::with_client(small());
    let (socket, index) = connected(&client);
    fake.core().deliver(index, b"one");
    fake.core().deliver(index, b"two");
    let (one, two) = (socket.recv_area(soon()).unwrap(), socket.recv_area(soon()).unwrap());
    socket.close();
    assert_eq!(socket.recv_area(Wait::No).unwrap_err(), Errno::BADF);
    drop((socket, one));
    assert!(!fake.core().calls.contains(&abi::call::Op::Close));
    assert_eq!(&two[..], b"two");
    drop(two);
    assert!(fake.core().calls.contains(&abi::call::Op::Close));
}

#[test]
fn a_datagram_is_read_in_place() {
    let (fake, client) = Fake::with_client(small());
    let socket = client.socket(Family::V4, SocketKind::Datagram).unwrap();
    let (index, from) = (index_of(&socket), "10.219.0.1:9".parse().unwrap());
    for bytes in [&b"hello"[..], b"", b"again"] {
        fake.core().deliver_datagram(index, bytes, from);
    }
    let areas: Vec<_> = (0..3).map(|_| socket.recv_area(soon()).unwrap()).collect();
    let got: Vec<_> = areas.iter().map(|area| (&area[..], area.from())).collect();
    assert_eq!(got, [(&b"hello"[..], Some(from)), (b"", Some(from)), (b"again", Some(from))]);
    assert_eq!(consumed(&fake, index), 0);
    drop(areas);
    assert_eq!(consumed(&fake, index), 3);
}
