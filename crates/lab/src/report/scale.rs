//! Axes of a plot: from values to a length, and which values get a tick.

use crate::results::Scale;

/// An axis from `low` to `high`, which are different, drawn from `from` to `to`.
#[derive(Debug, Clone, Copy)]
pub(super) struct AxisScale {
    kind: Scale,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl AxisScale {
    /// An axis with room for all these values. A logarithmic one has no place for 0.
    pub(super) fn around(
        values: impl Iterator<Item = f64>,
        wanted: Scale,
        from: f64,
        to: f64,
    ) -> Self {
        let all: Vec<f64> = values.collect();
        let is_above = !all.is_empty() && all.iter().all(|value| *value > 0.0);
        let kind = if is_above { wanted } else { Scale::Linear };
        let least = all.iter().copied().fold(f64::INFINITY, f64::min);
        let most = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let (low, high) = if all.is_empty() { (0.0, 1.0) } else { (least, most) };
        let mut axis = Self { kind, low: 0.0, high: 1.0, from, to };
        let (low, high) = (axis.transformed(low), axis.transformed(high));
        let room = if high > low { (high - low) * 0.05 } else { 0.5 };
        (axis.low, axis.high) = (low - room, high + room);
        axis
    }

    fn transformed(&self, value: f64) -> f64 {
        match self.kind {
            Scale::Linear => value,
            Scale::Log => value.log10(),
        }
    }

    /// Where a value lies.
    pub(super) fn at(&self, value: f64) -> f64 {
        let part = (self.transformed(value) - self.low) / (self.high - self.low);
        self.from + part * (self.to - self.from)
    }

    /// Values for about this many ticks.
    pub(super) fn ticks(&self, about: usize) -> Vec<f64> {
        match self.kind {
            Scale::Linear => linear_ticks(self.low, self.high, about),
            Scale::Log if self.high - self.low < 0.7 => {
                linear_ticks(10_f64.powf(self.low), 10_f64.powf(self.high), about)
            }
            Scale::Log => log_ticks(self.low, self.high, about),
        }
    }
}

fn linear_ticks(low: f64, high: f64, about: usize) -> Vec<f64> {
    let rough = (high - low) / about.max(1) as f64;
    let power = 10_f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0];
    let step = steps.iter().map(|it| it * power).find(|step| *step >= rough).unwrap_or(rough);
    let first = (low / step).ceil() as i64;
    let last = (high / step).floor() as i64;
    (first..=last).map(|at| at as f64 * step).collect()
}

fn log_ticks(low: f64, high: f64, about: usize) -> Vec<f64> {
    let powers = low.floor() as i32..=high.ceil() as i32;
    let of = |factors: &[f64]| -> Vec<f64> {
        let all = powers.clone().flat_map(|power| {
            factors.iter().map(move |factor| factor * 10_f64.powi(power)).collect::<Vec<_>>()
        });
        all.filter(|value| (low..=high).contains(&value.log10())).collect()
    };
    let fine = of(&[1.0, 2.0, 5.0]);
    if fine.len() <= about + 2 {
        return fine;
    }
    let coarse = of(&[1.0]);
    let step = coarse.len().div_ceil(about.max(1)).max(1);
    coarse.into_iter().step_by(step).collect()
}
