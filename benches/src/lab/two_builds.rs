//! An experiment with two builds of Tasuki: the present one, and an earlier one beside it
//! (`--before`).
//!
//! Each set-up with Tasuki is measured twice in a round, one build right behind the other, and in
//! every other round the earlier one first. So whatever the machine does meets both alike, and the
//! ratio of the two within a round says what changed. The earlier build's series have the name of
//! the present one's and [`BEFORE`].
//!
//! Instances end and begin in that order as well. Of two instances of one build the first one was
//! slower by up to 5 %, for as long as both lived.

use anyhow::{Context as _, Result};
use lab::Figure;
use lab::results::BEFORE;

use super::experiment::{FigurePlan, LabExperiment, MeasuredValues};
use crate::setup::Build;

/// See the module.
pub(crate) struct TwoBuilds {
    new: Box<dyn LabExperiment>,
    before: Box<dyn LabExperiment>,
    /// Whose turn it is, and with which of its set-ups.
    turns: Vec<(Build, usize)>,
    /// Words that name the earlier build, behind those of a figure.
    words: String,
}

impl TwoBuilds {
    /// The same experiment with each build; `words` name the earlier one.
    pub(crate) fn new(
        new: Box<dyn LabExperiment>,
        before: Box<dyn LabExperiment>,
        words: String,
    ) -> Self {
        let mut turns = Vec::new();
        for setup in 0..new.setups().len() {
            turns.push((Build::New, setup));
            if new.has_tasuki(setup) {
                turns.push((Build::Before, setup));
            }
        }
        Self { new, before, turns, words }
    }
}

impl LabExperiment for TwoBuilds {
    fn figures(&self) -> Vec<FigurePlan> {
        let mut figures = self.new.figures();
        for figure in &mut figures {
            figure.words.push_str(&self.words);
        }
        figures
    }

    fn points(&self) -> Vec<String> {
        self.new.points()
    }

    fn setups(&self) -> Vec<String> {
        let names = self.new.setups();
        let title = |(build, setup): &(Build, usize)| match build {
            Build::New => names[*setup].clone(),
            Build::Before => format!("{}{BEFORE}", names[*setup]),
        };
        self.turns.iter().map(title).collect()
    }

    fn has_tasuki(&self, setup: usize) -> bool {
        self.turns.get(setup).is_some_and(|(_, setup)| self.new.has_tasuki(*setup))
    }

    fn begin_round(&mut self, round: u32) {
        let mut builds = [&mut self.new, &mut self.before];
        if !round.is_multiple_of(2) {
            builds.reverse();
        }
        builds.into_iter().for_each(|build| build.begin_round(round));
    }

    fn measure(&mut self, point: usize, setup: usize) -> Result<MeasuredValues> {
        let (build, setup) = *self.turns.get(setup).context("a set-up")?;
        if build == Build::New {
            return self.new.measure(point, setup);
        }
        let mut measured = self.before.measure(point, setup)?;
        for reading in &mut measured.readings {
            reading.series.push_str(BEFORE);
        }
        Ok(measured)
    }

    fn conclude(&self, figures: &mut Vec<Figure>) -> Vec<String> {
        self.new.conclude(figures)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use lab::{Direction, FigureKind};

    use super::*;
    use crate::lab::experiment::{MeasuredValue, linear_axis};

    /// An experiment with Linux and Tasuki, whose values are all the same. It notes its value when
    /// a round begins.
    struct Constant {
        value: f64,
        begun: Rc<RefCell<Vec<f64>>>,
    }

    /// Two builds, the present one with 3 and the earlier one with 2, and what they note.
    fn two() -> (TwoBuilds, Rc<RefCell<Vec<f64>>>) {
        let begun = Rc::new(RefCell::new(Vec::new()));
        let [new, before] =
            [3.0, 2.0].map(|value| Box::new(Constant { value, begun: Rc::clone(&begun) }));
        (TwoBuilds::new(new, before, " --before old".to_owned()), begun)
    }

    impl LabExperiment for Constant {
        fn figures(&self) -> Vec<FigurePlan> {
            vec![FigurePlan {
                name: "rate".to_owned(),
                title: "Rate".to_owned(),
                axis: linear_axis("place", ""),
                unit: "MiB/s",
                direction: Direction::Higher,
                base: Some("Linux"),
                words: "throughput".to_owned(),
                is_judged: true,
                kind: FigureKind::Lines,
                second: None,
            }]
        }

        fn points(&self) -> Vec<String> {
            vec!["here".to_owned()]
        }

        fn setups(&self) -> Vec<String> {
            vec!["Linux".to_owned(), "split".to_owned()]
        }

        fn has_tasuki(&self, setup: usize) -> bool {
            setup == 1
        }

        fn begin_round(&mut self, _: u32) {
            self.begun.borrow_mut().push(self.value);
        }

        fn measure(&mut self, _: usize, setup: usize) -> Result<MeasuredValues> {
            let series = self.setups().swap_remove(setup);
            let reading = MeasuredValue { figure: 0, series, x: 1.0, y: 0.0, value: self.value };
            Ok(MeasuredValues { readings: vec![reading], warm_up: 0 })
        }

        fn conclude(&self, _: &mut Vec<Figure>) -> Vec<String> {
            Vec::new()
        }
    }

    #[test]
    fn tasuki_is_measured_with_each_build_and_linux_once() {
        let (mut both, _) = two();
        assert_eq!(both.setups(), ["Linux", "split", "split, before"]);
        assert_eq!(both.figures()[0].words, "throughput --before old");
        let mut measured = |setup| {
            let reading = both.measure(0, setup).expect("a value").readings.remove(0);
            (reading.series, reading.value)
        };
        assert_eq!(measured(0), ("Linux".to_owned(), 3.0));
        assert_eq!(measured(1), ("split".to_owned(), 3.0));
        assert_eq!(measured(2), ("split, before".to_owned(), 2.0));
    }

    #[test]
    fn the_builds_begin_rounds_in_turn() {
        let (mut both, begun) = two();
        (0..3).for_each(|round| both.begin_round(round));
        assert_eq!(*begun.borrow(), [3.0, 2.0, 2.0, 3.0, 3.0, 2.0]);
    }
}
