//! The page: its parts in order, with style and script inside.

use std::fmt::Write as _;

use base64ct::{Base64, Encoding as _};
use sha2::{Digest as _, Sha256};

use super::escape::{json, text};
use super::findings::sentences;
use super::number::short;
use super::units::machine_units;
use super::view::{FigureView, PageData};
use super::{picture, table};
use crate::results::{FigureKind, Results, Sample};
use crate::statistics::median_interval;

const STYLE: &str = include_str!("page.css");
/// The kinds of figures that are no lines, pictures and units, then the page, which knows them all.
const SCRIPT: &str = concat!(
    include_str!("heat.js"),
    include_str!("stacks.js"),
    include_str!("timeline.js"),
    include_str!("picture.js"),
    include_str!("units.js"),
    include_str!("page.js")
);

/// The whole page.
pub(super) fn html(results: &Results, experiments: &[Vec<FigureView>]) -> String {
    let mut html = head();
    html.push_str("<body>\n<header><h1>Tasuki lab report</h1>\n");
    html.push_str(
        "<button type=\"button\" id=\"theme\" hidden>Theme: as the system</button></header>\n\
         <main>\n",
    );
    html.push_str("<section id=\"findings\"><h2>What was found</h2>\n");
    list(&mut html, &sentences(results, experiments));
    html.push_str("</section>\n");
    contents(&mut html, results, experiments);
    for (experiment, figures) in results.experiments.iter().zip(experiments) {
        let _ = writeln!(html, "<section><h2>{}</h2>", text(&experiment.title));
        list(&mut html, &experiment.findings);
        for figure in figures {
            one_figure(&mut html, figure);
        }
        html.push_str("</section>\n");
    }
    machine(&mut html, results);
    html.push_str("</main>\n");
    let data = PageData {
        figures: experiments.iter().flatten().map(FigureView::data).collect(),
        units: machine_units(&results.machine.calibration),
    };
    // Names are text and numbers are finite: encoding cannot fail.
    let data = serde_json::to_string(&data).unwrap_or_else(|_| "{}".to_owned());
    let _ = writeln!(
        html,
        "<script type=\"application/json\" id=\"data\">{}</script>\n<script>{SCRIPT}</script>\n\
         </body>\n</html>",
        json(&data)
    );
    html
}

/// Sentences, each with a dot before it.
fn list(html: &mut String, sentences: &[String]) {
    if sentences.is_empty() {
        return;
    }
    html.push_str("<ul>\n");
    for sentence in sentences {
        let _ = writeln!(html, "<li>{}</li>", text(sentence));
    }
    html.push_str("</ul>\n");
}

fn head() -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src {}; script-src {}; img-src data:; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <link rel=\"icon\" href=\"data:,\">\n\
         <title>Tasuki lab report</title>\n<style>{STYLE}</style>\n</head>\n",
        hash(STYLE),
        hash(SCRIPT)
    )
}

/// As a policy names what is inside of the page.
fn hash(content: &str) -> String {
    format!("'sha256-{}'", Base64::encode_string(&Sha256::digest(content)))
}

fn contents(html: &mut String, results: &Results, experiments: &[Vec<FigureView>]) {
    html.push_str("<nav aria-label=\"Figures\"><h2>Figures</h2>\n<ul>\n");
    for (experiment, figures) in results.experiments.iter().zip(experiments) {
        let _ = writeln!(html, "<li>{}<ul>", text(&experiment.title));
        for figure in figures {
            let _ =
                writeln!(html, "<li><a href=\"#{}\">{}</a></li>", figure.id, text(&figure.title));
        }
        html.push_str("</ul></li>\n");
    }
    html.push_str("<li><a href=\"#machine\">The machine</a></li>\n</ul></nav>\n");
}

fn one_figure(html: &mut String, figure: &FigureView) {
    let (id, title) = (&figure.id, text(&figure.title));
    let _ = writeln!(
        html,
        "<article id=\"{id}\"><h3>{title}</h3>\n<p class=\"about\">{} by {}; {}.{}{}</p>\n\
         <div class=\"plot\" data-figure=\"{id}\">\
         <noscript>{}</noscript></div>{}",
        text(values(figure)),
        text(&axes(figure)),
        figure.better(),
        drawn(figure.kind),
        figure.base.as_ref().map_or(String::new(), |base| {
            format!(" × is the ratio to {} within rounds.", text(base))
        }),
        picture::svg(figure),
        figure.noise_note().map_or(String::new(), |note| {
            format!("\n<p class=\"about noise\">{}</p>", text(&note))
        }),
    );
    let _ = writeln!(
        html,
        "<details open><summary>Table</summary>{}</details>\n\
         <p class=\"command\">Measure this again: <code>{}</code></p></article>",
        table::html(figure),
        text(&figure.command)
    );
}

/// What lies on the axes.
fn axes(figure: &FigureView) -> String {
    match &figure.second {
        Some(second) => format!("{} and {}", figure.x_title, second.title),
        None => figure.x_title.clone(),
    }
}

/// What is drawn by the axis.
fn values(figure: &FigureView) -> &str {
    if figure.kind == FigureKind::Timeline { "What happened" } else { &figure.unit }
}

/// What a reader has to know of the kind of figure.
fn drawn(kind: FigureKind) -> &'static str {
    match kind {
        FigureKind::Lines => " A bar is the 95 % interval of a median.",
        FigureKind::Histogram => "",
        FigureKind::HeatMap => " Each cell has the median; all maps have one scale of colours.",
        FigureKind::StackedBars => " Each part has the number that the legend gives its name.",
        FigureKind::Timeline => " A line is a packet, a bar is work that took as long.",
    }
}

fn machine(html: &mut String, results: &Results) {
    let (machine, made) = (&results.machine, &results.made);
    html.push_str("<section id=\"machine\"><h2>The machine</h2>\n<table><tbody>\n");
    let mut row = |name: &str, value: &str| {
        let (name, value) = (text(name), text(value));
        let _ = writeln!(html, "<tr><th scope=\"row\">{name}</th><td>{value}</td></tr>");
    };
    row("System", &machine.system);
    row("Processor", &machine.processor);
    row("Processors", &machine.processors.to_string());
    for (name, value) in &machine.properties {
        row(name, value);
    }
    row("Build", &made.tasuki);
    row("Measured by", &made.by);
    row("Command", &made.command);
    row("Began, seconds since 1970", &made.began.to_string());
    row("Seconds", &made.seconds.to_string());
    if let Some(partial) = &results.partial {
        row("Not complete", partial);
    }
    html.push_str("</tbody></table>\n");
    if machine.calibration.is_empty() {
        html.push_str("</section>\n");
        return;
    }
    html.push_str(
        "<h3>What was measured of it</h3>\n<table><thead><tr><th scope=\"col\">what</th>\
         <th scope=\"col\">median</th><th scope=\"col\">95 % interval</th>\
         <th scope=\"col\">most</th></tr></thead><tbody>\n",
    );
    for calibration in &machine.calibration {
        let cells = cells(&calibration.samples, &calibration.unit);
        let name = text(&calibration.name);
        let _ = writeln!(html, "<tr><th scope=\"row\">{name}</th>{cells}</tr>");
    }
    html.push_str("</tbody></table></section>\n");
}

fn cells(samples: &[Sample], unit: &str) -> String {
    let values: Vec<f64> = samples.iter().map(|sample| sample.value).collect();
    let most = values.iter().copied().fold(0.0, f64::max);
    median_interval(&values).map_or("<td></td><td></td><td></td>".to_owned(), |it| {
        let (middle, low, high) = (short(it.middle), short(it.low), short(it.high));
        let (most, unit) = (short(most), text(unit));
        format!("<td>{middle} {unit}</td><td>{low} to {high}</td><td>{most}</td>")
    })
}
