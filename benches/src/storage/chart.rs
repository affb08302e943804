//! Lines over the size of a record or block, as the pictures of `storage` have them.

use anyhow::Result;
use plotters::coord::Shift;
use plotters::prelude::*;

/// A line of a [`Chart`].
pub(super) struct ChartLine {
    pub(super) name: String,
    /// KiB, and the figure.
    pub(super) points: Vec<(f64, f64)>,
    pub(super) colour: RGBColor,
}

/// A chart with a logarithmic axis of sizes, and one of a figure that begins at 0.
pub(super) struct Chart<'a> {
    pub(super) title: &'a str,
    pub(super) sizes: &'a str,
    pub(super) figure: &'a str,
    /// The least size, KiB.
    pub(super) least: f64,
    pub(super) legend: SeriesLabelPosition,
}

impl Chart<'_> {
    /// Draws it.
    pub(super) fn draw(
        self,
        area: &DrawingArea<SVGBackend<'_>, Shift>,
        lines: Vec<ChartLine>,
    ) -> Result<()> {
        let all = || lines.iter().flat_map(|line| &line.points);
        let most = all().map(|(_, figure)| *figure).fold(1.0, f64::max);
        let largest = all().map(|(size, _)| *size).fold(2.0 * self.least, f64::max);
        let mut chart = ChartBuilder::on(area)
            .caption(self.title, ("sans-serif", 20))
            .margin(12)
            .x_label_area_size(44)
            .y_label_area_size(52)
            .build_cartesian_2d((self.least..largest).log_scale(), 0.0..most * 1.25)?;
        chart
            .configure_mesh()
            .x_desc(self.sizes)
            .y_desc(self.figure)
            .x_label_formatter(&|kib| format!("{kib:.0}"))
            .draw()?;
        for ChartLine { name, points, colour } in lines {
            let line = LineSeries::new(points.iter().copied(), colour.stroke_width(2));
            chart
                .draw_series(line)?
                .label(name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour));
            chart
                .draw_series(points.iter().map(|point| Circle::new(*point, 3, colour.filled())))?;
        }
        chart
            .configure_series_labels()
            .position(self.legend)
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK)
            .draw()?;
        Ok(())
    }
}
