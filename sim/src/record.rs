//! The frames at both ends as a pcapng file. Interface 0 is the left host's, interface 1 the right
//! one's. Each frame appears when its sender sends it and again when its receiver gets it, so
//! Wireshark shows losses, delays and damage.

use core::time::Duration;
use std::borrow::Cow;
use std::io::Write;
use std::path::Path;

use pcap_file::DataLink;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};

use crate::scenario::Kind;

/// Which way a frame went at an interface, as `epb_flags` has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// It was received.
    In = 1,
    /// It was sent.
    Out = 2,
}

#[derive(Debug)]
struct Record {
    at: Duration,
    side: usize,
    direction: Direction,
    frame: Vec<u8>,
}

/// The frames of a world, in the order of time.
#[derive(Debug, Default)]
pub struct Recorder(Vec<Record>);

impl Recorder {
    /// Keeps a frame that `side` sent or received `at` this time since the start of the world.
    pub fn add(&mut self, at: Duration, side: usize, direction: Direction, frame: &[u8]) {
        self.0.push(Record { at, side, direction, frame: frame.to_vec() });
    }

    /// Writes all of it.
    ///
    /// # Errors
    /// Why the file could not be written.
    pub fn write(&self, path: &Path, kind: Kind) -> Result<(), String> {
        let linktype = if kind == Kind::Bare { DataLink::RAW } else { DataLink::ETHERNET };
        let failed = |error: &dyn core::fmt::Display| format!("{}: {error}", path.display());
        let file = std::fs::File::create(path).map_err(|error| failed(&error))?;
        let mut writer =
            PcapNgWriter::new(std::io::BufWriter::new(file)).map_err(|error| failed(&error))?;
        for name in ["left", "right"] {
            let options = vec![
                InterfaceDescriptionOption::IfName(Cow::Borrowed(name)),
                // Nanoseconds.
                InterfaceDescriptionOption::IfTsResol(9),
            ];
            let block = InterfaceDescriptionBlock { linktype, snaplen: 0, options };
            writer.write_pcapng_block(block).map_err(|error| failed(&error))?;
        }
        for record in &self.0 {
            let head = if kind == Kind::Bare { packet_head(record) } else { Vec::new() };
            let data = [&head[..], &record.frame].concat();
            let block = EnhancedPacketBlock {
                interface_id: record.side as u32,
                timestamp: record.at,
                original_len: data.len() as u32,
                data: Cow::Owned(data),
                options: vec![EnhancedPacketOption::Flags(record.direction as u32)],
            };
            writer.write_pcapng_block(block).map_err(|error| failed(&error))?;
        }
        writer.into_inner().flush().map_err(|error| failed(&error))
    }
}

/// The IPv4 header that a bare segment does not have.
fn packet_head(record: &Record) -> Vec<u8> {
    let sender = if record.direction == Direction::Out { record.side } else { 1 - record.side };
    let total = (20 + record.frame.len()) as u16;
    let mut head = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 6, 0, 0];
    head[2..4].copy_from_slice(&total.to_be_bytes());
    head.extend([10, 0, 0, 1 + sender as u8, 10, 0, 0, 2 - sender as u8]);
    let words = head.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let sum: u32 = words.sum();
    let sum = !((sum >> 16) + (sum & 0xffff)) as u16;
    head[10..12].copy_from_slice(&sum.to_be_bytes());
    head
}
