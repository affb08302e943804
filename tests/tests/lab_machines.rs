//! `tasuki lab` on machines that are not ideal: a run is interrupted or killed and leaves nothing
//! behind, words are wrong, rights and tools are missing, the machine is slow or busy.

use std::fs;
use std::ops::Bound;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;
use tasuki_tests::{
    Effect, LONG_RUN, Lab, Running, bench_binary, eventually, figure, left_of_run, mode, points,
    series, skip, tasuki_binary,
};

fn assert_nothing_is_left_of(pid: u32) {
    eventually("namespaces and control groups are removed", || left_of_run(pid).is_empty());
}

#[test]
fn an_interrupted_run_leaves_nothing_and_goes_on() {
    let Some(lab) = Lab::with_rights() else { return };
    let words = format!(
        "rtt calls --gateways 0,1 --power sender=50,100 --batch 10 --rounds 4 --count 100 \
         --only linux,{}",
        mode()
    );
    let running = lab.start(&format!("{words} --out found"));
    let pid = running.pid();
    let _ = running.line("rtt: round 1");
    running.signal(Signal::INT);
    let said = running.finish_within(LONG_RUN).code(115);
    assert!(said.stderr.contains("tasuki lab --continue found"), "{said}");
    assert_nothing_is_left_of(pid);
    let results = lab.results("found");
    let partial = results["partial"].as_str().expect("it is partial");
    assert!(partial.contains("interrupted"), "{partial}");
    assert!(lab.path("found/report.html").exists());
    let earlier = points(series(figure(&results, "rtt", "mean-by-gateways"), "Linux"));

    let said = lab.run("--continue found").success();
    let results = lab.results("found");
    assert!(results["partial"].is_null(), "{said}");
    assert!(results["made"]["unfinished"].is_null(), "each round is whole: {said}");
    let mean = figure(&results, "rtt", "mean-by-gateways");
    for mean in [mean, figure(&results, "rtt", "mean-by-power-of-sender")] {
        for name in ["Linux", mode()] {
            let rounds: Vec<usize> =
                points(series(mean, name)).iter().map(|(_, it)| it.len()).collect();
            assert_eq!(rounds, [4; 2], "{name}: each point has each round: {}", mean["title"]);
        }
    }
    // What was measured before is still there, in front.
    let now = points(series(mean, "Linux"));
    for ((place, before), (_, after)) in earlier.iter().zip(&now) {
        assert!(after.starts_with(before), "{place}: {before:?} {after:?}");
    }
    let calls = figure(&results, "calls", "sleeping-other");
    assert_eq!(points(series(calls, "null, together"))[0].1.len(), 4);
    // Nothing is left to do.
    let before = fs::read(lab.path("found/results.json")).expect("results").len();
    let _ = lab.run("--continue found").success();
    assert!(fs::read(lab.path("found/results.json")).expect("results").len().abs_diff(before) < 9);
    // An earlier run is not overwritten.
    let said = lab.run("calls --out found").code(120);
    assert!(said.stderr.contains("--continue found"), "{said}");
}

#[test]
fn a_killed_run_leaves_nothing() {
    let Some(lab) = Lab::with_rights() else { return };
    let running = lab.start("rtt connections --quick --rounds 50 --power 50 --only linux,split");
    let pid = running.pid();
    let _ = running.line("rtt: round 1");
    assert!(!left_of_run(pid).is_empty(), "a run has namespaces");
    running.signal(Signal::KILL);
    assert_nothing_is_left_of(pid);
}

#[test]
fn wrong_words_are_refused_in_one_sentence() {
    let Some(lab) = Lab::new() else { return };
    let listed = lab.run("list").success();
    for name in [
        "rtt",
        "stages",
        "handover",
        "throughput",
        "calls",
        "connections",
        "scale",
        "storage",
        "packets",
        "loops",
        "paths",
        "--gateways",
        "--loss",
    ] {
        assert!(listed.stdout.contains(name), "{listed}");
    }
    for (words, code, parts) in [
        ("rttt", 2, &["rttt", "similar value", "'rtt'", "throughput"][..]),
        ("rtt --gateways 9", 2, &["gateways from 0 to 4"]),
        ("calls --gateways 1", 2, &["--gateways belongs to rtt"]),
        ("rtt --network-load 50 --gateways 0", 2, &["behind a gateway"]),
        ("rtt --only bsd", 2, &["bsd", "linux", "library"]),
        ("--continue nowhere", 118, &["nowhere", "begins a new run"]),
        ("calls --continue nowhere", 2, &["--continue"]),
    ] {
        let said = lab.run(words).code(code);
        assert!(parts.iter().all(|part| said.stderr.contains(part)), "{words}: {said}");
        assert!(said.stderr.lines().count() == 1 && said.stdout.is_empty(), "{words}: {said}");
    }
    fs::create_dir(lab.path("foreign")).expect("a directory");
    fs::write(lab.path("foreign/run.json"), "{\"words\": [], \"more\": 1}").expect("a file");
    let said = lab.run("--continue foreign").code(118);
    assert!(said.stderr.contains("run.json") && said.stderr.contains("more"), "{said}");
    assert_eq!(fs::read_dir(lab.directory()).expect("entries").count(), 1);
}

#[test]
fn what_the_machine_lacks_is_told() {
    let Some(lab) = Lab::new() else { return };
    let beside = bench_binary();
    let bench = ("TASUKI_BENCH", beside.to_str().expect("a name in UTF-8"));
    let start = |program: &Path, set: &[(&str, &str)], words: &str| {
        let mut command = Command::new(program);
        command.arg("lab").args(words.split_whitespace()).current_dir(lab.directory());
        Running::start({
            command.envs(set.iter().copied());
            command
        })
        .finish_within(LONG_RUN)
    };
    // No tools: only root gets as far as to need them.
    if rustix::process::geteuid().is_root() {
        let said = start(&tasuki_binary(), &[("PATH", "/nowhere"), bench], "rtt").code(127);
        assert!(said.stderr.contains("rtt needs ip, tc, sysctl, taskset"), "{said}");
    }
    // No program that measures.
    let copy = lab.path("bin/tasuki");
    fs::create_dir(lab.path("bin")).expect("a directory");
    fs::copy(tasuki_binary(), &copy).expect("a copy");
    let said = start(&copy, &[], "calls").code(127);
    assert!(said.stderr.contains("tasuki-bench") && said.stderr.contains("make build"), "{said}");
    // A file system without room.
    let mut command = Command::new("unshare");
    let script = "mkdir full && mount -t tmpfs -o size=8k none full && exec \"$0\" lab calls \
                  --rounds 1 --batch 10 --out full/x";
    command.args(["--mount", "sh", "-c", script]).arg(tasuki_binary());
    command.envs([bench]).current_dir(lab.directory());
    if rustix::process::geteuid().is_root() {
        let said = Running::start(command).finish_within(LONG_RUN).code(1);
        assert!(said.stderr.contains("full/x") && said.stderr.contains("No space"), "{said}");
    }
}

#[test]
fn a_plain_user_measures_what_needs_no_rights() {
    let Some(lab) = Lab::with_rights() else { return };
    let directory = format!("TMPDIR={}", lab.directory().display());
    let as_user = |words: &str| {
        let user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"];
        let program = [&user[..], &["env", &directory]].concat();
        lab.start_by(&program, words).finish_within(LONG_RUN)
    };
    let open = fs::Permissions::from_mode(0o777);
    fs::set_permissions(lab.directory(), open).expect("permissions");
    let said = as_user("stages");
    if said.stderr.contains("Permission denied") {
        skip("the build is in a directory that other users cannot read");
        return;
    }
    let said = said.code(119);
    assert!(said.stderr.contains("run it as root"), "{said}");
    // It is measured without rights, and this option is not.
    let said = as_user("rtt --gateways 0,1").code(119);
    assert!(said.stderr.contains("--gateways of rtt is for root"), "{said}");
    let said = as_user("calls stages --rounds 2 --batch 10 --out found").code(125);
    assert!(said.stderr.contains("run it as root"), "{said}");
    let results = lab.results("found");
    assert_eq!(results["experiments"].as_array().map(Vec::len), Some(1), "{results}");
    assert!(results["partial"].as_str().is_some_and(|it| it.contains("as root")), "{results}");
    // passt needs a default route.
    let routes = fs::read_to_string("/proc/net/route").expect("routes");
    let is_default = |line: &str| line.split_whitespace().nth(1) == Some("00000000");
    if !routes.lines().any(is_default) || Command::new("passt").arg("--version").output().is_err() {
        skip("passt needs to be there, and a default route");
        return;
    }
    let words = "throughput rtt --size 65536 --length 64,8192 --rounds 1 --quick --only";
    let _ = as_user(&format!("{words} {} --out passt", mode())).success();
    let results = lab.results("passt");
    let sent = points(series(figure(&results, "throughput", "send"), mode()));
    assert!(sent[0].1[0] > 0.0, "{results}");
    let trips = points(series(figure(&results, "rtt", "mean-by-length"), mode()));
    let places: Vec<f64> = trips.iter().map(|(length, _)| *length).collect();
    assert_eq!(places, [64.0, 8192.0], "{results}");
}

/// A control group whose processes have a fifth of a processor.
struct SlowGroup(PathBuf);

impl SlowGroup {
    /// `None`, with a line: the machine has no control groups for processor time.
    fn new() -> Option<Self> {
        let name = format!("tasuki-test-slow-{}", std::process::id());
        let first = Path::new("/sys/fs/cgroup/cpu");
        let quota: &[(&str, &str)] = if first.join("cpu.cfs_quota_us").exists() {
            &[("cpu.cfs_period_us", "10000"), ("cpu.cfs_quota_us", "2000")]
        } else {
            &[("cpu.max", "2000 10000")]
        };
        let parent = if first.exists() { first } else { Path::new("/sys/fs/cgroup") };
        // It is allowed already, or version 1, or the quota fails below.
        let _ = fs::write(parent.join("cgroup.subtree_control"), "+cpu");
        let group = Self(parent.join(name));
        let made = fs::create_dir(&group.0).is_ok()
            && quota.iter().all(|(file, value)| fs::write(group.0.join(file), value).is_ok());
        if !made {
            skip("the machine has no control groups for processor time");
        }
        made.then_some(group)
    }
}

impl Drop for SlowGroup {
    fn drop(&mut self) {
        // Its processes may still be ending.
        eventually("the group is removed", || !self.0.exists() || fs::remove_dir(&self.0).is_ok());
    }
}

/// Measures by a program that runs other programs. Calls that travel together are expected to be
/// cheaper than single ones: a row for a reader, since rounds are few.
fn measure_on(lab: &Lab, program: &[&str], machine: &str) {
    let words = "calls --batch 1,100 --rounds 3 --quick";
    let results = lab.measure_by(program, words);
    for series in ["null, together", "io_uring NOP, together"] {
        let growth = (Bound::Unbounded, Bound::Excluded(1.0));
        let effect = Effect { figure: ("calls", "running-other"), series, growth };
        effect.judge(&format!("{machine}: {words}"), &results);
    }
}

#[test]
fn a_slow_machine_measures_all() {
    let Some(lab) = Lab::with_rights() else { return };
    let Some(group) = SlowGroup::new() else { return };
    let join = format!("echo $$ >{}/cgroup.procs; exec \"$0\" \"$@\"", group.0.display());
    measure_on(&lab, &["sh", "-c", &join], "a fifth of a processor");
}

#[test]
fn a_noisy_machine_measures_all() {
    let Some(lab) = Lab::new() else { return };
    let busy = || {
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do :; done"]);
        Running::start(command)
    };
    let neighbours = [busy(), busy()];
    measure_on(&lab, &["env"], "two computing processes");
    drop(neighbours);
}
