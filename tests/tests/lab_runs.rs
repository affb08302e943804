//! `tasuki lab` measures: parameters have the effect that they must have, an interrupted run leaves
//! nothing behind and goes on, and wrong words are refused.
//!
//! Runs are small, of a fixed number of rounds. Effects are compared as medians over rounds; no
//! time is compared with a fixed one.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use tasuki_tests::{Finished, Running, eventually, skip, tasuki_binary};

/// A run takes seconds, but the machine may be busy with other tests.
const LONG: Duration = Duration::from_secs(240);

/// The program that measures, which is built beside the tests.
fn bench() -> PathBuf {
    let test = std::env::current_exe().expect("the test's path");
    let folder = test.parent().and_then(Path::parent).expect("a folder above");
    folder.join("tasuki-bench")
}

/// A directory for the runs of a test.
struct Lab {
    directory: tempfile::TempDir,
}

impl Lab {
    /// `None`, with a line: what measures is not built.
    fn new() -> Option<Self> {
        if !bench().exists() {
            skip("tasuki-bench is not built: `cargo build -p tasuki-benches` builds it");
            return None;
        }
        Some(Self { directory: tempfile::tempdir().expect("a directory") })
    }

    /// The same, with the rights for namespaces.
    fn with_rights() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            skip("it makes network namespaces: needs root");
            return None;
        }
        Self::new()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Other tests and builds run at the same time. Their processes shall not hide an effect, so
    /// root's runs have a higher priority.
    fn start(&self, words: &str) -> Running {
        let is_root = rustix::process::geteuid().is_root();
        let mut command = Command::new(if is_root { "nice" } else { "env" });
        command.args(is_root.then_some("--adjustment=-15"));
        command.arg(tasuki_binary()).arg("lab").args(words.split_whitespace());
        command.env("TASUKI_BENCH", bench()).current_dir(self.directory.path());
        Running::start(command)
    }

    fn run(&self, words: &str) -> Finished {
        self.start(words).finish_within(LONG)
    }

    fn results(&self, name: &str) -> Value {
        let text = fs::read(self.path(name).join("results.json")).expect("results");
        serde_json::from_slice(&text).expect("JSON")
    }
}

/// The set-up of Tasuki in this test run.
fn mode() -> &'static str {
    match std::env::var("TASUKI_TEST_MODE").as_deref() {
        Ok("fused") => "fused",
        Ok("library") => "library",
        _ => "split",
    }
}

fn figure<'a>(results: &'a Value, experiment: &str, name: &str) -> &'a Value {
    let of = |list: &'a Value, key: &str| {
        let all = list.as_array().into_iter().flatten();
        all.into_iter().find(|it| it["name"] == key)
    };
    let experiment = of(&results["experiments"], experiment).expect(experiment);
    of(&experiment["figures"], name).unwrap_or_else(|| panic!("no figure {name}: {experiment}"))
}

fn series<'a>(figure: &'a Value, name: &str) -> &'a Value {
    let all = figure["series"].as_array().expect("series");
    all.iter().find(|it| it["name"] == name).unwrap_or_else(|| panic!("no {name}: {figure}"))
}

/// Place and values of each point.
fn points(series: &Value) -> Vec<(f64, Vec<f64>)> {
    let points = series["points"].as_array().expect("points");
    let values = |point: &Value| {
        let samples = point["samples"].as_array().expect("samples");
        samples.iter().map(|sample| sample["value"].as_f64().expect("a value")).collect()
    };
    points.iter().map(|point| (point["x"].as_f64().expect("x"), values(point))).collect()
}

/// The median over rounds of the ratio of the last place's value to the first place's.
fn growth(results: &Value, (experiment, figure_name): (&str, &str), name: &str) -> f64 {
    let all = points(series(figure(results, experiment, figure_name), name));
    let [(_, first), .., (_, last)] = &all[..] else { panic!("{figure_name}: one place") };
    let mut ratios: Vec<f64> = first.iter().zip(last).map(|(first, last)| last / first).collect();
    ratios.sort_by(f64::total_cmp);
    ratios[ratios.len() / 2]
}

/// A figure, and how it has to grow from its first place to its last.
type Effect = (&'static str, fn(f64) -> bool);

/// Measures, and looks whether all effects are there. Other tests run at the same time, so there
/// are three attempts.
fn eventually_has(lab: &Lab, words: &str, effects: &[Effect]) -> Value {
    let mut said = Vec::new();
    for attempt in 0..3 {
        let out = format!("found-{attempt}");
        let _ = lab.run(&format!("{words} --only linux,{} --out {out}", mode())).success();
        let results = lab.results(&out);
        assert!(results["partial"].is_null(), "{results}");
        let wrong = effects.iter().flat_map(|(name, holds)| {
            let growths = ["Linux", mode()].map(|setup| growth(&results, ("rtt", name), setup));
            growths.into_iter().filter(|it| !holds(*it)).map(move |it| format!("{name}: {it}"))
        });
        let wrong: Vec<String> = wrong.collect();
        if wrong.is_empty() {
            return results;
        }
        said.push(wrong);
    }
    panic!("in none of three runs all effects are there: {said:?}");
}

/// Namespaces and control groups that a run has made.
fn left_of(pid: u32) -> Vec<String> {
    let names = |folder: &str| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|it| it.file_name().to_string_lossy().into_owned()).collect::<Vec<_>>()
    };
    let tags = [format!("tl{pid}g"), format!("tb{pid}n"), format!("tasuki-lab-{pid}-")];
    let all = ["/run/netns", "/sys/fs/cgroup", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"];
    let all = all.into_iter().flat_map(names);
    all.filter(|name| tags.iter().any(|tag| name.starts_with(tag))).collect()
}

fn assert_nothing_is_left_of(pid: u32) {
    eventually("namespaces and control groups are removed", || left_of(pid).is_empty());
}

#[test]
fn parameters_have_their_effect() {
    let Some(lab) = Lab::with_rights() else { return };
    let words = "rtt --gateways 0,2,4 --power 10,100 --load receiver=1,4 --rounds 4 --count 500 \
                 --length 64";
    let results = eventually_has(
        &lab,
        words,
        &[
            ("median-by-gateways", |growth| growth > 1.0),
            ("mean-by-power", |growth| growth < 1.0),
            ("mean-by-load-of-receiver", |growth| growth > 0.9),
        ],
    );
    let rtt = &results["experiments"][0];
    assert!(rtt["findings"][0].as_str().is_some_and(|it| it.contains("for each gateway")), "{rtt}");
    let relative = figure(&results, "rtt", "mean-by-gateways-relative");
    assert_eq!(series(relative, "paper 4: 1 KiB")["reference"], true);
    assert!(series(relative, "Linux")["reference"].is_null());
    let calibration = results["machine"]["calibration"].as_array().expect("a calibration");
    let names: Vec<&str> = calibration.iter().filter_map(|it| it["name"].as_str()).collect();
    for name in
        ["getpid(2)", "write of a frame to a TAP device", "futex wake on the same processor"]
    {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
}

#[test]
fn a_network_load_slows_and_a_distribution_is_whole() {
    let Some(lab) = Lab::with_rights() else { return };
    let words = "rtt --network-load 0,80 --length 64,4096 --rounds 4 --count 200";
    let effect: Effect = ("mean-by-network-load", |growth| growth > 1.0);
    let results = eventually_has(&lab, words, &[effect]);
    for name in ["Linux", mode()] {
        let distribution = points(series(figure(&results, "rtt", "distribution"), name));
        let parts: f64 = distribution.iter().flat_map(|(_, values)| values).sum();
        assert!((parts / 4.0 - 100.0).abs() < 1.0, "{name}: {parts}");
    }
    let csv = lab.path("found-0").join("rtt-mean-by-length.csv");
    assert_eq!(fs::read_to_string(csv).expect("a CSV file").lines().count(), 1 + 3 * 2 * 4);
}

/// Measures until all of these series fall from the first place to the last, three times at most.
fn eventually_falls(lab: &Lab, words: &str, figure: (&str, &str), names: &[String]) -> Value {
    let mut said = Vec::new();
    for attempt in 0..3 {
        let out = format!("{}-{attempt}", figure.0);
        let _ = lab.run(&format!("{words} --out {out}")).success();
        let results = lab.results(&out);
        let growths: Vec<f64> = names.iter().map(|name| growth(&results, figure, name)).collect();
        if growths.iter().all(|growth| *growth < 1.0) {
            return results;
        }
        said.push(growths);
    }
    panic!("in none of three runs all of {names:?} fall: {said:?}");
}

#[test]
fn losses_slow_in_both_roles() {
    let Some(lab) = Lab::with_rights() else { return };
    let mode = mode();
    let words = format!("paths --loss 0,3 --delay 10 --quick --rounds 1 --only linux,{mode}");
    let names = ["Linux, CUBIC".to_owned(), format!("{mode}, CUBIC")];
    let names = [&names[..], &[format!("Linux, CUBIC to {mode}")]].concat();
    let results = eventually_falls(&lab, &words, ("paths", "goodput-by-loss"), &names);
    let findings = results["experiments"][0]["findings"].as_array().expect("findings");
    let said =
        |text: &str| findings.iter().any(|it| it.as_str().is_some_and(|it| it.contains(text)));
    assert!(said(&format!("“{mode}, CUBIC” carries")), "{findings:?}");
    // A kernel without BBR has one sentence less.
    let bbr = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    assert_eq!(bbr.is_ok_and(|all| all.contains("bbr")), said("Tasuki has CUBIC and no BBR"));
}

#[test]
fn a_delay_slows_reads_and_is_seen_between_packets() {
    let Some(lab) = Lab::with_rights() else { return };
    let words = "storage --size 65536 --delay 0,10 --quick --rounds 1";
    let names = ["plain".to_owned(), "esp".to_owned()];
    let _ = eventually_falls(&lab, words, ("storage", "read-by-delay"), &names);
    let mut said = Vec::new();
    for attempt in 0..3 {
        let out = format!("packets-{attempt}");
        let words = format!("packets --size 32768 --rounds 1 --quick --out {out}");
        let _ = lab.run(&words).success();
        match delay_between_packets(&lab.results(&out)) {
            Ok(()) => return,
            Err(what) => said.push(what),
        }
    }
    panic!("in none of three runs the delay is seen: {said:?}");
}

#[test]
fn triple_des_costs_above_and_below_and_the_paper_stands_beside() {
    let Some(lab) = Lab::with_rights() else { return };
    let words = "storage --cipher 3des --size 65536 --rounds 1 --quick --out found";
    let _ = lab.run(words).success();
    let results = lab.results("found");
    let rate = |name: &str| points(series(figure(&results, "storage", "read"), name))[0].1[0];
    let [clear, above, below] = ["no cipher", "3DES above TCP", "3DES by ESP"].map(rate);
    // Triple DES takes some ten times as long as the rest, on any machine.
    assert!(clear > 2.0 * above && clear > 2.0 * below, "{clear} {above} {below}");
    for (name, percent) in [("read-share", 130.0), ("cpu-share", 97.0)] {
        let share = figure(&results, "storage", name);
        let paper = points(series(share, "paper 5: above TCP, sockets, mean of all sizes"));
        assert_eq!(paper[0].1, [percent], "{share}");
        assert_eq!(share["series"].as_array().map(Vec::len), Some(2), "{share}");
    }
}

/// Looks at the transfer of a block by both transports.
///
/// # Errors
/// Its packets are not 1 ms apart: on a busy machine there may be one of the block before among
/// them, sent again.
fn delay_between_packets(results: &Value) -> Result<(), String> {
    let timeline = figure(results, "packets", "block-of-32768");
    assert_eq!(timeline["kind"], "timeline");
    let lanes = timeline["lanes"].as_array().expect("lanes");
    let mut panels: Vec<&str> = lanes.iter().filter_map(|lane| lane["panel"].as_str()).collect();
    panels.dedup();
    assert_eq!(panels.len(), 2, "{panels:?}");
    for panel in panels {
        let spans = |name: &str| -> Vec<(f64, f64)> {
            let lane = lanes.iter().find(|it| it["panel"] == panel && it["name"] == name);
            let spans = lane.expect(name)["spans"].as_array().expect("spans");
            let number = |value: &Value| value.as_f64().unwrap_or(0.0);
            spans.iter().map(|span| (number(&span["from"]), number(&span["bytes"]))).collect()
        };
        let long = |name: &str| -> Vec<f64> {
            let long = spans(name).into_iter().filter(|(_, bytes)| *bytes > 1000.0);
            long.map(|(at, _)| at).collect()
        };
        let (left, came) = (long("target: packets leave"), long("initiator: packets come"));
        let said = format!("{panel}: {left:?} {came:?}");
        // 32 KiB need that many packets of Ethernet's length.
        assert!(left.len() >= 22 && came.len() >= 22, "{said}");
        for work in ["target: disk", "target: cipher", "initiator: cipher"] {
            assert!(!spans(work).is_empty(), "{panel}: nothing in {work}");
        }
        // The request and the block are on the wire for 1 ms each.
        if left[0] < 1000.0 || came[0] < left[0] + 1000.0 {
            return Err(said);
        }
    }
    Ok(())
}

/// A figure of an experiment, a series, and how it has to grow from its first place to its last.
type SeriesEffect = ((&'static str, &'static str), &'static str, fn(f64) -> bool);

/// As [`eventually_has`], for single series.
fn eventually_grows(lab: &Lab, words: &str, effects: &[SeriesEffect]) -> Value {
    let mut said = Vec::new();
    for attempt in 0..3 {
        let out = format!("grows-{attempt}");
        let _ = lab.run(&format!("{words} --out {out}")).success();
        let results = lab.results(&out);
        assert!(results["partial"].is_null(), "{results}");
        let growths = effects.iter().map(|(figure, name, holds)| {
            let growth = growth(&results, *figure, name);
            (holds(growth), format!("{figure:?} {name}: {growth}"))
        });
        let wrong: Vec<String> =
            growths.filter(|(holds, _)| !holds).map(|(_, what)| what).collect();
        if wrong.is_empty() {
            return results;
        }
        said.push(wrong);
    }
    panic!("in none of three runs all effects are there: {said:?}");
}

#[test]
fn relays_cost_time_and_calls_together_save_it() {
    let Some(lab) = Lab::new() else { return };
    let relays = ("handover", "relays");
    let results = eventually_grows(
        &lab,
        "handover calls --relays 0,4 --batch 1,100 --rounds 2 --quick",
        &[
            (relays, "one by one, without data, answer relayed", |growth| growth > 1.0),
            (relays, "16 at a time, with data, answered directly", |growth| growth > 1.0),
            (("calls", "running-other"), "null, together", |growth| growth < 1.0),
            (("calls", "running-other"), "io_uring NOP, together", |growth| growth < 1.0),
        ],
    );
    let hidden = figure(&results, "calls", "hidden");
    for series in hidden["series"].as_array().expect("series") {
        let all = points(series).into_iter().flat_map(|(_, values)| values);
        assert!(all.clone().all(|percent| (0.0..=100.0).contains(&percent)), "{series}");
    }
    let waiting = figure(&results, "calls", "waiting");
    assert_eq!(waiting["series"].as_array().map(Vec::len), Some(4), "{waiting}");
    // Who asks for relays alone gets no areas.
    assert_eq!(results["experiments"][0]["figures"].as_array().map(Vec::len), Some(1));
}

#[test]
fn more_connections_take_memory_and_programs_share() {
    let Some(lab) = Lab::with_rights() else { return };
    let mode = mode();
    let words = "scale --connections 1,400 --programs 1,2 --rounds 1 --quick --only linux,";
    if mode == "library" {
        let said = lab.run("scale --quick --only library --out none").code(125);
        assert!(said.stderr.contains("linux, split and fused"), "{said}");
        return;
    }
    let memory = ("scale", "memory");
    let effects: [SeriesEffect; 2] =
        [(memory, "Linux", |growth| growth > 1.0), (memory, mode, |growth| growth > 1.0)];
    let results = eventually_grows(&lab, &format!("{words}{mode}"), &effects);
    for name in ["Linux", mode] {
        let values = |of: &str| points(series(figure(&results, "scale", of), name));
        for of in ["one", "in-turn", "memory-each", "programs"] {
            let all = values(of).into_iter().flat_map(|(_, values)| values);
            assert!(all.clone().count() > 0 && all.into_iter().all(|it| it > 0.0), "{name}: {of}");
        }
        let [(_, alone), (_, two)] = &values("programs-fairness")[..] else { panic!("{results}") };
        assert!(alone[0] == 1.0 && (0.5..=1.0).contains(&two[0]), "{name}: {alone:?} {two:?}");
        // A quick run waits for idle connections once.
        assert_eq!(values("idle-wake-ups").len(), 1);
    }
}

#[test]
fn more_steps_take_longer_in_user_mode_and_in_the_kernel() {
    let Some(lab) = Lab::new() else { return };
    let _ = lab.run("loops --steps 64,1024 --rounds 2 --quick --out loops").success();
    let results = lab.results("loops");
    let findings = results["experiments"][0]["findings"].to_string();
    let has_kernel = !findings.contains("are not measured");
    assert!(has_kernel || !rustix::process::geteuid().is_root(), "{findings}");
    for name in ["fibonacci", "modulo"] {
        let steps = ("loops", name);
        assert!(growth(&results, steps, "user mode") > 2.0, "{name}: {results}");
        if has_kernel {
            assert!(growth(&results, steps, "kernel, BPF") > 2.0, "{name}: {results}");
            let share = figure(&results, "loops", &format!("{name}-share"));
            assert_eq!(series(share, "paper 5: appendix")["reference"], true);
        }
    }
}

#[test]
fn more_bytes_take_longer_in_stages_and_areas_together_are_faster() {
    let Some(lab) = Lab::with_rights() else { return };
    let words = format!("stages --size 256,65536 --rounds 1 --quick --only linux,{}", mode());
    let _ = lab.run(&format!("{words} --out stages")).success();
    let results = lab.results("stages");
    let send = figure(&results, "stages", "send");
    let parts = send["second"]["names"].as_array().expect("names of parts").len();
    for (name, least) in [("Linux", 1), (mode(), 8), ("paper 1: AnT", 13)] {
        let all = points(series(send, name));
        let (first, last) = (all[0].0, all[all.len() - 1].0);
        let of = |x: f64| all.iter().filter(move |(at, _)| *at == x);
        let total = |x: f64| of(x).flat_map(|(_, values)| values).sum::<f64>();
        assert!((least..=parts).contains(&of(first).count()), "{name}: {all:?}");
        assert!(total(last) > total(first), "{name}: {all:?}");
    }
    let receive = figure(&results, "stages", "receive");
    assert!(points(series(receive, mode())).len() > 8, "{receive}");

    let units = ("throughput", "send-units");
    let results = eventually_grows(
        &lab,
        &format!("throughput --unit 2048 --areas 1,16 --rounds 2 --quick --only linux,{}", mode()),
        &[(units, "Linux", |growth| growth > 1.0), (units, mode(), |growth| growth > 1.0)],
    );
    let relative = figure(&results, "throughput", "send-units-relative");
    assert_eq!(series(relative, "paper 2: rump kernel")["reference"], true);
    assert_eq!(relative["kind"], "heat map");
}

/// The series with Tasuki at both ends.
fn both_ends() -> &'static str {
    match mode() {
        "fused" => "fused to fused",
        "library" => "library to library",
        _ => "split to split",
    }
}

#[test]
fn both_ends_wires_and_peers_feel_the_length() {
    let Some(lab) = Lab::with_rights() else { return };
    let by_length = ("rtt", "median-by-length");
    // Of other stacks smoltcp alone needs no program of its own.
    let words = "rtt --gateways 0,1 --length 4,8192 --count 200 --rounds 2 --quick --peers .";
    let results = eventually_grows(
        &lab,
        &format!("{words} --only {},both-ends,wire", mode()),
        &[
            (by_length, both_ends(), |growth| growth > 1.0),
            (by_length, "smoltcp", |growth| growth > 1.0),
        ],
    );
    // An instance forwards nothing: a wire passes no gateway.
    let by_gateways = figure(&results, "rtt", "median-by-gateways");
    let wire = points(series(by_gateways, &format!("{}, wire", both_ends())));
    assert_eq!(wire.iter().map(|(gateways, _)| *gateways).collect::<Vec<_>>(), [0.0]);
}

#[test]
fn both_ends_are_faster_with_longer_writes() {
    let Some(lab) = Lab::with_rights() else { return };
    let (send, receive) = (("throughput", "send"), ("throughput", "receive"));
    let results = eventually_grows(
        &lab,
        "throughput --size 1024,65536 --rounds 1 --quick --only linux,both-ends",
        &[
            (send, "split to split", |growth| growth > 1.0),
            (receive, "split to split", |growth| growth > 1.0),
            (send, "fused to fused", |growth| growth > 1.0),
        ],
    );
    let share = figure(&results, "throughput", "send-share");
    let least = points(series(share, "paper 2: rump kernel at both ends, least of all sizes"));
    assert!(least.iter().all(|(_, values)| (4.4..4.5).contains(&values[0])), "{least:?}");
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
    let said = running.finish_within(LONG).code(115);
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
    let mean = figure(&results, "rtt", "mean-by-gateways");
    for name in ["Linux", mode()] {
        let rounds: Vec<usize> =
            points(series(mean, name)).iter().map(|(_, it)| it.len()).collect();
        assert!(rounds.iter().all(|rounds| (3..=4).contains(rounds)), "{name}: {rounds:?}");
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
    assert!(!left_of(pid).is_empty(), "a run has namespaces");
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
    assert_eq!(fs::read_dir(lab.directory.path()).expect("entries").count(), 1);
}

#[test]
fn what_the_machine_lacks_is_told() {
    let Some(lab) = Lab::new() else { return };
    let beside = bench();
    let bench = ("TASUKI_BENCH", beside.to_str().expect("a name in UTF-8"));
    let start = |program: &Path, set: &[(&str, &str)], words: &str| {
        let mut command = Command::new(program);
        command.arg("lab").args(words.split_whitespace()).current_dir(lab.directory.path());
        Running::start({
            command.envs(set.iter().copied());
            command
        })
        .finish_within(LONG)
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
    command.envs([bench]).current_dir(lab.directory.path());
    if rustix::process::geteuid().is_root() {
        let said = Running::start(command).finish_within(LONG).code(1);
        assert!(said.stderr.contains("full/x") && said.stderr.contains("No space"), "{said}");
    }
}

#[test]
fn a_plain_user_measures_what_needs_no_rights() {
    let Some(lab) = Lab::with_rights() else { return };
    let as_user = |words: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]);
        command.arg(tasuki_binary()).arg("lab").args(words.split_whitespace());
        command.env("TASUKI_BENCH", bench()).current_dir(lab.directory.path());
        Running::start(command).finish_within(LONG)
    };
    let open = fs::Permissions::from_mode(0o777);
    fs::set_permissions(lab.directory.path(), open).expect("permissions");
    let said = as_user("rtt");
    if said.stderr.contains("Permission denied") {
        skip("the build is in a directory that other users cannot read");
        return;
    }
    let said = said.code(119);
    assert!(said.stderr.contains("run it as root"), "{said}");
    let said = as_user("calls rtt --rounds 2 --batch 10 --out found").code(125);
    assert!(said.stderr.contains("run it as root"), "{said}");
    let results = lab.results("found");
    assert_eq!(results["experiments"].as_array().map(Vec::len), Some(1), "{results}");
    assert!(results["partial"].as_str().is_some_and(|it| it.contains("as root")), "{results}");
}
