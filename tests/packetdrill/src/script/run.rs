//! Playing a script.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use inet::Instant;

use super::parser::Script;
use super::state::{Flow, PORT, PacketOwner, PendingCall};
use super::syntax::{ACK, CWR, Ecn, Event, Fault, Packet, PacketBody, SYN, Segment, TcpOption};
use super::syntax::{Action, EventTime};
use super::{code, wire};
use crate::Host;
use crate::host::Link;

/// The first port of the peer.
const PEER_PORT: u16 = 50_000;
/// The first descriptor.
const FIRST_FD: i32 = 1000;

/// How exact times are to be.
#[derive(Debug, Clone, Copy)]
struct Tolerance {
    micros: i64,
    percent: f64,
}

/// The state of a run.
pub(super) struct Run {
    pub(super) host: Host,
    pub(super) local: IpAddr,
    pub(super) remote: IpAddr,
    pub(super) domain: i32,
    pub(super) fds: BTreeMap<i64, i32>,
    pub(super) owner: PacketOwner,
    pub(super) flow: Flow,
    /// The descriptor that TCP_INFO is asked of.
    pub(super) tested: Option<i32>,
    pub(super) pending: Option<PendingCall>,
    /// The line that is being played.
    pub(super) line: usize,
    begin: Instant,
    /// Time of the event before, and whether it was an inbound packet.
    last: Option<(i64, bool)>,
    tolerance: Tolerance,
    next_port: u16,
}

impl Script {
    /// Plays the script against a new host.
    ///
    /// # Errors
    /// The first thing that is not as the script says.
    pub fn run(&self) -> Result<(), Fault> {
        let mut run = self.prepare()?;
        for (command, line) in &self.setup {
            run.line = *line;
            run.command(command)?;
        }
        for event in &self.events {
            run.event(event)?;
        }
        run.finish()
    }

    fn prepare(&self) -> Result<Run, Fault> {
        let v4 = |d: u8| IpAddr::from([192, 168, 0, d]);
        let (mut local, mut remote) = (v4(1), IpAddr::from([192, 0, 2, 1]));
        let (mut mtu, mut joined, mut domain) = (1500, 0, libc::AF_INET);
        let mut tolerance = Tolerance { micros: 4000, percent: 12.5 };
        for (name, value, line) in &self.options {
            let bad = || Fault::new(*line, format!("--{name}={value} is not understood"));
            match &name[..] {
                "local_ip" => local = value.parse().map_err(|_| bad())?,
                "remote_ip" => remote = value.parse().map_err(|_| bad())?,
                "mtu" => mtu = value.parse().map_err(|_| bad())?,
                "mss" => joined = value.parse().map_err(|_| bad())?,
                "tolerance_usecs" => tolerance.micros = value.parse().map_err(|_| bad())?,
                "tolerance_percent" => tolerance.percent = value.parse().map_err(|_| bad())?,
                "ip_version" => match &value[..] {
                    "ipv4" => {}
                    "ipv6" => {
                        domain = libc::AF_INET6;
                        local = "fd3d:a0b:17d6::1".parse().map_err(|_| bad())?;
                        remote = "fd3d:fa7b:d17d::1".parse().map_err(|_| bad())?;
                    }
                    "ipv4-mapped-ipv6" => domain = libc::AF_INET6,
                    _ => return Err(bad()),
                },
                // The network's shape does not matter to a link with one neighbour.
                "gateway_ip" | "netmask_ip" | "tcp_ts_tick_usecs" | "tcp_ts_ecr_scaled" => {}
                _ => return Err(bad()),
            }
        }
        let prefix = if local.is_ipv4() { 16 } else { 48 };
        let host = Host::new(Link { local, prefix, mtu, joined }, FIRST_FD);
        Ok(Run {
            begin: host.now(),
            host,
            local,
            remote,
            domain,
            fds: BTreeMap::new(),
            owner: PacketOwner::Nothing,
            flow: Flow::default(),
            tested: None,
            pending: None,
            line: 1,
            last: None,
            tolerance,
            next_port: PEER_PORT,
        })
    }
}

impl Run {
    /// Microseconds since the script's start.
    pub(super) fn clock(&self, time: Instant) -> i64 {
        i64::try_from(time.since(self.begin).as_micros()).unwrap_or(i64::MAX)
    }

    fn now(&self) -> i64 {
        self.clock(self.host.now())
    }

    fn event(&mut self, event: &Event) -> Result<(), Fault> {
        self.line = event.line;
        let inbound = matches!(event.what, Action::Inbound(_));
        // Packets in a row count from each other, so that nothing adds up.
        let origin = match self.last {
            Some((time, true)) if inbound => time,
            _ => self.now(),
        };
        let (from, to) = match event.when {
            EventTime::Any => (self.now(), i64::MAX),
            EventTime::At { from, to, relative: true } => (origin + from, origin + to),
            EventTime::At { from, to, relative: false } => (from, to),
        };
        if let Action::Outbound(packet) = &event.what {
            self.expect_packet(packet, event.when, (from, to))?;
        } else {
            self.wait_until(from)?;
            self.line = event.line;
            if event.when != EventTime::Any {
                self.check_time(self.now(), (from, to), "the event")?;
            }
        }
        match &event.what {
            Action::Inbound(packet) => self.inject(packet)?,
            Action::Call(call) => {
                let end = call.end.map(|end| match event.when {
                    EventTime::At { relative: true, .. } => origin + end,
                    _ => end,
                });
                self.call(call, from, end)?;
            }
            Action::Command(text) => self.command(text)?,
            Action::Code(text) => self.code(text)?,
            Action::Outbound(_) => {}
        }
        self.last = Some((from, inbound));
        Ok(())
    }

    pub(super) fn fault<T>(&self, message: impl Into<String>) -> Result<T, Fault> {
        Err(Fault::new(self.line, message))
    }

    /// Whether something happened in time. The tolerance grows with the time since the last event.
    pub(super) fn check_time(
        &self,
        at: i64,
        (from, to): (i64, i64),
        what: &str,
    ) -> Result<(), Fault> {
        let last = self.last.map_or(from, |(last, _)| last);
        self.check_time_since(last, at, (from, to), what)
    }

    /// The same, with the time of another event before.
    pub(super) fn check_time_since(
        &self,
        last: i64,
        at: i64,
        (from, to): (i64, i64),
        what: &str,
    ) -> Result<(), Fault> {
        let since = from - last;
        let dynamic = (since as f64 * self.tolerance.percent / 100.0) as i64;
        let tolerance = self.tolerance.micros.max(dynamic);
        if at >= from - tolerance && at <= to.saturating_add(tolerance) {
            return Ok(());
        }
        let seconds = |micros: i64| micros as f64 / 1e6;
        self.fault(format!(
            "{what} is expected at {:.6} s and happens at {:.6} s",
            seconds(from),
            seconds(at)
        ))
    }

    /// Lets time go by, and a waiting call look whether it is over.
    fn wait_until(&mut self, micros: i64) -> Result<(), Fault> {
        let ahead = u64::try_from(micros - self.now()).unwrap_or(0);
        let target = self.host.now() + Duration::from_micros(ahead);
        while self.step(Some(target))? {}
        Ok(())
    }

    /// One step of the host, up to `limit`.
    fn step(&mut self, limit: Option<Instant>) -> Result<bool, Fault> {
        let patience = self.pending.as_ref().and_then(|pending| pending.until);
        let patience = patience.filter(|until| limit.is_none_or(|limit| *until <= limit));
        let more = self.host.step(patience.or(limit)) || patience.is_some();
        self.retry()?;
        Ok(more)
    }

    fn finish(&mut self) -> Result<(), Fault> {
        while self.pending.is_some() {
            if !self.step(None)? {
                return self.fault("a call still waits at the end of the script");
            }
        }
        Ok(())
    }

    /// The ends of the present flow, ours first.
    fn ends(&self) -> (SocketAddr, SocketAddr) {
        let local = SocketAddr::new(self.local, self.flow.local_port);
        (local, SocketAddr::new(self.remote, self.flow.remote_port))
    }

    /// Begins a flow with a peer's port that has not been used.
    fn new_flow(&mut self, local_port: u16, remote_port: Option<u16>) {
        let remote_port = remote_port.unwrap_or_else(|| {
            self.next_port += 1;
            self.next_port - 1
        });
        self.flow = Flow { local_port, remote_port, opening: true, ..Flow::default() };
        self.owner = PacketOwner::Flow;
    }

    /// `connect` was called: the next packet that leaves shows its port.
    pub(super) fn connecting(&mut self) {
        self.new_flow(0, Some(PORT));
    }

    fn inject(&mut self, packet: &Packet) -> Result<(), Fault> {
        if self.owner != PacketOwner::Flow {
            self.new_flow(PORT, None);
        }
        let mut live = packet.clone();
        match &mut live.carries {
            PacketBody::Tcp(segment) => {
                self.to_live(segment).or_else(|text| self.fault(text))?;
            }
            PacketBody::Icmp { echoed: super::syntax::QuotedPacket::Tcp { seq }, .. } => {
                *seq = seq.wrapping_add(self.flow.local_offset);
            }
            _ => {}
        }
        let (local, remote) = self.ends();
        let bytes = wire::encode(&live, remote, local).or_else(|text| self.fault(text))?;
        self.host.deliver(&bytes);
        self.retry()
    }

    /// Makes the script's numbers those of the host.
    fn to_live(&self, segment: &mut Segment) -> Result<(), String> {
        let offset = self.flow.local_offset;
        if segment.flags & ACK != 0 {
            segment.ack = segment.ack.wrapping_add(offset);
        }
        for option in segment.options.iter_mut().flatten() {
            match option {
                TcpOption::Sack(blocks) => {
                    for (first, last) in blocks {
                        *first = first.wrapping_add(offset);
                        *last = last.wrapping_add(offset);
                    }
                }
                TcpOption::Timestamps { ecr, .. } if segment.flags & ACK != 0 => {
                    let live = self.flow.stamps.get(ecr);
                    *ecr = *live.ok_or_else(|| format!("no timestamp {ecr} has left"))?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The next packet that leaves, however long it takes.
    fn next_packet(&mut self) -> Result<(wire::Seen, i64), Fault> {
        loop {
            if let Some(packet) = self.host.take_packet() {
                let seen = wire::decode(&packet.bytes).or_else(|text| self.fault(text))?;
                return Ok((seen, self.clock(packet.time)));
            }
            if !self.step(None)? && !self.host.has_packet() {
                return self.fault("no packet will ever leave");
            }
        }
    }

    fn expect_packet(
        &mut self,
        packet: &Packet,
        when: EventTime,
        times: (i64, i64),
    ) -> Result<(), Fault> {
        let (mut seen, mut at) = self.next_packet()?;
        let PacketBody::Tcp(wanted) = &packet.carries else {
            if when != EventTime::Any {
                self.check_time(at, times, "the packet")?;
            }
            return check_other(packet, &seen.carries).or_else(|text| self.fault(text));
        };
        let PacketBody::Tcp(first) = &mut seen.carries else {
            let message = format!("a segment is expected and {:?} leaves", seen.carries);
            return self.fault(message);
        };
        let mut whole = first.clone();
        // A segment that the script writes as one may leave as several.
        while whole.len < wanted.len {
            let (next, time) = self.next_packet().map_err(|Fault { line, message }| {
                let left = format!("of {} bytes {} have left", wanted.len, whole.len);
                Fault::new(line, format!("{message}; {left}"))
            })?;
            let PacketBody::Tcp(next) = next.carries else {
                return self.fault("a segment is expected and something else leaves");
            };
            let end = whole.seq.wrapping_add(u32::try_from(whole.len).unwrap_or(u32::MAX));
            if next.seq != end || next.len == 0 {
                return self.fault(self.differ(wanted, &whole, "other bytes"));
            }
            whole.len += next.len;
            // As packetdrill has it: the last one's flags, but CWR, which is the first one's.
            whole.flags = whole.flags & CWR | next.flags & !CWR;
            at = time;
        }
        self.learn(wanted, &whole, &seen);
        let (local, remote) = self.ends();
        if (seen.from, seen.to) != (local, remote) {
            let message = format!("`{whole}` leaves from {} to {}", seen.from, seen.to);
            return self.fault(message);
        }
        let whole = self.to_script(whole);
        if when != EventTime::Any {
            self.check_time(at, times, &format!("`{whole}`"))?;
        }
        check_ecn(packet, seen.tos).or_else(|text| self.fault(text))?;
        match difference(wanted, &whole) {
            None => Ok(()),
            Some(what) => self.fault(mismatch(wanted, &whole, what)),
        }
    }

    fn differ(&self, wanted: &Segment, live: &Segment, what: &str) -> String {
        mismatch(wanted, &self.to_script(live.clone()), what)
    }

    /// Learns from a flow's first segment where the host's numbers begin, and from all their
    /// timestamps.
    fn learn(&mut self, wanted: &Segment, live: &Segment, seen: &wire::Seen) {
        let flow = &mut self.flow;
        if flow.opening && live.flags & SYN != 0 {
            flow.opening = false;
            flow.local_offset = live.seq.wrapping_sub(wanted.seq);
            if flow.local_port == 0 {
                flow.local_port = seen.from.port();
            }
        }
        if let (Some(wanted), Some(live)) = (stamp(wanted), stamp(live)) {
            flow.stamps.insert(wanted, live);
        }
    }

    /// Makes the host's numbers those of the script.
    fn to_script(&self, mut live: Segment) -> Segment {
        live.seq = live.seq.wrapping_sub(self.flow.local_offset);
        live
    }

    fn command(&mut self, text: &str) -> Result<(), Fault> {
        let text = text.replace("\\\n", " ");
        for part in text.split(['\n', ';']).flat_map(|part| part.split("&&")) {
            let words: Vec<String> = part
                .split('"')
                .enumerate()
                .flat_map(|(place, piece)| match place % 2 {
                    // Quoted blanks do not separate.
                    1 => vec![format!("\u{1}{piece}")],
                    _ => piece.split_whitespace().map(str::to_owned).collect(),
                })
                .collect();
            let joined = words.join(" ").replace(" \u{1}", "").replace('\u{1}', "");
            let mut plain = joined.split_whitespace();
            match plain.next() {
                None | Some("ip" | "tc" | "ethtool" | "true") => {}
                Some("sysctl") => self.sysctl(&words)?,
                Some(other) => {
                    return self.fault(format!("the command `{other}` is not known"));
                }
            }
        }
        Ok(())
    }

    /// `sysctl -q name=value name="three numbers"`.
    fn sysctl(&mut self, words: &[String]) -> Result<(), Fault> {
        let mut settings: Vec<(String, String)> = Vec::new();
        for word in words.iter().skip(1).filter(|word| !word.starts_with('-')) {
            match (word.strip_prefix('\u{1}'), settings.last_mut()) {
                (Some(quoted), Some((_, value))) => value.push_str(quoted),
                (None, _) => {
                    let Some((name, value)) = word.split_once('=') else {
                        return self.fault(format!("`{word}` is not name=value"));
                    };
                    settings.push((name.to_owned(), value.to_owned()));
                }
                (Some(_), None) => return self.fault("a value without a name"),
            }
        }
        for (name, value) in settings {
            self.host.set_sysctl(&name, &value);
        }
        match self.host.sysctls().unknown().first() {
            Some(name) => self.fault(format!("the setting {name} is not known")),
            None => Ok(()),
        }
    }

    fn code(&mut self, text: &str) -> Result<(), Fault> {
        let Some(fd) = self.tested else { return self.fault("there is no socket to ask") };
        match self.host.tcp_info(fd) {
            Ok(info) => code::check(text, self.line, &info),
            Err(_) => self.fault("the socket has no TCP_INFO"),
        }
    }
}

/// The timestamp of a segment.
fn stamp(segment: &Segment) -> Option<u32> {
    segment.options.iter().flatten().find_map(|option| match option {
        TcpOption::Timestamps { val, .. } => Some(*val),
        _ => None,
    })
}

fn mismatch(wanted: &Segment, seen: &Segment, what: &str) -> String {
    format!("{what}\n    expected: > {wanted}\n    actual:   > {seen}")
}

/// The differences of `seen` from `wanted`.
fn difference(wanted: &Segment, seen: &Segment) -> Option<&'static str> {
    let ack = wanted.flags & ACK != 0;
    if wanted.flags != seen.flags {
        return Some("other flags");
    }
    if (wanted.seq, wanted.len) != (seen.seq, seen.len) {
        return Some("other bytes");
    }
    if ack && wanted.ack != seen.ack {
        return Some("another acknowledgement");
    }
    if wanted.window.is_some() && wanted.window != seen.window {
        return Some("another window");
    }
    if wanted.urgent != seen.urgent {
        return Some("another urgent pointer");
    }
    let wanted = wanted.options.as_ref()?;
    let same = |(wanted, seen): (&TcpOption, &TcpOption)| match (wanted, seen) {
        // The host's own timestamp is free; the one that it echoes is not.
        (TcpOption::Timestamps { ecr: a, .. }, TcpOption::Timestamps { ecr: b, .. }) => a == b,
        _ => wanted == seen,
    };
    let seen = seen.options.as_deref().unwrap_or_default();
    let equal = wanted.len() == seen.len() && wanted.iter().zip(seen).all(same);
    (!equal).then_some("other options")
}

fn check_ecn(packet: &Packet, tos: u8) -> Result<(), String> {
    let bits = tos & 3;
    let fits = match packet.ecn {
        Some(Ecn::Exactly(wanted)) => bits == wanted,
        Some(Ecn::Capable) => bits == 1 || bits == 2,
        None => packet.tos.is_none_or(|wanted| wanted == tos),
    };
    if fits { Ok(()) } else { Err(format!("the type of service is {tos:#x}")) }
}

/// Compares packets that are not TCP.
fn check_other(packet: &Packet, seen: &PacketBody) -> Result<(), String> {
    let fits = match (&packet.carries, seen) {
        (PacketBody::Udp { len: a }, PacketBody::Udp { len: b }) => a == b,
        (PacketBody::Icmp { kind: a, code: c, .. }, PacketBody::Icmp { kind: b, code: d, .. }) => {
            (a, c) == (b, d)
        }
        _ => false,
    };
    if fits { Ok(()) } else { Err(format!("{:?} is expected, {seen:?} leaves", packet.carries)) }
}
