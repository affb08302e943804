//! `tasuki lab` measures what it was asked for: each figure has its series, places and values.
//!
//! Runs are small, of a fixed number of rounds. Whether the effect of a parameter shows differs
//! between machines, and on a busy one from run to run. So no test fails by that: each effect is a
//! row for a reader (`make test-lab`), the median over rounds. `lab_mechanisms` looks at what has
//! the effect: quotas, gateways, links.

use std::fs::{self, Permissions};
use std::ops::Bound::{self, Excluded, Included, Unbounded};
use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;
use tasuki_tests::{Effect, Lab, figure, judge, mode, points, series, tasuki_binary};

/// Experiment and name of a figure.
type Figure<'a> = (&'a str, &'a str);

/// The factors that are expected from a series' first place to its last.
type Growth = (Bound<f64>, Bound<f64>);

/// The series grows at least by this factor.
fn above(least: f64) -> Growth {
    (Included(least), Unbounded)
}

/// The series grows less than this.
fn below(most: f64) -> Growth {
    (Unbounded, Excluded(most))
}

/// Measures, and prints whether the effects show.
fn measure(lab: &Lab, words: &str, effects: &[(Figure<'_>, &str, Growth)]) -> Value {
    let effects: Vec<Effect<'_>> =
        effects.iter().map(|&(figure, series, growth)| Effect { figure, series, growth }).collect();
    lab.measure(words, &effects)
}

/// Measures round trips on Linux and in this mode.
fn measure_both(lab: &Lab, words: &str, effects: &[(&str, Growth)]) -> Value {
    let both = effects.iter().flat_map(|(figure, growth)| {
        ["Linux", mode()].map(|setup| (("rtt", *figure), setup, *growth))
    });
    let both: Vec<_> = both.collect();
    measure(lab, &format!("{words} --only linux,{}", mode()), &both)
}

/// Measures; all of these series are expected to fall from the first place to the last.
fn measure_falling(lab: &Lab, words: &str, figure: Figure<'_>, names: &[String]) -> Value {
    let effects: Vec<_> = names.iter().map(|name| (figure, &name[..], below(1.0))).collect();
    measure(lab, words, &effects)
}

#[test]
fn parameters_have_their_effect() {
    let Some(lab) = Lab::with_rights() else { return };
    let words = "rtt --power 10,100 --load receiver=1,4 --load sender=1,4 --rounds 4 --count 500 \
                 --length 64";
    let results = measure_both(
        &lab,
        words,
        &[
            ("mean-by-power", below(1.0)),
            ("mean-by-load-of-receiver", above(0.9)),
            ("mean-by-load-of-sender", above(0.9)),
        ],
    );
    let calibration = results["machine"]["calibration"].as_array().expect("a calibration");
    let names: Vec<&str> = calibration.iter().filter_map(|it| it["name"].as_str()).collect();
    for name in
        ["getpid(2)", "write of a frame to a TAP device", "futex wake on the same processor"]
    {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
}

/// Four gateways add some 4 µs. On a busy machine a server spins in some samples and sleeps in
/// others, which makes 20 µs, so this needs more rounds than other parameters.
#[test]
fn gateways_slow_in_most_rounds() {
    let Some(lab) = Lab::with_rights() else { return };
    let words = "rtt --gateways 0,2,4 --rounds 12 --count 500 --length 64";
    let results = measure_both(&lab, words, &[("median-by-gateways", above(1.0))]);
    let rtt = &results["experiments"][0];
    assert!(rtt["findings"][0].as_str().is_some_and(|it| it.contains("for each gateway")), "{rtt}");
    let relative = figure(&results, "rtt", "mean-by-gateways-relative");
    assert_eq!(series(relative, "paper 4: 1 KiB")["reference"], true);
    assert!(series(relative, "Linux")["reference"].is_null());
}

#[test]
fn a_network_load_slows_and_a_distribution_is_whole() {
    let Some(lab) = Lab::with_rights() else { return };
    // At 80 % there is hardly a queue, and other datagrams keep processors awake. Where a halted
    // processor wakes up slowly, they may even shorten a round trip.
    let words = "rtt --network-load 0,100 --length 64,4096 --rounds 4 --count 200";
    let results = measure_both(&lab, words, &[("mean-by-network-load", above(1.0))]);
    for name in ["Linux", mode()] {
        let distribution = points(series(figure(&results, "rtt", "distribution"), name));
        let parts: f64 = distribution.iter().flat_map(|(_, values)| values).sum();
        assert!((parts / 4.0 - 100.0).abs() < 1.0, "{name}: {parts}");
    }
    let csv = lab.path("found-0").join("rtt-mean-by-length.csv");
    assert_eq!(fs::read_to_string(csv).expect("a CSV file").lines().count(), 1 + 3 * 2 * 4);
}

#[test]
fn losses_slow_in_both_roles() {
    let Some(lab) = Lab::with_rights() else { return };
    let mode = mode();
    let words = format!("paths --loss 0,3 --delay 10 --quick --rounds 1 --only linux,{mode}");
    let names = ["Linux, CUBIC".to_owned(), format!("{mode}, CUBIC")];
    let names = [&names[..], &[format!("Linux, CUBIC to {mode}")]].concat();
    let results = measure_falling(&lab, &words, ("paths", "goodput-by-loss"), &names);
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
    let names = ["plain", "esp", "plain, memory", "end to end"].map(str::to_owned);
    let results = measure_falling(&lab, words, ("storage", "read-by-delay"), &names);
    let findings = &results["experiments"][0]["findings"];
    assert!(findings.to_string().contains("Encrypted end to end, reads have"), "{findings}");
    let words = "packets --size 32768 --rounds 1 --quick";
    look_at_packets(&lab.measure(words, &[]));
}

#[test]
fn triple_des_costs_above_and_below_and_the_paper_stands_beside() {
    let Some(lab) = Lab::with_rights() else { return };
    let words = "storage --cipher 3des --size 65536 --rounds 1 --quick";
    let results = lab.measure(words, &[]);
    let rate = |name: &str| points(series(figure(&results, "storage", "read"), name))[0].1[0];
    // It takes some ten times as long as the rest.
    for name in ["3DES above TCP", "3DES by ESP"] {
        judge(&format!("{words}: no cipher / {name}"), rate("no cipher") / rate(name), 2.0..);
    }
    for (name, percent) in [("read-share", 130.0), ("cpu-share", 97.0)] {
        let share = figure(&results, "storage", name);
        let paper = points(series(share, "paper 5: above TCP, sockets, mean of all sizes"));
        assert_eq!(paper[0].1, [percent], "{share}");
        assert_eq!(share["series"].as_array().map(Vec::len), Some(2), "{share}");
    }
}

/// Looks at the transfer of a block by both transports. On a busy machine some packets may not be
/// captured, and one of the block before may be among them, sent again.
fn look_at_packets(results: &Value) {
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
        assert!(!left.is_empty() && !came.is_empty(), "{panel}: {left:?} {came:?}");
        for work in ["target: disk", "target: cipher", "initiator: cipher"] {
            assert!(!spans(work).is_empty(), "{panel}: nothing in {work}");
        }
        // 32 KiB need that many packets of Ethernet's length. The request and the block are on the
        // wire for 1 ms each.
        judge(&format!("{panel}: packets of the block"), came.len(), 22..);
        judge(&format!("{panel}: µs until the first leaves"), left[0], 1000.0..);
        judge(&format!("{panel}: µs on the wire"), came[0] - left[0], 1000.0..);
    }
}

#[test]
fn relays_cost_time_and_calls_together_save_it() {
    let Some(lab) = Lab::new() else { return };
    let relays = ("handover", "relays");
    let results = measure(
        &lab,
        "handover calls --relays 0,4 --batch 1,100 --rounds 2 --quick",
        &[
            (relays, "one by one, without data, answer relayed", above(1.0)),
            (relays, "16 at a time, with data, answered directly", above(1.0)),
            (("calls", "running-other"), "null, together", below(1.0)),
            (("calls", "running-other"), "io_uring NOP, together", below(1.0)),
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
fn more_bytes_take_longer_to_copy_and_hardly_longer_to_hand_over() {
    let Some(lab) = Lab::new() else { return };
    let (area, transfer) = (("handover", "area"), ("handover", "transfer"));
    // 256 times the bytes.
    let results = measure(
        &lab,
        "handover --size 4096,1048576 --rounds 2 --quick",
        &[
            (area, "send by a copy", above(8.0)),
            (area, "to another party, without sockets", below(8.0)),
            (transfer, "pipe", above(8.0)),
            (transfer, "Unix socket", above(8.0)),
        ],
    );
    let paper = series(figure(&results, "handover", "area"), "paper 1: FreeBSD, mbuf and copy");
    assert_eq!(paper["reference"], true);
}

#[test]
fn connections_are_counted_in_both_roles() {
    let Some(lab) = Lab::with_rights() else { return };
    let words = format!("connections --rounds 2 --quick --only linux,{} --out counted", mode());
    let _ = lab.run(&words).success();
    let results = lab.results("counted");
    let a_second = figure(&results, "connections", "connects");
    for name in ["Linux".to_owned(), mode().to_owned(), format!("Linux to {}", mode())] {
        let all = points(series(a_second, &name));
        let values: Vec<f64> = all.into_iter().flat_map(|(_, values)| values).collect();
        assert!(values.len() == 2 && values.iter().all(|value| *value > 0.0), "{name}: {values:?}");
    }
}

#[test]
fn a_longer_queue_carries_more() {
    let Some(lab) = Lab::with_rights() else { return };
    let mode = mode();
    let words = format!("paths --queue 16,1024 --quick --rounds 1 --only linux,{mode}");
    let queue = ("paths", "goodput-by-queue");
    let own = format!("{mode}, CUBIC");
    let more = above(1.0);
    let _ = measure(&lab, &words, &[(queue, "Linux, CUBIC", more), (queue, &own, more)]);
}

#[test]
fn a_longer_way_carries_less_and_longer_reads_carry_more() {
    let Some(lab) = Lab::with_rights() else { return };
    let mode = mode();
    let words = format!("paths --delay 5,50 --quick --rounds 1 --only linux,{mode}");
    let names = ["Linux, CUBIC".to_owned(), format!("{mode}, CUBIC")];
    let _ = measure_falling(&lab, &words, ("paths", "goodput-by-delay"), &names);
    // From the first cell to the last.
    let map = "goodput-by-loss-and-delay-queue-256";
    let words = words.replace("--delay", "--cross --loss 0,3 --delay");
    let results = measure_falling(&lab, &words, ("paths", map), &names);
    let share = figure(&results, "paths", &format!("{map}-share"));
    assert_eq!(points(series(share, &names[1])).len(), 4, "{share}");
    let read = ("storage", "read");
    let _ = measure(
        &lab,
        "storage --size 4096,65536 --quick --rounds 1",
        &[
            (read, "plain", above(1.0)),
            (read, "esp", above(1.0)),
            (read, "plain, memory", above(1.0)),
        ],
    );
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
    let effects = [(memory, "Linux", above(1.0)), (memory, mode, above(1.0))];
    let results = measure(&lab, &format!("{words}{mode}"), &effects);
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
fn an_earlier_build_takes_turns_with_the_present_one() {
    let Some(lab) = Lab::with_rights() else { return };
    let mode = mode();
    let words = "rtt throughput stages scale connections storage paths --before";
    let words = format!("{words} {}", tasuki_binary().display());
    let axes = "--length 64 --size 65536 --programs 1 --loss 0 --delay 5 --quick --rounds 1";
    // `scale` has no such mode.
    let words = if mode == "library" { words.replace("scale ", "") } else { words };
    let axes = if mode == "library" { axes.replace("--programs 1 ", "") } else { axes.to_owned() };
    let said = lab.run(&format!("{words} {axes} --only linux,{mode} --out both")).success();
    for part in ["measured in turn, ", " compared: "] {
        assert!(said.stdout.contains(part), "{part} in {said}");
    }
    let results = lab.results("both");
    assert!(results["partial"].is_null(), "{results}");
    assert_eq!(results["made"]["before"], results["made"]["tasuki"]);
    for (of, name) in [
        ("rtt", "mean-by-length"),
        ("throughput", "send"),
        ("storage", "read"),
        ("paths", "goodput-by-loss"),
    ] {
        let figure = figure(&results, of, name);
        assert!(figure["command"].as_str().expect("a command").contains(" --before "), "{figure}");
        let names = figure["series"].as_array().expect("series").iter();
        let names: Vec<&str> = names.filter_map(|series| series["name"].as_str()).collect();
        for present in names.iter().filter(|name| !name.contains("before")) {
            // Linux is the same, whatever build there is.
            let is_twice = names.contains(&&format!("{present}, before")[..]);
            let is_kernel = present.starts_with("Linux") && !present.contains(" to ");
            assert!(is_twice != (is_kernel || present.starts_with("paper")), "{name}: {names:?}");
        }
    }
    // One round says nothing of a point.
    let said = lab.run("diff both/results.json --json");
    let answer: Value = serde_json::from_str(&said.stdout).expect("JSON");
    let points = |list: &str| {
        let all = answer[list].as_array().expect("a list").iter();
        all.filter(|change| !change["x"].is_null()).count()
    };
    assert!(points("unjudged") > 8, "{said}");
    assert_eq!(points("regressions") + points("improvements") + points("unchanged"), 0, "{said}");
    let said = lab.run("rtt --before none --out none").code(127);
    assert!(said.stderr.contains("the earlier build none is not there"), "{said}");
    let said = lab.run("rtt --before /bin/true --out none").code(118);
    assert!(said.stderr.contains("no build of tasuki"), "{said}");
    let alone = lab.path("tasuki");
    fs::write(&alone, "#!/bin/sh\necho tasuki 0.0.1\n").expect("a script");
    fs::set_permissions(&alone, Permissions::from_mode(0o755)).expect("it is made executable");
    let said = lab.run("rtt --before ./tasuki --out none").code(127);
    assert!(said.stderr.contains("no libtasuki_preload.so beside it"), "{said}");
    let said = lab.run("calls --before none --out none").code(2);
    assert!(said.stderr.contains("--before belongs to rtt, "), "{said}");
    assert!(!lab.path("none").exists());
}

#[test]
fn more_steps_take_longer_in_user_mode_and_in_the_kernel() {
    let Some(lab) = Lab::new() else { return };
    // Only root may load a BPF program, by default.
    let is_root = rustix::process::geteuid().is_root();
    let places: &[&str] = if is_root { &["user mode", "kernel, BPF"] } else { &["user mode"] };
    let effects = places.iter().flat_map(|place| {
        let grows = above(2.0);
        ["fibonacci", "modulo"].map(|name| (("loops", name), *place, grows))
    });
    let effects: Vec<_> = effects.collect();
    let results = measure(&lab, "loops --steps 64,1024 --rounds 2 --quick", &effects);
    let findings = results["experiments"][0]["findings"].to_string();
    assert!(!is_root || !findings.contains("are not measured"), "{findings}");
    for share in is_root.then_some(["fibonacci-share", "modulo-share"]).into_iter().flatten() {
        let share = figure(&results, "loops", share);
        assert_eq!(series(share, "paper 5: appendix")["reference"], true);
    }
}

#[test]
fn more_bytes_take_longer_in_stages_and_areas_together_are_faster() {
    let Some(lab) = Lab::with_rights() else { return };
    let words = format!("stages --size 256,65536 --rounds 1 --quick --only linux,{}", mode());
    let results = lab.measure(&words, &[]);
    let send = figure(&results, "stages", "send");
    let parts = send["second"]["names"].as_array().expect("names of parts").len();
    for (name, least) in [("Linux", 1), (mode(), 8), ("paper 1: AnT", 13)] {
        let all = points(series(send, name));
        let (first, last) = (all[0].0, all[all.len() - 1].0);
        let of = |x: f64| all.iter().filter(move |(at, _)| *at == x);
        assert!((least..=parts).contains(&of(first).count()), "{name}: {all:?}");
        let total = |x: f64| of(x).flat_map(|(_, values)| values).sum::<f64>();
        judge(&format!("{words}: {name}, all bytes / few"), total(last) / total(first), 1.0..);
    }
    let receive = figure(&results, "stages", "receive");
    assert!(points(series(receive, mode())).len() > 8, "{receive}");

    let units = ("throughput", "send-units");
    for axes in ["--unit 2048,65536 --areas 1", "--unit 2048 --areas 1,16"] {
        let results = measure(
            &lab,
            &format!("throughput {axes} --rounds 2 --quick --only linux,{}", mode()),
            &[(units, "Linux", above(1.0)), (units, mode(), above(1.0))],
        );
        let relative = figure(&results, "throughput", "send-units-relative");
        assert_eq!(series(relative, "paper 2: rump kernel")["reference"], true);
        assert_eq!(relative["kind"], "heat map");
    }
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
    let results = measure(
        &lab,
        &format!("{words} --only {},both-ends,wire", mode()),
        &[(by_length, both_ends(), above(1.0)), (by_length, "smoltcp", above(1.0))],
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
    let results = measure(
        &lab,
        "throughput --size 1024,65536 --rounds 1 --quick --only linux,both-ends",
        &[
            (send, "split to split", above(1.0)),
            (receive, "split to split", above(1.0)),
            (send, "fused to fused", above(1.0)),
        ],
    );
    let share = figure(&results, "throughput", "send-share");
    let least = points(series(share, "paper 2: rump kernel at both ends, least of all sizes"));
    assert!(least.iter().all(|(_, values)| (4.4..4.5).contains(&values[0])), "{least:?}");
}
