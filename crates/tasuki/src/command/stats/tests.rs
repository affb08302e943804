//! Patterns, differences, the table, and the exposition as a parser sees it.

use abi::stats::Sizes;
use storage::LatencyHistogram;

use super::targets::TargetSample;
use super::*;

fn args(line: &str) -> StatsArgs {
    use clap::Parser;
    let line = format!("tasuki stats {line}");
    match crate::cli::Cli::parse_from(line.split_whitespace()).command {
        crate::cli::Command::Stats(args) => args,
        other => panic!("{other:?}"),
    }
}

fn unit(lun: u16, reads: u64, latencies: &[usize]) -> TargetSample {
    let mut buckets = vec![0; 18];
    latencies.iter().for_each(|&latency| buckets[latency % 18] += 1);
    let sum = latencies.iter().sum::<usize>() as u64;
    TargetSample {
        target: "disks".to_owned(),
        lun: Some(lun),
        counters: [("unit.reads", reads), ("unit.in-flight", 2)]
            .map(|(name, value)| (name.to_owned(), value))
            .into(),
        histograms: vec![LatencyHistogram {
            name: "unit.read-latency-us".to_owned(),
            sum,
            buckets,
        }],
    }
}

fn sample(retransmits: u64, steps: &[usize]) -> Sample {
    let mut sizes = Sizes::default();
    steps.iter().for_each(|&step| sizes.add(step));
    let counters =
        [("tcp.retransmits", retransmits), ("udp.no-port", 0), ("memory.frames-held", 3)];
    Sample {
        instance: "web".to_owned(),
        counters: counters.map(|(name, value)| (name.to_owned(), value)).into(),
        histograms: vec![sizes.histogram("nic.rx-per-step")],
        pools: vec![("client 1 rx".to_owned(), 8, 5)],
        targets: vec![unit(0, retransmits, steps), unit(1, 0, &[])],
    }
}

#[test]
fn patterns_are_globs() {
    let table = [
        ("tcp.*", "tcp.retransmits", true),
        ("tcp.*", "udp.no-port", false),
        ("*retrans*", "tcp.fast-retransmits", true),
        ("*.*s", "tcp.retransmits", true),
        ("*.*x", "tcp.retransmits", false),
        ("?cp.resets-in", "tcp.resets-in", true),
        ("tcp.resets", "tcp.resets-in", false),
        ("*", "", true),
        ("?", "", false),
        ("*a*b*a", "abba", true),
    ];
    for (pattern, name, fits) in table {
        assert_eq!(Pattern(pattern.to_owned()).fits(name), fits, "{pattern} {name}");
    }
}

#[test]
fn the_first_word_may_be_a_name() {
    let split = |line: &str| {
        let (name, patterns) = words(&args(line).words).unwrap();
        (name.map(|name| name.to_string()), patterns.len())
    };
    assert_eq!(split(""), (None, 0));
    assert_eq!(split("web"), (Some("web".to_owned()), 0));
    assert_eq!(split("tcp.* ip.*"), (None, 2));
    assert_eq!(split("web tcp.*"), (Some("web".to_owned()), 1));
    for line in ["web tcp", "WEB", "tcp.* web"] {
        assert_eq!(words(&args(line).words).err().unwrap().code, Code::Usage, "{line}");
    }
}

#[test]
fn what_happened_is_the_difference() {
    let since = sample(12, &[1, 2, 70]).since(&sample(5, &[1]));
    assert_eq!(since.counters["tcp.retransmits"], 7);
    assert_eq!(since.counters["memory.frames-held"], 3, "a gauge");
    let histogram = &since.histograms[0];
    assert_eq!((histogram.sum, histogram.count(), histogram.buckets[0]), (72, 2, 0));
    let (unit, other) = (&since.targets[0], &since.targets[1]);
    assert_eq!((unit.counters["unit.reads"], unit.counters["unit.in-flight"]), (7, 2));
    assert_eq!((unit.histograms[0].sum, unit.histograms[0].buckets[1]), (72, 0));
    assert_eq!(other.counters["unit.reads"], 0, "each unit has its own");
    // A process that was started anew.
    assert_eq!(sample(1, &[]).since(&sample(5, &[3])).counters["tcp.retransmits"], 0);
}

#[test]
fn the_table_is_by_layer() {
    let shown = text(&sample(7, &[1, 1, 3, 2000]), &args(""), None);
    assert!(shown.starts_with("web: since its start\n"), "{shown}");
    assert!(shown.contains("\n  tcp.retransmits  7\n"), "{shown}");
    assert!(shown.contains("\n  nic.rx-per-step  4, mean 501.2  1:2  3-4:1  1025-:1\n"), "{shown}");
    assert!(!shown.contains("udp.no-port"), "{shown}");
    let title = "\nTarget disks, logical unit 0\n";
    let rows = shown.split_once(title).expect("a unit").1;
    assert!(rows.contains("unit.in-flight") && rows.contains("4, mean 501.2"), "{rows}");
    let all = text(&sample(7, &[]), &args("-z"), None);
    assert!(
        all.contains("  udp.no-port  0\n") && all.contains("nic.rx-per-step  0, mean"),
        "{all}"
    );
    let rates = text(&sample(7, &[]), &args("-i 2"), Some(Duration::from_secs(2)));
    assert!(rates.starts_with("web: in 2 s\n"), "{rates}");
    assert!(rates.contains("  tcp.retransmits  7  3.5/s\n"), "{rates}");
    let long = text(&sample(7, &[]), &args("-v"), None);
    assert!(long.contains("Segments retransmitted, for any reason."), "{long}");
    let status: serde_json::Value = json(&sample(7, &[2]));
    assert_eq!(status["counters"]["tcp.retransmits"], 7);
    assert_eq!(status["histograms"][0]["buckets"][1], 1);
    crate::command::tests::every_key_is_documented(&status);
}

/// The rules of the text exposition format, as far as a wrong page would break a reader of it:
/// families are together, each has one HELP and one TYPE before its samples, names and labels are
/// well formed, and histograms are cumulative and end with +Inf.
#[test]
fn the_exposition_can_be_parsed() {
    /// Name, type, and samples without the name in front.
    type Family = (String, String, Vec<(String, f64)>);
    let page = prometheus::exposition(&sample(7, &[1, 5, 5000]));
    let mut families: Vec<Family> = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, text) = help.split_once(' ').expect("a name and a text");
            assert!(!text.is_empty(), "{line}");
            assert!(families.iter().all(|(known, ..)| known != name), "{name} comes twice");
            let kind = lines.next().and_then(|line| line.strip_prefix("# TYPE "));
            let (again, kind) = kind.and_then(|kind| kind.split_once(' ')).expect("a type");
            assert_eq!(again, name);
            families.push((name.to_owned(), kind.to_owned(), Vec::new()));
            continue;
        }
        let (series, value) = line.rsplit_once(' ').expect("a value");
        let (name, labels) = series.split_once('{').expect("labels");
        let labels = labels.strip_suffix('}').expect("an end of labels");
        assert!(labels.starts_with("stack=\"web\""), "{line}");
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        assert!(name.chars().all(plain) && name.starts_with("tasuki_"), "{line}");
        let (family, _, samples) = families.last_mut().expect("a family before its samples");
        assert!(name.starts_with(family.as_str()), "{line}");
        samples.push((series[family.len()..].to_owned(), value.parse().expect("a number")));
    }
    let family = |name: &str| families.iter().find(|(known, ..)| known == name).unwrap();
    let (_, kind, samples) = family("tasuki_tcp_retransmits_total");
    assert_eq!((kind.as_str(), samples[0].1), ("counter", 7.0));
    assert_eq!(family("tasuki_memory_frames_held").1, "gauge");
    assert_eq!(family("tasuki_pool_pages_free").2[0].1, 5.0);
    let (_, kind, samples) = family("tasuki_unit_reads_total");
    assert_eq!((kind.as_str(), samples.len(), samples[0].1), ("counter", 2, 7.0));
    assert!(samples[0].0.contains(",target=\"disks\",lun=\"0\"}"), "{samples:?}");
    assert_eq!(family("tasuki_unit_in_flight").1, "gauge");
    let (_, kind, samples) = family("tasuki_unit_read_latency_us");
    assert_eq!((kind.as_str(), samples.len()), ("histogram", 2 * (18 + 2)));
    assert!(samples[17].0.contains(",lun=\"0\",le=\"+Inf\"") && samples[17].1 == 3.0);
    let (_, kind, samples) = family("tasuki_nic_rx_per_step");
    assert_eq!(kind, "histogram");
    let buckets: Vec<&(String, f64)> =
        samples.iter().filter(|(name, _)| name.starts_with("_bucket")).collect();
    assert!(buckets.is_sorted_by(|a, b| a.1 <= b.1), "{buckets:?}");
    let (last, count) = buckets.last().unwrap();
    assert!(last.contains("le=\"+Inf\"") && *count == 3.0, "{last}");
    assert!(samples.iter().any(|(name, v)| name.starts_with("_sum") && *v == 5006.0));
    assert!(samples.iter().any(|(name, v)| name.starts_with("_count") && *v == 3.0));
}
