use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::section_header::SectionHeaderBlock;
use pcap_file::pcapng::blocks::simple_packet::SimplePacketBlock;
use pcap_file::{DataLink, Endianness, TsResolution};
use proptest::prelude::*;

use super::*;

type Frame = (Record, Vec<u8>);

fn all(bytes: &[u8]) -> Result<Vec<Frame>, PcapError> {
    let mut reader = PcapReader::new(bytes)?;
    let (mut frame, mut frames) = (Vec::new(), Vec::new());
    while let Some(record) = reader.next(&mut frame)? {
        frames.push((record, frame.clone()));
    }
    Ok(frames)
}

fn record(time: Duration) -> Record {
    Record { time: Some(time), sent: false, cut: false }
}

/// A file as another implementation writes it.
fn pcap(endianness: Endianness, ts_resolution: TsResolution, datalink: DataLink) -> Vec<u8> {
    let mut bytes = Vec::new();
    let header = PcapHeader { endianness, ts_resolution, datalink, ..Default::default() };
    let mut writer = PcapWriter::with_header(&mut bytes, header).unwrap();
    let time = Duration::new(1_700_000_000, 123_456_000);
    for (len, original) in [(60, 60), (0, 0), (100, 1514)] {
        let packet = PcapPacket::new(time, original, &[7; 100][..len]);
        writer.write_packet(&packet).unwrap();
    }
    bytes
}

fn pcapng(endianness: Endianness, resolution: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    let section = SectionHeaderBlock { endianness, ..Default::default() };
    let mut writer = PcapNgWriter::with_section_header(&mut bytes, section).unwrap();
    let options = vec![InterfaceDescriptionOption::IfTsResol(resolution)];
    let interface =
        InterfaceDescriptionBlock { linktype: DataLink::ETHERNET, snaplen: 90, options };
    writer.write_pcapng_block(interface).unwrap();
    for (data, flags) in [(&[1; 61][..], None), (&[2; 62], Some(1)), (&[3; 63], Some(2))] {
        let packet = EnhancedPacketBlock {
            interface_id: 0,
            timestamp: Duration::from_nanos(5_000_000_003),
            original_len: 63,
            data: data.into(),
            options: flags.map(EnhancedPacketOption::Flags).into_iter().collect(),
        };
        writer.write_pcapng_block(packet).unwrap();
    }
    let simple = SimplePacketBlock { original_len: 91, data: [4; 90][..].into() };
    writer.write_pcapng_block(simple).unwrap();
    bytes
}

#[test]
fn what_others_write_is_read() {
    let time = Duration::new(1_700_000_000, 123_456_000);
    for endianness in [Endianness::Big, Endianness::Little] {
        for resolution in [TsResolution::MicroSecond, TsResolution::NanoSecond] {
            let frames = all(&pcap(endianness, resolution, DataLink::ETHERNET)).unwrap();
            let cut = Record { cut: true, ..record(time) };
            let expected =
                [(record(time), vec![7; 60]), (record(time), vec![]), (cut, vec![7; 100])];
            assert_eq!(frames, expected);
        }
        // The writer stores nanoseconds as they are, whatever the resolution says.
        let nine = Duration::from_nanos(5_000_000_003);
        let two = Duration::from_nanos(5_000_000_003_000_000_000 >> 32);
        for (resolution, time) in [(9, nine), (0x80 | 32, two)] {
            let frames = all(&pcapng(endianness, resolution)).unwrap();
            let said: Vec<_> = frames.iter().map(|(r, f)| (r.sent, r.cut, f.len())).collect();
            let expected =
                [(false, true, 61), (false, true, 62), (true, false, 63), (false, true, 90)];
            assert_eq!(said, expected);
            let found = frames[0].0.time.unwrap();
            assert!(found.abs_diff(time) < Duration::from_nanos(10), "{found:?} {time:?}");
            assert_eq!(frames[3].0.time, None);
        }
    }
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    let good = pcap(Endianness::Little, TsResolution::MicroSecond, DataLink::ETHERNET);
    for len in 0..24 {
        assert!(matches!(all(&good[..len]), Err(PcapError::NotCapture)), "{len}");
    }
    assert!(matches!(all(&good[..30]), Err(PcapError::Cut { at: 30 })));
    assert!(matches!(all(&good[..50]), Err(PcapError::Cut { at: 50 })));
    assert!(matches!(all(b"not a capture file at all"), Err(PcapError::NotCapture)));
    let raw = pcap(Endianness::Little, TsResolution::MicroSecond, DataLink::RAW);
    assert!(matches!(all(&raw), Err(PcapError::Link { at: 20, link: 101 })));
    let mut long = good.clone();
    long[32..36].copy_from_slice(&(LONGEST + 1).to_le_bytes());
    assert!(matches!(all(&long), Err(PcapError::Broken { at: 24, .. })));

    let good = pcapng(Endianness::Little, 9);
    let section = u32::from_le_bytes(good[4..8].try_into().unwrap()) as usize;
    let spoilt = |at: usize, value: u32| {
        let mut bad = good.clone();
        bad[at..at + 4].copy_from_slice(&value.to_le_bytes());
        all(&bad).unwrap_err().to_string()
    };
    // The interface block follows the section's, the first packet's block that.
    let interface = u32::from_le_bytes(good[section + 4..section + 8].try_into().unwrap());
    let packet = section + interface as usize;
    for (at, value, said) in [
        (section + 4, 11, format!("byte {section} is broken: no block has such a length")),
        (section + 4, u32::MAX, format!("byte {section} is broken: no block has such a length")),
        (section + 4, interface + 4, format!("byte {section} is broken: its two lengths differ")),
        (section + 8, 101, format!("byte {section} are not Ethernet's but of link type 101")),
        (packet + 8, 7, format!("byte {packet} is broken: its interface was not described")),
        (packet + 20, 999, format!("byte {packet} is broken: its frame is too long")),
        (8, 0, "byte 0 is broken: it lacks the byte-order magic".to_owned()),
    ] {
        assert!(spoilt(at, value).contains(&said), "{at}: {}", spoilt(at, value));
    }
}

proptest! {
    /// Whatever a file says, it is read or refused.
    #[test]
    fn spoilt_files_are_read_or_refused(
        which in 0..3_u8,
        spoils in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..20),
        keep in any::<prop::sample::Index>(),
    ) {
        let mut bytes = match which {
            0 => pcap(Endianness::Big, TsResolution::NanoSecond, DataLink::ETHERNET),
            1 => pcapng(Endianness::Big, 9),
            _ => pcapng(Endianness::Little, 0x80 | 63),
        };
        for (at, value) in spoils {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        bytes.truncate(keep.index(bytes.len() + 1));
        if let Ok(frames) = all(&bytes) {
            prop_assert!(frames.iter().map(|(_, frame)| frame.len()).sum::<usize>() <= bytes.len());
        }
    }
}
