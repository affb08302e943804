//! Tasuki's own targets, beside the measured figures.

use serde::Serialize;

use crate::calls::Call;
use crate::found::Found;
use crate::handover;
use crate::protocol::Test;
use crate::report::{ratio, sizes};
use crate::row::{Row, RowFigure};
use crate::setup::{Role, Setup};
use crate::states::{Halting, ratio as ratio_in_state};

/// One line of the table.
#[derive(Debug, Serialize)]
pub(crate) struct Target {
    measure: &'static str,
    target: &'static str,
    parts: Vec<Part>,
}

/// One figure and its bound.
#[derive(Debug, Serialize)]
struct Part {
    what: String,
    /// The best of several figures. The worst one counts.
    best: Option<f64>,
    /// `None`: not measured.
    measured: Option<f64>,
    bound: Bound,
}

#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Bound {
    AtMost(f64),
    AtLeast(f64),
    /// For comparison only.
    None,
}

use Bound::{AtLeast, AtMost};

impl Part {
    fn is_met(&self) -> Option<bool> {
        let measured = self.measured?;
        match self.bound {
            AtMost(bound) => Some(measured <= bound),
            AtLeast(bound) => Some(measured >= bound),
            Bound::None => None,
        }
    }

    fn text(&self) -> String {
        let Self { what, best, measured, .. } = self;
        let Some(measured) = measured else { return format!("{what}: not measured") };
        let digits = if *measured >= 20.0 { 0 } else { 2 };
        let from = best.map(|best| format!("{best:.digits$} to ")).unwrap_or_default();
        let mark = if self.is_met() == Some(false) { " (missed)" } else { "" };
        format!("{what} {from}{measured:.digits$}{mark}")
    }
}

/// A single figure.
fn part(what: impl Into<String>, measured: Option<f64>, bound: Bound) -> Part {
    Part { what: what.into(), best: None, measured, bound }
}

/// Of several figures the worst, with the best beside it.
fn worst(what: impl Into<String>, figures: &[f64], bound: Bound) -> Part {
    let (least, most) =
        (figures.iter().copied().reduce(f64::min), figures.iter().copied().reduce(f64::max));
    let (best, measured) = match bound {
        AtLeast(_) => (most, least),
        AtMost(_) | Bound::None => (least, most),
    };
    Part { what: what.into(), best: best.filter(|_| figures.len() > 1), measured, bound }
}

/// Ratios of `compare`.
struct Ratios<'a>(&'a [Row]);

impl Ratios<'_> {
    fn rows(&self, test: Test) -> Vec<&Row> {
        let of_clients = self.0.iter().filter(|row| row.role == Role::Client);
        of_clients.filter(|row| row.sample.test == test).collect()
    }

    fn one(&self, test: Test, setup: Setup, size: u32, figure: RowFigure) -> Option<f64> {
        ratio(&self.rows(test), setup, size, figure)
    }

    fn rate(&self, test: Test, setup: Setup, size: u32) -> Option<f64> {
        self.one(test, setup, size, Row::sweep_rate)
    }

    /// Receive and send at one size.
    fn both(&self, setup: Setup, size: u32, bounds: [Bound; 2]) -> [Part; 2] {
        let what = |test| format!("{} {test}", setup.title());
        [
            part(what("receive"), self.rate(Test::Receive, setup, size), bounds[0]),
            part(what("send"), self.rate(Test::Send, setup, size), bounds[1]),
        ]
    }

    /// Median round trips at every size.
    fn round_trips(&self, setup: Setup, most: f64) -> Part {
        let rows = self.rows(Test::Rtt);
        let median: RowFigure = |row| row.sample.median_us;
        let all: Vec<f64> =
            sizes(&rows, median).iter().filter_map(|&s| ratio(&rows, setup, s, median)).collect();
        worst(setup.title(), &all, AtMost(most))
    }
}

/// All targets.
pub(crate) fn of(found: &Found) -> Vec<Target> {
    let ratios = Ratios(&found.compare);
    [short(&ratios), in_both_states(found), bulk(&ratios), called(found)]
        .into_iter()
        .flatten()
        .collect()
}

/// Round trips and connections.
fn short(ratios: &Ratios<'_>) -> Vec<Target> {
    let connects =
        |setup: Setup| part(setup.title(), ratios.rate(Test::Connect, setup, 64), AtLeast(1.0));
    vec![
        Target {
            measure: "round trip, 4 B to 8 KiB, over TAP, off: library / fused / split",
            target: "at most 0.75 / 1.0 / 1.2 at every size",
            parts: vec![
                ratios.round_trips(Setup::LibraryOff, 0.75),
                ratios.round_trips(Setup::FusedOff, 1.0),
                ratios.round_trips(Setup::SplitOff, 1.2),
            ],
        },
        Target {
            measure: "round trip between two programs over `wire:`, library / fused",
            target: "at most 0.5 / 1.0 x loopback",
            parts: vec![
                ratios.round_trips(Setup::WireLibrary, 0.5),
                ratios.round_trips(Setup::WireFused, 1.0),
            ],
        },
        Target {
            measure: "connect, request, close per second, off",
            target: "at least 1.0",
            parts: [Setup::SplitOff, Setup::FusedOff, Setup::LibraryOff].map(connects).into(),
        },
    ]
}

/// Round trips where nothing is tied to a processor.
fn in_both_states(found: &Found) -> Vec<Target> {
    let target = |measure, halting| Target {
        measure,
        target: "at most 1.2 / 1.2",
        parts: [Setup::FusedOff, Setup::SplitOff]
            .map(|setup| {
                part(setup.title(), ratio_in_state(&found.states, halting, setup), AtMost(1.2))
            })
            .into(),
    };
    vec![
        target("round trip, 64 B, as scheduled, with halts: fused / split", Halting::Halt),
        target("the same, without halts", Halting::Awake),
    ]
}

/// Bytes in bulk, in writes of 64 KiB unless another size is named.
fn bulk(ratios: &Ratios<'_>) -> Vec<Target> {
    const LARGE: u32 = 65536;
    let line = |measure, target, parts| Target { measure, target, parts };
    let many = |setups: &[Setup], receive: Bound, send: Bound| -> Vec<Part> {
        setups.iter().flat_map(|&setup| ratios.both(setup, LARGE, [receive, send])).collect()
    };
    let mut off = many(&[Setup::SplitOff], AtLeast(1.4), AtLeast(1.2));
    off.extend(many(&[Setup::Xdp], Bound::None, Bound::None));
    let small = ratios.both(Setup::SplitOff, 1024, [AtLeast(3.0), AtLeast(3.0)]);
    let cpu = |what, test| {
        let ratio = ratios.one(test, Setup::SplitOff, LARGE, Row::cpu_per_gib);
        part(what, ratio, AtMost(1.0))
    };
    let wire = [Setup::WireSplit, Setup::WireFused];
    let native = [
        Setup::WireSplitNative,
        Setup::WireFusedNative,
        Setup::WireSplitShared,
        Setup::WireFusedShared,
    ];
    let fused = [Setup::FusedNative, Setup::FusedShared];
    vec![
        line("one connection, 64 KiB, off, receive / send, split", "at least 1.4 / 1.2", off),
        line(
            "the same, on, POSIX, split",
            "at least 0.8 / 0.8",
            many(&[Setup::Split], AtLeast(0.8), AtLeast(0.8)),
        ),
        line(
            "the same, native, fused",
            "at least 1.0 / 1.0",
            many(&fused, AtLeast(1.0), AtLeast(1.0)),
        ),
        line("1 KiB writes, off, receive / send, split", "at least 3 / 3", small.into()),
        line(
            "two programs over `wire:`, 64 KiB, POSIX",
            "at least 1.0 x loopback",
            many(&wire, AtLeast(1.0), AtLeast(1.0)),
        ),
        line(
            "the same, native",
            "at least 2.0 x loopback",
            many(&native, AtLeast(2.0), AtLeast(2.0)),
        ),
        line(
            "CPU seconds per GiB, 64 KiB, off, split",
            "at most 1.0",
            vec![cpu("receive", Test::Receive), cpu("send", Test::Send)],
        ),
    ]
}

fn called(found: &Found) -> Vec<Target> {
    let figures = found.calls.iter().flat_map(|report| &report.figures);
    let null = |running: bool, count: u32| {
        let these = figures
            .clone()
            .filter(move |f| f.call == Call::Null && f.running == running && f.count == count);
        these.map(|f| (f.same_processor, f)).collect::<Vec<_>>()
    };
    let ratios = |running: bool, least: f64| {
        let server = if running { "running" } else { "sleeping" };
        let all = null(running, 100);
        let of = |same: bool| {
            all.iter().find(|(s, _)| *s == same).map(|(_, f)| f.single_ns / f.packaged_ns)
        };
        [("same processor", true), ("another", false)]
            .map(|(place, same)| part(format!("{server}, {place}"), of(same), AtLeast(least)))
    };
    let batches: Vec<f64> = [100, 1000]
        .iter()
        .filter_map(|&count| Some(null(true, count).iter().find(|(same, _)| !same)?.1.packaged_ns))
        .collect();
    let getpid = found.calls.as_ref().map(|report| report.kernel.getpid_ns);
    let cheaper: Vec<f64> =
        getpid.iter().flat_map(|g| batches.iter().map(move |b| g / b)).collect();
    let idle = found
        .idle
        .iter()
        .map(|idle| part(idle.mode.clone(), Some(idle.switches_per_second), AtMost(0.0)));
    vec![
        Target {
            measure: "100 null calls, packaged against singly, sleeping / running server",
            target: "at least 10 / 5 x",
            parts: [ratios(false, 10.0), ratios(true, 5.0)].into_iter().flatten().collect(),
        },
        Target {
            measure: "null call in a batch of 100 or more, running server",
            target: "at most 25 ns, 5 x cheaper than getpid",
            parts: vec![
                worst("ns", &batches, AtMost(25.0)),
                worst("times", &cheaper, AtLeast(5.0)),
            ],
        },
        handed("area hand-over, 4 KiB to 4 MiB", found, |figure| Some(figure.hand_over)),
        handed("area from party to party, 4 KiB to 4 MiB (what P1 measured)", found, |figure| {
            figure.moved
        }),
        Target {
            measure: "idle instance",
            target: "0 wake-ups",
            parts: if found.idle.is_empty() {
                vec![part("context switches", None, AtMost(0.0))]
            } else {
                idle.collect()
            },
        },
    ]
}

/// The target of a hand-over of any size.
fn handed(
    measure: &'static str,
    found: &Found,
    nanos: fn(&handover::HandoverFigure) -> Option<f64>,
) -> Target {
    let all: Vec<f64> = found.handover.iter().filter_map(nanos).collect();
    let more = part("ns more for each MiB", slope(found, nanos), AtMost(STEEP));
    let parts = vec![worst("ns", &all, AtMost(100.0)), more];
    Target { measure, target: "at most 100 ns, slope 0", parts }
}

/// Nanoseconds for each MiB (256 pages) that are no slope: less than one for 50 pages.
const STEEP: f64 = 5.0;

/// By how much `nanos` of a hand-over grow for each MiB: the line of least squares.
fn slope(found: &Found, nanos: fn(&handover::HandoverFigure) -> Option<f64>) -> Option<f64> {
    let mib = |figure: &handover::HandoverFigure| figure.size as f64 / f64::from(1 << 20);
    let point = |figure: &handover::HandoverFigure| Some((mib(figure), nanos(figure)?));
    let points: Vec<(f64, f64)> = found.handover.iter().filter_map(point).collect();
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let over: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    let under: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    (under > 0.0).then(|| over / under)
}

/// As Markdown.
pub(crate) fn table(targets: &[Target]) -> String {
    let mut text = "| measure | target | measured | |\n|---|---|---|---|\n".to_owned();
    for Target { measure, target, parts } in targets {
        let met: Vec<Option<bool>> = parts
            .iter()
            .filter(|part| !matches!(part.bound, Bound::None))
            .map(Part::is_met)
            .collect();
        let verdict = match met.as_slice() {
            all if all.contains(&Some(false)) => "missed",
            all if all.contains(&None) => "not measured",
            _ => "met",
        };
        let said: Vec<String> = parts.iter().map(Part::text).collect();
        text += &format!("| {measure} | {target} | {} | {verdict} |\n", said.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::idle::Idle;

    fn line(text: &str, measure: &str) -> String {
        text.lines().find(|line| line.contains(measure)).expect("the line").to_owned()
    }

    #[test]
    fn what_was_not_measured_is_neither_met_nor_missed() {
        let text = table(&of(&Found::default()));
        assert!(text.lines().skip(2).all(|line| line.ends_with("| not measured |")), "{text}");
    }

    #[test]
    fn the_worst_counts() {
        let row = |setup, round, size, median| {
            format!(
                "{{\"setup\":\"{setup}\",\"round\":{round},\"test\":\"rtt\",\"size\":{size},\
                 \"rate\":1,\"median_us\":{median},\"p99_us\":1,\"cpu\":null,\"gib\":0}}"
            )
        };
        let rows = [
            row("loopback", 0, 4, 10),
            row("wire-library", 0, 4, 5),
            row("wire-fused", 0, 4, 5),
            row("loopback", 0, 64, 10),
            row("wire-library", 0, 64, 4),
            row("wire-fused", 0, 64, 11),
        ];
        let compare = serde_json::from_str(&format!("[{}]", rows.join(","))).expect("rows");
        let idle = |mode: &str| Idle { mode: mode.to_owned(), switches_per_second: 0.0 };
        let found = Found { compare, idle: vec![idle("split"), idle("fused")], ..Found::default() };
        let text = table(&of(&found));
        let said = line(&text, "programs over `wire:`, library / fused");
        let end = "| library 0.40 to 0.50, fused 0.50 to 1.10 (missed) | missed |";
        assert!(said.ends_with(end), "{said}");
        assert!(line(&text, "idle").ends_with("| split 0.00, fused 0.00 | met |"), "{text}");
    }

    #[test]
    fn the_slope_of_a_hand_over() {
        let figure = |size, hand_over| {
            serde_json::json!({ "size": size, "hand_over": hand_over, "copying_send": 0.0,
                "moved": 40.0, "untouched": null,
                "alloc_and_drop": 0.0, "recv_and_drop": 0.0 })
        };
        let figures = serde_json::json!([figure(1 << 20, 90.0), figure(4 << 20, 120.0)]);
        let handover = serde_json::from_value(figures).expect("figures");
        let found = Found { handover, ..Found::default() };
        assert_eq!(slope(&found, |figure| Some(figure.hand_over)), Some(10.0));
        assert_eq!(slope(&found, |figure| figure.untouched), None);
        let text = table(&of(&found));
        let end = "| ns 40 to 40, ns more for each MiB 0.00 | met |";
        assert!(line(&text, "party to party").ends_with(end), "{text}");
        let said = line(&text, "hand-over");
        let end = "| ns 90 to 120 (missed), ns more for each MiB 10.00 (missed) | missed |";
        assert!(said.ends_with(end), "{said}");
    }
}
