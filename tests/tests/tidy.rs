//! The source tree keeps its own rules: sizes, safety policy, no dead files, no hidden documents.
//!
//! The rules are STYLE as a test. Exceptions are listed by name in [`LONG_FILES`] and
//! [`LONG_FUNCTIONS`]; an exception that is no longer needed is an error too, so the lists only
//! shrink.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

const MOST_LINES: usize = 600;
const MOST_COLUMNS: usize = 100;
const MOST_FUNCTION_LINES: usize = 70;

/// Files that are longer than [`MOST_LINES`], with the number of lines they have at most.
const LONG_FILES: &[(&str, usize)] = &[];

/// Functions that are longer than [`MOST_FUNCTION_LINES`], as `file: function`.
const LONG_FUNCTIONS: &[&str] = &[];

/// Crates that may have `unsafe`; each module that has it says so itself.
const UNSAFE_CRATES: [&str; 6] = [
    "benches",
    "crates/c",
    "crates/shm",
    "crates/preload",
    "crates/nic-driver",
    "tests/packetdrill/plugin",
];

/// Tests that need an unsafe call, such as installing a signal handler.
const UNSAFE_TESTS: &[&str] = &["crates/sockets/tests/signals.rs"];

/// What no source file has: things that were to be done later. In two parts, so that this file has
/// none.
const UNFINISHED: [(&str, &str); 5] =
    [("todo", "!("), ("unimplemented", "!("), ("dbg", "!("), ("FIX", "ME"), ("XX", "X:")];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned()
}

/// Every file below `folder` with one of these endings, as path from the root; without what is
/// built.
fn files(folder: &str, endings: &[&str]) -> Vec<String> {
    fn walk(directory: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if path.is_dir() && name != "target" && !name.starts_with('.') {
                walk(&path, found);
            } else if path.is_file() {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(&root().join(folder), &mut found);
    let mut names: Vec<String> = found
        .iter()
        .filter(|path| endings.iter().any(|end| path.to_string_lossy().ends_with(end)))
        .map(|path| path.strip_prefix(root()).expect("below it").to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn rust_files() -> Vec<String> {
    let mut all = Vec::new();
    for folder in ["crates", "sim", "tests", "benches", "examples", "fuzz"] {
        all.extend(files(folder, &[".rs"]));
    }
    assert!(all.len() > 50, "the source tree was not found: {all:?}");
    all
}

fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// Fails with all complaints at once.
fn complain(complaints: &[String]) {
    let mut text = String::new();
    for complaint in complaints {
        let _ = writeln!(text, "  {complaint}");
    }
    assert!(complaints.is_empty(), "{} complaints:\n{text}", complaints.len());
}

#[test]
fn files_and_lines_are_short() {
    let mut complaints = Vec::new();
    for file in rust_files() {
        let text = read(&file);
        let lines = text.lines().count();
        let allowed = LONG_FILES.iter().find(|(name, _)| *name == file).map(|(_, most)| *most);
        match allowed {
            None if lines > MOST_LINES => {
                complaints.push(format!("{file} has {lines} lines, more than {MOST_LINES}"));
            }
            Some(most) if lines > most => {
                complaints
                    .push(format!("{file} has {lines} lines, more than its exception {most}"));
            }
            Some(_) if lines <= MOST_LINES => {
                complaints.push(format!("{file} needs its exception no longer: strike it"));
            }
            _ => {}
        }
        for (number, line) in text.lines().enumerate() {
            let columns = line.chars().count();
            if columns > MOST_COLUMNS {
                complaints.push(format!("{file}:{} has {columns} columns", number + 1));
            }
        }
    }
    for (file, _) in LONG_FILES {
        if !root().join(file).exists() {
            complaints.push(format!("{file} is an exception and does not exist: strike it"));
        }
    }
    complain(&complaints);
}

/// Name and number of lines of every function with a body; formatted code, so a body ends with the
/// first brace as far in as the function itself.
fn functions(text: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let indent = line.len() - code.len();
        let Some(at) = code.find("fn ").filter(|at| {
            code[..*at].split_whitespace().all(|word| {
                word.starts_with("pub")
                    || ["const", "async", "unsafe", "extern", "\"C\"", "in", "crate)", "super)"]
                        .contains(&word)
            })
        }) else {
            continue;
        };
        let name: String =
            code[at + 3..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let end = lines[start..].iter().position(|line| {
            let closes = line.len() == indent + 1 && line.ends_with('}');
            let is_declaration =
                line.ends_with(';') && line.len() - line.trim_start().len() <= indent;
            closes || is_declaration
        });
        if let Some(end) = end.filter(|_| !name.is_empty() && !code.ends_with('}')) {
            found.push((name, end + 1));
        }
    }
    found
}

#[test]
fn functions_are_found() {
    let text = "\
pub(crate) fn one(a: u8) -> u8 {
    a
}

trait T {
    fn declared(&self);
    unsafe extern \"C\" fn two(
        a: u8,
    ) {
        let fn_ = 1;
    }
    fn short() {}
}
// fn comment() {
";
    let found = functions(text);
    let found: Vec<(&str, usize)> = found.iter().map(|(name, lines)| (&name[..], *lines)).collect();
    assert_eq!(found, [("one", 3), ("declared", 1), ("two", 5)]);
}

#[test]
fn functions_fit_a_screen() {
    let mut complaints = Vec::new();
    let mut needed = Vec::new();
    for file in rust_files() {
        for (name, lines) in functions(&read(&file)) {
            if lines > MOST_FUNCTION_LINES {
                let place = format!("{file}: {name}");
                if !LONG_FUNCTIONS.contains(&&place[..]) {
                    complaints.push(format!("{place} has {lines} lines"));
                }
                needed.push(place);
            }
        }
    }
    for place in LONG_FUNCTIONS {
        if !needed.iter().any(|needed| needed == place) {
            complaints.push(format!("{place} needs its exception no longer: strike it"));
        }
    }
    complain(&complaints);
}

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

/// A reader who starts at README.md or ARCHITECTURE.md finds every page.
#[test]
fn every_document_can_be_found() {
    let start = ["README.md", "ARCHITECTURE.md"].map(read).concat();
    let mut complaints = Vec::new();
    for page in files("docs", &[".md"]) {
        if !start.contains(&page) {
            complaints.push(format!("{page} is linked neither from README.md nor ARCHITECTURE.md"));
        }
    }
    for file in ["CONTRIBUTING.md", "CHANGELOG.md"] {
        if !start.contains(file) {
            complaints.push(format!("{file} is linked neither from README.md nor ARCHITECTURE.md"));
        }
    }
    complain(&complaints);
}

/// Relative links lead somewhere.
#[test]
fn links_between_documents_hold() {
    let mut complaints = Vec::new();
    for page in files("", &[".md"]) {
        let text = read(&page);
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = link.split(['#', ' ']).next().unwrap_or_default();
            if target.is_empty() || target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let folder = root().join(&page);
            if !folder.parent().expect("a folder").join(target).exists() {
                complaints.push(format!("{page} links to {target}, which is not there"));
            }
        }
    }
    complain(&complaints);
}
