//! `tasuki-bench applications`: programs' own benchmarks run, and nothing stays behind, also when
//! the run is killed. `tasuki-bench viewer`: the same of the cost of a page of `tasuki web`.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tasuki_tests::{eventually, installed, skip, tasuki_binary};

/// `tasuki-bench`, which is built beside the tests. Without it, or without rights, it prints SKIP.
fn bench() -> Option<PathBuf> {
    let test = std::env::current_exe().expect("the test's path");
    let path = test.parent().and_then(Path::parent).map(|folder| folder.join("tasuki-bench"));
    let path = path.filter(|path| path.exists());
    if path.is_none() {
        skip("tasuki-bench is not built: `cargo build -p tasuki-benches` builds it");
    }
    let namespaces = Command::new("unshare").args(["-n", "true"]).stderr(Stdio::null()).status();
    if !namespaces.is_ok_and(|status| status.success()) {
        skip("namespaces need root");
        return None;
    }
    path
}

/// Starts one measurement of one program.
fn start(bench: &Path, only: &str, case: &str, seconds: &str) -> Child {
    let mut command = Command::new(bench);
    command.arg("applications").arg("--tasuki").arg(tasuki_binary());
    command.args(["--only", only, "--case", case, "--seconds", seconds]);
    command.args(["--rounds", "1", "--setup", "split", "--json"]);
    command.process_group(0).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("tasuki-bench starts")
}

/// Starts one pair of each kind of `viewer`, with so many MiB in each run of a client.
fn start_viewer(bench: &Path, mib: &str) -> Child {
    let mut command = Command::new(bench);
    command.arg("viewer").arg("--tasuki").arg(tasuki_binary());
    command.args(["--pairs", "1", "--mib", mib, "--mode", "split,fused", "--json"]);
    command.process_group(0).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("tasuki-bench starts")
}

/// Namespaces and files of a run.
fn remains(run: u32) -> Vec<String> {
    let tag = format!("tb{run}");
    let netns = Command::new("ip").args(["netns", "list"]).output().expect("iproute2");
    let names = String::from_utf8_lossy(&netns.stdout).into_owned();
    let files = std::fs::read_dir(std::env::temp_dir()).expect("a folder").flatten();
    let files = files.map(|file| file.file_name().to_string_lossy().into_owned());
    // A longer number belongs to another run.
    let own = |name: &String| {
        let rest = name.strip_prefix(&tag);
        rest.is_some_and(|rest| !rest.starts_with(|it: char| it.is_ascii_digit()))
    };
    names.lines().map(str::to_owned).chain(files).filter(own).collect()
}

#[test]
fn a_programs_benchmark_runs_in_both_roles() {
    let Some(bench) = bench() else { return };
    if !installed("redis-server") || !installed("redis-benchmark") {
        return skip("redis is not installed: `scripts/deps.sh programs` installs it");
    }
    let run = start(&bench, "redis", "pipeline 16", "1");
    let id = run.id();
    let output = run.wait_with_output().expect("it ends");
    let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{complaints}");
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).expect(&complaints);
    for (setup, role) in [("linux-on", "client"), ("split", "client"), ("split", "server")] {
        for (request, quantity) in [("SET", "rate"), ("GET", "rate"), ("GET", "p99")] {
            let found = rows.iter().find(|row| {
                [&row["setup"], &row["role"], &row["request"], &row["quantity"]]
                    == [setup, role, request, quantity]
            });
            let value = found.and_then(|row| row["value"].as_f64());
            assert!(value.is_some_and(|value| value > 0.0), "{setup} {role} {request}: {rows:?}");
        }
    }
    assert_eq!(remains(id), [""; 0]);
}

#[test]
fn nothing_stays_of_a_run_that_is_killed() {
    let Some(bench) = bench() else { return };
    if !installed("redis-server") || !installed("redis-benchmark") {
        return skip("redis is not installed: `scripts/deps.sh programs` installs it");
    }
    let mut run = start(&bench, "redis", "1 client", "1000");
    // Two namespaces of the kernel, two of Tasuki's, and a folder.
    eventually("the run begins", || remains(run.id()).len() >= 5);
    run.kill().expect("it runs");
    let _ = run.wait().expect("it ends");
    eventually("all is removed", || remains(run.id()).is_empty());
}

#[test]
fn the_cost_of_a_page_is_measured() {
    let Some(bench) = bench() else { return };
    let run = start_viewer(&bench, "64");
    let id = run.id();
    let output = run.wait_with_output().expect("it ends");
    let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{complaints}");
    let pairs: Vec<Value> = serde_json::from_slice(&output.stdout).expect(&complaints);
    for mode in ["split", "fused"] {
        for (role, test) in
            [("client", "receive"), ("client", "send"), ("server", "receive"), ("server", "send")]
        {
            let found = pairs
                .iter()
                .find(|pair| [&pair["mode"], &pair["role"], &pair["test"]] == [mode, role, test]);
            for figure in ["quiet", "viewed", "snapshots"] {
                let value = found.and_then(|pair| pair[figure].as_f64());
                assert!(value.is_some_and(|it| it > 0.0), "{mode} {role} {test}: {pairs:?}");
            }
        }
    }
    assert_eq!(remains(id), [""; 0]);
    assert_eq!(pages(id), 0);
}

#[test]
fn nothing_stays_of_a_measured_page_whose_run_is_killed() {
    let Some(bench) = bench() else { return };
    let mut run = start_viewer(&bench, "1000000");
    eventually("the page is served", || pages(run.id()) == 1);
    run.kill().expect("it runs");
    let _ = run.wait().expect("it ends");
    eventually("all is removed", || remains(run.id()).is_empty() && pages(run.id()) == 0);
}

/// How many processes serve the page of a run's instance.
fn pages(run: u32) -> usize {
    let tag = format!("\0tb{run}");
    let processes = std::fs::read_dir("/proc").expect("procfs").flatten();
    let commands = processes.filter_map(|one| std::fs::read(one.path().join("cmdline")).ok());
    let commands = commands.map(|words| String::from_utf8_lossy(&words).into_owned());
    // setpriv, which executes it, has these words too, before the kernel ends it with its parent.
    let commands = commands.filter(|words| !words.starts_with("setpriv"));
    commands.filter(|words| words.contains("\0web\0") && words.contains(&tag)).count()
}
