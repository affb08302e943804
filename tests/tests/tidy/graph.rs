//! Imports between the modules of a crate, and the circles they make.
//!
//! A module is a file. It imports the things it names in a `use` line or in a path within its code.
//! The import leads to the file that *defines* the thing: re-exports are followed. The name of a
//! module alone is no import; the name of something in that module is.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::slice;

use crate::krate::{Crate, Target};

/// The first place where one file imports from another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Import {
    pub(crate) line: usize,
    /// The path as it is written.
    pub(crate) path: String,
}

/// The imports of a crate's files, by their numbers.
#[derive(Debug)]
pub(crate) struct Graph {
    pub(crate) imports: BTreeMap<(usize, usize), Import>,
    files: usize,
}

impl Graph {
    pub(crate) fn of(krate: &Crate) -> Graph {
        let mut graph = Graph { imports: BTreeMap::new(), files: krate.files.len() };
        for (file, number, scope) in scopes(krate) {
            for path in &scope.paths {
                graph.add(krate, file, number, &path.segments, path.line);
            }
            for glob in &scope.globs {
                let enums = krate.resolve(file, number, &glob.segments);
                if enums.iter().any(|target| matches!(target, Target::Item(_))) {
                    graph.add(krate, file, number, &glob.segments, glob.line);
                    continue;
                }
                for (word, line) in &scope.words {
                    if !scope.defined.contains(word) && !scope.bound.contains_key(word) {
                        let path = [&glob.segments[..], slice::from_ref(word)].concat();
                        graph.add_known(krate, file, number, &path, *line);
                    }
                }
            }
        }
        graph
    }

    fn add(&mut self, krate: &Crate, file: usize, scope: usize, path: &[String], line: usize) {
        for target in krate.resolve(file, scope, path) {
            if let Target::Item(to) = target
                && to != file
            {
                let import = Import { line, path: path.join("::") };
                self.imports.entry((file, to)).or_insert(import);
            }
        }
    }

    /// Like [`Graph::add`], for a word that a glob import may have brought. The word counts only if
    /// the module surely has it.
    fn add_known(
        &mut self,
        krate: &Crate,
        file: usize,
        scope: usize,
        path: &[String],
        line: usize,
    ) {
        let name = path.last().expect("a path has a name");
        let module = &path[..path.len() - 1];
        for target in krate.resolve(file, scope, module) {
            let Target::Module(of, inner) = target else { continue };
            let home = &krate.files[of].source.scopes[inner];
            if home.defined.contains(name) || home.bound.contains_key(name) {
                self.add(krate, file, scope, path, line);
            }
        }
    }

    /// Groups of files that import one another in a circle.
    pub(crate) fn circles(&self) -> Vec<BTreeSet<usize>> {
        let reached: Vec<BTreeSet<usize>> =
            (0..self.files).map(|file| self.reached_from(file)).collect();
        let mut circles = Vec::new();
        let mut seen = BTreeSet::<usize>::new();
        for file in 0..self.files {
            if reached[file].contains(&file) && !seen.contains(&file) {
                let circle: BTreeSet<usize> = reached[file]
                    .iter()
                    .copied()
                    .filter(|to| reached[*to].contains(&file))
                    .collect();
                seen.extend(&circle);
                circles.push(circle);
            }
        }
        circles
    }

    /// A shortest way round in a circle, which begins and ends with the same file.
    pub(crate) fn way_round(&self, circle: &BTreeSet<usize>) -> Vec<usize> {
        let ways = circle.iter().filter_map(|file| self.way_back(*file, circle));
        ways.min_by_key(Vec::len).unwrap_or_default()
    }

    /// Imports within a circle.
    pub(crate) fn within(&self, circle: &BTreeSet<usize>) -> usize {
        let inside = |(from, to): &&(usize, usize)| circle.contains(from) && circle.contains(to);
        self.imports.keys().filter(inside).count()
    }

    fn imported_by(&self, file: usize) -> impl Iterator<Item = usize> + '_ {
        self.imports.range((file, 0)..(file + 1, 0)).map(|((_, to), _)| *to)
    }

    fn reached_from(&self, file: usize) -> BTreeSet<usize> {
        let mut reached = BTreeSet::new();
        let mut open = vec![file];
        while let Some(file) = open.pop() {
            for to in self.imported_by(file) {
                if reached.insert(to) {
                    open.push(to);
                }
            }
        }
        reached
    }

    fn way_back(&self, start: usize, circle: &BTreeSet<usize>) -> Option<Vec<usize>> {
        let mut open = VecDeque::from([vec![start]]);
        let mut seen = BTreeSet::new();
        while let Some(way) = open.pop_front() {
            let last = *way.last().expect("a way has a start");
            for to in self.imported_by(last).filter(|to| circle.contains(to)) {
                if to == start || seen.insert(to) {
                    let longer = [&way[..], &[to]].concat();
                    if to == start {
                        return Some(longer);
                    }
                    open.push_back(longer);
                }
            }
        }
        None
    }
}

/// All scopes of a crate with their file and number.
fn scopes(krate: &Crate) -> impl Iterator<Item = (usize, usize, &crate::source::Scope)> {
    krate.files.iter().enumerate().flat_map(|(file, found)| {
        found.source.scopes.iter().enumerate().map(move |(number, scope)| (file, number, scope))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::krate::tests::crate_of;

    /// Imports of a crate as `from -> to`.
    fn imports(files: &[(&str, &str)]) -> Vec<String> {
        let krate = crate_of(files);
        let graph = Graph::of(&krate);
        let name = |file: &usize| krate.module_name(*file);
        graph.imports.keys().map(|(from, to)| format!("{} -> {}", name(from), name(to))).collect()
    }

    const ROOT: (&str, &str) = ("lib.rs", "mod a; mod b; mod c;");
    const B: (&str, &str) = ("b.rs", "pub use crate::c::C; pub struct B; pub enum E { V }");
    const C: (&str, &str) = ("c.rs", "pub struct C; pub fn c() {}");

    fn imports_of_a(text: &str) -> Vec<String> {
        let found = imports(&[ROOT, ("a.rs", text), B, C]);
        found.into_iter().filter_map(|it| it.strip_prefix("a -> ").map(str::to_owned)).collect()
    }

    #[test]
    fn all_kinds_of_imports_are_found() {
        assert_eq!(imports_of_a("use crate::{b::B, c::{C, c as d}};"), ["b", "c"]);
        assert_eq!(imports_of_a("use super::b::{self, B};"), ["b"]);
        assert_eq!(imports_of_a("use crate::b::C;"), ["c"]);
        assert_eq!(imports_of_a("use crate::b as other; fn f(b: other::B) {}"), ["b"]);
        assert_eq!(imports_of_a("fn f() -> Vec<super::c::C> { vec![] }"), ["c"]);
        assert_eq!(imports_of_a("fn f() { println!(\"{}\", crate::c::c()); }"), ["c"]);
        assert_eq!(imports_of_a("use crate::b::*; fn f(c: C) {}"), ["c"]);
        assert_eq!(imports_of_a("use crate::b::E::*; fn f() { V; }"), ["b"]);
        assert_eq!(imports_of_a("#[derive(crate::c::C)] struct S;"), ["c"]);
        assert_eq!(imports_of_a("macro_rules! m { () => { $crate::b::B } }"), ["b"]);
        assert_eq!(imports_of_a("mod inner { use super::super::b::B; }"), ["b"]);
        assert_eq!(imports_of_a("fn f() { use crate::c::c; c(); }"), ["c"]);
    }

    #[test]
    fn what_is_no_import_is_none() {
        assert_eq!(imports_of_a("use crate::b; use crate::b::*; use std::fmt;"), [""; 0]);
        assert_eq!(imports_of_a("// crate::b::B\n/// [`crate::b::B`]\nfn f() {}"), [""; 0]);
        assert_eq!(imports_of_a("pub(in crate::b) fn f() { \"crate::b::B\"; }"), [""; 0]);
        assert_eq!(imports_of_a("#[cfg(test)] use crate::b::B;"), [""; 0]);
        assert_eq!(imports_of_a("#[cfg(all(test, loom))] mod tests { use crate::b::B; }"), [""; 0]);
        assert_eq!(imports_of_a("#[cfg(test)] fn f() -> A<u8, crate::b::B> { }"), [""; 0]);
        assert_eq!(imports_of_a("struct S; impl S { fn f(&self) { self.b::<u8>() } }"), [""; 0]);
    }

    #[test]
    fn what_a_test_leaves_out_ends_where_it_ends() {
        let text = "#[cfg(test)]\n#[allow(x)]\nconst A: [u8; 2] = [1, 2];\nuse crate::b::B;";
        assert_eq!(imports_of_a(text), ["b"]);
        assert_eq!(imports_of_a("#[cfg(not(test))] use crate::b::B;"), ["b"]);
        let text = "struct S { #[cfg(test)] a: super::b::B, c: super::c::C }";
        assert_eq!(imports_of_a(text), ["c"]);
    }

    fn circles(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let krate = crate_of(files);
        let graph = Graph::of(&krate);
        let names = |way: Vec<usize>| way.iter().map(|file| krate.module_name(*file)).collect();
        graph.circles().iter().map(|circle| names(graph.way_round(circle))).collect()
    }

    #[test]
    fn a_circle_is_found() {
        let tree = [ROOT, ("a.rs", "use crate::b::B;"), B, ("c.rs", "pub struct C(crate::a::A);")];
        assert_eq!(circles(&tree), [["a", "b", "c", "a"]]);
        let tree = [ROOT, ("a.rs", "use crate::b::B;"), B, C];
        assert!(circles(&tree).is_empty());
    }

    #[test]
    fn a_child_that_uses_what_its_parent_defines_is_a_circle() {
        let child = ("a/d.rs", "use super::A; pub struct D;");
        let root = ("lib.rs", "mod a;");
        let tree = [root, ("a.rs", "mod d; pub struct A(d::D);"), child];
        assert_eq!(circles(&tree), [["a", "a::d", "a"]]);
        let tree = [root, ("a.rs", "mod d; pub struct A;"), child];
        assert!(circles(&tree).is_empty());
        let facade = [root, ("a.rs", "mod d; mod e; pub use d::D; pub use e::A;")];
        let tree = [&facade[..], &[child, ("a/e.rs", "pub struct A;")]].concat();
        assert!(circles(&tree).is_empty());
    }
}
