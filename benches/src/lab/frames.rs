//! Packaged Linux calls where a driver meets the kernel: frames of a TAP device by writev(2) and
//! readv(2) one by one, and by io_uring. `tasuki-bench devices` measures; it needs root, since it
//! makes devices.

use anyhow::Result;
use lab::FigureKind;

use super::experiment::{FigurePlan, MeasuredValue, bytes_axis};
use super::part::{asked, two_processors};
use crate::devices::{DeviceFigure, Direction};

/// The series that others are compared with, as `tasuki-bench devices` names it.
const SINGLY: &str = "writev(2), readv(2) one by one";
/// The names of those that are shown beside it begin so.
const TOGETHER: &str = "io_uring";
/// Rounds of a sample; each moves hundreds of frames.
const ROUNDS: u32 = 10;
const QUICK_ROUNDS: u32 = 3;

/// Can they be measured here?
pub(super) fn may_measure() -> bool {
    rustix::process::geteuid().is_root()
}

/// Sending and receiving; `more_words` stand behind those of the command that repeats them.
pub(super) fn plans(more_words: &str) -> Vec<FigurePlan> {
    let plan = |name: &str, title: &str| FigurePlan {
        name: name.to_owned(),
        title: title.to_owned(),
        axis: bytes_axis("bytes of a frame"),
        unit: "ns",
        direction: lab::Direction::Lower,
        base: Some(SINGLY),
        words: format!("calls --frames{more_words}"),
        is_judged: false,
        kind: FigureKind::Lines,
        second: None,
    };
    vec![
        plan("frames-send", "Linux's own packaging in a driver: a frame to a TAP device"),
        plan("frames-receive", "Linux's own packaging in a driver: a frame from a TAP device"),
    ]
}

/// Both figures, of which the first is the one of that place.
pub(super) fn measure(first: usize, quick: bool) -> Result<Vec<MeasuredValue>> {
    let rounds = if quick { QUICK_ROUNDS } else { ROUNDS };
    let words = ["devices".to_owned(), "--only=tap".to_owned(), format!("--rounds={rounds}")];
    let found: Vec<DeviceFigure> = asked(&[&words[..], &two_processors()?].concat())?;
    let is_shown = |it: &DeviceFigure| it.way == SINGLY || it.way.starts_with(TOGETHER);
    let reading = |it: DeviceFigure| MeasuredValue {
        figure: first + usize::from(it.direction == Direction::Receive),
        x: it.frame as f64,
        y: 0.0,
        value: it.nanos,
        series: it.way,
    };
    Ok(found.into_iter().filter(is_shown).map(reading).collect())
}
