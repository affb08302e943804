//! nbdkit's functions in tests, where there is no nbdkit.

use std::cell::RefCell;
use std::ffi::c_void;

use libc::c_int;

thread_local! {
    /// What this thread was told.
    static TOLD: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// What this thread was told since the last call.
pub(crate) fn told() -> Vec<String> {
    TOLD.take()
}

pub(crate) fn error(sentence: &str) {
    TOLD.with_borrow_mut(|told| told.push(format!("error: {sentence}")));
}

pub(crate) fn debug(sentence: &str) {
    TOLD.with_borrow_mut(|told| told.push(format!("debug: {sentence}")));
}

pub(crate) fn set_error(errno: c_int) {
    TOLD.with_borrow_mut(|told| told.push(format!("errno: {errno}")));
}

pub(crate) fn shut_down() {
    TOLD.with_borrow_mut(|told| told.push("shut down".to_owned()));
}

pub(crate) fn is_input_free() -> bool {
    false
}

pub(crate) fn is_over() -> bool {
    false
}

pub(crate) fn add_extent(_extents: *mut c_void, offset: u64, len: u64, kind: u32) -> bool {
    TOLD.with_borrow_mut(|told| told.push(format!("extent: {offset} {len} {kind}")));
    true
}
