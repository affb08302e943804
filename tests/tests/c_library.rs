//! The C library's calls, in the ways in which programs make them.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use tasuki_tests::{Mode, Running, World, program, skip, tasuki_binary};

/// Compiles a program of `tests/programs`, with `more` options.
fn compile(world: &World, source: &str, more: &[&str]) -> String {
    let executable = world.file("program");
    let mut gcc = Command::new("gcc");
    gcc.args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o", &executable]);
    let compiled = gcc.args(more).arg(program(source)).output().expect("gcc runs");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    executable
}

/// The program's expectations hold on the kernel's stack and on ours.
fn agrees(source: &str) {
    let Some(world) = World::new() else { return };
    let executable = compile(&world, source, &[]);
    let kernel = Running::start(world.command(&[&executable])).finish().success();
    assert!(kernel.stdout.ends_with("all\n"), "{kernel}");
    for mode in [Mode::Split, Mode::Fused] {
        let said = Running::start(world.on_stack(mode, &[&executable])).finish().success();
        assert!(said.stdout.ends_with("all\n"), "{said}");
    }
    world.assert_nothing_left();
}

#[test]
fn threads_with_the_smallest_stack_use_sockets() {
    agrees("small_stack.c");
}

#[test]
fn asynchronous_requests_on_sockets() {
    agrees("aio.c");
}

#[test]
fn functions_that_use_a_descriptor_within() {
    agrees("inside.c");
}

#[test]
fn pointers_to_no_memory_are_refused() {
    agrees("bad_memory.c");
}

/// Builds with a sanitizer of gcc. `None`, loudly, where gcc has no library for it.
fn sanitized(world: &World, sanitizer: &str) -> Option<String> {
    let executable = world.file(sanitizer);
    let mut gcc = Command::new("gcc");
    gcc.args(["-std=gnu11", "-g", "-O1", "-pthread", &format!("-fsanitize={sanitizer}")]);
    let built = gcc.args(["-o", &executable]).arg(program("sanitized.c")).output();
    let built = built.expect("gcc runs");
    if built.status.success() {
        return Some(executable);
    }
    skip(&format!("gcc builds no programs with -fsanitize={sanitizer}"));
    None
}

#[test]
fn sanitizers_find_the_programs_faults_and_no_others() {
    let Some(world) = World::new() else { return };
    for sanitizer in ["address", "thread", "undefined"] {
        let Some(executable) = sanitized(&world, sanitizer) else { continue };
        let said = Running::start(world.on_stack(Mode::Split, &[&executable])).finish().success();
        assert_eq!((&*said.stdout, &*said.stderr), ("all\n", ""), "{said}");
        if sanitizer == "address" {
            let words = [&executable, "11"];
            let said = Running::start(world.on_stack(Mode::Split, &words)).finish();
            assert!(!said.status.success(), "{said}");
            assert!(said.stderr.contains("heap-buffer-overflow"), "{said}");
        }
    }
    world.assert_nothing_left();
}

/// A function that a library has: its name, and the version that programs link with.
type Function = (String, Option<String>);

/// The functions of a library that new programs can link with. `None` without readelf.
fn functions(library: &str) -> Option<Vec<Function>> {
    let table = Command::new("readelf").args(["-W", "--dyn-syms", library]).output().ok()?;
    assert!(table.status.success(), "{library}: {}", String::from_utf8_lossy(&table.stderr));
    let text = String::from_utf8_lossy(&table.stdout).into_owned();
    let function = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, _, _, "FUNC" | "IFUNC", _, _, section, symbol, ..] = words[..] else {
            return None;
        };
        match symbol.split_once("@@") {
            // For the C library's own parts.
            Some((_, "GLIBC_PRIVATE")) => None,
            Some((name, version)) => Some((name.to_owned(), Some(version.to_owned()))),
            None if section == "UND" || symbol.contains('@') => None,
            None => Some((symbol.to_owned(), None)),
        }
    };
    Some(text.lines().filter_map(function).collect())
}

/// Verdicts by name: lines of `[VERDICT] reason`, and names behind each.
fn verdicts() -> BTreeMap<&'static str, &'static str> {
    let (mut all, mut verdict) = (BTreeMap::new(), "");
    for line in include_str!("../../crates/preload/calls.txt").lines() {
        if line.starts_with('#') {
            continue;
        }
        match line.strip_prefix('[').and_then(|line| line.split_once(']')) {
            Some((named, _)) => verdict = named,
            None => line.split_whitespace().for_each(|name| {
                let before = all.insert(name, verdict);
                assert!(before.is_none(), "{name} has two verdicts");
            }),
        }
    }
    all
}

/// Is it a version of the C library after the one that the list was made for?
fn is_newer(version: Option<&String>) -> bool {
    let number = version.and_then(|version| version.strip_prefix("GLIBC_2."));
    number.and_then(|number| number.parse::<u32>().ok()).is_some_and(|number| number > 36)
}

/// A descriptor can come to each function of the C library, and a library that stands before it
/// misses the calls that it does not know. A newer C library's new functions are told, and are no
/// failure.
#[test]
fn every_function_of_the_c_library_has_a_verdict() {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("this process's memory");
    let library = maps.split_whitespace().find(|path| path.ends_with("/libc.so.6"));
    let Some(library) = library else { return skip("there is no libc.so.6 in this program") };
    let Some(theirs) = functions(library) else { return skip("readelf is not installed") };
    let verdicts = verdicts();
    let unknown = theirs.iter().filter(|(name, _)| !verdicts.contains_key(&**name));
    let (newer, missing): (Vec<_>, Vec<_>) =
        unknown.partition(|(_, version)| is_newer(version.as_ref()));
    if !newer.is_empty() {
        println!("NEW in this C library, without a verdict: {newer:?}");
    }
    if cfg!(target_arch = "x86_64") {
        assert!(missing.is_empty(), "no verdict in crates/preload/calls.txt: {missing:?}");
    }
    let shim = tasuki_binary().with_file_name("libtasuki_preload.so");
    let ours = functions(shim.to_str().expect("a plain path")).expect("as before");
    let ours: BTreeSet<&str> = ours.iter().map(|(name, _)| &**name).collect();
    let replaced = verdicts.iter().filter(|(_, verdict)| **verdict == "replaced");
    let replaced: BTreeSet<&str> = replaced.map(|(name, _)| *name).collect();
    assert_eq!(ours, replaced, "what the preloaded library exports, and the list");
}
