//! The design pages name code that exists.
//!
//! Pages of docs/design and ARCHITECTURE.md name code by spans of one form. A span is a path from
//! the root, or a path, a colon and an item, such as `crates/shm/src/pool.rs: PoolMap::borrow`.
//! Each path exists. Each item is defined in that very file, which the test parses. An item is a
//! function in an `impl` or trait of the named type, a type, or a free function.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, LexError, TokenStream, TokenTree};

const TOUR: &str = "docs/design/tour.md";
/// Steps that the tour has at least, and each of its main sections.
const LEAST_STEPS: usize = 80;
const LEAST_IN_SECTION: usize = 5;
/// Folders of code: a span that begins with one of them names code.
const FOLDERS: [&str; 5] = ["crates/", "tests/", "sim/", "fuzz/", "benches/"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned()
}

fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// A place in the code that a page names.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Named {
    file: String,
    /// `None`: the file or folder alone.
    item: Option<String>,
}

/// The names in the code spans of a page. Fences are pictures and name nothing.
fn named_in(text: &str) -> Vec<Named> {
    let outside = text.split("```").step_by(2);
    let spans = outside.flat_map(|prose| prose.split('`').skip(1).step_by(2));
    spans.filter_map(named).collect()
}

/// The code that a span names, if any. A span with an ellipsis shows the form.
fn named(span: &str) -> Option<Named> {
    let span = span.split_whitespace().collect::<Vec<_>>().join(" ");
    if !FOLDERS.iter().any(|folder| span.starts_with(folder)) || span.contains(['…', '*']) {
        return None;
    }
    match span.split_once(": ") {
        Some((file, item)) => Some(Named { file: file.to_owned(), item: Some(item.to_owned()) }),
        None => Some(Named { file: span, item: None }),
    }
}

/// All functions and types that a file defines, as `name` or `Type::name`.
fn defined_in(file: &str) -> Result<Vec<String>, String> {
    let text = fs::read_to_string(root().join(file)).map_err(|error| error.to_string())?;
    let tokens = text.parse().map_err(|error: LexError| error.to_string())?;
    let mut names = Vec::new();
    collect(tokens, None, &mut names);
    Ok(names)
}

/// The items that tokens define: items of a module, or, with the type's name, items of an `impl` or
/// trait. Bodies of functions and arguments of macros define nothing here.
fn collect(tokens: TokenStream, of: Option<&str>, names: &mut Vec<String>) {
    let mut tokens = tokens.into_iter();
    while let Some(token) = tokens.next() {
        let TokenTree::Ident(word) = token else { continue };
        match word.to_string().as_str() {
            "fn" => {
                let Some(TokenTree::Ident(name)) = tokens.next() else { continue };
                names.push(of.map_or(name.to_string(), |of| format!("{of}::{name}")));
                // The signature may have `impl`, the body anything.
                let _ = up_to_body(&mut tokens);
            }
            "impl" if of.is_none() => {
                let (head, body) = up_to_body(&mut tokens);
                if let Some((name, body)) = implemented(&head).zip(body) {
                    collect(body, Some(&name), names);
                }
            }
            "struct" | "enum" | "union" | "type" if of.is_none() => {
                if let Some(TokenTree::Ident(name)) = tokens.next() {
                    names.push(name.to_string());
                    let _ = up_to_body(&mut tokens);
                }
            }
            "trait" if of.is_none() => {
                let Some(TokenTree::Ident(name)) = tokens.next() else { continue };
                names.push(name.to_string());
                let (_, body) = up_to_body(&mut tokens);
                body.into_iter().for_each(|body| collect(body, Some(&name.to_string()), names));
            }
            "mod" if of.is_none() => {
                let Some(TokenTree::Ident(name)) = tokens.next() else { continue };
                let (_, body) = up_to_body(&mut tokens);
                let body = body.filter(|_| name != "tests");
                body.into_iter().for_each(|body| collect(body, None, names));
            }
            _ => {}
        }
    }
}

/// The tokens up to the next braces and their content, or up to a semicolon.
fn up_to_body(
    tokens: &mut impl Iterator<Item = TokenTree>,
) -> (Vec<TokenTree>, Option<TokenStream>) {
    let mut head = Vec::new();
    for token in tokens {
        match &token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                return (head, Some(group.stream()));
            }
            TokenTree::Punct(punct) if punct.as_char() == ';' => break,
            _ => head.push(token),
        }
    }
    (head, None)
}

/// The type that `head`, between `impl` and its braces, is about: the last name outside of all
/// generics, after `for` and before `where`.
fn implemented(head: &[TokenTree]) -> Option<String> {
    let (mut depth, mut last, mut name) = (0, ' ', None);
    for token in head {
        match token {
            // Not that of an arrow.
            TokenTree::Punct(punct) if punct.as_char() == '>' && last != '-' => depth -= 1,
            TokenTree::Punct(punct) if punct.as_char() == '<' => depth += 1,
            TokenTree::Ident(word) if depth == 0 && word == "where" => break,
            TokenTree::Ident(word) if depth == 0 => name = Some(word.to_string()),
            _ => {}
        }
        last = if let TokenTree::Punct(punct) = token { punct.as_char() } else { ' ' };
    }
    name.filter(|name| name != "for")
}

/// The pages that name code.
fn pages() -> Vec<String> {
    let folder = fs::read_dir(root().join("docs/design")).expect("docs/design");
    let names = folder.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let pages =
        names.filter(|name| name.ends_with(".md")).map(|name| format!("docs/design/{name}"));
    pages.chain(["ARCHITECTURE.md".to_owned()]).collect()
}

#[test]
fn the_code_that_design_pages_name_is_there() {
    let mut known = BTreeMap::new();
    let mut complaints = Vec::new();
    for page in pages() {
        for Named { file, item } in named_in(&read(&page)) {
            let Some(item) = item else {
                if !root().join(&file).exists() {
                    complaints.push(format!("{page} names {file}, which is not there"));
                }
                continue;
            };
            let defined = known.entry(file.clone()).or_insert_with(|| defined_in(&file));
            match defined {
                Err(error) => complaints.push(format!("{page} names {file}: {error}")),
                Ok(names) if names.contains(&item) => {}
                Ok(names) => {
                    let last = item.rsplit("::").next().unwrap_or(&item);
                    let near: Vec<_> = names
                        .iter()
                        .filter(|name| name.ends_with(last))
                        .map(String::as_str)
                        .collect();
                    let near = near.join(", ");
                    complaints.push(format!("{page} names {file}: {item}, not defined ({near})"));
                }
            }
        }
    }
    complaints.sort();
    complaints.dedup();
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

/// Otherwise the test above could pass on a page whose spans have another form.
#[test]
fn the_tour_names_its_steps() {
    let text = read(TOUR);
    let functions = |text: &str| named_in(text).iter().filter(|named| named.item.is_some()).count();
    let all = functions(&text);
    assert!(all >= LEAST_STEPS, "only {all} functions are named in {TOUR}");
    let sections: Vec<_> = text.split("\n## ").skip(1).collect();
    assert!(sections.len() >= 7, "only {} sections in {TOUR}", sections.len());
    for section in sections {
        let title = section.lines().next().unwrap_or_default();
        let count = functions(section);
        assert!(count >= LEAST_IN_SECTION, "only {count} functions in the section {title}");
    }
}

#[test]
fn a_function_is_found_in_the_impl_of_its_type_only() {
    let text = "struct A<T>(T); impl<T: Fn() -> u8> A<T> where T: Copy { fn f(_: impl Copy) {} } \
                trait B { fn g(); } impl B for x::A<u8> { fn g() {} type T = u8; } \
                fn h() -> impl Copy { fn inner() {} } m! { fn n() {} } \
                mod m { enum E {} } mod tests { fn t() {} }";
    let mut names = Vec::new();
    collect(text.parse().expect("Rust"), None, &mut names);
    assert_eq!(names, ["A", "A::f", "B", "B::g", "A::g", "h", "E"]);
}

#[test]
fn spans_of_the_form_are_found() {
    let text = "`crates/a/src/b.rs: T::f` and `crates/c`, not `T::f` nor `crates/….rs: f`\n\
                ```text\n`crates/d`\n```\n `sim/x.rs:\n g`";
    let name = |file: &str, item: Option<&str>| Named {
        file: file.to_owned(),
        item: item.map(str::to_owned),
    };
    let expected = [
        name("crates/a/src/b.rs", Some("T::f")),
        name("crates/c", None),
        name("sim/x.rs", Some("g")),
    ];
    assert_eq!(named_in(text), expected);
}
