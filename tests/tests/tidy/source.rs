//! The declarations and names in the text of one file: modules, items, imports, paths, functions.
//!
//! The text is divided into token trees, not parsed as a whole. A keyword marks an item, and a path
//! is a row of names joined by `::`. Items under `#[cfg(test)]` and `#[cfg(loom)]` are left out, as
//! in an ordinary build.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, Group, Spacing, TokenStream, TokenTree};

/// A path with the line it stands in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CodePath {
    pub(crate) segments: Vec<String>,
    pub(crate) line: usize,
}

/// A module of the file: the file itself, or one written in braces inside it.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    /// Its path below the file's own module; empty for the file itself.
    pub(crate) path: Vec<String>,
    /// `mod x;`: modules in files of their own.
    pub(crate) declared: Vec<String>,
    /// `mod x { … }`, as numbers of scopes of the same file.
    pub(crate) inline: BTreeMap<String, usize>,
    /// Items defined here.
    pub(crate) defined: BTreeSet<String>,
    /// Names that `use` lines bind, with the paths that they stand for.
    pub(crate) bound: BTreeMap<String, Vec<Vec<String>>>,
    /// `use path::*`.
    pub(crate) globs: Vec<CodePath>,
    /// All paths: those of `use` lines and those within the code.
    pub(crate) paths: Vec<CodePath>,
    /// Names that stand alone, with their first line: a glob import may have brought them.
    pub(crate) words: BTreeMap<String, usize>,
}

/// The declarations and names of a file.
#[derive(Debug, Default)]
pub(crate) struct Source {
    /// The file's own module first.
    pub(crate) scopes: Vec<Scope>,
    /// Structs, enums, unions, traits and type aliases, with their lines.
    pub(crate) types: Vec<(String, usize)>,
    /// Macros that `#[macro_export]` moves to the crate's root.
    pub(crate) exported: Vec<String>,
    /// Lines of each function with a body.
    pub(crate) functions: Vec<usize>,
}

/// Reads the text of a file. An error says where the text is no Rust.
pub(crate) fn parse(text: &str) -> Result<Source, String> {
    let tokens: TokenStream =
        text.parse().map_err(|error: proc_macro2::LexError| error.to_string())?;
    let mut source = Source { scopes: vec![Scope::default()], ..Source::default() };
    source.items(tokens, 0, Context::Module);
    Ok(source)
}

/// The place of tokens. No path of modules names an item in an `impl`, in a trait or in a
/// function's body. A `type` in such a place is no type of its own.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Context {
    Module,
    Inside,
}

impl Source {
    fn items(&mut self, tokens: TokenStream, scope: usize, context: Context) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut rest = &tokens[..];
        let mut exported = false;
        while let Some(first) = rest.first() {
            let step = match first {
                TokenTree::Punct(punct) if punct.as_char() == '#' => {
                    let (step, kept, exports) = self.attribute(rest, scope);
                    exported |= exports;
                    if kept {
                        step
                    } else if inner_attribute(rest) {
                        return;
                    } else {
                        step + item_length(&rest[step..])
                    }
                }
                TokenTree::Punct(_) if joined(rest, 0) => 2 + usize::from(is_name(rest.get(2))),
                TokenTree::Punct(punct) if punct.as_char() == '.' => {
                    1 + usize::from(is_name(rest.get(1)))
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => 1,
                TokenTree::Group(group) => {
                    let inner = match group.delimiter() {
                        Delimiter::Brace => Context::Inside,
                        _ => context,
                    };
                    self.items(group.stream(), scope, inner);
                    1
                }
                TokenTree::Ident(word) => {
                    let word = word.to_string();
                    if word == "macro_rules" {
                        self.macro_rules(rest, scope, std::mem::take(&mut exported))
                    } else {
                        self.word(&word, rest, scope, context)
                    }
                }
            };
            rest = &rest[step.min(rest.len())..];
        }
    }

    /// An item or a path that begins with a word; returns its number of tokens.
    fn word(&mut self, word: &str, rest: &[TokenTree], scope: usize, context: Context) -> usize {
        let name = name(rest.get(1));
        match (word, name) {
            ("use", _) if !is_punct(rest.get(1), '<') => self.import(rest, scope),
            ("mod", Some(name)) => self.module(name, rest, scope),
            ("struct" | "enum" | "union" | "trait", Some(name)) => {
                self.define_type(name, rest, scope, context)
            }
            ("type", Some(name)) if context == Context::Module => {
                self.define_type(name, rest, scope, context)
            }
            ("fn", Some(name)) => {
                let body = rest.iter().find_map(|token| match token {
                    TokenTree::Group(body) if body.delimiter() == Delimiter::Brace => {
                        Some(Some(body))
                    }
                    TokenTree::Punct(end) if end.as_char() == ';' => Some(None),
                    _ => None,
                });
                if let Some(Some(body)) = body {
                    let lines = body.span_close().end().line - line(&rest[0]) + 1;
                    self.functions.push(lines);
                }
                self.define(name, scope, context);
                2
            }
            ("const" | "static", Some(first)) => {
                let name = if first == "mut" { self::name(rest.get(2)) } else { Some(first) };
                if let Some(name) = name.filter(|name| !["fn", "unsafe"].contains(&&name[..])) {
                    self.define(name, scope, context);
                }
                1
            }
            ("pub", None) => 1 + usize::from(is_group(rest.get(1), Delimiter::Parenthesis)),
            _ => self.path(rest, scope),
        }
    }

    fn define(&mut self, name: String, scope: usize, context: Context) {
        if context == Context::Module {
            self.scopes[scope].defined.insert(name);
        }
    }

    fn define_type(
        &mut self,
        name: String,
        rest: &[TokenTree],
        scope: usize,
        context: Context,
    ) -> usize {
        self.types.push((name.clone(), line(&rest[0])));
        self.define(name, scope, context);
        2
    }

    /// `mod x;` or `mod x { … }`.
    fn module(&mut self, name: String, rest: &[TokenTree], scope: usize) -> usize {
        match rest.get(2) {
            Some(TokenTree::Group(body)) => {
                let mut path = self.scopes[scope].path.clone();
                path.push(name.clone());
                let inner = self.scopes.len();
                self.scopes.push(Scope { path, ..Scope::default() });
                self.scopes[scope].inline.insert(name, inner);
                self.items(body.stream(), inner, Context::Module);
            }
            _ => self.scopes[scope].declared.push(name),
        }
        3
    }

    /// `macro_rules! x { … }`: its paths count, the items it would write do not.
    fn macro_rules(&mut self, rest: &[TokenTree], scope: usize, exported: bool) -> usize {
        if let Some(name) = name(rest.get(2)) {
            if exported {
                self.exported.push(name.clone());
            }
            self.scopes[scope].defined.insert(name);
        }
        if let Some(TokenTree::Group(body)) = rest.get(3) {
            self.paths_within(body, scope);
        }
        4
    }

    /// Paths anywhere within a group that may hold anything.
    fn paths_within(&mut self, group: &Group, scope: usize) {
        let tokens: Vec<TokenTree> = group.stream().into_iter().collect();
        let mut rest = &tokens[..];
        while let Some(first) = rest.first() {
            let step = match first {
                TokenTree::Group(group) => {
                    self.paths_within(group, scope);
                    1
                }
                TokenTree::Ident(_) => self.path(rest, scope),
                _ if joined(rest, 0) => 2 + usize::from(is_name(rest.get(2))),
                _ => 1,
            };
            rest = &rest[step.min(rest.len())..];
        }
    }

    /// `a::b::c`, or a word alone.
    fn path(&mut self, rest: &[TokenTree], scope: usize) -> usize {
        let Some(first) = name(rest.first()) else { return 1 };
        let line = line(&rest[0]);
        let mut segments = vec![first];
        let mut length = 1;
        while joined(rest, length) {
            let Some(next) = name(rest.get(length + 2)) else { break };
            segments.push(next);
            length += 3;
        }
        let scope = &mut self.scopes[scope];
        match &segments[..] {
            [alone] => {
                scope.words.entry(alone.clone()).or_insert(line);
            }
            _ => scope.paths.push(CodePath { segments, line }),
        }
        length
    }

    /// `use …;`.
    fn import(&mut self, rest: &[TokenTree], scope: usize) -> usize {
        let end = rest.iter().position(|token| is_punct(Some(token), ';')).unwrap_or(rest.len());
        self.import_tree(&rest[1..end], &[], scope);
        end + 1
    }

    /// One tree of a `use` line: `a::b`, `a::{…}`, `a::*`, `a as b`.
    fn import_tree(&mut self, tree: &[TokenTree], prefix: &[String], scope: usize) {
        let mut segments = prefix.to_vec();
        let mut alias = None;
        let mut rest = tree;
        let mut at = tree.first().map_or(0, line);
        while let Some(first) = rest.first() {
            match first {
                TokenTree::Ident(word) if *word == "as" => {
                    alias = rest.get(1).map(ToString::to_string);
                    break;
                }
                TokenTree::Ident(word) => {
                    at = line(first);
                    segments.push(word.to_string());
                }
                TokenTree::Group(group) => {
                    let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                    for tree in inner.split(|token| is_punct(Some(token), ',')) {
                        self.import_tree(tree, &segments, scope);
                    }
                    return;
                }
                TokenTree::Punct(star) if star.as_char() == '*' => {
                    self.scopes[scope].globs.push(CodePath { segments, line: at });
                    return;
                }
                _ => {}
            }
            rest = &rest[1..];
        }
        if segments.len() > 1 && segments.last().is_some_and(|last| last == "self") {
            segments.pop();
        }
        let Some(name) = alias.or_else(|| segments.last().cloned()) else { return };
        let scope = &mut self.scopes[scope];
        if !tree.is_empty() {
            scope.bound.entry(name).or_default().push(segments.clone());
            scope.paths.push(CodePath { segments, line: at });
        }
    }

    /// Reads `#[…]` or `#![…]`. Returns its number of tokens, whether an ordinary build keeps the
    /// item that follows, and whether it exports a macro.
    fn attribute(&mut self, rest: &[TokenTree], scope: usize) -> (usize, bool, bool) {
        let at = 1 + usize::from(inner_attribute(rest));
        let Some(TokenTree::Group(group)) = rest.get(at) else { return (1, true, false) };
        let tokens: Vec<TokenTree> = group.stream().into_iter().collect();
        let kept = match (name(tokens.first()).as_deref(), tokens.get(1)) {
            (Some("cfg"), Some(TokenTree::Group(predicate))) => {
                holds(&predicate.stream().into_iter().collect::<Vec<_>>()) != Some(false)
            }
            (Some("doc"), _) => true,
            _ => {
                self.paths_within(group, scope);
                true
            }
        };
        (at + 1, kept, name(tokens.first()).as_deref() == Some("macro_export"))
    }
}

/// Whether a `cfg` predicate holds in an ordinary build; `None` where that depends on the machine.
fn holds(predicate: &[TokenTree]) -> Option<bool> {
    let inner: Vec<TokenTree> = match predicate.get(1) {
        Some(TokenTree::Group(group)) => group.stream().into_iter().collect(),
        _ => Vec::new(),
    };
    let parts = || {
        let parts = inner.split(|token| is_punct(Some(token), ','));
        parts.filter(|part| !part.is_empty()).map(holds).collect::<Vec<_>>()
    };
    match name(predicate.first()).as_deref() {
        Some("test" | "loom") => Some(false),
        Some("not") => holds(&inner).map(|holds| !holds),
        Some("all") if parts().contains(&Some(false)) => Some(false),
        Some("any") if parts().iter().all(|part| *part == Some(false)) => Some(false),
        _ => None,
    }
}

/// Number of tokens of the item, statement, field or arm that begins here.
fn item_length(rest: &[TokenTree]) -> usize {
    let mut at = 0;
    // Further attributes of the same item.
    while is_punct(rest.get(at), '#') {
        at += 2;
    }
    let words = rest[at..].iter().filter_map(|token| name(Some(token)));
    let first = words.into_iter().find(|word| !["pub", "unsafe", "async"].contains(&&word[..]));
    let first = first.as_deref().unwrap_or_default();
    let to_semicolon = ["use", "static", "let", "type"].contains(&first)
        || first == "const" && !rest[at..].iter().take(5).any(|t| t.to_string() == "fn");
    let items = ["fn", "const", "extern", "mod", "struct", "enum", "union", "trait", "impl"];
    let is_item = items.contains(&first) || first == "macro_rules";
    let end = rest[at..].iter().position(|token| {
        is_punct(Some(token), ';')
            || !to_semicolon && is_group(Some(token), Delimiter::Brace)
            || !to_semicolon && !is_item && is_punct(Some(token), ',')
    });
    end.map_or(rest.len(), |end| at + end + 1)
}

/// Whether the tokens begin with `#!`.
fn inner_attribute(rest: &[TokenTree]) -> bool {
    is_punct(rest.get(1), '!')
}

/// Whether `::` stands there, which is two tokens.
fn joined(rest: &[TokenTree], at: usize) -> bool {
    let first = |token: &TokenTree| match token {
        TokenTree::Punct(punct) => punct.as_char() == ':' && punct.spacing() == Spacing::Joint,
        _ => false,
    };
    rest.get(at).is_some_and(first) && is_punct(rest.get(at + 1), ':')
}

fn is_punct(token: Option<&TokenTree>, character: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == character)
}

fn is_group(token: Option<&TokenTree>, delimiter: Delimiter) -> bool {
    matches!(token, Some(TokenTree::Group(group)) if group.delimiter() == delimiter)
}

fn is_name(token: Option<&TokenTree>) -> bool {
    matches!(token, Some(TokenTree::Ident(_)))
}

fn name(token: Option<&TokenTree>) -> Option<String> {
    match token {
        Some(TokenTree::Ident(name)) => Some(name.to_string()),
        _ => None,
    }
}

fn line(token: &TokenTree) -> usize {
    token.span().start().line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn types(text: &str) -> Vec<String> {
        parse(text).expect("Rust").types.into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn types_are_found() {
        let text = "pub struct A<T>(T); enum B { C } pub(crate) trait D: A { type E; } type F = A;
            union G { a: u8 } mod inner { struct A; }";
        assert_eq!(types(text), ["A", "B", "D", "F", "G", "A"]);
    }

    #[test]
    fn what_is_no_type_of_its_own_is_none() {
        assert_eq!(types("impl Iterator for A { type Item = u8; }"), [""; 0]);
        assert_eq!(types("fn f() { type Short = u8; }"), [""; 0]);
        assert_eq!(types("macro_rules! m { () => { struct A; } }"), [""; 0]);
        assert_eq!(types("// struct A;\n#[cfg(test)] struct B { c: u8 }"), [""; 0]);
        assert_eq!(types("#[cfg(loom)] struct A; #[cfg(not(loom))] struct A;"), ["A"]);
        assert_eq!(types("fn f(x: r#type) { x.r#struct(); }"), [""; 0]);
    }

    #[test]
    fn lines_of_functions_are_counted() {
        let text = "fn a() {}\ntrait T {\n fn b();\n fn c()\n {\n }\n}\n#[cfg(test)]\nfn d() {\n}";
        assert_eq!(parse(text).expect("Rust").functions, [1, 3]);
    }

    #[test]
    fn modules_are_found() {
        let source = parse("mod a; pub mod b { mod c; } #[cfg(test)] mod d;").expect("Rust");
        assert_eq!(source.scopes[0].declared, ["a"]);
        assert_eq!(source.scopes[1].declared, ["c"]);
        assert_eq!(source.scopes[1].path, ["b"]);
        assert!(parse("mod a {").is_err());
    }
}
