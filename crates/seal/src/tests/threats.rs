//! The page of threats names tests that are there.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Where a module's tests are: those of this crate, and those with real processes.
fn file_of(module: &str) -> PathBuf {
    let folder = match module {
        "opener" => "src",
        "storage_secure" => "../../tests/tests",
        _ => "src/tests",
    };
    Path::new(env!("CARGO_MANIFEST_DIR")).join(folder).join(format!("{module}.rs"))
}

/// Each row of the tables of attacks ends in the name of a test, `module::function`.
#[test]
fn each_attack_of_the_page_has_its_test() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/design/sealed-threats.md");
    let page = std::fs::read_to_string(page).expect("the page of threats");
    let attacks = page.split("## Attacks").skip(1).flat_map(str::lines);
    let rows = attacks.filter(|line| line.starts_with("| ") && !line.starts_with("| attack "));
    let mut named = BTreeSet::new();
    for row in rows {
        let name = row.rsplit('`').nth(1).expect("a code span");
        let (module, function) = name.split_once("::").unwrap_or_else(|| panic!("{row}"));
        let file = file_of(module);
        let source = std::fs::read_to_string(&file).unwrap_or_else(|_| panic!("{row}"));
        let found = source
            .split("fn ")
            .any(|rest| rest.split('(').next().is_some_and(|defined| defined.trim() == function));
        assert!(found, "{} has no {function}", file.display());
        assert!(named.insert(name.to_owned()), "{name} twice");
    }
    // The issue asks for at least 24.
    assert!(named.len() >= 40, "{} attacks", named.len());
    // Nor is a test of the files of attacks forgotten.
    for module in ["records", "middle_man", "credentials", "storage_secure"] {
        let source = std::fs::read_to_string(file_of(module)).expect("a file of attacks");
        for rest in source.split("#[test]\nfn ").skip(1) {
            let function = rest.split('(').next().unwrap_or_default();
            let name = format!("{module}::{function}");
            let other = OTHER.contains(&&name[..]);
            assert!(named.contains(&name) != other, "{name} is not in the page");
        }
    }
}

/// Tests that are no attacks.
const OTHER: [&str; 6] = [
    "records::no_more_is_received_than_there_was_space_for",
    "records::an_alert_may_come_first",
    "records::a_body_of_another_length_is_refused",
    "credentials::the_time_is_told",
    "credentials::no_authority_is_no_trust",
    "storage_secure::a_session_shows_who_it_is_with_and_changes_its_keys",
];
