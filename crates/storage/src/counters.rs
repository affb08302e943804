//! What a target counts, for each unit, each session and the whole target.
//!
//! Everything is plain memory of the target's one thread. Names and meanings are those of
//! docs/reference/counters.md.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Instant;

use iscsi::target::ConnectionCounters;
use scsi::Status;
use serde::{Deserialize, Serialize};

/// Counters by name.
pub type Counts = BTreeMap<String, u64>;

/// Buckets of a histogram of latencies. Bucket `i` counts commands of at most `16 << i`
/// microseconds that no bucket before counts; the last one counts all longer ones.
pub const LATENCY_BUCKETS: usize = 18;

/// The sense keys that errors are counted by (SPC-4 4.5.6).
const SENSE_KEYS: [(u8, &str); 9] = [
    (0x2, "unit.errors-not-ready"),
    (0x3, "unit.errors-medium"),
    (0x4, "unit.errors-hardware"),
    (0x5, "unit.errors-illegal-request"),
    (0x6, "unit.unit-attentions"),
    (0x7, "unit.errors-data-protect"),
    (0xa, "unit.errors-copy-aborted"),
    (0xb, "unit.errors-aborted-command"),
    (0xe, "unit.errors-miscompare"),
];

/// How long commands took.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencyHistogram {
    /// Such as `unit.read-latency-us`.
    pub name: String,
    /// All latencies together, microseconds.
    pub sum: u64,
    /// Commands by latency, [`LATENCY_BUCKETS`] numbers.
    pub buckets: Vec<u64>,
}

impl LatencyHistogram {
    /// The longest latency of a bucket, microseconds; `None` for the last one, which has no end.
    #[must_use]
    pub fn most(index: usize) -> Option<u64> {
        (index + 1 < LATENCY_BUCKETS).then(|| 16 << index)
    }
}

#[derive(Debug, Default)]
struct Latencies {
    sum: Cell<u64>,
    buckets: [Cell<u64>; LATENCY_BUCKETS],
}

impl Latencies {
    fn add(&self, micros: u64) {
        self.sum.set(self.sum.get() + micros);
        let bucket = (u64::BITS - (micros.saturating_sub(1) >> 4).leading_zeros()) as usize;
        add(&self.buckets[bucket.min(LATENCY_BUCKETS - 1)], 1);
    }

    fn histogram(&self, name: &str) -> LatencyHistogram {
        let buckets = self.buckets.iter().map(Cell::get).collect();
        LatencyHistogram { name: name.to_owned(), sum: self.sum.get(), buckets }
    }
}

fn add(cell: &Cell<u64>, more: u64) {
    cell.set(cell.get() + more);
}

/// What a command does, as far as counters tell it apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Read,
    Write,
    Flush,
    Unmap,
    Other,
}

impl Class {
    /// By operation code (SBC-3 table 13).
    fn of(opcode: u8) -> Self {
        match opcode {
            0x08 | 0x28 | 0xa8 | 0x88 => Self::Read,
            // Writes; with verification, ORWRITE, COMPARE AND WRITE.
            0x0a | 0x2a | 0xaa | 0x8a | 0x2e | 0xae | 0x8e | 0x8b | 0x89 => Self::Write,
            0x35 | 0x91 => Self::Flush,
            0x42 => Self::Unmap,
            _ => Self::Other,
        }
    }
}

/// Counters of a unit.
#[derive(Debug, Default)]
pub(crate) struct UnitCounters {
    reads: Cell<u64>,
    writes: Cell<u64>,
    flushes: Cell<u64>,
    unmaps: Cell<u64>,
    others: Cell<u64>,
    read_bytes: Cell<u64>,
    write_bytes: Cell<u64>,
    errors: [Cell<u64>; SENSE_KEYS.len()],
    conflicts: Cell<u64>,
    aborted: Cell<u64>,
    in_flight: Cell<u64>,
    read_latency: Latencies,
    write_latency: Latencies,
    flush_latency: Latencies,
}

impl UnitCounters {
    /// The counters by name.
    pub(crate) fn counts(&self) -> Counts {
        let Self { reads, writes, flushes, unmaps, others, read_bytes, write_bytes, .. } = self;
        let named = [
            ("unit.reads", reads),
            ("unit.writes", writes),
            ("unit.flushes", flushes),
            ("unit.unmaps", unmaps),
            ("unit.other-commands", others),
            ("unit.read-bytes", read_bytes),
            ("unit.write-bytes", write_bytes),
            ("unit.conflicts", &self.conflicts),
            ("unit.aborted", &self.aborted),
            ("unit.in-flight", &self.in_flight),
        ];
        let errors = SENSE_KEYS.iter().map(|(_, name)| *name).zip(&self.errors);
        named.into_iter().chain(errors).map(|(name, cell)| (name.to_owned(), cell.get())).collect()
    }

    /// The histograms, by name.
    pub(crate) fn histograms(&self) -> Vec<LatencyHistogram> {
        vec![
            self.flush_latency.histogram("unit.flush-latency-us"),
            self.read_latency.histogram("unit.read-latency-us"),
            self.write_latency.histogram("unit.write-latency-us"),
        ]
    }
}

/// A command that is under way, until it is dropped.
#[derive(Debug)]
pub(crate) struct CountedCommand {
    /// `None`: the command is at no unit.
    unit: Option<Rc<UnitCounters>>,
    class: Class,
    begun: Instant,
    over: bool,
}

impl CountedCommand {
    /// A command begins.
    pub(crate) fn begin(unit: Option<Rc<UnitCounters>>, opcode: u8) -> Self {
        if let Some(unit) = &unit {
            add(&unit.in_flight, 1);
        }
        Self { unit, class: Class::of(opcode), begun: Instant::now(), over: false }
    }

    /// It ends: `moved` bytes of a command that ends well, and the sense data of one that does not.
    pub(crate) fn end(
        &mut self,
        session: &SessionCounters,
        status: Status,
        sense: &[u8],
        moved: u64,
    ) {
        self.over = true;
        add(&session.commands, 1);
        let good = if status == Status::Good { moved } else { 0 };
        match self.class {
            Class::Read => add(&session.read_bytes, good),
            Class::Write => add(&session.write_bytes, good),
            _ => {}
        }
        let Some(unit) = &self.unit else { return };
        let micros = u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        match self.class {
            Class::Read => {
                add(&unit.reads, 1);
                add(&unit.read_bytes, good);
                unit.read_latency.add(micros);
            }
            Class::Write => {
                add(&unit.writes, 1);
                add(&unit.write_bytes, good);
                unit.write_latency.add(micros);
            }
            Class::Flush => {
                add(&unit.flushes, 1);
                unit.flush_latency.add(micros);
            }
            Class::Unmap => add(&unit.unmaps, 1),
            Class::Other => add(&unit.others, 1),
        }
        match status {
            Status::ReservationConflict => add(&unit.conflicts, 1),
            Status::CheckCondition => {
                let key = sense_key(sense);
                let place = SENSE_KEYS.iter().position(|(known, _)| *known == key);
                if let Some(errors) = place.and_then(|place| unit.errors.get(place)) {
                    add(errors, 1);
                }
            }
            _ => {}
        }
    }
}

/// The sense key of sense data in either format (SPC-4 4.5).
fn sense_key(sense: &[u8]) -> u8 {
    match *sense {
        [0x70 | 0xf0, _, key, ..] | [0x72, key, ..] => key & 0xf,
        _ => 0,
    }
}

impl Drop for CountedCommand {
    fn drop(&mut self) {
        if let Some(unit) = &self.unit {
            unit.in_flight.set(unit.in_flight.get().saturating_sub(1));
            if !self.over {
                add(&unit.aborted, 1);
            }
        }
    }
}

/// Counters of a session.
#[derive(Debug, Default)]
pub(crate) struct SessionCounters {
    commands: Cell<u64>,
    read_bytes: Cell<u64>,
    write_bytes: Cell<u64>,
}

impl SessionCounters {
    /// The counters by name, with those of the connection.
    pub(crate) fn counts(&self, connection: ConnectionCounters) -> Counts {
        let ConnectionCounters { r2ts, digest_errors, rejects } = connection;
        let named = [
            ("session.commands", self.commands.get()),
            ("session.read-bytes", self.read_bytes.get()),
            ("session.write-bytes", self.write_bytes.get()),
            ("session.r2ts", r2ts),
            ("session.digest-errors", digest_errors),
            ("session.rejects", rejects),
        ];
        named.map(|(name, value)| (name.to_owned(), value)).into()
    }
}

/// Counters of a target.
#[derive(Debug, Default)]
pub(crate) struct TargetCounters {
    pub(crate) logins: Cell<u64>,
    pub(crate) refused: Cell<u64>,
    pub(crate) dropped: Cell<u64>,
    pub(crate) reinstated: Cell<u64>,
    /// Of connections that have ended.
    ended: RefCell<ConnectionCounters>,
}

impl TargetCounters {
    /// One more.
    pub(crate) fn count(cell: &Cell<u64>) {
        add(cell, 1);
    }

    /// A connection has ended.
    pub(crate) fn take(&self, connection: ConnectionCounters) {
        let mut ended = self.ended.borrow_mut();
        *ended = *ended + connection;
    }

    /// The counters by name, with those of the connections that have not ended.
    pub(crate) fn counts(&self, sessions: usize, open: ConnectionCounters) -> Counts {
        let ConnectionCounters { r2ts, digest_errors, rejects } = *self.ended.borrow() + open;
        let named = [
            ("target.logins", self.logins.get()),
            ("target.logins-refused", self.refused.get()),
            ("target.logins-dropped", self.dropped.get()),
            ("target.sessions-reinstated", self.reinstated.get()),
            ("target.sessions", sessions as u64),
            ("target.r2ts", r2ts),
            ("target.digest-errors", digest_errors),
            ("target.rejects", rejects),
        ];
        named.map(|(name, value)| (name.to_owned(), value)).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_latency_has_its_bucket() {
        let latencies = Latencies::default();
        for micros in [0, 1, 16, 17, 32, 33, 16 << 16, (16 << 16) + 1, u64::from(u32::MAX)] {
            latencies.add(micros);
        }
        let LatencyHistogram { sum, buckets, .. } = latencies.histogram("x");
        assert_eq!(buckets[..4], [3, 2, 1, 0]);
        assert_eq!(buckets[16..], [1, 2]);
        assert_eq!(sum, 99 + (16 << 17) + 1 + u64::from(u32::MAX));
        assert_eq!((LatencyHistogram::most(0), LatencyHistogram::most(17)), (Some(16), None));
        assert_eq!(LatencyHistogram::most(16), Some(16 << 16));
    }

    #[test]
    fn commands_are_counted_by_what_they_do_and_how_they_end() {
        let (unit, session) = (Rc::new(UnitCounters::default()), SessionCounters::default());
        let begin = |opcode| CountedCommand::begin(Some(Rc::clone(&unit)), opcode);
        for (opcode, status, key) in [
            (0x88, Status::Good, 0),
            (0x28, Status::CheckCondition, 3),
            (0x8a, Status::Good, 0),
            (0x2a, Status::ReservationConflict, 0),
            (0x91, Status::Good, 0),
            (0x42, Status::Good, 0),
            (0x12, Status::CheckCondition, 6),
        ] {
            begin(opcode).end(&session, status, &[0x72, key, 0, 0], 512);
        }
        let (held, aborted) = (begin(0x28), begin(0x2a));
        drop(aborted);
        CountedCommand::begin(None, 0x12).end(&session, Status::Good, &[], 0);
        let counts = unit.counts();
        for (name, value) in [
            ("unit.reads", 2),
            ("unit.writes", 2),
            ("unit.flushes", 1),
            ("unit.unmaps", 1),
            ("unit.other-commands", 1),
            ("unit.read-bytes", 512),
            ("unit.write-bytes", 512),
            ("unit.errors-medium", 1),
            ("unit.unit-attentions", 1),
            ("unit.conflicts", 1),
            ("unit.aborted", 1),
            ("unit.in-flight", 1),
        ] {
            assert_eq!(counts[name], value, "{name}");
        }
        drop(held);
        assert_eq!(unit.counts()["unit.in-flight"], 0);
        let of = ConnectionCounters { r2ts: 4, digest_errors: 0, rejects: 0 };
        let session = session.counts(of);
        assert_eq!((session["session.commands"], session["session.r2ts"]), (8, 4));
    }

    #[test]
    fn what_connections_counted_outlives_them() {
        let target = TargetCounters::default();
        let of = |r2ts| ConnectionCounters { r2ts, digest_errors: 1, rejects: 0 };
        target.take(of(3));
        target.take(of(4));
        let counts = target.counts(1, of(5));
        assert_eq!((counts["target.r2ts"], counts["target.digest-errors"]), (12, 3));
    }
}
