use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;

use proptest::prelude::*;

use super::*;
use crate::device::is_lost;

fn pair() -> (Passt, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    (Passt::new(ours.into()).unwrap(), theirs)
}

fn framed(frame: &[u8]) -> Vec<u8> {
    [&u32::try_from(frame.len()).unwrap().to_be_bytes(), frame].concat()
}

fn receive(device: &mut Passt) -> Option<Vec<u8>> {
    let mut into = vec![0; MAX_SUPER_FRAME];
    let received = device.receive(&mut into).unwrap()?;
    into.truncate(received.len);
    Some(into)
}

#[test]
fn one_read_brings_many_frames_and_none_is_forgotten() {
    let (mut device, mut peer) = pair();
    assert_eq!(receive(&mut device), None);
    let frames: Vec<Vec<u8>> = (0..50_u8).map(|n| vec![n; 60 + usize::from(n)]).collect();
    peer.write_all(&frames.iter().flat_map(|frame| framed(frame)).collect::<Vec<_>>()).unwrap();
    assert!(!device.pending().receive, "nothing was read yet: the descriptor tells");
    for (at, frame) in frames.iter().enumerate() {
        assert_eq!(receive(&mut device).as_ref(), Some(frame));
        assert_eq!(device.pending().receive, at + 1 < frames.len());
    }
    assert_eq!((receive(&mut device), device.reads), (None, 1));
}

#[test]
fn a_frame_longer_than_its_page_is_cut_and_the_next_is_found() {
    let (mut device, mut peer) = pair();
    peer.write_all(&[framed(&[1; 5000]), framed(&[2; 60])].concat()).unwrap();
    let mut page = [0; 4096];
    assert_eq!(device.receive(&mut page).unwrap(), Some(Received::plain(5000)));
    assert_eq!(device.receive(&mut page).unwrap(), Some(Received::plain(60)));
    assert_eq!(page[..60], [2; 60]);
}

#[test]
fn a_stream_that_stops_keeps_what_was_taken_and_goes_on() {
    let (mut device, mut peer) = pair();
    let frame = vec![7; 1514];
    let mut sent = 0;
    while device.transmit(&[Part::local(&frame)], TxOffload::NONE).unwrap() {
        device.flush().unwrap();
        sent += 1;
    }
    assert!(device.pending().transmit && sent > TX_BUFFER / 1518);
    peer.set_nonblocking(true).unwrap();
    let mut got = Vec::new();
    while got.len() < sent * (HEADER + frame.len()) {
        let mut some = [0; 10_007];
        match peer.read(&mut some) {
            Ok(count) => got.extend_from_slice(&some[..count]),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        device.flush().unwrap();
    }
    assert!(got == framed(&frame).repeat(sent) && !device.pending().transmit);
    assert!(device.transmit(&[Part::local(&frame)], TxOffload::NONE).unwrap());
}

#[test]
fn a_batch_is_one_write() {
    let (mut device, mut peer) = pair();
    for n in 0..10 {
        let head = [n; 14];
        let parts = [Part::local(&head), Part::local(b"payload")];
        assert!(device.transmit(&parts, TxOffload::NONE).unwrap());
    }
    assert_eq!(device.writes, 0);
    device.flush().unwrap();
    assert_eq!(device.writes, 1);
    let mut got = [0; 10 * 25];
    peer.read_exact(&mut got).unwrap();
    assert_eq!(got[..25], [&[0, 0, 0, 21][..], &[0; 14], b"payload"].concat());
}

#[test]
fn an_impossible_length_and_the_end_lose_the_device() {
    for (bytes, kind) in [
        (u32::MAX.to_be_bytes(), ErrorKind::InvalidData),
        ((MAX_SUPER_FRAME as u32 + 1).to_be_bytes(), ErrorKind::InvalidData),
        // A part of a frame, then nothing more.
        (100_u32.to_be_bytes(), ErrorKind::UnexpectedEof),
    ] {
        let (mut device, mut peer) = pair();
        peer.write_all(&bytes).unwrap();
        drop(peer);
        let error = device.receive(&mut [0; 4096]).unwrap_err();
        assert_eq!(error.kind(), kind);
        assert!(is_lost(&error), "{error}");
        let _ = device.transmit(&[Part::local(&[0; 60])], TxOffload::NONE).unwrap();
        assert!(is_lost(&device.flush().unwrap_err()));
    }
}

proptest! {
    /// Whatever the stream is cut into, the frames are the same.
    #[test]
    fn cuts_do_not_matter(
        lens in proptest::collection::vec(0..70_usize, 1..20),
        cuts in proptest::collection::vec(1..50_usize, 1..20),
    ) {
        let (mut device, mut peer) = pair();
        let frames: Vec<Vec<u8>> = (0_u8..).zip(&lens).map(|(n, len)| vec![n; *len]).collect();
        let stream: Vec<u8> = frames.iter().flat_map(|frame| framed(frame)).collect();
        let (mut rest, mut got) = (&stream[..], Vec::new());
        for cut in cuts.iter().cycle() {
            let (now, later) = rest.split_at((*cut).min(rest.len()));
            peer.write_all(now).unwrap();
            got.extend(std::iter::from_fn(|| receive(&mut device)));
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(got, frames);
    }
}
