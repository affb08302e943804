//! Runs worlds by their seeds: one, in detail if wanted, or many until one fails.

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use tasuki_sim::{Kind, Scenario, World};

const USAGE: &str = "\
Runs seeded worlds around the real protocol core.

usage: tasuki-sim [--kind bare|whole|ipv6|esp] [--seed N] [--count N] [--verbose] [--pcap FILE]
       tasuki-sim --golden
  --kind bare     two TCP connections without a stack
  --kind whole    two stacks with Ethernet, ARP and IPv4 (default: all)
  --kind ipv6     the same with NDP and IPv6
  --kind esp      two stacks with IPv4 whose packets are protected by ESP
  --seed N        the (first) world's seed (default 0)
  --count N       so many worlds, one after the other (default 1)
  --verbose       print the world and every segment
  --pcap FILE     write what both ends see to a pcapng file (of the last world run)
  --golden        print the table of goodput that sim/golden.txt keeps

A world that fails is run once more, and what both ends saw is kept in the folder for temporary
files; the message names the file and the command that runs this world alone.";

struct Options {
    kinds: Vec<Kind>,
    seed: u64,
    count: u64,
    verbose: bool,
    pcap: Option<PathBuf>,
    golden: bool,
}

fn options() -> Result<Options, String> {
    let mut options = Options {
        kinds: Kind::ALL.to_vec(),
        seed: 0,
        count: 1,
        verbose: false,
        pcap: None,
        golden: false,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        let number = |text: String| text.parse().map_err(|_| format!("not a number: {text}"));
        match word.as_str() {
            "--kind" => {
                let name = value()?;
                let kind = Kind::ALL.into_iter().find(|kind| kind.name() == name);
                options.kinds = vec![kind.ok_or(format!("no such kind: {name}"))?];
            }
            "--seed" => options.seed = number(value()?)?,
            "--count" => options.count = number(value()?)?,
            "--verbose" => options.verbose = true,
            "--golden" => options.golden = true,
            "--pcap" => options.pcap = Some(value()?.into()),
            other => return Err(format!("unknown option: {other}")),
        }
    }
    Ok(options)
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    if options.golden {
        return match tasuki_sim::golden::table() {
            Ok(table) => {
                print!("{table}");
                ExitCode::SUCCESS
            }
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        };
    }
    let (mut failed, mut worlds, mut segments, mut repeated) = (0, 0, 0, 0);
    for seed in options.seed..options.seed.saturating_add(options.count) {
        for kind in &options.kinds {
            let scenario = Scenario::draw(seed, *kind);
            if options.verbose {
                println!("{scenario:#?}");
            }
            let result = match &options.pcap {
                Some(path) => {
                    let mut world = World::new(scenario, options.verbose);
                    world.record(path);
                    world.run()
                }
                None if options.verbose => World::new(scenario, true).run(),
                None => tasuki_sim::run(&scenario),
            };
            match result {
                Ok(report) => {
                    if options.count == 1 {
                        println!("{}: {report:?}", kind.name());
                    }
                    worlds += 1;
                    segments += report.segments.iter().sum::<u64>();
                    repeated += report.repeated.iter().sum::<u64>();
                }
                Err(error) => {
                    failed += 1;
                    eprintln!("{error}");
                }
            }
        }
    }
    println!(
        "{worlds} worlds passed, {failed} failed; {segments} segments, {repeated} repetitions"
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
