//! Processor time, from proc(5).
//!
//! The account of this process has the time of its ended children. A device's kernel threads
//! (`napi/NAME-…`) receive the frames written to a TAP device. Without these threads the writer
//! does that work within its write(2), so their time counts as the writer's. The threads end with
//! the device and leave no account, so they are read while they run.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

/// Linux reports in USER_HZ, which is 100 on every architecture we build for.
const USER_HZ: f64 = 100.0;
/// Places of two times, user and system, behind the name: of a process, and of its ended children.
const OWN: usize = 11;
const CHILDREN: usize = 13;

/// User and system seconds of all children waited for so far, and of theirs.
pub(crate) fn of_children() -> Option<(f64, f64)> {
    let [user, system] = ticks(std::process::id(), CHILDREN)?;
    Some((user as f64 / USER_HZ, system as f64 / USER_HZ))
}

/// User and system seconds of a process that runs, with all of its threads.
pub(crate) fn of_process(pid: u32) -> Option<(f64, f64)> {
    let [user, system] = ticks(pid, OWN)?;
    Some((user as f64 / USER_HZ, system as f64 / USER_HZ))
}

/// Seconds of the kernel threads that receive frames of this device.
pub(crate) fn of_device(device: &str) -> f64 {
    let name = format!("napi/{device}-");
    let of_it = |pid: &u32| {
        let comm = fs::read_to_string(format!("/proc/{pid}/comm"));
        comm.is_ok_and(|comm| comm.starts_with(&name))
    };
    let ticks = all().into_iter().filter(of_it).filter_map(|pid| ticks(pid, OWN));
    ticks.flatten().sum::<u64>() as f64 / USER_HZ
}

/// How often new ones are looked for.
const SEARCH: Duration = Duration::from_millis(50);

/// Those that began after this did.
pub(crate) struct KernelThreads {
    /// The threads that were there before.
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
            *ticks = self::ticks(*pid, OWN).map_or(*ticks, |[user, system]| user + system);
        }
    }

    /// Seconds of all, as far as they were seen.
    pub(crate) fn seconds(&self) -> f64 {
        self.ticks.values().sum::<u64>() as f64 / USER_HZ
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

/// Two times in a row of a process.
fn ticks(pid: u32, place: usize) -> Option<[u64; 2]> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(place);
    let mut next = || fields.next()?.parse().ok();
    Some([next()?, next()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_of_a_process_grow() {
        let pid = std::process::id();
        let own = || ticks(pid, OWN).unwrap().into_iter().sum::<u64>();
        let before = own();
        let began = Instant::now();
        while own() <= before {
            assert!(
                began.elapsed() < Duration::from_secs(60),
                "the ticks of a working process grow"
            );
        }
        assert_eq!(ticks(u32::MAX, OWN), None);
        assert!(of_process(pid).is_some_and(|(user, system)| user + system > 0.0));
        assert_eq!((of_process(u32::MAX), of_device("nothing")), (None, 0.0));
        assert_eq!(KernelThreads::new().seconds(), 0.0);
    }
}
