//! The world: hosts, links, applications and a clock, run to the end.

use core::time::Duration;
use std::panic::{AssertUnwindSafe, catch_unwind};

use inet::Instant;
use inet::tcp::SegmentRepr;

use crate::app::App;
use crate::bytes::Frame;
use crate::check::Check;
use crate::host::{Bare, Counts, Host, Whole};
use crate::link::{Fate, Link};
use crate::random::Random;
use crate::scenario::{Kind, Scenario};

/// Rounds at one moment after which the hosts are held to be busy with nothing.
const MAX_ROUNDS: u32 = 20_000;
/// Segments after which a world is held to be without end.
const MAX_SEGMENTS: u64 = 3_000_000;
/// How long a host waits until there is room for its frames again.
const DRAIN: Duration = Duration::from_micros(5);
/// When the passive side gives up a peer that never came.
const NEVER_CAME: Duration = Duration::from_secs(400);

/// How a world went.
#[derive(Debug, Clone)]
pub struct Report {
    /// How long it took, by its own clock, until both streams had ended.
    pub time: Duration,
    /// Bytes that both applications received.
    pub received: [u64; 2],
    /// Segments that both sides sent.
    pub segments: [u64; 2],
    /// Those of them that repeated something.
    pub repeated: [u64; 2],
    /// Why the connections failed, if they did.
    pub errors: [Option<inet::Error>; 2],
}

/// A world that runs.
pub struct World {
    scenario: Scenario,
    start: Instant,
    now: Instant,
    hosts: [Box<dyn Host>; 2],
    apps: [App; 2],
    links: [Link; 2],
    counts: [Counts; 2],
    check: Check,
    random: Random,
    verbose: bool,
    segments: u64,
    last_progress: Instant,
    progress: [u64; 4],
    finished: Option<Instant>,
}

impl World {
    /// The world of `scenario`; `verbose` prints every segment.
    pub fn new(scenario: Scenario, verbose: bool) -> Self {
        let mut random = Random::new(scenario.seed ^ 0x7461_7375_6b69);
        let now = Instant::from_nanos(random.in_range(0..=1 << 50));
        let keys = [random.any(), random.any()];
        let counts = [Counts::default(), Counts::default()];
        let hosts = [0, 1].map(|side| make_host(&scenario, now, side, &mut random));
        let apps = [0, 1].map(|side| {
            let plan = scenario.apps[side].clone();
            App::new(plan, [keys[side], keys[1 - side]], counts[side].clone(), random.fork())
        });
        let fragile_from = if scenario.kind == Kind::Whole { 14 } else { 0 };
        let links = [0, 1].map(|side: usize| {
            let mut config = scenario.links[side].clone();
            for (from, to) in &mut config.blackouts {
                (*from, *to) = (now + from.since(Instant::ZERO), now + to.since(Instant::ZERO));
            }
            Link::new(config, fragile_from, random.fork())
        });
        Self {
            scenario,
            start: now,
            now,
            hosts,
            apps,
            links,
            counts,
            check: Check::new(keys),
            random,
            verbose,
            segments: 0,
            last_progress: now,
            progress: [0; 4],
            finished: None,
        }
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// What went wrong, and how to see it again.
    pub fn run(mut self) -> Result<Report, String> {
        let run = || self.run_to_end().and_then(|()| self.judge());
        // The panic's own message is on standard error by now.
        let result = catch_unwind(AssertUnwindSafe(run)).unwrap_or(Err("panic".into()));
        result.map_err(|what| {
            let looks = [0, 1].map(|side| self.hosts[side].look());
            let (seed, kind) = (self.scenario.seed, self.scenario.kind.name());
            let at = (self.now - self.start).as_secs_f64();
            format!(
                "seed {seed} ({kind}), at {at:.6} s: {what}\n\
                 left: {:?}, {:?}\nright: {:?}, {:?}\n\
                 again: cargo run -p tasuki-sim -- --kind {kind} --seed {seed} --verbose",
                self.apps[0], looks[0], self.apps[1], looks[1],
            )
        })
    }

    fn run_to_end(&mut self) -> Result<(), String> {
        loop {
            self.run_moment()?;
            if self.hosts.iter_mut().all(|host| host.look().gone) && self.links_empty() {
                return Ok(());
            }
            let Some(next) = self.next_moment() else {
                return Err("nothing will ever happen again".into());
            };
            self.now = next;
            self.watch()?;
        }
    }

    fn links_empty(&self) -> bool {
        self.links.iter().all(|link| link.next_arrival().is_none())
    }

    /// All that happens now.
    fn run_moment(&mut self) -> Result<(), String> {
        for _ in 0..MAX_ROUNDS {
            let mut active = false;
            for side in 0..2 {
                active |= self.deliver(side);
                active |= self.apps[side].step(self.now, &mut *self.hosts[side])?;
                active |= self.send(side)?;
            }
            if !active {
                return Ok(());
            }
        }
        Err("busy with nothing".into())
    }

    fn deliver(&mut self, side: usize) -> bool {
        let batch = self.random.in_range(1..=self.scenario.batch);
        for taken in 0..batch {
            let Some(bytes) = self.links[1 - side].receive(self.now) else { return taken > 0 };
            let frame = Frame::new(bytes, &self.counts[side].frames);
            self.hosts[side].deliver(self.now, frame);
        }
        true
    }

    fn send(&mut self, side: usize) -> Result<bool, String> {
        if self.hosts[side].poll_at(self.now).is_none_or(|at| at > self.now) {
            return Ok(false);
        }
        let room = self.random.in_range(1..=self.scenario.room) as usize;
        let mut frames = Vec::new();
        self.hosts[side].poll(self.now, room, &mut frames);
        let full = frames.len() >= room;
        for frame in frames {
            self.send_frame(side, frame)?;
        }
        // No room: later.
        Ok(!full)
    }

    fn send_frame(&mut self, side: usize, frame: Vec<u8>) -> Result<(), String> {
        self.segments += 1;
        if self.segments > MAX_SEGMENTS {
            return Err("segments without end".into());
        }
        let segment = match self.hosts[side].segment(&frame) {
            Some((from, to, range)) => {
                let bytes = &frame[range];
                let parsed = SegmentRepr::parse(from, to, bytes).map_err(|e| e.to_string())?;
                let payload = &bytes[parsed.payload..];
                let result = self.check.sent(side, &parsed.repr, payload);
                if result.is_err() {
                    self.print(side, &parsed.repr, payload.len(), None);
                }
                result?;
                Some((parsed.repr, payload.len()))
            }
            None => None,
        };
        let fate = self.links[side].send(self.now, frame);
        if let Some((repr, len)) = segment {
            self.print(side, &repr, len, Some(fate));
        }
        Ok(())
    }

    fn print(&self, side: usize, repr: &SegmentRepr, len: usize, fate: Option<Fate>) {
        if !self.verbose {
            return;
        }
        let (seq, ack) = self.check.relative(side, repr);
        let flags: String = [(repr.syn, 'S'), (repr.fin, 'F'), (repr.rst, 'R'), (repr.psh, 'P')]
            .iter()
            .filter_map(|(set, name)| set.then_some(*name))
            .collect();
        let ack = ack.map_or(String::new(), |ack| format!(" ack {ack}"));
        let fate = match fate {
            Some(Fate::Carried) => String::new(),
            Some(fate) => format!("  {fate:?}"),
            None => "  WRONG".into(),
        };
        println!(
            "{:>14.6} {} {flags:4} {seq}+{len}{ack} win {}{fate}",
            self.now.as_nanos() as f64 / 1e9,
            if side == 0 { "->" } else { "<-" },
            repr.window,
        );
    }

    /// When something happens next.
    fn next_moment(&self) -> Option<Instant> {
        let arrivals = self.links.iter().filter_map(Link::next_arrival);
        let soon = self.now + DRAIN;
        let timers = self.hosts.iter().filter_map(|host| host.poll_at(self.now));
        let timers = timers.map(|at| if at <= self.now { soon } else { at });
        let wakes = self.apps.iter().filter_map(|app| app.wake(self.now));
        let gives_up = self.nobody_comes().then_some(self.start + NEVER_CAME);
        let gives_up = gives_up.filter(|at| *at > self.now);
        arrivals.map(|at| at.max(self.now)).chain(timers).chain(wakes).chain(gives_up).min()
    }

    /// Whether the active side has left and the passive one has not seen it.
    fn nobody_comes(&self) -> bool {
        self.apps[0].left && !self.apps[1].left && !self.apps[1].connected
    }

    /// Sees to it that something goes on.
    fn watch(&mut self) -> Result<(), String> {
        let over = |app: &App| app.eof || app.left;
        if self.finished.is_none() && self.apps.iter().all(over) {
            self.finished = Some(self.now);
        }
        let [a, b] = &self.apps;
        let progress = [a.consumed(), b.consumed(), a.sent, b.sent];
        let ended = u64::from(a.left) + u64::from(b.left) + u64::from(a.connected);
        if progress != self.progress || ended == 2 {
            self.progress = progress;
            self.last_progress = self.now;
        }
        if self.nobody_comes() && self.now - self.start >= NEVER_CAME {
            self.apps[1].leave(self.now, &mut *self.hosts[1]);
        }
        let quiet = self.now - self.last_progress;
        // TIME-WAIT, and an orphan's last words, take their time.
        let closing = self.apps.iter().all(|app| app.left);
        let patience =
            self.scenario.patience() + Duration::from_secs(if closing { 1600 } else { 0 });
        let opening = !self.apps[0].left && !self.apps[0].connected;
        if quiet > patience.max(Duration::from_secs(if opening { 140 } else { 0 })) {
            return Err(format!("no progress for {quiet:?}: {progress:?}"));
        }
        Ok(())
    }

    /// Looks at the result.
    fn judge(&self) -> Result<Report, String> {
        for (side, counts) in self.counts.iter().enumerate() {
            let live = (counts.chunks.count(), counts.frames.count());
            if live != (0, 0) {
                return Err(format!("side {side} still holds (chunks, frames) {live:?}"));
            }
        }
        let excused = self.scenario.is_severe() || !self.apps.iter().all(App::is_orderly);
        for side in 0..2 {
            let (own, peer) = (&self.apps[side], &self.apps[1 - side]);
            if own.received > peer.sent {
                return Err(format!("side {side} received more than was sent"));
            }
            if excused {
                continue;
            }
            if let Some(error) = own.error {
                return Err(format!("side {side} failed: {error}"));
            }
            if own.received != peer.bytes() || !own.eof {
                return Err(format!("side {side} received {} of {}", own.received, peer.bytes()));
            }
        }
        let totals = [0, 1].map(|side| self.check.totals(side));
        Ok(Report {
            time: self.finished.unwrap_or(self.now) - self.start,
            received: [0, 1].map(|side| self.apps[side].received),
            segments: totals.map(|(segments, _)| segments),
            repeated: totals.map(|(_, repeated)| repeated),
            errors: [0, 1].map(|side| self.apps[side].error),
        })
    }
}

/// A host whose numbers are, more often than chance has it, about to wrap.
fn make_host(scenario: &Scenario, now: Instant, side: usize, random: &mut Random) -> Box<dyn Host> {
    let mut tcp = scenario.tcp[side];
    if random.chance(0.3) {
        let clock = (now.as_nanos() / 1_000_000) as u32;
        tcp.timestamp_offset =
            0_u32.wrapping_sub(clock).wrapping_sub(random.magnitude(0..=60_000) as u32);
    }
    let iss = if random.chance(0.3) {
        0_u32.wrapping_sub(random.magnitude(0..=1_000_000) as u32)
    } else {
        random.any() as u32
    };
    let active = side == 0 || scenario.simultaneous;
    match scenario.kind {
        Kind::Bare => Box::new(Bare::new(now, side, active, tcp, iss)),
        Kind::Whole => Box::new(Whole::new(now, side, tcp, scenario.mtu, random.any())),
    }
}
