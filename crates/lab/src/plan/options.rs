//! The options of a measurement, and what they choose together.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::experiment::ExperimentName;
use super::percents::Percents;
use super::places::{
    AREAS, BATCHES, CONNECTIONS, DELAYS, GATEWAYS, HostPlaces, LENGTHS, LOADS, NETWORK_LOADS,
    POWERS, PROGRAMS, Places, QUEUES, RELAYS, SIZES, STEPS, UNITS,
};
use super::setups::LabSetup;

/// Bytes of a write or block, at least; a send of which stages are measured may be shorter.
const LEAST_SIZE: u32 = 1024;
/// The most rounds of a run: more than any interval needs.
const MOST_ROUNDS: i64 = 100;

/// What protects blocks, above TCP and below it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum StorageCipher {
    /// AES-256-GCM by TLS, sealed and by ESP, AES-256-XTS end to end
    #[default]
    Aes,
    /// Triple DES, as in the fifth paper: whole blocks of a program, and by ESP
    #[value(name = "3des")]
    TripleDes,
}

/// What is measured, and for how long.
#[derive(Debug, Clone, Default, Args)]
pub struct LabOptions {
    /// What to measure [default: all]
    #[arg(value_name = "EXPERIMENT", value_enum, hide_default_value = true)]
    pub experiments: Vec<ExperimentName>,
    /// A tenth of the time, 3 minutes for all, and fewer places
    #[arg(long)]
    pub quick: bool,
    /// Time for all chosen experiments together, such as 90s, 10m or 1h
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub time: Option<Duration>,
    /// Measure so many rounds, however long they take and however narrow intervals are
    #[arg(long, value_name = "N", conflicts_with = "time",
        value_parser = clap::value_parser!(u32).range(1..=MOST_ROUNDS))]
    pub rounds: Option<u32>,
    /// The directory for results and report, which is made [default: tasuki-lab-DATE]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Go on with the run of this directory, where it was interrupted
    #[arg(long = "continue", value_name = "DIR", conflicts_with_all = [
        "experiments", "quick", "time", "rounds", "out", "only", "length", "power", "gateways",
        "load", "network_load", "count", "size", "batch", "frames", "unit", "areas", "relays",
        "steps", "connections", "programs", "loss", "delay", "queue", "cross", "cipher", "peers",
        "before",
    ])]
    pub resume: Option<PathBuf>,
    /// Measure only these set-ups
    #[arg(long, value_name = "SETUP", value_enum, value_delimiter = ',')]
    pub only: Vec<LabSetup>,
    /// rtt: bytes of a request, 4 to 8192; A..B doubles
    #[arg(long, value_name = "BYTES", value_parser = |word: &str| LENGTHS.parse(word))]
    pub length: Option<Places>,
    /// rtt: percent of a processor that a host has, 10 to 100, of [sender=|receiver=]
    #[arg(long, value_name = "PERCENT",
        value_parser = |word: &str| HostPlaces::parse(POWERS, word))]
    pub power: Vec<HostPlaces>,
    /// rtt: forwarding hosts on the path, 0 to 4
    #[arg(long, value_name = "N", value_parser = |word: &str| GATEWAYS.parse(word))]
    pub gateways: Option<Places>,
    /// rtt: computing processes beside an end, 0 to 8, of [sender=|receiver=]
    #[arg(long, value_name = "PROCESSES",
        value_parser = |word: &str| HostPlaces::parse(LOADS, word))]
    pub load: Vec<HostPlaces>,
    /// rtt: percent of a limited link (100 Mbit/s) that other datagrams take, 0 to 100
    #[arg(long, value_name = "PERCENT", value_parser = |word: &str| NETWORK_LOADS.parse(word))]
    pub network_load: Option<Places>,
    /// rtt: round trips of a sample [default: 2000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(10..=100_000))]
    pub count: Option<u32>,
    /// stages, handover, throughput, storage, packets: bytes of a send, area, write or block, 1024
    /// to 4194304, of a send from 256
    #[arg(long, value_name = "BYTES", value_parser = |word: &str| SIZES.parse(word))]
    pub size: Option<Places>,
    /// handover: servers that hand a call on, 0 to 8
    #[arg(long, value_name = "N", value_parser = |word: &str| RELAYS.parse(word))]
    pub relays: Option<Places>,
    /// throughput: bytes of an area, 1024 to 65536; A..B doubles
    #[arg(long, value_name = "BYTES", value_parser = |word: &str| UNITS.parse(word))]
    pub unit: Option<Places>,
    /// throughput: areas that one request moves, 1 to 64; A..B doubles
    #[arg(long, value_name = "N", value_parser = |word: &str| AREAS.parse(word))]
    pub areas: Option<Places>,
    /// calls: calls that travel together, 1 to 1000; A..B doubles
    #[arg(long, value_name = "CALLS", value_parser = |word: &str| BATCHES.parse(word))]
    pub batch: Option<Places>,
    /// calls: frames of a TAP device alone, or beside the calls of --batch; needs root
    #[arg(long)]
    pub frames: bool,
    /// scale: connections of one program, 1 to 10000; A..B doubles
    #[arg(long, value_name = "N", value_parser = |word: &str| CONNECTIONS.parse(word))]
    pub connections: Option<Places>,
    /// scale: programs that send at once, 1 to 8; A..B doubles
    #[arg(long, value_name = "N", value_parser = |word: &str| PROGRAMS.parse(word))]
    pub programs: Option<Places>,
    /// loops: steps of a loop, 1 to 4096; A..B doubles
    #[arg(long, value_name = "N", value_parser = |word: &str| STEPS.parse(word))]
    pub steps: Option<Places>,
    /// paths: percent of the frames that are lost, each way, 0 to 3, such as 0.1
    #[arg(long, value_name = "PERCENT", value_parser = Percents::parse)]
    pub loss: Option<Percents>,
    /// storage, packets, paths: milliseconds that a frame takes, each way, 0 to 100; A..B doubles
    #[arg(long, value_name = "MS", value_parser = |word: &str| DELAYS.parse(word))]
    pub delay: Option<Places>,
    /// paths: KiB that may wait before the slowest link, 16 to 4096; A..B doubles
    #[arg(long, value_name = "KIB", value_parser = |word: &str| QUEUES.parse(word))]
    pub queue: Option<Places>,
    /// paths: each loss with each delay, for each queue: a heat map instead of an axis of each
    #[arg(long)]
    pub cross: bool,
    /// storage: the cipher [default: aes]
    #[arg(long, value_name = "CIPHER", value_enum, hide_default_value = true)]
    pub cipher: Option<StorageCipher>,
    /// rtt, throughput: also smoltcp, and those of lwIP and gVisor whose programs are in this
    /// directory
    #[arg(long, value_name = "DIR")]
    pub peers: Option<PathBuf>,
    /// Measure this earlier build of `tasuki` too, in turn with the present one: rtt, stages,
    /// throughput, connections, scale, storage, paths
    #[arg(long, value_name = "TASUKI")]
    pub before: Option<PathBuf>,
}

impl LabOptions {
    /// The chosen experiments, in the order in which they are measured. Without names these are all
    /// that have one of the chosen set-ups.
    #[must_use]
    pub fn chosen(&self) -> Vec<ExperimentName> {
        let named = &self.experiments;
        let all = named.is_empty() || named.contains(&ExperimentName::All);
        let is_chosen = |it: &ExperimentName| named.contains(it) || all && self.has_setup(*it);
        ExperimentName::EACH.into_iter().filter(is_chosen).collect()
    }

    /// The time of all chosen experiments together.
    #[must_use]
    pub fn whole_time(&self) -> Duration {
        let times = self.chosen().into_iter().map(|it| it.time(self.quick));
        self.time.unwrap_or_else(|| times.sum())
    }

    /// The part of the time that `one` has of what it and `later` experiments have, 0 to 1.
    #[must_use]
    pub fn share(one: ExperimentName, later: &[ExperimentName]) -> f64 {
        let all: f64 = later.iter().map(|it| it.time(false).as_secs_f64()).sum();
        let own = one.time(false).as_secs_f64();
        own / (own + all)
    }

    /// Is this set-up measured? Without a choice a quick run leaves two of them out.
    #[must_use]
    pub fn has(&self, setup: LabSetup) -> bool {
        if self.only.is_empty() {
            return !self.quick || !LabSetup::NOT_QUICK.contains(&setup);
        }
        self.only.contains(&setup)
    }

    /// What the command of a figure keeps of these options, besides its axis: a quick run measures
    /// other set-ups and smaller samples, and `--only` chooses set-ups. Words behind others.
    #[must_use]
    pub fn kept_words(&self, experiment: ExperimentName) -> String {
        let quick = if self.quick { " --quick" } else { "" };
        let own = self.only.iter().filter(|setup| experiment.setups().contains(setup));
        let own = own.filter_map(ValueEnum::to_possible_value);
        let own: Vec<String> = own.map(|setup| setup.get_name().to_owned()).collect();
        match own.is_empty() {
            true => quick.to_owned(),
            false => format!("{quick} --only {}", own.join(",")),
        }
    }

    /// The modes in which both ends are on Tasuki: those that are named; without any, split and
    /// fused, and in a quick run split. None, if this set-up is not measured.
    #[must_use]
    pub fn modes_at_both_ends(&self, setup: LabSetup) -> Vec<LabSetup> {
        if !self.has(setup) {
            return Vec::new();
        }
        let named = LabSetup::MODES.into_iter().filter(|mode| self.only.contains(mode));
        let named: Vec<LabSetup> = named.collect();
        match &named[..] {
            [] if self.quick && self.only.is_empty() => vec![LabSetup::Split],
            [] => vec![LabSetup::Split, LabSetup::Fused],
            _ => named,
        }
    }

    /// Has the experiment one of the set-ups that are named, or no choice of set-ups?
    fn has_setup(&self, experiment: ExperimentName) -> bool {
        let has = experiment.setups();
        let is_named = |setup: &LabSetup| self.only.contains(setup);
        self.only.is_empty() || has.is_empty() || has.iter().any(is_named)
    }

    /// A sentence, if a chosen experiment has none of the set-ups that are named.
    fn without_setup(&self) -> Option<String> {
        let none = self.chosen().into_iter().find(|it| !self.has_setup(*it))?;
        let has = none.setups().iter().filter_map(ValueEnum::to_possible_value);
        let has: Vec<String> = has.map(|setup| setup.get_name().to_owned()).collect();
        let (none, has) = (none.name(), has.join(", "));
        Some(format!("--only names no set-up of {none}: name one of {has}, or leave {none} out"))
    }

    /// Why a user without rights cannot measure this experiment with these options; `None`: it can
    /// be measured.
    #[must_use]
    pub fn of_root(&self, experiment: ExperimentName) -> Option<String> {
        let name = experiment.name();
        if experiment.needs_root() {
            return Some(format!("{name} makes network namespaces: run it as root"));
        }
        let given = self.own_options().into_iter().filter(|(_, is_given)| *is_given);
        let mut given = given.map(|(option, _)| option);
        if let Some(option) = given.find(|it| experiment.options_of_root().contains(it)) {
            return Some(format!(
                "{option} of {name} is for root, who makes namespaces and control groups: leave it \
                 out, or run it as root"
            ));
        }
        let named = self.only.iter().filter(|setup| experiment.setups().contains(setup));
        let named: Vec<&LabSetup> = named.collect();
        let all = !named.is_empty() && named.iter().all(|it| LabSetup::OF_ROOT.contains(it));
        all.then(|| format!("{name} makes namespaces for these set-ups of --only: run it as root"))
    }

    /// Options that belong to some experiments, and whether they are given.
    fn own_options(&self) -> [(&'static str, bool); 22] {
        [
            ("--length", self.length.is_some()),
            ("--power", !self.power.is_empty()),
            ("--gateways", self.gateways.is_some()),
            ("--load", !self.load.is_empty()),
            ("--network-load", self.network_load.is_some()),
            ("--count", self.count.is_some()),
            ("--size", self.size.is_some()),
            ("--batch", self.batch.is_some()),
            ("--frames", self.frames),
            ("--relays", self.relays.is_some()),
            ("--unit", self.unit.is_some()),
            ("--areas", self.areas.is_some()),
            ("--connections", self.connections.is_some()),
            ("--programs", self.programs.is_some()),
            ("--steps", self.steps.is_some()),
            ("--loss", self.loss.is_some()),
            ("--delay", self.delay.is_some()),
            ("--queue", self.queue.is_some()),
            ("--cross", self.cross),
            ("--cipher", self.cipher.is_some()),
            ("--peers", self.peers.is_some()),
            ("--before", self.before.is_some()),
        ]
    }

    /// Checks what single options cannot: each axis belongs to a chosen experiment.
    ///
    /// # Errors
    /// A sentence about the first fault.
    pub fn check(&self) -> Result<(), String> {
        let chosen = self.chosen();
        let given = self.own_options();
        for (option, _) in given.into_iter().filter(|(_, is_given)| *is_given) {
            if !chosen.iter().any(|it| it.axes().contains(&option)) {
                let of = ExperimentName::EACH.into_iter().filter(|it| it.axes().contains(&option));
                let of: Vec<&str> = of.map(ExperimentName::name).collect();
                return Err(format!(
                    "{option} belongs to {}, which is not measured: name it, or leave {option} out",
                    of.join(", ")
                ));
            }
        }
        let least = self.size.as_ref().map_or(LEAST_SIZE, Places::first);
        let other = chosen.iter().find(|it| it.axes().contains(&"--size") && !it.has_small_sizes());
        if let Some(other) = other.filter(|_| least < LEAST_SIZE) {
            return Err(format!(
                "--size {least} is too small for {}: say {LEAST_SIZE} or more, or measure stages \
                 alone",
                other.name()
            ));
        }
        if let Some(sentence) = self.without_setup() {
            return Err(sentence);
        }
        let has_gateway = self.gateways.as_ref().is_some_and(|places| places.first() > 0);
        if self.only == [LabSetup::Wire] && (has_gateway || self.network_load.is_some()) {
            return Err("--only wire has no points behind a gateway: say --gateways 0 without \
                        --network-load, or name other set-ups, too"
                .to_owned());
        }
        let no_gateway = self.gateways.as_ref().is_some_and(|places| places.first() == 0);
        if self.network_load.is_some() && no_gateway {
            return Err(
                "--network-load limits the link behind a gateway: say --gateways 1 or more"
                    .to_owned(),
            );
        }
        for (option, all) in [("--power", &self.power), ("--load", &self.load)] {
            let mut ends: Vec<_> = all.iter().map(|it| it.end).collect();
            ends.sort_unstable();
            if ends.windows(2).any(|pair| pair[0] == pair[1]) {
                return Err(format!("{option} is there twice for one end: put both into one list"));
            }
        }
        Ok(())
    }
}

/// `90s`, `10m`, `1h` or `90`.
fn time(word: &str) -> Result<Duration, String> {
    let (number, unit) = match word.strip_suffix(['s', 'm', 'h']) {
        Some(number) => (number, &word[number.len()..]),
        None => (word, "s"),
    };
    let factor = match unit {
        "h" => 3600,
        "m" => 60,
        _ => 1,
    };
    let seconds = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    let seconds = seconds.filter(|seconds| (1..=24 * 3600).contains(seconds));
    seconds.map(Duration::from_secs).ok_or_else(|| "say 1s to 24h, such as 90s or 10m".to_owned())
}
