//! The speed of sealing against the size of a record, in memory: why records are large.
//!
//! Each figure is the project's own sealer (`seal`), with header, nonce and tag of every record,
//! over the same bytes cut into records of one size. The picture is an SVG file.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use plotters::prelude::*;
use seal::{HEADER_LEN, Opened, Receiver, Sealer, SessionSettings, Suite, halves_from_exporter};
use serde::{Deserialize, Serialize};

use super::chart::{Chart, ChartLine};
use crate::median::median;

/// Bytes that are sealed in a turn.
const BYTES: usize = 8 << 20;
/// Bytes that stay in the processor's caches between turns.
const BUFFER: usize = 256 << 10;
/// How long one size is measured in a round.
const TURN: Duration = Duration::from_millis(60);
const SUITES: [(Suite, &str); 2] =
    [(Suite::Aes256Gcm, "AES-256-GCM"), (Suite::ChaCha20Poly1305, "ChaCha20-Poly1305")];

/// The speed of one size of records.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct AeadRow {
    /// The cipher.
    cipher: String,
    /// Bytes of a record's content.
    bytes: usize,
    /// GiB a second, the median of the rounds.
    gib_per_second: f64,
}

/// Sizes of records: 1 to 256 KiB, and a TCP segment's 1,448 bytes.
fn sizes() -> Vec<usize> {
    let mut sizes: Vec<usize> = (10..=18).map(|power| 1 << power).collect();
    sizes.insert(1, 1448);
    sizes
}

/// Measures all sizes in turn, in each round.
pub(super) fn measure(rounds: u32) -> Result<Vec<AeadRow>> {
    let sizes = sizes();
    let mut found = vec![Vec::new(); SUITES.len() * sizes.len()];
    for _ in 0..rounds {
        for (number, (suite, _)) in SUITES.into_iter().enumerate() {
            for (place, size) in sizes.iter().enumerate() {
                found[number * sizes.len() + place].push(speed(suite, *size, TURN)?);
            }
        }
    }
    let all = SUITES.iter().flat_map(|(_, name)| sizes.iter().map(move |size| (*name, *size)));
    let rows = all.zip(found).map(|((cipher, bytes), speeds)| AeadRow {
        cipher: cipher.to_owned(),
        bytes,
        gib_per_second: median(speeds).unwrap_or(f64::NAN),
    });
    Ok(rows.collect())
}

/// GiB a second.
fn speed(suite: Suite, size: usize, turn: Duration) -> Result<f64> {
    let mut sealer = sealer(suite)?;
    let mut buffer = vec![0x5a; BUFFER];
    let mut header = [0; HEADER_LEN];
    let mut tail = vec![0; sealer.tail_len(size)];
    let (began, mut sealed) = (Instant::now(), 0_usize);
    while began.elapsed() < turn {
        for _ in 0..BYTES / BUFFER {
            for chunk in buffer.chunks_exact_mut(size) {
                let done = sealer.seal(&mut header, chunk, &mut tail);
                done.map_err(|error| anyhow!("{error}"))?;
                sealed += size;
            }
        }
    }
    Ok(sealed as f64 / f64::from(1 << 30) / began.elapsed().as_secs_f64())
}

/// GiB a second of AES-256-GCM, by records with so many bytes.
pub(crate) fn seal_speed(size: usize, turn: Duration) -> Result<f64> {
    speed(Suite::Aes256Gcm, size, turn)
}

/// A client's sealer that may send, of a session whose keys are from a fixed secret.
fn sealer(suite: Suite) -> Result<Sealer> {
    let secret = vec![7; suite.hash_len()];
    let halves = |is_client| {
        let halves = halves_from_exporter(is_client, suite, &secret, SessionSettings::default());
        halves.map_err(|error| anyhow!("{error}"))
    };
    let ((mut sealer, opener, _), (_, _, hello)) = (halves(true)?, halves(false)?);
    let mut received = Receiver::new(opener);
    received.handle_bytes(hello.as_ref());
    match received.next() {
        Ok(Some(Opened::Hello(hello))) => sealer.handle_hello(hello),
        other => bail!("a sealed session does not begin with {other:?}"),
    }
    Ok(sealer)
}

/// A table, a row for each size.
pub(super) fn markdown(rows: &[AeadRow]) -> String {
    let names: Vec<&str> = SUITES.iter().map(|(_, name)| *name).collect();
    let mut text = format!("| bytes of a record | {} |\n", names.join(", GiB/s | ") + ", GiB/s");
    text += &format!("|---:|{}\n", "---:|".repeat(names.len()));
    for size in sizes() {
        text += &format!("| {size} |");
        for name in &names {
            let of_it = rows.iter().find(|row| row.bytes == size && row.cipher == *name);
            text += &of_it.map_or(" - |".to_owned(), |it| format!(" {:.2} |", it.gib_per_second));
        }
        text.push('\n');
    }
    text
}

/// Draws the speeds into an SVG file.
pub(super) fn plot(rows: &[AeadRow], file: &Path) -> Result<()> {
    let area = SVGBackend::new(file, (720, 420)).into_drawing_area();
    area.fill(&WHITE)?;
    let lines = SUITES.iter().zip([BLUE, RED]).map(|((_, name), colour)| {
        let of_it = rows.iter().filter(|row| row.cipher == *name);
        let points = of_it.map(|row| (row.bytes as f64 / 1024.0, row.gib_per_second)).collect();
        ChartLine { name: (*name).to_owned(), points, colour }
    });
    let chart = Chart {
        title: "Sealing against the size of a record",
        sizes: "KiB of a record (logarithmic)",
        figure: "GiB a second, one processor",
        least: 1.0,
        legend: SeriesLabelPosition::MiddleRight,
    };
    chart.draw(&area, lines.collect())?;
    area.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_a_speed_and_a_place_in_table_and_picture() {
        let rows = measure(1).unwrap();
        assert!(rows.iter().all(|row| row.gib_per_second > 0.0), "{rows:?}");
        let table = markdown(&rows);
        assert_eq!(table.lines().count(), 2 + sizes().len());
        assert!(!table.contains('-') || !table.contains(" - "), "{table}");
        let file = std::env::temp_dir().join(format!("tb-aead-{}.svg", std::process::id()));
        plot(&rows, &file).unwrap();
        let picture = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        assert!(picture.contains("ChaCha20-Poly1305"), "{picture}");
    }
}
