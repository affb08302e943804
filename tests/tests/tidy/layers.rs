//! The order of a crate's top-level modules, which its root declares in its head comment:
//!
//! ```text
//! //! ```text layers
//! //! stack: joins the layers
//! //! tcp udp: the transports; they do not import each other
//! //! ip: addresses, routes
//! //! ```
//! ```
//!
//! A module imports only from lines below its own. A line that begins with a space continues the
//! explanation before it.

use std::collections::BTreeMap;

use crate::graph::Graph;
use crate::krate::Crate;

/// The declared order: each module's line, the top one being 0.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Layers {
    lines: BTreeMap<String, usize>,
}

impl Layers {
    /// Reads the fence in the head comment of a crate's root; `None` if there is none. The list has
    /// the modules that are named twice.
    pub(crate) fn parse(text: &str) -> Option<(Layers, Vec<String>)> {
        let head = text.lines().map_while(|line| line.strip_prefix("//!"));
        let mut fence = head.skip_while(|line| line.trim() != "```text layers");
        fence.next()?;
        let mut lines = BTreeMap::new();
        let mut doubled = Vec::new();
        for (number, line) in fence.take_while(|line| line.trim() != "```").enumerate() {
            let line = line.strip_prefix(' ').unwrap_or(line);
            if line.starts_with(' ') {
                continue;
            }
            for name in line.split(':').next().unwrap_or_default().split_whitespace() {
                if lines.insert(name.to_owned(), number).is_some() {
                    doubled.push(name.to_owned());
                }
            }
        }
        Some((Layers { lines }, doubled))
    }

    /// Modules of the crate that the order does not name, and names in it that are no modules.
    pub(crate) fn mismatches(&self, krate: &Crate) -> (Vec<String>, Vec<String>) {
        let root = &krate.files[0].source.scopes[0];
        let modules: Vec<&String> = root.declared.iter().chain(root.inline.keys()).collect();
        let unnamed =
            modules.iter().filter(|name| !self.lines.contains_key(**name)).map(ToString::to_string);
        let unknown = self.lines.keys().filter(|name| !modules.contains(name)).cloned();
        (unnamed.collect(), unknown.collect())
    }

    /// Imports against the order, as files. Imports of things that the root defines are such too.
    pub(crate) fn upward(&self, krate: &Crate, graph: &Graph) -> Vec<(usize, usize)> {
        let line = |file: usize| {
            let top = krate.files[file].module.first()?;
            Some((top, self.lines.get(top)))
        };
        let is_upward = |(from, to): &&(usize, usize)| match (line(*from), line(*to)) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some((a, _)), Some((b, _))) if a == b => false,
            (Some((_, Some(a))), Some((_, Some(b)))) => a >= b,
            _ => false,
        };
        graph.imports.keys().filter(is_upward).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::krate::tests::crate_of;

    const ORDER: &str = "\
//! A crate.
//!
//! ```text layers
//! top: joins
//!   the others
//! left right: side by side
//! bottom: shared
//! ```
";

    fn upward(files: &[(&str, &str)]) -> Vec<String> {
        let declarations = format!("{ORDER}mod top;\nmod left;\nmod right;\nmod bottom;\n");
        let root = ("lib.rs", &declarations[..]);
        let empty = ["top.rs", "left.rs", "right.rs", "bottom.rs"].map(|file| (file, ""));
        let krate = crate_of(&[&[root], files, &empty].concat());
        let (layers, doubled) = Layers::parse(ORDER).expect("an order");
        assert_eq!(doubled, [""; 0]);
        let upward = layers.upward(&krate, &Graph::of(&krate));
        let name = |file| krate.module_name(file);
        upward.into_iter().map(|(a, b)| format!("{} -> {}", name(a), name(b))).collect()
    }

    #[test]
    fn an_import_goes_down() {
        let down = [
            ("top.rs", "use crate::{left::A, right};\nfn f() { right::b(); }"),
            ("left.rs", "pub struct A;\nuse crate::bottom::C;"),
            ("right.rs", "pub fn b() {}"),
            ("bottom.rs", "pub struct C;"),
        ];
        assert_eq!(upward(&down), [""; 0]);
    }

    #[test]
    fn an_import_upwards_is_found() {
        let up = [("bottom.rs", "fn f() { crate::top::f() }"), ("top.rs", "pub fn f() {}")];
        assert_eq!(upward(&up), ["bottom -> top"]);
    }

    #[test]
    fn modules_on_one_line_do_not_import_each_other() {
        let across = [("left.rs", "use crate::right::A;"), ("right.rs", "pub struct A;")];
        assert_eq!(upward(&across), ["left -> right"]);
    }

    #[test]
    fn modules_inside_one_are_free_of_the_order() {
        let inside = [
            ("top.rs", "mod a;\nmod b;"),
            ("top/a.rs", "use super::b::B;"),
            ("top/b.rs", "pub struct B;"),
        ];
        assert_eq!(upward(&inside), [""; 0]);
    }

    #[test]
    fn an_order_is_held_against_the_modules() {
        let krate = crate_of(&[("lib.rs", "mod top; mod new;"), ("top.rs", ""), ("new.rs", "")]);
        let (layers, _) = Layers::parse(ORDER).expect("an order");
        let (unnamed, unknown) = layers.mismatches(&krate);
        assert_eq!(unnamed, ["new"]);
        assert_eq!(unknown, ["bottom", "left", "right"]);
        let twice = "//! ```text layers\n//! a b: x\n//! a: y\n//! ```\n";
        assert_eq!(Layers::parse(twice).expect("an order").1, ["a"]);
        assert!(Layers::parse("//! ```text\n//! a: x\n//! ```\n").is_none());
    }
}
