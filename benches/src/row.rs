//! A row of `compare`: one sample, and the set-up, build and round that it belongs to.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::machine::MachineState;
use crate::protocol::Test;
use crate::setup::{Build, Role, Setup};

/// Classes of times for a factor of ten.
const CLASSES: f64 = 20.0;

/// One line of a client's output.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Sample {
    /// The measurement.
    pub(crate) test: Test,
    /// Bytes per write or request.
    pub(crate) size: u32,
    /// MiB/s for send and receive; round trips or connections per second otherwise.
    pub(crate) rate: f64,
    /// Median round trip, microseconds (rtt, connect).
    pub(crate) median_us: Option<f64>,
    /// 99th percentile, microseconds (rtt, connect).
    pub p99_us: Option<f64>,
    /// More about round trips (rtt).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) trips: Option<TripDetails>,
}

/// A client's line. One of another stack tells the times of round trips: what is made of them is
/// the same for all.
#[derive(Deserialize)]
struct ClientLine {
    #[serde(flatten)]
    sample: Sample,
    #[serde(default)]
    times_us: Vec<f64>,
    #[serde(default)]
    one_read: u32,
    #[serde(default)]
    warm_up: u32,
}

impl Sample {
    /// Of a client's line.
    ///
    /// # Errors
    /// Those of its JSON.
    pub(crate) fn of_line(line: &str) -> serde_json::Result<Self> {
        let ClientLine { sample, times_us, one_read, warm_up } = serde_json::from_str(line)?;
        let told = (!times_us.is_empty()).then(|| TripDetails::new(&times_us, one_read, warm_up));
        Ok(Self { trips: sample.trips.or(told), ..sample })
    }

    /// One that has nothing but a rate.
    pub(crate) fn of_rate(test: Test, size: u32, rate: f64) -> Self {
        Self { test, size, rate, median_us: None, p99_us: None, trips: None }
    }
}

/// What the fourth paper asks about round trips.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct TripDetails {
    /// How many there were.
    pub(crate) count: u32,
    /// Round trips before them, which do not count.
    pub(crate) warm_up: u32,
    /// Mean, microseconds.
    pub(crate) mean_us: f64,
    /// In which part of them the receiver had the whole request with one read, 0 to 1.
    pub(crate) one_read: f64,
    /// Lower bounds of classes of times, microseconds, and the part in each class, 0 to 1. A class
    /// is 12.2 % wide, so 20 of them are a factor of ten.
    pub(crate) classes: Vec<(f64, f64)>,
}

impl TripDetails {
    /// Of these times, microseconds; `one_read` of them needed one read.
    pub(crate) fn new(times: &[f64], one_read: u32, warm_up: u32) -> Self {
        let all = times.len().max(1) as f64;
        let mut classes: BTreeMap<i32, u32> = BTreeMap::new();
        for time in times {
            let class = (CLASSES * time.max(1e-3).log10()).floor() as i32;
            *classes.entry(class).or_default() += 1;
        }
        let class = |(at, count): (i32, u32)| {
            let low = 10_f64.powf(f64::from(at) / CLASSES);
            ((low * 1000.0).round() / 1000.0, f64::from(count) / all)
        };
        Self {
            count: times.len() as u32,
            warm_up,
            mean_us: times.iter().sum::<f64>() / all,
            one_read: f64::from(one_read) / all,
            classes: classes.into_iter().map(class).collect(),
        }
    }
}

/// A sample and where it was taken.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Row {
    /// The set-up.
    pub(crate) setup: Setup,
    /// Which build of Tasuki; the kernel's rows are all `New`.
    #[serde(default)]
    pub(crate) build: Build,
    /// Whether the set-up's end is the client or the server.
    #[serde(default)]
    pub(crate) role: Role,
    /// The round, from 0.
    pub(crate) round: u32,
    /// The figures.
    #[serde(flatten)]
    pub(crate) sample: Sample,
    /// CPU seconds of the client and all of Tasuki's processes: user, system. They are those of the
    /// whole client command, so they mean something only for commands of one size. The system time
    /// includes that of kernel threads that receive the frames of these processes
    /// ([`KernelThreads`](crate::processor_time::KernelThreads)).
    pub(crate) cpu: Option<(f64, f64)>,
    /// GiB that this CPU time moved.
    pub(crate) gib: f64,
    /// The machine meanwhile.
    pub(crate) machine: Option<MachineState>,
}

impl Row {
    /// CPU seconds per GiB, user and system.
    pub(crate) fn cpu_per_gib(&self) -> Option<f64> {
        self.cpu.map(|(user, system)| (user + system) / self.gib)
    }

    /// The rate, if the row belongs to the sweep over sizes and not to the CPU measurement.
    pub(crate) fn sweep_rate(&self) -> Option<f64> {
        self.cpu.is_none().then_some(self.sample.rate)
    }
}

/// The value of a table's cell, out of a row.
pub(crate) type RowFigure = fn(&Row) -> Option<f64>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_of_other_stacks_tell_their_times() {
        let line = r#"{"test":"rtt","size":64,"rate":2.5,"median_us":20.0,"p99_us":30.0,
                       "times_us":[10.0,20.0,30.0],"one_read":3,"warm_up":2}"#;
        let sample = Sample::of_line(line).unwrap();
        let trips = sample.trips.unwrap();
        assert_eq!((trips.count, trips.warm_up, trips.mean_us), (3, 2, 20.0));
        assert_eq!((trips.one_read, sample.p99_us), (1.0, Some(30.0)));
        let rate = r#"{"test":"send","size":64,"rate":2.5,"median_us":null,"p99_us":null}"#;
        assert_eq!(Sample::of_line(rate).unwrap().trips, None);
    }

    #[test]
    fn times_are_put_into_classes() {
        let details = TripDetails::new(&[10.0, 10.5, 100.0, 1000.0], 3, 1);
        assert_eq!((details.mean_us, details.one_read), (280.125, 0.75));
        assert_eq!(details.classes, [(10.0, 0.5), (100.0, 0.25), (1000.0, 0.25)]);
        assert_eq!(TripDetails::new(&[], 0, 0).classes, []);
    }
}
