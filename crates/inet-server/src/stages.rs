//! Where the time of sends goes: our own marks, and those that programs and drivers leave in their
//! regions, put together to a table ([`abi::stages`]).
//!
//! Marks are kept until the report is asked for, at most [`MOST`]. A process is in one stage at a
//! time: from its mark until its next one. All that happens between the begin of a send and that of
//! the next is counted to the first, so the table is right for a program that sends, waits, and
//! sends again; what did not lead to a frame (turns for an acknowledgement) is left out.

use abi::stages::{Mark, Stage, StageReport, StageTime, TraceReader};

/// Marks kept: 2 MiB, the sends of minutes that are a millisecond apart.
const MOST: usize = 1 << 17;

/// The marks of one trace.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    pub(crate) on: bool,
    marks: Vec<Mark>,
    missed: u64,
}

impl Trace {
    /// Begins anew, or ends.
    pub(crate) fn set(&mut self, on: bool) {
        self.on = on;
        if on {
            (self.marks, self.missed) = (Vec::new(), 0);
        }
    }

    /// Makes a mark of our own.
    #[inline]
    pub(crate) fn mark(&mut self, stage: Stage) {
        if self.on {
            self.keep(Mark::now(stage));
        }
    }

    /// Takes all marks of another process.
    pub(crate) fn take(&mut self, from: &mut TraceReader) {
        // No more than its ring holds: who adds more meanwhile waits for the next turn.
        for _ in 0..abi::stages::MARKS {
            let Some(mark) = from.take() else { return };
            self.keep(mark);
        }
    }

    #[cold]
    fn keep(&mut self, mark: Mark) {
        if self.marks.len() < MOST {
            self.marks.push(mark);
        } else {
            self.missed += 1;
        }
    }

    /// What the marks so far tell; they are gone afterwards.
    pub(crate) fn report(&mut self) -> StageReport {
        let mut marks = std::mem::take(&mut self.marks);
        marks.sort_by_key(|mark| mark.at);
        let sends: Vec<[Option<Spent>; ROWS.len()]> = windows(&marks).map(spent).collect();
        let stages = ROWS.iter().enumerate().map(|(row, &(stage, process))| {
            let seen: Vec<Spent> = sends.iter().filter_map(|send| send[row]).collect();
            let mut nanos: Vec<u64> = seen.iter().map(|spent| spent.nanos).collect();
            nanos.sort_unstable();
            let sum = nanos.iter().fold(0_u64, |sum, nanos| sum.saturating_add(*nanos));
            StageTime {
                stage: stage.to_owned(),
                process: process.to_owned(),
                sends: seen.len() as u64,
                times: seen.iter().map(|spent| spent.times).sum(),
                median_ns: nanos.get(nanos.len() / 2).copied().unwrap_or(0),
                mean_ns: sum / (nanos.len().max(1) as u64),
            }
        });
        StageReport { sends: sends.len() as u64, missed: self.missed, stages: stages.collect() }
    }
}

/// The table's rows: what is done, and where.
const ROWS: [(&str, &str); 13] = [
    ("before request to inet server", "program"),
    ("request program -> inet", "program -> inet"),
    ("inet server dispatch", "inet"),
    ("TCP layer", "inet"),
    ("IP layer", "inet"),
    ("Ethernet layer", "inet"),
    ("before request to driver", "inet"),
    ("request inet -> driver", "inet -> driver"),
    ("driver dispatch", "driver"),
    ("I/O to NIC", "driver"),
    ("before result", "driver"),
    ("result driver -> inet", "driver -> inet"),
    ("send returns to program", "program"),
];

/// Time that one send spent in one row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Spent {
    times: u64,
    nanos: u64,
}

/// The marks of each send: from its first one to the first one of the next.
fn windows(marks: &[Mark]) -> impl Iterator<Item = &[Mark]> {
    let mut begins = Vec::new();
    let mut returned = true;
    for (index, mark) in marks.iter().enumerate() {
        match mark.stage {
            Stage::Send if returned => {
                begins.push(index);
                returned = false;
            }
            Stage::Returned => returned = true,
            _ => {}
        }
    }
    let ends = begins.clone().into_iter().skip(1).chain([marks.len()]);
    begins.into_iter().zip(ends).map(|(begin, end)| &marks[begin..end])
}

fn process(stage: Stage) -> u8 {
    match stage {
        Stage::Send | Stage::Request | Stage::Returned => 0,
        Stage::DriverDispatch | Stage::Io | Stage::HandBack | Stage::Result | Stage::DriverRest => {
            2
        }
        _ => 1,
    }
}

/// What one send spent in each row.
fn spent(marks: &[Mark]) -> [Option<Spent>; ROWS.len()] {
    let mut rows = [None; ROWS.len()];
    let mut add = |row: usize, nanos: u64| {
        let spent: &mut Spent = rows[row].get_or_insert_default();
        spent.times += 1;
        spent.nanos = spent.nanos.saturating_add(nanos);
    };
    for (index, mark) in marks.iter().enumerate() {
        let mut later = marks[index + 1..].iter();
        let Some(next) = later.find(|next| process(next.stage) == process(mark.stage)) else {
            continue;
        };
        let row = match (mark.stage, next.stage) {
            (Stage::Send, _) => 0,
            (Stage::Dispatch, Stage::Tcp) => 2,
            (Stage::Tcp, _) => 3,
            (Stage::Ip, _) => 4,
            (Stage::Ethernet, _) => 5,
            (Stage::Descriptor, _) => 6,
            (Stage::DriverDispatch, Stage::Io) => 8,
            (Stage::Io, _) => 9,
            (Stage::HandBack, _) => 10,
            (Stage::Request, _) => 12,
            _ => continue,
        };
        add(row, next.at.saturating_sub(mark.at));
    }
    // Ways between processes: from the first request to the first that heard of it.
    for (row, from, to) in [
        (1, Stage::Request, Stage::Dispatch),
        (7, Stage::DriverRequest, Stage::DriverDispatch),
        (11, Stage::Result, Stage::Dispatch),
    ] {
        let Some(begin) = marks.iter().position(|mark| mark.stage == from) else { continue };
        let heard = marks[begin..].iter().find(|mark| mark.stage == to);
        if let Some(heard) = heard {
            add(row, heard.at.saturating_sub(marks[begin].at));
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(marks: &[(u64, Stage)]) -> StageReport {
        let mut trace = Trace { on: true, ..Trace::default() };
        marks.iter().for_each(|&(at, stage)| trace.keep(Mark { at, stage }));
        trace.report()
    }

    fn row(report: &StageReport, name: &str) -> (u64, u64, u64) {
        let row = report.stages.iter().find(|row| row.stage == name).unwrap();
        (row.sends, row.times, row.median_ns)
    }

    #[test]
    fn each_stage_lasts_until_the_next_of_its_process() {
        use Stage::*;
        // One send of two frames, whose marks came in the order of the processes; and an
        // acknowledgement.
        let report = trace(&[
            (100, Send),
            (110, Request),
            (150, Returned),
            (130, Dispatch),
            (137, Tcp),
            (140, Ip),
            (141, Ethernet),
            (143, Descriptor),
            (146, Tcp),
            (150, Ip),
            (152, Ethernet),
            (155, Descriptor),
            (160, DriverRequest),
            (165, InetRest),
            (170, DriverDispatch),
            (172, Io),
            (182, HandBack),
            (183, Io),
            (195, HandBack),
            (197, Result),
            (205, DriverRest),
            (204, Dispatch),
            (206, InetRest),
            (300, DriverDispatch),
            (301, DriverRest),
        ]);
        assert_eq!(report.sends, 1);
        for (name, times, nanos) in [
            ("before request to inet server", 1, 10),
            ("request program -> inet", 1, 20),
            ("inet server dispatch", 1, 7),
            ("TCP layer", 2, 3 + 4),
            ("IP layer", 2, 1 + 2),
            ("Ethernet layer", 2, 2 + 3),
            ("before request to driver", 2, 3 + 5),
            ("request inet -> driver", 1, 10),
            ("driver dispatch", 1, 2),
            ("I/O to NIC", 2, 10 + 12),
            ("before result", 2, 1 + 2),
            ("result driver -> inet", 1, 7),
            ("send returns to program", 1, 40),
        ] {
            assert_eq!(row(&report, name), (1, times, nanos), "{name}");
        }
    }

    #[test]
    fn sends_are_told_apart_and_marks_are_bounded() {
        use Stage::{Request, Returned, Send};
        let send = |at| [(at, Send), (at + 5, Request), (at + 7, Send), (at + 9, Returned)];
        let report = trace(&[send(100), send(200), send(300)].concat());
        assert_eq!(report.sends, 3);
        assert_eq!(row(&report, "before request to inet server"), (3, 6, 7));
        assert_eq!(row(&report, "TCP layer"), (0, 0, 0));
        let mut trace = Trace::default();
        trace.mark(Send);
        assert_eq!(trace.report().sends, 0, "nobody wanted it");
        trace.set(true);
        (0..=MOST).for_each(|_| trace.mark(Send));
        let report = trace.report();
        assert_eq!((report.sends, report.missed), (1, 1));
    }
}
