//! `tasuki lab`: what changed between two results files, and a report that works in a browser.
//!
//! The files are synthetic, with the noise of a machine that has neighbours. The browser is
//! Debian's chromium without windows. It runs the page's own test (`#selftest`), which works every
//! control, and tells its result in the document. Screenshots are kept in `target/lab`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use tasuki_tests::{Finished, Running, installed, skip, tasuki_binary};

const BROWSER: &str = "chromium-headless-shell";
/// A browser on a machine that is busy with other tests.
const BROWSER_PATIENCE: Duration = Duration::from_secs(120);
/// Of the window: the whole report fits in.
const HEIGHT: u32 = 18_000;
/// Figures of each file: name, direction, places.
const FIGURES: [(&str, &str, &[u32]); 4] = [
    ("send", "higher", &[1024, 4096, 16384, 65536, 262_144, 1_048_576, 4_194_304]),
    ("receive", "higher", &[1024, 4096, 16384, 65536, 262_144, 1_048_576, 4_194_304]),
    ("round-trip", "lower", &[4, 64, 256, 1024, 2048, 4096, 8192]),
    ("connects", "higher", &[64]),
];
/// Figures of other kinds: a heat map, stacked bars and a histogram.
const OTHER_KINDS: usize = 3;
/// Figures that get a noisy point, one of each kind that marks them.
const NOISY: [&str; 3] = ["send", "units", "stages"];
/// Classes of the histogram.
const CLASSES: u32 = 24;
/// Series, and their values as a multiple of Linux's.
const SERIES: [(&str, f64); 5] =
    [("Linux", 1.0), ("split", 1.1), ("fused", 1.3), ("library", 1.6), ("split, relay", 0.7)];

/// Numbers between 0 and 1 (a linear congruential generator).
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) as f64 / f64::from(1_u32 << 31)
    }

    /// A factor around 1, by about 2 %; now and then one that is far off.
    fn factor(&mut self) -> f64 {
        let sum: f64 = (0..6).map(|_| self.next()).sum();
        let outlier = if self.next() < 0.03 { 0.25 } else { 0.0 };
        1.0 + 0.03 * (sum - 3.0) - outlier
    }
}

/// A results file of ten rounds. `split` is slower by this factor in `send`.
fn results(seed: u64, slower: f64) -> Value {
    let mut noise = Noise(seed);
    let mut point = |figure: &str, direction: &str, series: (&str, f64), x: u32| {
        let own = f64::from(x).sqrt() * 10.0 * series.1;
        let own = if direction == "lower" { 20.0 + f64::from(x) / 800.0 / series.1 } else { own };
        let planted = if (figure, series.0) == ("send", "split") { slower } else { 1.0 };
        let samples: Vec<Value> = (0..10)
            .map(|round| json!({"round": round, "value": own * planted * noise.factor()}))
            .collect();
        json!({"x": x, "samples": samples, "warm_up": 1})
    };
    let mut figures: Vec<Value> = FIGURES
        .iter()
        .map(|(name, direction, places)| {
            let series: Vec<Value> = SERIES
                .iter()
                .map(|series| {
                    let points: Vec<Value> =
                        places.iter().map(|x| point(name, direction, *series, *x)).collect();
                    json!({"name": series.0, "points": points})
                })
                .collect();
            json!({
                "name": name, "title": format!("Synthetic {name} <b>&amp;"), "base": "Linux",
                "unit": if *direction == "lower" { "µs" } else { "MiB/s" },
                "direction": direction,
                "axis": {"title": "bytes per write", "unit": "B", "scale": "log"},
                "command": format!("tasuki-bench compare --only {name}"),
                "series": series,
            })
        })
        .collect();
    figures.extend(figures_of_other_kinds(&mut noise));
    json!({
        "format": "tasuki-lab-results", "version": 1,
        "made": {
            "by": "tests/lab.rs", "command": "cargo test -p tasuki-tests --test lab",
            "tasuki": "tasuki 0.1.0", "began": 1_795_564_800, "seconds": 60,
        },
        "machine": {
            "system": "Linux", "processor": "synthetic", "processors": 2,
            "properties": {"clock source": "tsc"},
            "calibration": [{
                "name": "wake-up", "unit": "µs",
                "samples": [{"round": 0, "value": 5.0}, {"round": 1, "value": 7.5}],
            }],
        },
        "experiments": [{"name": "synthetic", "title": "Synthetic", "figures": figures}],
    })
}

/// Each of them has a paper's series beside those that are measured.
fn figures_of_other_kinds(noise: &mut Noise) -> [Value; OTHER_KINDS] {
    let mut point = |x: u32, y: u32, own: f64| {
        let samples: Vec<Value> =
            (0..10).map(|round| json!({"round": round, "value": own * noise.factor()})).collect();
        json!({"x": x, "y": y, "samples": samples})
    };
    let sizes = [2048, 4096, 8192, 16384, 32768, 65536];
    let mut map = |by: f64| -> Vec<Value> {
        let cells = sizes.iter().flat_map(|x| [1, 4, 16, 64].map(|y| (*x, y)));
        cells.map(|(x, y)| point(x, y, by * f64::from(x * y).sqrt())).collect()
    };
    let maps = json!([
        {"name": "Linux", "points": map(1.0)}, {"name": "split", "points": map(1.3)},
        {"name": "paper", "reference": true, "points": map(0.4)},
    ]);
    let stages: Vec<String> = (1..=14).map(|at| format!("stage {at} of a send")).collect();
    let mut bars = |by: f64| -> Vec<Value> {
        let parts = [256, 1024, 65536].into_iter().flat_map(|x| (0..14).map(move |y| (x, y)));
        parts.map(|(x, y)| point(x, y, by * f64::from(1 + (y * 7) % 5))).collect()
    };
    let stacks = json!([
        {"name": "split", "points": bars(0.1)}, {"name": "library", "points": bars(0.07)},
        {"name": "paper 1: AnT", "reference": true, "points": bars(0.3)},
    ]);
    let figure = |name: &str, kind: &str, second: Value, series: Value| {
        json!({
            "name": name, "title": format!("Synthetic {name}"), "kind": kind, "second": second,
            "unit": "µs", "direction": "lower", "command": format!("tasuki lab {name}"),
            "axis": {"title": "bytes of an area", "unit": "B", "scale": "log"},
            "series": series,
        })
    };
    let mut heat = figure("units", "heat map", json!({"title": "areas of a request"}), maps);
    heat["base"] = json!("Linux");
    let parts = json!({"title": "stage", "names": stages});
    [heat, figure("stages", "stacked bars", parts, stacks), histogram(noise)]
}

/// Round trips by their time, as `rtt` draws them: each class is 5 % longer than the one before.
fn histogram(noise: &mut Noise) -> Value {
    let mut class = |at: u32, fastest: f64| {
        let away = (f64::from(at) - fastest) / 4.0;
        let percent = 10.0 * (-away * away).exp() + 0.1;
        let sample = |round: u32| json!({"round": round, "value": percent * noise.factor()});
        let samples: Vec<Value> = (0..10).map(sample).collect();
        json!({"x": 20.0 * 1.05_f64.powi(at as i32), "samples": samples, "marks": ["noisy"]})
    };
    let mut classes =
        |fastest: f64| -> Vec<Value> { (0..CLASSES).map(|at| class(at, fastest)).collect() };
    json!({
        "name": "distribution", "title": "Synthetic distribution", "kind": "histogram",
        "unit": "% of round trips", "direction": "higher", "command": "tasuki lab rtt",
        "axis": {"title": "time", "unit": "µs", "scale": "log"},
        "series": [
            {"name": "Linux", "points": classes(14.0)}, {"name": "split", "points": classes(6.0)},
        ],
    })
}

/// Makes the second point of `split` in each kind of figure noisy: every other round is far off.
/// One sample of its first point is an outlier.
fn plant_noise(results: &mut Value) {
    let figures = results["experiments"][0]["figures"].as_array_mut().expect("figures");
    let is_chosen = |figure: &&mut Value| NOISY.iter().any(|name| figure["name"] == *name);
    for figure in figures.iter_mut().filter(is_chosen) {
        let series = figure["series"].as_array_mut().expect("series");
        let split = series.iter_mut().find(|it| it["name"] == "split").expect("split");
        let scale = |sample: &mut Value, by: f64| {
            sample["value"] = json!(sample["value"].as_f64().expect("a number") * by);
        };
        let noisy = split["points"][1]["samples"].as_array_mut().expect("samples");
        noisy.iter_mut().step_by(2).for_each(|sample| scale(sample, 1.5));
        scale(&mut split["points"][0]["samples"][0], 2.0);
    }
}

/// The transfer of a block by two transports, with the work of a cipher.
fn timeline() -> Value {
    let lane = |panel: &str, name: &str, gap: u32, long: f64| {
        let span = |at: u32| {
            let from = f64::from(2000 + gap * at);
            json!({"from": from, "until": from + long, "bytes": if long > 0.0 { 0 } else { 1514 }})
        };
        json!({"panel": panel, "name": name, "spans": (0..23).map(span).collect::<Vec<_>>()})
    };
    json!({
        "name": "packets", "title": "Synthetic packets <b>&amp;", "unit": "B", "direction": "lower",
        "kind": "timeline", "command": "tasuki lab packets", "series": [],
        "axis": {"title": "time since the request left", "unit": "µs", "scale": "linear"},
        "lanes": [
            lane("ESP: each packet, below TCP", "target: packets leave", 60, 0.0),
            lane("ESP: each packet, below TCP", "target: cipher", 60, 40.0),
            lane("sealed: whole blocks, above TCP", "target: packets leave", 8, 0.0),
            lane("sealed: whole blocks, above TCP", "initiator: cipher", 9, 2.5),
        ],
    })
}

/// A directory with the files that a test needs.
struct Bench {
    directory: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().expect("a directory") }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, name: &str, results: &Value) {
        fs::write(self.path(name), results.to_string()).expect("a file");
    }

    fn lab(&self, words: &[&str]) -> Finished {
        let mut command = Command::new(tasuki_binary());
        command.arg("lab").args(words).current_dir(self.directory.path());
        Running::start(command).finish()
    }
}

#[test]
fn diff_finds_a_planted_regression_and_nothing_without_one() {
    let bench = Bench::new();
    bench.write("before.json", &results(1, 1.0));
    bench.write("after.json", &results(2, 1.0));
    bench.write("slower.json", &results(3, 0.9));
    let said = bench.lab(&["diff", "before.json", "after.json"]).success();
    assert!(said.stdout.contains(" 0 worse") && said.stderr.is_empty(), "{said}");
    let said = bench.lab(&["diff", "before.json", "slower.json"]).code(1);
    assert!(said.stdout.contains("Worse by more than 5 %"), "{said}");
    let is_whole = |line: &str| line.starts_with("send") && line.contains(" all ");
    assert!(said.stdout.lines().any(is_whole), "{said}");
    assert!(said.stderr.contains("tasuki: ") && said.stderr.lines().count() == 1, "{said}");
    // It is better the other way round, and no regression beyond a larger bound.
    let said = bench.lab(&["diff", "slower.json", "before.json"]).success();
    assert!(said.stdout.contains("Better by more than 5 %"), "{said}");
    let _ = bench.lab(&["diff", "before.json", "slower.json", "--bound", "25%"]).success();
    let said = bench.lab(&["diff", "before.json", "slower.json", "--json"]).code(1);
    let answer: Value = serde_json::from_str(&said.stdout).expect("JSON");
    let regressions = answer["regressions"].as_array().expect("an array");
    let is_it = |it: &&Value| it["figure"] == "send" && it["series"] == "split";
    assert!(regressions.iter().any(|it| is_it(&it) && it["x"].is_null()), "{said}");
    assert!(regressions.iter().all(|it| is_it(&it)), "{said}");
}

/// One file with two builds: those of both files.
fn two_builds(before: &Value, after: &Value) -> Value {
    let mut both = after.clone();
    let figures = both["experiments"][0]["figures"].as_array_mut().expect("figures");
    let old = before["experiments"][0]["figures"].as_array().expect("figures");
    for (figure, old) in figures.iter_mut().zip(old) {
        let Some(series) = figure["series"].as_array_mut() else { continue };
        for earlier in old["series"].as_array().into_iter().flatten() {
            let mut earlier = earlier.clone();
            let name = earlier["name"].as_str().expect("a name").to_owned();
            if SERIES[1..].iter().any(|(of, _)| *of == name) {
                earlier["name"] = json!(format!("{name}, before"));
                series.push(earlier);
            }
        }
    }
    both["made"]["before"] = json!("tasuki 0.0.1");
    both
}

#[test]
fn diff_of_one_file_compares_its_builds() {
    let bench = Bench::new();
    let earlier = results(1, 1.0);
    bench.write("one.json", &earlier);
    bench.write("same.json", &two_builds(&earlier, &results(2, 1.0)));
    bench.write("slower.json", &two_builds(&earlier, &results(3, 0.9)));
    let said = bench.lab(&["diff", "same.json"]).success();
    assert!(said.stdout.contains(" 0 worse"), "{said}");
    let said = bench.lab(&["diff", "slower.json"]).code(1);
    let is_whole = |line: &str| line.starts_with("send") && line.contains(" all ");
    assert!(said.stdout.lines().any(is_whole), "{said}");
    assert!(!said.stdout.contains(", before"), "an earlier build is no series: {said}");
    // Files of two runs have the present build in common.
    let said = bench.lab(&["diff", "same.json", "slower.json", "--json"]).code(1);
    assert!(!said.stdout.contains(", before"), "{said}");
    let said = bench.lab(&["diff", "one.json"]).code(118);
    assert!(said.stderr.contains("one build only"), "{said}");
    let said = bench.lab(&["report", "slower.json", "--out", "report"]).success();
    assert!(said.stdout.contains("Since tasuki 0.0.1, measured in turn"), "{said}");
}

#[test]
fn wrong_files_are_refused_with_the_field_and_an_exit_code() {
    let bench = Bench::new();
    bench.write("good.json", &results(1, 1.0));
    let mut edited = results(1, 1.0);
    edited["experiments"][0]["figures"][2]["series"][0]["points"][3]["samples"][1]["value"] =
        json!("fast");
    bench.write("edited.json", &edited);
    let said = bench.lab(&["diff", "good.json", "edited.json"]).code(118);
    let field = "experiments[0].figures[2].series[0].points[3].samples[1].value: not a number";
    assert!(said.stderr.contains(field), "{said}");
    assert!(said.stderr.lines().count() == 1 && said.stdout.is_empty(), "{said}");
    bench.write("foreign.json", &json!({"machine": "Linux", "rows": []}));
    let said = bench.lab(&["report", "foreign.json"]).code(118);
    assert!(said.stderr.contains("format: it is missing"), "{said}");
    assert!(!bench.path("report").exists(), "a report was made");
    let mut other = results(1, 1.0);
    other["experiments"][0]["name"] = json!("other");
    bench.write("other.json", &other);
    let said = bench.lab(&["diff", "good.json", "other.json"]).code(118);
    assert!(said.stderr.contains("no point in common"), "{said}");
    let said = bench.lab(&["report", "absent.json"]).code(118);
    assert!(said.stderr.contains("absent.json") && said.stderr.contains("No such file"), "{said}");
    let said = bench.lab(&["diff", "good.json", "good.json", "--bound=-1"]).code(2);
    assert!(said.stderr.contains("--bound"), "{said}");
    let said = bench.lab(&["rt"]).code(2);
    let remedy = said.stderr.contains("'rtt'") && said.stderr.contains("tasuki lab --help");
    assert!(remedy, "{said}");
    fs::write(bench.path("file"), "").expect("a file");
    let said = bench.lab(&["report", "good.json", "--out", "file"]).code(1);
    assert!(said.stderr.contains("cannot write to file"), "{said}");
    let said = bench.lab(&["open"]).code(118);
    assert!(said.stderr.contains("tasuki lab report"), "{said}");
}

#[test]
fn a_report_is_written_and_a_missing_browser_is_one_sentence() {
    let bench = Bench::new();
    bench.write("results.json", &results(1, 1.0));
    // Twice: the second replaces the first.
    let _ = bench.lab(&["report", "results.json"]).success();
    let said = bench.lab(&["report", "results.json"]).success();
    assert!(
        said.stdout.contains("report/report.html") && said.stdout.contains("10 rounds"),
        "{said}"
    );
    let names = fs::read_dir(bench.path("report")).expect("a directory");
    let mut names: Vec<String> = names
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort_unstable();
    // PNG is made by a program that may not be there.
    let each = if Command::new("rsvg-convert").arg("--version").output().is_ok() { 3 } else { 2 };
    assert_eq!(names.len(), 1 + each * (FIGURES.len() + OTHER_KINDS), "{names:?}");
    assert!(names.contains(&"synthetic-round-trip.svg".to_owned()), "{names:?}");
    let csv = fs::read_to_string(bench.path("report/synthetic-send.csv")).expect("a file");
    assert_eq!(csv.lines().count(), 1 + 5 * 7 * 10);
    let counted = |line: &str| line.contains(",MiB/s,10,1,0,");
    assert!(csv.lines().skip(1).all(counted), "no numbers of samples, to warm up and discarded");
    let mut command = Command::new(tasuki_binary());
    command.args(["lab", "open"]).current_dir(bench.directory.path()).env("PATH", "/nonexistent");
    let said = Running::start(command).finish().code(127);
    assert!(said.stderr.contains("xdg-open is not installed"), "{said}");
}

#[test]
fn the_browser_opens_the_newest_report() {
    let bench = Bench::new();
    bench.write("results.json", &results(1, 1.0));
    for name in ["tasuki-lab-1", "tasuki-lab-2", "other"] {
        let _ = bench.lab(&["report", "results.json", "--out", name]).success();
    }
    let written = |name: &str, seconds: u64| {
        let page = fs::File::options().write(true).open(bench.path(name).join("report.html"));
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        page.expect("a page").set_modified(time).expect("its time");
    };
    written("tasuki-lab-1", 2_000_000_000);
    written("tasuki-lab-2", 1_000_000_000);
    // It stands for a desktop's, which finds a browser.
    let opener = bench.path("xdg-open");
    fs::write(&opener, "#!/bin/sh\necho \"$1\" > opened\n").expect("a program");
    fs::set_permissions(&opener, fs::Permissions::from_mode(0o755)).expect("its mode");
    let open = |words: &[&str]| {
        let mut command = Command::new(tasuki_binary());
        command.args(["lab", "open"]).args(words).current_dir(bench.directory.path());
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", bench.directory.path().display()));
        let _ = Running::start(command).finish().success();
        fs::read_to_string(bench.path("opened")).expect("what it opened").trim().to_owned()
    };
    assert!(open(&[]).ends_with("/tasuki-lab-1/report.html"));
    assert!(open(&["other"]).ends_with("/other/report.html"));
}

/// A run of the browser at this address.
fn browse(address: &str, width: u32, dark: bool, words: &[String]) -> Finished {
    let mut command = Command::new(BROWSER);
    let scheme = if dark { 0 } else { 1 };
    command
        .args(["--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr"])
        .arg(format!("--window-size={width},{HEIGHT}"))
        .arg(format!("--blink-settings=preferredColorScheme={scheme}"))
        .args(["--virtual-time-budget=20000", "--timeout=60000"])
        .args(words)
        .arg(address);
    Running::start(command).finish_within(BROWSER_PATIENCE).success()
}

/// The value of an attribute of the element with the self-test's result.
fn attribute<'a>(document: &'a str, name: &str) -> &'a str {
    let element = document.split_once("<pre id=\"selftest-result\"").map(|(_, rest)| rest);
    let value = element.and_then(|rest| rest.split_once(&format!("data-{name}=\"")));
    value.and_then(|(_, rest)| rest.split('"').next()).unwrap_or("")
}

/// The page's test compares what is drawn with the data. The data have what it is to compare.
fn noise_and_columns_are_drawn(report: &str, document: &str) {
    for what in [
        "synthetic-send: noisy points are hollow: ",
        "synthetic-units: noisy cells are marked: ",
        "synthetic-stages: noisy bars are marked: ",
    ] {
        let found = report.split_once(&format!("held: {what}")).and_then(|(_, rest)| {
            let number: String = rest.chars().take_while(char::is_ascii_digit).collect();
            number.parse::<usize>().ok()
        });
        assert!(found.is_some_and(|number| number > 0), "{what}: {report}");
    }
    for series in ["Linux", "split"] {
        let has = format!("held: synthetic-distribution: {series} has a column for each class");
        assert!(report.contains(&format!("{has}: {CLASSES}")), "{report}");
    }
    assert!(report.contains("held: synthetic-distribution: noisy points are hollow: 0"));
    let note = "the interval is wider than ±5 %, or of one round only.</p>";
    assert!(document.matches(note).count() >= NOISY.len(), "no sentence about noisy points");
    assert!(document.contains("10&nbsp;samples, 1&nbsp;outlier"), "no outliers in a table");
}

#[test]
fn a_report_works_in_a_browser() {
    if !installed(BROWSER) {
        return skip(&format!("no {BROWSER}: `scripts/deps.sh programs` installs it"));
    }
    let bench = Bench::new();
    let mut with = results(1, 1.0);
    with["experiments"][0]["figures"].as_array_mut().expect("figures").push(timeline());
    plant_noise(&mut with);
    bench.write("results.json", &with);
    let _ = bench.lab(&["report", "results.json"]).success();
    let page = format!("file://{}", bench.path("report/report.html").display());
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/lab");
    fs::create_dir_all(&kept).expect("a directory");
    for (width, dark) in [(1280, false), (1280, true), (390, false), (390, true)] {
        let said = browse(&format!("{page}#selftest"), width, dark, &["--dump-dom".to_owned()]);
        let document = &said.stdout;
        let report =
            document.split_once("<pre id=\"selftest-result\"").map_or("", |(_, rest)| rest);
        assert_eq!(
            attribute(document, "result"),
            "good",
            "{width} {dark}: {report}\n{}",
            said.stderr
        );
        noise_and_columns_are_drawn(report, document);
        let checks: usize = attribute(document, "checks").parse().expect("a number");
        assert!(checks > 14 * FIGURES.len() + 9 * OTHER_KINDS, "{checks} checks: {report}");
        assert_eq!(attribute(document, "width"), width.to_string());
        let paper = if dark { "rgb(20, 23, 26)" } else { "rgb(255, 255, 255)" };
        assert_eq!(attribute(document, "paper"), paper);
        // Errors, and what the page's policy forbids.
        assert!(!said.stderr.contains(":CONSOLE"), "{}", said.stderr);
        let theme = if dark { "dark" } else { "light" };
        let picture = kept.join(format!("report-{width}-{theme}.png"));
        let _ = browse(&page, width, dark, &[format!("--screenshot={}", picture.display())]);
        let size = fs::metadata(&picture).expect("a screenshot").len();
        assert!(size > 20_000, "{} has {size} bytes", picture.display());
    }
}
