//! Processes that belong together, and their memory, from proc(5).

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context as _, Result};

/// The kernel's objects that a TCP socket of a program consists of, by their caches.
const SOCKET_CACHES: [&str; 3] = ["TCP", "sock_inode_cache", "filp"];

/// A process and all that it has started, and these have started, and so on.
pub(crate) fn with_descendants(first: u32) -> Vec<u64> {
    let mut children: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    for pid in entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()) {
        if let Some(parent) = parent_of(pid) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = vec![u64::from(first)];
    let mut at = 0;
    while let Some(pid) = found.get(at) {
        found.extend(children.remove(pid).unwrap_or_default());
        at += 1;
    }
    found
}

fn parent_of(pid: u64) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// Bytes of processes. What several processes share counts once in all (PSS).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcessMemory {
    /// All that is in memory.
    pub(crate) all: u64,
    /// The same without pages of files. A process that starts the same program somewhere else takes
    /// over a part of those, so only the rest can be compared with an earlier look.
    pub(crate) without_files: u64,
}

/// What these processes have in memory.
///
/// # Errors
/// If one of them has ended.
pub(crate) fn of_processes(pids: &[u64]) -> Result<ProcessMemory> {
    let mut sum = ProcessMemory { all: 0, without_files: 0 };
    for pid in pids {
        let path = format!("/proc/{pid}/smaps_rollup");
        let text = fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
        let bytes = |name| bytes_of(&text, name).with_context(|| format!("no {name} in {path}"));
        sum.all += bytes("Pss:")?;
        sum.without_files += bytes("Pss_Anon:")? + bytes("Pss_Shmem:")?;
    }
    Ok(sum)
}

/// The value of this line.
fn bytes_of(smaps: &str, name: &str) -> Option<u64> {
    let line = smaps.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
}

/// Bytes of all TCP sockets of the kernel. `None`: it does not tell, or not to this user.
pub(crate) fn of_kernel_sockets() -> Option<u64> {
    Some(sockets_in(&fs::read_to_string("/proc/slabinfo").ok()?))
}

fn sockets_in(slabinfo: &str) -> u64 {
    let of = |line: &str| {
        let mut words = line.split_whitespace();
        let is_meant = SOCKET_CACHES.contains(&words.next()?);
        let (active, size) = (words.next()?, words.nth(1)?);
        is_meant.then_some(active.parse::<u64>().ok()? * size.parse::<u64>().ok()?)
    };
    slabinfo.lines().filter_map(of).sum()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn descendants_are_found_and_have_memory() {
        let script = "sleep 60 & wait";
        let mut shell = Command::new("sh").args(["-c", script]).spawn().expect("a shell");
        let mut all = Vec::new();
        while all.len() < 2 {
            all = with_descendants(shell.id());
        }
        assert_eq!(all[0], u64::from(shell.id()));
        let memory = of_processes(&all[..1]).expect("a process that lives");
        assert!(memory.all > memory.without_files && memory.without_files > 0, "{memory:?}");
        for pid in all.iter().rev() {
            let pid = rustix::process::Pid::from_raw(*pid as i32).expect("a pid");
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        let _ = shell.wait();
        assert!(of_processes(&all[..1]).is_err());
    }

    #[test]
    fn sockets_are_counted_by_their_caches() {
        let slabinfo = "slabinfo - version: 2.1\n# name <active_objs> <num_objs> <objsize>\n\
                        TCPv6 117 169 2496 13 8\nTCP 10 117 2368 13 8\nfilp 5 924 192 21 1\n";
        assert_eq!(sockets_in(slabinfo), 10 * 2368 + 5 * 192);
    }
}
