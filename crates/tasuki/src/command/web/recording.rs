//! A recording: for a second or so, the frames that pass the drivers, and the marks that programs,
//! inet server and drivers make in each stage.
//!
//! Both cost the instance time, so they are taken on request only, and one recording at a time.
//! Frames have the time of the system's clock, marks that of CLOCK_MONOTONIC: both clocks are read
//! at the begin, and all times are told from there on.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use abi::control::{CaptureHeader, ClientReply, ClientRequest};
use abi::stages::{StageReport, StageTime, TraceProcess, TraceStage};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use super::frames::{FrameReport, headers};
use crate::exit::Failure;
use crate::operator::Operator;
use crate::runtime_dir::InstanceName;

/// Bytes that are captured of each frame: the headers with all options.
const SNAPLEN: u32 = 160;
/// Most frames of a recording, the first.
const MOST_FRAMES: usize = 5000;
/// Most marks of a recording, the newest.
const MOST_MARKS: usize = 10_000;
/// How often a recording looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(100);

/// What is recorded, out of the address of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted {
    /// For how long.
    pub(super) lasts: Duration,
    /// Whose frames; the first interface's if it is not given.
    pub(super) interface: Option<String>,
}

impl Wanted {
    /// `seconds=1&interface=eth0`, each or none.
    ///
    /// # Errors
    /// A sentence about what is wrong.
    pub(super) fn parse(query: Option<&str>) -> Result<Self, String> {
        let mut wanted = Self { lasts: Duration::from_secs(1), interface: None };
        for pair in query.unwrap_or("").split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("seconds", text)) => {
                    let seconds = text.parse().ok().filter(|it| (0.05..=10.0).contains(it));
                    let seconds = seconds.ok_or("seconds is a number from 0.05 to 10")?;
                    wanted.lasts = Duration::from_secs_f64(seconds);
                }
                Some(("interface", name)) => {
                    let is_plain =
                        |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
                    if name.is_empty() || name.len() > 15 || !name.bytes().all(is_plain) {
                        return Err("interface is a name such as eth0".to_owned());
                    }
                    wanted.interface = Some(name.to_owned());
                }
                _ => return Err("a recording has seconds and interface only".to_owned()),
            }
        }
        Ok(wanted)
    }
}

/// The JSON of a recording.
#[derive(Serialize)]
struct Recording {
    /// Milliseconds since 1970 at its begin.
    began_ms: u64,
    lasted_ns: u64,
    frames: Vec<FrameReport>,
    /// Frames that the capture missed, or that are beyond the bound.
    frames_missed: u64,
    marks: Vec<MarkReport>,
    /// Marks that found no room in the instance.
    marks_missed: u64,
    sends: u64,
    stages: Vec<StageTime>,
    receives: u64,
    receive_stages: Vec<StageTime>,
}

/// A mark on the time axis.
#[derive(Serialize)]
struct MarkReport {
    at_ns: i64,
    process: TraceProcess,
    stage: TraceStage,
}

/// Runs one recording at a time.
#[derive(Clone, Default)]
pub(super) struct Recorder {
    runs: Arc<AtomicBool>,
    stops: Arc<AtomicBool>,
}

/// The right to record.
pub(super) struct Turn(Recorder);

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.runs.store(false, Ordering::Release);
    }
}

impl Recorder {
    /// The right to record; `None` while another one runs.
    pub(super) fn turn(&self) -> Option<Turn> {
        let is_free = !self.runs.swap(true, Ordering::Acquire);
        is_free.then(|| Turn(self.clone()))
    }

    /// Asks a recording to stop soon. Says whether one runs.
    pub(super) fn stop(&self) -> bool {
        self.stops.store(true, Ordering::Relaxed);
        self.runs.load(Ordering::Acquire)
    }
}

impl Turn {
    /// Records, and gives the JSON. It blocks.
    ///
    /// # Errors
    /// When the instance does not run, or refuses.
    pub(super) fn record(self, name: &InstanceName, wanted: &Wanted) -> Result<Vec<u8>, Failure> {
        // A connection of its own: the watcher's answers one request at a time.
        let mut operator = Operator::connect(name)?;
        let interface = wanted.interface.clone();
        let request = ClientRequest::Capture { snaplen: SNAPLEN, interface };
        let socket = match operator.ask(&request)? {
            (ClientReply::Capture, fds) => <[OwnedFd; 1]>::try_from(fds),
            (other, _) => return Err(operator.unexpected(&other)),
        };
        let Ok([socket]) = socket else {
            return Err(Failure::system("record", "the instance gave no socket for frames"));
        };
        trace(&mut operator, true)?;
        let begin = Begin::now();
        let frames = self.frames(&operator, &socket, wanted.lasts, &begin);
        // Marks are switched off also where frames failed.
        let report = trace(&mut operator, false)?;
        let lasted = begin.since.elapsed();
        let recording = assemble(&begin, lasted, frames?, report);
        serde_json::to_vec(&recording).map_err(|error| Failure::system("encode frames", error))
    }

    /// Frames until the time is over, and how many are missing.
    fn frames(
        &self,
        operator: &Operator,
        socket: &OwnedFd,
        lasts: Duration,
        begin: &Begin,
    ) -> Result<(Vec<FrameReport>, u64), Failure> {
        let mut buffer = vec![0; CaptureHeader::LEN + SNAPLEN as usize];
        let (mut frames, mut missed) = (Vec::new(), 0_u64);
        loop {
            let left = lasts.saturating_sub(begin.since.elapsed());
            if left.is_zero() || self.0.stops.load(Ordering::Relaxed) {
                return Ok((frames, missed));
            }
            match rustix::net::recv(socket, &mut buffer[..], RecvFlags::DONTWAIT) {
                // The driver has ended, and the instance with it.
                Ok((0, _)) | Err(Errno::CONNRESET) => return Ok((frames, missed)),
                Ok((len, _)) => {
                    let frame = frame(&buffer[..len.min(buffer.len())], begin);
                    let Some(frame) = frame else { continue };
                    missed = missed.saturating_add(frame.missed);
                    if frames.len() < MOST_FRAMES {
                        frames.push(frame);
                    } else {
                        missed = missed.saturating_add(1);
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => wait(socket, operator, left.min(LOOK)),
                Err(errno) => return Err(Failure::system("read frames", errno)),
            }
        }
    }
}

/// The begin of a recording by all clocks.
struct Begin {
    since: Instant,
    system_ns: u64,
    monotonic_ns: u64,
}

impl Begin {
    fn now() -> Self {
        let system = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let monotonic = clock_gettime(ClockId::Monotonic);
        let seconds = monotonic.tv_sec.cast_unsigned().wrapping_mul(1_000_000_000);
        Self {
            since: Instant::now(),
            system_ns: u64::try_from(system.as_nanos()).unwrap_or(u64::MAX),
            monotonic_ns: seconds.wrapping_add(monotonic.tv_nsec.cast_unsigned()),
        }
    }
}

/// Nanoseconds from `begin` to `at`, however absurd they are.
fn after(begin: u64, at: u64) -> i64 {
    at.wrapping_sub(begin).cast_signed()
}

fn frame(datagram: &[u8], begin: &Begin) -> Option<FrameReport> {
    let header = CaptureHeader::decode(datagram)?;
    Some(FrameReport {
        at_ns: after(begin.system_ns, header.at),
        sent: header.sent,
        len: header.len,
        missed: header.missed,
        headers: headers(datagram.get(CaptureHeader::LEN..)?, header.len),
    })
}

fn wait(socket: &OwnedFd, operator: &Operator, most: Duration) {
    let most = Timespec { tv_sec: 0, tv_nsec: most.subsec_nanos().into() };
    let mut fds = [
        PollFd::new(socket, PollFlags::IN),
        PollFd::from_borrowed_fd(operator.line(), PollFlags::RDHUP),
    ];
    // Whatever it says, the caller looks again.
    let _ = poll(&mut fds, Some(&most));
}

fn trace(operator: &mut Operator, on: bool) -> Result<StageReport, Failure> {
    let marks = if on { 0 } else { MOST_MARKS };
    match operator.ask(&ClientRequest::Trace { on, marks })? {
        (ClientReply::Stages(report), _) => Ok(report),
        (other, _) => Err(operator.unexpected(&other)),
    }
}

fn assemble(
    begin: &Begin,
    lasted: Duration,
    (frames, frames_missed): (Vec<FrameReport>, u64),
    report: StageReport,
) -> Recording {
    let marks = report.marks.into_iter().map(|(at, stage)| MarkReport {
        at_ns: after(begin.monotonic_ns, at),
        process: stage.process(),
        stage,
    });
    Recording {
        began_ms: begin.system_ns / 1_000_000,
        lasted_ns: u64::try_from(lasted.as_nanos()).unwrap_or(u64::MAX),
        frames,
        frames_missed,
        marks: marks.collect(),
        marks_missed: report.missed,
        sends: report.sends,
        stages: report.stages,
        receives: report.receives,
        receive_stages: report.receive_stages,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wanted() {
        let wanted = |query| Wanted::parse(query).map(|it| (it.lasts.as_millis(), it.interface));
        assert_eq!(wanted(None), Ok((1000, None)));
        assert_eq!(wanted(Some("")), Ok((1000, None)));
        assert_eq!(wanted(Some("seconds=0.25")), Ok((250, None)));
        assert_eq!(
            wanted(Some("seconds=10&interface=eth1")),
            Ok((10_000, Some("eth1".to_owned())))
        );
        for wrong in [
            "seconds=0",
            "seconds=11",
            "seconds=x",
            "seconds=NaN",
            "interface=",
            "interface=../../x",
            "interface=abcdefghijklmnop",
            "interface=%00",
            "x=1",
            "seconds",
        ] {
            assert!(wanted(Some(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn one_recording_at_a_time() {
        let recorder = Recorder::default();
        let turn = recorder.turn();
        assert!(turn.is_some() && recorder.turn().is_none() && recorder.stop());
        drop(turn);
        assert!(recorder.turn().is_some());
    }

    #[test]
    fn times_are_told_from_the_begin() {
        assert_eq!((after(10, 12), after(10, 7)), (2, -3));
        let begin = Begin { since: Instant::now(), system_ns: 1000, monotonic_ns: 5 };
        let header = CaptureHeader { at: 1500, len: 60, sent: true, missed: 2 };
        let shown = frame(&[&header.encode()[..], &[0; 60]].concat(), &begin).unwrap();
        assert_eq!((shown.at_ns, shown.len, shown.sent, shown.missed), (500, 60, true, 2));
        assert!(frame(b"short", &begin).is_none());
        let marks = vec![(6, TraceStage::Send), (9, TraceStage::Io)];
        let report = StageReport { marks, missed: 3, ..StageReport::default() };
        let recording = assemble(&begin, Duration::from_nanos(9), (vec![shown], 4), report);
        let json = serde_json::to_value(&recording).unwrap();
        assert_eq!(json["marks"][1]["at_ns"], 4);
        assert_eq!(json["marks"][1]["process"], "driver");
        assert_eq!(json["marks"][0]["stage"], "send");
        let page = include_str!("../../../../../docs/reference/web.md");
        let keys = json.as_object().unwrap().keys();
        let inner = ["frames", "marks"].map(|key| json[key][0].as_object().unwrap().keys());
        for key in keys.chain(inner.into_iter().flatten()) {
            assert!(page.contains(&format!("`{key}`")), "docs/reference/web.md has no {key}");
        }
    }
}
