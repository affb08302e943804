//! Rows against peers: tgt as target, libiscsi as initiator, and TCP alone.
//!
//! * Target: the same initiator, our target or tgt, over a bridge. Our instance is behind a TAP
//!   device, tgt is on the kernel's stack behind a veth pair.
//! * Initiator: `tasuki disk bench` or iscsi-perf, both on one instance, over a wire to our target.
//! * Depth 1: a read of 4 KiB of a null unit, or an echo of 48 bytes by TCP, over a wire.

use anyhow::{Context as _, Result};

use super::args::StorageArgs;
use super::bench_server::BenchServer;
use super::measure::{Counted, Parse, Place, disk_bench, disk_bench_words, iscsi_perf, measure};
use super::plan::{Access, BackEnd, Requests, StoragePath, TRANSPORTS};
use super::record::StorageRecord;
use super::world::{StorageSide, StorageWorld, TARGET, Tgt};

/// Columns of the rows.
pub(super) const OURS_BY_PERF: &str = "iscsi-perf on the kernel, our target";
pub(super) const TGT_BY_PERF: &str = "iscsi-perf on the kernel, tgt";
pub(super) const OURS_BY_OURS: &str = "our initiator, our target";
pub(super) const TGT_BY_OURS: &str = "our initiator, tgt";
pub(super) const WIRE_PERF: &str = "iscsi-perf on the instance, our target";
pub(super) const WIRE_OURS: &str = "our initiator on the instance, our target";
/// The column of TCP alone.
pub(super) const ECHO: &str = "TCP echo of 48 bytes";
/// The column of the read beside it.
pub(super) const DEPTH_ONE: &str = "read of depth 1 beside an echo";

const PORT: u16 = 5202;
/// Bytes of a block, as iscsi-perf counts them.
const BLOCK: u32 = 512;

fn requests() -> [Requests; 3] {
    let one = |access, bytes, depth| Requests { access, bytes, depth };
    [one(Access::RandRead, 4096, 32), one(Access::RandRead, 4096, 1), one(Access::Read, 1 << 20, 8)]
}

/// How many measurements a round has: four runs against tgt and two against libiscsi, with two
/// back ends, and a pair of depth 1.
pub(super) fn measurements() -> usize {
    requests().len() * (4 + 2) * 2 + 1
}

/// Measures all of them. Rows of a peer that is not installed are left out.
pub(super) fn run(args: &StorageArgs, number: usize, record: &mut StorageRecord) -> Result<()> {
    let plain = &TRANSPORTS[0];
    let back_ends = [BackEnd::Null, BackEnd::Memory];
    if let Some(missing) = missing(&["tgtd", "tgtadm", "iscsi-perf"]) {
        record.skip(&format!("tgt: {missing} is not installed: get tgt and libiscsi-bin"));
    } else {
        let world = StorageWorld::new(&args.tasuki, number, StoragePath::Tap, plain, &back_ends)?;
        world.fill()?;
        targets(args, &world, record)?;
    }
    let world = StorageWorld::new(&args.tasuki, number + 1, StoragePath::Wire, plain, &back_ends)?;
    world.fill()?;
    if let Some(missing) = missing(&["iscsi-perf"]) {
        record.skip(&format!("libiscsi: {missing} is not installed: get libiscsi-bin"));
    } else {
        initiators(args, &world, record)?;
    }
    echoes(args, &world, record)
}

fn missing(programs: &[&'static str]) -> Option<&'static str> {
    let folders = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin";
    let there =
        |name: &str| folders.split(':').any(|it| std::path::Path::new(it).join(name).exists());
    programs.iter().find(|name| !there(name)).copied()
}

/// The same initiator, our target or tgt.
fn targets(args: &StorageArgs, world: &StorageWorld, record: &mut StorageRecord) -> Result<()> {
    let tgt = Tgt::new(world)?;
    let ours = Counted { target: world.processes(StorageSide::Target)?, initiator: Vec::new() };
    let theirs = Counted { target: vec![tgt.process()], initiator: Vec::new() };
    let with_ours = |target: &[u32]| -> Result<Counted> {
        Ok(Counted { target: target.to_vec(), initiator: world.processes(StorageSide::Initiator)? })
    };
    let (ours_both, theirs_ours) = (with_ours(&ours.target)?, with_ours(&theirs.target)?);
    for back_end in [BackEnd::Null, BackEnd::Memory] {
        let (our_url, tgt_url) =
            (world.url(back_end), Tgt::url(if back_end == BackEnd::Null { 2 } else { 1 }));
        let runs = [
            Run { column: OURS_BY_PERF, url: &our_url, counted: &ours, perf: true },
            Run { column: TGT_BY_PERF, url: &tgt_url, counted: &theirs, perf: true },
            Run { column: OURS_BY_OURS, url: &our_url, counted: &ours_both, perf: false },
            Run { column: TGT_BY_OURS, url: &tgt_url, counted: &theirs_ours, perf: false },
        ];
        paired(args, world, back_end, &runs, false, record)?;
    }
    Ok(())
}

/// Our initiator, or libiscsi's by the preloaded library, on one instance.
fn initiators(args: &StorageArgs, world: &StorageWorld, record: &mut StorageRecord) -> Result<()> {
    let counted = Counted {
        target: world.processes(StorageSide::Target)?,
        initiator: world.processes(StorageSide::Initiator)?,
    };
    for back_end in [BackEnd::Null, BackEnd::Memory] {
        let url = world.url(back_end);
        let runs = [
            Run { column: WIRE_OURS, url: &url, counted: &counted, perf: false },
            Run { column: WIRE_PERF, url: &url, counted: &counted, perf: true },
        ];
        paired(args, world, back_end, &runs, true, record)?;
    }
    Ok(())
}

/// One column of a pair.
struct Run<'a> {
    column: &'a str,
    url: &'a str,
    counted: &'a Counted,
    /// By iscsi-perf, else by our initiator.
    perf: bool,
}

/// All runs in each round; in every other round the last is first.
fn paired(
    args: &StorageArgs,
    world: &StorageWorld,
    back_end: BackEnd,
    runs: &[Run<'_>],
    on_instance: bool,
    record: &mut StorageRecord,
) -> Result<()> {
    for requests in requests() {
        for round in 0..args.rounds() {
            let mut order: Vec<&Run<'_>> = runs.iter().collect();
            if round % 2 == 1 {
                order.reverse();
            }
            for run in order {
                let what = format!("{}, {}, {}", requests.title(), back_end.name(), run.column);
                record.progress.say(&what);
                let place = Place { column: run.column, back_end, requests, round };
                // iscsi-perf takes whole seconds, and needs two of them for an average.
                let seconds = if run.perf { args.seconds().ceil() + 1.0 } else { args.seconds() };
                let (command, parse): (_, Parse) = if run.perf {
                    let words = perf_words(requests, run.url, seconds);
                    if on_instance {
                        (world.on_instance(StorageSide::Initiator, &words), iscsi_perf)
                    } else {
                        (world.inside(&words[0], &words[1..]), iscsi_perf)
                    }
                } else {
                    (world.disk_bench(run.url, &disk_bench_words(requests, seconds)), disk_bench)
                };
                record.rows.push(measure(world, &place, run.counted, command, (seconds, parse))?);
            }
        }
    }
    Ok(())
}

fn perf_words(requests: Requests, url: &str, seconds: f64) -> Vec<String> {
    let (depth, blocks) = (requests.depth.to_string(), (requests.bytes / BLOCK).to_string());
    let mut words: Vec<String> =
        ["iscsi-perf", "-m", &depth, "-b", &blocks, "-t", &seconds.to_string(), url]
            .map(str::to_owned)
            .to_vec();
    if requests.access == Access::RandRead {
        words.insert(1, "-r".to_owned());
    }
    words
}

/// Depth 1 of a null unit, and a TCP round trip in turn with it.
fn echoes(args: &StorageArgs, world: &StorageWorld, record: &mut StorageRecord) -> Result<()> {
    let counted = Counted {
        target: world.processes(StorageSide::Target)?,
        initiator: world.processes(StorageSide::Initiator)?,
    };
    let bind = format!("0.0.0.0:{PORT}");
    let _server = BenchServer::new(world, &["serve", "--bind", &bind])?;
    let requests = Requests { access: Access::RandRead, bytes: 4096, depth: 1 };
    let me = std::env::current_exe()?.to_string_lossy().into_owned();
    let to = format!("{TARGET}:{PORT}");
    for round in 0..args.rounds() {
        record.progress.say("depth 1 beside a TCP round trip");
        let words = disk_bench_words(requests, args.seconds());
        let read = world.disk_bench(&world.url(BackEnd::Null), &words);
        let place = Place { column: DEPTH_ONE, back_end: BackEnd::Null, requests, round };
        record.rows.push(measure(world, &place, &counted, read, (args.seconds(), disk_bench))?);
        let words = [&*me, "client", "--connect", &to, "--test", "rtt", "--size", "48"];
        let echo = world.on_instance(StorageSide::Initiator, &words);
        let place = Place { column: ECHO, back_end: BackEnd::Null, requests, round };
        record.rows.push(measure(world, &place, &counted, echo, (args.seconds(), echo_reading))?);
    }
    Ok(())
}

fn echo_reading(said: &str, _: f64) -> Result<super::measure::InitiatorReading> {
    super::measure::of_sample(&serde_json::from_str(said).context("what the client prints")?)
}
