//! Rows of the fifth paper: whole blocks encrypted above TCP, beside ESP below it, both with triple
//! DES ([`blocks`](super::blocks)). The paper's figures are drawn beside ours.

use std::path::Path;
use std::rc::Rc;

use anyhow::{Context as _, Result};
use plotters::coord::Shift;
use plotters::prelude::*;

use super::args::StorageArgs;
use super::bench_server::BenchServer;
use super::blocks::BlockCipher;
use super::chart::{Chart, ChartLine};
use super::measure::{Counted, Place, disk_bench, measure};
use super::plan::{Access, BackEnd, Requests, StorageLink, StoragePath, TRANSPORTS};
use super::record::StorageRecord;
use super::row::StorageRow;
use super::world::{StorageSide, StorageWorld, TARGET};
use crate::median::median;

/// Columns of the rows.
pub(super) const ABOVE: &str = "3DES above TCP";
pub(super) const BELOW: &str = "3DES by ESP";
const NEITHER: &str = "no cipher";

/// The paper's: throughput above TCP to that of IPsec, and the same of the processor time of both
/// sides.
const PAPER_RATE: f64 = 1.3;
const PAPER_CPU: f64 = 0.97;

const PORT: u16 = 5203;
/// Triple DES takes 85 ms for 4 MiB and more, so a second has too few of them.
const LEAST_SECONDS: f64 = 2.0;
/// Bytes of a block that is shorter.
const LONG: u32 = 1 << 20;

fn requests(args: &StorageArgs) -> Vec<Requests> {
    let sizes: &[u32] = if args.quick { &[64, 1024] } else { &[4, 16, 64, 256, 1024, 4096] };
    let depths = [1, 4].into_iter();
    let one = |depth| {
        sizes.iter().map(move |kib| Requests { access: Access::Read, bytes: kib << 10, depth })
    };
    let mut all: Vec<Requests> = depths.flat_map(one).collect();
    all.retain(|it| args.wants(*it));
    all
}

/// How many measurements a round has.
pub(super) fn measurements(args: &StorageArgs) -> usize {
    requests(args).len() * ReadyBlocks::NAMES.len()
}

/// One of the three set-ups.
struct BlockColumn {
    name: &'static str,
    world: Rc<StorageWorld>,
    cipher: BlockCipher,
    port: String,
    _server: BenchServer,
    counted: Counted,
}

impl BlockColumn {
    fn new(
        name: &'static str,
        world: &Rc<StorageWorld>,
        cipher: BlockCipher,
        port: u16,
    ) -> Result<Self> {
        let port = format!("{TARGET}:{port}");
        let words = ["serve-blocks", "--bind", &port, "--cipher", cipher.word()];
        let server = BenchServer::new(world, &words)?;
        let mut target = world.processes(StorageSide::Target)?;
        // A program on the instance may be listed as one of its processes.
        let server_process = server.first_line.trim().parse().context("the server's process")?;
        if !target.contains(&server_process) {
            target.push(server_process);
        }
        let initiator = world.processes(StorageSide::Initiator)?;
        let counted = Counted { target, initiator };
        Ok(Self { name, world: Rc::clone(world), cipher, port, _server: server, counted })
    }

    fn measure(&self, requests: Requests, round: u32, seconds: f64) -> Result<StorageRow> {
        let me = std::env::current_exe()?.to_string_lossy().into_owned();
        let words = [
            &*me,
            "read-blocks",
            "--connect",
            &self.port,
            "--cipher",
            self.cipher.word(),
            "--size",
            &requests.bytes.to_string(),
            "--depth",
            &requests.depth.to_string(),
            "--seconds",
            &seconds.to_string(),
        ];
        let reader = self.world.on_instance(StorageSide::Initiator, &words);
        let place = Place { column: self.name, back_end: BackEnd::Null, requests, round };
        measure(&self.world, &place, &self.counted, reader, (seconds, disk_bench))
    }
}

/// One of the three set-ups, made and ready to be measured, over a wire with any delay. A drop
/// removes everything.
pub(crate) struct ReadyBlocks(BlockColumn);

impl ReadyBlocks {
    /// The one without a cipher, and the one that encrypts above TCP.
    pub(crate) const CLEAR: &'static str = NEITHER;
    pub(crate) const ABOVE: &'static str = ABOVE;
    /// The set-ups, by name.
    pub(crate) const NAMES: [&'static str; 3] = [NEITHER, ABOVE, BELOW];

    /// Makes both instances and the server. `number` tells worlds of one process apart.
    pub(crate) fn new(tasuki: &Path, number: usize, name: &str, delay_us: u32) -> Result<Self> {
        let (name, transport, cipher) = match name {
            ABOVE => (ABOVE, "plain", BlockCipher::TripleDes),
            BELOW => (BELOW, "esp-3des", BlockCipher::None),
            _ => (NEITHER, "plain", BlockCipher::None),
        };
        let transport = TRANSPORTS.iter().find(|it| it.name == transport);
        let transport = transport.context("a transport")?;
        let link = StorageLink::delayed(delay_us);
        let world = StorageWorld::new(tasuki, number, link, transport, &[BackEnd::Null])?;
        Ok(Self(BlockColumn::new(name, &Rc::new(world), cipher, PORT)?))
    }

    /// Reads blocks one behind the other, so many at a time.
    pub(crate) fn read(&self, bytes: u32, depth: u16, seconds: f64) -> Result<StorageRow> {
        let requests = Requests { access: Access::Read, bytes, depth };
        let least = if bytes < LONG { 0.0 } else { LEAST_SECONDS };
        self.0.measure(requests, 0, seconds.max(least))
    }
}

/// Measures all of them, over a wire with 1 ms in each direction or the path that is asked for.
pub(super) fn run(args: &StorageArgs, number: usize, record: &mut StorageRecord) -> Result<()> {
    let path = args.path.first().copied().unwrap_or(StoragePath::WireOne);
    let esp = TRANSPORTS.iter().find(|transport| transport.name == "esp-3des");
    let esp = esp.context("ESP with triple DES")?;
    let back_ends = [BackEnd::Null];
    let clear = Rc::new(StorageWorld::new(&args.tasuki, number, path, &TRANSPORTS[0], &back_ends)?);
    let protected = Rc::new(StorageWorld::new(&args.tasuki, number + 1, path, esp, &back_ends)?);
    let columns = [
        BlockColumn::new(ABOVE, &clear, BlockCipher::TripleDes, PORT)?,
        BlockColumn::new(BELOW, &protected, BlockCipher::None, PORT)?,
        BlockColumn::new(NEITHER, &clear, BlockCipher::None, PORT + 1)?,
    ];
    let seconds = args.seconds().max(LEAST_SECONDS);
    for requests in requests(args) {
        for round in 0..args.rounds() {
            let mut order: Vec<&BlockColumn> = columns.iter().collect();
            if round % 2 == 1 {
                order.reverse();
            }
            for column in order {
                let what = format!("blocks, {}, {}", requests.title(), column.name);
                record.progress.say(&what);
                record.rows.push(column.measure(requests, round, seconds)?);
            }
        }
    }
    Ok(())
}

/// CPU seconds of both sides for each GiB.
pub(super) fn all_cpu(row: &StorageRow) -> Option<f64> {
    let (user, system) = row.cpu_per_gib();
    Some(user + system)
}

/// The medians of a column at depth 1, by KiB of a block.
fn points(rows: &[StorageRow], column: &str, figure: fn(&StorageRow) -> f64) -> Vec<(f64, f64)> {
    let of_it = || rows.iter().filter(|row| row.column == column && row.requests.depth == 1);
    let mut sizes: Vec<u32> = of_it().map(|row| row.requests.bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let middle = |bytes: &u32| {
        let all = of_it().filter(|row| row.requests.bytes == *bytes).map(figure).collect();
        Some((f64::from(*bytes) / 1024.0, median(all)?))
    };
    sizes.iter().filter_map(middle).collect()
}

/// Draws throughput and processor time against the size of a block into an SVG file.
pub(super) fn plot(rows: &[StorageRow], file: &Path) -> Result<()> {
    let area = SVGBackend::new(file, (1080, 440)).into_drawing_area();
    area.fill(&WHITE)?;
    let (left, right) = area.split_horizontally(540);
    let cpu = |row: &StorageRow| all_cpu(row).unwrap_or(f64::NAN);
    panel(&left, rows, ("Throughput", "MiB a second"), StorageRow::mib, PAPER_RATE)?;
    panel(&right, rows, ("Processor time of both sides", "s for each GiB"), cpu, PAPER_CPU)?;
    area.present()?;
    Ok(())
}

fn panel(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    rows: &[StorageRow],
    (title, unit): (&str, &str),
    figure: fn(&StorageRow) -> f64,
    paper: f64,
) -> Result<()> {
    let (above, below) = (points(rows, ABOVE, figure), points(rows, BELOW, figure));
    let papers = below.iter().map(|(size, value)| (*size, value * paper)).collect();
    let grey = RGBColor(120, 120, 120);
    let lines = [
        (ABOVE.to_owned(), above, BLUE),
        (BELOW.to_owned(), below, RED),
        (format!("the paper's: {paper:.2} of ESP"), papers, grey),
    ];
    let lines = lines.map(|(name, points, colour)| ChartLine { name, points, colour });
    let chart = Chart {
        title,
        sizes: "KiB of a block (logarithmic)",
        figure: unit,
        least: 4.0,
        legend: SeriesLabelPosition::UpperRight,
    };
    chart.draw(area, lines.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::MachineState;

    #[test]
    fn both_panels_have_our_lines_and_the_papers() {
        let row = |column: &str, kib: u32, rate| StorageRow {
            path: StoragePath::WireOne,
            column: column.to_owned(),
            back_end: BackEnd::Null,
            requests: Requests { access: Access::Read, bytes: kib << 10, depth: 1 },
            round: 0,
            rate,
            p50_us: None,
            p99_us: None,
            gib: 2.0,
            target_cpu: (1.0, 2.0),
            initiator_cpu: (3.0, 4.0),
            machine: MachineState { wake_up_us: 5.0, steal_percent: 0.0, load: 1.0 },
        };
        assert_eq!(all_cpu(&row(ABOVE, 4, 1.0)), Some(5.0));
        let rows = [
            row(ABOVE, 64, 200.0),
            row(ABOVE, 4, 800.0),
            row(BELOW, 4, 900.0),
            row(BELOW, 64, 180.0),
        ];
        let expected = [(4.0, 3.125), (64.0, 12.5)];
        assert_eq!(points(&rows, ABOVE, StorageRow::mib), expected);
        let file = std::env::temp_dir().join(format!("tb-blocks-{}.svg", std::process::id()));
        plot(&rows, &file).unwrap();
        let picture = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        for words in [ABOVE, BELOW, "1.30 of ESP", "0.97 of ESP"] {
            assert!(picture.contains(words), "{words} is missing");
        }
    }
}
