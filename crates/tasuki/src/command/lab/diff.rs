//! `tasuki lab diff`: the table or the JSON of what changed, and the exit code.

use std::fmt::Write as _;

use lab::Results;
use lab::diff::{
    Change, DiffOptions, Difference, Drift, Judgement, Unpaired, compare, compare_builds,
};
use serde::Serialize;

use crate::cli::LabDiffArgs;
use crate::command::{print, print_json, table};
use crate::exit::{Code, Failure};

/// Things that cannot be compared, of which a table names this many.
const MOST_UNPAIRED: usize = 10;

/// A base that has changed by less than this is not worth a line.
const LEAST_DRIFT: f64 = 0.01;

/// What `--json` prints.
#[derive(Serialize)]
struct DiffAnswer<'a> {
    bound: f64,
    compared: usize,
    regressions: Vec<&'a Change>,
    suspected: Vec<&'a Change>,
    improvements: Vec<&'a Change>,
    promising: Vec<&'a Change>,
    unchanged: Vec<&'a Change>,
    unjudged: Vec<&'a Change>,
    drifts: &'a [Drift],
    unpaired: &'a [Unpaired],
}

/// Compares two files, or the builds of the only one, prints, and fails if there is a regression.
pub(super) fn diff(
    args: &LabDiffArgs,
    before: &Results,
    after: Option<&Results>,
) -> Result<u8, Failure> {
    let options = DiffOptions { bound: args.bound, absolute: args.absolute };
    let difference = match after {
        Some(after) => compare(before, after, options),
        None => compare_builds(before, options.bound),
    };
    if difference.changes.is_empty() {
        let before = args.before.display();
        let sentence = match &args.after {
            Some(after) => format!(
                "{before} and {} have no point in common: compare files of the same command",
                after.display()
            ),
            None => format!(
                "{before} has one build only: name a second file, or measure two builds in turn \
                 with `tasuki lab --before TASUKI`"
            ),
        };
        return Err(Failure::new(Code::Configuration, sentence));
    }
    if args.json {
        print_json(&answer(&difference))?;
    } else {
        print(&text(&difference))?;
    }
    let found = difference.of(Judgement::Regression).len();
    if found == 0 {
        return Ok(0);
    }
    let noun = if found == 1 { "figure is" } else { "figures are" };
    let percent = options.percent();
    let sentence = format!("{found} {noun} worse by more than {percent} %: see the list");
    Err(Failure::new(Code::Output, sentence))
}

fn answer(difference: &Difference) -> DiffAnswer<'_> {
    DiffAnswer {
        bound: difference.options.bound,
        compared: difference.changes.len(),
        regressions: difference.of(Judgement::Regression),
        suspected: difference.of(Judgement::Suspected),
        improvements: difference.of(Judgement::Improvement),
        promising: difference.of(Judgement::Promising),
        unchanged: difference.of(Judgement::Unchanged),
        unjudged: difference.of(Judgement::Unjudged),
        drifts: &difference.drifts,
        unpaired: &difference.unpaired,
    }
}

fn text(difference: &Difference) -> String {
    let percent = difference.options.percent();
    let lists = [
        (Judgement::Regression, format!("Worse by more than {percent} %")),
        (
            Judgement::Suspected,
            format!("Perhaps worse by more than {percent} % (more rounds tell)"),
        ),
        (Judgement::Improvement, format!("Better by more than {percent} %")),
        (
            Judgement::Promising,
            format!("Perhaps better by more than {percent} % (more rounds tell)"),
        ),
    ];
    let mut text = String::new();
    for (judgement, title) in lists {
        let changes = difference.of(judgement);
        if !changes.is_empty() {
            let _ = writeln!(text, "{title}:\n{}", list(&changes));
        }
    }
    let far = |drift: &&Drift| (drift.ratio - 1.0).abs() > LEAST_DRIFT;
    for drift in difference.drifts.iter().filter(far) {
        let (base, figure) = (&drift.base, &drift.figure);
        let by = signed(drift.ratio);
        let meaning = match drift.is_large() {
            true => "the machine is in another state, measure both again in turn",
            false => "ratios are to it",
        };
        let _ = writeln!(text, "{base} itself has changed by {by} in {figure}: {meaning}.");
    }
    text.push_str(&unpaired(&difference.unpaired));
    let _ = writeln!(text, "{}.", difference.counts());
    text
}

fn list(changes: &[&Change]) -> String {
    let head = ["Figure", "Series", "At", "Before", "After", "Unit", "Change", "95 % interval"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(changes.iter().map(|change| {
        let interval = change
            .low
            .zip(change.high)
            .map_or(String::new(), |(low, high)| format!("{} to {}", signed(low), signed(high)));
        let unit = match (&change.base, change.x) {
            (_, None) => "x before".to_owned(),
            (Some(base), _) => format!("x {base}"),
            (None, _) => change.unit.clone(),
        };
        vec![
            change.figure.clone(),
            change.series.clone(),
            place(change),
            short(change.before),
            short(change.after),
            unit,
            change.ratio.map_or(String::new(), signed),
            interval,
        ]
    }));
    table(&rows, &[false, false, true, true, true, false, true])
}

/// `x`, `x × y` in a figure with a second axis, or `all`.
fn place(change: &Change) -> String {
    match (change.x, change.y) {
        (None, _) => "all".to_owned(),
        (Some(x), None) => x.to_string(),
        (Some(x), Some(y)) => format!("{x} × {y}"),
    }
}

/// What could not be compared, as lines.
fn unpaired(unpaired: &[Unpaired]) -> String {
    let mut text = String::new();
    for it in unpaired.iter().take(MOST_UNPAIRED) {
        let _ = writeln!(text, "Not compared: {} ({}).", it.what, it.reason);
    }
    if let Some(more) = unpaired.len().checked_sub(MOST_UNPAIRED).filter(|more| *more > 0) {
        let _ = writeln!(text, "Not compared: {more} more; --json has all.");
    }
    text
}

/// A ratio as a change: 1.05 is +5.0 %.
fn signed(ratio: f64) -> String {
    format!("{:+.1} %", 100.0 * (ratio - 1.0))
}

/// Four digits that count.
fn short(value: f64) -> String {
    let digits = match value.abs() {
        value if value >= 1000.0 => 0,
        value if value >= 100.0 => 1,
        value if value >= 10.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(judgement: Judgement) -> Change {
        Change {
            experiment: "compare".to_owned(),
            figure: "send".to_owned(),
            series: "split".to_owned(),
            x: Some(64.0),
            y: None,
            unit: "x".to_owned(),
            base: Some("Linux".to_owned()),
            before: 1.5,
            after: 1.2,
            ratio: Some(0.8),
            low: Some(0.75),
            high: Some(0.85),
            worse: Some(0.2),
            likelihood: Some(0.001),
            judgement,
        }
    }

    fn difference() -> Difference {
        let unpaired = (0..12).map(|at| Unpaired { what: format!("a/b{at}"), reason: "reason" });
        Difference {
            options: DiffOptions::default(),
            changes: vec![change(Judgement::Regression), change(Judgement::Unchanged)],
            drifts: vec![Drift {
                experiment: "compare".to_owned(),
                figure: "send".to_owned(),
                base: "Linux".to_owned(),
                ratio: 1.03,
            }],
            unpaired: unpaired.collect(),
        }
    }

    #[test]
    fn the_text_says_what_changed() {
        let text = text(&difference());
        for line in [
            "Worse by more than 5 %:\n",
            "send    split   64   1.500  1.200  x Linux  -20.0 %  -25.0 % to -15.0 %\n",
            "Linux itself has changed by +3.0 % in send: ratios are to it.\n",
            "Not compared: a/b9 (reason).\nNot compared: 2 more; --json has all.\n",
            "2 compared: 1 worse by more than 5 %, 0 perhaps worse, 0 better, 0 perhaps better, 1 \
             unchanged, 0 with too few rounds.\n",
        ] {
            assert!(text.contains(line), "{line}\nis not in\n{text}");
        }
        assert!(!text.contains("Better"), "{text}");
    }

    #[test]
    fn a_place_has_what_its_figure_has() {
        let plain = change(Judgement::Unchanged);
        let cell = Change { y: Some(16.0), ..plain.clone() };
        let whole = Change { x: None, ..plain.clone() };
        assert_eq!([plain, cell, whole].map(|it| place(&it)), ["64", "64 × 16", "all"]);
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [1234.5, 123.45, 12.345, 1.2345, 0.0].map(short),
            ["1234", "123.5", "12.35", "1.234", "0.000"]
        );
        assert_eq!([1.05, 0.9, 1.0].map(signed), ["+5.0 %", "-10.0 %", "+0.0 %"]);
    }

    #[test]
    fn every_key_is_documented() {
        crate::command::tests::every_key_is_documented(&answer(&difference()));
    }
}
