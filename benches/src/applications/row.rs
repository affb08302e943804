//! Programs, and the figures that their benchmarks print.

use serde::{Deserialize, Serialize};

use crate::machine::MachineState;
use crate::setup::{Role, Setup};

/// A server, and the benchmark that comes with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Application {
    /// redis-server and redis-benchmark.
    Redis,
    /// nginx and wrk.
    Nginx,
    /// iperf3 at both ends.
    Iperf3,
    /// sockperf at both ends.
    Sockperf,
    /// PostgreSQL and pgbench -S.
    Postgres,
    /// memcached and memaslap.
    Memcached,
}

impl Application {
    /// All, in the order of the tables.
    pub(crate) const ALL: [Self; 6] =
        [Self::Redis, Self::Nginx, Self::Iperf3, Self::Sockperf, Self::Postgres, Self::Memcached];

    /// As `--only` has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Redis => "redis",
            Self::Nginx => "nginx",
            Self::Iperf3 => "iperf3",
            Self::Sockperf => "sockperf",
            Self::Postgres => "postgres",
            Self::Memcached => "memcached",
        }
    }

    /// The title of its table.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Redis => "redis-server, redis-benchmark",
            Self::Nginx => "nginx (2 workers), wrk",
            Self::Iperf3 => "iperf3",
            Self::Sockperf => "sockperf",
            Self::Postgres => "PostgreSQL, pgbench -S",
            Self::Memcached => "memcached (4 threads), memaslap",
        }
    }
}

/// What a figure says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Quantity {
    /// Requests, transactions, messages or MiB a second. More is better.
    Rate,
    /// Median latency, microseconds.
    Median,
    /// 99th percentile, microseconds.
    P99,
    /// 99.9th percentile, microseconds.
    P999,
    /// Requests that failed, or messages that were lost.
    Errors,
}

/// One figure of a program's output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Reading {
    /// The request, where the output has figures of several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) request: Option<String>,
    /// Its kind.
    pub(crate) quantity: Quantity,
    /// The unit of a rate; "µs" or "errors" otherwise.
    pub(crate) unit: String,
    /// The figure.
    pub(crate) value: f64,
}

impl Reading {
    /// A rate.
    pub(crate) fn rate(unit: &str, value: f64) -> Self {
        Self { request: None, quantity: Quantity::Rate, unit: unit.to_owned(), value }
    }

    /// A latency in microseconds.
    pub(crate) fn latency(quantity: Quantity, value: f64) -> Self {
        Self { request: None, quantity, unit: "µs".to_owned(), value }
    }

    /// A number of errors.
    pub(crate) fn errors(value: f64) -> Self {
        let unit = "errors".to_owned();
        Self { request: None, quantity: Quantity::Errors, unit, value }
    }

    /// The same, of one request among several.
    pub(crate) fn of(self, request: &str) -> Self {
        Self { request: Some(request.to_owned()), ..self }
    }
}

/// A figure, and where it was taken.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ApplicationRow {
    /// The program.
    pub(crate) application: Application,
    /// The measurement's title.
    pub(crate) measurement: String,
    /// The set-up.
    pub(crate) setup: Setup,
    /// Tasuki's role. The kernel's rows are all `Client`, and the base of both roles.
    pub(crate) role: Role,
    /// The round, from 0.
    pub(crate) round: u32,
    /// The figure.
    #[serde(flatten)]
    pub(crate) reading: Reading,
    /// The machine meanwhile.
    pub(crate) machine: MachineState,
}
