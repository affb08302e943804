//! One measurement: an initiator's run, and the processor time of both sides.

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::plan::{BackEnd, Requests};
use super::row::StorageRow;
use super::world::{Seconds, StorageSide, StorageWorld};
use crate::machine::Watch;
use crate::processor_time;
use crate::row::Sample;

/// Where a measurement belongs.
pub(super) struct Place<'a> {
    pub(super) column: &'a str,
    pub(super) back_end: BackEnd,
    pub(super) requests: Requests,
    pub(super) round: u32,
}

/// Processes whose time counts for the target's side and the initiator's, besides the initiator's
/// own program.
pub(super) struct Counted {
    pub(super) target: Vec<u32>,
    pub(super) initiator: Vec<u32>,
}

/// What an initiator prints.
pub(super) struct InitiatorReading {
    rate: f64,
    p50_us: Option<f64>,
    p99_us: Option<f64>,
    /// Seconds of requests.
    seconds: f64,
}

/// Reads what an initiator has printed.
pub(super) type Parse = fn(&str, f64) -> Result<InitiatorReading>;

/// Runs the initiator for about `seconds` and reads its output.
pub(super) fn measure(
    world: &StorageWorld,
    place: &Place<'_>,
    counted: &Counted,
    mut initiator: Command,
    (seconds, parse): (f64, Parse),
) -> Result<StorageRow> {
    let watch = Watch::new()?;
    let times = || -> (Seconds, Seconds, Seconds) {
        let devices =
            [StorageSide::Target, StorageSide::Initiator].map(|side| world.device_seconds(side));
        let of = |pids: &[u32], device| {
            let all = pids.iter().filter_map(|pid| processor_time::of_process(*pid));
            all.fold((0.0, device), |(u, s), (user, system)| (u + user, s + system))
        };
        (
            of(&counted.target, devices[0]),
            of(&counted.initiator, devices[1]),
            processor_time::of_children().unwrap_or_default(),
        )
    };
    let before = times();
    let output = initiator.stdin(Stdio::null()).output().context("starting the initiator")?;
    let after = times();
    let machine = watch.end()?;
    let said = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        bail!("{}", why.trim().lines().next_back().unwrap_or("the initiator failed"));
    }
    let reading = parse(&said, seconds)?;
    let less = |now: Seconds, then: Seconds| (now.0 - then.0, now.1 - then.1);
    let (own, instance) = (less(after.2, before.2), less(after.1, before.1));
    let Place { column, back_end, requests, round } = *place;
    let bytes = reading.rate * reading.seconds * f64::from(requests.bytes);
    Ok(StorageRow {
        path: world.path,
        column: column.to_owned(),
        back_end,
        requests,
        round,
        rate: reading.rate,
        p50_us: reading.p50_us,
        p99_us: reading.p99_us,
        gib: bytes / f64::from(1 << 30),
        target_cpu: less(after.0, before.0),
        initiator_cpu: (own.0 + instance.0, own.1 + instance.1),
        machine,
    })
}

/// What `tasuki disk bench --json` prints.
pub(super) fn disk_bench(said: &str, _: f64) -> Result<InitiatorReading> {
    let said: Value = serde_json::from_str(said).context("what `tasuki disk bench` prints")?;
    let number = |value: &Value| value.as_f64().context("a number of `tasuki disk bench`");
    let latency = &said["latency_us"];
    Ok(InitiatorReading {
        rate: number(&said["requests_per_second"])?,
        p50_us: Some(number(&latency["p50"])?),
        p99_us: Some(number(&latency["p99"])?),
        seconds: number(&said["seconds"])?,
    })
}

/// What iscsi-perf prints: the last average.
pub(super) fn iscsi_perf(said: &str, seconds: f64) -> Result<InitiatorReading> {
    let averages = said.rsplit("iops average ").next().filter(|_| said.contains("iops average "));
    let number = averages.and_then(|rest| rest.split_whitespace().next());
    let rate = number.and_then(|number| number.parse().ok()).context("iscsi-perf's average")?;
    Ok(InitiatorReading { rate, p50_us: None, p99_us: None, seconds })
}

/// What a client of [`crate::client`] prints.
pub(super) fn of_sample(sample: &Sample) -> Result<InitiatorReading> {
    let p50_us = Some(sample.median_us.context("a median")?);
    Ok(InitiatorReading { rate: sample.rate, p50_us, p99_us: sample.p99_us, seconds: 0.0 })
}

/// The words of `tasuki disk bench` for these requests.
pub(super) fn disk_bench_words(requests: Requests, seconds: f64) -> Vec<String> {
    let (bytes, depth) = (requests.bytes.to_string(), requests.depth.to_string());
    let words = [
        "--rw",
        requests.access.word(),
        "--bs",
        &bytes,
        "--iodepth",
        &depth,
        "--runtime",
        &seconds.to_string(),
        "--destroy-data",
    ];
    words.map(str::to_owned).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_are_read() {
        let said = "\r00:00:01 - lba 1, iops current 9 (1 MB/s), iops average 9 (1 MB/s), busy 0 \
                    \riops average 20536 (80 MB/s)      \n\nfinished.\n";
        assert_eq!(iscsi_perf(said, 2.0).unwrap().rate, 20536.0);
        assert!(iscsi_perf("Login Failed.", 2.0).is_err());
        let said = r#"{"requests_per_second": 10.5, "seconds": 2.0,
                       "latency_us": {"p50": 3.0, "p99": 4.5}}"#;
        let reading = disk_bench(said, 1.0).unwrap();
        assert_eq!((reading.rate, reading.p99_us, reading.seconds), (10.5, Some(4.5), 2.0));
        assert!(disk_bench("{}", 1.0).is_err());
    }
}
