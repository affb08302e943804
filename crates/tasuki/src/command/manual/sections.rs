//! What all pages have.

use clap_mangen::roff::{Roff, bold, roman};

/// The pages' foot.
pub(super) const SOURCE: &str = concat!("tasuki ", env!("CARGO_PKG_VERSION"));

/// Lines as they are.
pub(super) fn verbatim(page: &mut Roff, text: &str) {
    page.control("nf", []);
    for line in text.lines() {
        page.text([roman(line)]);
    }
    page.control("fi", []);
}

/// Names, and what each is.
pub(super) fn definitions(page: &mut Roff, title: &str, all: &[(&str, &str)]) {
    page.control("SH", [title]);
    for (name, what) in all {
        page.control("TP", []);
        page.text([bold(*name)]);
        page.text([roman(*what)]);
    }
}
