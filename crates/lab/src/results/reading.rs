//! From text to checked [`Results`]. Types are checked by serde, which tells the path of the field;
//! values, names and numbers are checked here. Sizes are bounded, so that a hostile file costs
//! bounded memory and time.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::invalid::InvalidResults;
use super::schema::{
    Calibration, FORMAT, Figure, FigureKind, Point, Results, Sample, SecondAxis, Series, VERSION,
};

/// The longest file, bytes.
pub const MOST_FILE_BYTES: usize = 64 << 20;
/// The most figures of all experiments together.
pub const MOST_FIGURES: usize = 1000;
/// The most series of a figure.
pub const MOST_SERIES: usize = 64;
/// The most points of a figure.
pub const MOST_FIGURE_POINTS: usize = 10_000;
/// The most samples of a file.
pub const MOST_SAMPLES: usize = 200_000;
/// The longest name or title, characters.
pub const MOST_NAME: usize = 300;
/// The longest name of an experiment or figure, of which names of files are made.
const MOST_FILE_NAME: usize = 80;
/// The greatest value: beyond it sums and ratios could overflow.
const MOST_VALUE: f64 = 1e100;

type Checked = Result<(), InvalidResults>;

/// What tells a results file from others.
#[derive(Deserialize)]
struct Head {
    format: Option<String>,
    version: Option<u32>,
}

impl Results {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn parse(text: &[u8]) -> Result<Self, InvalidResults> {
        if text.len() > MOST_FILE_BYTES {
            let most = MOST_FILE_BYTES >> 20;
            return Err(InvalidResults::new("", format!("a results file has at most {most} MiB")));
        }
        check_head(text)?;
        let results: Self = typed(text)?;
        results.check()?;
        Ok(results)
    }

    /// Checks all values. A measuring program calls it before it writes.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn check(&self) -> Checked {
        if self.format != FORMAT || self.version != VERSION {
            return Err(InvalidResults::new("version", format!("{FORMAT} {VERSION} is expected")));
        }
        for (at, calibration) in self.machine.calibration.iter().enumerate() {
            check_calibration(calibration, &format!("machine.calibration[{at}]"))?;
        }
        let names = self.experiments.iter().map(|experiment| &experiment.name[..]);
        check_names("experiments", names)?;
        let figures = self.experiments.iter().map(|experiment| experiment.figures.len());
        most("experiments", "figures", figures.sum(), MOST_FIGURES)?;
        let mut samples = 0;
        for (at, experiment) in self.experiments.iter().enumerate() {
            let path = format!("experiments[{at}]");
            check_file_name(&format!("{path}.name"), &experiment.name)?;
            check_text(&format!("{path}.title"), &experiment.title)?;
            for (at, finding) in experiment.findings.iter().enumerate() {
                check_text(&format!("{path}.findings[{at}]"), finding)?;
            }
            let path = format!("{path}.figures");
            check_names(&path, experiment.figures.iter().map(|figure| &figure.name[..]))?;
            for (at, figure) in experiment.figures.iter().enumerate() {
                check_figure(figure, &format!("{path}[{at}]"), &mut samples)?;
            }
        }
        Ok(())
    }
}

/// Is it a results file at all, and of this version?
fn check_head(text: &[u8]) -> Checked {
    let head: Head = serde_json::from_slice(text)
        .map_err(|error| InvalidResults::new("", format!("it is no JSON object: {error}")))?;
    match (head.format.as_deref(), head.version) {
        (Some(FORMAT), Some(VERSION)) => Ok(()),
        (Some(FORMAT), Some(other)) => Err(InvalidResults::new(
            "version",
            format!("it is {other}, and this program reads version {VERSION}"),
        )),
        (Some(FORMAT), None) => Err(InvalidResults::new("version", "it is missing")),
        (Some(_), _) => {
            let reason = format!("it is not `{FORMAT}`, so this is the file of another program");
            Err(InvalidResults::new("format", reason))
        }
        (None, _) => {
            let reason = format!("it is missing; a results file says `{FORMAT}`");
            Err(InvalidResults::new("format", reason))
        }
    }
}

fn typed(text: &[u8]) -> Result<Results, InvalidResults> {
    let mut json = serde_json::Deserializer::from_slice(text);
    let results = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let reason = error.inner().to_string();
        let path = if path == "." { String::new() } else { path };
        match reason.strip_prefix("invalid type: ") {
            Some(found) if found.contains("expected f64") => {
                InvalidResults::new(path, format!("not a number: {found}"))
            }
            _ => InvalidResults::new(path, reason),
        }
    })?;
    let rest = json.end();
    rest.map_err(|error| InvalidResults::new("", format!("more follows after the end: {error}")))?;
    Ok(results)
}

fn check_calibration(calibration: &Calibration, path: &str) -> Checked {
    check_text(&format!("{path}.name"), &calibration.name)?;
    most(path, "samples", calibration.samples.len(), MOST_SAMPLES)?;
    check_samples(&calibration.samples, path)
}

fn check_figure(figure: &Figure, path: &str, samples: &mut usize) -> Checked {
    check_file_name(&format!("{path}.name"), &figure.name)?;
    check_text(&format!("{path}.title"), &figure.title)?;
    most(path, "series", figure.series.len(), MOST_SERIES)?;
    let points = figure.series.iter().map(|series| series.points.len());
    most(path, "points", points.sum(), MOST_FIGURE_POINTS)?;
    if figure.base.is_some() && figure.base_series().is_none() {
        return Err(InvalidResults::new(format!("{path}.base"), "no series has this name"));
    }
    if figure.base.is_some() && !figure.kind.may_have_base() {
        return Err(InvalidResults::new(format!("{path}.base"), "this kind of figure has none"));
    }
    check_lanes(figure, path, samples)?;
    let parts = check_second_axis(figure, path)?;
    let path = format!("{path}.series");
    check_names(&path, figure.series.iter().map(|series| &series.name[..]))?;
    for (at, series) in figure.series.iter().enumerate() {
        let path = format!("{path}[{at}].points");
        check_series(series, &path, samples)?;
        for (at, point) in series.points.iter().enumerate() {
            if !parts.holds(point.y) {
                let reason = parts.rule();
                return Err(InvalidResults::new(format!("{path}[{at}].y"), reason));
            }
        }
    }
    Ok(())
}

/// What `y` may be in a figure.
enum SecondPlaces {
    None,
    Any,
    /// Places in a list of so many names.
    Parts(usize),
}

impl SecondPlaces {
    fn holds(&self, y: f64) -> bool {
        match self {
            Self::None => y == 0.0,
            Self::Any => true,
            Self::Parts(count) => y.fract() == 0.0 && y < *count as f64,
        }
    }

    fn rule(&self) -> String {
        match self {
            Self::None | Self::Any => "this kind of figure has no second axis".to_owned(),
            Self::Parts(count) => format!("it is no place among {count} names of parts"),
        }
    }
}

/// The second axis is there if the kind of figure has one, and names parts if they are stacked.
fn check_second_axis(figure: &Figure, path: &str) -> Result<SecondPlaces, InvalidResults> {
    let path = format!("{path}.second");
    let refused = |reason| Err(InvalidResults::new(path.clone(), reason));
    let second: &SecondAxis = match (&figure.second, figure.kind.has_second_axis()) {
        (None, false) => return Ok(SecondPlaces::None),
        (None, true) => return refused("it is missing"),
        (Some(_), false) => return refused("this kind of figure has none"),
        (Some(second), true) => second,
    };
    check_text(&format!("{path}.title"), &second.title)?;
    most(&path, "names", second.names.len(), MOST_SERIES)?;
    for (at, name) in second.names.iter().enumerate() {
        check_text(&format!("{path}.names[{at}]"), name)?;
    }
    match (figure.kind == FigureKind::StackedBars, second.names.len()) {
        (false, 0) => Ok(SecondPlaces::Any),
        (false, _) => refused("only the parts of stacked bars have names"),
        (true, 0) => refused("the parts of stacked bars have names"),
        (true, count) => Ok(SecondPlaces::Parts(count)),
    }
}

/// A timeline has lanes and nothing else; no other figure has them. A span counts as a sample.
fn check_lanes(figure: &Figure, path: &str, samples: &mut usize) -> Checked {
    let is_timeline = figure.kind == FigureKind::Timeline;
    if is_timeline && !figure.series.is_empty() {
        return Err(InvalidResults::new(format!("{path}.series"), "a timeline has lanes only"));
    }
    let path = format!("{path}.lanes");
    if figure.lanes.is_empty() == is_timeline {
        let reason = if is_timeline { "a timeline has some" } else { "only a timeline has lanes" };
        return Err(InvalidResults::new(path, reason));
    }
    most(&path, "lanes", figure.lanes.len(), MOST_SERIES)?;
    let mut seen = BTreeSet::new();
    for (at, lane) in figure.lanes.iter().enumerate() {
        let path = format!("{path}[{at}]");
        check_text(&format!("{path}.panel"), &lane.panel)?;
        check_text(&format!("{path}.name"), &lane.name)?;
        if !seen.insert((&lane.panel, &lane.name)) {
            return Err(InvalidResults::new(format!("{path}.name"), "the panel has it twice"));
        }
        let path = format!("{path}.spans");
        most(&path, "spans of a lane", lane.spans.len(), MOST_FIGURE_POINTS)?;
        *samples += lane.spans.len();
        most(&path, "samples of the file", *samples, MOST_SAMPLES)?;
        let mut before = 0.0;
        for (at, span) in lane.spans.iter().enumerate() {
            check_value(&format!("{path}[{at}].from"), span.from)?;
            check_value(&format!("{path}[{at}].until"), span.until)?;
            if span.from < before || span.until < span.from {
                let reason = "spans are in order of their begin, and none ends before it begins";
                return Err(InvalidResults::new(format!("{path}[{at}]"), reason));
            }
            before = span.from;
        }
    }
    Ok(())
}

fn check_series(series: &Series, path: &str, samples: &mut usize) -> Checked {
    let mut before = None;
    for (at, point) in series.points.iter().enumerate() {
        let path = format!("{path}[{at}]");
        check_value(&format!("{path}.x"), point.x)?;
        check_value(&format!("{path}.y"), point.y)?;
        if before.is_some_and(|before| (point.x, point.y) <= before) {
            let reason = "points are in order of x, then of y, and each is there once";
            return Err(InvalidResults::new(format!("{path}.x"), reason));
        }
        before = Some((point.x, point.y));
        check_point(point, &path)?;
        *samples += point.samples.len();
        most(&path, "samples of the file", *samples, MOST_SAMPLES)?;
    }
    Ok(())
}

fn check_point(point: &Point, path: &str) -> Checked {
    if point.samples.is_empty() {
        let reason = "a point has one sample at least";
        return Err(InvalidResults::new(format!("{path}.samples"), reason));
    }
    check_samples(&point.samples, path)
}

fn check_samples(samples: &[Sample], path: &str) -> Checked {
    let mut each = samples.iter().enumerate();
    each.try_for_each(|(at, sample)| {
        check_value(&format!("{path}.samples[{at}].value"), sample.value)
    })
}

fn check_value(path: &str, value: f64) -> Checked {
    if (0.0..=MOST_VALUE).contains(&value) {
        return Ok(());
    }
    Err(InvalidResults::new(path, format!("{value} is not between 0 and {MOST_VALUE:e}")))
}

/// Names are there, short, and unique.
fn check_names<'a>(path: &str, names: impl Iterator<Item = &'a str>) -> Checked {
    let mut seen = BTreeSet::new();
    for (at, name) in names.enumerate() {
        let path = format!("{path}[{at}].name");
        check_text(&path, name)?;
        if !seen.insert(name) {
            return Err(InvalidResults::new(path, format!("`{name}` is there twice")));
        }
    }
    Ok(())
}

/// Names of files are made of it.
fn check_file_name(path: &str, name: &str) -> Checked {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.len() <= MOST_FILE_NAME && name.chars().all(is_plain) {
        return Ok(());
    }
    let reason = format!("files are named after it: at most {MOST_FILE_NAME} of a-z, 0-9 and -");
    Err(InvalidResults::new(path, reason))
}

fn check_text(path: &str, text: &str) -> Checked {
    if text.is_empty() {
        return Err(InvalidResults::new(path, "it is empty"));
    }
    if text.chars().count() > MOST_NAME {
        return Err(InvalidResults::new(path, format!("more than {MOST_NAME} characters")));
    }
    if text.chars().any(char::is_control) {
        return Err(InvalidResults::new(path, "it has a control character"));
    }
    Ok(())
}

fn most(path: &str, what: &str, number: usize, most: usize) -> Checked {
    if number <= most {
        return Ok(());
    }
    Err(InvalidResults::new(path, format!("more than {most} {what}")))
}
