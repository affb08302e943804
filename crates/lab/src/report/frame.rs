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

/// Room for the line of [`closing`].
const NOTE: f64 = 24.0;

/// The beginning of a picture that is so high, with its title. One with noisy points is higher, so
/// that what their mark means has room below.
pub(super) fn opening(figure: &FigureView, height: f64) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\" role=\"img\" aria-label=\"{title}\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"20\" y=\"20\" font-size=\"15\">{title}, {unit} ({better})</text>\n",
        title = text(&figure.title),
        unit = text(&figure.unit),
        better = figure.better(),
        height = height + figure.noise_note().map_or(0.0, |_| NOTE),
    )
}

/// The end of a picture whose own parts are so high: what the mark of a noisy point means.
pub(super) fn closing(figure: &FigureView, height: f64) -> String {
    let line =
        |note| format!("<text x=\"20\" y=\"{:.1}\">{}</text>\n", height + NOTE - 10.0, text(note));
    let note = figure.noise_note();
    note.as_deref().map(line).unwrap_or_default() + "</svg>\n"
}
