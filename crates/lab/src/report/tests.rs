use super::*;
use crate::results::{
    Axis, Calibration, Direction, Experiment, FORMAT, FigureKind, Lane, Machine, Mark, Origin,
    Point, Sample, Scale, SecondAxis, Series, Span, VERSION,
};

/// Of each round a value.
fn point(x: f64, values: &[f64]) -> Point {
    let sample = |(round, value): (usize, &f64)| Sample { round: round as u32, value: *value };
    Point {
        x,
        y: 0.0,
        samples: values.iter().enumerate().map(sample).collect(),
        warm_up: 0,
        discarded: 0,
        marks: Vec::new(),
    }
}

fn series(name: &str, points: Vec<Point>) -> Series {
    Series { name: name.to_owned(), reference: false, points }
}

fn figure(name: &str, title: &str, direction: Direction, series: Vec<Series>) -> Figure {
    Figure {
        name: name.to_owned(),
        title: title.to_owned(),
        axis: Axis { title: "bytes per write".into(), unit: "B".into(), scale: Scale::Log },
        unit: "MiB/s".to_owned(),
        direction,
        command: "tasuki-bench compare --only linux-on,split".to_owned(),
        kind: FigureKind::Lines,
        second: None,
        base: Some("Linux".to_owned()),
        series,
        lanes: Vec::new(),
    }
}

fn results() -> Results {
    let sends = vec![
        series("Linux", vec![point(1024.0, &[100.0; 6]), point(65536.0, &[200.0; 6])]),
        series("split", vec![point(1024.0, &[150.0; 6]), point(65536.0, &[100.0; 6])]),
    ];
    let mut noisy = point(64.0, &[10.0, 30.0, 20.0, 40.0, 15.0, 30.0]);
    noisy.marks.push(Mark::Partial);
    noisy.discarded = 2;
    let trips = vec![series("Linux", vec![point(64.0, &[20.0; 6])]), series("split", vec![noisy])];
    Results {
        format: FORMAT.to_owned(),
        version: VERSION,
        made: Origin { by: "a test".into(), command: "make all".into(), ..Origin::default() },
        machine: Machine {
            system: "Linux 6".to_owned(),
            processor: "some model".to_owned(),
            processors: 2,
            properties: [("clock source".to_owned(), "tsc".to_owned())].into(),
            calibration: vec![Calibration {
                name: "wake-up".to_owned(),
                unit: "µs".to_owned(),
                samples: vec![Sample { round: 0, value: 5.0 }, Sample { round: 1, value: 9.0 }],
            }],
        },
        partial: None,
        experiments: vec![Experiment {
            name: "compare".to_owned(),
            title: "Tasuki beside the kernel".to_owned(),
            findings: vec!["split takes <1 µs>.".to_owned()],
            figures: vec![
                figure("send", "Send", Direction::Higher, sends),
                figure("trip", "Round trip", Direction::Lower, trips),
            ],
        }],
    }
}

#[test]
fn the_sentences_say_what_was_found() {
    let results = results();
    results.check().expect("a good file");
    let said = findings(&results);
    assert_eq!(
        said,
        [
            "6 points in 2 figures were measured in 6 rounds on Linux 6, some model with \
             2 processors.",
            "Compared with Linux round by round, 1 point is better, 1 point is worse, and 1 \
             cannot be told apart.",
            "Medians of all places, in parts of Linux's: Send: split 1 (higher is better); Round \
             trip: split 1.25 (lower is better).",
            "The worst point is “split” in “Send” at 64 KiB: 0.5 times the value of Linux (0.5 to \
             0.5; higher is better).",
            "1 of 6 points are noisy: the interval is wider than ±5 %. 2 samples failed or \
             discarded.",
            "The machine's wake-up was 7 µs, at most 9.",
        ]
    );
    let partial = Results { partial: Some("round 3 failed".to_owned()), ..results };
    let said = findings(&partial);
    assert_eq!(said.len(), 6);
    assert_eq!(said[5], "The results are not complete: round 3 failed");
    let empty = Results { experiments: Vec::new(), ..partial };
    assert_eq!(findings(&empty).len(), 3);
    assert!(page(&empty).contains("<h2>Figures</h2>"));
}

#[test]
fn a_report_has_a_page_and_two_files_for_each_figure() {
    let files = files(&results());
    let names: Vec<&str> = files.iter().map(|file| &file.name[..]).collect();
    assert_eq!(
        names,
        [
            "report.html",
            "compare-send.svg",
            "compare-send.csv",
            "compare-trip.svg",
            "compare-trip.csv"
        ]
    );
    let page = &files[0].content;
    for part in [
        "<code>tasuki-bench compare --only linux-on,split</code>",
        "<td>tsc</td>",
        "<h3>Round trip</h3>",
        "<span class=\"ratio\">1.5×</span>",
        "<th scope=\"row\">64 KiB</th>",
        "script-src 'sha256-",
    ] {
        assert!(page.contains(part), "{part}");
    }
    for absent in ["http-equiv=\"refresh", "https://", "src=", "unsafe-inline"] {
        assert!(!page.contains(absent), "{absent}");
    }
}

#[test]
fn text_out_of_the_file_stays_text() {
    let evil = "</script><script>alert(1)</script><img src=x onerror=\"a('b')\">&amp;";
    let mut results = results();
    results.machine.system = evil.to_owned();
    results.machine.properties.insert(evil.to_owned(), evil.to_owned());
    results.machine.calibration[0].name = evil.to_owned();
    results.partial = Some(evil.to_owned());
    results.made.tasuki = format!("{evil}\u{1}");
    let experiment = &mut results.experiments[0];
    experiment.title = evil.to_owned();
    let figure = &mut experiment.figures[0];
    figure.title = evil.to_owned();
    figure.unit = evil.to_owned();
    figure.command = evil.to_owned();
    figure.base = Some(evil.to_owned());
    figure.axis.title = evil.to_owned();
    figure.axis.unit = evil.to_owned();
    figure.series[0].name = evil.to_owned();
    let plain = page(&self::results()).matches('<').count();
    let page = page(&results);
    assert!(!page.contains("<script>alert") && !page.contains("<img"), "an element came in");
    assert_eq!(page.matches("</script>").count(), 2);
    // One row of the machine for the property, one for what is missing: two elements each.
    assert!(page.matches('<').count() <= plain + 16, "{}", page.matches('<').count() - plain);
    for file in files(&results).iter().filter(|file| file.name.ends_with(".svg")) {
        assert!(!file.content.contains("<script") && !file.content.contains("<img"));
        assert!(!file.content.contains('\u{1}'));
    }
}

#[test]
fn a_plot_of_a_file_draws_each_series() {
    for figure in &results().experiments[0].figures {
        let svg = plot_svg(figure);
        assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>\n"), "{svg}");
        assert_eq!(svg.matches("<g>").count(), svg.matches("</g>").count());
        // A curve and a line of the legend for each.
        assert_eq!(svg.matches("stroke-width=\"2\"").count(), 4, "{svg}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}

#[test]
fn zeroes_and_single_values_can_be_drawn() {
    let mut results = results();
    let experiment = &mut results.experiments[0];
    experiment.figures[0].series[1].points = vec![point(0.0, &[0.0])];
    experiment.figures[1].series = vec![series("Linux", vec![point(0.0, &[0.0])])];
    results.check().expect("a good file");
    for file in files(&results).iter().filter(|file| file.name != PAGE) {
        let content = &file.content;
        assert!(!content.contains("NaN") && !content.contains("inf"), "{content}");
    }
}

/// A figure of that kind, of two series with a point for each pair of places.
fn with_second(kind: FigureKind, second: SecondAxis) -> Figure {
    let points = |by: f64| -> Vec<Point> {
        let places = [1024.0, 4096.0].into_iter().flat_map(|x| [0.0, 1.0].map(|y| (x, y)));
        places.map(|(x, y)| Point { y, ..point(x, &[by + y, by + y]) }).collect()
    };
    let both = vec![series("Linux", points(1.0)), series("split", points(3.0))];
    let base = kind.may_have_base().then(|| "Linux".to_owned());
    let plain = figure("second", "Second", Direction::Lower, both);
    Figure { kind, second: Some(second), base, ..plain }
}

#[test]
fn a_heat_map_has_a_cell_for_each_point() {
    let second = SecondAxis { title: "areas".into(), unit: String::new(), names: Vec::new() };
    let mut results = results();
    results.experiments[0].figures = vec![with_second(FigureKind::HeatMap, second)];
    results.check().expect("a good file");
    let svg = plot_svg(&results.experiments[0].figures[0]);
    // The paper, and two maps of four cells.
    assert_eq!(svg.matches("<rect").count(), 1 + 2 * 4, "{svg}");
    assert!(svg.contains(">Linux<") && svg.contains("#00224e") && svg.contains("#fee838"), "{svg}");
    let page = page(&results);
    assert!(page.contains("<th scope=\"row\">1 KiB</th><th scope=\"row\">1</th>"), "no rows");
    assert!(page.contains("MiB/s by bytes per write and areas; lower"), "no axes");
    let best = findings(&results).into_iter().find(|said| said.contains("worst point"));
    assert!(best.expect("a sentence").contains("at 1 KiB × 0: 3 times"), "no place");
}

/// What says what a mark of noise means.
const NOTE: &str = "the interval is wider than ±5 %, or of one round only.";

#[test]
fn a_noisy_point_is_marked_in_lines_and_what_the_mark_means_is_said() {
    let results = results();
    let [quiet, loud] = &results.experiments[0].figures[..] else { panic!("two figures") };
    let hollow = "fill=\"#ffffff\" stroke=\"#d55e00\"";
    let svg = plot_svg(loud);
    // The legend shows the usual mark.
    assert_eq!(svg.matches(hollow).count(), 1, "{svg}");
    assert!(svg.contains(&format!("A hollow mark, and ~ in the table, is a noisy point: {NOTE}")));
    let svg = plot_svg(quiet);
    assert!(!svg.contains(hollow) && !svg.contains(NOTE), "{svg}");
    let page = page(&results);
    // In the page's own words, and in the picture for browsers without scripts.
    assert_eq!(page.matches(NOTE).count(), 2);
    assert_eq!(page.matches("<p class=\"about noise\">").count(), 1);
    assert!(page.contains(",6.0,0.0,1.0]"), "the script does not know of it");
}

#[test]
fn noisy_cells_and_bars_have_a_mark() {
    let names = vec!["first".to_owned(), "second".to_owned()];
    let numbers = SecondAxis { title: "areas".into(), unit: String::new(), names: Vec::new() };
    let parts = SecondAxis { names, ..numbers.clone() };
    let mut heat = with_second(FigureKind::HeatMap, numbers);
    let mut stacks = with_second(FigureKind::StackedBars, parts);
    for (figure, marks) in [(&mut heat, [">3~<", ">3<"]), (&mut stacks, [">split ~<", ">split<"])] {
        assert!(!plot_svg(figure).contains('~'), "without noise");
        figure.series[1].points[0].marks.push(Mark::Noisy);
        let svg = plot_svg(figure);
        for mark in marks {
            assert_eq!(svg.matches(mark).count(), 1, "{mark}: {svg}");
        }
        assert!(svg.contains(NOTE), "{svg}");
        // What was not measured here has no noise.
        figure.series[1].reference = true;
        assert!(!plot_svg(figure).contains('~'), "noise of a paper");
    }
}

#[test]
fn the_table_counts_samples_and_says_what_an_outlier_is() {
    let mut results = results();
    let page_before = page(&results);
    let said = "counts\">6\u{a0}samples; left\u{a0}out:\u{a0}2\u{a0}discarded</span>";
    assert!(page_before.contains(said) && !page_before.contains("quartiles"), "{page_before}");
    let mut far = point(1024.0, &[100.0, 101.0, 102.0, 103.0, 104.0, 200.0]);
    far.warm_up = 3;
    results.experiments[0].figures[0].series[0].points[0] = far;
    let with = page(&results);
    let said = "6\u{a0}samples, 1\u{a0}outlier; left\u{a0}out:\u{a0}3\u{a0}to\u{a0}warm\u{a0}up<";
    assert!(with.contains(said), "{with}");
    assert_eq!(with.matches("It stays in the median").count(), 1);
    // The middle between 102 and 103: the outlier is in.
    assert!(with.contains("<td>102.5"), "{with}");
}

#[test]
fn stacked_bars_have_numbered_parts() {
    let names = vec!["first <".to_owned(), "second".to_owned()];
    let second = SecondAxis { title: "stage".into(), unit: String::new(), names };
    let mut results = results();
    results.experiments[0].figures = vec![with_second(FigureKind::StackedBars, second)];
    results.check().expect("a good file");
    let svg = plot_svg(&results.experiments[0].figures[0]);
    // The paper, two places with two bars of two parts, and the legend.
    assert_eq!(svg.matches("<rect").count(), 1 + 2 * 2 * 2 + 2, "{svg}");
    assert!(svg.contains("1 first &lt;") && svg.contains(">2 second<"), "{svg}");
    assert!(page(&results).contains("<th scope=\"row\">second</th>"), "no names in the table");
}

#[test]
fn numbers_are_short() {
    let said = [0.0, 1.0, 1.5, 12.345, 123.45, 1234.5, 0.123_45, 0.001_234, 1e8, 1e-6];
    assert_eq!(
        said.map(number::short),
        ["0", "1", "1.5", "12.35", "123.5", "1234", "0.123", "0.001234", "1.00e8", "1.00e-6"]
    );
    assert_eq!(number::place(65536.0, "B"), "64 KiB");
    assert_eq!(number::place(1000.0, "B"), "1000 B");
    assert_eq!(number::place(4.0, "ms"), "4 ms");
    assert_eq!(number::place(4.0, ""), "4");
}

#[test]
fn ticks_are_round_numbers_within_the_axis() {
    let axis =
        |values: &[f64], kind| scale::AxisScale::around(values.iter().copied(), kind, 0.0, 100.0);
    assert_eq!(axis(&[0.0, 100.0], Scale::Linear).ticks(6), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
    let log = axis(&[1.0, 1000.0], Scale::Log).ticks(4);
    assert_eq!(log, [1.0, 10.0, 100.0, 1000.0]);
    let middle = axis(&[1.0, 100.0], Scale::Log).at(10.0);
    assert!((middle - 50.0).abs() < 1e-9, "{middle}");
    // 0 has no place on a logarithmic axis, so it becomes linear.
    assert!(axis(&[0.0, 10.0], Scale::Log).at(0.0).is_finite());
    assert!(axis(&[], Scale::Log).at(0.5).is_finite());
}

#[test]
fn a_paper_stands_beside_what_was_measured_and_is_not_counted() {
    let mut with = results();
    let mut paper = series("paper", vec![point(1024.0, &[7.0])]);
    paper.reference = true;
    with.experiments[0].figures[0].series.push(paper);
    with.check().expect("a good file");
    assert_eq!(findings(&with), findings(&results()));
    let page = page(&with);
    assert!(page.contains("<th scope=\"col\">paper</th>"), "no column");
    assert!(page.contains("\"is_reference\":true"), "no mark");
    assert!(page.contains("<li>split takes &lt;1 µs&gt;.</li>"), "no finding of the experiment");
    assert!(plot_svg(&with.experiments[0].figures[0]).contains("2 5"), "no dots");
}

#[test]
fn a_histogram_has_columns_and_no_noise() {
    let parts = [[20.0, 60.0], [80.0, 40.0]];
    let points = [10.0, 12.0].into_iter().zip(&parts).map(|(x, parts)| point(x, parts)).collect();
    let mut histogram = figure("times", "Times", Direction::Higher, vec![series("a", points)]);
    (histogram.kind, histogram.base) = (FigureKind::Histogram, None);
    let svg = plot_svg(&histogram);
    assert!(
        svg.contains("a class begins at its place") && !svg.contains("stroke-opacity"),
        "{svg}"
    );
    // Of one class as well: a column from its place on, not a mark among names.
    let mut one = histogram.clone();
    one.series[0].points.truncate(1);
    let svg = plot_svg(&one);
    assert!(svg.contains("10 B") && !svg.contains("rotate"), "{svg}");
    let mut with = results();
    with.experiments[0].figures = vec![histogram];
    assert!(findings(&with).iter().any(|said| said.starts_with("No point is noisy")));
}

/// A packet, and work that takes a time.
fn lane(panel: &str, name: &str) -> Lane {
    let span = |from, until, bytes| Span { from, until, bytes };
    let spans = vec![span(1.0, 1.0, 1514), span(20.0, 45.5, 4096)];
    Lane { panel: panel.to_owned(), name: name.to_owned(), spans }
}

#[test]
fn a_timeline_has_its_panels_lanes_and_a_table_of_all() {
    let mut timeline = figure("packets", "Packets", Direction::Lower, Vec::new());
    (timeline.kind, timeline.base) = (FigureKind::Timeline, None);
    timeline.axis.unit = "µs".to_owned();
    timeline.lanes = vec![lane("ESP", "packets <b>"), lane("sealed", "packets <b>")];
    let svg = plot_svg(&timeline);
    assert!(svg.contains(">ESP</text>") && svg.contains("packets &lt;b&gt;"), "{svg}");
    assert_eq!(svg.matches("v16h-").count(), 4, "{svg}");
    let mut with = results();
    with.experiments[0].figures.push(timeline);
    with.check().expect("a good file");
    let page = page(&with);
    for part in ["<td>5610</td>", "<td>20</td><td>45.5</td><td>4096</td>", "\"kind\":\"timeline\""]
    {
        assert!(page.contains(part), "{part}");
    }
    // It has no points, so nothing of it is counted.
    assert_eq!(findings(&with)[1..], findings(&results())[1..]);
}
