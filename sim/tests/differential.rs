//! The kernel's TCP and ours, side by side: see `tasuki_sim::differential`.

use std::io::Write as _;
use std::process::{Child, Command, Stdio};

/// Seeds; `TASUKI_DIFFERENTIAL` sets another number.
fn seeds() -> u64 {
    let asked = std::env::var("TASUKI_DIFFERENTIAL").ok();
    asked.map_or(40, |text| text.parse().expect("TASUKI_DIFFERENTIAL is a number"))
}

/// Worlds at a time: they wait most of the time.
const AT_ONCE: u64 = 8;

#[test]
fn the_kernel_and_our_core_come_to_the_same_end() {
    let start = |first: u64, count: u64| -> Child {
        Command::new(env!("CARGO_BIN_EXE_tasuki-differential"))
            .args([first.to_string(), count.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the differential command runs")
    };
    let share = seeds().div_ceil(AT_ONCE);
    let runs: Vec<Child> = (0..AT_ONCE).map(|number| start(number * share, share)).collect();
    let mut failures = String::new();
    for run in runs {
        let output = run.wait_with_output().expect("it ends");
        if output.status.code() == Some(77) {
            // The macros' output would be captured by the test runner.
            let line = b"SKIP: differential: needs root (network namespaces and TAP devices)\n";
            let _ = std::io::stderr().write_all(line);
            return;
        }
        if !output.status.success() {
            failures += &String::from_utf8_lossy(&output.stdout);
            failures += &String::from_utf8_lossy(&output.stderr);
        }
    }
    assert!(failures.is_empty(), "{failures}");
}
