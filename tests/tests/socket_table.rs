//! The same socket calls on the kernel's stack and on Tasuki's, row by row.
//!
//! `programs/socket_table` runs thousands of calls: each call with each argument on a socket in
//! each state. It prints a row for each. The rows of the two stacks are to be the same, but for
//! those that `programs/socket_table/differences-WAY.txt` lists with a reason, for each way in.
//!
//! A difference that is not listed fails the test, and so does a listed one that is gone. After a
//! change that removes or adds differences run it with `TASUKI_SOCKET_TABLE=update`: that writes
//! the new counts. Differences that no line lists are printed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use tasuki_tests::{Mode, PATIENCE, Running, World, program};

/// A line of the list: so many rows that match the pattern differ.
struct Expected {
    count: usize,
    /// `*` stands for anything.
    pattern: String,
}

/// The list: its lines, in which the expectations are numbered.
struct Differences {
    expected: Vec<Expected>,
    text: String,
}

impl Differences {
    fn read(path: &str) -> Self {
        let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let expected = text.lines().filter_map(expectation).collect();
        Self { expected, text }
    }

    /// How many of the differing rows each line lists, and those that none does.
    fn judge(&self, differing: &BTreeMap<String, String>) -> (Vec<usize>, String) {
        let mut counts = vec![0; self.expected.len()];
        let mut unlisted = String::new();
        for (name, outcomes) in differing {
            match self.expected.iter().position(|expected| matches(&expected.pattern, name)) {
                Some(at) => counts[at] += 1,
                None => write!(unlisted, "{name}\n{outcomes}").expect("a string takes all"),
            }
        }
        (counts, unlisted)
    }

    /// The list with these counts instead; lines that match nothing are left out.
    fn with_counts(&self, counts: &[usize]) -> String {
        let mut counts = counts.iter();
        let mut new = String::new();
        for line in self.text.lines() {
            match expectation(line) {
                None => writeln!(new, "{line}").expect("a string takes all"),
                Some(Expected { pattern, .. }) => match counts.next() {
                    Some(0) | None => {}
                    Some(count) => {
                        writeln!(new, "{count:>5} {pattern}").expect("a string takes all");
                    }
                },
            }
        }
        new
    }
}

/// `COUNT PATTERN`; all other lines are headings, reasons and space.
fn expectation(line: &str) -> Option<Expected> {
    let (count, pattern) = line.trim_start().split_once(' ')?;
    Some(Expected { count: count.parse().ok()?, pattern: pattern.to_owned() })
}

fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else {
        return false;
    };
    let mut last = None;
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
        last = Some(part);
    }
    rest.is_empty() || last.is_some_and(|last| last.is_empty() || name.ends_with(last))
}

/// Name and outcome of each row.
fn rows(output: &str) -> BTreeMap<&str, &str> {
    output.lines().filter_map(|line| line.split_once(": ")).collect()
}

fn build(world: &World) -> String {
    let executable = world.file("socket_table");
    let mut gcc = Command::new("gcc");
    gcc.args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror"]);
    // The table passes null pointers on purpose.
    gcc.args(["-Wno-nonnull", "-Wno-stringop-overflow", "-o", &executable]);
    for part in [
        "main",
        "states",
        "receiving",
        "sending",
        "names",
        "options",
        "files",
        "waiting",
        "processes",
    ] {
        gcc.arg(program(&format!("socket_table/{part}.c")));
    }
    let compiled = gcc.output().expect("gcc runs");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    executable
}

/// The rows that differ, with both outcomes.
fn differences(world: &World, executable: &str, way: &Way) -> BTreeMap<String, String> {
    let rows_of = |mut command: Command| {
        command.envs(way.without.map(|state| ("WITHOUT_STATE", state)));
        // By the relay each of the many thousand calls wakes several processes.
        Running::start(command).finish_within(4 * PATIENCE).success()
    };
    let kernel = rows_of(world.command(&[executable]));
    let tasuki = rows_of(world.on_stack_with(Mode::given(), way.options, &[executable]));
    let (theirs, ours) = (rows(&kernel.stdout), rows(&tasuki.stdout));
    assert!(theirs.len() > 500, "only {} rows", theirs.len());
    assert!(theirs.keys().eq(ours.keys()), "the rows are not the same");
    let both = theirs.iter().zip(ours.values());
    let different = both.filter(|((_, kernel), tasuki)| kernel != tasuki);
    let outcomes = |((name, kernel), tasuki): ((&&str, &&str), &&str)| {
        ((*name).to_owned(), format!("    kernel: {kernel}\n    tasuki: {tasuki}\n"))
    };
    different.map(outcomes).collect()
}

/// A way in.
struct Way {
    name: &'static str,
    /// Options of `tasuki run`.
    options: &'static [&'static str],
    /// States whose names begin with this are not there; the list says why.
    without: Option<&'static str>,
}

/// Compares the rows of the kernel with those of a program that comes in that way.
fn compare(way: &Way) {
    let Some(world) = World::with_kernel() else { return };
    let executable = build(&world);
    let path = program(&format!("socket_table/differences-{}.txt", way.name));
    let listed = Differences::read(&path);
    let seen = differences(&world, &executable, way);
    let (counts, unlisted) = listed.judge(&seen);
    if std::env::var("TASUKI_SOCKET_TABLE").is_ok_and(|value| value == "update") {
        std::fs::write(Path::new(&path), listed.with_counts(&counts)).expect("it can be written");
    } else {
        for (expected, count) in listed.expected.iter().zip(&counts) {
            let Expected { count: was, pattern } = expected;
            let rows: String = seen
                .iter()
                .filter(|(name, _)| was != count && matches(pattern, name))
                .map(|(name, outcomes)| format!("{name}\n{outcomes}"))
                .collect();
            assert_eq!(was, count, "{path}: rows that match {pattern:?} and differ:\n{rows}");
        }
    }
    assert!(unlisted.is_empty(), "differences that {path} does not list:\n{unlisted}");
}

#[test]
fn calls_through_the_preloaded_library_are_those_of_the_kernel() {
    compare(&Way { name: "preload", options: &[], without: None });
}

#[test]
fn calls_of_a_program_without_the_library_are_those_of_the_kernel() {
    let options = &["--intercept", "seccomp"];
    compare(&Way { name: "seccomp", options, without: Some("unreachable") });
}

#[test]
fn patterns_of_the_list() {
    assert!(matches("tcp4 new *", "tcp4 new recv(0)"));
    assert!(matches("*recv(0*", "tcp4 new recv(0)"));
    assert!(matches("*recv(0)", "tcp4 new recv(0)"));
    assert!(matches("tcp* recv(0)", "tcp4 recv(0) recv(0)"));
    assert!(!matches("tcp4 new", "tcp4 new recv(0)"));
    assert!(!matches("udp*", "tcp4 new recv(0)"));
}
