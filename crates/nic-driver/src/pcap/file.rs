//! Frames out of capture files, both formats: pcap and pcapng, either byte order.
//!
//! A file comes from anywhere. Lengths are checked before anything is allocated, and a fault is
//! reported with its position. Only the fields that replaying needs are read: the frame, its time,
//! and whether it was sent or received (pcapng's `epb_flags`).

use std::io::{self, Read};
use std::time::Duration;

/// Longest captured frame, bytes: tcpdump's largest snapshot length.
const LONGEST: u32 = 262_144;
/// Longest block of a pcapng file, bytes: a frame, and comments beside it.
const LONGEST_BLOCK: u32 = 16 << 20;
/// Most interfaces of one section of a pcapng file.
const MOST_INTERFACES: usize = 4096;
/// LINKTYPE_ETHERNET.
const ETHERNET: u32 = 1;

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

/// Why a capture file cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum PcapError {
    /// Reading failed.
    #[error("reading failed at byte {at}: {error}")]
    Io {
        /// Where, bytes from the file's start.
        at: u64,
        /// The system's answer.
        error: io::Error,
    },
    /// The file does not begin like a capture file.
    #[error("it begins neither like a pcap nor like a pcapng file")]
    NotCapture,
    /// The file's end lies within a record.
    #[error("it ends at byte {at}, within a record: it was cut off")]
    Cut {
        /// The file's length, bytes.
        at: u64,
    },
    /// A record is not as the format has it.
    #[error("the record at byte {at} is broken: {what}")]
    Broken {
        /// Where the record begins, bytes from the file's start.
        at: u64,
        /// The fault.
        what: &'static str,
    },
    /// Frames of another kind of link.
    #[error("the frames announced at byte {at} are not Ethernet's but of link type {link}")]
    Link {
        /// Where it is, bytes from the file's start.
        at: u64,
        /// The number in the registry of link types.
        link: u32,
    },
}

/// A frame of a file, but for its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// When it was captured, since the epoch; nothing when the file does not say.
    pub time: Option<Duration>,
    /// It was sent by the machine that captured it.
    pub sent: bool,
    /// Only its first bytes were captured.
    pub cut: bool,
}

#[derive(Debug)]
enum Format {
    Pcap { nanoseconds: bool },
    PcapNg { interfaces: Vec<PcapInterface> },
}

#[derive(Debug, Clone, Copy)]
struct PcapInterface {
    /// Units of time in a second.
    units: u64,
    snaplen: u32,
}

/// Reads a capture file frame by frame.
#[derive(Debug)]
pub struct PcapReader<R> {
    input: R,
    /// Bytes read so far.
    at: u64,
    big_endian: bool,
    format: Format,
    block: Vec<u8>,
}

impl<R: Read> PcapReader<R> {
    /// Reads the beginning.
    ///
    /// # Errors
    /// See [`PcapError`].
    pub fn new(input: R) -> Result<Self, PcapError> {
        let format = Format::Pcap { nanoseconds: false };
        let mut reader = Self { input, at: 0, big_endian: false, format, block: Vec::new() };
        let mut magic = [0; 4];
        reader.read(&mut magic).map_err(not_capture)?;
        let (big_endian, nanoseconds) = match u32::from_le_bytes(magic) {
            0xa1b2_c3d4 => (false, false),
            0xa1b2_3c4d => (false, true),
            0xd4c3_b2a1 => (true, false),
            0x4d3c_b2a1 => (true, true),
            SECTION => {
                reader.format = Format::PcapNg { interfaces: Vec::new() };
                reader.section(0).map_err(not_capture)?;
                return Ok(reader);
            }
            _ => return Err(PcapError::NotCapture),
        };
        reader.big_endian = big_endian;
        reader.format = Format::Pcap { nanoseconds };
        let mut head = [0; 20];
        reader.read(&mut head).map_err(not_capture)?;
        // The upper half has flags about the frame check sequence.
        let link = reader.u32_at(&head, 16) & 0xffff;
        if link == ETHERNET { Ok(reader) } else { Err(PcapError::Link { at: 20, link }) }
    }

    /// Reads the next frame, with its bytes in `frame`. `None` at the file's end.
    ///
    /// # Errors
    /// See [`PcapError`].
    pub fn next(&mut self, frame: &mut Vec<u8>) -> Result<Option<Record>, PcapError> {
        match self.format {
            Format::Pcap { nanoseconds } => self.next_pcap(nanoseconds, frame),
            Format::PcapNg { .. } => loop {
                match self.next_block(frame)? {
                    Block::Frame(record) => return Ok(Some(record)),
                    Block::Other => {}
                    Block::End => return Ok(None),
                }
            },
        }
    }

    fn next_pcap(
        &mut self,
        nanoseconds: bool,
        frame: &mut Vec<u8>,
    ) -> Result<Option<Record>, PcapError> {
        let at = self.at;
        let mut head = [0; 16];
        if !self.read_or_end(&mut head)? {
            return Ok(None);
        }
        let (seconds, fraction) = (self.u32_at(&head, 0), self.u32_at(&head, 4));
        let (len, original) = (self.u32_at(&head, 8), self.u32_at(&head, 12));
        if len > LONGEST {
            return Err(PcapError::Broken { at, what: "its length is more than 262144 bytes" });
        }
        let fraction =
            Duration::from_nanos(u64::from(fraction) * if nanoseconds { 1 } else { 1000 });
        frame.clear();
        frame.resize(len as usize, 0);
        self.read(frame)?;
        let time = Some(Duration::from_secs(seconds.into()) + fraction);
        Ok(Some(Record { time, sent: false, cut: len < original }))
    }

    fn next_block(&mut self, frame: &mut Vec<u8>) -> Result<Block, PcapError> {
        let at = self.at;
        let mut kind = [0; 4];
        if !self.read_or_end(&mut kind)? {
            return Ok(Block::End);
        }
        // The same in both byte orders.
        if u32::from_le_bytes(kind) == SECTION {
            return self.section(at).map(|()| Block::Other);
        }
        let kind = self.u32_at(&kind, 0);
        let mut len = [0; 4];
        self.read(&mut len)?;
        let len = self.u32_at(&len, 0);
        self.body(at, len, 8)?;
        let block = std::mem::take(&mut self.block);
        let done = match kind {
            INTERFACE => self.interface(at, &block).map(|()| Block::Other),
            ENHANCED_PACKET => self.enhanced(at, &block, frame).map(Block::Frame),
            SIMPLE_PACKET => self.simple(at, &block, frame).map(Block::Frame),
            _ => Ok(Block::Other),
        };
        self.block = block;
        done
    }

    /// Reads the rest of a block of `len` bytes after `read` of them, without the length at its
    /// end.
    fn body(&mut self, at: u64, len: u32, read: u32) -> Result<(), PcapError> {
        if len < read + 4 || len > LONGEST_BLOCK || !len.is_multiple_of(4) {
            return Err(PcapError::Broken { at, what: "no block has such a length" });
        }
        let mut block = std::mem::take(&mut self.block);
        block.clear();
        block.resize((len - read) as usize, 0);
        let done = self.read(&mut block);
        let again = self.u32_at(&block, block.len() - 4);
        block.truncate(block.len() - 4);
        self.block = block;
        done?;
        if again == len {
            return Ok(());
        }
        Err(PcapError::Broken { at, what: "its two lengths differ" })
    }

    /// The rest of a section header: from here on another byte order, and other interfaces.
    fn section(&mut self, at: u64) -> Result<(), PcapError> {
        let mut head = [0; 8];
        self.read(&mut head)?;
        self.big_endian = match [head[4], head[5], head[6], head[7]] {
            [0x1a, 0x2b, 0x3c, 0x4d] => true,
            [0x4d, 0x3c, 0x2b, 0x1a] => false,
            _ => return Err(PcapError::Broken { at, what: "it lacks the byte-order magic" }),
        };
        let len = self.u32_at(&head, 0);
        self.body(at, len, 12)?;
        if self.block.len() < 12 || self.u16_at(&self.block, 0) != 1 {
            return Err(PcapError::Broken { at, what: "the format's version is not 1" });
        }
        self.format = Format::PcapNg { interfaces: Vec::new() };
        Ok(())
    }

    fn interface(&mut self, at: u64, block: &[u8]) -> Result<(), PcapError> {
        if block.len() < 8 {
            return Err(PcapError::Broken { at, what: "an interface needs 8 bytes" });
        }
        let link = u32::from(self.u16_at(block, 0));
        if link != ETHERNET {
            return Err(PcapError::Link { at, link });
        }
        let snaplen = self.u32_at(block, 4);
        // if_tsresol: a power of 10, or with the highest bit of 2; without it microseconds.
        let units = match self.option(&block[8..], 9) {
            None => Some(1_000_000),
            Some(&[exponent, ..]) if exponent & 0x80 == 0 => 10_u64.checked_pow(exponent.into()),
            Some(&[exponent, ..]) => 1_u64.checked_shl((exponent & 0x7f).into()),
            Some([]) => None,
        };
        let what = "no clock has such a resolution";
        let units = units.ok_or(PcapError::Broken { at, what })?;
        let Format::PcapNg { interfaces } = &mut self.format else { return Ok(()) };
        if interfaces.len() >= MOST_INTERFACES {
            return Err(PcapError::Broken { at, what: "a section has more than 4096 interfaces" });
        }
        interfaces.push(PcapInterface { units, snaplen });
        Ok(())
    }

    fn interface_named(&self, number: u32) -> Option<PcapInterface> {
        let Format::PcapNg { interfaces } = &self.format else { return None };
        interfaces.get(usize::try_from(number).ok()?).copied()
    }

    fn enhanced(&self, at: u64, block: &[u8], frame: &mut Vec<u8>) -> Result<Record, PcapError> {
        let broken = |what| PcapError::Broken { at, what };
        if block.len() < 20 {
            return Err(broken("a packet needs 20 bytes"));
        }
        let interface = self.interface_named(self.u32_at(block, 0));
        let interface = interface.ok_or(broken("its interface was not described"))?;
        let stamp = u64::from(self.u32_at(block, 4)) << 32 | u64::from(self.u32_at(block, 8));
        let (len, original) = (self.u32_at(block, 12), self.u32_at(block, 16));
        let rest = &block[20..];
        let bytes = usize::try_from(len).ok().filter(|_| len <= LONGEST);
        let bytes = bytes.and_then(|len| rest.get(..len)).ok_or(broken("its frame is too long"))?;
        frame.clear();
        frame.extend_from_slice(bytes);
        let options = rest.get(bytes.len().next_multiple_of(4)..).unwrap_or(&[]);
        // epb_flags: the lowest two bits say 1 for received, 2 for sent.
        let flags = self.option(options, 2).filter(|flags| flags.len() >= 4);
        let sent = flags.is_some_and(|flags| self.u32_at(flags, 0) & 3 == 2);
        let nanoseconds = u128::from(stamp % interface.units) * 1_000_000_000;
        let fraction = u64::try_from(nanoseconds / u128::from(interface.units)).unwrap_or(0);
        let time = Duration::from_secs(stamp / interface.units) + Duration::from_nanos(fraction);
        Ok(Record { time: Some(time), sent, cut: len < original })
    }

    fn simple(&self, at: u64, block: &[u8], frame: &mut Vec<u8>) -> Result<Record, PcapError> {
        let broken = |what| PcapError::Broken { at, what };
        let interface = self.interface_named(0).ok_or(broken("its interface was not described"))?;
        if block.len() < 4 {
            return Err(broken("a packet needs 4 bytes"));
        }
        let original = self.u32_at(block, 0);
        // 0 is no limit.
        let limit = if interface.snaplen == 0 { LONGEST } else { interface.snaplen.min(LONGEST) };
        let len = original.min(limit);
        let bytes = block.get(4..4 + len as usize).ok_or(broken("its frame is too long"))?;
        frame.clear();
        frame.extend_from_slice(bytes);
        Ok(Record { time: None, sent: false, cut: len < original })
    }

    /// The first option of this code.
    fn option<'a>(&self, mut options: &'a [u8], code: u16) -> Option<&'a [u8]> {
        while let Some((head, rest)) = options.split_first_chunk::<4>() {
            let (found, len) = (self.u16_at(head, 0), usize::from(self.u16_at(head, 2)));
            if found == 0 {
                return None;
            }
            let value = rest.get(..len)?;
            if found == code {
                return Some(value);
            }
            options = rest.get(len.next_multiple_of(4)..)?;
        }
        None
    }

    /// Four bytes of a slice that is known to be long enough.
    fn u32_at(&self, bytes: &[u8], at: usize) -> u32 {
        let four = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        if self.big_endian { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) }
    }

    fn u16_at(&self, bytes: &[u8], at: usize) -> u16 {
        let two = [bytes[at], bytes[at + 1]];
        if self.big_endian { u16::from_be_bytes(two) } else { u16::from_le_bytes(two) }
    }

    fn read(&mut self, into: &mut [u8]) -> Result<(), PcapError> {
        if into.is_empty() || self.read_or_end(into)? {
            return Ok(());
        }
        Err(PcapError::Cut { at: self.at })
    }

    /// Reads all of `into`; `false` when the file ends before its first byte.
    fn read_or_end(&mut self, into: &mut [u8]) -> Result<bool, PcapError> {
        let mut done = 0;
        while done < into.len() {
            match self.input.read(&mut into[done..]) {
                Ok(0) if done == 0 => return Ok(false),
                Ok(0) => return Err(PcapError::Cut { at: self.at }),
                Ok(count) => {
                    done += count;
                    self.at += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(PcapError::Io { at: self.at, error }),
            }
        }
        Ok(true)
    }
}

/// The kind of a block.
enum Block {
    Frame(Record),
    Other,
    End,
}

/// A file that ends before its head does is no capture file.
fn not_capture(error: PcapError) -> PcapError {
    match error {
        PcapError::Cut { .. } => PcapError::NotCapture,
        other => other,
    }
}

#[cfg(test)]
mod tests;
