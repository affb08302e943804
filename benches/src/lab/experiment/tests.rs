//! The command of each figure measures that figure and nothing else, in the same set-ups and in the
//! same way. Experiments are planned here, and nothing is measured.

use std::path::Path;

use lab::plan::{ExperimentName, LabOptions};

use super::*;
use crate::hosts::Programs;
use crate::lab::rtt::Rtt;
use crate::lab::{made_with, options_of};

/// Of each experiment, behind its name.
const CHOICES: [&str; 5] =
    ["", " --quick", " --only fused", " --only linux,split --quick", " --only linux,library,fused"];
/// Of some, besides: what a figure has in common with others of the experiment.
const MORE: [&str; 10] = [
    "rtt --count 100 --length 64 --gateways 0,2 --load receiver=0..2",
    "rtt --gateways 1 --network-load 0,50 --only linux,both-ends",
    "throughput --quick --size 1024,4096 --unit 4096 --only both-ends,linux,split",
    "handover --size 4096 --relays 2,3 --quick",
    "calls --batch 3,10 --frames --quick",
    "storage --cipher 3des --quick",
    "storage --size 4096,65536 --delay 2",
    "packets --size 32768 --delay 5",
    "paths --loss 1 --delay 5,50 --queue 64,128",
    "paths --cross --loss 0,1 --queue 64,128 --quick",
];

/// The experiment that words behind `tasuki lab` choose, and their options.
fn planned(words: &str) -> (Box<dyn LabExperiment>, LabOptions) {
    let options = options_of(words);
    options.check().unwrap_or_else(|sentence| panic!("{words}: {sentence}"));
    let [name] = options.chosen()[..] else { panic!("{words} choose {:?}", options.chosen()) };
    let programs = Programs::new(Path::new("tasuki"), Path::new("")).expect("programs");
    let experiment = match name {
        // Control groups are for measuring.
        ExperimentName::Rtt => Box::new(Rtt::without_groups(&programs, &options)),
        _ => made_with(name, &programs, &options).expect("an experiment"),
    };
    (experiment, options)
}

/// Can it be planned by this user? Without rights, the kernel's ends are looked for by a program
/// that connects a namespace, and round trips do not have all axes.
fn may_plan(name: &str, words: &str) -> bool {
    let is_over_passt = ["rtt", "throughput", "connections"].contains(&name);
    let has_linux = !words.contains("--only") || words.contains("linux");
    let has_paths = words.contains("--gateways");
    rustix::process::geteuid().is_root() || !(is_over_passt && (has_linux || has_paths))
}

/// Is this a set-up that some figures of an experiment do not have? Cells of transfer units alone
/// have the native API, and points without a gateway alone have a wire.
fn is_of_some_figures(setup: &str) -> bool {
    setup.ends_with("native") || setup.ends_with("wire")
}

/// The words of all figures, each once, in order.
fn commands(experiment: &dyn LabExperiment) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    for plan in experiment.figures() {
        if !commands.contains(&plan.words) {
            commands.push(plan.words);
        }
    }
    commands
}

/// Compares an experiment with those of its figures' commands.
fn assert_is_repeated_by_commands(words: &str) {
    let (whole, options) = planned(words);
    let mut points = Vec::new();
    for command in commands(whole.as_ref()) {
        let (again, kept) = planned(&command);
        let both = format!("{words}: {command}");
        assert_eq!(
            (kept.quick, kept.count, kept.cipher, &kept.peers),
            (options.quick, options.count, options.cipher, &options.peers),
            "{both}"
        );
        let setups = again.setups();
        let mut expected = whole.setups();
        expected.retain(|setup| setups.contains(setup) || !is_of_some_figures(setup));
        assert_eq!(setups, expected, "{both}");
        let figures: Vec<Figure> = again.figures().iter().map(FigurePlan::figure).collect();
        for plan in whole.figures().iter().filter(|plan| plan.words == command) {
            let found = figures.iter().find(|figure| figure.name == plan.name);
            assert_eq!(found, Some(&plan.figure()), "{both}");
        }
        points.extend(again.points());
    }
    // No command measures a point of another one's figures, and none is left out.
    assert_eq!(points, whole.points(), "{words}");
}

#[test]
fn a_figure_is_repeated_alone_by_its_command() {
    let names = ExperimentName::EACH.map(ExperimentName::name);
    for name in names {
        for choice in CHOICES.iter().filter(|choice| may_plan(name, choice)) {
            assert_is_repeated_by_commands(&format!("{name}{choice}"));
        }
    }
    for words in MORE {
        let name = words.split(' ').next().unwrap_or_default();
        if may_plan(name, words) {
            assert_is_repeated_by_commands(words);
        }
    }
}
