use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, socketpair};

use super::*;
use crate::testing::Fake;

fn pair() -> (OwnedFd, OwnedFd) {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
}

fn next(reader: &OwnedFd) -> Option<(CaptureHeader, Vec<u8>)> {
    let mut packet = [0; 8192];
    match rustix::net::recv(reader, &mut packet, RecvFlags::empty()) {
        Ok((len, _)) => {
            let head = CaptureHeader::decode(&packet[..len]).unwrap();
            Some((head, packet[CaptureHeader::LEN..len].to_vec()))
        }
        Err(Errno::AGAIN) => None,
        Err(errno) => panic!("{errno}"),
    }
}

fn frame(of: u8, len: usize) -> Vec<u8> {
    vec![of; len]
}

#[test]
fn both_directions_are_shown_with_the_first_bytes() {
    let (fake, wire) = Fake::new();
    let mut device = CaptureDevice::new(fake);
    let (ours, reader) = pair();
    device.add_reader(ours, 100).unwrap();
    wire.borrow_mut().incoming.push_back(frame(1, 1500));
    let mut page = [0; 4096];
    assert_eq!(device.receive(&mut page).unwrap(), Some(Received::plain(1500)));
    assert_eq!(device.receive(&mut page).unwrap(), None);
    let (head, body) = (frame(2, 54), frame(3, 10));
    assert!(device.transmit(&[Part::local(&head), Part::local(&body)], TxOffload::NONE).unwrap());

    let (header, bytes) = next(&reader).unwrap();
    assert_eq!((header.len, header.sent, header.missed), (1500, false, 0));
    assert_eq!(bytes, frame(1, 100));
    let (header, bytes) = next(&reader).unwrap();
    assert_eq!((header.len, header.sent), (64, true));
    assert_eq!(bytes, [head, body].concat());
    assert!(header.at > 1_600_000_000_000_000_000, "nanoseconds since 1970");
    assert!(next(&reader).is_none());
}

#[test]
fn what_the_device_does_not_take_is_not_shown() {
    let (fake, wire) = Fake::new();
    let mut device = CaptureDevice::new(fake);
    let (ours, reader) = pair();
    device.add_reader(ours, u32::MAX).unwrap();
    wire.borrow_mut().room = 0;
    assert!(!device.transmit(&[Part::local(&frame(1, 60))], TxOffload::NONE).unwrap());
    assert!(next(&reader).is_none());
}

#[test]
fn a_slow_reader_learns_how_many_it_missed() {
    let (fake, _) = Fake::new();
    let mut device = CaptureDevice::new(fake);
    let (ours, reader) = pair();
    device.add_reader(ours, u32::MAX).unwrap();
    for _ in 0..10_000 {
        device.transmit(&[Part::local(&frame(1, 1500))], TxOffload::NONE).unwrap();
    }
    let mut got = 0;
    while let Some((header, _)) = next(&reader) {
        assert_eq!(header.missed, 0);
        got += 1;
    }
    device.transmit(&[Part::local(&frame(2, 60))], TxOffload::NONE).unwrap();
    let (header, _) = next(&reader).unwrap();
    assert_eq!(header.missed, 10_000 - got);
    assert!(got > 0 && header.missed > 0);
    device.counters(&mut |name, value| {
        assert_eq!((name, value), ("capture.missed", 10_000 - got));
    });
}

#[test]
fn a_capture_ends_with_its_reader_and_others_go_on() {
    let (fake, _) = Fake::new();
    let mut device = CaptureDevice::new(fake);
    let ((ours, reader), (other, other_reader)) = (pair(), pair());
    device.add_reader(ours, 64).unwrap();
    device.add_reader(other, 64).unwrap();
    drop(reader);
    device.transmit(&[Part::local(&frame(1, 60))], TxOffload::NONE).unwrap();
    assert_eq!(device.readers.len(), 1);
    assert!(next(&other_reader).is_some());
}

#[test]
fn there_are_only_so_many_readers() {
    let (fake, _) = Fake::new();
    let mut device = CaptureDevice::new(fake);
    let mut readers = Vec::new();
    for _ in 0..MOST_READERS {
        let (ours, reader) = pair();
        device.add_reader(ours, 64).unwrap();
        readers.push(reader);
    }
    assert_eq!(device.add_reader(pair().0, 64), Err(TooManyReaders));
    // One has ended, and no frame has come since.
    drop(readers.pop());
    device.add_reader(pair().0, 64).unwrap();
}
