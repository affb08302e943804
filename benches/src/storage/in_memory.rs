//! A disk in the target's memory over plain iSCSI: as it is, or encrypted end to end.
//!
//! End to end the unit has a LUKS header, and the initiator alone has the key: the fifth paper's
//! arrangement for iSCSI, whose blocks lay encrypted on the target. A header takes a unit that
//! keeps bytes, where the transports are measured with one that keeps none. So the same unit stands
//! beside it without a header: the difference of the two is the encryption's, and not that of the
//! target's copies.
//!
//! Each run opens the header. The rate begins after that. The processor time has it, so the key
//! derivation is one of a few milliseconds: it protects nothing but a measurement.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::measure::{Counted, Place, disk_bench, disk_bench_words, measure};
use super::plan::{Access, BackEnd, Requests, StorageLink, TRANSPORTS};
use super::row::StorageRow;
use super::world::{StorageSide, StorageWorld, run};

/// Bytes of the unit: 16 MiB for a LUKS header, and 64 MiB of data.
const UNIT: u64 = 80 << 20;
/// The transport: what is encrypted needs no other protection against readers.
const TRANSPORT: &str = "plain";
/// Options of `tasuki disk format`: the unit has bytes, and keys come fast.
const FORMAT: [&str; 6] =
    ["--luks", "--force", "--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000"];

/// One of the two, made and ready to be measured. A drop removes everything.
pub(crate) struct ReadyMemory {
    name: &'static str,
    world: StorageWorld,
    counted: Counted,
    url: String,
    /// Options of `tasuki disk bench` that open the disk.
    opened: Vec<String>,
}

impl ReadyMemory {
    /// The set-ups, by name.
    pub(crate) const PLAIN: &'static str = "plain, memory";
    pub(crate) const END_TO_END: &'static str = "end to end";

    /// Makes both instances, the target, and the unit with all of its pages, over a wire with that
    /// delay each way. `number` tells worlds of one process apart.
    pub(crate) fn new(tasuki: &Path, number: usize, name: &str, delay_us: u32) -> Result<Self> {
        let transport = TRANSPORTS.iter().find(|transport| transport.name == TRANSPORT);
        let transport = transport.context("a transport")?;
        let link = StorageLink::delayed(delay_us);
        let world = StorageWorld::new(tasuki, number, link, transport, &[BackEnd::Null])?;
        let url = world.add_memory(UNIT)?;
        let (name, opened) = match name {
            Self::END_TO_END => (Self::END_TO_END, format(&world, &url)?),
            _ => (Self::PLAIN, Vec::new()),
        };
        let counted = Counted {
            target: world.processes(StorageSide::Target)?,
            initiator: world.processes(StorageSide::Initiator)?,
        };
        Ok(Self { name, world, counted, url, opened })
    }

    /// Reads or writes blocks one behind the other, so many at a time.
    pub(crate) fn transfer(
        &self,
        (access, bytes, depth): (Access, u32, u16),
        seconds: f64,
    ) -> Result<StorageRow> {
        let requests = Requests { access, bytes, depth };
        let words = [&disk_bench_words(requests, seconds)[..], &self.opened].concat();
        let initiator = self.world.disk_bench(&self.url, &words);
        let back_end = BackEnd::Memory;
        let place = Place { column: self.name, back_end, requests, round: 0 };
        measure(&self.world, &place, &self.counted, initiator, (seconds, disk_bench))
    }
}

/// Writes a LUKS header with a new key. Returns the options that open the disk.
fn format(world: &StorageWorld, url: &str) -> Result<Vec<String>> {
    let path = world.file("key", StorageSide::Initiator);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    file.write_all(b"a measurement's")?;
    let path = path.display().to_string();
    let options = [&FORMAT[..], &["--key-file", &path, url]].concat();
    run(&mut world.disk("format", &options)).context("`tasuki disk format`")?;
    Ok(["--luks", "--key-file", &path].map(str::to_owned).to_vec())
}
