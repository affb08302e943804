//! Random hostile clients and frames against a real instance, while an honest client checks data
//! and pauses, and newcomers start.
//!
//! `make fuzz-hostile` runs it for an hour. As a test it runs for [`SECONDS`], with a fixed seed.
//! TASUKI_FUZZ_SECONDS and TASUKI_FUZZ_SEED change both, TASUKI_TEST_MODE the mode, and
//! TASUKI_FUZZ_PROGRAM the clients' program.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use abi::control::InstanceStatus;
use tasuki_tests::{DEVICE, Mode, Nic, Running, STACK, World, eventually};

const NET: &str = "fuzz";
const SECONDS: u64 = 20;
const SEED: u64 = 13;
/// Hostile clients at a time, not counting their children.
const CLIENTS: usize = 4;
/// The longest life of one, milliseconds.
const LIFE: u64 = 8000;
/// Time for the first clients to make the servers as large as they get, as a part of the whole.
const WARM_UP: f64 = 0.3;
/// Growth of a server's own memory after the warm-up, KiB.
const GROWTH: u64 = 24 << 10;
/// The longest time for a newcomer and for `tasuki ps`.
const LONGEST: Duration = Duration::from_secs(30);

/// What /proc says of a server.
#[derive(Debug, Clone, Copy, Default)]
struct Sample {
    /// Memory of its own and shared memory, KiB.
    own: u64,
    shared: u64,
    /// The most of both that there ever was.
    most: u64,
    descriptors: u64,
    /// Processor time, in clock ticks.
    ticks: u64,
}

fn sample(pid: u32) -> Option<Sample> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let times: Vec<u64> =
        stat.rsplit_once(')')?.1.split(' ').filter_map(|word| word.parse().ok()).collect();
    Some(Sample {
        own: field("RssAnon:")?,
        shared: field("RssShmem:")?,
        most: field("VmHWM:")?,
        descriptors: fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count() as u64,
        // utime and stime; without the state, which is no number.
        ticks: times.get(10)? + times.get(11)?,
    })
}

/// What a process has open.
fn links(pid: u32) -> Vec<PathBuf> {
    let all = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    all.filter_map(|entry| fs::read_link(entry.path()).ok()).collect()
}

/// The servers by role and process id.
type Servers = BTreeMap<(String, u32), Sample>;

fn servers(status: &InstanceStatus) -> Servers {
    let all = status.processes.iter().filter(|process| process.role != "client");
    all.map(|process| {
        let found = sample(process.pid).unwrap_or_default();
        ((process.role.clone(), process.pid), found)
    })
    .collect()
}

/// A run of the fuzzer.
struct Campaign {
    world: World,
    mode: Mode,
    seed: u64,
    seconds: u64,
    /// Somebody asked for so many seconds (`make fuzz-hostile`): memory and times are judged too.
    is_asked_for: bool,
    program: PathBuf,
    begun: Instant,
    base: Servers,
    /// After the warm-up.
    warm: Servers,
    /// The most that was seen.
    peak: Servers,
    hostile: Vec<Option<Running>>,
    started: u64,
    newcomers: u64,
    slowest_newcomer: Duration,
    slowest_ps: Duration,
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |word| word.parse().expect("a number"))
}

impl Campaign {
    fn new(mode: Mode) -> Option<Self> {
        let world = World::with_kernel()?;
        // Its clients break the rules all the time, and are not to wait for that.
        fs::write(world.path("fuzz.toml"), "[instance]\nfaults_per_second = 0\n").unwrap();
        world.up(NET, mode, &["--config", &world.file("fuzz.toml")]);
        let base = servers(&world.ps(NET));
        let program = std::env::var_os("TASUKI_FUZZ_PROGRAM")
            .map_or_else(|| env!("CARGO_BIN_EXE_fuzz-hostile").into(), PathBuf::from);
        Some(Self {
            world,
            mode,
            seed: number("TASUKI_FUZZ_SEED", SEED),
            seconds: number("TASUKI_FUZZ_SECONDS", SECONDS),
            is_asked_for: std::env::var_os("TASUKI_FUZZ_SECONDS").is_some(),
            program,
            begun: Instant::now(),
            warm: Servers::new(),
            peak: base.clone(),
            base,
            hostile: (0..CLIENTS).map(|_| None).collect(),
            started: 0,
            newcomers: 0,
            slowest_newcomer: Duration::ZERO,
            slowest_ps: Duration::ZERO,
        })
    }

    fn words(&self, words: &[&str]) -> Vec<String> {
        let program = self.program.to_str().expect("a plain path").to_owned();
        std::iter::once(program).chain(words.iter().map(|word| (*word).to_owned())).collect()
    }

    /// Ends the test with everything that repeats and explains it.
    fn fail(&self, why: &str) -> ! {
        let (seed, seconds, mode) = (self.seed, self.seconds, self.mode.name());
        let mut text = format!("{why}\nafter {:?}, seed {seed}; ", self.begun.elapsed());
        let _ = writeln!(
            text,
            "again: make fuzz-hostile SECONDS={seconds} SEED={seed} MODE={mode}\n\
             --- log of the instance"
        );
        text += &tail(&self.log(), 40);
        for slot in 0..CLIENTS {
            let log = fs::read_to_string(self.world.path(&format!("actions-{slot}")));
            let _ = writeln!(text, "--- actions of hostile client {slot}");
            text += &tail(&log.unwrap_or_default(), 30);
        }
        if let Ok(folder) = std::env::var("TASUKI_FUZZ_KEEP") {
            // For a closer look: the logs as they are.
            let _ = fs::write(format!("{folder}/log"), self.log());
            for slot in 0..CLIENTS {
                let name = format!("actions-{slot}");
                let _ = fs::copy(self.world.path(&name), format!("{folder}/{name}"));
            }
        }
        panic!("{text}");
    }

    fn log(&self) -> String {
        let path = self.world.outside(&format!("/run/tasuki/{NET}.log"));
        fs::read(path).map(|log| String::from_utf8_lossy(&log).into_owned()).unwrap_or_default()
    }

    /// Keeps the number of hostile clients.
    fn replace_hostile(&mut self) {
        for slot in 0..CLIENTS {
            if let Some(one) = &mut self.hostile[slot]
                && !one.has_ended()
            {
                continue;
            }
            self.started += 1;
            let seed = self.seed.wrapping_mul(1_000_003).wrapping_add(self.started);
            let (time, seed) = (1000 + seed * 7919 % LIFE, seed.to_string());
            let log = self.world.file(&format!("actions-{slot}"));
            let long = fs::metadata(&log).is_ok_and(|log| log.len() > 1 << 20);
            if long {
                let _ = fs::remove_file(&log);
            }
            let socket = format!("/run/tasuki/{NET}.sock");
            let words = self.words(&["hostile", &socket, &seed, &time.to_string(), &log]);
            self.hostile[slot] = Some(Running::start(self.world.command(&words)));
        }
    }

    /// Looks at everything that must hold at all times.
    fn check(&mut self) {
        let asked = Instant::now();
        let now = servers(&self.world.ps(NET));
        self.slowest_ps = self.slowest_ps.max(asked.elapsed());
        if self.is_asked_for && asked.elapsed() > LONGEST {
            self.fail(&format!("`tasuki ps` took {:?}", asked.elapsed()));
        }
        if !now.keys().eq(self.base.keys()) {
            self.fail(&format!("servers died: {:?} became {now:?}", self.base));
        }
        if self.log().contains("panicked") {
            self.fail("a server panicked");
        }
        for (name, sample) in &now {
            let peak = self.peak.entry(name.clone()).or_default();
            peak.own = peak.own.max(sample.own);
            peak.shared = peak.shared.max(sample.shared);
            peak.most = peak.most.max(sample.most);
            peak.descriptors = peak.descriptors.max(sample.descriptors);
        }
        if self.warm.is_empty() {
            let warm = self.begun.elapsed().as_secs_f64() > WARM_UP * self.seconds as f64;
            if warm {
                self.warm = self.peak.clone();
            }
            return;
        }
        for (name, sample) in &now {
            let warm = self.warm.get(name).copied().unwrap_or_default();
            if self.is_asked_for && sample.own > warm.own + GROWTH {
                self.fail(&format!("memory of {name:?} grows: {warm:?} became {sample:?}"));
            }
        }
    }

    fn newcomer(&mut self) {
        let begun = Instant::now();
        let words = self.words(&["newcomer"]);
        let said = Running::start(self.world.on_net(NET, &words)).finish();
        let took = begun.elapsed();
        self.newcomers += 1;
        self.slowest_newcomer = self.slowest_newcomer.max(took);
        if !said.status.success() || (self.is_asked_for && took > LONGEST) {
            self.fail(&format!("an honest newcomer failed, after {took:?}: {said}"));
        }
    }

    /// Ends all hostile programs, by their process ids in the world.
    fn end_hostile(&mut self) {
        self.hostile.clear();
        let hostile = |pid: &u32| {
            let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let mut words = words.split(|byte| *byte == 0).skip(1);
            matches!(words.next(), Some(b"hostile" | b"inherit"))
        };
        eventually("the hostile programs have ended", || {
            let left: Vec<u32> = self.world.processes().into_iter().filter(hostile).collect();
            for pid in &left {
                if let Some(pid) = i32::try_from(*pid).ok().and_then(rustix::process::Pid::from_raw)
                {
                    // It may have ended by itself.
                    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
                }
            }
            left.is_empty()
        });
    }

    /// After the last hostile client: everything is given back, and nothing goes on.
    fn check_rest(&mut self) {
        let begun = Instant::now();
        loop {
            let now = servers(&self.world.ps(NET));
            let back = now.iter().all(|(name, sample)| {
                self.base.get(name).is_some_and(|base| sample.descriptors <= base.descriptors)
            });
            if back {
                break;
            }
            if begun.elapsed() > Duration::from_secs(90) {
                let open: Vec<_> = now.keys().map(|(role, pid)| (role, links(*pid))).collect();
                let sockets = self.world.ss(NET);
                self.fail(&format!(
                    "descriptors stay: {:?} became {now:?}: {open:?}, sockets {sockets:?}",
                    self.base
                ));
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        let idle = |this: &Self| {
            let before = servers(&this.world.ps(NET));
            std::thread::sleep(Duration::from_secs(2));
            let after: Servers = before
                .keys()
                .map(|name| (name.clone(), sample(name.1).unwrap_or_default()))
                .collect();
            let ticks = |all: &Servers| all.values().map(|sample| sample.ticks).sum::<u64>();
            // A hundredth of a second each; two seconds of one processor have 200.
            ticks(&after).saturating_sub(ticks(&before)) <= 20
        };
        let begun = Instant::now();
        while !idle(self) {
            if begun.elapsed() > Duration::from_secs(90) {
                self.fail("the servers compute, and nobody asks for anything");
            }
        }
    }

    fn report(&self, status: &str) {
        let (started, newcomers) = (self.started, self.newcomers);
        println!(
            "{} s, seed {}, mode {}: {started} hostile clients, {newcomers} newcomers \
             (slowest {:?}), slowest `ps` {:?}\nhonest: {status}",
            self.seconds,
            self.seed,
            self.mode.name(),
            self.slowest_newcomer,
            self.slowest_ps
        );
        let now = servers(&self.world.ps(NET));
        for (name, base) in &self.base {
            let of = |all: &Servers| all.get(name).copied().unwrap_or_default();
            let (warm, peak, end) = (of(&self.warm), of(&self.peak), of(&now));
            println!(
                "{} {}: own memory {} KiB at first, {} warm, {} at most, {} at the end; \
                 shared {}, {}, \
                 {}, {}; VmHWM {}; descriptors {}, {}, {}, {}",
                name.0,
                name.1,
                base.own,
                warm.own,
                peak.own,
                end.own,
                base.shared,
                warm.shared,
                peak.shared,
                end.shared,
                peak.most,
                base.descriptors,
                warm.descriptors,
                peak.descriptors,
                end.descriptors
            );
        }
    }
}

fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    let from = all.len().saturating_sub(lines);
    all[from..].iter().map(|line| format!("{line}\n")).collect()
}

#[test]
fn hostile_clients_harm_themselves_only() {
    if Nic::given() == Nic::Wire {
        return;
    }
    let Some(mode) = Mode::shared() else { return };
    let Some(mut campaign) = Campaign::new(mode) else { return };
    let world = &campaign.world;
    let peer = Running::start(world.command(&campaign.words(&["peer"])));
    let _ = peer.line("ready");
    let status = world.file("status");
    let time = campaign.seconds.to_string();
    let words = campaign.words(&["honest", &time, &status]);
    let mut honest = Running::start(world.on_net(NET, &words));
    let _ = honest.line("begun");
    let seed = campaign.seed.to_string();
    let frames = world.script("fuzz_frames.py", &[DEVICE, STACK, &seed]);
    let frames = Running::start(world.command(&frames));
    let _ = frames.line("begun");

    campaign.begun = Instant::now();
    let mut looked = Instant::now();
    let mut invited = Instant::now();
    while !honest.has_ended() {
        campaign.replace_hostile();
        std::thread::sleep(Duration::from_millis(20));
        if looked.elapsed() > Duration::from_secs(1) {
            campaign.check();
            looked = Instant::now();
        }
        let last = campaign.begun.elapsed().as_secs() + 5 > campaign.seconds;
        if invited.elapsed() > Duration::from_secs(4) && !last {
            campaign.newcomer();
            invited = Instant::now();
        }
    }
    let said = honest.finish();
    if !said.status.success() {
        campaign.fail(&format!("the honest client failed: {said}"));
    }
    drop(frames);
    drop(peer);
    campaign.end_hostile();
    campaign.check_rest();
    campaign.report(&fs::read_to_string(campaign.world.path("status")).unwrap_or_default());
    campaign.world.down(NET);
    campaign.world.assert_nothing_left();
}
