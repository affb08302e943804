//! A report of a results file: one HTML page that needs no network and no other file, and beside it
//! a plot (SVG) and all samples (CSV) of each figure.
//!
//! The page has everything in it: findings in sentences, the machine, plots, tables, commands. Its
//! script draws the plots out of data in the page, so that they zoom, pan and hide series. Where no
//! script runs, the plots of `picture` are shown, which are also the files beside the page.
//!
//! All text out of the results is escaped. Besides, the page's policy (Content-Security-Policy)
//! lets the browser run nothing but the page's own script, which it names by its hash, and load
//! nothing from anywhere.

mod escape;
mod findings;
mod frame;
mod heat;
mod number;
mod page;
mod picture;
mod plot;
mod scale;
mod stacks;
mod table;
#[cfg(test)]
mod tests;
mod timeline;
mod units;
mod view;

pub use self::number::place;
use crate::results::{Figure, Results};

/// A file of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportFile {
    /// Its name, of a-z, 0-9, `-` and `.`.
    pub name: String,
    /// What is in it.
    pub content: String,
}

impl ReportFile {
    /// Is it a plot, and an SVG file?
    #[must_use]
    pub fn is_plot(&self) -> bool {
        self.name.ends_with(".svg")
    }
}

/// The name of the page among [`files`].
pub const PAGE: &str = "report.html";

/// The page and the files beside it.
#[must_use]
pub fn files(results: &Results) -> Vec<ReportFile> {
    let mut files = vec![ReportFile { name: PAGE.to_owned(), content: page(results) }];
    for experiment in &results.experiments {
        for figure in &experiment.figures {
            let name = view::id(&experiment.name, &figure.name);
            files.push(ReportFile { name: format!("{name}.svg"), content: plot_svg(figure) });
            files.push(ReportFile { name: format!("{name}.csv"), content: figure.csv() });
        }
    }
    files
}

/// The page.
#[must_use]
pub fn page(results: &Results) -> String {
    page::html(results, &view::view(results))
}

/// One plot as a file of its own.
#[must_use]
pub fn plot_svg(figure: &Figure) -> String {
    picture::svg(&view::of_figure("", figure))
}

/// At most six sentences that say what was found.
#[must_use]
pub fn findings(results: &Results) -> Vec<String> {
    findings::sentences(results, &view::view(results))
}
