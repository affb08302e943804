//! The power of the two hosts: a quota of processor time for each, by a control group.
//!
//! The kernel has two interfaces for it, and a machine has one of them: `cpu.max` of version 2, or
//! `cpu.cfs_quota_us` of version 1. A period is 10 ms long, the shortest in which 10 percent are
//! allowed (a quota is 1 ms at least).

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow};

use crate::cleanup::CleanUp;
use crate::setup::Build;

/// Microseconds.
const PERIOD: u32 = 10_000;

/// Groups of sender and receiver, which are removed with this.
pub(super) struct PowerGroups {
    groups: [PathBuf; 2],
    is_unified: bool,
    _clean_up: CleanUp,
}

impl PowerGroups {
    /// Makes both.
    ///
    /// # Errors
    /// If the machine has no control groups for processor time.
    pub(super) fn new(build: Build) -> Result<Self> {
        let mounts = fs::read_to_string("/proc/mounts").context("/proc/mounts")?;
        let (parent, is_unified) = hierarchy(&mounts, |path| path.exists()).ok_or_else(|| {
            anyhow!(
                "--power needs control groups for processor time (cgroup v2 with the controller \
                 cpu, or v1 mounted with cpu), which this machine does not have: leave it out"
            )
        })?;
        let own = format!("tasuki-lab-{}{}", std::process::id(), build.letter());
        let groups = ["sender", "receiver"].map(|end| parent.join(format!("{own}-{end}")));
        if is_unified {
            // It is allowed already, or the quota fails below.
            let _ = fs::write(parent.join("cgroup.subtree_control"), "+cpu");
        }
        let _clean_up = CleanUp::of_groups(&groups)?;
        for group in &groups {
            fs::create_dir(group)
                .with_context(|| format!("making the control group {}", group.display()))?;
        }
        let made = Self { groups, is_unified, _clean_up };
        made.set([100; 2])?;
        Ok(made)
    }

    /// The file that takes processes of sender (0) or receiver (1).
    pub(super) fn procs(&self, end: usize) -> PathBuf {
        self.groups[end.min(1)].join("cgroup.procs")
    }

    /// Gives each so many percent of one processor; 100 is no quota.
    pub(super) fn set(&self, percents: [u32; 2]) -> Result<()> {
        for (group, percent) in self.groups.iter().zip(percents) {
            let quota = (percent < 100).then_some(PERIOD / 100 * percent);
            let writes: Vec<(&str, String)> = match (self.is_unified, quota) {
                (true, Some(quota)) => vec![("cpu.max", format!("{quota} {PERIOD}"))],
                (true, None) => vec![("cpu.max", "max".to_owned())],
                (false, Some(quota)) => vec![
                    ("cpu.cfs_period_us", PERIOD.to_string()),
                    ("cpu.cfs_quota_us", quota.to_string()),
                ],
                (false, None) => vec![("cpu.cfs_quota_us", "-1".to_owned())],
            };
            for (file, value) in writes {
                let file = group.join(file);
                fs::write(&file, &value)
                    .with_context(|| format!("writing {value} to {}", file.display()))?;
            }
        }
        Ok(())
    }
}

/// Where groups with a quota can be made, and whether it is version 2.
fn hierarchy(mounts: &str, exists: impl Fn(&Path) -> bool) -> Option<(PathBuf, bool)> {
    let mounts = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        Some((Path::new(words.next()?), words.next()?, words.next()?))
    });
    let mut unified = None;
    for (path, kind, options) in mounts {
        match kind {
            "cgroup" if options.split(',').any(|option| option == "cpu") => {
                let has_quota = exists(&path.join("cpu.cfs_quota_us"));
                return has_quota.then(|| (path.to_path_buf(), false));
            }
            "cgroup2" => unified = Some(path.to_path_buf()),
            _ => {}
        }
    }
    let has_cpu = |path: &PathBuf| {
        let controllers = fs::read_to_string(path.join("cgroup.controllers"));
        controllers.is_ok_and(|all| all.split_whitespace().any(|one| one == "cpu"))
    };
    unified.filter(has_cpu).map(|path| (path, true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hierarchy_with_processor_time_is_found() {
        let mounts = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
                      cgroup /sys/fs/cgroup/cpuset cgroup rw,relatime,cpuset 0 0\n\
                      cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,relatime,cpu,cpuacct 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        let found = hierarchy(mounts, |_| true);
        assert_eq!(found, Some((PathBuf::from("/sys/fs/cgroup/cpu,cpuacct"), false)));
        assert_eq!(hierarchy(mounts, |_| false), None);
        assert_eq!(hierarchy("proc /proc proc rw 0 0\n", |_| true), None);
    }
}
