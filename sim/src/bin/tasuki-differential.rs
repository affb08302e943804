//! Compares the kernel's TCP with Tasuki's, seed by seed; see `tasuki_sim::differential`.
//!
//! Each seed needs a network namespace of its own, so the command runs itself once more for each:
//! `unshare --net sh -c 'ip link set lo up; tasuki-differential --inside SEED'`.

#![forbid(unsafe_code)]

use std::process::{Command, ExitCode, Output};

use tasuki_sim::differential;

const USAGE: &str = "\
Compares the kernel's TCP with ours (root, or user namespaces and access to /dev/net/tun).

usage: tasuki-differential SEED [COUNT]
  SEED, COUNT     the first seed, and how many one after the other (default 1)";

/// The exit code of a run that lacks the rights for it.
const NO_RIGHTS: u8 = 77;

fn inside(seed: u64) -> ExitCode {
    let verbose = std::env::var_os("TASUKI_SIM_VERBOSE").is_some();
    match differential::compare(seed, verbose) {
        Ok([active, passive]) => {
            println!("seed {seed}: {:?}: {active}; {passive}", differential::draw(seed).0);
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs this very program in a new network namespace.
fn in_namespace(arguments: &[&str]) -> std::io::Result<Output> {
    let program = std::env::current_exe()?;
    let mut unshare = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        unshare.args(["--user", "--map-root-user"]);
    }
    // Over its loopback interface the kernel notifies itself of hosts that do not answer.
    let script = "ip link set lo up && exec \"$@\"";
    unshare.args(["--net", "sh", "-c", script, "sh"]).arg(program).args(arguments).output()
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let numbers: Vec<u64> = words.iter().filter_map(|word| word.parse().ok()).collect();
    let (first, count) = match (&words[..], &numbers[..]) {
        (["--inside", _], [seed]) => return inside(*seed),
        (["--rights"], []) => return ExitCode::SUCCESS,
        ([_], [seed]) => (*seed, 1),
        ([_, _], [seed, count]) => (*seed, *count),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    let tun = std::fs::OpenOptions::new().read(true).write(true).open("/dev/net/tun");
    let may = in_namespace(&["--rights"]).is_ok_and(|output| output.status.success());
    if tun.is_err() || !may {
        eprintln!("no right to make network namespaces and TAP devices");
        return ExitCode::from(NO_RIGHTS);
    }
    let mut failed = 0;
    for seed in first..first.saturating_add(count) {
        match in_namespace(&["--inside", &seed.to_string()]) {
            Ok(output) => {
                failed += u64::from(!output.status.success());
                print!("{}", String::from_utf8_lossy(&output.stdout));
                eprint!("{}", String::from_utf8_lossy(&output.stderr));
            }
            Err(error) => {
                failed += 1;
                println!("seed {seed}: {error}");
            }
        }
    }
    println!("{} seeds agree, {failed} do not", count - failed);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
