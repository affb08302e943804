//! Pools: areas go between two parties, and between threads of one, by the owner table alone. Names
//! are guessed instead of sent, so nothing but the table orders what the parties do to the bytes.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::thread;

use super::check;
use crate::pool::{Area, AreaError, AreaName, Owner, Pool, PoolLayout, PoolMap};
use crate::sync::{Ordering, OwnerTable};
use crate::{Backing, PAGE, Region};

/// The allocating party.
const SERVER: Owner = Owner(1);
const DRIVER: Owner = Owner(2);
/// Pages of a model's pool.
const PAGES: u32 = 2;

/// A pool and the bytes of its areas, of which loom reports accesses that could overlap.
#[derive(Clone)]
struct World {
    region: Arc<Region>,
    table: OwnerTable,
    bytes: Arc<[UnsafeCell<u64>]>,
}

impl World {
    fn place() -> PoolLayout {
        PoolLayout { table: 0, pages_at: PAGE, pages: PAGES }
    }

    fn pool(&self) -> Pool {
        Pool::over(&self.region, Self::place(), self.table.clone(), SERVER).unwrap()
    }

    fn map(&self) -> PoolMap {
        PoolMap::over(&self.region, Self::place(), self.table.clone(), DRIVER).unwrap()
    }

    #[allow(unsafe_code)]
    fn write(&self, area: &Area, value: u64) {
        let pages = area.name().page as usize..;
        for bytes in &self.bytes[pages][..usize::from(area.name().pages)] {
            // SAFETY: loom runs one thread at a time and reports accesses that could overlap.
            bytes.with_mut(|bytes| unsafe { *bytes = value });
        }
    }

    #[allow(unsafe_code)]
    fn read(&self, area: &Area) -> u64 {
        // SAFETY: as in `write`.
        self.bytes[area.name().page as usize].with(|bytes| unsafe { *bytes })
    }
}

/// Runs `model`. The region is there for its length only.
fn pool_model(model: impl Fn(World) + Sync + Send + 'static) {
    let len = PAGE * (1 + PAGES as usize);
    let (region, _) = Region::create("model", len, Backing::Small).unwrap();
    check(move || {
        let bytes = (0..PAGES).map(|_| UnsafeCell::new(0)).collect();
        model(World { region: Arc::clone(&region), table: OwnerTable::new(PAGES), bytes });
    });
}

/// Takes an area that is on its way.
fn await_area(take: impl Fn() -> Result<Area, AreaError>) -> Area {
    loop {
        match take() {
            Ok(area) => return area,
            Err(AreaError::Stale { .. } | AreaError::NotOffered { .. }) => thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
}

/// All pages in one area, as it is after it was freed so many times.
fn whole(generation: u32) -> AreaName {
    AreaName { page: 0, pages: 2, generation }
}

#[test]
fn loom_an_area_goes_round_and_each_party_has_it_alone() {
    pool_model(|world| {
        let (pool, map) = (world.pool(), world.map());
        let driver = thread::spawn({
            let world = world.clone();
            move || {
                for round in 0..2 {
                    let area = await_area(|| map.take(whole(round)));
                    world.write(&area, 10 + u64::from(round));
                    let name = area.hand_over(SERVER);
                    assert!(map.take(name).is_err(), "it was given away");
                }
            }
        });
        for round in 0..2 {
            let name = pool.offer(2, DRIVER).unwrap();
            assert_eq!(name, whole(round));
            let area = await_area(|| pool.take(name));
            assert_eq!(world.read(&area), 10 + u64::from(round));
        }
        driver.join().unwrap();
        assert_eq!(pool.free_pages(), PAGES);
        assert!(pool.take(whole(1)).is_err(), "the name is stale");
    });
}

#[test]
fn loom_what_is_filled_here_is_seen_there_and_taken_back_unread() {
    pool_model(|world| {
        let (pool, map) = (world.pool(), world.map());
        let driver = thread::spawn({
            let world = world.clone();
            move || {
                let area = await_area(|| map.take(whole(0)));
                assert_eq!(world.read(&area), 7);
                let _name = area.hand_over(SERVER);
            }
        });
        let area = pool.alloc(2).unwrap();
        world.write(&area, 7);
        let name = area.hand_over(DRIVER);
        while let Err(error) = pool.take_back(name) {
            assert!(matches!(error, AreaError::NotOffered { .. }), "{error}");
            thread::yield_now();
        }
        // Free: somebody else's now, and the driver's reading is over.
        let next = pool.alloc(1).unwrap();
        assert_eq!(next.name(), AreaName { page: 0, pages: 1, generation: 1 });
        world.write(&next, 8);
        driver.join().unwrap();
    });
}

#[test]
fn loom_of_two_threads_that_take_one_area_one_has_it() {
    pool_model(|world| {
        let (pool, map) = (world.pool(), world.map());
        let name = pool.offer(2, DRIVER).unwrap();
        let takers: Vec<_> = (0..2)
            .map(|n| {
                let (world, map) = (world.clone(), map.clone());
                thread::spawn(move || {
                    let area = map.take(name).ok();
                    area.iter().for_each(|area| world.write(area, n));
                    area
                })
            })
            .collect();
        let had: Vec<Area> = takers.into_iter().filter_map(|t| t.join().unwrap()).collect();
        assert_eq!(had.len(), 1, "nobody or both had it");
        assert!(matches!(map.take(name), Err(AreaError::AlreadyHeld { .. })));
        let area = had.into_iter().next().unwrap();
        let name = area.hand_over(SERVER);
        assert_eq!(pool.take_back(name), Ok(()));
    });
}

/// One thread of `party` hands over an area. Another thread of `party` takes it as soon as the
/// table allows it.
fn within_one_party(
    world: &World,
    party: Owner,
    first: Area,
    take: impl FnOnce(AreaName) -> Result<Area, AreaError> + Send + 'static,
) {
    let (name, table) = (first.name(), world.table.clone());
    let taker = thread::spawn(move || {
        while table.words()[0].load(Ordering::Acquire) >> 8 & 0xff != party.0.into() {
            thread::yield_now();
        }
        take(name).unwrap()
    });
    assert_eq!(first.hand_over(party), name);
    drop(taker.join().unwrap());
}

#[test]
fn loom_an_area_goes_from_one_thread_of_the_allocator_to_another() {
    pool_model(|world| {
        let pool = world.pool();
        let taking = pool.clone();
        let area = pool.alloc(2).unwrap();
        within_one_party(&world, SERVER, area, move |name| taking.take(name));
        assert_eq!(pool.free_pages(), PAGES);
    });
}

#[test]
fn loom_an_area_goes_from_one_thread_of_another_party_to_another() {
    pool_model(|world| {
        let (pool, map) = (world.pool(), world.map());
        let name = pool.offer(2, DRIVER).unwrap();
        let area = map.take(name).unwrap();
        within_one_party(&world, DRIVER, area, move |name| map.take(name));
        assert_eq!(pool.reclaim(DRIVER), PAGES);
    });
}

#[test]
fn loom_threads_of_the_allocator_have_areas_alone_and_leave_none() {
    pool_model(|world| {
        let pool = world.pool();
        let use_one = |world: &World, pool: &Pool, value| {
            let Ok(area) = pool.alloc(2) else { return };
            world.write(&area, value);
            let again = pool.take(area.name());
            assert!(matches!(again, Err(AreaError::AlreadyHeld { .. })), "it is here already");
            assert_eq!(pool.reclaim(SERVER), 0, "it lives");
            assert_eq!(world.read(&area), value);
        };
        let other = thread::spawn({
            let (world, pool) = (world.clone(), pool.clone());
            move || use_one(&world, &pool, 1)
        });
        use_one(&world, &pool, 2);
        other.join().unwrap();
        assert_eq!(pool.free_pages(), PAGES);
    });
}

#[test]
fn loom_what_a_dead_party_handed_over_is_taken_or_reclaimed() {
    pool_model(|world| {
        let (pool, map) = (world.pool(), world.map());
        let name = map.take(pool.offer(2, DRIVER).unwrap()).unwrap().hand_over(SERVER);
        let taker = thread::spawn({
            let pool = pool.clone();
            move || pool.take(name).ok()
        });
        let freed = pool.reclaim(DRIVER);
        let taken = taker.join().unwrap();
        assert_eq!(freed == PAGES, taken.is_none(), "{freed} pages freed, taken: {taken:?}");
        drop(taken);
        assert_eq!(pool.free_pages(), PAGES);
    });
}
