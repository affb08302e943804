//! What pictures of all kinds share: their width, their colours, their beginning.

use super::escape::text;
use super::view::FigureView;

/// Colours that people with any colour vision tell apart (Okabe and Ito), darker where they would
/// be too light on white.
pub(super) const COLOURS: [&str; 6] =
    ["#0072b2", "#d55e00", "#00795a", "#a8487f", "#7a6200", "#2b8fcb"];
/// Of a picture.
pub(super) const WIDTH: f64 = 760.0;
/// Where it ends, with a margin.
pub(super) const RIGHT: f64 = 740.0;

/// The beginning of a picture, with its title.
pub(super) fn opening(figure: &FigureView, height: f64) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\" role=\"img\" aria-label=\"{title}\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"20\" y=\"20\" font-size=\"15\">{title}, {unit} ({better})</text>\n",
        title = text(&figure.title),
        unit = text(&figure.unit),
        better = figure.better(),
    )
}
