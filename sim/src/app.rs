//! An application: it writes a stream in which each byte shows its position, and reads and verifies
//! the peer's.

use core::fmt;
use core::time::Duration;

use inet::{Error, Instant};

use crate::bytes::{Chunk, first_difference, stream_bytes};
use crate::check::WriteMark;
use crate::host::{Host, LiveCounts};
use crate::plan::{AppPlan, ReadPlan, Termination};
use crate::random::Random;

/// An application at one end.
pub struct App {
    plan: AppPlan,
    random: Random,
    /// Own stream and the peer's.
    keys: [u64; 2],
    counts: LiveCounts,
    address: u64,
    /// Bytes written.
    pub sent: u64,
    /// Bytes read.
    pub received: u64,
    /// Bytes read that were not yet given back to the host.
    unconsumed: usize,
    write_at: Instant,
    read_at: Instant,
    /// It has ended its stream.
    pub shut: bool,
    /// It has closed or aborted.
    pub left: bool,
    /// It has aborted.
    pub aborted: bool,
    /// It was connected once.
    pub connected: bool,
    /// The peer's stream has ended.
    pub eof: bool,
    /// Why its connection failed.
    pub error: Option<Error>,
    acked: u64,
    /// The marks of its writes, with the writes' ends, until [`take_marks`](Self::take_marks).
    marks: Vec<(u64, WriteMark)>,
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App")
            .field("plan", &self.plan)
            .field("sent", &self.sent)
            .field("acked", &self.acked)
            .field("received", &self.received)
            .field("unconsumed", &self.unconsumed)
            .field("connected", &self.connected)
            .field("shut", &self.shut)
            .field("eof", &self.eof)
            .field("left", &self.left)
            .field("error", &self.error)
            .finish_non_exhaustive()
    }
}

impl App {
    /// An application that writes the stream `keys[0]` and reads the stream `keys[1]`.
    pub fn new(plan: AppPlan, keys: [u64; 2], counts: LiveCounts, random: Random) -> Self {
        Self {
            plan,
            random,
            keys,
            counts,
            address: 0,
            sent: 0,
            received: 0,
            unconsumed: 0,
            write_at: Instant::ZERO,
            read_at: Instant::ZERO,
            shut: false,
            left: false,
            aborted: false,
            connected: false,
            eof: false,
            error: None,
            acked: 0,
            marks: Vec::new(),
        }
    }

    /// Does the application's next actions at `now`. True if it did anything.
    ///
    /// # Errors
    /// A fault of the bytes or events that the host gave it.
    pub fn step(&mut self, now: Instant, host: &mut dyn Host) -> Result<bool, String> {
        if self.left {
            return Ok(false);
        }
        let view = host.view();
        let mut active = view.acked != self.acked || (view.connected && !self.connected);
        if view.acked < self.acked && view.error.is_none() {
            return Err(format!("acked went back from {} to {}", self.acked, view.acked));
        }
        self.acked = view.acked;
        self.connected |= view.connected;
        self.eof |= view.eof;
        if view.acked > self.sent {
            return Err(format!("{} bytes acknowledged, {} sent", view.acked, self.sent));
        }
        if let Some(error) = view.error {
            self.error = Some(error);
            while self.read(now, host, usize::MAX)? > 0 {}
            self.leave(now, host);
            return Ok(true);
        }
        if !self.connected {
            return Ok(active);
        }
        active |= self.write(now, host)?;
        active |= self.read_some(now, host)?;
        active |= self.maybe_leave(now, host);
        Ok(active)
    }

    /// When it wants to act next, whatever happens.
    pub fn wake(&self, now: Instant) -> Option<Instant> {
        let idle = self.left || !self.connected;
        let writes = self.sent < self.plan.bytes;
        let reads = !self.eof || self.unconsumed > 0;
        [writes.then_some(self.write_at), reads.then_some(self.read_at)]
            .into_iter()
            .flatten()
            .filter(|at| !idle && *at > now)
            .min()
    }

    /// Closes early, as the scenario demands.
    pub fn leave(&mut self, now: Instant, host: &mut dyn Host) {
        if !self.left {
            self.left = true;
            host.close(now);
        }
    }

    /// Bytes that it has really used.
    pub fn consumed(&self) -> u64 {
        self.received - self.unconsumed as u64
    }

    /// Whether its stream must have arrived if nothing failed.
    pub fn is_orderly(&self) -> bool {
        self.plan.termination == Termination::Orderly
    }

    /// Length of its stream.
    pub fn bytes(&self) -> u64 {
        self.plan.bytes
    }

    /// The marks of its writes since the last call, with the writes' ends.
    pub fn take_marks(&mut self) -> Vec<(u64, WriteMark)> {
        core::mem::take(&mut self.marks)
    }

    /// Draws the marks of a write.
    fn draw_mark(&mut self) -> WriteMark {
        let (record, urgent) = self.plan.marks;
        let mut chance = |odds: f64| odds > 0.0 && self.random.chance(odds);
        WriteMark { record: chance(record), urgent: chance(urgent) }
    }

    fn write(&mut self, now: Instant, host: &mut dyn Host) -> Result<bool, String> {
        let mut active = false;
        while self.sent < self.plan.bytes
            && self.sent - self.acked < self.plan.send_limit
            && now >= self.write_at
        {
            if self.random.chance(self.plan.option_changes) {
                let buffer = self.random.magnitude(1000..=500_000) as usize;
                host.change(now, self.random.chance(0.5), self.random.chance(0.3), buffer);
            }
            let len =
                self.random.magnitude(1..=self.plan.write_max).min(self.plan.bytes - self.sent);
            let bytes = stream_bytes(self.keys[0], self.sent, len as usize);
            if !self.random.chance(self.plan.joins) {
                self.address += 1 << 20;
            }
            let chunk = Chunk::new(bytes, self.address, &self.counts.chunks);
            let mark = self.draw_mark();
            match host.send(now, chunk, mark) {
                Ok(()) => self.sent += len,
                // The connection fails just now; the next step reports it.
                Err(_) if host.view().error.is_some() => return Ok(true),
                Err(error) => return Err(format!("send: {error}")),
            }
            self.address += len;
            self.marks.extend((mark != WriteMark::default()).then_some((self.sent, mark)));
            active = true;
            if self.plan.think > Duration::ZERO {
                self.write_at = now + self.plan.think.mul_f64(self.random.fraction());
            }
        }
        if self.sent == self.plan.bytes && !self.shut && self.plan.termination != Termination::Hasty
        {
            self.shut = true;
            host.shutdown(now);
            active = true;
        }
        Ok(active)
    }

    fn read_some(&mut self, now: Instant, host: &mut dyn Host) -> Result<bool, String> {
        if now < self.read_at {
            return Ok(false);
        }
        let most = match self.plan.reading {
            ReadPlan::Slow(step, _) => step,
            ReadPlan::Greedy | ReadPlan::Pauses(_) => usize::MAX,
        };
        let got = self.read(now, host, most)?;
        let pause = match self.plan.reading {
            ReadPlan::Greedy => Duration::ZERO,
            ReadPlan::Slow(_, pause) => pause,
            ReadPlan::Pauses(longest) if self.random.chance(0.2) => {
                longest.mul_f64(self.random.fraction())
            }
            ReadPlan::Pauses(_) => Duration::ZERO,
        };
        if pause > Duration::ZERO && (got > 0 || self.unconsumed > 0) {
            self.read_at = now + pause;
        }
        self.eof = host.view().eof;
        Ok(got > 0)
    }

    /// Reads and consumes about `most` bytes; the rest of a piece is consumed later.
    fn read(&mut self, now: Instant, host: &mut dyn Host, most: usize) -> Result<usize, String> {
        let mut got = 0;
        while self.unconsumed < most
            && let Some(piece) = host.recv()
        {
            let bytes = piece.bytes();
            if bytes.is_empty() {
                return Err("an empty piece".into());
            }
            if let Some(at) = first_difference(self.keys[1], self.received, bytes) {
                return Err(format!("wrong byte at {}", self.received + at as u64));
            }
            self.received += bytes.len() as u64;
            self.unconsumed += bytes.len();
            got += bytes.len();
        }
        let take = self.unconsumed.min(most);
        if take > 0 {
            self.unconsumed -= take;
            host.consumed(now, take);
        }
        Ok(got.max(take))
    }

    fn maybe_leave(&mut self, now: Instant, host: &mut dyn Host) -> bool {
        match self.plan.termination {
            Termination::Orderly => {
                if self.shut && self.eof && self.unconsumed == 0 {
                    self.leave(now, host);
                }
            }
            Termination::Hasty => {
                if self.sent == self.plan.bytes {
                    self.leave(now, host);
                }
            }
            Termination::Abort(after) => {
                let over = self.shut && self.eof;
                if self.sent + self.received >= after || over {
                    (self.left, self.aborted) = (true, true);
                    host.abort(now);
                }
            }
        }
        self.left
    }
}
