//! What the benchmarks print, as figures.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::row::{Quantity, Reading};

/// The number behind `label` in the first line that has it, up to a blank.
fn after(said: &str, label: &str) -> Result<f64> {
    let line = said.lines().find_map(|line| Some(line.split_once(label)?.1));
    let word = line.and_then(|rest| rest.split_whitespace().next());
    let word = word.with_context(|| format!("no `{label}`"))?;
    let digits = word.trim_end_matches([',', ';']);
    digits.parse().with_context(|| format!("`{word}` behind `{label}` is no number"))
}

/// `redis-benchmark --csv`: a line for each kind of request.
pub(crate) fn redis(said: &str) -> Result<Vec<Reading>> {
    let mut lines = said.lines().map(|line| line.split(',').map(|word| word.trim_matches('"')));
    let heads: Vec<&str> = lines.next().context("no output")?.collect();
    let column = |name: &str| heads.iter().position(|head| *head == name).context("no such column");
    let [test, rps, p50, p99] = ["test", "rps", "p50_latency_ms", "p99_latency_ms"];
    let [test, rps, p50, p99] = [column(test)?, column(rps)?, column(p50)?, column(p99)?];
    let mut readings = Vec::new();
    for line in lines {
        let words: Vec<&str> = line.collect();
        let number = |at: usize| -> Result<f64> { Ok(words.get(at).context("a cell")?.parse()?) };
        let request = *words.get(test).context("a request")?;
        readings.push(Reading::rate("requests/s", number(rps)?).of(request));
        readings.push(Reading::latency(Quantity::Median, 1e3 * number(p50)?).of(request));
        readings.push(Reading::latency(Quantity::P99, 1e3 * number(p99)?).of(request));
    }
    ensure!(!readings.is_empty(), "no requests");
    Ok(readings)
}

/// `wrk --latency`.
pub(crate) fn wrk(said: &str) -> Result<Vec<Reading>> {
    let rate = after(said, "Requests/sec:")?;
    ensure!(rate > 0.0, "no request was answered");
    let percentile = |label: &str| -> Result<f64> {
        let found = said.lines().find_map(|line| line.trim().strip_prefix(label));
        wrk_micros(found.with_context(|| format!("no `{label}`"))?.trim())
    };
    let socket_errors = said.lines().find_map(|line| line.trim().strip_prefix("Socket errors:"));
    let words = socket_errors.into_iter().flat_map(|line| line.split([' ', ',']));
    // The sum of nothing would be -0.0.
    let mut errors = words.filter_map(|word| word.parse::<f64>().ok()).fold(0.0, |a, b| a + b);
    if said.contains("Non-2xx or 3xx responses:") {
        errors += after(said, "Non-2xx or 3xx responses:")?;
    }
    Ok(vec![
        Reading::rate("requests/s", rate),
        Reading::latency(Quantity::Median, percentile("50%")?),
        Reading::latency(Quantity::P99, percentile("99%")?),
        Reading::errors(errors),
    ])
}

/// A time as wrk writes it.
fn wrk_micros(text: &str) -> Result<f64> {
    let units = [("us", 1.0), ("ms", 1e3), ("s", 1e6), ("m", 60e6)];
    let found = units.iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, scale)));
    let (digits, scale) = found.with_context(|| format!("`{text}` has no unit of time"))?;
    Ok(digits.parse::<f64>().with_context(|| format!("`{text}` is no time"))? * scale)
}

/// `iperf3 -J`: what has arrived.
pub(crate) fn iperf3(said: &str) -> Result<Vec<Reading>> {
    let report: Value = serde_json::from_str(said)?;
    if let Some(error) = report["error"].as_str() {
        anyhow::bail!("{error}");
    }
    let bits = report["end"]["sum_received"]["bits_per_second"].as_f64();
    let mib = bits.context("no rate")? / 8.0 / f64::from(1 << 20);
    Ok(vec![Reading::rate("MiB/s", mib)])
}

/// `sockperf under-load`: its rate is given, so it is no figure.
pub(crate) fn sockperf_load(said: &str) -> Result<Vec<Reading>> {
    let mut readings = sockperf(said)?;
    readings.retain(|reading| reading.quantity != Quantity::Rate);
    Ok(readings)
}

/// `sockperf ping-pong`. Its latencies are half of a round trip.
pub(crate) fn sockperf(said: &str) -> Result<Vec<Reading>> {
    let valid = said.lines().find(|line| line.contains("[Valid Duration]")).context("no end")?;
    let seconds = after(valid, "RunTime=")?;
    let received = after(valid, "ReceivedMessages=")?;
    ensure!(received > 0.0 && seconds > 0.0, "no message was answered");
    let dropped = after(said, "dropped messages =")?;
    Ok(vec![
        Reading::rate("answers/s", received / seconds),
        Reading::latency(Quantity::Median, after(said, "percentile 50.000 =")?),
        Reading::latency(Quantity::P99, after(said, "percentile 99.000 =")?),
        Reading::latency(Quantity::P999, after(said, "percentile 99.900 =")?),
        Reading::errors(dropped),
    ])
}

/// `pgbench`, and behind it the lines of its log: client, transaction, microseconds, others.
pub(crate) fn pgbench(said: &str) -> Result<Vec<Reading>> {
    let rate = after(said, "tps =")?;
    let failed = after(said, "number of failed transactions:").unwrap_or(0.0);
    let micros = |line: &str| -> Option<f64> {
        let words: Vec<&str> = line.split(' ').collect();
        let is_log = words.len() >= 6 && words.iter().all(|word| word.parse::<u64>().is_ok());
        is_log.then(|| words[2].parse().ok()).flatten()
    };
    let mut times: Vec<f64> = said.lines().filter_map(micros).collect();
    times.sort_by(f64::total_cmp);
    let at = |share: usize| times.get(times.len() * share / 100).copied().context("an empty log");
    Ok(vec![
        Reading::rate("transactions/s", rate),
        Reading::latency(Quantity::Median, at(50)?),
        Reading::latency(Quantity::P99, at(99)?),
        Reading::errors(failed),
    ])
}

/// `memaslap`, which gives no percentiles.
pub(crate) fn memaslap(said: &str) -> Result<Vec<Reading>> {
    let rate = after(said, "TPS:")?;
    ensure!(rate > 0.0, "no request was answered");
    Ok(vec![Reading::rate("requests/s", rate), Reading::errors(after(said, "get_misses:")?)])
}

#[cfg(test)]
mod tests;
