//! The hand-over alone, as P1 measured it. An area passes from one party to another and back by
//! owner table, ring and doorbell. Each party has a mapping of its own, and neither touches a byte.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use abi::data::DataDescriptor;
use anyhow::{Context as _, Result};
use shm::{Area, AreaName, Consumer, Pool, PoolLayout, PoolMap, Producer, Region, Ringer, Sleeper};

use super::mapping::Mapping;
use super::parties::{BACK, GIVER, SLOTS, TAKER, THERE, pool, slot};
use super::timing::{WAYS, timed};
use crate::calls::server::pin;
use crate::median::median;

/// The name that comes next, if there is one.
fn next(ring: &mut Consumer) -> Result<Option<AreaName>> {
    let Some(slot) = ring.pop()? else { return Ok(None) };
    Ok(Some(DataDescriptor::decode(&slot)?.area))
}

/// Nanoseconds until an area of `size` bytes is another's; the median of `rounds`. `None`: not
/// enough huge pages are free.
pub(super) fn measure(
    size: usize,
    rounds: usize,
    there: usize,
    mapping: Mapping,
) -> Result<Option<f64>> {
    let pages = u16::try_from(size.div_ceil(shm::PAGE))?;
    let place = pool(u32::from(pages) * WAYS as u32);
    let len = place.pages_at + place.pages as usize * shm::PAGE;
    let Some([region, theirs]) = mapping.regions(len)? else { return Ok(None) };
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let taker = scope.spawn(|| take(&theirs, place, there, &over));
        let given = give(&region, place, pages, rounds);
        over.store(true, Ordering::Relaxed);
        taker.join().map_err(|_| anyhow::anyhow!("the taker panicked"))??;
        given.map(Some)
    })
}

fn give(region: &Arc<Region>, place: PoolLayout, pages: u16, rounds: usize) -> Result<f64> {
    let pool = Pool::create(region, place, GIVER)?;
    let mut there = Producer::attach(region, THERE, SLOTS)?;
    let mut back = Consumer::attach(region, BACK, SLOTS)?;
    let bell = Ringer::new(region.word32(0)?, shm::eventfd()?);
    let mut times = Vec::new();
    for round in 0..=rounds {
        let areas = (0..WAYS).map(|_| pool.alloc(pages)).collect::<Result<Vec<Area>, _>>()?;
        let (nanos, handed) = timed(|| {
            areas.into_iter().try_for_each(|area| {
                there.push(&slot(area.hand_over(TAKER)))?;
                bell.ring();
                Ok::<_, shm::PushError>(())
            })
        });
        handed?;
        for _ in 0..WAYS {
            let area = loop {
                match next(&mut back)? {
                    Some(area) => break area,
                    None => std::hint::spin_loop(),
                }
            };
            pool.take_back(area)?;
        }
        // The first one finds nothing in the caches.
        if round > 0 {
            times.push(nanos / WAYS as f64);
        }
    }
    median(times).context("no rounds")
}

/// Takes each area and gives it back; never sleeps.
fn take(region: &Arc<Region>, place: PoolLayout, there: usize, over: &AtomicBool) -> Result<()> {
    pin(there)?;
    let pool = PoolMap::attach(region, place, TAKER)?;
    let mut coming = Consumer::attach(region, THERE, SLOTS)?;
    let mut back = Producer::attach(region, BACK, SLOTS)?;
    Sleeper::new(region.word32(0)?).awake();
    while !over.load(Ordering::Relaxed) {
        match next(&mut coming)? {
            Some(area) => back.push(&slot(pool.take(area)?.hand_over(GIVER)))?,
            None => std::hint::spin_loop(),
        }
    }
    Ok(())
}
