//! `tasuki capture`: the frames of an instance as a pcapng file.
//!
//! The driver copies each frame into a socket and never waits. Frames that do not fit are counted
//! in the next frame's header. Times are in nanoseconds; each packet says its direction (as the
//! stack sees it) and how many were missed before it.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufWriter, IsTerminal, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use abi::control::{CaptureHeader, ClientReply, ClientRequest};
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::{DataLink, PcapError};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::RecvFlags;

use crate::cli::CaptureArgs;
use crate::exit::{self, Code, Failure};
use crate::operator::Operator;
use crate::output_file;
use crate::supervisor::Signals;

/// Longest frame with its header: an MTU of 4,000 and all headers fit.
const LONGEST: usize = CaptureHeader::LEN + 8192;
/// if_tsresol: 10 to the power of minus this, seconds.
const NANOSECONDS: u8 = 9;
/// Direction in epb_flags, bits 0 and 1.
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;

/// Captures until it is asked to end.
///
/// # Errors
/// When the instance does not run or the file cannot be written.
pub(crate) fn capture(args: &CaptureArgs) -> Result<u8, Failure> {
    let mut operator = Operator::connect_or_guess(args.net.as_ref())?;
    // A file that is there stays as it is when there is nothing to capture.
    let out = open(&args.write)?;
    let mut signals = Signals::catch()?;
    let snaplen = args.snaplen;
    let interface = args.interface.clone();
    let socket = match operator.ask(&ClientRequest::Capture { snaplen, interface })? {
        (ClientReply::Capture, fds) => <[OwnedFd; 1]>::try_from(fds),
        (other, _) => return Err(operator.unexpected(&other)),
    };
    let Ok([socket]) = socket else {
        return Err(Failure::system("capture", "the instance gave no socket to read frames from"));
    };
    let mut file = FrameFile::new(out, snaplen).map_err(|error| file_failed(args, &error))?;
    // Its head is there before the first frame.
    file.flush().map_err(|error| file_failed(args, &error))?;
    let named = operator.name();
    let on = args.interface.as_ref().map_or_else(String::new, |name| format!(" {name}"));
    exit::say(format_args!(
        "capturing on {named}{on}, Ethernet, at most {snaplen} bytes of each frame"
    ));
    let done = copy(&socket, &operator, &mut signals, &mut file, args.count);
    let done = done.and_then(|()| file.flush());
    let (taken, missed) = (file.taken, file.missed);
    exit::say(format_args!("{taken} packets captured\n{missed} packets missed"));
    match done {
        Ok(()) => Ok(0),
        // Whoever read from the pipe has had enough.
        Err(PcapError::IoError(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(0),
        Err(error) => Err(file_failed(args, &error)),
    }
}

fn file_failed(args: &CaptureArgs, error: &PcapError) -> Failure {
    let to = if args.write == Path::new("-") {
        "standard output".into()
    } else {
        args.write.display().to_string()
    };
    match error {
        PcapError::IoError(error) => Failure::output(to, error),
        error => Failure::output(to, error),
    }
}

fn open(path: &Path) -> Result<Box<dyn Write>, Failure> {
    if path != Path::new("-") {
        return Ok(Box::new(output_file::create(path)?));
    }
    let out = std::io::stdout();
    if out.is_terminal() {
        let sentence = "frames are not for a terminal: give -w FILE, or pipe -w - into a program";
        return Err(Failure::new(Code::Usage, sentence));
    }
    let out = out.as_fd().try_clone_to_owned();
    let out = out.map_err(|error| Failure::output("standard output", error))?;
    Ok(Box::new(File::from(out)))
}

/// Copies frames into the file until a signal, the end of the instance, or `count` frames.
fn copy(
    socket: &OwnedFd,
    operator: &Operator,
    signals: &mut Signals,
    file: &mut FrameFile<impl Write>,
    count: Option<u64>,
) -> Result<(), PcapError> {
    let mut buffer = vec![0; LONGEST];
    let mut ending = false;
    while count.is_none_or(|count| file.taken < count) {
        match rustix::net::recv(socket, &mut buffer[..], RecvFlags::DONTWAIT) {
            Ok((0, _)) | Err(Errno::CONNRESET) => return Ok(()),
            Ok((len, _)) => file.write(&buffer[..len.min(LONGEST)])?,
            Err(Errno::INTR) => {}
            // All that came before the signal is in the file.
            Err(Errno::AGAIN) if ending => return Ok(()),
            Err(Errno::AGAIN) => {
                // A reader at the other end of a pipe sees frames as they come.
                file.flush()?;
                let in_ = PollFlags::IN;
                let mut fds = [
                    PollFd::new(socket, in_),
                    PollFd::new(&*signals, in_),
                    PollFd::from_borrowed_fd(operator.line(), PollFlags::RDHUP),
                ];
                match poll(&mut fds, None) {
                    Ok(_) | Err(Errno::INTR) => {}
                    Err(errno) => return Err(PcapError::IoError(errno.into())),
                }
                ending = !fds[2].revents().is_empty();
            }
            Err(errno) => return Err(PcapError::IoError(errno.into())),
        }
        ending |= signals.arrived().iter().any(|arrived| arrived.ends());
    }
    Ok(())
}

/// A pcapng file with one Ethernet interface.
struct FrameFile<W: Write> {
    writer: PcapNgWriter<BufWriter<W>>,
    taken: u64,
    missed: u64,
}

impl<W: Write> FrameFile<W> {
    fn new(out: W, snaplen: u32) -> Result<Self, PcapError> {
        let mut writer = PcapNgWriter::new(BufWriter::new(out))?;
        writer.write_pcapng_block(InterfaceDescriptionBlock {
            linktype: DataLink::ETHERNET,
            snaplen,
            options: vec![InterfaceDescriptionOption::IfTsResol(NANOSECONDS)],
        })?;
        Ok(Self { writer, taken: 0, missed: 0 })
    }

    /// Writes a datagram of the driver; one that is too short for its header is not a frame.
    fn write(&mut self, datagram: &[u8]) -> Result<(), PcapError> {
        let Some(header) = CaptureHeader::decode(datagram) else { return Ok(()) };
        let data = &datagram[CaptureHeader::LEN..];
        let direction = if header.sent { OUTBOUND } else { INBOUND };
        let mut options = vec![EnhancedPacketOption::Flags(direction)];
        if header.missed > 0 {
            options.push(EnhancedPacketOption::DropCount(header.missed));
        }
        self.writer.write_pcapng_block(EnhancedPacketBlock {
            interface_id: 0,
            timestamp: Duration::from_nanos(header.at),
            original_len: header.len,
            data: Cow::Borrowed(data),
            options,
        })?;
        self.taken += 1;
        self.missed += header.missed;
        Ok(())
    }

    fn flush(&mut self) -> Result<(), PcapError> {
        self.writer.get_mut().flush().map_err(PcapError::IoError)
    }
}

#[cfg(test)]
mod tests {
    use pcap_file::pcapng::{Block, PcapNgReader};

    use super::*;

    #[test]
    fn frames_come_back_as_they_were() {
        let mut bytes = Vec::new();
        let mut file = FrameFile::new(&mut bytes, 100).unwrap();
        let header =
            CaptureHeader { at: 1_700_000_000_123_456_789, len: 64, sent: true, missed: 3 };
        file.write(&[&header.encode()[..], &[7; 60]].concat()).unwrap();
        file.write(b"too short").unwrap();
        file.flush().unwrap();
        assert_eq!((file.taken, file.missed), (1, 3));
        drop(file);

        let mut reader = PcapNgReader::new(&bytes[..]).unwrap();
        let Block::InterfaceDescription(interface) = reader.next_block().unwrap().unwrap() else {
            panic!("no interface");
        };
        assert_eq!(interface.options, [InterfaceDescriptionOption::IfTsResol(9)]);
        let Block::EnhancedPacket(packet) = reader.next_block().unwrap().unwrap() else {
            panic!("no packet");
        };
        assert_eq!(packet.timestamp, Duration::from_nanos(header.at));
        assert_eq!((packet.original_len, &packet.data[..]), (64, &[7; 60][..]));
        let options = [EnhancedPacketOption::Flags(2), EnhancedPacketOption::DropCount(3)];
        assert_eq!(packet.options, options);
        assert!(reader.next_block().is_none());
    }
}
