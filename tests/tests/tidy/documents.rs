//! The rules on documents. A reader can find every page, and every link leads to a page. Pages and
//! cells are short. Files and names in pages and sources exist.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use crate::tree::{complain, files, read, root};

/// Where a reader begins.
const START: [&str; 2] = ["README.md", "ARCHITECTURE.md"];
/// Pages for a reader who wants one thing. They are short.
const SHORT: [&str; 3] = ["docs/guide/", "docs/reference/", "docs/design/"];
const MOST_LINES: usize = 300;
/// Characters of a table's cell, as it is read: of a link only its words.
const MOST_CELL: usize = 200;
/// Pages with longer cells, and how many; the list only shrinks.
const LONG_CELLS: &[(&str, usize)] = &[
    // A row that `tasuki-bench targets` prints.
    ("docs/performance.md", 1),
];

/// `a/../b` as `b`.
fn normal(path: &Path) -> String {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(parts.pop()),
            Component::CurDir => {}
            part => parts.push(part),
        }
    }
    parts.to_string_lossy().into_owned()
}

/// A page's text without its fences: code has no links and no headings.
fn prose(page: &str) -> String {
    let text = read(page);
    let mut fenced = false;
    let lines = text.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Relative links of a page: where to, as path from the root, and which heading there.
fn links(page: &str) -> Vec<(String, String)> {
    let text = prose(page);
    let folder = Path::new(page).parent().unwrap_or(Path::new(""));
    let all = text.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    all.filter(|link| !link.contains("://") && !link.starts_with("mailto:"))
        .map(|link| {
            let (path, heading) = link.split_once('#').unwrap_or((link, ""));
            let path = if path.is_empty() { page.into() } else { normal(&folder.join(path)) };
            (path, heading.to_owned())
        })
        .collect()
}

/// The names by which links reach a page's headings.
fn headings(page: &str) -> BTreeSet<String> {
    let name = |heading: &str| {
        let heading = heading.trim().to_lowercase();
        let kept = heading.chars().filter_map(|c| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
            _ => None,
        });
        kept.collect::<String>()
    };
    let text = prose(page);
    let lines = text.lines().filter(|line| line.starts_with('#'));
    lines.map(|line| name(line.trim_start_matches('#'))).collect()
}

/// A reader who starts at README.md or ARCHITECTURE.md, and follows links, finds every page.
#[test]
fn every_document_can_be_found() {
    let mut found: BTreeSet<String> = START.map(str::to_owned).into();
    let mut left: Vec<String> = found.iter().cloned().collect();
    while let Some(page) = left.pop() {
        for (target, _) in links(&page) {
            let is_page = target.ends_with(".md") && root().join(&target).exists();
            if is_page && found.insert(target.clone()) {
                left.push(target);
            }
        }
    }
    let pages = files("docs", &[".md"]).into_iter();
    let pages = pages.chain(["CONTRIBUTING.md", "CHANGELOG.md"].map(str::to_owned));
    let hidden = pages.filter(|page| !found.contains(page));
    let hidden = hidden.map(|page| format!("{page}: no way of links from {START:?} leads there"));
    complain(&hidden.collect::<Vec<_>>());
}

/// Relative links lead somewhere, those to a heading to one that is there.
#[test]
fn links_between_documents_hold() {
    let mut complaints = Vec::new();
    for page in files("", &[".md"]) {
        for (target, heading) in links(&page) {
            if !root().join(&target).exists() {
                complaints.push(format!("{page} links to {target}, which is not there"));
            } else if !heading.is_empty()
                && target.ends_with(".md")
                && !headings(&target).contains(&heading)
            {
                complaints.push(format!("{page} links to #{heading} in {target}: no such heading"));
            }
        }
    }
    complain(&complaints);
}

/// Pages are installed with each other and the examples, so they link to nothing else.
#[test]
fn installed_pages_link_to_what_is_installed() {
    let mut complaints = Vec::new();
    let pages = files("", &[".md"]);
    let is_root = |page: &str| !page.contains('/');
    let installed = |page: &str| {
        is_root(page) || ["docs/", "examples/"].iter().any(|folder| page.starts_with(folder))
    };
    for page in pages.iter().filter(|page| installed(page)) {
        for (target, _) in links(page).iter().filter(|(target, _)| !installed(target)) {
            complaints.push(format!("{page} links to {target}, which is not installed"));
        }
    }
    complain(&complaints);
}

/// Code, scripts and pages name documents that are there.
#[test]
fn named_documents_are_there() {
    let mut complaints = Vec::new();
    let endings = [".rs", ".md", ".sh", ".toml", ".service", ".c", ".h", ".yml", "Makefile"];
    for file in files("", &endings) {
        if file.ends_with("tidy/documents.rs") {
            continue;
        }
        let text = read(&file);
        for (at, _) in text.match_indices("docs/") {
            let before = text[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || "./_-".contains(c)) {
                continue;
            }
            let kept = |c: char| c.is_ascii_alphanumeric() || "._/-".contains(c);
            let name: String = text[at..].chars().take_while(|&c| kept(c)).collect();
            let name = name.trim_end_matches(['.', '-']);
            if !root().join(name).exists() && !name.contains("YYYY") {
                complaints.push(format!("{file} names {name}, which is not there"));
            }
        }
    }
    complain(&complaints);
}

#[test]
fn pages_are_short() {
    let pages = files("docs", &[".md"]).into_iter();
    let pages = pages.filter(|page| SHORT.iter().any(|folder| page.starts_with(folder)));
    let lines = |page: &String| read(page).lines().count();
    let long = pages.filter(|page| lines(page) > MOST_LINES);
    let long = long.map(|page| format!("{page} has {} lines: it wants to be two", lines(&page)));
    complain(&long.collect::<Vec<_>>());
}

/// A cell without the targets of its links.
fn read_aloud(cell: &str) -> usize {
    let mut parts = cell.split("](");
    let first = parts.next().unwrap_or_default().chars().count();
    let rest = parts.map(|part| part.split_once(')').map_or(0, |(_, rest)| rest.chars().count()));
    first + rest.sum::<usize>()
}

#[test]
fn cells_of_tables_are_short() {
    let mut complaints = Vec::new();
    for page in files("", &[".md"]) {
        let text = prose(&page);
        let rows = text.lines().filter(|line| line.starts_with('|'));
        let cells = rows.flat_map(|row| row.split('|'));
        let long: Vec<&str> = cells.filter(|cell| read_aloud(cell.trim()) > MOST_CELL).collect();
        let listed = LONG_CELLS.iter().find(|(name, _)| *name == page).map(|(_, most)| *most);
        if long.len() < listed.unwrap_or(0) {
            complaints.push(format!("{page}: only {} long cells are left: say so", long.len()));
        }
        for cell in long.iter().skip(listed.unwrap_or(0)) {
            let start: String = cell.trim().chars().take(60).collect();
            complaints.push(format!("{page}: a cell of more than {MOST_CELL}: {start}…"));
        }
    }
    complain(&complaints);
}

/// `a/{b,c}.rs` as `a/b.rs` and `a/c.rs`.
fn spread(path: &str) -> Vec<String> {
    match path.split_once('{').and_then(|(a, rest)| Some((a, rest.split_once('}')?))) {
        Some((before, (words, after))) => {
            words.split(',').map(|word| format!("{before}{word}{after}")).collect()
        }
        None => vec![path.to_owned()],
    }
}

/// Files that the tables of RFCs name, as paths from the root.
fn files_of_rfcs(row: &str) -> Vec<String> {
    let cells: Vec<&str> = row.split('|').collect();
    let named = cells.iter().skip(4).flat_map(|cell| cell.split('`').skip(1).step_by(2));
    named
        .filter(|name| name.contains('/') || name.ends_with(".rs"))
        .flat_map(spread)
        .map(|name| {
            let elsewhere = ["crates/", "sim/", "tests/tests/", "fuzz/"];
            match elsewhere.iter().any(|folder| name.starts_with(folder)) {
                true => name,
                false => format!("crates/inet/src/{name}"),
            }
        })
        .collect()
}

/// The places of code and tests in the RFC tables exist.
#[test]
fn files_in_tables_of_rfcs_are_there() {
    let mut complaints = Vec::new();
    for page in files("docs/reference", &[".md"]) {
        if !page.starts_with("docs/reference/rfc") {
            continue;
        }
        for row in read(&page).lines().filter(|line| line.starts_with("| ")) {
            let clause = row.split('|').nth(1).unwrap_or_default().trim();
            for file in files_of_rfcs(row) {
                if !root().join(&file).exists() {
                    complaints.push(format!("{page}: {clause}: {file} is not there"));
                }
            }
        }
    }
    complain(&complaints);
}
