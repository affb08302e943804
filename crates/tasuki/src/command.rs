//! The commands, one module each.

pub(crate) mod background;
pub(crate) mod capture;
pub(crate) mod check;
pub(crate) mod completion;
pub(crate) mod disk;
pub(crate) mod down;
pub(crate) mod key;
pub(crate) mod lab;
pub(crate) mod manual;
pub(crate) mod network;
pub(crate) mod ps;
pub(crate) mod relay;
pub(crate) mod run;
pub(crate) mod server;
pub(crate) mod ss;
pub(crate) mod stages;
pub(crate) mod stats;
pub(crate) mod target;
pub(crate) mod up;
pub(crate) mod web;
pub(crate) mod xfrm;

use std::io::{self, Write};

use crate::exit::Failure;

/// Writes to standard output. A reader that has had enough (`| head`) is no failure.
fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::output("standard output", error))
        }
        _ => Ok(()),
    }
}

/// Writes a value to standard output as JSON.
fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let mut text = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::system("encode the answer as JSON", error))?;
    text.push('\n');
    print(&text)
}

/// A table with columns as wide as needed and two spaces between them. `right` says which are
/// aligned to the right.
fn table(rows: &[Vec<String>], right: &[bool]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
            if right.get(column) == Some(&true) {
                format!("{cell:>width$}")
            } else {
                format!("{cell:<width$}")
            }
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pages about JSON name every key of a value's JSON, but for the names of counters.
    pub(super) fn every_key_is_documented(value: &impl serde::Serialize) {
        fn check(value: &serde_json::Value) {
            let page = concat!(
                include_str!("../../../docs/reference/json.md"),
                include_str!("../../../docs/reference/json-storage.md")
            );
            for (key, inner) in value.as_object().into_iter().flatten() {
                assert!(
                    page.contains(&format!("`{key}`")),
                    "docs/reference/json.md and json-storage.md have no {key}"
                );
                if key != "counters" {
                    check(inner);
                }
            }
            value.as_array().into_iter().flatten().for_each(check);
        }
        check(&serde_json::to_value(value).unwrap());
    }

    #[test]
    fn tables_are_aligned() {
        let row = |cells: &[&str]| cells.iter().map(|cell| (*cell).to_owned()).collect();
        let rows = [row(&["A", "NUMBER", "C"]), row(&["long", "7", ""])];
        assert_eq!(table(&rows, &[false, true]), "A     NUMBER  C\nlong       7\n");
        assert_eq!(table(&[], &[]), "");
    }
}
