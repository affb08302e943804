//! Processor time of the kernel threads that receive what is written to a TAP device
//! (`napi/NAME-…`): work that otherwise the writer does within its write(2), so it counts as the
//! writer's. They end with the device and leave no account, so they are looked at while they run.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

/// How often new ones are looked for.
const SEARCH: Duration = Duration::from_millis(50);

/// Those that began after this did.
pub(crate) struct KernelThreads {
    /// Who was there before.
    others: Vec<u32>,
    /// Ticks of each when it was seen last.
    ticks: BTreeMap<u32, u64>,
    next_search: Instant,
}

impl KernelThreads {
    /// Begins.
    pub(crate) fn new() -> Self {
        Self { others: all(), ticks: BTreeMap::new(), next_search: Instant::now() }
    }

    /// Looks at them once.
    pub(crate) fn look(&mut self) {
        let now = Instant::now();
        if now >= self.next_search {
            self.next_search = now + SEARCH;
            let new = all().into_iter().filter(|pid| !self.others.contains(pid));
            new.for_each(|pid| _ = self.ticks.entry(pid).or_default());
        }
        for (pid, ticks) in &mut self.ticks {
            *ticks = ticks_of(*pid).unwrap_or(*ticks);
        }
    }

    /// Seconds of all, as far as they were seen.
    pub(crate) fn seconds(&self) -> f64 {
        // Linux reports in USER_HZ, which is 100 on every architecture we build for.
        self.ticks.values().sum::<u64>() as f64 / 100.0
    }
}

/// The threads of that name that there are.
fn all() -> Vec<u32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm"));
            name.is_ok_and(|name| name.starts_with("napi/"))
        })
        .collect()
}

/// proc(5): utime and stime.
fn ticks_of(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_of_a_process_grow() {
        let pid = std::process::id();
        let before = ticks_of(pid).unwrap();
        let began = Instant::now();
        while ticks_of(pid).unwrap() <= before {
            assert!(began.elapsed() < Duration::from_secs(60), "it works all the time");
        }
        assert_eq!(ticks_of(u32::MAX), None);
        assert_eq!(KernelThreads::new().seconds(), 0.0);
    }
}
