//! Plays every script below `scripts/`, each as a test of its own.
//!
//! `cargo test -p tasuki-packetdrill --test scripts -- WORD` plays those with WORD in their name.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs, io, panic};

use packetdrill::Script;

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
    let words: Vec<String> = env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let mut scripts = Vec::new();
    if let Err(error) = find(&root, &mut scripts) {
        eprintln!("{}: {error}", root.display());
        return ExitCode::FAILURE;
    }
    scripts.sort();
    let mut failures = Vec::new();
    let (mut passed, mut left_out) = (0, 0);
    println!("\nrunning {} scripts", scripts.len());
    for path in &scripts {
        let name = path.strip_prefix(&root).unwrap_or(path).display().to_string();
        if !words.is_empty() && !words.iter().any(|word| name.contains(&word[..])) {
            left_out += 1;
            continue;
        }
        match play(path) {
            Ok(()) => {
                passed += 1;
                println!("test {name} ... ok");
            }
            Err(message) => {
                println!("test {name} ... FAILED");
                failures.push(format!("{}:{message}", path.display()));
            }
        }
    }
    for failure in &failures {
        println!("\n{failure}");
    }
    let word = if failures.is_empty() { "ok" } else { "FAILED" };
    let failed = failures.len();
    println!(
        "\ntest result: {word}. {passed} passed; {failed} failed; 0 ignored; 0 measured; \
         {left_out} filtered out"
    );
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn find(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            find(&path, found)?;
        } else if path.extension().is_some_and(|end| end == "pkt") {
            found.push(path);
        }
    }
    Ok(())
}

/// The line and the error there.
fn play(path: &Path) -> Result<(), String> {
    let text = fs::read_to_string(path).map_err(|error| format!(" {error}"))?;
    let script = Script::parse(&text).map_err(|fault| fault.to_string())?;
    let outcome = panic::catch_unwind(panic::AssertUnwindSafe(|| script.run()));
    outcome.map_err(|_| "1: a panic".to_owned())?.map_err(|fault| fault.to_string())
}
