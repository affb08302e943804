//! The modules of a crate, found from its root by their `mod` lines, and where a path leads.

use std::collections::BTreeMap;
use std::slice;

use crate::source::{self, CodePath, Scope, Source};

/// A file of the crate.
#[derive(Debug)]
pub(crate) struct File {
    /// Its path from the root of the source tree.
    pub(crate) name: String,
    /// Its module's path; empty for the crate's root.
    pub(crate) module: Vec<String>,
    pub(crate) text: String,
    pub(crate) source: Source,
}

/// A crate: all files that an ordinary build of it compiles.
#[derive(Debug)]
pub(crate) struct Crate {
    /// The root first.
    pub(crate) files: Vec<File>,
    /// The modules by their path, those in braces as well: file and scope.
    modules: BTreeMap<Vec<String>, (usize, usize)>,
}

/// The thing that a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    /// An item, with the file that defines it.
    Item(usize),
    /// A module, as its file and scope.
    Module(usize, usize),
}

/// Re-exports that a path may lead through, so that two that name each other end.
const MOST_STEPS: usize = 16;

impl Crate {
    /// Reads the crate with this root, `read` giving the text of a file if it exists.
    pub(crate) fn load(root: &str, read: &dyn Fn(&str) -> Option<String>) -> Result<Crate, String> {
        let mut krate = Crate { files: Vec::new(), modules: BTreeMap::new() };
        let text = read(root).ok_or_else(|| format!("{root} is not there"))?;
        let folder = root.rsplit_once('/').map_or("", |(folder, _)| folder);
        krate.add(root, folder, Vec::new(), text, read)?;
        krate.bind_exported_macros();
        Ok(krate)
    }

    fn add(
        &mut self,
        name: &str,
        folder: &str,
        module: Vec<String>,
        text: String,
        read: &dyn Fn(&str) -> Option<String>,
    ) -> Result<(), String> {
        let source = source::parse(&text).map_err(|error| format!("{name}: {error}"))?;
        let file = self.files.len();
        let mut children = Vec::new();
        for (number, scope) in source.scopes.iter().enumerate() {
            let path = [&module[..], &scope.path].concat();
            let folder = [&[folder.to_owned()], &scope.path[..]].concat().join("/");
            for child in &scope.declared {
                children.push((folder.clone(), [&path[..], slice::from_ref(child)].concat()));
            }
            self.modules.insert(path, (file, number));
        }
        self.files.push(File { name: name.to_owned(), module, text, source });
        for (folder, path) in children {
            let child = path.last().expect("a child has a name");
            let below = format!("{folder}/{child}");
            let candidates = [format!("{below}.rs"), format!("{below}/mod.rs")];
            let found = candidates.iter().find_map(|name| Some((name, read(name)?)));
            let (child, text) =
                found.ok_or_else(|| format!("{name}: no file for module {child} in {folder}"))?;
            self.add(child, &below, path, text, read)?;
        }
        Ok(())
    }

    /// `#[macro_export]` makes a macro a name of the root, wherever it is defined.
    fn bind_exported_macros(&mut self) {
        let mut exported = Vec::new();
        for file in &self.files[1..] {
            for name in &file.source.exported {
                let path =
                    [&["crate".to_owned()], &file.module[..], slice::from_ref(name)].concat();
                exported.push((name.clone(), path));
            }
        }
        for (name, path) in exported {
            self.files[0].source.scopes[0].bound.entry(name).or_default().push(path);
        }
    }

    /// Name of a file's module as a reader writes it; the root's is its file's.
    pub(crate) fn module_name(&self, file: usize) -> String {
        let file = &self.files[file];
        if file.module.is_empty() {
            file.name.rsplit('/').next().unwrap_or_default().to_owned()
        } else {
            file.module.join("::")
        }
    }

    /// Name of the crate's root: `lib.rs` or `main.rs`.
    pub(crate) fn root_name(&self) -> String {
        self.module_name(0)
    }

    /// The thing that a path in that scope names; nothing if the path leads out of the crate.
    pub(crate) fn resolve(&self, file: usize, scope: usize, path: &[String]) -> Vec<Target> {
        let mut found = self.lookup(file, scope, path, MOST_STEPS);
        found.sort_unstable();
        found.dedup();
        found
    }

    fn scope(&self, file: usize, scope: usize) -> &Scope {
        &self.files[file].source.scopes[scope]
    }

    /// Full path of the module that a scope is.
    fn path_of(&self, file: usize, scope: usize) -> Vec<String> {
        [&self.files[file].module[..], &self.scope(file, scope).path].concat()
    }

    fn lookup(&self, file: usize, scope: usize, path: &[String], steps: usize) -> Vec<Target> {
        let mut module = self.path_of(file, scope);
        let mut rest = path;
        match rest.first().map(String::as_str) {
            Some("crate") => {
                module.clear();
                rest = &rest[1..];
            }
            Some("self") => rest = &rest[1..],
            Some("super") => {}
            Some(_) => return self.within(&module, rest, steps, false),
            None => return Vec::new(),
        }
        while rest.first().is_some_and(|first| first == "super") {
            module.pop();
            rest = &rest[1..];
        }
        self.within(&module, rest, steps, true)
    }

    /// Follows a path from a module of this crate. A macro may have written a name that is not
    /// found there. Such a name is the module's own if it `must` be of this crate.
    fn within(&self, module: &[String], path: &[String], steps: usize, must: bool) -> Vec<Target> {
        let Some(&(file, number)) = self.modules.get(module) else { return Vec::new() };
        let Some((name, rest)) = path.split_first() else {
            return vec![Target::Module(file, number)];
        };
        let Some(steps) = steps.checked_sub(1) else { return Vec::new() };
        let scope = self.scope(file, number);
        let child = [module, slice::from_ref(name)].concat();
        let is_module = self.modules.contains_key(&child);
        if is_module && !rest.is_empty() {
            return self.within(&child, rest, steps, true);
        }
        let mut found = Vec::new();
        if scope.defined.contains(name) {
            found.push(Target::Item(file));
        }
        for target in scope.bound.get(name).into_iter().flatten() {
            // `use x;` of a crate binds a name to itself.
            if target.first() != Some(name) || target.len() > 1 {
                found.extend(self.lookup(file, number, &[&target[..], rest].concat(), steps));
            }
        }
        if found.is_empty() && is_module {
            return self.within(&child, rest, steps, true);
        }
        if found.is_empty() {
            for CodePath { segments, .. } in &scope.globs {
                for target in self.lookup(file, number, segments, steps) {
                    let Target::Module(file, number) = target else { continue };
                    found.extend(self.within(&self.path_of(file, number), path, steps, false));
                }
            }
        }
        if found.is_empty() && must && !scope.bound.contains_key(name) {
            found.push(Target::Item(file));
        }
        found
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A crate of these files; the first of those with the same name counts.
    pub(crate) fn crate_of(files: &[(&str, &str)]) -> Crate {
        let read = |name: &str| {
            let found = files.iter().find(|(file, _)| format!("src/{file}") == name);
            found.map(|(_, text)| (*text).to_owned())
        };
        Crate::load("src/lib.rs", &read).expect("a crate")
    }

    /// Names of the modules that define the things that a path in `a.rs` names.
    fn definers(files: &[(&str, &str)], path: &str) -> Vec<String> {
        let krate = crate_of(files);
        let file = krate.files.iter().position(|file| file.name == "src/a.rs").expect("a.rs");
        let path: Vec<String> = path.split("::").map(str::to_owned).collect();
        let targets = krate.resolve(file, 0, &path);
        targets
            .into_iter()
            .map(|target| match target {
                Target::Item(file) => krate.module_name(file),
                Target::Module(file, _) => format!("module {}", krate.module_name(file)),
            })
            .collect()
    }

    const TREE: [(&str, &str); 4] = [
        (
            "lib.rs",
            "mod a; mod b; pub use b::Deep; pub use b::c as other; fn of_root() {}
            macro_rules! m { () => {} }",
        ),
        ("a.rs", "use crate::b::{self, c::Deep as Renamed}; use std::fmt; use b::*;"),
        ("b.rs", "mod c; pub use c::*; pub use self::c::Deep; pub fn of_b() {}"),
        ("b/c.rs", "pub struct Deep; #[macro_export] macro_rules! exported { () => {} }"),
    ];

    #[test]
    fn a_re_export_leads_to_the_definition() {
        assert_eq!(definers(&TREE, "crate::b::c::Deep"), ["b::c"]);
        assert_eq!(definers(&TREE, "crate::b::Deep"), ["b::c"]);
        assert_eq!(definers(&TREE, "crate::Deep"), ["b::c"]);
        assert_eq!(definers(&TREE, "crate::Deep::new"), ["b::c"]);
        assert_eq!(definers(&TREE, "super::other::Deep"), ["b::c"]);
        assert_eq!(definers(&TREE, "Renamed::new"), ["b::c"]);
        assert_eq!(definers(&TREE, "b::Deep"), ["b::c"]);
        assert_eq!(definers(&TREE, "crate::exported"), ["b::c"]);
    }

    #[test]
    fn a_path_leads_to_its_module() {
        assert_eq!(definers(&TREE, "b::of_b"), ["b"]);
        assert_eq!(definers(&TREE, "of_b::x"), ["b"]);
        assert_eq!(definers(&TREE, "crate::of_root"), ["lib.rs"]);
        assert_eq!(definers(&TREE, "crate::m"), ["lib.rs"]);
        assert_eq!(definers(&TREE, "crate::b"), ["module b"]);
        assert_eq!(definers(&TREE, "crate::b::c"), ["module b::c"]);
        assert_eq!(definers(&TREE, "crate::b::written_by_a_macro"), ["b"]);
        assert_eq!(definers(&TREE, "fmt::Write"), [""; 0]);
        assert_eq!(definers(&TREE, "std::fmt::Write"), [""; 0]);
    }

    #[test]
    fn re_exports_of_one_another_end() {
        let tree = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "pub use super::b::X;"),
            ("b.rs", "pub use super::a::X;"),
        ];
        assert_eq!(definers(&tree, "crate::b::X"), [""; 0]);
    }

    #[test]
    fn a_module_without_a_file_is_an_error() {
        let read = |name: &str| (name == "src/lib.rs").then(|| "mod gone;".to_owned());
        let error = Crate::load("src/lib.rs", &read).expect_err("no file");
        assert!(error.contains("gone"), "{error}");
    }
}
