//! `tasuki stats`: an instance's counters, by layer.
//!
//! Names, layers and meanings are those of docs/reference/counters.md, which is part of this
//! binary: the page is the one list of counters, and `tasuki stats` shows its explanations.
//! Counters are never reset; an interval's figures are the difference of two answers.

mod prometheus;
mod sample;
mod targets;

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use abi::control::InstanceStatus;
use abi::stats::Histogram;

use self::sample::{Sample, is_gauge, layers};
use super::ps::status;
use super::{print, table};
use crate::cli::StatsArgs;
use crate::exit::{Code, Failure};
use crate::operator::Operator;
use crate::runtime_dir::InstanceName;

/// Shows the counters, once or every interval.
///
/// # Errors
/// When the instance does not run or ends meanwhile, or a pattern fits no counter.
pub(crate) fn stats(args: &StatsArgs) -> Result<u8, Failure> {
    let (name, patterns) = words(&args.words)?;
    let mut operator = Operator::connect_or_guess(name.as_ref())?;
    let mut before = ask(&mut operator, &patterns)?;
    let Some(interval) = args.interval else {
        show(args, &before, None)?;
        return Ok(0);
    };
    let mut due = Instant::now();
    let mut left = args.count;
    while left != Some(0) {
        due += interval;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let now = ask(&mut operator, &patterns)?;
        show(args, &now.since(&before), Some(interval))?;
        before = now;
        left = left.map(|left| left - 1);
    }
    Ok(0)
}

/// The instance's name, if the first word is one, and the patterns. Names of counters have a dot,
/// names of instances have none.
fn words(words: &[String]) -> Result<(Option<InstanceName>, Vec<Pattern>), Failure> {
    let is_pattern = |word: &String| word.contains(['.', '*', '?']);
    let (name, rest) = match words.split_first() {
        Some((first, rest)) if !is_pattern(first) => (Some(first), rest),
        _ => (None, words),
    };
    let usage = |sentence| Failure::new(Code::Usage, sentence);
    let name = name.map(|name| name.parse().map_err(|error| usage(format!("{name}: {error}"))));
    if let Some(word) = rest.iter().find(|word| !is_pattern(word)) {
        return Err(usage(format!(
            "{word} is no pattern of counters: it has no dot and no wildcard; say *{word}*"
        )));
    }
    Ok((name.transpose()?, rest.iter().map(|word| Pattern(word.clone())).collect()))
}

/// A name of counters in which `*` is any text and `?` any character.
struct Pattern(String);

impl Pattern {
    fn fits(&self, name: &str) -> bool {
        // The last `*` may take one more character each time that the rest does not fit.
        let (pattern, name) = (self.0.as_bytes(), name.as_bytes());
        let (mut p, mut n, mut star) = (0, 0, None);
        while n < name.len() {
            match pattern.get(p) {
                Some(b'*') => {
                    star = Some((p, n));
                    p += 1;
                }
                Some(&byte) if byte == b'?' || byte == name[n] => (p, n) = (p + 1, n + 1),
                _ => {
                    let Some((at, taken)) = star else { return false };
                    (p, n) = (at + 1, taken + 1);
                    star = Some((at, taken + 1));
                }
            }
        }
        pattern[p..].iter().all(|&byte| byte == b'*')
    }
}

/// All counters of an instance that has answered, as Prometheus reads them.
pub(super) fn exposition(status: InstanceStatus) -> String {
    prometheus::is_up(&status.instance, true) + &prometheus::exposition(&sample(status, &[]))
}

/// The same of an instance that does not run.
pub(super) fn exposition_of_none(instance: &str) -> String {
    prometheus::is_up(instance, false)
}

/// The names of all counters with their meanings, by layer.
pub(super) fn meanings() -> serde_json::Value {
    let layers = layers().into_iter().filter(|layer| !layer.rows.is_empty()).map(|layer| {
        let counters = layer.rows.iter().map(|&(name, meaning)| {
            serde_json::json!({ "name": name, "meaning": meaning, "gauge": is_gauge(name) })
        });
        serde_json::json!({ "title": layer.title, "counters": counters.collect::<Vec<_>>() })
    });
    layers.collect()
}

fn ask(operator: &mut Operator, patterns: &[Pattern]) -> Result<Sample, Failure> {
    let sample = sample(status(operator)?, patterns);
    if sample.counters.is_empty() && sample.histograms.is_empty() && sample.targets.is_empty() {
        let sentence = "no counter is called so; `tasuki stats -z` shows the names of all";
        return Err(Failure::new(Code::Usage, sentence));
    }
    Ok(sample)
}

/// The requested part of an instance's answer, with its targets.
fn sample(status: InstanceStatus, patterns: &[Pattern]) -> Sample {
    let InstanceStatus { instance, pools, counters, histograms, .. } = status;
    let wanted = |name: &str| patterns.is_empty() || patterns.iter().any(|p| p.fits(name));
    let pools = if patterns.is_empty() { pools } else { Vec::new() };
    let targets = targets::samples(&instance, wanted);
    Sample {
        instance,
        counters: counters.into_iter().filter(|(name, _)| wanted(name)).collect(),
        histograms: histograms.into_iter().filter(|histogram| wanted(&histogram.name)).collect(),
        pools: pools.into_iter().map(|pool| (pool.name, pool.pages, pool.free)).collect(),
        targets,
    }
}

fn show(args: &StatsArgs, sample: &Sample, interval: Option<Duration>) -> Result<(), Failure> {
    if args.prometheus {
        print(&prometheus::exposition(sample))
    } else if args.json {
        print(&(json(sample).to_string() + "\n"))
    } else {
        print(&text(sample, args, interval))
    }
}

/// One line, so that a reader can take the answers of intervals apart.
fn json(sample: &Sample) -> serde_json::Value {
    serde_json::json!({
        "instance": sample.instance,
        "counters": sample.counters,
        "histograms": sample.histograms,
        "targets": sample.targets,
    })
}

/// Counters under their layers' titles, then those of each target and unit. Those that are 0 are
/// left out unless requested.
fn text(sample: &Sample, args: &StatsArgs, interval: Option<Duration>) -> String {
    let mut text = match interval {
        None => format!("{}: since its start\n", sample.instance),
        Some(interval) => format!("{}: in {} s\n", sample.instance, interval.as_secs_f64()),
    };
    let layers = layers();
    for layer in &layers {
        let own = layer.rows.iter().filter_map(|&(name, meaning)| {
            let histogram = sample.histograms.iter().find(|one| one.name == name);
            let sizes = histogram.map(|histogram| (histogram.count(), sizes(histogram)));
            let counter = sample.counters.get(name).copied();
            row(name, meaning, (counter, sizes), args, interval)
        });
        add_table(&mut text, layer.title, own.collect(), interval);
    }
    for target in &sample.targets {
        let rows = layers.iter().flat_map(|layer| &layer.rows).filter_map(|&(name, meaning)| {
            let histogram = target.histograms.iter().find(|one| one.name == name);
            let latencies = histogram.map(|one| (targets::count(one), targets::latencies(one)));
            let counter = target.counters.get(name).copied();
            row(name, meaning, (counter, latencies), args, interval)
        });
        add_table(&mut text, &target.title(), rows.collect(), interval);
    }
    text
}

/// The row of a counter, or of a histogram with its count and its text; and whether it is a
/// counter's.
fn row(
    name: &str,
    meaning: &str,
    (counter, histogram): (Option<u64>, Option<(u64, String)>),
    args: &StatsArgs,
    interval: Option<Duration>,
) -> Option<(Vec<String>, bool)> {
    let value = match (counter, histogram) {
        (Some(value), _) if value > 0 || args.zeros => value.to_string(),
        (_, Some((count, text))) if count > 0 || args.zeros => text,
        _ => return None,
    };
    let mut row = vec![format!("  {name}"), value];
    // Numbers stand under each other, with their rates per second beside them.
    if let (Some(interval), Some(value)) = (interval, counter) {
        let rate = (!is_gauge(name)).then(|| value as f64 / interval.as_secs_f64());
        row.push(rate.map_or(String::new(), |rate| format!("{rate:.1}/s")));
    }
    if args.verbose {
        row.push(meaning.to_owned());
    }
    Some((row, counter.is_some()))
}

/// A title with its rows; nothing without rows.
fn add_table(
    text: &mut String,
    title: &str,
    rows: Vec<(Vec<String>, bool)>,
    interval: Option<Duration>,
) {
    let Some(&(_, counters)) = rows.first() else { return };
    let (rows, _): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
    // Writing to a string does not fail.
    let _ = write!(text, "{title}\n{}", table(&rows, &[false, counters, interval.is_some()]));
}

/// A histogram in a line: how many, their mean, and how many of each size.
fn sizes(histogram: &Histogram) -> String {
    let count = histogram.count();
    let mean = histogram.sum as f64 / count.max(1) as f64;
    let mut text = format!("{count}, mean {mean:.1}");
    let mut least = 1;
    for (index, &batches) in histogram.buckets.iter().enumerate() {
        let most = Histogram::most(index);
        if batches > 0 {
            let range = match most {
                Some(most) if most == least => most.to_string(),
                Some(most) => format!("{least}-{most}"),
                None => format!("{least}-"),
            };
            let _ = write!(text, "  {range}:{batches}");
        }
        least = most.map_or(least, |most| most + 1);
    }
    text
}

#[cfg(test)]
mod tests;
