//! The golden table: goodput of one stream by congestion control, loss and round-trip time.
//!
//! In virtual time the figures are exact. So the table is a file (`sim/golden.txt`), and a test
//! compares it letter by letter. A commit that changes a figure explains the change. Data goes over
//! a link of 50 Mbit/s with a queue of 250 kB and random loss; no ACK is lost. Each cell is the
//! median of three seeds.

use core::fmt::Write as _;
use core::time::Duration;

use inet::tcp::{CongestionKind, TcpConfig};

use crate::link::LinkConfig;
use crate::scenario::{Kind, Scenario};
use crate::world::World;

const RATE: u64 = 50_000_000;
const QUEUE: u64 = 250_000;
/// Loss, in tenths of a percent.
const LOSSES: [u32; 5] = [0, 1, 10, 30, 100];
/// Round-trip times, ms.
const ROUND_TRIPS: [u64; 4] = [1, 20, 100, 300];
const SEEDS: [u64; 3] = [1, 2, 3];
/// How long a stream should take, about.
const LENGTH: f64 = 20.0;

/// Goodput in kB/s.
///
/// # Errors
/// What went wrong in the world.
fn cell(control: CongestionKind, loss: u32, round_trip: u64) -> Result<u64, String> {
    let one_way = Duration::from_micros(round_trip * 500);
    let loss = f64::from(loss) / 1000.0;
    let data = LinkConfig { loss, queue: QUEUE, ..LinkConfig::perfect(one_way, RATE) };
    let tcp = TcpConfig {
        recv_buffer: 8 << 20,
        out_of_order_limit: 8192,
        congestion_control: control,
        ..TcpConfig::default()
    };
    // The goodput by Mathis' formula for this time, within the bounds of the link and of the test's
    // patience.
    let per_second = 1460.0 * 1000.0 / round_trip as f64 * 1.22 / loss.sqrt().max(1e-3);
    let bytes = (per_second * LENGTH).clamp(50_000.0, 6_000_000.0) as u64;
    let mut rates = Vec::new();
    for seed in SEEDS {
        let mut scenario = Scenario::stream(Kind::Bare, &data, tcp, bytes);
        scenario.seed = seed;
        scenario.links[1] = LinkConfig::perfect(one_way, RATE);
        let report = World::new(scenario, false).run()?;
        rates.push((report.received[1] as f64 / report.time.as_secs_f64() / 1000.0) as u64);
    }
    rates.sort_unstable();
    Ok(rates[rates.len() / 2])
}

/// The table.
///
/// # Errors
/// What went wrong in a world.
pub fn table() -> Result<String, String> {
    let mut text = String::from(
        "# Goodput in kB/s of one stream: 50 Mbit/s, a queue of 250 kB, random loss of data.\n\
         # Made by `cargo run -p tasuki-sim -- --golden`; sim/tests/golden.rs compares.\n\n\
         control  loss    ",
    );
    let write = |text: &mut String, args: core::fmt::Arguments<'_>| {
        let _ = text.write_fmt(args);
    };
    for round_trip in ROUND_TRIPS {
        write(&mut text, format_args!("{:>8}", format!("{round_trip} ms")));
    }
    text.push('\n');
    for control in [CongestionKind::Reno, CongestionKind::Cubic] {
        for loss in LOSSES {
            let percent = format!("{} %", f64::from(loss) / 10.0);
            write(&mut text, format_args!("{:<9}{percent:<8}", control.name()));
            for round_trip in ROUND_TRIPS {
                write(&mut text, format_args!("{:>8}", cell(control, loss, round_trip)?));
            }
            text.push('\n');
        }
    }
    Ok(text)
}
