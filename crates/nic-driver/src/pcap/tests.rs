use std::io::{Read as _, Seek as _};
use std::path::Path;

use super::*;

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];

fn input(frames: &[(Duration, &[u8])]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&file_head()).unwrap();
    for (time, frame) in frames {
        let len = u32::try_from(frame.len()).unwrap();
        for word in [time.as_secs() as u32, time.subsec_nanos(), len, len] {
            file.write_all(&word.to_ne_bytes()).unwrap();
        }
        file.write_all(frame).unwrap();
    }
    file.rewind().unwrap();
    file
}

fn receive(device: &mut Pcap) -> Option<Vec<u8>> {
    let mut page = vec![0; 4096];
    let received = device.receive(&mut page).unwrap()?;
    page.truncate(received.len);
    Some(page)
}

const NOW: Pace = Pace { delay: Duration::ZERO, fast: true };

#[test]
fn frames_come_in_order_for_this_interface_and_then_none() {
    let (unicast, group) = ([4; 60], [5; 70]);
    let second = Duration::from_secs(1);
    let file = input(&[(9 * second, &unicast), (5 * second, &group), (7 * second, &unicast[..3])]);
    assert_eq!(check(&file).unwrap(), 3);
    let mut file = file;
    file.rewind().unwrap();
    let mut device = Pcap::new(file, None, MAC, NOW).unwrap();
    assert!(device.pending().receive);
    assert_eq!(receive(&mut device).unwrap(), [&MAC[..], &[4; 54]].concat());
    assert_eq!(receive(&mut device).unwrap(), group);
    assert_eq!(receive(&mut device).unwrap(), [4; 3], "a runt is the driver's to count");
    assert_eq!(receive(&mut device), None);
    assert!(!device.pending().receive && device.due.is_none());
    // What is sent goes nowhere, and that is no error.
    assert!(device.transmit(&[Part::local(&unicast)], TxOffload::NONE).unwrap());
}

#[test]
fn a_frame_waits_for_its_time() {
    let hour = Duration::from_secs(3600);
    let file = input(&[(hour, &[4; 60]), (2 * hour, &[4; 61])]);
    let pace = Pace { delay: Duration::ZERO, fast: false };
    let mut device = Pcap::new(file, None, MAC, pace).unwrap();
    assert_eq!(receive(&mut device).unwrap().len(), 60);
    assert_eq!(receive(&mut device), None);
    assert!(device.armed && !device.pending().receive);
    let left = device.due.unwrap() - device.begun;
    assert_eq!(left, hour);
    let pace = Pace { delay: hour, fast: true };
    let mut device = Pcap::new(input(&[(hour, &[4; 60])]), None, MAC, pace).unwrap();
    assert_eq!(receive(&mut device), None);
    assert_eq!(device.due.unwrap() - device.begun, hour);
}

#[test]
fn what_is_sent_can_be_replayed() {
    let mut output = tempfile::tempfile().unwrap();
    let mut device = Pcap::new(input(&[]), Some(output.try_clone().unwrap()), MAC, NOW).unwrap();
    for n in 0..3 {
        let head = [n; 14];
        let parts = [Part::local(&head), Part::local(b"payload")];
        assert!(device.transmit(&parts, TxOffload::NONE).unwrap());
    }
    device.flush().unwrap();
    output.rewind().unwrap();
    let mut bytes = Vec::new();
    output.read_to_end(&mut bytes).unwrap();
    let mut reader = PcapReader::new(&bytes[..]).unwrap();
    let mut frame = Vec::new();
    for n in 0..3 {
        let record = reader.next(&mut frame).unwrap().unwrap();
        assert!(!record.cut && record.time.unwrap().as_secs() > 1_000_000_000);
        assert_eq!(frame, [&[n; 14][..], b"payload"].concat());
    }
    assert_eq!(reader.next(&mut frame).unwrap(), None);
}

#[test]
fn a_file_that_breaks_off_loses_the_device() {
    let mut file = input(&[(Duration::ZERO, &[4; 60]), (Duration::ZERO, &[4; 60])]);
    let len = file.seek(io::SeekFrom::End(0)).unwrap();
    file.set_len(len - 1).unwrap();
    file.rewind().unwrap();
    assert!(matches!(check(&file), Err(PcapError::Cut { .. })));
    file.rewind().unwrap();
    let mut device = Pcap::new(file, None, MAC, NOW).unwrap();
    let error = device.receive(&mut [0; 4096]).unwrap_err();
    assert!(crate::device::is_lost(&error) && error.to_string().contains("cut off"), "{error}");
}

#[test]
fn targets() {
    let second = Duration::from_secs(1);
    for (text, output, fast, delay) in [
        ("/a", None, false, second),
        ("/a,/b", Some("/b"), false, second),
        ("/a,fast", None, true, second),
        ("/a,/b,fast,delay=0.5", Some("/b"), true, second / 2),
        ("/a,delay=0", None, false, Duration::ZERO),
    ] {
        let target: Target = text.parse().unwrap();
        assert_eq!(
            (target.input.to_str(), target.output.as_deref()),
            (Some("/a"), output.map(Path::new))
        );
        assert_eq!((target.pace, target.to_string()), (Pace { delay, fast }, text.to_owned()));
    }
    for text in ["", ",b", "a,", "a,b,c", "a,delay=x", "a,delay=-1", "a,delay=nan", "a,delay=1e7"] {
        assert!(text.parse::<Target>().is_err(), "{text}");
    }
}
