//! The pcap back end: frames of a capture file arrive, and sent frames go to another file.
//!
//! Frames come in the file's order, at their distances in time or as fast as the stack takes them.
//! After the last one the link is idle. The file was made for another stack, so this interface's
//! hardware address replaces a unicast destination. Two kinds of frames are passed over: those that
//! the capturing machine itself had sent (pcapng says so), and those captured only in part.
//!
//! Time is a timer descriptor, set to when the next frame is due: between frames nothing wakes up.

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use abi::offload::TxOffload;

use crate::device::{Device, Part, Pending, Received, frame_len};
use crate::timer::DeviceTimer;

mod file;

pub use file::{PcapError, PcapReader, Record};

/// Longest delay, seconds: eleven days.
const MOST_DELAY: f64 = 1e6;

/// When frames of a file are due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// From the driver's start to the first frame: programs need time to open their sockets.
    pub delay: Duration,
    /// One after the other as fast as the stack takes them, whatever the file says.
    pub fast: bool,
}

impl Default for Pace {
    fn default() -> Self {
        Self { delay: Duration::from_secs(1), fast: false }
    }
}

/// The argument of `--nic pcap:`, `INPUT[,OUTPUT][,fast][,delay=SECONDS]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The file whose frames arrive.
    pub input: PathBuf,
    /// The file for sent frames.
    pub output: Option<PathBuf>,
    /// When frames are due.
    pub pace: Pace,
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split(',');
        let input = words.next().filter(|word| !word.is_empty());
        let input = input.ok_or("it lacks the file to replay, as in pcap:FILE".to_owned())?;
        let mut target = Self { input: input.into(), output: None, pace: Pace::default() };
        for word in words {
            if word == "fast" {
                target.pace.fast = true;
            } else if let Some(seconds) = word.strip_prefix("delay=") {
                let delay =
                    seconds.parse().ok().filter(|seconds| (0.0..=MOST_DELAY).contains(seconds));
                let delay = delay.ok_or_else(|| {
                    format!("`{seconds}` is not a number of seconds from 0 to {MOST_DELAY}")
                })?;
                target.pace.delay = Duration::from_secs_f64(delay);
            } else if word.is_empty() || target.output.is_some() {
                return Err(format!(
                    "`{word}` is none of OUTPUT (one), fast and delay=SECONDS behind the file to \
                     replay"
                ));
            } else {
                target.output = Some(word.into());
            }
        }
        Ok(target)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.input.display())?;
        if let Some(output) = &self.output {
            write!(f, ",{}", output.display())?;
        }
        let Pace { delay, fast } = self.pace;
        if fast {
            f.write_str(",fast")?;
        }
        if delay == Pace::default().delay {
            Ok(())
        } else {
            write!(f, ",delay={}", delay.as_secs_f64())
        }
    }
}

/// Checks a whole file and returns the number of its frames.
///
/// # Errors
/// See [`PcapError`].
pub fn check(file: &File) -> Result<u64, PcapError> {
    let mut reader = PcapReader::new(BufReader::new(file))?;
    let (mut frame, mut count) = (Vec::new(), 0);
    while reader.next(&mut frame)?.is_some() {
        count += 1;
    }
    Ok(count)
}

/// A link on which a file is replayed.
#[derive(Debug)]
pub struct Pcap {
    timer: DeviceTimer,
    input: PcapReader<BufReader<File>>,
    output: Option<BufWriter<File>>,
    mac: [u8; 6],
    pace: Pace,
    begun: Instant,
    /// When the file's first frame was captured.
    first: Option<Duration>,
    /// The frame in `frame` is due then; nothing at the file's end.
    due: Option<Instant>,
    /// The timer stands at `due`.
    armed: bool,
    frame: Vec<u8>,
    /// Scratch: a record of the output.
    record: Vec<u8>,
    skipped: u64,
}

impl Pcap {
    /// Replays `input` from its current position, for the interface with this hardware address.
    /// Writes a pcap file to `output`, if there is one.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] for a fault in the file; the system's.
    pub fn new(input: File, output: Option<File>, mac: [u8; 6], pace: Pace) -> io::Result<Self> {
        let output = match output {
            Some(file) => {
                let mut output = BufWriter::new(file);
                output.write_all(&file_head())?;
                output.flush()?;
                Some(output)
            }
            None => None,
        };
        let mut device = Self {
            timer: DeviceTimer::new()?,
            input: PcapReader::new(BufReader::new(input)).map_err(invalid)?,
            output,
            mac,
            pace,
            begun: Instant::now(),
            first: None,
            due: None,
            armed: false,
            frame: Vec::new(),
            record: Vec::new(),
            skipped: 0,
        };
        device.advance()?;
        Ok(device)
    }

    /// Looks up the next frame to be received.
    fn advance(&mut self) -> io::Result<()> {
        let before = self.due.take().unwrap_or(self.begun + self.pace.delay);
        self.armed = false;
        let record = loop {
            match self.input.next(&mut self.frame).map_err(invalid)? {
                Some(record) if record.sent || record.cut => self.skipped += 1,
                record => break record,
            }
        };
        let Some(record) = record else {
            // Nothing more: the timer stops.
            return self.timer.set(Duration::ZERO);
        };
        let offset = record.time.map(|time| time.saturating_sub(*self.first.get_or_insert(time)));
        let due = match offset {
            Some(offset) if !self.pace.fast => self.begun.checked_add(self.pace.delay + offset),
            _ => None,
        };
        // Time in files may go backwards; here it does not.
        self.due = Some(due.map_or(before, |due| due.max(before)));
        if self.frame.first().is_some_and(|first| first & 1 == 0) && self.frame.len() >= 6 {
            self.frame[..6].copy_from_slice(&self.mac);
        }
        Ok(())
    }
}

fn invalid(error: PcapError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// The head of a pcap file with nanoseconds, of whole Ethernet frames.
fn file_head() -> [u8; 24] {
    let mut head = [0; 24];
    head[..4].copy_from_slice(&0xa1b2_3c4d_u32.to_ne_bytes());
    head[4..6].copy_from_slice(&2_u16.to_ne_bytes());
    head[6..8].copy_from_slice(&4_u16.to_ne_bytes());
    head[16..20].copy_from_slice(&262_144_u32.to_ne_bytes());
    head[20..].copy_from_slice(&1_u32.to_ne_bytes());
    head
}

impl Device for Pcap {
    fn receive(&mut self, into: &mut [u8]) -> io::Result<Option<Received>> {
        let Some(due) = self.due else { return Ok(None) };
        let left = due.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            if !self.armed {
                self.timer.set(left)?;
                self.armed = true;
            }
            return Ok(None);
        }
        let len = self.frame.len().min(into.len());
        into[..len].copy_from_slice(&self.frame[..len]);
        let received = Received::plain(self.frame.len());
        self.advance()?;
        Ok(Some(received))
    }

    fn transmit(&mut self, frame: &[Part<'_>], _offload: TxOffload) -> io::Result<bool> {
        let Some(output) = &mut self.output else { return Ok(true) };
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let len = u32::try_from(frame_len(frame)).unwrap_or(u32::MAX);
        // The format's seconds have 32 bits.
        let seconds = at.as_secs() as u32;
        self.record.clear();
        for word in [seconds, at.subsec_nanos(), len, len] {
            self.record.extend_from_slice(&word.to_ne_bytes());
        }
        for part in frame {
            part.append_to(&mut self.record, usize::MAX);
        }
        output.write_all(&self.record)?;
        Ok(true)
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.output {
            Some(output) => output.flush(),
            None => Ok(()),
        }
    }

    fn poll_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }

    fn pending(&self) -> Pending {
        let due = self.due.is_some_and(|due| due <= Instant::now());
        Pending { receive: due, ..Pending::default() }
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        each("pcap.skipped", self.skipped);
    }
}

#[cfg(test)]
mod tests;
