//! What grows with the number of connections and programs: round trips, memory and the cost of
//! idle by the connections of one program ([`program`]), and how several programs share a path. A
//! client on Tasuki beside one on Linux; the hosts are those of `tasuki-bench compare`.

mod program;

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use lab::plan::{ExperimentName, LabOptions, LabSetup, chosen_places, listed};
use lab::{Axis, Direction, Figure, FigureKind, Scale};

use self::program::{ScaleCost, ScalePace};
use super::experiment::{FigurePlan, LabExperiment, MeasuredValue, MeasuredValues, linear_axis};
use crate::args::Congestion;
use crate::clients::run_client;
use crate::hosts::{Host, Programs};
use crate::late_host::LateHost;
use crate::protocol::warm_up_of;
use crate::setup::{Role, Setup};

const CONNECTIONS: [u32; 5] = [1, 10, 100, 1000, 10_000];
const QUICK_CONNECTIONS: [u32; 3] = [1, 100, 1000];
const PROGRAMS: [u32; 4] = [1, 2, 4, 8];
const QUICK_PROGRAMS: [u32; 2] = [1, 4];
/// Behind the last byte, until timers are over. Then idle is watched for so long.
const SETTLING: Duration = Duration::from_millis(2200);
const IDLE: Duration = Duration::from_secs(1);
const QUICK_IDLE: Duration = Duration::from_millis(500);
/// Rounds from one that waits for idle connections to the next.
const IDLE_EACH: u32 = 3;
/// Round trips.
const COUNT: u32 = 1000;
const QUICK_COUNT: u32 = 200;
/// Seconds of a stream of several programs.
const SECONDS: f64 = 0.7;
const QUICK_SECONDS: f64 = 0.3;
/// With fewer connections the memory of one of them cannot be told from that of all else.
const LEAST_FOR_EACH: u32 = 100;
const LINUX: &str = "Linux";

/// Set-ups that several programs can share.
const SETUPS: [(LabSetup, Setup); 3] = [
    (LabSetup::Linux, Setup::LinuxOn),
    (LabSetup::Split, Setup::Split),
    (LabSetup::Fused, Setup::Fused),
];

/// A figure by the number of connections.
struct CostFigure {
    name: &'static str,
    title: &'static str,
    unit: &'static str,
    direction: Direction,
    /// Compared with Linux. The cost of idle is not: that of Linux may be nothing.
    has_base: bool,
    is_judged: bool,
    value: fn(&ScaleCost, u32) -> Option<f64>,
}

const COSTS: [CostFigure; 6] = [
    CostFigure {
        name: "one",
        title: "A round trip on one connection while the others are idle, median",
        unit: "µs",
        direction: Direction::Lower,
        has_base: true,
        is_judged: true,
        value: |cost, _| Some(cost.trips.one_us),
    },
    CostFigure {
        name: "in-turn",
        title: "Round trips over all connections in turn",
        unit: "per second",
        direction: Direction::Higher,
        has_base: true,
        is_judged: true,
        value: |cost, _| Some(cost.trips.in_turn),
    },
    CostFigure {
        name: "memory",
        title: "Memory of all processes of the client's end, and of its sockets in the kernel",
        unit: "MiB",
        direction: Direction::Lower,
        has_base: true,
        is_judged: false,
        value: |cost, _| Some(cost.memory?.all / f64::from(1 << 20)),
    },
    CostFigure {
        name: "memory-each",
        title: "Memory of one more connection at the client's end",
        unit: "KiB",
        direction: Direction::Lower,
        has_base: true,
        is_judged: false,
        value: |cost, connections| {
            let more = f64::from(connections.saturating_sub(1));
            let growth = cost.memory?.growth;
            (connections >= LEAST_FOR_EACH).then(|| growth / more / 1024.0)
        },
    },
    CostFigure {
        name: "idle-processor",
        title: "Idle connections: processor time of all processes of the client's end",
        unit: "ms per second",
        direction: Direction::Lower,
        has_base: false,
        is_judged: false,
        value: |cost, _| cost.idle?.processor_ms,
    },
    CostFigure {
        name: "idle-wake-ups",
        title: "Idle connections: wake-ups of all processes of the client's end",
        unit: "per second",
        direction: Direction::Lower,
        has_base: false,
        is_judged: false,
        value: |cost, _| Some(cost.idle?.wake_ups),
    },
];

/// Those by the number of programs, behind [`COSTS`].
const RATE: usize = COSTS.len();
const SHARING: usize = RATE + 1;

/// See the module.
pub(crate) struct ManyAtOnce {
    connections: Vec<u32>,
    programs: Vec<u32>,
    quick: bool,
    round: u32,
    seconds: f64,
    hosts: Vec<LateHost>,
    /// Of the command that repeats a figure, besides those of its axis.
    more_words: String,
    /// Whose build is measured.
    builds: Programs,
}

impl ManyAtOnce {
    /// As the options say.
    pub(crate) fn new(programs: &Programs, options: &LabOptions) -> Result<Self> {
        let (connections, at_once) = match options.quick {
            true => (&QUICK_CONNECTIONS[..], &QUICK_PROGRAMS[..]),
            false => (&CONNECTIONS[..], &PROGRAMS[..]),
        };
        let given = (options.connections.as_ref(), options.programs.as_ref());
        let setups = SETUPS.iter().filter(|(setup, _)| options.has(*setup));
        let hosts: Vec<LateHost> =
            setups.map(|(_, setup)| LateHost::new(*setup, Role::Client)).collect();
        ensure!(
            !hosts.is_empty(),
            "--only leaves nothing to measure: it has linux, split and fused, since no programs \
             share an instance in mode library"
        );
        Ok(Self {
            connections: chosen_places(given.0, given.1, connections),
            programs: chosen_places(given.1, given.0, at_once),
            quick: options.quick,
            round: 0,
            seconds: if options.quick { QUICK_SECONDS } else { SECONDS },
            hosts,
            more_words: options.kept_words(ExperimentName::Scale),
            builds: programs.clone(),
        })
    }

    fn host(&mut self, setup: usize) -> Result<&Host> {
        let host = self.hosts.get_mut(setup).context("a set-up")?;
        host.get(&self.builds, &Congestion::cubic(), true)
    }

    /// Waiting for idle connections takes longer than all else, and what they cost hardly varies:
    /// every third round has it. A quick run waits only with most of them.
    fn pace(&self, connections: u32) -> ScalePace {
        let is_last = self.connections.last() == Some(&connections);
        let (settling, idle) = match (self.quick, is_last) {
            (false, _) if self.round.is_multiple_of(IDLE_EACH) => (Some(SETTLING), Some(IDLE)),
            (false, _) => (None, None),
            (true, true) => (Some(SETTLING), Some(QUICK_IDLE)),
            (true, false) => (Some(Duration::ZERO), None),
        };
        ScalePace { settling, idle, count: if self.quick { QUICK_COUNT } else { COUNT } }
    }

    fn measure_programs(&mut self, at: usize, setup: usize) -> Result<MeasuredValues> {
        let programs = *self.programs.get(at).context("a number of programs")?;
        let (count, seconds) = (programs.to_string(), self.seconds.to_string());
        let host = self.host(setup)?;
        let words = ["programs-at-once", "--programs", &count, "--seconds", &seconds];
        let said = run_client(host.program(&words)?, None)?;
        let rates: Vec<f64> =
            serde_json::from_str(&said).with_context(|| format!("what programs say: `{said}`"))?;
        let values = [(RATE, rates.iter().sum()), (SHARING, jain(&rates))];
        let series = host.setup().title();
        let reading = |(figure, value)| reading(figure, series, programs, value);
        Ok(MeasuredValues { readings: values.map(reading).to_vec(), warm_up: 0 })
    }
}

fn reading(figure: usize, series: &str, place: u32, value: f64) -> MeasuredValue {
    MeasuredValue { figure, series: series.to_owned(), x: f64::from(place), y: 0.0, value }
}

/// Jain's index of fairness: 1 if all have the same, 1/n if one of n has all.
fn jain(shares: &[f64]) -> f64 {
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    let sum: f64 = shares.iter().sum();
    if squares > 0.0 { sum * sum / squares / shares.len() as f64 } else { 1.0 }
}

impl LabExperiment for ManyAtOnce {
    fn figures(&self) -> Vec<FigurePlan> {
        let base = self.hosts.iter().any(|host| host.setup() == Setup::LinuxOn);
        let base = base.then_some(LINUX);
        let more = &self.more_words;
        let of_costs = COSTS.iter().map(|cost| FigurePlan {
            name: cost.name.to_owned(),
            title: cost.title.to_owned(),
            axis: Axis { scale: Scale::Log, ..linear_axis("connections", "") },
            unit: cost.unit,
            direction: cost.direction,
            base: base.filter(|_| cost.has_base),
            words: format!("scale --connections {}{more}", listed(&self.connections)),
            is_judged: cost.is_judged,
            kind: FigureKind::Lines,
            second: None,
        });
        let plan = |name: &str, title: &str, unit, is_judged| FigurePlan {
            name: name.to_owned(),
            title: title.to_owned(),
            axis: linear_axis("programs", ""),
            unit,
            direction: Direction::Higher,
            base,
            words: format!("scale --programs {}{more}", listed(&self.programs)),
            is_judged,
            kind: FigureKind::Lines,
            second: None,
        };
        let rate =
            plan("programs", "Several programs that send at once, all together", "MiB/s", true);
        let title = "Several programs that send at once: how equal their shares are (Jain's index)";
        let sharing = plan("programs-fairness", title, "of 1", false);
        of_costs.chain([rate, sharing]).collect()
    }

    /// Connections, then programs.
    fn points(&self) -> Vec<String> {
        let connections = self.connections.iter().map(|count| format!("{count} connections"));
        connections.chain(self.programs.iter().map(|count| format!("{count} programs"))).collect()
    }

    fn setups(&self) -> Vec<String> {
        self.hosts.iter().map(|host| host.setup().title().to_owned()).collect()
    }

    fn has_tasuki(&self, setup: usize) -> bool {
        self.hosts.get(setup).is_some_and(|host| host.setup().tasuki().is_some())
    }

    fn begin_round(&mut self, round: u32) {
        self.round = round;
    }

    fn measure(&mut self, point: usize, setup: usize) -> Result<MeasuredValues> {
        let Some(connections) = self.connections.get(point).copied() else {
            return self.measure_programs(point - self.connections.len(), setup);
        };
        let pace = self.pace(connections);
        let host = self.host(setup)?;
        let is_linux = host.setup().tasuki().is_none();
        let cost = program::measure(host, connections, pace, is_linux)?;
        let readings = COSTS.iter().enumerate().filter_map(|(figure, it)| {
            let value = (it.value)(&cost, connections)?;
            Some(reading(figure, host.setup().title(), connections, value))
        });
        // A tenth of the round trips come before those that count.
        Ok(MeasuredValues { readings: readings.collect(), warm_up: warm_up_of(pace.count) })
    }

    fn conclude(&self, figures: &mut Vec<Figure>) -> Vec<String> {
        let figure = |name: &str| figures.iter().find(|figure| figure.name == name);
        let growth = figure("one").and_then(by_connections);
        let memory = figure("memory-each").and_then(|figure| {
            let each = at_last(figure)?;
            let each = each.iter().map(|(name, value)| format!("{value:.1} KiB on {name}"));
            let each = each.collect::<Vec<_>>().join(", ");
            Some(format!("One more connection takes {each}."))
        });
        let idle = figure("idle-wake-ups").and_then(|figure| {
            let connections = figure.places().pop()?;
            let each = at_last(figure)?;
            let each = each.iter().map(|(name, value)| format!("{value:.1} on {name}"));
            let each = each.collect::<Vec<_>>().join(", ");
            Some(format!("Wake-ups a second with {connections} idle connections: {each}."))
        });
        [growth, memory, idle].into_iter().flatten().collect()
    }
}

/// The medians of all series at the last place.
fn at_last(figure: &Figure) -> Option<Vec<(&str, f64)>> {
    let last = figure.places().pop()?;
    let median = |series: &'_ lab::Series| {
        Some(lab::statistics::median_interval(&series.at(last, 0.0)?.values())?.middle)
    };
    Some(figure.series.iter().filter_map(|it| Some((&it.name[..], median(it)?))).collect())
}

/// How much longer a round trip takes beside all others, in a sentence.
fn by_connections(figure: &Figure) -> Option<String> {
    let places = figure.places();
    let [first, .., last] = places[..] else { return None };
    let each = figure.series.iter().filter_map(|series| {
        let ratios = series.at(last, 0.0)?.ratios_to(series.at(first, 0.0)?);
        let ratio = lab::statistics::median_interval(&ratios.into_values().collect::<Vec<_>>())?;
        Some(format!(
            "{:.2} times as long on {} ({:.2} to {:.2})",
            ratio.middle, series.name, ratio.low, ratio.high
        ))
    });
    let each = each.collect::<Vec<_>>().join(", ");
    let sentence =
        format!("With {last} connections instead of {first}, a round trip takes {each}.");
    (!each.is_empty()).then_some(sentence)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn jains_index_is_one_for_equal_shares() {
        assert_eq!(jain(&[3.0, 3.0, 3.0]), 1.0);
        assert_eq!(jain(&[8.0, 0.0, 0.0, 0.0]), 0.25);
        assert_eq!((jain(&[5.0]), jain(&[0.0, 0.0])), (1.0, 1.0));
    }

    #[test]
    fn who_names_one_axis_gets_no_other() {
        let programs = Programs::new(Path::new("tasuki"), Path::new("")).expect("programs");
        let made =
            |words| ManyAtOnce::new(&programs, &super::super::options_of(words)).expect("it");
        assert_eq!(made("scale --connections 1..4").connections, [1, 2, 4]);
        assert!(made("scale --connections 1..4").programs.is_empty());
        let both = made("scale --quick");
        assert_eq!((both.connections.len(), both.programs.len()), (3, 2));
        assert_eq!(both.points().len(), 5);
        let linux = made("scale --only linux --programs 2");
        assert_eq!((linux.hosts.len(), linux.points()), (1, vec!["2 programs".to_owned()]));
    }
}
