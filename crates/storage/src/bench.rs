//! Measures a unit: requests of one size, so many of them open at all times, for some time.
//!
//! Each of the open requests is a task that begins the next one as soon as its answer is there. A
//! request's latency is from its submission to its answer within this process, so it includes the
//! wait for the connection.
//!
//! The requests go to a unit, or to the disk that is encrypted in one. The latter's include the
//! cipher, and all else that a [`Disk`] does: more than one command for a long request, the order
//! of writes. A session that is lost ends the measurement.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hdrhistogram::Histogram;
use tokio::task::JoinSet;

use crate::disk::{Disk, DiskError};
use crate::initiator::{Capacity, Initiator, InitiatorError, QUEUE_DEPTH};

/// Most requests that may be open at a time.
pub const MOST_BENCH_DEPTH: u16 = QUEUE_DEPTH;
/// Most bytes of a request: those of one command of a target of ours.
pub const MOST_BENCH_REQUEST: u32 = 8 << 20;
/// Between two reports of the progress.
const REPORT: Duration = Duration::from_millis(100);
/// The longest latency that is told from longer ones, nanoseconds: an hour.
const MOST_LATENCY: u64 = 3_600_000_000_000;
/// Digits of a latency that are exact.
const DIGITS: u8 = 3;

/// What the requests are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BenchPattern {
    /// Reads, one behind the other; again from the begin after the end.
    Read,
    /// Writes, likewise.
    Write,
    /// Reads at random places.
    RandomRead,
    /// Writes at random places.
    RandomWrite,
}

impl BenchPattern {
    /// Are bytes of the unit lost?
    #[must_use]
    pub fn writes(self) -> bool {
        matches!(self, Self::Write | Self::RandomWrite)
    }

    fn is_random(self) -> bool {
        matches!(self, Self::RandomRead | Self::RandomWrite)
    }
}

/// A measurement.
#[derive(Debug, Clone, Copy)]
pub struct BenchPlan {
    /// What the requests are.
    pub pattern: BenchPattern,
    /// Bytes of a request: whole blocks of the unit or of its encrypted disk, at most
    /// [`MOST_BENCH_REQUEST`].
    pub request: u32,
    /// Requests that are open at a time, 1 to [`MOST_BENCH_DEPTH`].
    pub depth: u16,
    /// How long requests are begun.
    pub runtime: Duration,
}

/// Why there are no figures.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A request failed.
    #[error(transparent)]
    Unit(#[from] InitiatorError),
    /// The unit has become another one, or smaller.
    #[error(transparent)]
    Disk(DiskError),
    /// Not whole blocks.
    #[error("requests of {request} bytes are not whole blocks of {block} bytes: say --bs {block}")]
    Block {
        /// Bytes of a request.
        request: u32,
        /// Bytes of a block.
        block: u32,
    },
    /// It holds no request.
    #[error("the disk has {unit} bytes, less than a request of {request}: say a smaller --bs")]
    TooSmall {
        /// Bytes of the unit, or of the disk that is encrypted in it.
        unit: u64,
        /// Bytes of a request.
        request: u32,
    },
}

impl From<DiskError> for BenchError {
    fn from(error: DiskError) -> Self {
        match error {
            DiskError::Unit(error) => Self::Unit(error),
            // A unit without encryption fails so.
            DiskError::Away { why, .. } => Self::Unit(InitiatorError::Lost(why)),
            other => Self::Disk(other),
        }
    }
}

/// What is measured.
#[derive(Debug, Clone)]
pub enum BenchUnit {
    /// A unit, all of it.
    Unit {
        /// With its target.
        session: Initiator,
        /// Its number.
        lun: u16,
    },
    /// The disk that is encrypted in a unit.
    Encrypted(Disk),
}

impl BenchUnit {
    /// Logs out.
    pub async fn close(self) {
        match self {
            Self::Unit { session, .. } => session.logout().await,
            Self::Encrypted(disk) => disk.close().await,
        }
    }

    async fn capacity(&self) -> Result<Capacity, InitiatorError> {
        match self {
            Self::Unit { session, lun } => session.capacity(*lun).await,
            Self::Encrypted(disk) => Ok(disk.capacity()),
        }
    }
}

/// The figures of a measurement.
#[derive(Debug, Clone)]
pub struct BenchOutcome {
    /// Requests that were answered.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// From the first request to the last answer.
    pub elapsed: Duration,
    latencies: Histogram<u64>,
}

impl BenchOutcome {
    /// The latency that `percent` of the requests did not exceed.
    #[must_use]
    pub fn latency(&self, percent: f64) -> Duration {
        Duration::from_nanos(self.latencies.value_at_percentile(percent))
    }

    /// The mean latency.
    #[must_use]
    pub fn mean_latency(&self) -> Duration {
        Duration::from_secs_f64(self.latencies.mean() / 1e9)
    }
}

/// Measures. `progress` is told now and then how much time has passed.
///
/// # Errors
/// The first request's that fails, or that the plan does not fit the unit.
pub async fn bench(
    unit: &BenchUnit,
    plan: BenchPlan,
    progress: impl Fn(Duration) + 'static,
) -> Result<BenchOutcome, BenchError> {
    let capacity = unit.capacity().await?;
    let places = Places::new(&plan, capacity)?;
    let latencies = Histogram::new_with_bounds(1, MOST_LATENCY, DIGITS)
        .expect("a histogram may have these bounds and three exact digits");
    let load = Rc::new(Load {
        unit: unit.clone(),
        capacity,
        blocks: plan.request / capacity.block_size,
        plan,
        data: if plan.pattern.writes() { noise(plan.request) } else { Bytes::new() },
        places: RefCell::new(places),
        latencies: RefCell::new(latencies),
        began: Instant::now(),
        reported: Cell::new(Duration::ZERO),
    });
    let progress: Rc<dyn Fn(Duration)> = Rc::new(progress);
    let mut tasks = JoinSet::new();
    for _ in 0..plan.depth.max(1) {
        tasks.spawn_local(Rc::clone(&load).run(Rc::clone(&progress)));
    }
    while let Some(ended) = tasks.join_next().await {
        // A task does not panic.
        ended.unwrap_or(Ok(()))?;
    }
    let elapsed = load.began.elapsed();
    let latencies = load.latencies.borrow().clone();
    let requests = latencies.len();
    Ok(BenchOutcome { requests, bytes: requests * u64::from(plan.request), elapsed, latencies })
}

/// What the tasks of a measurement share.
struct Load {
    unit: BenchUnit,
    capacity: Capacity,
    /// Of a request.
    blocks: u32,
    plan: BenchPlan,
    /// What is written.
    data: Bytes,
    places: RefCell<Places>,
    latencies: RefCell<Histogram<u64>>,
    began: Instant,
    /// When the progress was told.
    reported: Cell<Duration>,
}

impl Load {
    /// One request after the other.
    async fn run(self: Rc<Self>, progress: Rc<dyn Fn(Duration)>) -> Result<(), BenchError> {
        let mut begin = self.began.elapsed();
        while begin < self.plan.runtime {
            self.request().await?;
            let end = self.began.elapsed();
            let latency = u64::try_from((end - begin).as_nanos()).unwrap_or(u64::MAX);
            self.latencies.borrow_mut().saturating_record(latency.max(1));
            if end - self.reported.get() >= REPORT {
                self.reported.set(end);
                progress(end);
            }
            begin = end;
        }
        Ok(())
    }

    async fn request(&self) -> Result<(), BenchError> {
        let place = self.places.borrow_mut().next();
        match &self.unit {
            BenchUnit::Unit { session, lun } => Ok(self.of_unit(session, *lun, place).await?),
            BenchUnit::Encrypted(disk) => Ok(self.of_disk(disk, place).await?),
        }
    }

    async fn of_unit(
        &self,
        session: &Initiator,
        lun: u16,
        place: u64,
    ) -> Result<(), InitiatorError> {
        let block = place * u64::from(self.blocks);
        if self.plan.pattern.writes() {
            session.write(lun, block, self.blocks, self.data.clone()).await
        } else {
            session.read_pieces(lun, self.capacity, block, self.blocks).await.map(drop)
        }
    }

    async fn of_disk(&self, disk: &Disk, place: u64) -> Result<(), DiskError> {
        let bytes = self.plan.request;
        let offset = place * u64::from(bytes);
        if self.plan.pattern.writes() {
            disk.write(offset, self.data.clone(), false).await
        } else {
            disk.read(offset, bytes as usize).await.map(drop)
        }
    }
}

/// Where the next request goes, in requests from the begin of the unit.
struct Places {
    count: u64,
    next: u64,
    random: Option<u64>,
}

impl Places {
    fn new(plan: &BenchPlan, capacity: Capacity) -> Result<Self, BenchError> {
        let (request, block) = (plan.request, capacity.block_size);
        if request == 0 || !request.is_multiple_of(block) {
            return Err(BenchError::Block { request, block });
        }
        let count = capacity.bytes() / u64::from(request);
        if count == 0 {
            return Err(BenchError::TooSmall { unit: capacity.bytes(), request });
        }
        let random = plan.pattern.is_random().then_some(SEED);
        Ok(Self { count, next: 0, random })
    }

    fn next(&mut self) -> u64 {
        if let Some(state) = &mut self.random {
            return xorshift(state) % self.count;
        }
        let place = self.next;
        self.next = (place + 1) % self.count;
        place
    }
}

/// The same places each time.
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

fn xorshift(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Bytes that no storage finds easy.
fn noise(len: u32) -> Bytes {
    let mut state = SEED;
    let words = (0..len.div_ceil(8)).flat_map(|_| xorshift(&mut state).to_le_bytes());
    words.take(len as usize).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn places(pattern: BenchPattern, request: u32, blocks: u64) -> Result<Places, BenchError> {
        let plan = BenchPlan { pattern, request, depth: 1, runtime: Duration::ZERO };
        Places::new(&plan, Capacity { blocks, block_size: 512 })
    }

    #[test]
    fn places_follow_each_other_and_begin_again() {
        // The rest behind the last whole request is left alone.
        let mut places = places(BenchPattern::Write, 1024, 7).unwrap();
        let seen: Vec<u64> = (0..7).map(|_| places.next()).collect();
        assert_eq!(seen, [0, 1, 2, 0, 1, 2, 0]);
    }

    #[test]
    fn random_places_are_all_within_the_unit_and_all_over_it() {
        let mut places = places(BenchPattern::RandomRead, 4096, 800).unwrap();
        let seen: BTreeSet<u64> = (0..2000).map(|_| places.next()).collect();
        assert_eq!(seen, (0..100).collect());
    }

    #[test]
    fn plans_that_do_not_fit_are_refused() {
        let refused = |request, blocks| places(BenchPattern::Read, request, blocks).err();
        assert!(matches!(refused(700, 8), Some(BenchError::Block { block: 512, .. })));
        assert!(matches!(refused(0, 8), Some(BenchError::Block { .. })));
        assert!(matches!(refused(8192, 8), Some(BenchError::TooSmall { unit: 4096, .. })));
        assert!(refused(4096, 8).is_none());
    }

    #[test]
    fn noise_has_its_length_and_no_pattern() {
        let bytes = noise(1003);
        assert_eq!(bytes.len(), 1003);
        let different: BTreeSet<&[u8]> = bytes.chunks(8).collect();
        assert_eq!(different.len(), 126);
    }
}
