//! The text exposition format, version 0.0.4, as Prometheus and its kin read it.
//!
//! `tcp.retransmits` is `tasuki_tcp_retransmits_total{stack="NAME"}`. Sizes of batches are
//! histograms; what there is now (pools, memory) is a gauge.

use std::fmt::{Display, Write as _};

use abi::stats::Histogram;

use storage::LatencyHistogram;

use super::sample::{Sample, is_gauge, meaning};
use super::targets::{TargetSample, by_counter, by_histogram};

/// Everything in a sample, each metric with its help and type.
pub(super) fn exposition(sample: &Sample) -> String {
    let mut page = Page { text: String::new(), stack: label(&sample.instance) };
    for (name, &value) in &sample.counters {
        let gauge = is_gauge(name);
        let metric = metric(name, if gauge { "" } else { "_total" });
        page.head(&metric, if gauge { "gauge" } else { "counter" }, meaning(name));
        page.value(&metric, "", value);
    }
    for histogram in &sample.histograms {
        let metric = metric(&histogram.name, "");
        page.head(&metric, "histogram", meaning(&histogram.name));
        page.histogram(&metric, histogram);
    }
    page.targets(&sample.targets);
    for (suffix, help) in
        [("", "Pages of 4 KiB in a memory pool."), ("_free", "Those that nobody owns.")]
    {
        let metric = metric("pool.pages", suffix);
        if !sample.pools.is_empty() {
            page.head(&metric, "gauge", help);
        }
        for (name, pages, free) in &sample.pools {
            let more = format!(",pool=\"{}\"", label(name));
            page.value(&metric, &more, if suffix.is_empty() { pages } else { free });
        }
    }
    page.text
}

/// Whether an instance runs. A scrape that gets no answer says less: the web server may be gone.
pub(super) fn is_up(instance: &str, is_up: bool) -> String {
    let mut page = Page { text: String::new(), stack: label(instance) };
    page.head("tasuki_up", "gauge", "1 while the instance runs.");
    page.value("tasuki_up", "", u8::from(is_up));
    page.text
}

fn metric(name: &str, suffix: &str) -> String {
    format!("tasuki_{}{suffix}", name.replace(['.', '-'], "_"))
}

/// A label's value: backslash, quote and line feed are escaped.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

struct Page {
    text: String,
    stack: String,
}

impl Page {
    fn head(&mut self, metric: &str, kind: &str, help: &str) {
        let help = help.replace('\\', "\\\\");
        // Writing to a string does not fail.
        let _ = writeln!(self.text, "# HELP {metric} {help}\n# TYPE {metric} {kind}");
    }

    fn value(&mut self, metric: &str, more: &str, value: impl Display) {
        let _ = writeln!(self.text, "{metric}{{stack=\"{}\"{more}}} {value}", self.stack);
    }

    /// Counters and histograms of all targets, with labels that tell them apart.
    fn targets(&mut self, all: &[TargetSample]) {
        let labels = |sample: &TargetSample| {
            let lun = sample.lun.map_or_else(String::new, |lun| format!(",lun=\"{lun}\""));
            format!(",target=\"{}\"{lun}", label(&sample.target))
        };
        for (name, values) in by_counter(all) {
            let gauge = is_gauge(name);
            let metric = metric(name, if gauge { "" } else { "_total" });
            self.head(&metric, if gauge { "gauge" } else { "counter" }, meaning(name));
            for (sample, value) in values {
                self.value(&metric, &labels(sample), value);
            }
        }
        for (name, histograms) in by_histogram(all) {
            let metric = metric(name, "");
            self.head(&metric, "histogram", meaning(name));
            for (sample, histogram) in histograms {
                let labels = labels(sample);
                let mut upto = 0;
                for (index, &commands) in histogram.buckets.iter().enumerate() {
                    upto += commands;
                    let most = LatencyHistogram::most(index);
                    let most = most.map_or("+Inf".to_owned(), |most| most.to_string());
                    let bucket = format!("{labels},le=\"{most}\"");
                    self.value(&format!("{metric}_bucket"), &bucket, upto);
                }
                self.value(&format!("{metric}_sum"), &labels, histogram.sum);
                self.value(&format!("{metric}_count"), &labels, upto);
            }
        }
    }

    fn histogram(&mut self, metric: &str, histogram: &Histogram) {
        let mut upto = 0;
        for (index, &batches) in histogram.buckets.iter().enumerate() {
            upto += batches;
            let most = Histogram::most(index).map_or("+Inf".to_owned(), |most| most.to_string());
            self.value(&format!("{metric}_bucket"), &format!(",le=\"{most}\""), upto);
        }
        self.value(&format!("{metric}_sum"), "", histogram.sum);
        self.value(&format!("{metric}_count"), "", upto);
    }
}
