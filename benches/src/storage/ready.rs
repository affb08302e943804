//! One transport over one path, made and ready to be measured.

use std::path::Path;

use anyhow::{Context as _, Result};

use super::measure::{Counted, Place, disk_bench, disk_bench_words, measure};
use super::plan::{Access, BackEnd, Requests, StoragePath, TRANSPORTS, Transport};
use super::row::StorageRow;
use super::world::{StorageSide, StorageWorld};

/// See the module. A drop removes everything.
pub(crate) struct ReadyTransport {
    name: &'static str,
    world: StorageWorld,
    counted: Counted,
}

impl ReadyTransport {
    /// Makes both instances and the target. `number` tells worlds of one process apart.
    pub(super) fn new(
        tasuki: &Path,
        number: usize,
        path: StoragePath,
        transport: &'static Transport,
        back_ends: &[BackEnd],
    ) -> Result<Self> {
        let world = StorageWorld::new(tasuki, number, path, transport, back_ends)?;
        if back_ends.iter().any(|back_end| *back_end != BackEnd::Null) {
            world.fill()?;
        }
        let counted = Counted {
            target: world.processes(StorageSide::Target)?,
            initiator: world.processes(StorageSide::Initiator)?,
        };
        Ok(Self { name: transport.name, world, counted })
    }

    /// The same by the transport's name, over a wire, with a unit that holds nothing.
    pub(crate) fn null(tasuki: &Path, number: usize, name: &str) -> Result<Self> {
        let transport = TRANSPORTS.iter().find(|transport| transport.name == name);
        let transport = transport.with_context(|| format!("`{name}` is no transport"))?;
        Self::new(tasuki, number, StoragePath::Wire, transport, &[BackEnd::Null])
    }

    /// The transport.
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// Measures requests for about so many seconds.
    pub(super) fn measure(
        &self,
        back_end: BackEnd,
        requests: Requests,
        round: u32,
        seconds: f64,
    ) -> Result<StorageRow> {
        let words = disk_bench_words(requests, seconds);
        let initiator = self.world.disk_bench(&self.world.url(back_end), &words);
        let place = Place { column: self.name, back_end, requests, round };
        measure(&self.world, &place, &self.counted, initiator, (seconds, disk_bench as _))
    }

    /// Reads blocks of the null unit one behind the other, so many at a time.
    pub(crate) fn read(&self, bytes: u32, depth: u16, seconds: f64) -> Result<StorageRow> {
        let requests = Requests { access: Access::Read, bytes, depth };
        self.measure(BackEnd::Null, requests, 0, seconds)
    }
}
