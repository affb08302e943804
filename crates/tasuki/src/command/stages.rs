//! `tasuki stages`: where the time of sends goes, from the program to the device, and of receives.
//!
//! While it runs, programs, inet server and drivers mark the time at which each stage begins; at
//! all other times a mark is a load and a branch.

use std::time::Duration;

use abi::control::{ClientReply, ClientRequest};
use abi::stages::{StageReport, StageTime};
use signal_hook::consts::{SIGINT, SIGTERM};

use super::{print, print_json, table};
use crate::cli::StagesArgs;
use crate::exit::{self, Failure};
use crate::operator::Operator;

/// Traces for a while and shows the result.
///
/// # Errors
/// When the instance does not run, or ends meanwhile.
pub(crate) fn stages(args: &StagesArgs) -> Result<u8, Failure> {
    let mut operator = Operator::connect_or_guess(args.name.as_ref())?;
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])
        .map_err(|error| Failure::system("watch for signals", error))?;
    trace(&mut operator, true, 0)?;
    // Where Ctrl-C ends it sooner, the table is shown all the same.
    let (handle, seconds) = (signals.handle(), args.seconds);
    exit::say(format_args!("watching {} for {} s", operator.name(), seconds.as_secs_f64()));
    std::thread::spawn(move || {
        std::thread::sleep(seconds);
        handle.close();
    });
    let _ = signals.forever().next();
    let report = trace(&mut operator, false, args.marks as usize)?;
    if args.json {
        print_json(&report)?;
    } else {
        print(&text(&report, args.receive))?;
    }
    Ok(0)
}

fn trace(operator: &mut Operator, on: bool, marks: usize) -> Result<StageReport, Failure> {
    match operator.ask(&ClientRequest::Trace { on, marks })? {
        (ClientReply::Stages(report), _) => Ok(report),
        (other, _) => Err(operator.unexpected(&other)),
    }
}

fn micros(nanos: u64) -> String {
    format!("{:.2}", Duration::from_nanos(nanos).as_secs_f64() * 1e6)
}

fn text(report: &StageReport, receives: bool) -> String {
    let (what, seen, stages) = match receives {
        false => ("SEND", report.sends, &report.stages),
        true => ("RECEIVE", report.receives, &report.receive_stages),
    };
    let head = ["STAGE", "PROCESS", &format!("TIMES/{what}"), "MEDIAN US", "MEAN US"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for row in stages {
        let StageTime { stage, process, seen, times, median_ns, mean_ns } = row;
        let each = *times as f64 / (*seen).max(1) as f64;
        let mut cells = vec![stage.clone(), process.clone(), format!("{each:.1}")];
        cells.extend([micros(*median_ns), micros(*mean_ns)]);
        rows.push(cells);
    }
    let what = what.to_lowercase();
    let mut text = format!("{seen} {what}s\n");
    if report.missed > 0 {
        text = format!("{seen} {what}s; {} marks found no room\n", report.missed);
    }
    text + &table(&rows, &[false, false, true, true, true])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table() {
        let row = |stage: &str, times, median_ns| StageTime {
            stage: stage.to_owned(),
            process: "inet".to_owned(),
            seen: 2,
            times,
            median_ns,
            mean_ns: 1234,
        };
        let stages = vec![row("TCP layer", 90, 12_340), row("IP layer", 2, 40)];
        let (receives, receive_stages) = (1, vec![row("I/O from NIC", 6, 500)]);
        let marks = vec![(1, abi::stages::TraceStage::Send)];
        let report = StageReport { sends: 2, missed: 0, stages, receives, receive_stages, marks };
        let expected = "\
2 sends
STAGE      PROCESS  TIMES/SEND  MEDIAN US  MEAN US
TCP layer  inet           45.0      12.34     1.23
IP layer   inet            1.0       0.04     1.23
";
        assert_eq!(text(&report, false), expected);
        let expected = "\
1 receives
STAGE         PROCESS  TIMES/RECEIVE  MEDIAN US  MEAN US
I/O from NIC  inet               3.0       0.50     1.23
";
        assert_eq!(text(&report, true), expected);
        let missed = StageReport { missed: 3, ..report.clone() };
        assert!(text(&missed, false).contains("3 marks found no room"));
        crate::command::tests::every_key_is_documented(&report);
    }
}
