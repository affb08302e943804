//! The source tree: its root, its files, and the report of violations.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// The root of the tree to look at: this one, or the checkout that `TASUKI_TIDY_ROOT` names.
pub(crate) fn root() -> PathBuf {
    env::var_os("TASUKI_TIDY_ROOT").map_or_else(present_root, PathBuf::from)
}

/// The root of the tree that this test is part of.
pub(crate) fn present_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned()
}

/// Every file below `folder` with one of these endings, as path from the root; without what is
/// built.
pub(crate) fn files(folder: &str, endings: &[&str]) -> Vec<String> {
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

pub(crate) fn rust_files() -> Vec<String> {
    let mut all = Vec::new();
    for folder in ["crates", "sim", "tests", "benches", "examples", "fuzz"] {
        all.extend(files(folder, &[".rs"]));
    }
    assert!(all.len() > 50, "the source tree was not found: {all:?}");
    all
}

pub(crate) fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// Fails with all complaints at once.
pub(crate) fn complain(complaints: &[String]) {
    let mut text = String::new();
    for complaint in complaints {
        let _ = writeln!(text, "  {complaint}");
    }
    assert!(complaints.is_empty(), "{} complaints:\n{text}", complaints.len());
}
