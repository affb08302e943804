//! `tasuki-bench loops` measures what the same loop costs in user mode and in the kernel, as the
//! fifth paper's appendix does.
//!
//! In user mode it is a loop of this program, as the compiler makes it. In the kernel it is a BPF
//! program, which the kernel runs for `BPF_PROG_TEST_RUN`. The number of steps comes with the call
//! in both, so neither compiler knows it. Both take turns batch by batch, on one processor, and
//! each result is compared with one that is computed in another way.
//!
//! The kernel's time has the cost of the call into the program, some tens of nanoseconds. So the
//! longest loops tell most.

mod kernel;
mod kind;
mod user;

use std::fs;
use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};

use self::kernel::LoopProgram;
pub(crate) use self::kind::LoopKind;
use crate::calls::pin;
use crate::median::median;

/// The time of one batch of loops, about.
const BATCH: Duration = Duration::from_micros(200);
/// Loops of a batch, at most.
const MOST_REPEATS: u32 = 10_000;
/// Whether the kernel translates BPF programs into the processor's instructions.
const TRANSLATES: &str = "/proc/sys/net/core/bpf_jit_enable";

/// What `loops` runs.
#[derive(Args)]
pub(crate) struct LoopsArgs {
    /// Steps of a loop.
    #[arg(long, value_delimiter = ',', default_values_t = [64, 256, 1024, 4096],
        value_parser = clap::value_parser!(u32).range(1..=4096))]
    steps: Vec<u32>,
    /// Milliseconds of each loop, half in user mode and half in the kernel.
    #[arg(long, default_value_t = 40)]
    millis: u64,
    /// The processor.
    #[arg(long, default_value_t = 0)]
    processor: usize,
    /// Figures as JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// One loop, nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct LoopFigure {
    pub(crate) kind: LoopKind,
    pub(crate) steps: u32,
    pub(crate) user_ns: f64,
    /// `None`: the kernel cannot be measured here.
    pub(crate) kernel_ns: Option<f64>,
}

/// All of them.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct LoopReport {
    pub(crate) figures: Vec<LoopFigure>,
    /// Why the kernel cannot be measured, a sentence.
    pub(crate) missing: Option<String>,
    /// Does the kernel translate BPF programs, or interpret them? `None`: it does not tell.
    pub(crate) translates: Option<bool>,
}

/// Measure and print.
pub(crate) fn run(args: &LoopsArgs) -> Result<()> {
    pin(args.processor)?;
    let time = Duration::from_millis(args.millis);
    let most = args.steps.iter().copied().max().context("steps")?;
    let (mut figures, mut missing) = (Vec::new(), None);
    for kind in LoopKind::ALL {
        let program = match LoopProgram::load(kind, most) {
            Ok(program) => Some(program),
            Err(error) => {
                missing = Some(error.to_string());
                None
            }
        };
        for &steps in &args.steps {
            figures.push(measure(kind, steps, program.as_ref(), time)?);
        }
    }
    let translates = fs::read_to_string(TRANSLATES).ok().map(|word| word.trim() != "0");
    let report = LoopReport { figures, missing, translates };
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{}", table(&report));
    }
    Ok(())
}

/// Both take turns.
fn measure(
    kind: LoopKind,
    steps: u32,
    program: Option<&LoopProgram>,
    time: Duration,
) -> Result<LoopFigure> {
    let expected = kind.expected(steps);
    let check = |place: &str, result: u32| {
        let name = kind.name();
        let sentence = format!("{name}, {steps} steps, {place}: {result} instead of {expected}");
        ensure!(result == expected, sentence);
        Ok(())
    };
    // Once for nothing, and to know how long it takes.
    let began = Instant::now();
    check("user mode", user::looped(kind, steps))?;
    let one = began.elapsed().max(Duration::from_nanos(1));
    let repeats = (BATCH.as_nanos() / one.as_nanos()).clamp(1, MOST_REPEATS.into()) as u32;
    let (mut user, mut kernel) = (Vec::new(), Vec::new());
    let began = Instant::now();
    while user.is_empty() || began.elapsed() < time {
        let batch = Instant::now();
        for _ in 1..repeats {
            black_box(user::looped(kind, steps));
        }
        let result = user::looped(kind, steps);
        user.push(batch.elapsed().as_secs_f64() * 1e9 / f64::from(repeats));
        check("user mode", result)?;
        if let Some(program) = program {
            let run = program.run(steps, repeats).context("running a BPF program")?;
            check("kernel", run.result)?;
            kernel.push(f64::from(run.nanos));
        }
    }
    let user_ns = median(user).context("batches in user mode")?;
    Ok(LoopFigure { kind, steps, user_ns, kernel_ns: median(kernel) })
}

/// As Markdown.
fn table(report: &LoopReport) -> String {
    let mut text =
        "| loop | steps | user mode, ns | kernel, ns | kernel to user mode |\n".to_owned();
    text += "|---|---:|---:|---:|---:|\n";
    for LoopFigure { kind, steps, user_ns, kernel_ns } in &report.figures {
        let kernel = kernel_ns.map_or("-".to_owned(), |nanos| format!("{nanos:.0}"));
        let ratio = kernel_ns.map_or("-".to_owned(), |nanos| format!("{:.2}", nanos / user_ns));
        text += &format!("| {} | {steps} | {user_ns:.0} | {kernel} | {ratio} |\n", kind.name());
    }
    match report.translates {
        _ if report.missing.is_some() => {}
        Some(true) => text += "\nThe kernel translates BPF programs (JIT).\n",
        Some(false) => text += "\nThe kernel interprets BPF programs.\n",
        None => {}
    }
    text + &report.missing.as_ref().map_or(String::new(), |why| format!("\n{why}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_compute_what_they_should() {
        for kind in LoopKind::ALL {
            for steps in [0, 1, 2, 3, 10, 1000, 4096] {
                assert_eq!(user::looped(kind, steps), kind.expected(steps), "{kind:?} {steps}");
            }
        }
    }

    #[test]
    fn the_kernel_computes_the_same_or_says_why_it_does_not() {
        for kind in LoopKind::ALL {
            match LoopProgram::load(kind, 1000) {
                Ok(program) => {
                    for steps in [0, 1, 17, 1000] {
                        let run = program.run(steps, 2).expect("a run");
                        assert_eq!(run.result, kind.expected(steps), "{kind:?} {steps}");
                    }
                }
                Err(error) => assert!(error.to_string().starts_with("The kernel's"), "{error}"),
            }
            let figure = measure(kind, 100, None, Duration::from_millis(1)).expect("a figure");
            assert!(figure.user_ns > 0.0 && figure.kernel_ns.is_none(), "{figure:?}");
        }
    }

    #[test]
    fn a_table_says_what_is_missing() {
        let figure =
            LoopFigure { kind: LoopKind::Modulo, steps: 64, user_ns: 80.0, kernel_ns: None };
        let both = LoopFigure { kernel_ns: Some(120.0), ..figure.clone() };
        let report = LoopReport {
            figures: vec![figure],
            missing: Some("No rights.".to_owned()),
            translates: Some(true),
        };
        let said = table(&report);
        assert!(said.contains("| modulo | 64 | 80 | - | - |"), "{said}");
        assert!(said.ends_with("\nNo rights.\n") && !said.contains("JIT"), "{said}");
        let said =
            table(&LoopReport { figures: vec![both], missing: None, translates: Some(true) });
        assert!(said.contains("| 80 | 120 | 1.50 |") && said.contains("JIT"), "{said}");
    }
}
