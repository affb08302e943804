use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// A file with one figure of two series.
fn file() -> Value {
    let point = |x: u32, values: [f64; 2]| {
        json!({
            "x": x,
            "y": 0,
            "samples": [{"round": 0, "value": values[0]}, {"round": 1, "value": values[1]}],
        })
    };
    let series = |name: &str, by: f64| {
        let points = [point(64, [by, 2.0 * by]), point(1024, [3.0 * by; 2])];
        json!({"name": name, "reference": false, "points": points})
    };
    json!({
        "format": FORMAT,
        "version": VERSION,
        "made": {"by": "a test", "command": "test", "tasuki": "tasuki 0", "began": 0, "seconds": 1},
        "machine": {
            "system": "Linux", "processor": "some", "processors": 2,
            "properties": {"clock source": "tsc"},
            "calibration": [
                {"name": "wake-up", "unit": "µs", "samples": [{"round": 0, "value": 5.0}]},
            ],
        },
        "experiments": [{
            "name": "compare", "title": "Compare", "findings": ["It is fast."],
            "figures": [{
                "name": "send", "title": "Send", "unit": "MiB/s", "direction": "higher",
                "kind": "lines",
                "second": null,
                "axis": {"title": "bytes per write", "unit": "B", "scale": "log"},
                "command": "tasuki-bench compare", "base": "Linux",
                "series": [series("Linux", 100.0), series("split, \"=x\"", 150.0)],
            }],
        }],
    })
}

fn parsed(file: &Value) -> Result<Results, InvalidResults> {
    Results::parse(file.to_string().as_bytes())
}

const FIGURE: &str = "/experiments/0/figures/0";

/// The refusal of a file in which one field is another.
fn refusal(pointer: &str, value: Value) -> String {
    let mut file = file();
    *file.pointer_mut(pointer).expect("such a field") = value;
    parsed(&file).expect_err(pointer).to_string()
}

#[test]
fn a_file_comes_back_as_it_was() {
    let results = parsed(&file()).expect("a good file");
    let again = serde_json::to_vec(&results).expect("JSON");
    assert_eq!(Results::parse(&again), Ok(results.clone()));
    let figure = &results.experiments[0].figures[0];
    assert_eq!(figure.places(), [64.0, 1024.0]);
    let (base, other) = (&figure.series[0].points[0], &figure.series[1].points[0]);
    assert_eq!(figure.base_series().map(|it| &it.name[..]), Some("Linux"));
    assert_eq!(other.ratios_to(base), [(0, 1.5), (1, 1.5)].into());
    assert_eq!(base.interval().expect("samples").middle, 150.0);
}

#[test]
fn a_refusal_names_the_field() {
    let at = |field: &str| format!("{FIGURE}{field}");
    let path = "experiments[0].figures[0]";
    let sample = at("/series/0/points/1/samples/0/value");
    let place = format!("{path}.series[0].points[1]");
    for (pointer, value, expected) in [
        (&sample[..], json!("fast"), format!("{place}.samples[0].value: not a number: string")),
        (&sample, Value::Null, format!("{place}.samples[0].value: not a number: null")),
        (&sample, json!(-1), format!("{place}.samples[0].value: -1 is not between")),
        (&sample, json!(1e300), format!("{place}.samples[0].value: ")),
        (&at("/series/0/points/1/x"), json!(64), format!("{place}.x: points are in order")),
        (&at("/series/0/points/1/samples"), json!([]), format!("{place}.samples: a point has")),
        (&at("/series/0/points/1/samples"), json!(3), format!("{place}.samples: invalid type")),
        (&at("/series/1/name"), json!("Linux"), format!("{path}.series[1].name: `Linux` is")),
        (&at("/base"), json!("BSD"), format!("{path}.base: no series")),
        (&at("/name"), json!("../x"), format!("{path}.name: files are named")),
        (&at("/name"), json!(""), format!("{path}.name: it is empty")),
        (&at("/title"), json!("a\u{1b}b"), format!("{path}.title: it has a control")),
        (&at("/kind"), json!("pie"), format!("{path}.kind: unknown variant `pie`")),
        (&at("/kind"), json!("histogram"), format!("{path}.base: this kind of figure has none")),
        (&at("/kind"), json!("heat map"), format!("{path}.second: it is missing")),
        (&at("/second"), json!({"title": "a"}), format!("{path}.second: this kind")),
        (&at("/series/0/points/0/y"), json!(2), format!("{path}.series[0].points[0].y: this kind")),
        (&at("/series/0/reference"), json!(1), format!("{path}.series[0].reference: invalid")),
        ("/experiments/0/findings", json!([""]), "experiments[0].findings[0]: it is empty".into()),
        (&at("/direction"), json!("up"), format!("{path}.direction: unknown variant `up`")),
        ("/made", json!({"whose": 1}), "made.whose: unknown field".to_owned()),
        ("/version", json!(2), "version: it is 2".to_owned()),
        ("/version", Value::Null, "version: it is missing".to_owned()),
        ("/format", json!("other"), "format: it is not".to_owned()),
        ("/format", Value::Null, "format: it is missing".to_owned()),
    ] {
        let said = refusal(pointer, value);
        assert!(said.starts_with(&expected), "{pointer}: {said}\n not {expected}");
    }
}

#[test]
fn what_is_no_file_of_the_lab_is_refused() {
    for text in ["", "[]", "{", "null", "3", "# Markdown", "{\"rows\": []}"] {
        Results::parse(text.as_bytes()).expect_err(text);
    }
    let behind = format!("{} x", file());
    let said = Results::parse(behind.as_bytes()).expect_err("more behind").to_string();
    assert!(said.contains("no JSON object"), "{said}");
}

#[test]
fn csv_has_all_samples_and_is_quoted() {
    let results = parsed(&file()).expect("a good file");
    let csv = results.experiments[0].figures[0].csv();
    let lines: Vec<&str> = csv.split("\r\n").collect();
    assert_eq!(lines.len(), 1 + 8 + 1, "{csv}");
    let columns = "figure,series,x,x unit,y,round,value,unit,samples,warm-up,discarded,outliers";
    assert_eq!(lines[0], columns);
    assert_eq!(lines[1], "send,Linux,64,B,,0,100,MiB/s,2,0,0,0");
    assert_eq!(lines[8], "send,\"split, \"\"=x\"\"\",1024,B,,1,450,MiB/s,2,0,0,0");
}

#[test]
fn csv_counts_samples_that_are_far_away_or_were_left_out() {
    let mut results = parsed(&file()).expect("a good file");
    let figure = &mut results.experiments[0].figures[0];
    let point = &mut figure.series[0].points[0];
    let values = [10.0, 11.0, 12.0, 13.0, 90.0];
    let sample = |(round, value)| Sample { round, value };
    point.samples = (0..).zip(values).map(sample).collect();
    (point.warm_up, point.discarded) = (2, 3);
    let csv = figure.csv();
    // Each of them counts, the one that is far away as well.
    assert_eq!(csv.matches(",MiB/s,5,2,3,1\r\n").count(), 5, "{csv}");
    assert_eq!(figure.series[0].points[0].interval().expect("samples").middle, 12.0);
    figure.kind = FigureKind::Histogram;
    assert_eq!(figure.csv().matches(",MiB/s,5,2,3,0\r\n").count(), 5, "a class has outliers");
}

#[test]
fn the_page_has_every_key() {
    let page = include_str!("../../../../docs/reference/lab-results.md");
    fn keys(value: &Value, all: &mut Vec<String>) {
        for (key, inner) in value.as_object().into_iter().flatten() {
            all.push(key.clone());
            // Their keys are names.
            if !["properties", "unfinished"].contains(&&key[..]) {
                keys(inner, all);
            }
        }
        value.as_array().into_iter().flatten().for_each(|inner| keys(inner, all));
    }
    let mut results = parsed(&file()).expect("a good file");
    results.partial = Some("a test".to_owned());
    results.made.unfinished.insert("a".to_owned(), 1);
    results.made.failed = vec!["failed".to_owned()];
    results.experiments[0].findings = vec!["found".to_owned()];
    let figure = &mut results.experiments[0].figures[0];
    (figure.kind, figure.series[0].reference) = (FigureKind::Histogram, true);
    figure.second =
        Some(SecondAxis { title: "a".into(), unit: "B".into(), names: vec!["b".into()] });
    figure.series[0].points[0].y = 1.0;
    let span = Span { from: 0.0, until: 1.0, bytes: 2 };
    figure.lanes = vec![Lane { panel: "a".into(), name: "b".into(), spans: vec![span] }];
    let mut all = Vec::new();
    keys(&serde_json::to_value(results).expect("JSON"), &mut all);
    assert!(all.len() > 30);
    for key in all {
        assert!(page.contains(&format!("`{key}`")), "docs/reference/lab-results.md has no {key}");
    }
}

/// The file's figure with a second axis.
fn with_second(kind: &str, second: &Value, ys: [u32; 2]) -> Value {
    let mut file = file();
    let figure = file.pointer_mut(FIGURE).expect("a figure");
    (figure["kind"], figure["second"]) = (json!(kind), second.clone());
    figure.as_object_mut().expect("an object").remove("base");
    for series in figure["series"].as_array_mut().expect("series") {
        for (point, y) in series["points"].as_array_mut().expect("points").iter_mut().zip(ys) {
            (point["x"], point["y"]) = (json!(64), json!(y));
        }
    }
    file
}

/// The file with one timeline.
fn timeline() -> Value {
    let mut file = file();
    let figure = file.pointer_mut(FIGURE).expect("a figure");
    let spans = json!([{"from": 0, "until": 0, "bytes": 1514}, {"from": 3.5, "until": 9}]);
    figure["kind"] = json!("timeline");
    figure["series"] = json!([]);
    figure["lanes"] = json!([
        {"panel": "ESP", "name": "packets", "spans": spans.clone()},
        {"panel": "sealed", "name": "packets", "spans": spans},
    ]);
    figure.as_object_mut().expect("an object").remove("base");
    file
}

#[test]
fn a_second_axis_is_for_its_kinds_and_its_places_are_checked() {
    let plain = json!({"title": "areas", "unit": "B"});
    let parts = json!({"title": "stage", "names": ["first", "second"]});
    let results = parsed(&with_second("heat map", &plain, [0, 16])).expect("a good file");
    let figure = &results.experiments[0].figures[0];
    assert_eq!((figure.places(), figure.second_places()), (vec![64.0], vec![0.0, 16.0]));
    assert!(figure.csv().contains("send,Linux,64,B,16,0,"), "{}", figure.csv());
    let results = parsed(&with_second("stacked bars", &parts, [0, 1])).expect("a good file");
    let csv = results.experiments[0].figures[0].csv();
    assert!(csv.contains("send,Linux,64,B,second,0,"), "{csv}");
    for (kind, second, ys, expected) in [
        ("heat map", &parts, [0, 1], ".second: only the parts"),
        ("stacked bars", &plain, [0, 1], ".second: the parts"),
        ("stacked bars", &parts, [0, 2], ".y: it is no place among 2"),
        ("heat map", &plain, [3, 3], ".x: points are in order of x, then of y"),
    ] {
        let said = parsed(&with_second(kind, second, ys)).expect_err(expected).to_string();
        assert!(said.contains(expected), "{said}");
    }
    let mut file = with_second("stacked bars", &parts, [0, 1]);
    file.pointer_mut(FIGURE).expect("a figure")["base"] = json!("Linux");
    assert!(parsed(&file).is_err(), "stacked bars with a base");
}

#[test]
fn a_timeline_has_lanes_in_order_of_time() {
    let results = parsed(&timeline()).expect("a good file");
    let csv = results.experiments[0].figures[0].csv();
    let lines: Vec<&str> = csv.split("\r\n").collect();
    assert_eq!(lines[0], "figure,panel,lane,from,until,unit,bytes");
    assert_eq!(lines[2], "send,ESP,packets,3.5,9,B,0");
    assert_eq!(lines.len(), 1 + 4 + 1);
    for (field, value, expected) in [
        ("/lanes/1/panel", json!("ESP"), "lanes[1].name: the panel has it twice"),
        ("/lanes/0/spans/1/until", json!(3), "lanes[0].spans[1]: spans are in order"),
        ("/lanes/0/spans/0/from", json!(-1), "lanes[0].spans[0].from: -1 is not between"),
        ("/lanes/0/name", json!(""), "lanes[0].name: it is empty"),
        ("/lanes", json!([]), "lanes: a timeline has some"),
        ("/kind", json!("lines"), "lanes: only a timeline has lanes"),
    ] {
        let mut file = timeline();
        *file.pointer_mut(&format!("{FIGURE}{field}")).expect("such a field") = value;
        let said = parsed(&file).expect_err(expected).to_string();
        assert!(said.contains(expected), "{said}");
    }
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Results::parse(&text);
    }

    /// One byte of a good file is another one.
    #[test]
    fn no_edit_makes_it_panic(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut text = file().to_string().into_bytes();
        let at = at.index(text.len());
        text[at] = byte;
        if let Ok(results) = Results::parse(&text) {
            prop_assert_eq!(results.check(), Ok(()));
        }
    }
}
