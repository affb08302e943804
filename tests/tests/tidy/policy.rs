//! Policy: where `unsafe` is, no unfinished code, no dead file, the workspace's lints everywhere.

use std::fs;
use std::path::Path;

use crate::tree::{complain, files, read, root, rust_files};

/// Crates that may have `unsafe`; each module that has it says so itself.
const UNSAFE_CRATES: [&str; 11] = [
    "benches",
    "crates/c",
    "crates/luks",
    "crates/nbdkit",
    "crates/shm",
    "crates/preload",
    "crates/nic-driver",
    "crates/relay",
    "crates/sandbox",
    "crates/storage",
    "tests/packetdrill/plugin",
];

/// Tests that need an unsafe call, such as installing a signal handler.
const UNSAFE_TESTS: &[&str] = &["crates/sockets/tests/signals.rs"];

/// Words for postponed work, which no source file has. They are written in two parts, so that this
/// file has none either.
const UNFINISHED: [(&str, &str); 5] =
    [("todo", "!("), ("unimplemented", "!("), ("dbg", "!("), ("FIX", "ME"), ("XX", "X:")];

#[test]
fn nothing_is_left_to_be_done() {
    let mut complaints = Vec::new();
    for file in rust_files() {
        for (number, line) in read(&file).lines().enumerate() {
            for (a, b) in UNFINISHED {
                if line.contains(&format!("{a}{b}")) {
                    complaints.push(format!("{file}:{}: {a}{b}", number + 1));
                }
            }
        }
    }
    complain(&complaints);
}

/// A crate forbids unsafe code, or it is one of the few that may have it, each such module saying
/// so.
#[test]
fn unsafe_code_is_where_it_belongs() {
    let mut complaints = Vec::new();
    let roots = rust_files().into_iter().filter(|file| {
        ["src/lib.rs", "src/main.rs"].iter().any(|root| file.ends_with(root))
            && !file.starts_with("fuzz/")
    });
    for file in roots {
        let folder = file.rsplit_once("/src/").expect("a crate's root").0;
        let forbids = read(&file).contains("#![forbid(unsafe_code)]");
        let may = UNSAFE_CRATES.contains(&folder);
        if forbids == may {
            let what =
                if may { "is to have unsafe code and forbids it" } else { "does not forbid" };
            complaints.push(format!("{file} {what}: #![forbid(unsafe_code)]"));
        }
    }
    // In two parts, so that this file has no such attribute.
    let (allow, a, b) = (["allow(", "unsafe_code)"].concat(), "unsafe ", "{");
    for file in rust_files() {
        let text = read(&file);
        let may = UNSAFE_CRATES.iter().any(|folder| file.starts_with(folder))
            || UNSAFE_TESTS.contains(&&file[..]);
        if text.contains(&allow) && !may {
            complaints.push(format!("{file} allows itself unsafe code"));
        }
        let blocks = text.matches(&format!("{a}{b}")).count();
        if blocks > 0 && text.matches("SAFETY:").count() < blocks {
            complaints.push(format!("{file} has {blocks} unsafe blocks and fewer SAFETY comments"));
        }
    }
    complain(&complaints);
}

/// Every Rust file is a module of something, a test, a program or a crate's root.
#[test]
fn no_file_is_dead() {
    let mut complaints = Vec::new();
    for file in rust_files() {
        let path = Path::new(&file);
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let folder = path.parent().expect("a folder");
        let Some((krate, inner)) = file.split_once("/src/") else { continue };
        if ["lib.rs", "main.rs"].contains(&inner) || inner.starts_with("bin/") {
            continue;
        }
        // `x/mod.rs` is module x of the folder above; `x/y.rs` is module y of `x.rs` or `x/mod.rs`.
        let (module, home) = match &name[..] {
            "mod" => (folder.file_name(), folder.parent()),
            _ => (path.file_stem(), Some(folder)),
        };
        let module = module.unwrap_or_default().to_string_lossy().into_owned();
        let home = home.unwrap_or(folder).to_string_lossy().into_owned();
        let parents = [
            format!("{home}.rs"),
            format!("{home}/mod.rs"),
            format!("{krate}/src/lib.rs"),
            format!("{krate}/src/main.rs"),
        ];
        let declared = parents
            .iter()
            .filter(|parent| root().join(parent).exists())
            .any(|parent| read(parent).contains(&format!("mod {module};")));
        if !declared {
            complaints.push(format!("{file} is in no module"));
        }
    }
    for file in files("", &[""]) {
        if fs::metadata(root().join(&file)).is_ok_and(|found| found.len() == 0) {
            complaints.push(format!("{file} is empty"));
        }
    }
    complain(&complaints);
}

/// Every crate is a member of the workspace with its lints.
#[test]
fn every_crate_has_the_workspaces_lints() {
    let mut complaints = Vec::new();
    for file in files("", &["Cargo.toml"]) {
        if ["Cargo.toml", "fuzz/Cargo.toml"].contains(&&file[..]) {
            continue;
        }
        if !read(&file).contains("[lints]\nworkspace = true") {
            complaints.push(format!("{file} lacks `[lints] workspace = true`"));
        }
    }
    complain(&complaints);
}
