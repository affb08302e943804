//! Times that the machine took for simple things, in which the page can show other times. A report
//! of another machine, or of another year, is laid beside this one so.

use serde::Serialize;

use crate::results::Calibration;
use crate::statistics::median;

/// Units of time, in nanoseconds; `units.js` has the same.
const TIMES: [(&str, f64); 4] = [("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];

/// A simple thing and its time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct MachineUnit<'a> {
    name: &'a str,
    /// The median, nanoseconds; above 0.
    nanos: f64,
}

/// Those of the calibration that are times.
pub(super) fn machine_units(calibration: &[Calibration]) -> Vec<MachineUnit<'_>> {
    calibration.iter().filter_map(machine_unit).collect()
}

fn machine_unit(it: &Calibration) -> Option<MachineUnit<'_>> {
    let Calibration { name, unit, samples } = it;
    let (_, nanos) = TIMES.iter().find(|(name, _)| *name == unit)?;
    let values: Vec<f64> = samples.iter().map(|sample| sample.value).collect();
    let nanos = nanos * median(&values)?;
    (nanos > 0.0).then_some(MachineUnit { name, nanos })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Sample;

    #[test]
    fn times_become_units_and_nothing_else_does() {
        let of = |name: &str, unit: &str, value| Calibration {
            name: name.to_owned(),
            unit: unit.to_owned(),
            samples: vec![Sample { round: 0, value }],
        };
        let all = [of("wake-up", "µs", 5.0), of("stolen", "%", 3.0), of("nothing", "ns", 0.0)];
        assert_eq!(machine_units(&all), [MachineUnit { name: "wake-up", nanos: 5000.0 }]);
    }
}
