//! The marks that callgrind counts by: the functions that it gets by name, and the end of a row.

use std::cell::Cell;

use serde::{Deserialize, Serialize};

/// The configuration of an instance.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kind {
    /// With super-segments and no checksums.
    pub(crate) offload: bool,
    pub(crate) strict: bool,
    /// `[memory] share_frames`.
    pub(crate) shared: bool,
}

/// The part of the instance whose instructions a row has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Party {
    Core,
    Program,
    Server,
    Driver,
}

/// A row as `run` says it.
#[derive(Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) title: String,
    pub(crate) part: Party,
    /// Operations that were counted.
    pub(crate) operations: u32,
}

/// Operations that are counted, after as many that are not.
pub(crate) const OPERATIONS: u32 = 12;

thread_local! {
    /// As callgrind, which counts each thread by itself.
    static COUNTING: Cell<bool> = const { Cell::new(false) };
}

/// Counts the instructions of `act`.
pub(crate) fn measured<T>(act: impl FnOnce() -> T) -> T {
    COUNTING.set(true);
    let done = counted_here(act);
    COUNTING.set(false);
    done
}

/// As [`measured`] if `on`, else without counting.
pub(crate) fn count<T>(on: bool, act: impl FnOnce() -> T) -> T {
    if on { measured(act) } else { act() }
}

/// Leaves `act` out of the count around it.
pub(crate) fn aside<T>(act: impl FnOnce() -> T) -> T {
    if COUNTING.get() { left_out_here(act) } else { act() }
}

#[inline(never)]
pub(crate) fn counted_here<T>(act: impl FnOnce() -> T) -> T {
    act()
}

#[inline(never)]
pub(crate) fn left_out_here<T>(act: impl FnOnce() -> T) -> T {
    act()
}

/// All since the last row was this one.
pub(crate) fn row(title: &str, part: Party, operations: u32) {
    row_ends_here(&Row { title: title.to_owned(), part, operations });
}

#[inline(never)]
pub(crate) fn row_ends_here(row: &Row) {
    println!("{}", serde_json::to_string(row).expect("strings and numbers"));
}
