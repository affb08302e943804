//! Sizes: files, lines and functions are short.
//!
//! [`LONG_FILES`] and [`LONG_FUNCTIONS`] list the exceptions by name. An exception that is no
//! longer needed is an error too, so the lists only shrink.

use crate::tree::{complain, read, root, rust_files};

const MOST_LINES: usize = 600;
const MOST_COLUMNS: usize = 100;
const MOST_FUNCTION_LINES: usize = 70;

/// Files that are longer than [`MOST_LINES`], with the number of lines they have at most.
const LONG_FILES: &[(&str, usize)] = &[];

/// Functions that are longer than [`MOST_FUNCTION_LINES`], as `file: function`.
const LONG_FUNCTIONS: &[&str] = &[];

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

/// Name and number of lines of every function with a body. The code is formatted: a body ends with
/// the first brace at the function's own indentation.
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
