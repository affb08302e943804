use std::cell::Cell;
use std::rc::Rc;

use anyhow::bail;
use lab::{Axis, Direction, Figure, FigureKind, Mark, Scale};

use super::*;
use crate::lab::experiment::{FigurePlan, MeasuredValue, MeasuredValues};

/// Seconds of a measurement.
const EACH: u64 = 1;

/// Two points and two set-ups; `b` takes twice as long as `a`. The values of point 1 vary.
struct Fake {
    clock: Rc<Cell<u64>>,
    /// Measurements until the run is interrupted.
    left: Rc<Cell<u32>>,
    /// The set-up whose measurements fail.
    fails: Option<usize>,
    count: u32,
}

impl LabExperiment for Fake {
    fn figures(&self) -> Vec<FigurePlan> {
        let figure = |name: &str, is_judged| FigurePlan {
            name: name.to_owned(),
            title: name.to_owned(),
            axis: Axis { title: "place".to_owned(), unit: String::new(), scale: Scale::Linear },
            unit: "µs",
            direction: Direction::Lower,
            base: Some("a"),
            words: "rtt".to_owned(),
            is_judged,
            kind: FigureKind::Lines,
            second: None,
        };
        vec![figure("mean", true), figure("wild", false)]
    }

    fn points(&self) -> Vec<String> {
        ["still", "noisy"].map(str::to_owned).to_vec()
    }

    fn setups(&self) -> Vec<String> {
        ["a", "b"].map(str::to_owned).to_vec()
    }

    fn measure(&mut self, point: usize, setup: usize) -> Result<MeasuredValues> {
        self.clock.set(self.clock.get() + EACH);
        self.count += 1;
        self.left.set(self.left.get().saturating_sub(1));
        if self.left.get() == 0 || (self.fails == Some(setup)) {
            bail!("it was ended");
        }
        let noise = if point == 1 { f64::from(self.count % 7) } else { 0.0 };
        let value = (10.0 + noise) * (setup + 1) as f64;
        let reading = |figure, value| MeasuredValue {
            figure,
            series: self.setups()[setup].clone(),
            x: point as f64,
            y: 0.0,
            value,
        };
        let wild = f64::from(self.count);
        Ok(MeasuredValues { readings: vec![reading(0, value), reading(1, wild)], warm_up: 2 })
    }

    fn conclude(&self, figures: &mut Vec<Figure>) -> Vec<String> {
        vec![format!("{} figures.", figures.len())]
    }
}

struct Around {
    clock: Rc<Cell<u64>>,
    left: Rc<Cell<u32>>,
    kept: Option<lab::Experiment>,
    rounds: u32,
    failures: Vec<String>,
}

impl Surroundings for Around {
    fn now(&self) -> Duration {
        Duration::from_secs(self.clock.get())
    }

    fn is_interrupted(&self) -> bool {
        self.left.get() == 0
    }

    fn begins(&mut self, _: &str, part: f64) {
        assert!((0.0..=1.0).contains(&part), "{part}");
    }

    fn fails(&mut self, what: &str) {
        self.failures.push(what.to_owned());
    }

    fn keep(&mut self, experiment: &dyn LabExperiment, notebook: &Notebook) -> Result<()> {
        self.rounds += 1;
        self.kept = Some(notebook.experiment(experiment));
        Ok(())
    }
}

fn fake(left: u32) -> (Fake, Around) {
    let (clock, left) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(left)));
    let fake = Fake { clock: Rc::clone(&clock), left: Rc::clone(&left), fails: None, count: 0 };
    (fake, Around { clock, left, kept: None, rounds: 0, failures: Vec::new() })
}

fn limits(seconds: u64) -> EngineLimits {
    let time = Duration::from_secs(seconds);
    EngineLimits { time, rounds: None, precision: Precision { time, ..Precision::default() } }
}

fn rounds_at(experiment: &lab::Experiment, series: usize, x: usize) -> usize {
    experiment.figures[0].series[series].points[x].by_round().len()
}

/// The numbers of the rounds of a point, one for each sample.
fn numbers_at(experiment: &lab::Experiment, series: usize, x: usize) -> Vec<u32> {
    let samples = &experiment.figures[0].series[series].points[x].samples;
    samples.iter().map(|sample| sample.round).collect()
}

#[test]
fn a_still_point_ends_and_a_noisy_one_goes_on_until_the_time_is_up() {
    let (mut fake, mut around) = fake(u32::MAX);
    let mut notebook = Notebook::new("rtt", "Round trips", &fake);
    let end = run(&mut fake, &mut notebook, limits(60), &mut around).unwrap();
    assert_eq!((end, notebook.is_over), (EngineEnd::OutOfTime, true));
    let found = around.kept.unwrap();
    assert_eq!(found.findings, ["2 figures."]);
    for series in [0, 1] {
        assert_eq!(rounds_at(&found, series, 0), 6, "{found:?}");
        // 2 to warm up, 6 rounds of 4, then 2 a round: the last turn is finished.
        assert_eq!(rounds_at(&found, series, 1), 6 + (60 - 2 - 6 * 4) / 2);
        let points = &found.figures[0].series[series].points;
        assert!(points[0].marks.is_empty() && points[1].marks == [Mark::Noisy], "{points:?}");
        assert_eq!(points[0].warm_up, 2 * 6);
    }
    let ratios =
        found.figures[0].series[1].points[0].ratios_to(&found.figures[0].series[0].points[0]);
    assert!(ratios.values().all(|ratio| *ratio == 2.0), "{ratios:?}");
}

#[test]
fn rounds_that_were_asked_for_are_measured_whatever_the_time() {
    let (mut fake, mut around) = fake(u32::MAX);
    let mut notebook = Notebook::new("rtt", "Round trips", &fake);
    let limits = EngineLimits { rounds: Some(9), ..limits(1) };
    let end = run(&mut fake, &mut notebook, limits, &mut around).unwrap();
    let found = around.kept.unwrap();
    assert_eq!((end, fake.count), (EngineEnd::Done, 2 + 9 * 4));
    assert_eq!([0, 1].map(|x| rounds_at(&found, 0, x)), [9, 9]);
}

#[test]
fn the_first_round_is_whole_even_if_the_time_is_too_short() {
    let (mut fake, mut around) = fake(u32::MAX);
    let mut notebook = Notebook::new("rtt", "Round trips", &fake);
    let end = run(&mut fake, &mut notebook, limits(1), &mut around).unwrap();
    let found = around.kept.unwrap();
    assert_eq!((end, rounds_at(&found, 1, 1)), (EngineEnd::OutOfTime, 1));
    assert_eq!(found.figures[0].series[1].points[1].marks, [Mark::Noisy]);
}

#[test]
fn an_interrupted_run_goes_on_where_it_was() {
    let (mut first, mut around) = fake(2 + 4 + 3);
    let mut notebook = Notebook::new("rtt", "Round trips", &first);
    let end = run(&mut first, &mut notebook, limits(60), &mut around).unwrap();
    assert_eq!((end, notebook.is_over), (EngineEnd::Interrupted, false));
    let earlier = around.kept.unwrap();
    // The second round has the turn of the first point, and what was cut off is no failure.
    assert_eq!((notebook.round, notebook.next_point), (1, 1));
    assert_eq!([0, 1].map(|series| rounds_at(&earlier, series, 0)), [2, 2]);
    assert_eq!([0, 1].map(|series| rounds_at(&earlier, series, 1)), [1, 1]);
    assert_eq!(around.failures, [""; 0]);

    let (mut second, mut around) = fake(u32::MAX);
    let mut notebook = Notebook::new("rtt", "Round trips", &second);
    notebook.restore(&earlier, 1);
    notebook.spent = Duration::from_secs(9);
    assert_eq!((notebook.round, notebook.next_point), (1, 1));
    run(&mut second, &mut notebook, limits(60), &mut around).unwrap();
    let found = around.kept.unwrap();
    // The still point is known well enough after these, and not before this run has measured it.
    assert_eq!(numbers_at(&found, 0, 0), [0, 1, 2, 3, 4, 5]);
    let noisy = numbers_at(&found, 1, 1);
    assert_eq!(noisy, (0..noisy.len() as u32).collect::<Vec<_>>());
    // No time for warming up is spent again. A turn of two seconds would have ended too late.
    assert_eq!(notebook.spent, Duration::from_secs(59));
}

/// A run of so many rounds, of which `earlier` is known, that is interrupted after so many
/// measurements. What is known afterwards, and the points of a round that is not whole.
fn part(
    rounds: u32,
    earlier: Option<(lab::Experiment, usize)>,
    left: u32,
) -> (EngineEnd, (lab::Experiment, usize)) {
    let (mut fake, mut around) = fake(left);
    let mut notebook = Notebook::new("rtt", "Round trips", &fake);
    if let Some((earlier, points)) = &earlier {
        notebook.restore(earlier, *points);
    }
    let limits = EngineLimits { rounds: Some(rounds), ..limits(60) };
    let end = run(&mut fake, &mut notebook, limits, &mut around).unwrap();
    let found = around.kept.unwrap();
    // As the session does, which keeps what it has if nothing was found.
    let found = match earlier {
        Some((earlier, _)) if found.figures.is_empty() => earlier,
        _ => found,
    };
    (end, (found, notebook.next_point))
}

#[test]
fn a_run_that_goes_on_has_each_round_of_each_point_wherever_it_was_interrupted() {
    for rounds in [1, 2] {
        let all = 2 + rounds * 4;
        for (first, second) in (1..=all).flat_map(|it| (1..=all).map(move |then| (it, then))) {
            let (end, found) = part(rounds, None, first);
            assert_eq!(end, EngineEnd::Interrupted);
            let (_, found) = part(rounds, Some(found), second);
            for figure in &found.0.figures {
                for x in 0..figure.places().len() {
                    let of = |series: usize| numbers_at(&found.0, series, x);
                    assert_eq!(of(0), of(1), "a turn is whole: {first}, {second}");
                }
            }
            let (end, (found, points)) = part(rounds, Some(found), u32::MAX);
            assert_eq!((end, points), (EngineEnd::Done, 0));
            for (series, x) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                let numbers = numbers_at(&found, series, x);
                assert_eq!(numbers, (0..rounds).collect::<Vec<_>>(), "{first}, {second}");
            }
        }
    }
}

#[test]
fn failures_before_an_interruption_are_counted_with_later_ones() {
    let (mut fake, mut around) = fake(u32::MAX);
    let mut notebook = Notebook::new("rtt", "Round trips", &fake);
    let limits = EngineLimits { rounds: Some(1), ..limits(60) };
    run(&mut fake, &mut notebook, limits, &mut around).unwrap();
    let mut count = |earlier: &lab::Experiment| {
        let mut notebook = Notebook::new("rtt", "Round trips", &fake);
        notebook.restore(earlier, 0);
        notebook.warm((0, 0), &fake.measure(0, 0).unwrap());
        notebook.fail((0, 0), "it was ended".to_owned());
        let found = notebook.experiment(&fake);
        (found.figures[0].series[0].points[0].discarded, found)
    };
    let (first, found) = count(&around.kept.unwrap());
    assert_eq!((first, count(&found).0), (1, 2));
}

/// What is left of six rounds in which a set-up always fails.
fn without(setup: usize) -> Around {
    let (mut fake, mut around) = fake(u32::MAX);
    fake.fails = Some(setup);
    let mut notebook = Notebook::new("rtt", "Round trips", &fake);
    let limits = EngineLimits { rounds: Some(6), ..limits(60) };
    run(&mut fake, &mut notebook, limits, &mut around).unwrap();
    around
}

#[test]
fn a_set_up_that_fails_is_counted_told_and_given_up() {
    let around = without(1);
    let found = around.kept.unwrap();
    assert_eq!(found.figures[0].series.len(), 1);
    assert_eq!(rounds_at(&found, 0, 0), 6);
    assert_eq!(around.failures.len(), PATIENCE as usize, "{:?}", around.failures);
    assert_eq!(around.failures[0], "round 1: still, b: it was ended");
}

#[test]
fn without_its_base_a_run_goes_on() {
    for figure in without(0).kept.unwrap().figures {
        assert_eq!((figure.base, figure.series.len()), (None, 1));
    }
}
