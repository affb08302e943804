//! The source tree keeps its own rules: sizes, safety policy, the order of modules, no dead files,
//! no hidden documents.
//!
//! `cargo test -p tasuki-tests --test tidy -- --nocapture` also prints a table of the crates'
//! modules and functions. `TASUKI_TIDY_ROOT` names another checkout to look at.
//!
//! ```text layers
//! structure: the rules on modules and type names, with their exceptions, and the table
//! sizes policy documents: the other rules
//! graph: imports between the modules of a crate, and the circles they make
//! layers: the order of modules that a crate's root declares
//! krate: the modules of a crate, and where a path leads
//! source: what the text of a file declares and names
//! tree: the files of the source tree
//! ```

mod documents;
mod graph;
mod krate;
mod layers;
mod policy;
mod sizes;
mod source;
mod structure;
mod tree;
