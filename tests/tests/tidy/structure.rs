//! The structure of each crate. Its modules make no circle, and imports go down the order that the
//! crate's root declares. A type's name is unique. A module with children is `x.rs` beside `x/`.
//!
//! The lists below are the exceptions, one list for each rule. An exception that is no longer
//! needed is an error too, so the lists only shrink.

use std::collections::BTreeMap;
use std::fmt::{Debug, Write as _};
use std::fs;
use std::sync::LazyLock;

use crate::graph::Graph;
use crate::krate::Crate;
use crate::krate::tests::crate_of;
use crate::layers::Layers;
use crate::tree::{complain, files, present_root, root};

/// Crates whose modules import one another in circles.
const CIRCLES: &[&str] = &[];

/// Crates whose root does not yet declare the order of its modules.
const NO_ORDER: &[&str] = &[];

/// Imports against the declared order, as crate and `from -> to`.
const UPWARD: &[(&str, &str)] = &[];

/// Type names that a crate defines twice.
const DOUBLED_TYPES: &[(&str, &str)] = &[];

/// Modules in a `mod.rs`.
const MOD_FILES: &[&str] = &[];

/// Every library and program with its name. The first of a package is named after the package's
/// folder, each other one after the file of its root.
static CRATES: LazyLock<Vec<(String, Crate)>> = LazyLock::new(|| {
    let read = |file: &str| fs::read_to_string(root().join(file)).ok();
    let mut found = Vec::new();
    for manifest in files("", &["/Cargo.toml"]) {
        // The root's own is the workspace's.
        let Some(folder) = manifest.strip_suffix("/Cargo.toml") else { continue };
        let mut roots = vec![format!("{folder}/src/lib.rs"), format!("{folder}/src/main.rs")];
        roots.extend(files(&format!("{folder}/src/bin"), &[".rs"]).into_iter().filter(|file| {
            let inner = file.rsplit_once("/bin/").expect("it is below").1;
            !inner.contains('/') || inner.ends_with("/main.rs")
        }));
        roots.retain(|file| root().join(file).exists());
        for (number, file) in roots.iter().enumerate() {
            let krate = Crate::load(file, &read).unwrap_or_else(|error| panic!("{error}"));
            let name = if number == 0 { folder } else { &file[..] };
            found.push((name.to_owned(), krate));
        }
    }
    assert!(found.len() > 10, "the crates were not found");
    found
});

/// The violations of a rule, each with the key that an exception names it by.
type Breaches<K> = Vec<(K, String)>;

/// Every breach that is no exception, and every exception that is no breach.
fn judge<K: PartialEq + Debug>(breaches: Breaches<K>, exceptions: &[K]) -> Vec<String> {
    let is_needed = |exception: &&K| breaches.iter().any(|(key, _)| key == *exception);
    let mut complaints: Vec<String> = exceptions
        .iter()
        .filter(|exception| !is_needed(exception))
        .map(|exception| format!("{exception:?} needs its exception no longer: strike it"))
        .collect();
    let unexpected = breaches.into_iter().filter(|(key, _)| !exceptions.contains(key));
    complaints.extend(unexpected.map(|(_, message)| message));
    complaints
}

fn check<K: PartialEq + Debug>(breaches: Breaches<K>, exceptions: &[K]) {
    complain(&judge(breaches, exceptions));
}

/// Pairs that own their text, from a list of exceptions.
fn owned(exceptions: &[(&str, &str)]) -> Vec<(String, String)> {
    exceptions.iter().map(|(krate, what)| ((*krate).to_owned(), (*what).to_owned())).collect()
}

fn names(exceptions: &[&str]) -> Vec<String> {
    exceptions.iter().map(ToString::to_string).collect()
}

/// Messages on the circles of a crate.
fn circles(krate: &Crate) -> Vec<String> {
    let graph = Graph::of(krate);
    let circles = graph.circles();
    circles
        .iter()
        .map(|circle| {
            let way = graph.way_round(circle);
            let steps: Vec<String> = way
                .windows(2)
                .map(|step| {
                    let import = &graph.imports[&(step[0], step[1])];
                    let (name, to) = (&krate.files[step[0]].name, krate.module_name(step[1]));
                    format!("\n      {name}:{} imports {} of {to}", import.line, import.path)
                })
                .collect();
            format!(
                "{}: {} modules import one another in a circle; move what they share into a \
                 module below them all: {}{}",
                krate.files[0].name,
                circle.len(),
                circle.iter().map(|file| krate.module_name(*file)).collect::<Vec<_>>().join(" "),
                steps.concat()
            )
        })
        .collect()
}

#[test]
fn modules_make_no_circle() {
    let mut breaches = Vec::new();
    for (name, krate) in &*CRATES {
        breaches.extend(circles(krate).into_iter().map(|message| (name.clone(), message)));
    }
    check(breaches, &names(CIRCLES));
}

/// The order that a crate's root declares; for another checkout without one, the present order.
fn layers(krate: &Crate) -> Option<(Layers, Vec<String>)> {
    let file = &krate.files[0];
    let present = || fs::read_to_string(present_root().join(&file.name)).ok();
    Layers::parse(&file.text).or_else(|| Layers::parse(&present()?))
}

#[test]
fn every_crate_declares_the_order_of_its_modules() {
    let mut breaches = Vec::new();
    for (name, krate) in &*CRATES {
        let file = &krate.files[0].name;
        if krate.files.len() == 1 {
            continue;
        }
        let mut breach = |message| breaches.push((name.clone(), message));
        let Some((layers, doubled)) = layers(krate) else {
            breach(format!("{file} declares no order: add a fence ```text layers to its head"));
            continue;
        };
        let (unnamed, unknown) = layers.mismatches(krate);
        for module in unnamed {
            breach(format!("{file}: no line of the layers names module {module}: add it"));
        }
        for module in unknown {
            breach(format!("{file}: the layers name {module}, which is no module: strike it"));
        }
        for module in doubled {
            breach(format!("{file}: the layers name {module} twice: strike one"));
        }
    }
    check(breaches, &names(NO_ORDER));
}

/// Imports of a crate against its order, with `from -> to` as their keys.
fn upward(krate: &Crate) -> Breaches<String> {
    let Some((layers, _)) = layers(krate) else { return Vec::new() };
    let graph = Graph::of(krate);
    let upward = layers.upward(krate, &graph);
    upward
        .into_iter()
        .map(|(from, to)| {
            let import = &graph.imports[&(from, to)];
            let (name, line) = (&krate.files[from].name, import.line);
            let path = &import.path;
            let (from, to) = (krate.module_name(from), krate.module_name(to));
            let message = format!(
                "{name}:{line}: module {from} imports {path} of {to}, which does not stand below \
                 it in {}: move the item down, or pass it in as a value",
                krate.root_name()
            );
            (format!("{from} -> {to}"), message)
        })
        .collect()
}

#[test]
fn imports_go_down_the_declared_order() {
    let mut breaches = Vec::new();
    for (name, krate) in &*CRATES {
        let upward = upward(krate);
        breaches.extend(upward.into_iter().map(|(key, text)| ((name.clone(), key), text)));
    }
    check(breaches, &owned(UPWARD));
}

/// Types whose name a crate defines more than once, with the places.
fn doubled_types(krate: &Crate) -> BTreeMap<String, Vec<String>> {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in &krate.files {
        for (name, line) in &file.source.types {
            places.entry(name.clone()).or_default().push(format!("{}:{line}", file.name));
        }
    }
    places.retain(|_, places| places.len() > 1);
    places
}

#[test]
fn type_names_are_unique_in_their_crate() {
    let mut breaches = Vec::new();
    for (name, krate) in &*CRATES {
        for (doubled, places) in doubled_types(krate) {
            let places = places.join(", ");
            let message = format!("type {doubled} is defined twice, rename one: {places}");
            breaches.push(((name.clone(), doubled), message));
        }
    }
    check(breaches, &owned(DOUBLED_TYPES));
}

/// Cargo needs a `mod.rs` where several integration tests share a module, and nowhere else.
#[test]
fn a_module_with_children_stands_beside_its_folder() {
    let mut breaches = Vec::new();
    for file in files("", &["/mod.rs"]) {
        let folder = file.strip_suffix("/mod.rs").expect("its ending");
        if !file.contains("/src/") && file.contains("/tests/") {
            continue;
        }
        breaches.push((file.clone(), format!("{file}: rename it to {folder}.rs")));
    }
    check(breaches, &names(MOD_FILES));
}

/// Value of a sorted list below which that many percent of it lie.
fn percentile(sorted: &[usize], percent: usize) -> usize {
    sorted.get(sorted.len() * percent / 100).or(sorted.last()).copied().unwrap_or(0)
}

/// The table of all crates; `tests/` and other test code does not count.
fn table() -> String {
    let mut text = format!(
        "{:40} {:>7} {:>7} {:>6} {:>7} {:>8} {:>6} {:>9} {:>6}  {}\n",
        "crate",
        "modules",
        "imports",
        "upward",
        "circles",
        "in them",
        "types",
        "doubled",
        "fns",
        "lines: median, 90th, longest"
    );
    let mut all = Vec::new();
    for (name, krate) in &*CRATES {
        let graph = Graph::of(krate);
        let circles = graph.circles();
        let sizes: Vec<String> = circles.iter().map(|circle| circle.len().to_string()).collect();
        let inside: usize = circles.iter().map(|circle| graph.within(circle)).sum();
        let upward = layers(krate).map_or("-".to_owned(), |_| upward(krate).len().to_string());
        let types: usize = krate.files.iter().map(|file| file.source.types.len()).sum();
        let mut functions: Vec<usize> =
            krate.files.iter().flat_map(|file| file.source.functions.iter().copied()).collect();
        functions.sort_unstable();
        let _ = writeln!(
            text,
            "{name:40} {:>7} {:>7} {upward:>6} {:>7} {inside:>8} {types:>6} {:>9} {:>6}  {}",
            krate.files.len(),
            graph.imports.len(),
            if sizes.is_empty() { "0".to_owned() } else { sizes.join("+") },
            doubled_types(krate).len(),
            functions.len(),
            lengths(&functions)
        );
        all.extend(functions);
    }
    all.sort_unstable();
    let _ = writeln!(text, "all functions: {}, lines {}", all.len(), lengths(&all));
    text
}

fn lengths(sorted: &[usize]) -> String {
    format!(
        "{}, {}, {}",
        percentile(sorted, 50),
        percentile(sorted, 90),
        sorted.last().copied().unwrap_or(0)
    )
}

/// Prints the figures; they are a rule of no kind.
#[test]
fn figures() {
    println!("{}", table());
}

#[test]
fn a_doubled_type_is_found() {
    let krate = crate_of(&[
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "struct A; struct B; #[cfg(test)] mod tests { struct A; }"),
        ("b.rs", "enum A {}\nimpl Iterator for A { type B = u8; }"),
    ]);
    let doubled = doubled_types(&krate);
    assert_eq!(doubled.keys().collect::<Vec<_>>(), ["A"]);
    assert_eq!(doubled["A"], ["src/a.rs:1", "src/b.rs:1"]);
}

#[test]
fn messages_say_what_to_do() {
    let order = "//! ```text layers\n//! a: x\n//! b: y\n//! ```\nmod a; mod b;";
    let krate = crate_of(&[
        ("lib.rs", order),
        ("a.rs", "pub struct A(crate::b::B);"),
        ("b.rs", "use crate::a::A;\npub struct B;"),
    ]);
    let breaches = upward(&krate);
    assert_eq!(breaches[0].0, "b -> a");
    assert!(breaches[0].1.contains("src/b.rs:1: module b imports crate::a::A of a"));
    let circle = circles(&krate).concat();
    assert!(circle.contains("2 modules"), "{circle}");
    assert!(circle.contains("src/a.rs:1 imports crate::b::B of b"), "{circle}");
}

#[test]
fn a_breach_and_an_exception_belong_together() {
    let breach = || vec![("a", "what to do".to_owned())];
    assert_eq!(judge(breach(), &["a"]), [""; 0]);
    assert_eq!(judge(breach(), &[]), ["what to do"]);
    assert_eq!(judge(breach(), &["a", "b"]), ["\"b\" needs its exception no longer: strike it"]);
}
