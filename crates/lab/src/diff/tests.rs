//! Files of synthetic samples: their noise is that of a machine with neighbours. It is in
//! proportion to the value, one sample in twenty is far off, whole rounds and runs are slower.

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::results::{
    Axis, BEFORE, Direction, Experiment, FORMAT, Figure, FigureKind, Machine, Origin, Point,
    Sample, Scale, SecondAxis, Series, VERSION,
};

const SIZES: [f64; 7] = [1e3, 4e3, 16e3, 64e3, 256e3, 1e6, 4e6];
const FIGURES: [(&str, Direction); 4] = [
    ("send", Direction::Higher),
    ("receive", Direction::Higher),
    ("round-trip", Direction::Lower),
    ("connect", Direction::Lower),
];
const SERIES: [&str; 4] = ["Linux", "split", "fused", "library"];

/// What is worse, and how.
#[derive(Clone, Copy)]
struct Planted {
    figure: &'static str,
    series: &'static str,
    x: Option<f64>,
    /// The factor of the value.
    factor: f64,
}

fn normal(random: &mut ChaCha8Rng) -> f64 {
    let (a, b): (f64, f64) = (random.random(), random.random());
    (-2.0 * (1.0 - a).ln()).sqrt() * (std::f64::consts::TAU * b).cos()
}

/// A run of so many rounds, with this noise of a sample.
fn run(seed: u64, rounds: u32, noise: f64, base: bool, planted: Option<Planted>) -> Results {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    // The whole machine, if a base cancels it.
    let of_run = if base { 0.1 * normal(&mut random) } else { 0.0 };
    let of_rounds: Vec<f64> =
        (0..rounds).map(|_| if base { 0.05 * normal(&mut random) } else { 0.0 }).collect();
    let mut point = |figure: &str, direction: Direction, series: &str, x: f64| {
        let here = planted.filter(|it| {
            (it.figure, it.series) == (figure, series) && it.x.is_none_or(|place| place == x)
        });
        let factor = here.map_or(1.0, |it| it.factor);
        let sign = if direction == Direction::Higher { -1.0 } else { 1.0 };
        let mut sample = |round: u32| {
            let outlier = if random.random::<f64>() < 0.05 { 0.25 } else { 0.0 };
            let slower = outlier + of_run + of_rounds[round as usize];
            let value = x.sqrt() * factor * (sign * slower + noise * normal(&mut random)).exp();
            Sample { round, value }
        };
        let samples = (0..rounds).map(&mut sample).collect();
        Point { x, y: 0.0, samples, warm_up: 1, discarded: 0, marks: Vec::new() }
    };
    let figures = FIGURES.map(|(name, direction)| Figure {
        name: name.to_owned(),
        title: name.to_owned(),
        axis: Axis { title: "bytes".to_owned(), unit: "B".to_owned(), scale: Scale::Log },
        unit: "units".to_owned(),
        direction,
        command: "none".to_owned(),
        kind: FigureKind::Lines,
        second: None,
        lanes: Vec::new(),
        base: base.then(|| SERIES[0].to_owned()),
        series: SERIES
            .map(|series| Series {
                name: series.to_owned(),
                reference: false,
                points: SIZES.map(|x| point(name, direction, series, x)).to_vec(),
            })
            .to_vec(),
    });
    Results {
        format: FORMAT.to_owned(),
        version: VERSION,
        made: Origin::default(),
        machine: Machine::default(),
        partial: None,
        experiments: vec![Experiment {
            name: "synthetic".to_owned(),
            title: "Synthetic".to_owned(),
            findings: Vec::new(),
            figures: figures.to_vec(),
        }],
    }
}

/// The regressions of one comparison, as `figure/series@x`. Without intervals, which take time.
fn regressions(before: &Results, after: &Results) -> Vec<String> {
    let options = DiffOptions::default();
    let (pairs, unpaired) = pairs(before, after, options.absolute);
    assert_eq!(unpaired, []);
    judged(&pairs.into_iter().filter(|pair| !pair.is_base).collect::<Vec<_>>())
}

/// Those among these pairs.
fn judged(judged: &[Pair]) -> Vec<String> {
    let judgements = judgements(judged, DiffOptions::default().bound);
    let found = judged.iter().zip(judgements).filter(|(_, it)| it.0 == Judgement::Regression);
    let name = |pair: &Pair| {
        let place = pair.x.map_or("all".to_owned(), |x| x.to_string());
        format!("{}/{}@{place}", pair.figure, pair.series)
    };
    found.map(|(pair, _)| name(pair)).collect()
}

/// The same values as heat maps: all points lie above one place, each at one of the second axis.
fn as_heat_maps(mut results: Results) -> Results {
    for figure in &mut results.experiments[0].figures {
        figure.kind = FigureKind::HeatMap;
        figure.second = Some(SecondAxis { title: "areas".to_owned(), ..SecondAxis::default() });
        for series in &mut figure.series {
            for (at, point) in series.points.iter_mut().enumerate() {
                (point.x, point.y) = (64.0, at as f64);
            }
        }
    }
    results
}

#[test]
fn cells_of_heat_maps_are_compared_with_their_own() {
    let planted = Planted { figure: "send", series: "split", x: Some(64e3), factor: 0.5 };
    let before = as_heat_maps(run(11, 12, 0.01, true, None));
    let mut after = as_heat_maps(run(12, 12, 0.01, true, Some(planted)));
    after.experiments[0].figures[1].series[2].points.pop();
    let found = compare(&before, &after, DiffOptions::default());
    let worse: Vec<_> =
        found.of(Judgement::Regression).iter().map(|it| (&it.figure[..], it.x, it.y)).collect();
    assert_eq!(worse, [("send", Some(64.0), Some(3.0))]);
    let missing: Vec<&str> = found.unpaired.iter().map(|it| &it.what[..]).collect();
    assert_eq!(missing, ["synthetic/receive/fused@64,6"]);
    let lines = run(13, 12, 0.01, true, None);
    let other = compare(&lines, &after, DiffOptions::default());
    assert!(other.changes.is_empty() && other.unpaired[0].reason.contains("another kind"));
}

#[test]
fn a_planted_regression_of_ten_percent_is_found_in_ten_of_ten_runs() {
    let send = Planted { figure: "send", series: "split", x: None, factor: 0.9 };
    let trips = Planted { figure: "round-trip", series: "fused", x: None, factor: 1.1 };
    for base in [false, true] {
        for planted in [send, trips] {
            for seed in 0..10 {
                let before = run(seed, 10, 0.03, base, None);
                let found = regressions(&before, &run(1000 + seed, 10, 0.03, base, Some(planted)));
                let here = format!("{}/{}", planted.figure, planted.series);
                // Noise may hide the change of a point, and not that of all.
                let whole = format!("{here}@all");
                assert!(found.contains(&whole), "base {base}, seed {seed}: {found:?}");
                let others = found.iter().filter(|name| !name.starts_with(&here)).count();
                assert!(others <= 1, "base {base}, seed {seed}: {found:?}");
            }
        }
    }
}

#[test]
fn a_regression_in_one_point_of_all_is_found_in_ten_of_ten_runs() {
    let planted = Planted { figure: "send", series: "split", x: Some(16e3), factor: 0.9 };
    for seed in 0..10 {
        let before = run(seed, 15, 0.025, false, None);
        let found = regressions(&before, &run(1000 + seed, 15, 0.025, false, Some(planted)));
        assert_eq!(found, ["send/split@16000"], "seed {seed}");
    }
}

/// How many of so many comparisons of runs without a change find one.
fn false_alarms(rounds: u32, noise: f64, base: bool, comparisons: u64) -> usize {
    let is_false = |seed: &u64| {
        let before = run(*seed, rounds, noise, base, None);
        !regressions(&before, &run(5000 + seed, rounds, noise, base, None)).is_empty()
    };
    (0..comparisons).filter(is_false).count()
}

#[test]
fn without_a_change_nothing_is_found_in_ten_runs() {
    for base in [false, true] {
        for rounds in [5, 10] {
            assert_eq!(false_alarms(rounds, 0.03, base, 10), 0, "{rounds} rounds, base {base}");
        }
    }
}

#[test]
fn however_noisy_there_is_a_false_alarm_in_one_of_twenty_comparisons_at_most() {
    for (base, rounds, noise) in
        [(true, 10, 0.03), (false, 5, 0.1), (true, 5, 0.15), (false, 10, 0.2), (true, 20, 0.2)]
    {
        let found = false_alarms(rounds, noise, base, 100);
        println!("{rounds} rounds, noise {noise}, base {base}: {found} of 100");
        assert!(found <= 5, "{rounds} rounds, noise {noise}, base {base}: {found} of 100");
    }
}

/// One run with two builds, on a machine whose rounds differ by half: the present build has what is
/// planted.
fn run_of_builds(seed: u64, rounds: u32, noise: f64, planted: Option<Planted>) -> Results {
    let mut random = ChaCha8Rng::seed_from_u64(7000 + seed);
    let states: Vec<f64> = (0..rounds).map(|_| (0.5 * normal(&mut random)).exp()).collect();
    let mut results = run(seed, rounds, noise, false, planted);
    let earlier = run(1000 + seed, rounds, noise, false, None);
    let figures = &mut results.experiments[0].figures;
    for (figure, old) in figures.iter_mut().zip(&earlier.experiments[0].figures) {
        let old = old.series[1..].iter().cloned();
        let renamed = old.map(|it| Series { name: format!("{}{BEFORE}", it.name), ..it });
        figure.series.extend(renamed);
        let points = figure.series.iter_mut().flat_map(|series| &mut series.points);
        for sample in points.flat_map(|point| &mut point.samples) {
            sample.value *= states[sample.round as usize];
        }
    }
    results
}

fn regressions_of_builds(results: &Results) -> Vec<String> {
    judged(&pairs_of_builds(results).0)
}

#[test]
fn a_planted_regression_of_ten_percent_is_found_in_each_run_of_two_builds() {
    let planted = Planted { figure: "send", series: "split", x: None, factor: 0.9 };
    for (rounds, noise) in [(10, 0.03), (15, 0.05), (25, 0.1)] {
        for seed in 0..10 {
            let found = regressions_of_builds(&run_of_builds(seed, rounds, noise, Some(planted)));
            let is_found = found.contains(&"send/split@all".to_owned());
            assert!(is_found, "{rounds} rounds, noise {noise}, seed {seed}: {found:?}");
        }
    }
}

#[test]
fn two_builds_that_are_the_same_raise_a_false_alarm_in_one_of_twenty_runs_at_most() {
    for (rounds, noise) in [(5, 0.1), (10, 0.05), (20, 0.2)] {
        let is_false = |seed: &u64| {
            !regressions_of_builds(&run_of_builds(*seed, rounds, noise, None)).is_empty()
        };
        let found = (0..200).filter(is_false).count();
        println!("{rounds} rounds, noise {noise}: {found} of 200");
        assert!(found <= 10, "{rounds} rounds, noise {noise}: {found} of 200");
    }
}

#[test]
fn an_earlier_build_is_compared_with_the_present_one_alone() {
    let planted = Planted { figure: "send", series: "split", x: None, factor: 0.5 };
    let (one, other) = (run_of_builds(1, 5, 0.02, Some(planted)), run_of_builds(2, 5, 0.02, None));
    let found = compare_builds(&one, 0.05);
    assert!(found.changes.iter().all(|it| it.series != "Linux"), "{:?}", found.changes);
    assert!(found.drifts.is_empty() && found.unpaired.is_empty());
    let of_files = compare(&one, &other, DiffOptions::default());
    assert!(of_files.changes.iter().all(|it| !it.series.ends_with(BEFORE)));
    assert!(of_files.unpaired.is_empty(), "{:?}", of_files.unpaired);
    let mut gone = one;
    gone.experiments[0].figures[0].series.retain(|it| it.name != "split");
    let unpaired = compare_builds(&gone, 0.05).unpaired;
    assert_eq!(unpaired[0].what, "synthetic/send/split, before");
    assert!(compare_builds(&run(3, 5, 0.02, true, None), 0.05).changes.is_empty());
}

#[test]
fn samples_are_compared_once() {
    let planted = Planted { figure: "send", series: "split", x: None, factor: 0.5 };
    let (before, after) = (run(31, 10, 0.02, true, None), run(32, 10, 0.02, true, Some(planted)));
    let with_share = |mut results: Results| {
        let figures = &mut results.experiments[0].figures;
        let share = Figure { name: "send-share".to_owned(), base: None, ..figures[0].clone() };
        let own = Figure { name: "processor-share".to_owned(), ..share.clone() };
        figures.extend([share, own]);
        results
    };
    let found = compare(&with_share(before), &with_share(after), DiffOptions::default());
    let has = |name: &str| found.changes.iter().any(|it| it.figure == name);
    assert!(has("send") && has("processor-share") && !has("send-share"));
}

#[test]
fn an_improvement_is_no_regression() {
    let planted = Planted { figure: "round-trip", series: "split", x: None, factor: 0.8 };
    let after = run(1, 10, 0.03, true, Some(planted));
    let difference = compare(&run(2, 10, 0.03, true, None), &after, DiffOptions::default());
    assert!(difference.of(Judgement::Regression).is_empty());
    let better = difference.of(Judgement::Improvement);
    assert!(better.len() >= 6, "{better:?}");
    assert!(better.iter().all(|it| it.series == "split" && it.worse < Some(-0.1)), "{better:?}");
}

#[test]
fn a_change_in_few_rounds_is_perhaps_one() {
    for (factor, is_better) in [(0.8, false), (1.25, true)] {
        let planted = Planted { figure: "send", series: "split", x: Some(16e3), factor };
        let mut perhaps = 0;
        for seed in 0..10 {
            let before = run(seed, 4, 0.04, false, None);
            let after = run(1000 + seed, 4, 0.04, false, Some(planted));
            let found = compare(&before, &after, DiffOptions::default());
            let of = |judgement| {
                let is_it = |it: &&Change| it.figure == "send" && it.x == Some(16e3);
                found
                    .of(judgement)
                    .into_iter()
                    .filter(is_it)
                    .filter(|it| it.series == "split")
                    .count()
            };
            let [worse, better] = [Judgement::Suspected, Judgement::Promising].map(of);
            perhaps += if is_better { better } else { worse };
            assert_eq!(if is_better { worse } else { better }, 0, "seed {seed}, {factor}");
        }
        assert!(perhaps >= 3, "{perhaps} of 10, {factor}");
    }
}

#[test]
fn the_base_is_a_measure_of_the_machine_and_not_judged() {
    let (before, after) = (run(3, 10, 0.03, true, None), run(4, 10, 0.03, true, None));
    let difference = compare(&before, &after, DiffOptions::default());
    assert_eq!(difference.drifts.len(), FIGURES.len());
    assert!(difference.changes.iter().all(|it| it.series != "Linux"));
    assert!(difference.changes.iter().all(|it| it.base.as_deref() == Some("Linux")));
    let options = DiffOptions { absolute: true, ..DiffOptions::default() };
    let difference = compare(&before, &after, options);
    assert!(difference.drifts.is_empty());
    assert_eq!(difference.changes.len(), FIGURES.len() * SERIES.len() * (SIZES.len() + 1));
}

#[test]
fn what_has_no_counterpart_is_told() {
    let (before, mut after) = (run(5, 3, 0.03, false, None), run(6, 3, 0.03, false, None));
    let figures = &mut after.experiments[0].figures;
    figures[0].series.remove(1);
    figures[1].series[2].points.remove(0);
    figures[2].unit = "s".to_owned();
    figures[3].name = "datagrams".to_owned();
    let mut unpaired = compare(&before, &after, DiffOptions::default()).unpaired;
    unpaired.sort_unstable();
    let said: Vec<String> =
        unpaired.iter().map(|it| format!("{}: {}", it.what, it.reason)).collect();
    assert_eq!(
        said,
        [
            "synthetic/connect: only in the first file",
            "synthetic/datagrams: only in the second file",
            "synthetic/receive/fused@1000: only in the first file",
            "synthetic/round-trip: another unit or direction in each file",
            "synthetic/send/split: only in the first file",
        ]
    );
}

#[test]
fn too_few_rounds_are_not_judged() {
    let planted = Planted { figure: "send", series: "split", x: None, factor: 0.5 };
    let (before, after) = (run(7, 2, 0.0, false, None), run(8, 2, 0.0, false, Some(planted)));
    let difference = compare(&before, &after, DiffOptions::default());
    assert!(difference.changes.iter().all(|it| it.judgement == Judgement::Unjudged));
    // The same samples are no change, whatever their number.
    let same = compare(&before, &before, DiffOptions { bound: 0.0, absolute: false });
    assert!(same.of(Judgement::Regression).is_empty());
}
