//! The transfer of one block, packet by packet, as the fifth paper draws it: what the initiator and
//! the target put on the wire, and what ciphers and disk did meanwhile.
//!
//! While `tasuki disk bench` reads blocks one after the other, both instances are captured
//! (`tasuki capture`) and traced (`tasuki stages --marks`). Both have the time of one machine, so
//! they fit together once the two clocks do: frames have the system's, marks CLOCK_MONOTONIC. Of
//! all requests in the second half, that is taken whose time is in the middle.
//!
//! The wire has no offloads, so a frame is a packet ([`StorageLink::packets`]).

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use abi::stages::{Mark, StageReport, TraceProcess, TraceStage};
use anyhow::{Context as _, Result, ensure};
use lab::{Lane, Span};
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use rustix::process::{Pid, Signal, kill_process};

use super::measure::disk_bench_words;
use super::plan::{Access, BackEnd, Requests, StorageLink, TRANSPORTS};
use super::world::{StorageSide, StorageWorld};

/// How long blocks are read. Enough for the middle of them to be like all.
const SECONDS: f64 = 0.7;
/// When marks are switched on: programs that come later make none.
const SWITCH: Duration = Duration::from_millis(300);
/// The newest marks of each side.
const MARKS: &str = "16384";
/// `stages` is ended sooner.
const STAGES_SECONDS: &str = "30";
/// The bytes of each frame that are kept: none of them is looked at.
const SNAPLEN: &str = "64";
/// Shorter frames are acknowledgements and requests.
const LEAST_DATA: u64 = 400;
/// At least so much time is shown, microseconds: as in the paper.
const SHOWN: f64 = 6000.0;
/// `epb_flags` of a frame that left.
const OUTBOUND: u32 = 2;

/// A world in which transfers are recorded. A drop removes everything.
pub(crate) struct RecordedTransport {
    world: StorageWorld,
    delay: f64,
}

/// What one transfer was like. Times are in microseconds since the request left.
#[derive(Debug, Clone)]
pub(crate) struct Transfer {
    /// Lanes of all that happened, without a panel.
    pub(crate) lanes: Vec<Lane>,
    /// From the first to the last packet of the block.
    pub(crate) spread: f64,
    /// From the request to its last byte at the initiator.
    pub(crate) whole: f64,
}

/// A frame of a side: when it passed the device, nanoseconds of CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy)]
struct PassedFrame {
    at: f64,
    sent: bool,
    bytes: u64,
}

/// What one side has seen.
#[derive(Debug)]
struct SideRecord {
    frames: Vec<PassedFrame>,
    marks: Vec<Mark>,
}

/// The programs that record a side, and its instance's name.
struct SideRecorder {
    name: String,
    capture: Child,
    file: PathBuf,
    /// Once marks are switched on.
    stages: Option<Child>,
}

impl RecordedTransport {
    /// Makes both instances, and the target with a file. `number` tells worlds of one process
    /// apart.
    pub(crate) fn new(
        tasuki: &std::path::Path,
        number: usize,
        name: &str,
        delay_us: u32,
    ) -> Result<Self> {
        let transport = TRANSPORTS.iter().find(|transport| transport.name == name);
        let transport = transport.with_context(|| format!("`{name}` is no transport"))?;
        let link = StorageLink::packets(delay_us);
        let world = StorageWorld::new(tasuki, number, link, transport, &[BackEnd::File])?;
        Ok(Self { world, delay: f64::from(delay_us) })
    }

    /// Records the transfer of a block of so many bytes.
    pub(crate) fn record(&self, bytes: u32) -> Result<Transfer> {
        let [target, initiator] = [StorageSide::Target, StorageSide::Initiator];
        let mut recorders = [self.recorder(target)?, self.recorder(initiator)?];
        let requests = Requests { access: Access::Read, bytes, depth: 1 };
        let words = disk_bench_words(requests, SECONDS);
        let mut bench = self.world.disk_bench(&self.world.url(BackEnd::File), &words);
        let bench = bench.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let bench = bench.spawn().context("starting the initiator")?;
        sleep(SWITCH);
        for recorder in &mut recorders {
            recorder.trace(&self.world)?;
        }
        let output = bench.wait_with_output()?;
        let why = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "the initiator failed: {}", why.trim());
        let [target, initiator] = recorders.map(SideRecorder::end);
        transfer(&target?, &initiator?, self.delay)
    }

    fn recorder(&self, side: StorageSide) -> Result<SideRecorder> {
        let (name, file) = (self.world.instance(side), self.world.file("pcapng", side));
        let path = file.to_string_lossy();
        let words = ["capture", "-w", &path, "--snaplen", SNAPLEN, "--net", &name];
        let mut capture = self.world.inside(self.world.tasuki(), &words);
        let capture = capture.stderr(Stdio::piped()).stdout(Stdio::null()).stdin(Stdio::null());
        let mut capture = capture.spawn().context("starting a capture")?;
        await_line(&mut capture, "capturing")?;
        Ok(SideRecorder { name, capture, file, stages: None })
    }
}

impl SideRecorder {
    /// Switches marks on.
    fn trace(&mut self, world: &StorageWorld) -> Result<()> {
        let words = ["stages", "--json", "--marks", MARKS, "-s", STAGES_SECONDS, &self.name];
        let mut stages = world.inside(world.tasuki(), &words);
        let stages = stages.stdout(Stdio::piped()).stderr(Stdio::piped()).stdin(Stdio::null());
        let stages = self.stages.insert(stages.spawn().context("starting a trace")?);
        await_line(stages, "watching")
    }

    fn end(mut self) -> Result<SideRecord> {
        let stop = |child: &Child| kill_process(Pid::from_child(child), Signal::INT);
        let stages = self.stages.as_mut().context("a trace")?;
        stop(stages)?;
        let mut said = String::new();
        stages.stdout.as_mut().context("a trace's output")?.read_to_string(&mut said)?;
        let report: StageReport = serde_json::from_str(&said).context("what a trace prints")?;
        stop(&self.capture)?;
        self.capture.wait()?;
        let marks = report.marks.into_iter().map(|(at, stage)| Mark { at, stage }).collect();
        Ok(SideRecord { frames: frames(&self.file)?, marks })
    }
}

impl Drop for SideRecorder {
    fn drop(&mut self) {
        for child in [&mut self.capture].into_iter().chain(&mut self.stages) {
            // It has ended already, unless something failed.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Waits until a program says on standard error that it has begun. Before, an interrupt would end
/// it without a result.
fn await_line(child: &mut Child, begun: &str) -> Result<()> {
    let said = child.stderr.take().context("what a program says")?;
    let mut line = String::new();
    BufReader::new(said).read_line(&mut line)?;
    ensure!(line.contains(begun), "it has not begun: {}", line.trim());
    Ok(())
}

/// The frames of a capture, by CLOCK_MONOTONIC.
fn frames(file: &PathBuf) -> Result<Vec<PassedFrame>> {
    let system = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock")?;
    let monotonic = Mark::now(TraceStage::Send).at as f64;
    let mut reader = PcapNgReader::new(BufReader::new(File::open(file)?))?;
    let mut frames = Vec::new();
    while let Some(block) = reader.next_block() {
        let Block::EnhancedPacket(packet) = block? else { continue };
        let ago = system.saturating_sub(packet.timestamp).as_nanos() as f64;
        let left = |it: &EnhancedPacketOption<'_>| *it == EnhancedPacketOption::Flags(OUTBOUND);
        frames.push(PassedFrame {
            at: monotonic - ago,
            sent: packet.options.iter().any(left),
            bytes: packet.original_len.into(),
        });
    }
    Ok(frames)
}

/// Times at which the disk begins a request: a later part of one begins within a round trip.
fn requests(marks: &[Mark], delay: f64) -> Vec<f64> {
    let mut begins: Vec<f64> = Vec::new();
    let mut last = f64::NEG_INFINITY;
    for mark in marks.iter().filter(|mark| mark.stage == TraceStage::Disk) {
        let at = mark.at as f64;
        if at - last > delay * 1000.0 {
            begins.push(at);
        }
        last = at;
    }
    begins
}

/// When the typical request left, and the next one: of those in the second half, for which both
/// sides have marks, the one whose time is in the middle.
fn typical(target: &SideRecord, initiator: &SideRecord, delay: f64) -> Result<(f64, f64)> {
    let begins = requests(&target.marks, delay);
    let left = |disk: f64| {
        let until = disk - 0.9 * delay * 1000.0;
        let mut sent = initiator.frames.iter().filter(|it| it.sent && it.at <= until);
        sent.next_back().map(|frame| frame.at)
    };
    let whole = |pair: &[f64]| Some((left(pair[0])?, left(pair[1])?));
    // The last one has no next one.
    let later = begins.get(begins.len() / 2..).unwrap_or_default();
    let mut all: Vec<(f64, f64)> = later.windows(2).filter_map(whole).collect();
    all.sort_by(|a, b| (a.1 - a.0).total_cmp(&(b.1 - b.0)));
    let found = all.get(all.len() / 2).copied();
    found.with_context(|| format!("{} requests were seen, which are too few", begins.len()))
}

/// A request out of what both sides have seen.
fn transfer(target: &SideRecord, initiator: &SideRecord, delay: f64) -> Result<Transfer> {
    let (begin, end) = typical(target, initiator, delay)?;
    let at = |nanos: f64| (nanos - begin) / 1000.0;
    let within = |frame: &&PassedFrame| frame.at >= begin && frame.at < end;
    let data = |side: &SideRecord, sent: bool| -> Vec<f64> {
        let all = side.frames.iter().filter(within);
        all.filter(|it| it.sent == sent && it.bytes >= LEAST_DATA).map(|it| at(it.at)).collect()
    };
    let (sent, came) = (data(target, true), data(initiator, false));
    let (first, last) = (sent.first().context("no packet")?, sent.last().context("no packet")?);
    let whole = *came.last().context("no packet came")?;
    // The last work is over when the next request leaves.
    let until = SHOWN.max(at(end));
    let shown = |from: f64, until_ns: f64, bytes| {
        let span = Span { from: at(from), until: at(until_ns), bytes };
        (span.from >= 0.0 && span.from <= until).then_some(span)
    };
    let passed = |side: &SideRecord, sent: bool| -> Vec<Span> {
        let all = side.frames.iter().filter(|frame| frame.sent == sent);
        all.filter_map(|frame| shown(frame.at, frame.at, frame.bytes)).collect()
    };
    let worked = |spans: Vec<[f64; 2]>| -> Vec<Span> {
        spans.into_iter().filter_map(|[from, until]| shown(from, until, 0)).collect()
    };
    let lane = |name: &str, mut spans: Vec<Span>| {
        spans.sort_by(|a, b| a.from.total_cmp(&b.from));
        Lane { panel: String::new(), name: name.to_owned(), spans }
    };
    let lanes = vec![
        lane("initiator: packets leave", passed(initiator, true)),
        lane("target: packets come", passed(target, false)),
        lane("target: disk", worked(disk_spans(&target.marks))),
        lane("target: cipher", worked(cipher_spans(&target.marks))),
        lane("target: packets leave", passed(target, true)),
        lane("initiator: packets come", passed(initiator, false)),
        lane("initiator: cipher", worked(cipher_spans(&initiator.marks))),
    ];
    Ok(Transfer { lanes, spread: last - first, whole })
}

/// Each read of the disk, in order: its end is the first one that is not another's.
fn disk_spans(marks: &[Mark]) -> Vec<[f64; 2]> {
    let of = |stage| marks.iter().filter(move |mark| mark.stage == stage).map(|it| it.at as f64);
    let mut ends = of(TraceStage::DiskDone).peekable();
    let mut spans = Vec::new();
    for begin in of(TraceStage::Disk) {
        while ends.next_if(|end| *end < begin).is_some() {}
        let Some(end) = ends.next() else { break };
        spans.push([begin, end]);
    }
    spans
}

/// Each time that a cipher worked: of a program until it says so, of the inet server until its
/// next stage.
fn cipher_spans(marks: &[Mark]) -> Vec<[f64; 2]> {
    let mut spans = Vec::new();
    for (index, mark) in marks.iter().enumerate() {
        let mut later = marks[index + 1..].iter();
        let end = match mark.stage {
            TraceStage::Seal | TraceStage::Open => {
                later.find(|it| it.stage == TraceStage::CipherDone)
            }
            TraceStage::EspSeal | TraceStage::EspOpen => {
                later.find(|it| it.stage.process() == TraceProcess::Inet)
            }
            _ => continue,
        };
        spans.extend(end.map(|end| [mark.at as f64, end.at as f64]));
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(all: &[(u64, TraceStage)]) -> Vec<Mark> {
        all.iter().map(|&(us, stage)| Mark { at: us * 1000, stage }).collect()
    }

    fn frame(us: f64, sent: bool, bytes: u64) -> PassedFrame {
        PassedFrame { at: us * 1000.0, sent, bytes }
    }

    #[test]
    fn a_typical_request_is_put_on_one_axis() {
        use TraceStage::{CipherDone, Descriptor, Disk, DiskDone, EspSeal, Seal};
        // Three requests, 5 ms apart; the wire takes 1 ms.
        let begin = |at: u64| {
            [
                (at + 1020, Disk),
                (at + 1050, DiskDone),
                (at + 1060, Seal),
                (at + 1100, CipherDone),
                (at + 1110, EspSeal),
                (at + 1130, Descriptor),
            ]
        };
        let target_marks: Vec<_> = [0, 5000, 10_000].into_iter().flat_map(begin).collect();
        let frames = |own: bool| -> Vec<PassedFrame> {
            let of = |at: f64| {
                let data = if own { at + 1100.0 } else { at + 2100.0 };
                vec![
                    frame(if own { at + 1000.0 } else { at }, !own, 118),
                    frame(data, own, 1514),
                    frame(data + 30.0, own, 1514),
                ]
            };
            [0.0, 5000.0, 10_000.0].into_iter().flat_map(of).collect()
        };
        let target = SideRecord { frames: frames(true), marks: marks(&target_marks) };
        let initiator = SideRecord { frames: frames(false), marks: Vec::new() };
        let found = transfer(&target, &initiator, 1000.0).unwrap();
        assert_eq!((found.spread, found.whole), (30.0, 2130.0));
        let lane = |name: &str| {
            let lane = found.lanes.iter().find(|lane| lane.name == name).unwrap();
            lane.spans.iter().map(|span| (span.from, span.until)).collect::<Vec<_>>()
        };
        assert_eq!(lane("initiator: packets leave"), [(0.0, 0.0), (5000.0, 5000.0)]);
        assert_eq!(lane("target: disk"), [(1020.0, 1050.0)]);
        assert_eq!(lane("target: cipher"), [(1060.0, 1100.0), (1110.0, 1130.0)]);
        assert_eq!(lane("target: packets leave"), [(1100.0, 1100.0), (1130.0, 1130.0)]);
        assert_eq!(lane("initiator: packets come"), [(2100.0, 2100.0), (2130.0, 2130.0)]);
        let few = SideRecord { marks: marks(&target_marks[..6]), ..target };
        assert!(transfer(&few, &initiator, 1000.0).is_err());
    }
}
