//! One transport over one path, made and ready to be measured.

use std::path::Path;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::measure::{Counted, Place, disk_bench, disk_bench_words, measure};
use super::plan::{Access, BackEnd, Requests, StorageLink, TRANSPORTS, Transport};
use super::row::StorageRow;
use super::world::{StorageSide, StorageWorld};

/// The transport whose sealing is looked at, for how long (a part of a run), and how often.
const SEALED: &str = "sealed";
const LOOK_FOR: f64 = 0.5;
const LOOK: Duration = Duration::from_millis(20);

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
        link: impl Into<StorageLink>,
        transport: &'static Transport,
        back_ends: &[BackEnd],
    ) -> Result<Self> {
        let world = StorageWorld::new(tasuki, number, link, transport, back_ends)?;
        if back_ends.iter().any(|back_end| *back_end != BackEnd::Null) {
            world.fill()?;
        }
        let counted = Counted {
            target: world.processes(StorageSide::Target)?,
            initiator: world.processes(StorageSide::Initiator)?,
        };
        Ok(Self { name: transport.name, world, counted })
    }

    /// The same by the transport's name, over a wire with that delay each way, with a unit that
    /// holds nothing.
    pub(crate) fn null(tasuki: &Path, number: usize, name: &str, delay_us: u32) -> Result<Self> {
        let transport = TRANSPORTS.iter().find(|transport| transport.name == name);
        let transport = transport.with_context(|| format!("`{name}` is no transport"))?;
        Self::new(tasuki, number, StorageLink::delayed(delay_us), transport, &[BackEnd::Null])
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

    /// Reads or writes blocks of the null unit one behind the other, so many at a time. Of reads by
    /// the sealed transport it also tells the share of the sealing that the wire's work has hidden,
    /// 0 to 1.
    pub(crate) fn transfer(
        &self,
        (access, bytes, depth): (Access, u32, u16),
        seconds: f64,
    ) -> Result<(StorageRow, Option<f64>)> {
        let requests = Requests { access, bytes, depth };
        // The session has its counters as long as it lasts. The initiator's are not told.
        let row = self.measure(BackEnd::Null, requests, 0, seconds)?;
        let seals = access == Access::Read && self.name == SEALED;
        Ok((row, if seals { self.hidden(requests, seconds * LOOK_FOR)? } else { None }))
    }

    /// The share of the sealing that the wire's work hides, in a run of its own: looking takes time
    /// of the processors.
    fn hidden(&self, requests: Requests, seconds: f64) -> Result<Option<f64>> {
        let words = disk_bench_words(requests, seconds);
        let mut bench = self.world.disk_bench(&self.world.url(BackEnd::Null), &words);
        let bench = bench.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut bench = bench.spawn().context("starting the initiator")?;
        let mut last = None;
        loop {
            let told = self.world.told(&["target", "ls", "--json", self.world.target_name()]);
            let is_over = bench.try_wait()?.is_some();
            // Between two looks the session may have ended: what was seen before stays.
            last = told.ok().as_ref().and_then(hidden).or(last);
            if is_over {
                return Ok(last);
            }
            sleep(LOOK);
        }
    }
}

/// The share of the sealed bytes that were sealed while earlier ones were on their way, of what
/// `tasuki target ls --json` tells of the session with most of them.
fn hidden(told: &Value) -> Option<f64> {
    let sessions = told[0]["sessions"].as_array()?;
    let of = |session: &Value| {
        let sealed = &session["sealed"];
        Some((sealed["sealed"].as_f64()?, sealed["hidden"].as_f64()?))
    };
    let most = sessions.iter().filter_map(of).max_by(|a, b| a.0.total_cmp(&b.0))?;
    (most.0 > 0.0).then(|| most.1 / most.0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_share_is_that_of_the_busiest_session() {
        let session = |sealed, hidden| json!({"sealed": {"sealed": sealed, "hidden": hidden}});
        let told = json!([{"sessions": [session(8, 8), session(200, 150), {"sealed": null}]}]);
        assert_eq!(hidden(&told), Some(0.75));
        assert_eq!(hidden(&json!([{"sessions": [session(0, 0)]}])), None);
        assert_eq!(hidden(&json!([])), None);
    }
}
