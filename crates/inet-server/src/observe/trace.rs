//! The trace of sends and receives: it shows where their time goes, in two tables.
//!
//! The trace has the server's own marks, and the marks that programs and drivers leave in their
//! regions ([`abi::stages`]). It keeps at most [`MOST`] marks until the report. A process is in one
//! stage at a time: from its mark until its next one.
//!
//! All marks between the begin of a send and the begin of the next send belong to the first. So the
//! table is right for a program that sends, waits, and sends again. Marks that did not lead to a
//! frame, such as iterations for an acknowledgement, are left out.
//!
//! In the same way a receive lasts from the first frame that the device gave to the first frame
//! after the program's return. That is right for a program that only waits.

use abi::stages::{Mark, StageReport, StageTime, TraceReader, TraceStage};

/// Marks kept: 2 MiB, the sends of minutes that are a millisecond apart.
const MOST: usize = 1 << 17;

/// Most single marks in a report: they are far below the longest message.
const MOST_SHOWN: usize = 1 << 14;

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

    /// Makes a mark of the server's own.
    #[inline]
    pub(crate) fn mark(&mut self, stage: TraceStage) {
        if self.on {
            self.keep(Mark::now(stage));
        }
    }

    /// Takes all marks of another process.
    pub(crate) fn take(&mut self, from: &mut TraceReader) {
        // No more than its ring holds: marks added meanwhile wait for the next iteration.
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

    /// The report on the marks so far, which are gone afterwards; with the newest `most` of them.
    pub(crate) fn report(&mut self, most: usize) -> StageReport {
        let mut marks = std::mem::take(&mut self.marks);
        marks.sort_by_key(|mark| mark.at);
        let (sends, stages) = SENDS.report(&marks);
        let (receives, receive_stages) = RECEIVES.report(&marks);
        let newest = marks.iter().skip(marks.len().saturating_sub(most.min(MOST_SHOWN)));
        let marks = newest.map(|mark| (mark.at, mark.stage)).collect();
        StageReport { sends, missed: self.missed, stages, receives, receive_stages, marks }
    }
}

/// The path of a send, or of a receive.
struct TracePath {
    /// A send begins with the first such mark after the end of the send before; so does a receive.
    begins: TraceStage,
    /// The program's call is over.
    ends: TraceStage,
    rows: &'static [TraceRow],
}

/// A row of a path's table: the stage in words, its process, and its time.
struct TraceRow(&'static str, &'static str, RowSpan);

enum RowSpan {
    /// From each mark of a stage until the next mark of its process. If a second stage is named,
    /// only times that end with it count.
    Until(TraceStage, Option<TraceStage>),
    /// Between processes: from the first mark of one stage to the next mark of the other.
    Between(TraceStage, TraceStage),
    /// As `Between` for the last two stages, after the first mark of the first stage.
    After(TraceStage, TraceStage, TraceStage),
}

use RowSpan::{After, Between, Until};

const SENDS: TracePath = TracePath {
    begins: TraceStage::Send,
    ends: TraceStage::Returned,
    rows: &[
        TraceRow("before request to inet server", "program", Until(TraceStage::Send, None)),
        TraceRow(
            "request program -> inet",
            "program -> inet",
            Between(TraceStage::Request, TraceStage::Dispatch),
        ),
        TraceRow(
            "inet server dispatch",
            "inet",
            Until(TraceStage::Dispatch, Some(TraceStage::Tcp)),
        ),
        TraceRow("TCP layer", "inet", Until(TraceStage::Tcp, None)),
        TraceRow("IP layer", "inet", Until(TraceStage::Ip, None)),
        TraceRow("Ethernet layer", "inet", Until(TraceStage::Ethernet, None)),
        TraceRow("before request to driver", "inet", Until(TraceStage::Descriptor, None)),
        TraceRow(
            "request inet -> driver",
            "inet -> driver",
            Between(TraceStage::DriverRequest, TraceStage::DriverDispatch),
        ),
        TraceRow(
            "driver dispatch",
            "driver",
            Until(TraceStage::DriverDispatch, Some(TraceStage::Io)),
        ),
        TraceRow("I/O to NIC", "driver", Until(TraceStage::Io, None)),
        TraceRow("before result", "driver", Until(TraceStage::HandBack, None)),
        TraceRow(
            "result driver -> inet",
            "driver -> inet",
            Between(TraceStage::Result, TraceStage::Dispatch),
        ),
        TraceRow("send returns to program", "program", Until(TraceStage::Request, None)),
    ],
};

const RECEIVES: TracePath = TracePath {
    begins: TraceStage::Read,
    ends: TraceStage::Received,
    rows: &[
        TraceRow("I/O from NIC", "driver", Until(TraceStage::Read, None)),
        TraceRow("before request to inet server", "driver", Until(TraceStage::HandOver, None)),
        TraceRow(
            "request driver -> inet",
            "driver -> inet",
            Between(TraceStage::Result, TraceStage::Dispatch),
        ),
        TraceRow(
            "inet server dispatch",
            "inet",
            Until(TraceStage::Dispatch, Some(TraceStage::EthernetInput)),
        ),
        TraceRow("Ethernet layer", "inet", Until(TraceStage::EthernetInput, None)),
        TraceRow("IP layer", "inet", Until(TraceStage::IpInput, None)),
        TraceRow("TCP layer", "inet", Until(TraceStage::TcpInput, None)),
        TraceRow("to the program's memory", "inet", Until(TraceStage::Deliver, None)),
        TraceRow("program's bell", "inet", Until(TraceStage::Announce, None)),
        TraceRow(
            "bell inet -> program",
            "inet -> program",
            After(TraceStage::Deliver, TraceStage::Announce, TraceStage::Recv),
        ),
        TraceRow(
            "recv returns to program",
            "program",
            Until(TraceStage::Recv, Some(TraceStage::Received)),
        ),
    ],
};

impl TracePath {
    /// The number of sends (receives), and their table.
    fn report(&self, marks: &[Mark]) -> (u64, Vec<StageTime>) {
        let windows: Vec<&[Mark]> = self.windows(marks).collect();
        let stages = self.rows.iter().map(|TraceRow(stage, process, lasts)| {
            let seen: Vec<Spent> = windows.iter().filter_map(|marks| lasts.spent(marks)).collect();
            let mut nanos: Vec<u64> = seen.iter().map(|spent| spent.nanos).collect();
            nanos.sort_unstable();
            let sum = nanos.iter().fold(0_u64, |sum, nanos| sum.saturating_add(*nanos));
            StageTime {
                stage: (*stage).to_owned(),
                process: (*process).to_owned(),
                seen: seen.len() as u64,
                times: seen.iter().map(|spent| spent.times).sum(),
                median_ns: nanos.get(nanos.len() / 2).copied().unwrap_or(0),
                mean_ns: sum / (nanos.len().max(1) as u64),
            }
        });
        (windows.len() as u64, stages.collect())
    }

    /// The marks of each finished send (receive): from its first mark to the first mark of the
    /// next.
    fn windows<'m>(&self, marks: &'m [Mark]) -> impl Iterator<Item = &'m [Mark]> {
        let (mut begins, mut over) = (Vec::new(), true);
        for (index, mark) in marks.iter().enumerate() {
            if mark.stage == self.begins && over {
                begins.push(index);
                over = false;
            } else if mark.stage == self.ends {
                over = true;
            }
        }
        let end = marks.len();
        let last = begins.pop().map(|begin| (begin, end));
        let next = begins.clone().into_iter().skip(1).chain(last.map(|(begin, _)| begin));
        let whole = begins.into_iter().zip(next).chain(last.filter(|_| over));
        whole.map(|(begin, end)| &marks[begin..end])
    }
}

/// Time that one send (receive) spent in one row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Spent {
    times: u64,
    nanos: u64,
}

impl RowSpan {
    /// Time of one send (receive) with these marks; `None` if it has no such time.
    fn spent(&self, marks: &[Mark]) -> Option<Spent> {
        let first = |marks: &[Mark], stage| marks.iter().position(|mark| mark.stage == stage);
        let between = |marks: &[Mark], from, to| {
            let begin = first(marks, from)?;
            let heard = begin + first(&marks[begin..], to)?;
            Some(Spent { times: 1, nanos: marks[heard].at.saturating_sub(marks[begin].at) })
        };
        match *self {
            Between(from, to) => between(marks, from, to),
            After(after, from, to) => between(&marks[first(marks, after)?..], from, to),
            Until(stage, until) => {
                let mut spent = Spent::default();
                for (index, mark) in marks.iter().enumerate().filter(|(_, m)| m.stage == stage) {
                    let mut later = marks[index + 1..].iter();
                    let next = later.find(|next| next.stage.process() == stage.process());
                    let next = next.filter(|next| until.is_none_or(|until| until == next.stage));
                    let Some(next) = next else { continue };
                    spent.times += 1;
                    spent.nanos = spent.nanos.saturating_add(next.at.saturating_sub(mark.at));
                }
                Some(spent).filter(|spent| spent.times > 0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(marks: &[(u64, TraceStage)]) -> StageReport {
        let mut trace = Trace { on: true, ..Trace::default() };
        marks.iter().for_each(|&(at, stage)| trace.keep(Mark { at, stage }));
        trace.report(0)
    }

    fn row(report: &StageReport, name: &str) -> (u64, u64, u64) {
        let row = report.stages.iter().find(|row| row.stage == name).unwrap();
        (row.seen, row.times, row.median_ns)
    }

    #[test]
    fn each_stage_lasts_until_the_next_of_its_process() {
        use TraceStage::*;
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
        use TraceStage::{Request, Returned, Send};
        let send = |at| [(at, Send), (at + 5, Request), (at + 7, Send), (at + 9, Returned)];
        let report = trace(&[send(100), send(200), send(300)].concat());
        assert_eq!(report.sends, 3);
        assert_eq!(row(&report, "before request to inet server"), (3, 6, 7));
        assert_eq!(row(&report, "TCP layer"), (0, 0, 0));
        let mut trace = Trace::default();
        trace.mark(Send);
        assert_eq!(trace.report(9).sends, 0, "nobody wanted it");
        trace.set(true);
        trace.mark(Send);
        trace.mark(Returned);
        (2..=MOST).for_each(|_| trace.mark(Request));
        let report = trace.report(2);
        assert_eq!((report.sends, report.missed), (1, 1));
        let shown: Vec<_> = report.marks.iter().map(|(_, stage)| *stage).collect();
        assert_eq!(shown, [Request, Request], "the newest");
    }

    #[test]
    fn a_receive_lasts_from_its_first_frame_to_the_next_ones() {
        use TraceStage::*;
        let receive = |at: u64| {
            // Two frames, joined to one; the program sleeps.
            let marks = [
                (0, Read),
                (4, HandOver),
                (5, Read),
                (8, HandOver),
                (10, Result),
                (14, DriverRest),
                (13, Dispatch),
                (16, EthernetInput),
                (17, IpInput),
                (19, TcpInput),
                (24, Deliver),
                (34, InetRest),
                (36, Tcp),
                (37, Ip),
                (40, Announce),
                (46, InetRest),
                (52, Recv),
                (60, Received),
                (61, Recv),
            ];
            marks.map(|(after, stage)| (at + after, stage))
        };
        // Before the first frame the program looks in vain; the last frame is nobody's yet.
        let marks =
            [&[(50, Recv)][..], &receive(100), &receive(200), &[(300, Read), (302, HandOver)]];
        let report = trace(&marks.concat());
        assert_eq!((report.sends, report.receives), (0, 2));
        for (name, times, nanos) in [
            ("I/O from NIC", 4, 4 + 3),
            ("request driver -> inet", 2, 3),
            ("inet server dispatch", 2, 3),
            ("TCP layer", 2, 5),
            ("to the program's memory", 2, 10),
            ("program's bell", 2, 6),
            ("bell inet -> program", 2, 12),
            ("recv returns to program", 2, 8),
        ] {
            let row = report.receive_stages.iter().find(|row| row.stage == name).unwrap();
            assert_eq!((row.seen, row.times, row.median_ns), (2, times, nanos), "{name}");
        }
    }
}
