//! A figure as SVG, each kind in its own way.

use super::view::FigureView;
use super::{heat, plot, stacks, timeline};
use crate::results::FigureKind;

/// The picture.
pub(super) fn svg(figure: &FigureView) -> String {
    match figure.kind {
        FigureKind::Lines | FigureKind::Histogram => plot::svg(figure),
        FigureKind::HeatMap => heat::svg(figure),
        FigureKind::StackedBars => stacks::svg(figure),
        FigureKind::Timeline => timeline::svg(figure),
    }
}
