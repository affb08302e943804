use std::time::Duration;

use clap::Parser;

use super::*;

#[derive(Debug, Parser)]
struct Words {
    #[command(flatten)]
    options: LabOptions,
}

fn parsed(words: &str) -> Result<LabOptions, String> {
    let all = ["lab"].into_iter().chain(words.split_whitespace());
    let options = Words::try_parse_from(all).map_err(|error| error.to_string())?.options;
    options.check().map(|()| options)
}

#[test]
fn ranges_go_on_as_their_option_says() {
    let options = parsed(
        "rtt calls --length 4..64,1000 --gateways 0..2 --power 80..100 --load receiver=0..3 \
         --load sender=1 --batch 1..1000",
    )
    .unwrap();
    assert_eq!(options.length.unwrap().all(), [4, 8, 16, 32, 64, 1000]);
    assert_eq!(options.gateways.unwrap().all(), [0, 1, 2]);
    let [power] = &options.power[..] else { panic!("{:?}", options.power) };
    assert_eq!((power.end, power.places.all()), (HostEnd::Both, &[80, 90, 100][..]));
    let said: Vec<String> = options.load.iter().map(ToString::to_string).collect();
    assert_eq!(said, ["receiver=0,1,2,3", "sender=1"]);
    assert_eq!(options.batch.unwrap().all().last(), Some(&1000));
}

#[test]
fn wrong_values_are_refused_with_the_rule() {
    for (words, expected) in [
        ("rtt --length 3", "bytes from 4 to 8192"),
        ("rtt --length 8..4", "goes down"),
        ("rtt --gateways 5", "gateways from 0 to 4"),
        ("rtt --gateways ,", "gateways from 0 to 4"),
        ("rtt --load both=3", "`both` is no end"),
        ("rtt --load 1 --load 2", "twice for one end"),
        ("rtt --power 5", "percent from 10 to 100"),
        ("rtt --network-load 50 --gateways 0,1", "behind a gateway"),
        ("handover --gateways 1", "--gateways belongs to rtt"),
        ("rtt --size 4096", "belongs to stages, handover, throughput, storage, packets"),
        ("stages handover --size 256,1024", "too small for handover"),
        ("handover --size 128", "bytes from 256"),
        ("rtt stages --only both-ends", "no set-up of stages: name one of linux, split, fused, l"),
        ("rtt --only wire --gateways 1,2", "no points behind a gateway"),
        ("throughput --only wire", "library, both-ends, or leave throughput out"),
        ("loops --steps 5000", "steps from 1 to 4096"),
        ("scale --programs 0", "programs from 1 to 8"),
        ("loops --connections 2", "--connections belongs to scale"),
        ("handover --frames", "--frames belongs to calls"),
        ("rtt --time 0s", "such as 90s"),
        ("rtt --continue there", "cannot be used with"),
        ("rtz", "rtt"),
    ] {
        let said = parsed(words).expect_err(words);
        assert!(said.contains(expected), "{words}: {said}");
    }
}

#[test]
fn both_ends_have_the_modes_that_are_named() {
    use LabSetup::{BothEnds, Fused, Library, Split};
    for (words, modes) in [
        ("rtt", &[Split, Fused][..]),
        ("rtt --quick", &[Split]),
        ("rtt --only both-ends", &[Split, Fused]),
        ("rtt --quick --only both-ends,linux", &[Split, Fused]),
        ("throughput --only library,both-ends", &[Library]),
        ("throughput --only split,fused", &[]),
    ] {
        assert_eq!(parsed(words).unwrap().modes_at_both_ends(BothEnds), modes, "{words}");
    }
}

#[test]
fn commands_of_figures_keep_what_their_experiment_has() {
    use ExperimentName::{Calls, Rtt, Scale, Stages};
    for (words, of, kept) in [
        ("rtt", Rtt, ""),
        ("rtt --quick", Rtt, " --quick"),
        ("stages --only fused", Stages, " --only fused"),
        ("rtt --quick --only linux,wire", Rtt, " --quick --only linux,wire"),
        // Set-ups of others are left out, and so is a choice that the experiment does not have.
        ("rtt scale --only library,linux", Scale, " --only linux"),
        ("--quick --only split", Calls, " --quick"),
    ] {
        assert_eq!(parsed(words).unwrap().kept_words(of), kept, "{words}");
    }
}

#[test]
fn what_a_user_without_rights_cannot_measure_is_said() {
    use ExperimentName::{Calls, Rtt, Stages, Throughput};
    for (words, of, expected) in [
        ("stages", Stages, Some("stages makes network namespaces: run it as root")),
        ("rtt --length 4 --load sender=1 --only split,both-ends", Rtt, None),
        ("rtt --power 50", Rtt, Some("--power of rtt is for root")),
        ("rtt --gateways 0", Rtt, Some("--gateways of rtt is for root")),
        ("rtt --only both-ends,wire", Rtt, Some("rtt makes namespaces for these set-ups")),
        ("rtt throughput --peers x", Throughput, Some("--peers of throughput is for root")),
        ("calls rtt --gateways 1 --frames", Calls, None),
    ] {
        let said = parsed(words).unwrap().of_root(of);
        let is_it = match expected {
            Some(expected) => said.as_ref().is_some_and(|it| it.starts_with(expected)),
            None => said.is_none(),
        };
        assert!(is_it, "{words}: {said:?}");
    }
}

#[test]
fn without_names_experiments_without_the_set_up_are_left_out() {
    let chosen = |words| parsed(words).unwrap().chosen();
    assert_eq!(chosen("--only split"), ExperimentName::EACH);
    let without_library = chosen("--only library");
    assert!(!without_library.contains(&ExperimentName::Scale), "{without_library:?}");
    assert!(without_library.contains(&ExperimentName::Calls), "{without_library:?}");
    assert!(parsed("scale --only library").is_err());
}

#[test]
fn a_whole_run_takes_half_an_hour_and_a_quick_one_three_minutes() {
    let minutes = |words| parsed(words).unwrap().whole_time().as_secs_f64() / 60.0;
    assert_eq!((minutes(""), minutes("--quick")), (30.0, 3.0));
    assert_eq!((minutes("all"), minutes("rtt --time 2m")), (30.0, 2.0));
    assert!(minutes("rtt handover") < 15.0);
    assert_eq!(
        parsed("storage rtt").unwrap().chosen(),
        [ExperimentName::Rtt, ExperimentName::Storage]
    );
}

#[test]
fn shares_use_up_the_time() {
    let mut left = Duration::from_secs(1800);
    let mut later = &ExperimentName::EACH[..];
    while let [one, rest @ ..] = later {
        let own = left.mul_f64(LabOptions::share(*one, rest));
        assert!(own.abs_diff(one.time(false)) < Duration::from_millis(1), "{one:?} {own:?}");
        (left, later) = (left - own, rest);
    }
    assert!(left < Duration::from_millis(1), "{left:?}");
}
