//! The world: hosts, links, applications and a clock, run to the end.

use core::time::Duration;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use inet::Instant;

use crate::app::App;
use crate::bytes::Frame;
use crate::check::{Check, FlightInfo, SideStatus};
use crate::esp::Gate;
use crate::host::{ADDRESSES, BareHost, Host, LiveCounts, StackHost};
use crate::kernel::KernelHost;
use crate::link::{Link, LinkOutcome};
use crate::livelock::LivelockGuard;
use crate::random::Random;
use crate::record::{Direction, Recorder};
use crate::router::{self, ETHERNET, TooBig};
use crate::scenario::{Kind, Scenario};
use crate::wire::{self, Segment};

/// Rounds at one moment after which the hosts count as stuck in a livelock.
const MAX_ROUNDS: u32 = 20_000;
/// Frames that a host may hold. Beyond, it drops received frames (see `inet::Config::held_frames`).
const MOST_HELD_FRAMES: i64 = 700;
/// Wake-ups that a host may request in the hour after the end, for a neighbour cache or a lifetime.
const IDLE_WAKES: usize = 60;
/// How long a host waits until there is room for its frames again.
const DRAIN: Duration = Duration::from_micros(5);

/// Runs the world of `scenario`. If it fails, runs it again and keeps what both ends saw.
///
/// # Errors
/// The fault, the command that repeats it, and the file with its frames.
pub fn run(scenario: &Scenario) -> Result<Report, String> {
    World::new(scenario.clone(), false).run().map_err(|error| {
        let name = format!("tasuki-sim-{}-{}.pcapng", scenario.kind.name(), scenario.seed);
        let path = std::env::temp_dir().join(name);
        let mut world = World::new(scenario.clone(), false);
        world.record(&path);
        // It fails as it did before.
        let _ = world.run();
        format!("{error}\nkept: {}", path.display())
    })
}

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
    /// Whether both applications saw the end of the peer's stream.
    pub eofs: [bool; 2],
}

/// A world that runs.
pub struct World {
    scenario: Scenario,
    start: Instant,
    now: Instant,
    hosts: [Box<dyn Host>; 2],
    apps: [App; 2],
    links: [Link; 2],
    counts: [LiveCounts; 2],
    /// What each host lets through, if packets are protected.
    gates: [Option<Gate>; 2],
    /// Packets that each host had dropped for want of its neighbour (see [`Host::unresolved`]).
    unresolved: [u64; 2],
    check: Check,
    random: Random,
    verbose: bool,
    recorder: Option<(PathBuf, Recorder)>,
    livelock: LivelockGuard,
    /// The router's reports for a host without IP.
    too_big_reports: Vec<TooBig>,
    last_progress: Instant,
    progress: [u64; 4],
    finished: Option<Instant>,
    /// When it began, by the machine's clock.
    began: std::time::Instant,
}

impl World {
    /// The world of `scenario`; `verbose` prints every segment.
    pub fn new(scenario: Scenario, verbose: bool) -> Self {
        let mut random = Random::new(scenario.seed ^ 0x7461_7375_6b69);
        let now = Instant::from_nanos(random.in_range(0..=1 << 50));
        let keys = [random.any(), random.any()];
        let counts = [LiveCounts::default(), LiveCounts::default()];
        let hosts = [0, 1].map(|side| make_host(&scenario, now, side, &mut random));
        let apps = [0, 1].map(|side| {
            let plan = scenario.apps[side].clone();
            App::new(plan, [keys[side], keys[1 - side]], counts[side].clone(), random.fork())
        });
        // An IPv6 header has no checksum.
        let checksummed_from = match scenario.kind {
            Kind::Bare => 0,
            Kind::Whole | Kind::Esp => ETHERNET,
            Kind::Ipv6 => ETHERNET + scenario.kind.ip_header(),
        };
        let links = [0, 1].map(|side: usize| {
            let mut config = scenario.links[side].clone();
            for (from, to) in &mut config.blackouts {
                (*from, *to) = (now + from.since(Instant::ZERO), now + to.since(Instant::ZERO));
            }
            for (from, _) in &mut config.limits {
                *from = now + from.since(Instant::ZERO);
            }
            Link::new(config, checksummed_from, random.fork())
        });
        Self {
            start: now,
            now,
            hosts,
            apps,
            links,
            counts,
            gates: [(); 2].map(|()| scenario.esp.map(Gate::new)),
            unresolved: [0; 2],
            check: Check::new(keys, [0, 1].map(|side| scenario.rules(side))),
            random,
            verbose,
            recorder: None,
            livelock: LivelockGuard::new(now),
            too_big_reports: Vec::new(),
            scenario,
            last_progress: now,
            progress: [0; 4],
            finished: None,
            began: std::time::Instant::now(),
        }
    }

    /// Writes what both ends saw to a pcapng file, whatever the end.
    pub fn record(&mut self, path: &Path) {
        self.recorder = Some((path.to_owned(), Recorder::default()));
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// What went wrong, and how to see it again.
    pub fn run(mut self) -> Result<Report, String> {
        let run = || self.run_to_end().and_then(|()| self.judge());
        // The panic's own message is on standard error by now.
        let mut result = catch_unwind(AssertUnwindSafe(run)).unwrap_or(Err("panic".into()));
        if let Some((path, recorder)) = &self.recorder
            && let Err(error) = recorder.write(path, self.scenario.kind)
        {
            result = Err(error);
        }
        result.map_err(|what| {
            let looks = [0, 1].map(|side| self.hosts[side].view());
            let (seed, kind) = (self.scenario.seed, self.scenario.kind.name());
            let at = (self.now - self.start).as_secs_f64();
            format!(
                "seed {seed} ({kind}), at {at:.6} s: {what}\n\
                 left: {:?}, {:?}\nright: {:?}, {:?}\n\
                 again: cargo run --release -p tasuki-sim -- --kind {kind} --seed {seed} --verbose",
                self.apps[0], looks[0], self.apps[1], looks[1],
            )
        })
    }

    fn run_to_end(&mut self) -> Result<(), String> {
        loop {
            self.run_moment()?;
            self.observe()?;
            if self.hosts.iter_mut().all(|host| host.view().ended) && self.links_empty() {
                return Ok(());
            }
            let Some(next) = self.next_moment() else {
                return Err("nothing will ever happen again".into());
            };
            self.advance(next);
            self.watch()?;
        }
    }

    /// Advances time to `next`, or, if a host runs in real time, to its next event.
    fn advance(&mut self, next: Instant) {
        let time = next - self.now;
        if self.hosts.iter_mut().any(|host| host.wait(time)) {
            let passed = self.start + self.began.elapsed();
            self.now = self.now.max(passed);
        } else {
            self.now = next;
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
                active |= self.act(side)?;
                active |= self.send(side)?;
            }
            if !active {
                return Ok(());
            }
        }
        Err("busy with nothing".into())
    }

    /// Does the next actions of the application of `side`.
    fn act(&mut self, side: usize) -> Result<bool, String> {
        let (app, host) = (&mut self.apps[side], &mut *self.hosts[side]);
        let was_left = app.left;
        let mark = host.urgent_mark();
        let active = app.step(self.now, host)?;
        for (end, mark) in app.take_marks() {
            self.check.marked(side, end, mark);
        }
        if !was_left {
            self.check.told_urgent(side, mark, app.received)?;
        }
        Ok(active)
    }

    fn deliver(&mut self, side: usize) -> bool {
        let batch = self.random.in_range(1..=self.scenario.batch);
        let is_stack = self.scenario.kind != Kind::Bare;
        for taken in 0..batch {
            let Some(bytes) = self.links[1 - side].receive(self.now) else { return taken > 0 };
            self.note(side, Direction::In, &bytes);
            let segment = match self.scenario.kind {
                Kind::Bare => Some((ADDRESSES[1 - side], ADDRESSES[side], 0..bytes.len())),
                Kind::Whole | Kind::Ipv6 => wire::find(&bytes),
                Kind::Esp => self.gates[side].as_mut().and_then(|gate| gate.admit(&bytes)),
            };
            let segment =
                segment.and_then(|(from, to, at)| Segment::decode(from, to, &bytes[at]).ok());
            let standing = self.standing(side);
            self.check.delivered(self.now, side, segment.as_ref(), standing);
            let report = router::read_too_big(&bytes).filter(|_| is_stack);
            let report = match self.scenario.esp {
                Some(plan) => report.and_then(|report| plan.read_too_big(&bytes, report)),
                None => report,
            };
            if let Some(report) = report {
                self.check.note_too_big(self.now, side, report);
            }
            let frame = Frame::new(bytes, &self.counts[side].frames);
            self.hosts[side].deliver(self.now, frame);
        }
        true
    }

    fn note(&mut self, side: usize, direction: Direction, frame: &[u8]) {
        if let Some((_, recorder)) = &mut self.recorder {
            recorder.add(self.now - self.start, side, direction, frame);
        }
    }

    fn standing(&mut self, side: usize) -> SideStatus {
        let view = self.hosts[side].view();
        let app = &self.apps[side];
        SideStatus {
            state: view.state,
            shut: app.shut,
            left: app.left,
            aborted: app.aborted,
            failed: view.error.is_some() || app.error.is_some(),
            written: app.sent,
            consumed: app.consumed(),
            crowded: self.counts[side].frames.count() > MOST_HELD_FRAMES,
            flight: None,
        }
    }

    /// Looks at both hosts after a moment.
    fn observe(&mut self) -> Result<(), String> {
        for side in 0..2 {
            let standing = self.standing(side);
            self.check.observe(self.now, side, standing)?;
        }
        Ok(())
    }

    fn send(&mut self, side: usize) -> Result<bool, String> {
        if self.hosts[side].poll_at(self.now).is_none_or(|at| at > self.now) {
            return Ok(false);
        }
        let room = self.random.in_range(1..=self.scenario.room) as usize;
        let mut frames = Vec::new();
        self.hosts[side].poll(self.now, room, &mut frames);
        let full = frames.len() >= room;
        let unresolved = self.hosts[side].unresolved();
        if core::mem::replace(&mut self.unresolved[side], unresolved) != unresolved {
            self.check.note_unresolved(side);
        }
        for frame in frames {
            self.send_frame(side, frame)?;
        }
        // A host without IP receives the reports once it has sent all.
        for report in core::mem::take(&mut self.too_big_reports) {
            self.hosts[side].too_big(self.now, report.mtu as u16);
            self.check.note_too_big(self.now, side, report);
        }
        // No room: later.
        Ok(!full)
    }

    fn send_frame(&mut self, side: usize, frame: Vec<u8>) -> Result<(), String> {
        self.note(side, Direction::Out, &frame);
        let segment = match self.hosts[side].segment(&frame) {
            Some((from, to, range)) => {
                let bytes = &frame[range];
                let segment = Segment::decode(from, to, bytes)?;
                let payload = &bytes[bytes.len() - segment.len..];
                let info = self.hosts[side].info(self.now);
                let flight = info.map(|info| FlightInfo::from(&info));
                let standing = SideStatus { flight, ..self.standing(side) };
                let result = self.check.sent(self.now, side, &segment, payload, standing);
                if result.is_err() {
                    self.print(side, &segment, None);
                }
                result?;
                Some(segment)
            }
            None => {
                if wire::is_question(&frame) {
                    self.check.asked(self.now, side);
                }
                None
            }
        };
        self.livelock.sent(self.now)?;
        let limit = self.links[side].limit(self.now).filter(|limit| {
            frame.len().cast_signed() - self.scenario.kind.overhead() > limit.cast_signed()
        });
        let outcome = match limit {
            Some(limit) => {
                self.report_too_big(side, limit, &frame, segment.as_ref());
                LinkOutcome::TooBig(limit)
            }
            None => self.links[side].send(self.now, frame),
        };
        if let Some(segment) = segment {
            self.print(side, &segment, Some(outcome));
        }
        Ok(())
    }

    /// The router reports to `side` that its packets may have at most `limit` bytes. The message
    /// travels over the link from the other side.
    fn report_too_big(
        &mut self,
        side: usize,
        limit: usize,
        frame: &[u8],
        segment: Option<&Segment>,
    ) {
        if self.scenario.kind != Kind::Bare {
            if let Some(message) = router::too_big(frame, limit) {
                self.links[1 - side].send(self.now, message);
            }
        } else if let Some(segment) = segment {
            self.too_big_reports.push(TooBig { mtu: limit, seq: segment.seq });
        }
    }

    fn print(&self, side: usize, segment: &Segment, outcome: Option<LinkOutcome>) {
        if !self.verbose {
            return;
        }
        let (seq, ack) = self.check.relative_numbers(side, segment);
        let bits = [(segment.syn, 'S'), (segment.fin, 'F'), (segment.rst, 'R'), (segment.psh, 'P')];
        let flags: String = bits.iter().filter_map(|(set, name)| set.then_some(*name)).collect();
        let ack = ack.map_or(String::new(), |ack| format!(" ack {ack}"));
        let mut sack = String::new();
        for (left, right) in &segment.sack {
            let position = |seq: u32| {
                self.check.relative_numbers(1 - side, &Segment { seq, ..Segment::default() }).0
            };
            sack += &format!(" sack {}..{}", position(*left), position(*right));
        }
        let outcome = match outcome {
            Some(LinkOutcome::Carried) => String::new(),
            Some(outcome) => format!("  {outcome:?}"),
            None => "  WRONG".into(),
        };
        println!(
            "{:>14.6} {} {flags:4} {seq}+{}{ack}{sack} win {}{outcome}",
            (self.now - self.start).as_secs_f64(),
            if side == 0 { "->" } else { "<-" },
            segment.len,
            segment.window,
        );
    }

    /// When something happens next.
    fn next_moment(&self) -> Option<Instant> {
        let arrivals = self.links.iter().filter_map(Link::next_arrival);
        let soon = self.now + DRAIN;
        let timers = self.hosts.iter().filter_map(|host| host.poll_at(self.now));
        let timers = timers.map(|at| if at <= self.now { soon } else { at });
        let wakes = self.apps.iter().filter_map(|app| app.wake(self.now));
        let gives_up = self.is_abandoned().then_some(self.start + self.scenario.gives_up);
        let gives_up = gives_up.filter(|at| *at > self.now);
        let dues = [0, 1].into_iter().filter_map(|side| self.check.due(side));
        let dues = dues.map(|at| at + Duration::from_nanos(1)).filter(|at| *at > self.now);
        let timers = timers.chain(dues);
        arrivals.map(|at| at.max(self.now)).chain(timers).chain(wakes).chain(gives_up).min()
    }

    /// Whether the active side has left and the passive one has not seen it.
    fn is_abandoned(&self) -> bool {
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
            self.livelock.progress();
        }
        if self.is_abandoned() && self.now - self.start >= self.scenario.gives_up {
            self.apps[1].leave(self.now, &mut *self.hosts[1]);
        }
        let quiet = self.now - self.last_progress;
        // TIME-WAIT, and an orphan's last words, take their time.
        let closing = self.apps.iter().all(|app| app.left);
        let patience =
            self.scenario.patience() + Duration::from_secs(if closing { 1600 } else { 0 });
        let opening = !self.apps[0].left && !self.apps[0].connected;
        let least = match (self.is_abandoned(), opening) {
            (true, _) => self.scenario.gives_up * 2,
            (_, true) => Duration::from_secs(140),
            _ => Duration::ZERO,
        };
        if quiet > patience.max(least) {
            return Err(format!("no progress for {quiet:?}: {progress:?}"));
        }
        Ok(())
    }

    /// Checks that no host has timers left that repeat endlessly.
    fn run_idle(&mut self) -> Result<(), String> {
        for side in 0..2 {
            let (mut now, mut out) = (self.now, Vec::new());
            let end = now + Duration::from_secs(3600);
            for _ in 0..IDLE_WAKES {
                let Some(at) = self.hosts[side].poll_at(now).filter(|at| *at < end) else { break };
                now = now.max(at);
                self.hosts[side].poll(now, usize::MAX, &mut out);
            }
            if self.hosts[side].poll_at(now).is_some_and(|at| at < end) {
                return Err(format!("side {side} has timers, though all is over"));
            }
            if let Some(frame) = out.iter().find(|frame| self.hosts[side].segment(frame).is_some())
            {
                return Err(format!("side {side} sends though all is over: {frame:?}"));
            }
        }
        Ok(())
    }

    /// Looks at the result.
    fn judge(&mut self) -> Result<Report, String> {
        self.run_idle()?;
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
            eofs: [0, 1].map(|side| self.apps[side].eof),
        })
    }
}

/// Makes a host. Its sequence numbers and timestamps are about to wrap more often than by chance.
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
        Kind::Bare => Box::new(BareHost::new(now, side, active, tcp, iss)),
        Kind::Whole if scenario.kernel == Some(side) => Box::new(
            KernelHost::new(side, &tcp, scenario.mtu, scenario.listens)
                .unwrap_or_else(|error| panic!("the kernel's side: {error}")),
        ),
        Kind::Whole | Kind::Ipv6 | Kind::Esp => {
            Box::new(StackHost::new(now, side, scenario, tcp, random.any()))
        }
    }
}
