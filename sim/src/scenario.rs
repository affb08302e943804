//! A scenario: the world that a seed means.

use core::time::Duration;

use inet::Instant;
use inet::tcp::{CongestionKind, KeepAlive, TcpConfig};

use crate::check::Rules;
use crate::esp::EspPlan;
use crate::link::{Gilbert, LinkConfig};
use crate::plan::{AppPlan, ReadPlan, Termination};
use crate::random::Random;
use crate::router::ETHERNET;

/// The kind of host at both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Connections without a stack.
    Bare,
    /// Whole stacks that speak IPv4.
    Whole,
    /// Whole stacks that speak IPv6.
    Ipv6,
    /// Whole stacks that protect IPv4 by ESP.
    Esp,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Bare, Self::Whole, Self::Ipv6, Self::Esp];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::Whole => "whole",
            Self::Ipv6 => "ipv6",
            Self::Esp => "esp",
        }
    }

    /// Length of an IP header, bytes.
    pub const fn ip_header(self) -> usize {
        if matches!(self, Self::Ipv6) { 40 } else { 20 }
    }

    /// Bytes of a frame before its IP packet. Negative if it has no IP header either.
    pub const fn overhead(self) -> isize {
        if matches!(self, Self::Bare) { -20 } else { ETHERNET as isize }
    }

    /// Every link takes packets of so many bytes (RFC 8200 5; for IPv4, what every host takes).
    const fn least_mtu(self) -> u16 {
        if matches!(self, Self::Ipv6) { 1280 } else { 576 }
    }
}

/// A world before it starts.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// The seed.
    pub seed: u64,
    /// The kind of host at both ends.
    pub kind: Kind,
    /// Largest IP packet, bytes.
    pub mtu: u16,
    /// Both links, by their sender.
    pub links: [LinkConfig; 2],
    /// Settings of both connections.
    pub tcp: [TcpConfig; 2],
    /// What both applications do.
    pub apps: [AppPlan; 2],
    /// Both sides connect at once, instead of one to the other.
    pub simultaneous: bool,
    /// Most frames that a host takes before it answers.
    pub batch: u64,
    /// Most frames that a host may send at a time.
    pub room: u64,
    /// The passive side listens.
    pub listens: bool,
    /// When the passive side gives up a peer that never came.
    pub gives_up: Duration,
    /// The side that is the Linux kernel, if one is.
    pub kernel: Option<usize>,
    /// IPv6 addresses are made of a router's prefix, not given.
    pub slaac: bool,
    /// Most probes for who has an IPv6 address already.
    pub dad_transmits: u8,
    /// How packets are protected, if they are.
    pub esp: Option<EspPlan>,
}

impl Scenario {
    /// What `seed` means.
    pub fn draw(seed: u64, kind: Kind) -> Self {
        let mut random = Random::new(seed);
        let mtu =
            [576, 1280, 1500, 1500, 9000][random.in_range(0..=4) as usize].max(kind.least_mtu());
        let severity = random.in_range(0..=3);
        let delay = Duration::from_micros(random.magnitude(10..=150_000));
        let rate = if random.chance(0.3) { 0 } else { random.magnitude(200_000..=10_000_000_000) };
        let links = [(); 2].map(|()| draw_link(&mut random, severity, delay, rate));
        let abrupt = random.chance(0.25);
        let bytes = most_bytes(&links, mtu);
        let tcp = [(); 2].map(|()| draw_tcp(&mut random, mtu));
        let apps =
            [0, 1].map(|side| draw_app(&mut random, bytes, abrupt, tcp[1 - side].recv_buffer));
        let batch = random.magnitude(1..=64);
        let room = random.magnitude(1..=256);
        let simultaneous = kind == Kind::Bare && random.chance(0.15);
        let mut scenario = Self {
            seed,
            kind,
            mtu,
            links,
            tcp,
            apps,
            simultaneous,
            batch,
            room,
            listens: true,
            gives_up: NEVER_CAME,
            kernel: None,
            slaac: false,
            dad_transmits: 0,
            esp: None,
        };
        if random.chance(0.3) {
            for link in &mut scenario.links {
                link.limits = draw_limits(&mut random, kind.least_mtu(), mtu);
            }
        }
        if kind == Kind::Ipv6 {
            scenario.slaac = random.chance(0.5);
            scenario.dad_transmits = random.in_range(0..=2) as u8;
        }
        if kind == Kind::Esp {
            scenario.esp = Some(draw_esp(&mut random));
        }
        for app in &mut scenario.apps {
            app.marks = draw_marks(&mut random);
        }
        if abrupt || !scenario.is_clean() || random.chance(0.3) {
            // A side must find out that its peer has vanished.
            let keep_alive = KeepAlive {
                idle: Duration::from_secs(30),
                interval: Duration::from_secs(5),
                probes: 9,
            };
            for tcp in &mut scenario.tcp {
                tcp.keep_alive = Some(keep_alive);
            }
        }
        scenario
    }

    /// A single stream of `bytes` over a given link, for measurements.
    pub fn stream(kind: Kind, link: &LinkConfig, tcp: TcpConfig, bytes: u64) -> Self {
        let app = |bytes| AppPlan {
            bytes,
            write_max: 65_536,
            send_limit: 8 << 20,
            joins: 1.0,
            think: Duration::ZERO,
            reading: ReadPlan::Greedy,
            termination: Termination::Orderly,
            option_changes: 0.0,
            marks: (0.0, 0.0),
        };
        Self {
            seed: 1,
            kind,
            mtu: tcp.mss + 40,
            links: [link.clone(), link.clone()],
            tcp: [tcp; 2],
            apps: [app(bytes), app(0)],
            simultaneous: false,
            batch: 1,
            room: 256,
            listens: true,
            gives_up: NEVER_CAME,
            kernel: None,
            slaac: false,
            dad_transmits: 0,
            esp: (kind == Kind::Esp).then_some(EspPlan::PLAIN),
        }
    }

    /// Whether a connection may rightly fail.
    pub fn is_severe(&self) -> bool {
        // A line that stays bad may outlast the retries of a side whose application has left.
        !self.listens
            || self.links.iter().any(|link| {
                link.gilbert.is_some() || link.total_loss() > 0.1 || !link.blackouts.is_empty()
            })
    }

    /// Whether nothing is ever lost.
    fn is_clean(&self) -> bool {
        let clean = |link: &LinkConfig| {
            let overflows = link.rate > 0 && link.queue < u64::MAX;
            link.total_loss() == 0.0 && link.burst.0 == 0.0 && link.limits.is_empty() && !overflows
        };
        !self.is_severe() && self.links.iter().all(clean)
    }

    /// The rules of a side, for the checkers.
    pub fn rules(&self, side: usize) -> Rules {
        let tcp = &self.tcp[side];
        Rules {
            rto_min: tcp.rto_min,
            rto_initial: tcp.rto_initial,
            rto_max: tcp.rto_max,
            delayed_ack: tcp.delayed_ack,
            time_wait: tcp.time_wait,
            fin_timeout: tcp.fin_timeout,
            // RFC 6928 2, whatever the setting.
            initial_window: 10,
            round_trip: self.links.iter().map(|link| link.delay).sum(),
            ip_header: self.kind.ip_header(),
            late: self.kernel == Some(side),
        }
    }

    /// The longest time without an event. It is the sum of so many consecutive timeouts, each twice
    /// as long as the one before, that losing as many transmissions is hardly possible.
    pub fn patience(&self) -> Duration {
        let pauses = self.apps.iter().map(|app| {
            let reading = match app.reading {
                ReadPlan::Greedy => Duration::ZERO,
                ReadPlan::Slow(_, pause) | ReadPlan::Pauses(pause) => pause,
            };
            app.think.max(reading)
        });
        let travel: Duration = self.links.iter().map(|link| self.travel(link)).sum();
        let dark = |link: &LinkConfig| {
            let blackouts = link.blackouts.iter().map(|(from, to)| *to - *from);
            blackouts.sum::<Duration>()
                + if link.burst.0 > 0.0 { link.burst.1 } else { Duration::ZERO }
        };
        let dark: Duration = self.links.iter().map(dark).sum();
        // A segment and its answer; what bursts lose comes together.
        let survives = |link: &LinkConfig| {
            let bad = link.gilbert.map_or(0.0, |gilbert| gilbert.loss * (1.0 - gilbert.leave));
            let overflow = if link.queue < u64::MAX && link.rate > 0 { 0.1 } else { 0.0 };
            (1.0 - link.total_loss()) * (1.0 - bad.min(0.8)) * (1.0 - overflow)
        };
        let lost = 1.0 - self.links.iter().map(survives).product::<f64>();
        let timeouts = if lost > 0.0 { (NEGLIGIBLE.ln() / lost.ln()).ceil() } else { 1.0 };
        // A packet that is too long is lost once more, in addition to other losses.
        let narrowings = self.links.iter().map(|link| link.limits.len()).sum::<usize>();
        let timeouts = timeouts.min(30.0) as u32 + narrowings as u32;
        let first = travel + Duration::from_secs(1);
        let mut own = Duration::from_secs(5);
        for number in 0..timeouts {
            own += (first * (1 << number.min(10))).min(Duration::from_secs(120));
        }
        // After a blackout the next timeout may be as far away as the blackout was long.
        own + dark * 2 + travel * 4 + pauses.sum::<Duration>()
    }

    /// How long a frame may be under way.
    fn travel(&self, link: &LinkConfig) -> Duration {
        let queue =
            if link.rate == 0 { 0.0 } else { 4.0 * f64::from(self.mtu) * 8.0 / link.rate as f64 };
        let queued = match link.queue {
            u64::MAX => 0.0,
            bytes => bytes as f64 * 8.0 / link.rate.max(1) as f64,
        };
        link.delay * 2 + link.jitter + Duration::from_secs_f64((queue + queued).min(60.0))
    }
}

/// When the passive side gives up a peer that never came: after its last SYN.
const NEVER_CAME: Duration = Duration::from_secs(400);

/// How unlikely a row of losses must be to count as impossible.
const NEGLIGIBLE: f64 = 1e-9;

fn draw_link(random: &mut Random, severity: u64, delay: Duration, rate: u64) -> LinkConfig {
    let mut link = LinkConfig::perfect(delay, rate);
    if severity == 0 && random.chance(0.6) {
        return link;
    }
    let most = [0.002, 0.01, 0.08, 0.3][severity as usize];
    let mut maybe =
        |p: f64, most: f64| if random.chance(p) { random.fraction() * most } else { 0.0 };
    link.loss = maybe(0.7, most);
    link.duplicate = maybe(0.4, 0.1);
    link.reorder = maybe(0.4, 0.2);
    link.corrupt = maybe(0.3, most / 3.0);
    let gilbert = maybe(0.3, most);
    link.burst.0 = maybe(0.3, most / 20.0);
    link.burst.1 = Duration::from_micros(random.magnitude(10..=400_000));
    if gilbert > 0.0 {
        // So that `gilbert` is the share that is lost, in bursts of 2 to 10.
        let loss = 0.5 + 0.5 * random.fraction();
        let leave = 0.1 + 0.4 * random.fraction();
        let enter = leave * gilbert / (loss - gilbert).max(0.1);
        link.gilbert = Some(Gilbert { enter, leave, loss });
    }
    link.jitter = delay.mul_f64(random.fraction());
    if random.chance(0.5) {
        link.queue = random.magnitude(20_000..=1_000_000);
    }
    if severity >= 2 && random.chance(0.3) {
        let mut at = Instant::ZERO;
        for _ in 0..random.in_range(1..=3) {
            at += Duration::from_millis(random.magnitude(1..=20_000));
            let end = at + Duration::from_millis(random.magnitude(10..=20_000));
            link.blackouts.push((at, end));
            at = end;
        }
    }
    link
}

/// How long packets may be, from when on.
fn draw_limits(random: &mut Random, least: u16, mtu: u16) -> Vec<(Instant, usize)> {
    let mut at = Instant::ZERO;
    let times = random.in_range(0..=3);
    (0..times)
        .map(|_| {
            at += Duration::from_millis(random.magnitude(0..=20_000));
            (at, random.in_range(least.into()..=mtu.into()) as usize)
        })
        .collect()
}

/// What these links carry in reasonable time.
fn most_bytes(links: &[LinkConfig; 2], mtu: u16) -> u64 {
    let loss = links.iter().map(|link| link.total_loss() + 3.0 * link.burst.0).fold(0.0, f64::max);
    let by_loss = match loss {
        l if l > 0.15 => 60_000,
        l if l > 0.04 => 250_000,
        l if l > 0.0 => 1_000_000,
        _ => 2_000_000,
    };
    let by_size = 1500 * u64::from(mtu);
    let rate = links[0].rate;
    let by_rate = if rate == 0 { u64::MAX } else { rate / 8 * 20 };
    by_loss.min(by_size).min(by_rate)
}

fn draw_tcp(random: &mut Random, mtu: u16) -> TcpConfig {
    TcpConfig {
        mss: mtu - 40,
        recv_buffer: random.magnitude(2048..=1 << 20) as usize,
        out_of_order_limit: random.magnitude(1..=512) as usize,
        nodelay: random.chance(0.3),
        delayed_ack: Duration::from_millis([1, 40, 40, 200][random.in_range(0..=3) as usize]),
        quick_acks: [0, 16][random.in_range(0..=1) as usize],
        window_scaling: random.chance(0.8),
        timestamps: random.chance(0.6),
        timestamp_offset: random.any() as u32,
        congestion_control: CongestionKind::ALL
            [random.in_range(0..=CongestionKind::ALL.len() as u64 - 1) as usize],
        ..TcpConfig::default()
    }
}

/// How packets are protected. Extended numbers are often about to need their upper half.
fn draw_esp(random: &mut Random) -> EspPlan {
    let (tunnel, extended) = (random.chance(0.5), random.chance(0.5));
    let window = random.magnitude(32..=4096) as u32;
    let before = match extended && random.chance(0.7) {
        true => (1 << 32) - random.magnitude(1..=5000),
        false => 0,
    };
    EspPlan { tunnel, extended, window, before }
}

/// How often an application ends records and marks bytes as urgent.
fn draw_marks(random: &mut Random) -> (f64, f64) {
    let mut maybe = |p: f64| if random.chance(p) { random.fraction() } else { 0.0 };
    (maybe(0.2), maybe(0.2))
}

fn draw_app(random: &mut Random, most: u64, abrupt: bool, peer_buffer: usize) -> AppPlan {
    let mut bytes = match random.in_range(0..=5) {
        0 => 0,
        1 | 2 => random.magnitude(1..=most),
        _ => random.in_range(most / 8..=most),
    };
    let write_max = random.magnitude(100..=65_536);
    // Writes of a few bytes each cost the simulation as much as large ones.
    bytes = bytes.min(write_max * 3000);
    let think = if random.chance(0.2) {
        bytes = bytes.min(write_max * 60);
        Duration::from_micros(random.magnitude(1..=300_000))
    } else {
        Duration::ZERO
    };
    let reading = match random.in_range(0..=3) {
        0 => {
            let step = random.magnitude(100..=peer_buffer.max(200) as u64) as usize;
            ReadPlan::Slow(step, Duration::from_micros(random.magnitude(10..=200_000)))
        }
        1 => ReadPlan::Pauses(Duration::from_micros(random.magnitude(10..=3_000_000))),
        _ => ReadPlan::Greedy,
    };
    let termination = match random.in_range(0..=2) {
        0 if abrupt => Termination::Hasty,
        1 if abrupt => Termination::Abort(random.magnitude(0..=most)),
        _ => Termination::Orderly,
    };
    AppPlan {
        bytes,
        write_max,
        send_limit: random.magnitude(1000..=1 << 20),
        joins: if random.chance(0.5) { random.fraction() } else { 1.0 },
        think,
        reading,
        termination,
        option_changes: if random.chance(0.3) { 0.1 } else { 0.0 },
        marks: (0.0, 0.0),
    }
}
