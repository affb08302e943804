//! One application script and one fault seed, run twice: once with the kernel's TCP at one end,
//! once with Tasuki's. Both runs must have the same outcome.
//!
//! The other end is Tasuki's core in both runs, so only the subject differs. With the kernel the
//! world runs in real time over a TAP device ([`KernelHost`](crate::kernel::KernelHost)). Otherwise
//! it runs in virtual time. Two things are compared at both ends: whether the peer's whole stream
//! arrived and ended, and the error of a failed connection. The length of a cut-off stream depends
//! on timing and is not compared. The checkers look at every segment in both runs.

use core::fmt;
use core::time::Duration;

use inet::tcp::{KeepAlive, TcpConfig};
use inet::{Error, Instant};

use crate::link::LinkConfig;
use crate::plan::{AppPlan, ReadPlan, Termination};
use crate::random::Random;
use crate::scenario::{Kind, Scenario};
use crate::world::{Report, World};

/// The kind of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Script {
    /// Both sides send, shut and read to the end.
    Exchange,
    /// The subject sends most.
    Upload,
    /// The other side sends more.
    Download,
    /// The subject closes after its last byte, whatever the other side does.
    Closes,
    /// The other side closes so.
    IsClosed,
    /// The subject aborts in the middle.
    Aborts,
    /// The other side aborts in the middle.
    IsAborted,
    /// No socket listens.
    Refused,
    /// The other side is silent from the start.
    Silent,
    /// The other side becomes silent in the middle.
    Falls,
}

impl Script {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Exchange,
        Self::Upload,
        Self::Download,
        Self::Closes,
        Self::IsClosed,
        Self::Aborts,
        Self::IsAborted,
        Self::Refused,
        Self::Silent,
        Self::Falls,
    ];
}

/// The outcome that a program sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// Why its connection failed.
    pub error: Option<Error>,
    /// It saw the end of the peer's stream.
    pub eof: bool,
    /// It read all of the peer's stream.
    pub complete: bool,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error = self.error.map_or("no error".to_owned(), |error| error.to_string());
        let eof = if self.eof { "end of file" } else { "no end of file" };
        let bytes = if self.complete { "all bytes" } else { "not all bytes" };
        write!(f, "{error}, {eof}, {bytes}")
    }
}

/// The script of a seed, which side the subject is, and the world.
pub fn draw(seed: u64) -> (Script, usize, Scenario) {
    let script = Script::ALL[(seed % 10) as usize];
    let mut random = Random::new(seed ^ 0x6469_6666);
    // A subject whose peer never answers must be the connecting side.
    let subject = match script {
        Script::Refused | Script::Silent => 0,
        _ => (seed / 10 % 2) as usize,
    };
    let links = draw_links(&mut random, script);
    let (own, other) = match script {
        Script::Upload => (random.in_range(50_000..=400_000), random.in_range(0..=100)),
        Script::Download => (random.in_range(0..=100), random.in_range(50_000..=400_000)),
        Script::Silent | Script::Refused => (1000, 1000),
        Script::Falls => (200_000_000, 100),
        _ => (random.in_range(1..=100_000), random.in_range(1..=100_000)),
    };
    let tcp = TcpConfig {
        // So that the neighbour's silence is noticed first.
        syn_retries: 2,
        time_wait: Duration::from_millis(200),
        user_timeout: (script == Script::Falls).then_some(Duration::from_secs(1)),
        // A side with nothing to send must find out as well.
        keep_alive: (script == Script::Falls).then_some(KeepAlive {
            idle: Duration::from_secs(1),
            interval: Duration::from_secs(1),
            probes: 2,
        }),
        ..TcpConfig::default()
    };
    let mut termination = [Termination::Orderly; 2];
    match script {
        Script::Closes => termination[subject] = Termination::Hasty,
        Script::IsClosed => termination[1 - subject] = Termination::Hasty,
        // After it has got something: both have seen the connection by then.
        Script::Aborts => termination[subject] = Termination::Abort(own + 1 + other / 3),
        Script::IsAborted => termination[1 - subject] = Termination::Abort(other + 1 + own / 3),
        _ => {}
    }
    let apps = [0, 1].map(|side| AppPlan {
        bytes: if side == subject { own } else { other },
        write_max: 20_000,
        send_limit: 100_000,
        joins: 1.0,
        think: Duration::ZERO,
        reading: ReadPlan::Greedy,
        termination: termination[side],
        option_changes: 0.0,
        marks: (0.0, 0.0),
    });
    let scenario = Scenario {
        seed,
        kind: Kind::Whole,
        mtu: 1500,
        links,
        tcp: [tcp; 2],
        apps,
        simultaneous: false,
        batch: 64,
        room: 256,
        listens: script != Script::Refused,
        gives_up: Duration::from_secs(9),
        kernel: None,
        slaac: false,
        dad_transmits: 0,
        esp: None,
    };
    (script, subject, scenario)
}

/// The links of a script: the same in both directions but for their faults.
fn draw_links(random: &mut Random, script: Script) -> [LinkConfig; 2] {
    let delay = Duration::from_micros(random.magnitude(50..=10_000));
    let rate = random.magnitude(20_000_000..=1_000_000_000);
    let faults = |random: &mut Random| {
        let mut link = LinkConfig { queue: 200_000, ..LinkConfig::perfect(delay, rate) };
        // It has to be open before it falls.
        if script != Script::Falls && random.chance(0.7) {
            link.loss = random.fraction() * 0.04;
            link.reorder = random.fraction() * 0.05;
            link.duplicate = random.fraction() * 0.02;
            link.corrupt = random.fraction() * 0.01;
        }
        link
    };
    let mut links = [faults(random), faults(random)];
    let forever = Instant::ZERO + Duration::from_secs(1_000_000);
    let dark_from = match script {
        Script::Silent => Some(Duration::ZERO),
        Script::Falls => Some(Duration::from_millis(300)),
        _ => None,
    };
    for link in &mut links {
        link.blackouts.extend(dark_from.map(|from| (Instant::ZERO + from, forever)));
    }
    links
}

/// What both ends see, with the kernel as subject or without it.
///
/// # Errors
/// What went wrong in the world itself.
pub fn ends(seed: u64, kernel: bool, verbose: bool) -> Result<[End; 2], String> {
    let (_, subject, mut scenario) = draw(seed);
    scenario.kernel = kernel.then_some(subject);
    let bytes = [0, 1].map(|side: usize| scenario.apps[1 - side].bytes);
    let report: Report = World::new(scenario, verbose).run()?;
    Ok([0, 1].map(|side| End {
        error: report.errors[side],
        eof: report.eofs[side],
        complete: report.received[side] == bytes[side],
    }))
}

/// Runs both worlds of a seed and compares. What both came to.
///
/// # Errors
/// The difference, or the fault in one of the worlds.
pub fn compare(seed: u64, verbose: bool) -> Result<[End; 2], String> {
    let (script, subject, scenario) = draw(seed);
    let name = |side| if side == subject { "the subject" } else { "the other side" };
    let again = format!("again: cargo run -p tasuki-sim --bin tasuki-differential -- {seed}");
    let with_kernel =
        ends(seed, true, verbose).map_err(|error| format!("kernel: {error}\n{again}"))?;
    let with_ours =
        ends(seed, false, verbose).map_err(|error| format!("core: {error}\n{again}"))?;
    let abrupt = scenario.apps.iter().any(|app| app.termination != Termination::Orderly);
    for side in 0..2 {
        let same = if abrupt {
            // The bytes that had arrived by then depend on timing, and so does whether they were
            // all.
            let over = |end: &End| end.error.is_none() && end.eof && end.complete;
            let (kernel, ours) = (&with_kernel[side], &with_ours[side]);
            kernel.error == ours.error || over(kernel) || over(ours)
        } else {
            with_kernel[side] == with_ours[side]
        };
        if !same {
            return Err(format!(
                "seed {seed}, {script:?}, {} saw: {} with the kernel, {} with our core\n{again}",
                name(side),
                with_kernel[side],
                with_ours[side],
            ));
        }
    }
    Ok(with_kernel)
}
