//! The second paper's remedy, swept: how many bytes an area has, and how many areas one request
//! moves. A heat map for each direction.
//!
//! A request is one call of the measured program. On the native API it hands over areas, each of so
//! many bytes (`send_slices`). Unmodified programs and Linux have the same request as writev(2) and
//! readv(2) of as many parts. A program that receives gets no areas of a length of its own choice,
//! so the native API is measured for sending only. The other end is a kernel program with long
//! writes and reads.

use lab::plan::{ExperimentName, LabOptions, listed};
use lab::{Direction, Figure, FigureKind, Point, SecondAxis, Series};

use super::derived::{paper_series, ratios};
use super::experiment::{FigurePlan, bytes_axis};

/// Bytes of an area, and areas of a request.
const BYTES: [u32; 4] = [2048, 4096, 16 << 10, 64 << 10];
const AREAS: [u32; 4] = [1, 4, 16, 64];
const QUICK_BYTES: [u32; 2] = [2048, 64 << 10];
const QUICK_AREAS: [u32; 2] = [1, 16];
/// Bytes of a sample.
const TOTAL: u64 = 64 << 20;
const QUICK_TOTAL: u64 = 16 << 20;

/// Both figures: as `client --test` has the direction, and a title.
const DIRECTIONS: [(&str, &str); 2] = [
    ("send", "Send, by bytes of an area and areas of a request"),
    ("receive", "Receive, by bytes of an area and areas of a request"),
];
/// The second paper's rates in relation to its areas of 2,048 bytes one by one. Of several areas of
/// 2,048 bytes it gives the best rate alone: it stands at 16 areas.
const PAPER: &str = "paper 2: rump kernel";
const PAPER_SEND: [(f64, f64, f64); 4] =
    [(2048.0, 1.0, 1.0), (2048.0, 16.0, 1.959), (4096.0, 1.0, 1.403), (4096.0, 16.0, 2.292)];
const PAPER_RECEIVE: [(f64, f64, f64); 6] = [
    (2048.0, 1.0, 1.0),
    (2048.0, 4.0, 1.0),
    (2048.0, 8.0, 1.0),
    (2048.0, 16.0, 1.0),
    (4096.0, 1.0, 0.661),
    (4096.0, 16.0, 0.661),
];

/// See the module.
pub(super) struct UnitSweep {
    /// Bytes and areas of each cell.
    cells: Vec<(u32, u32)>,
    words: String,
    total: u64,
}

impl UnitSweep {
    /// As the options say. Those who ask for sizes of writes alone get no cells.
    pub(super) fn new(options: &LabOptions) -> Self {
        let is_wanted = options.size.is_none() || options.unit.is_some() || options.areas.is_some();
        let quick = options.quick;
        let (bytes, areas, total) = if quick {
            (&QUICK_BYTES[..], &QUICK_AREAS[..], QUICK_TOTAL)
        } else {
            (&BYTES[..], &AREAS[..], TOTAL)
        };
        let [bytes, areas] = [(&options.unit, bytes), (&options.areas, areas)]
            .map(|(given, usual)| given.as_ref().map_or(usual, |places| places.all()));
        let kept = options.kept_words(ExperimentName::Throughput);
        let words = format!("throughput --unit {} --areas {}{kept}", listed(bytes), listed(areas));
        let cells = bytes.iter().flat_map(|bytes| areas.iter().map(|areas| (*bytes, *areas)));
        let cells = if is_wanted { cells.collect() } else { Vec::new() };
        Self { cells, words, total }
    }

    /// Without any cell, for experiments that have none.
    pub(super) fn none() -> Self {
        Self { cells: Vec::new(), words: String::new(), total: 0 }
    }

    /// Bytes and areas of each cell.
    pub(super) fn cells(&self) -> &[(u32, u32)] {
        &self.cells
    }

    /// A cell for people.
    pub(super) fn title((bytes, areas): (u32, u32)) -> String {
        format!("{} × {areas}", lab::report::place(f64::from(bytes), "B"))
    }

    /// One for each direction.
    pub(super) fn plans(&self, base: Option<&'static str>) -> Vec<FigurePlan> {
        if self.words.is_empty() {
            return Vec::new();
        }
        let plan = |(name, title): &(&str, &str)| FigurePlan {
            name: format!("{name}-units"),
            title: (*title).to_owned(),
            axis: bytes_axis("bytes of an area"),
            unit: "MiB/s",
            direction: Direction::Higher,
            base,
            words: self.words.clone(),
            is_judged: true,
            kind: FigureKind::HeatMap,
            second: Some(SecondAxis {
                title: "areas of a request".to_owned(),
                ..SecondAxis::default()
            }),
        };
        DIRECTIONS.iter().map(plan).collect()
    }

    /// The directions that a set-up is measured in, as `client --test` has them, each with its
    /// figure's place among [`UnitSweep::plans`].
    pub(super) fn tests(is_native: bool) -> impl Iterator<Item = (usize, &'static str)> {
        let tests = DIRECTIONS.iter().map(|(test, _)| *test).enumerate();
        tests.take(if is_native { 1 } else { DIRECTIONS.len() })
    }

    /// The words of a client.
    pub(super) fn client(&self, test: &str, (bytes, areas): (u32, u32)) -> Vec<String> {
        vec![
            format!("--test={test}"),
            format!("--size={bytes}"),
            format!("--pieces={areas}"),
            format!("--bytes={}", self.total),
        ]
    }

    /// Adds both directions in relation to the least areas one by one, beside the paper's.
    pub(super) fn conclude(figures: &mut Vec<Figure>) {
        for ((test, title), paper) in DIRECTIONS.iter().zip([&PAPER_SEND[..], &PAPER_RECEIVE[..]]) {
            let name = format!("{test}-units");
            let found = figures.iter().find(|figure| figure.name == name);
            let relative = found.and_then(|figure| relative(figure, title, paper));
            figures.extend(relative);
        }
    }
}

/// In relation to the first cell, within rounds; `None` with a single cell.
fn relative(figure: &Figure, title: &str, paper: &[(f64, f64, f64)]) -> Option<Figure> {
    let (x, y) = (*figure.places().first()?, *figure.second_places().first()?);
    let all = figure.series.iter().filter_map(|series| {
        let unit = series.at(x, y)?;
        let points: Vec<Point> =
            series.points.iter().filter_map(|point| ratios(point, unit)).collect();
        (points.len() > 1).then(|| Series { points, ..series.clone() })
    });
    let mut series: Vec<Series> = all.collect();
    if series.is_empty() {
        return None;
    }
    if paper.first().is_some_and(|first| (first.0, first.1) == (x, y)) {
        series.push(paper_series(PAPER, paper));
    }
    let at = UnitSweep::title((x as u32, y as u32));
    Some(Figure {
        name: format!("{}-relative", figure.name),
        title: format!("{title}, in relation to {at}"),
        unit: format!("times that at {at}"),
        base: None,
        series,
        ..figure.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_what_the_options_say() {
        let places = |all: &[u32]| lab::plan::Places::new(all.to_vec());
        let of = |options: &LabOptions| UnitSweep::new(options);
        let usual = LabOptions::default();
        assert_eq!(of(&usual).cells().len(), 16);
        let sizes = LabOptions { size: places(&[1024]), ..LabOptions::default() };
        assert_eq!(of(&sizes).cells(), []);
        let both = LabOptions { unit: places(&[4096]), areas: places(&[1, 8]), ..sizes };
        assert_eq!(of(&both).cells(), [(4096, 1), (4096, 8)]);
        assert_eq!(of(&both).words, "throughput --unit 4096 --areas 1,8");
    }

    #[test]
    fn relations_are_to_the_first_cell_and_the_paper_is_beside_them() {
        let mut figure = UnitSweep::new(&LabOptions::default()).plans(None)[0].figure();
        let measured = [(2048.0, 1.0, 50.0), (2048.0, 4.0, 100.0), (4096.0, 1.0, 75.0)];
        figure.series = vec![Series { reference: false, ..paper_series("split", &measured) }];
        let mut figures = vec![figure];
        UnitSweep::conclude(&mut figures);
        let relative = &figures[1];
        assert_eq!(relative.name, "send-units-relative");
        assert_eq!(relative.unit, "times that at 2 KiB × 1");
        let values: Vec<f64> = relative.series[0].points.iter().flat_map(Point::values).collect();
        assert_eq!(values, [1.0, 2.0, 1.5]);
        assert!(relative.series[1].reference);
    }
}
