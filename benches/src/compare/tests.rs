use std::path::PathBuf;

use clap::Parser;
use lab::results::BEFORE;
use lab::{Experiment, Mark, Results};

use super::plan::Plan;
use super::*;
use crate::lab::experiment::{LabExperiment, MeasuredValues};
use crate::lab::notebook::Notebook;
use crate::protocol::Test;
use crate::row::Sample;

#[derive(Parser)]
#[command(no_binary_name = true)]
struct Words {
    #[command(flatten)]
    args: CompareArgs,
}

fn row(setup: Setup, build: Build, rate: f64) -> Row {
    let sample = Sample::of_rate(Test::Send, 1024, rate);
    Row { setup, build, role: Role::Client, round: 0, sample, cpu: None, gib: 1.0, machine: None }
}

/// What the file has of these rows, a round each, of the kernel and of two builds.
fn experiment(rounds: &[[f64; 3]], words: &str) -> Experiment {
    let Words { args } = Words::parse_from(words.split_whitespace());
    let programs = |build| Programs {
        tasuki: PathBuf::new(),
        native: PathBuf::new(),
        peers: PathBuf::new(),
        build,
    };
    let builds = [Build::New, Build::Before].map(programs);
    let kinds = kinds(&args, &builds);
    let [kind] = &kinds[..] else { panic!("{} kinds", kinds.len()) };
    let setups = kind.setups();
    assert_eq!(setups, ["Linux", "split", "split, before"]);
    let mut notebook = Notebook::new("compare", "Compared", kind);
    let members =
        [(Setup::LinuxOn, Build::New), (Setup::Split, Build::New), (Setup::Split, Build::Before)];
    for (round, rates) in (0..).zip(rounds) {
        for (at, ((setup, build), rate)) in members.into_iter().zip(rates).enumerate() {
            if rate.is_nan() {
                notebook.fail((0, at), "it ended".to_owned());
            } else {
                let readings = measures::values(&row(setup, build, *rate)).collect();
                notebook.insert((0, at), round, &MeasuredValues { readings, warm_up: 0 });
            }
        }
    }
    notebook.experiment(kind)
}

const WORDS: &str = "--rounds 2 --quick --only linux-on,split --role client --before /old/tasuki";

/// A file with it, as the lab reads it.
fn results(found: Experiment) -> Results {
    let text = serde_json::to_vec(&Results {
        format: lab::results::FORMAT.to_owned(),
        version: lab::results::VERSION,
        made: lab::Origin::default(),
        machine: lab::Machine::default(),
        partial: None,
        experiments: vec![found],
    });
    Results::parse(&text.expect("JSON")).expect("a good file")
}

#[test]
fn rows_become_a_file_that_the_lab_takes() {
    let found = experiment(&[[100.0, 150.0, 120.0], [110.0, 165.0, 132.0]], WORDS);
    let results = results(found);
    let [figure] = &results.experiments[0].figures[..] else { panic!("{results:?}") };
    assert_eq!((&figure.name[..], figure.base.as_deref()), ("send-on-client", Some("Linux")));
    let names: Vec<&str> = figure.series.iter().map(|series| &series.name[..]).collect();
    assert_eq!(names, ["Linux", "split", "split, before"]);
    let ratios = figure.series[1].points[0].ratios_to(&figure.series[0].points[0]);
    assert_eq!(ratios, [(0, 1.5), (1, 1.5)].into());
    let command = "tasuki-bench compare --rounds 2 --quick --before /old/tasuki \
                   --only linux-on,split --role client --test send";
    assert_eq!(figure.command, command);
    Words::parse_from(figure.command.split_whitespace().skip(2));
}

#[test]
fn builds_are_compared_within_rounds() {
    // The machine becomes ten times slower while it is measured.
    let rates = (1..=10_u32).map(|round| (100.0 / f64::from(round), f64::from(round % 3)));
    let worse: Vec<_> = rates.map(|(rate, odd)| [rate, rate * (0.8 + 0.01 * odd), rate]).collect();
    let text = builds::markdown(&results(experiment(&worse, WORDS)));
    assert!(
        text.contains("| send-on-client | split | 1024 | 0.81 (0.80 to 0.82) | **worse** |"),
        "{text}"
    );
    let counts = "\n1 compared: 1 worse by more than 3 %, 0 perhaps worse, 0 better, 0 perhaps \
                  better, 0 unchanged, 0 with too few rounds.\n";
    assert!(text.contains(counts), "{text}");
    for little in [1.0, 0.98] {
        let turns = worse.iter().map(|[linux, new, _]| [*linux, little * new, *new]);
        let text = builds::markdown(&results(experiment(&turns.collect::<Vec<_>>(), WORDS)));
        assert!(text.contains("\n1 compared: 0 worse"), "{text}");
    }
}

#[test]
fn without_an_earlier_build_there_is_no_table() {
    let mut found = experiment(&[[100.0, 150.0, 120.0]], WORDS);
    found.figures[0].series.retain(|series| !series.name.ends_with(BEFORE));
    assert_eq!(builds::markdown(&results(found)), "");
}

#[test]
fn a_measurement_that_failed_is_marked() {
    let found = experiment(&[[100.0, f64::NAN, 100.0], [100.0, 100.0, 100.0]], WORDS);
    let all = &found.figures[0].series;
    let marked: Vec<_> = all.iter().map(|it| (&it.name[..], it.points[0].discarded)).collect();
    assert_eq!(marked, [("Linux", 0), ("split, before", 0), ("split", 1)]);
    let partial = all.iter().filter(|it| it.points[0].marks.contains(&Mark::Partial));
    assert_eq!(partial.map(|it| &it.name[..]).collect::<Vec<_>>(), ["split"]);
}

#[test]
fn plans_that_do_not_fit_are_left_out() {
    let Words { args } = Words::parse_from(["--only", "linux-on,split-native", "--test", "turns"]);
    let plans: Vec<&Plan> = PLANS.iter().filter(|plan| plan.is_wanted(&args)).collect();
    let [turns] = plans[..] else { panic!("{} plans", plans.len()) };
    assert!(turns.sizes(Setup::LinuxOn, Role::Client).is_some());
    assert_eq!(turns.sizes(Setup::SplitNative, Role::Client), None);
    assert_eq!(turns.sizes(Setup::LinuxOn, Role::Server), None);
}
