//! Table tests of the pool's rules; `oracle` holds the random ones, `strict` those of strict mode.

use std::os::fd::{AsFd, OwnedFd};

use super::*;
use crate::Backing;

mod oracle;
mod strict;

const ME: Owner = Owner(1);
const PEER: Owner = Owner(2);
const OTHER: Owner = Owner(3);
const PAGES: u32 = 16;
const PLACE: PoolLayout = PoolLayout { table: 64, pages_at: PAGE, pages: PAGES };
const LEN: usize = PAGE + PAGES as usize * PAGE;

struct Rig {
    fd: OwnedFd,
    pool: Pool,
    peer: PoolMap,
}

fn map(fd: &OwnedFd) -> Arc<Region> {
    Region::map(fd.as_fd(), LEN, Access::ReadWrite).unwrap()
}

fn rig() -> Rig {
    let (region, fd) = Region::create("pool-test", LEN, Backing::Small).unwrap();
    let peer = PoolMap::attach(&map(&fd), PLACE, PEER).unwrap();
    Rig { pool: Pool::create(&region, PLACE, ME).unwrap(), fd, peer }
}

fn table_word(map: &PoolMap, page: u32) -> crate::Word64 {
    map.region().word64(PLACE.table + page as usize * 8).unwrap()
}

#[test]
fn an_area_goes_there_and_back() {
    let Rig { pool, peer, .. } = rig();
    let mut area = pool.alloc(2).unwrap();
    assert_eq!((area.len(), area.region_offset(), pool.free_pages()), (2 * PAGE, PAGE, 14));
    area.write(PAGE, b"hello").unwrap();
    area.bytes_mut()[PAGE + 5] = b'!';
    let name = area.hand_over(PEER);
    let theirs = peer.take(name).unwrap();
    assert_eq!(&theirs.bytes()[PAGE..PAGE + 6], b"hello!");
    assert_eq!(theirs.name(), name);
    let back = pool.take(theirs.hand_over(ME)).unwrap();
    let mut got = [0; 6];
    back.read(PAGE, &mut got).unwrap();
    assert_eq!(&got, b"hello!");
    assert_eq!(format!("{name} {back:?}"), format!("area 0+2 generation 0 {name:?}"));
    drop(back);
    assert_eq!(pool.free_pages(), PAGES);
    assert_eq!(pool.alloc(1).unwrap().name().generation, 1);
}

#[test]
fn the_table_is_as_documented() {
    let Rig { pool, peer, .. } = rig();
    let name = pool.alloc(3).unwrap().hand_over(PEER);
    let word = |page| table_word(&peer, page).load(Ordering::Relaxed);
    assert_eq!(word(0), 0x0000_0000_0003_0201, "offered by 1 to 2");
    assert_eq!((word(1), word(2)), (0, 0));
    let area = peer.take(name).unwrap();
    assert_eq!(word(0), 0x0000_0000_0003_0002);
    drop(area);
    assert_eq!(word(0), 0x0000_0000_0003_0002, "only the allocator frees");
    assert_eq!(pool.reclaim(PEER), 3);
    assert_eq!(word(0), 1 << 32);
}

#[test]
fn creation_touches_neither_table_nor_pages() {
    let pages = 1 << 18;
    let pages_at = pages as usize * 8;
    let place = PoolLayout { table: 0, pages_at, pages };
    let len = pages_at + pages as usize * PAGE;
    let (region, fd) = Region::create("pool-test", len, Backing::Small).unwrap();
    let pool = Pool::create(&region, place, ME).unwrap();
    assert_eq!(rustix::fs::fstat(&fd).unwrap().st_blocks, 0);
    let area = pool.alloc(1).unwrap();
    area.write(0, b"x").unwrap();
    assert!(rustix::fs::fstat(&fd).unwrap().st_blocks * 512 <= 4 << 20);
}

#[test]
fn only_whom_it_was_offered_to_takes_it_and_only_once() {
    let Rig { fd, pool, peer } = rig();
    let other = PoolMap::attach(&map(&fd), PLACE, OTHER).unwrap();
    let area = pool.alloc(1).unwrap();
    let name = area.name();
    let held = |holder| AreaError::NotOffered { name, holder };
    assert_eq!(peer.take(name).unwrap_err(), held(ME), "still held");
    let _ = area.hand_over(PEER);
    assert_eq!(other.take(name).unwrap_err(), held(ME), "offered to another");
    assert_eq!(pool.take(name).unwrap_err(), AreaError::NotOffered { name, holder: ME });
    let _theirs = peer.take(name).unwrap();
    assert_eq!(peer.take(name).unwrap_err(), AreaError::AlreadyHeld { name });
    assert_eq!(pool.take(name).unwrap_err(), held(PEER));
}

#[test]
fn stale_and_invented_names_are_refused() {
    let Rig { pool, peer, .. } = rig();
    let area = pool.alloc(2).unwrap();
    let old = area.lend();
    assert_eq!(peer.borrow(old, 8, 8), Ok(PAGE + 8));
    drop(area);
    let stale = AreaError::Stale { name: old, generation: 1, pages: 0 };
    assert_eq!(peer.borrow(old, 8, 8), Err(stale));
    let _area = pool.alloc(2).unwrap();
    let name = |page, pages, generation| AreaName { page, pages, generation };
    for bad in [old, name(0, 1, 1), name(0, 3, 1), name(1, 1, 0), name(2, 1, 0)] {
        assert!(matches!(peer.borrow(bad, 0, 1), Err(AreaError::Stale { .. })), "{bad}");
        assert!(matches!(peer.take(bad), Err(AreaError::Stale { .. })), "{bad}");
        assert!(matches!(pool.take(bad), Err(AreaError::Stale { .. })), "{bad}");
    }
    for bad in [name(0, 0, 0), name(16, 1, 0), name(15, 2, 0), name(u32::MAX, u16::MAX, 0)] {
        assert!(matches!(peer.borrow(bad, 0, 0), Err(AreaError::OutOfRange { .. })), "{bad}");
        assert!(matches!(peer.take(bad), Err(AreaError::OutOfRange { .. })), "{bad}");
    }
}

#[test]
fn ranges_within_an_area_are_checked() {
    let Rig { pool, peer, .. } = rig();
    let area = pool.alloc(2).unwrap();
    let end = 2 * PAGE;
    assert_eq!(
        area.write(end - 1, b"ab"),
        Err(OutOfRange { offset: end - 1, len: 2, region: end })
    );
    assert!(area.read(usize::MAX, &mut [0; 2]).is_err());
    assert!(area.write(end, b"").is_ok());
    let (name, end) = (area.lend(), 8192);
    assert_eq!(peer.borrow(name, end, 0), Ok(PAGE + 2 * PAGE));
    for (offset, len) in [(end, 1), (0, end + 1), (u32::MAX, u32::MAX)] {
        let error = AreaError::OutOfRange { name, offset, len, pages: PAGES };
        assert_eq!(peer.borrow(name, offset, len), Err(error));
    }
}

#[test]
fn exhaustion_says_what_there_is() {
    let Rig { pool, .. } = rig();
    let areas: Vec<Area> = (0..PAGES).map(|_| pool.alloc(1).unwrap()).collect();
    assert_eq!(pool.alloc(1).unwrap_err(), PoolExhausted { wanted: 1, free: 0 });
    for (n, area) in areas.into_iter().enumerate() {
        // Every other page comes back: no two in a row.
        if n % 2 == 0 {
            drop(area);
        } else {
            std::mem::forget(area);
        }
    }
    assert_eq!(pool.alloc(2).unwrap_err(), PoolExhausted { wanted: 2, free: 8 });
    assert_eq!(pool.alloc(0).unwrap_err(), PoolExhausted { wanted: 0, free: 8 });
    assert_eq!(pool.alloc(1).unwrap().name().page, 0, "first fit");
}

#[test]
fn the_death_of_giver_or_receiver_gives_an_offer_back() {
    let Rig { fd, pool, peer } = rig();
    let other = PoolMap::attach(&map(&fd), PLACE, OTHER).unwrap();
    let to_peer = pool.alloc(2).unwrap().hand_over(PEER);
    assert_eq!(pool.reclaim(OTHER), 0);
    assert_eq!(pool.reclaim(PEER), 2, "receiver dead");
    assert!(matches!(peer.take(to_peer), Err(AreaError::Stale { .. })));
    let area = peer.take(pool.alloc(2).unwrap().hand_over(PEER)).unwrap();
    let to_other = area.hand_over(OTHER);
    assert_eq!(pool.reclaim(PEER), 2, "giver dead");
    assert!(matches!(other.take(to_other), Err(AreaError::Stale { .. })));
    let area = peer.take(pool.alloc(2).unwrap().hand_over(PEER)).unwrap();
    let back = pool.take(area.hand_over(ME)).unwrap();
    assert_eq!(pool.reclaim(PEER), 0, "taken in time");
    drop(back);
    assert_eq!(pool.free_pages(), PAGES);
}

#[test]
fn a_successor_finds_everything_where_it_was() {
    let Rig { fd, pool, peer } = rig();
    let lent = pool.alloc(3).unwrap();
    let name = lent.lend();
    let forgotten = pool.alloc(1).unwrap();
    let with_peer = peer.take(pool.alloc(2).unwrap().hand_over(PEER)).unwrap();
    let on_the_way = pool.alloc(1).unwrap().hand_over(PEER);
    drop(pool.alloc(4).unwrap());
    // The allocator dies: nothing of it is dropped in good order.
    std::mem::forget((lent, forgotten, pool));
    let pool = Pool::recover(&map(&fd), PLACE, ME).unwrap();
    assert_eq!(pool.free_pages(), PAGES - 7);
    let again = pool.take(name).unwrap();
    assert_eq!(pool.take(name).unwrap_err(), AreaError::AlreadyHeld { name });
    assert_eq!(pool.reclaim(ME), 2, "the forgotten page, and the offer that ME made");
    assert!(peer.take(on_the_way).is_err());
    assert_eq!(peer.borrow(name, 0, 1), Ok(again.region_offset()));
    assert_eq!(with_peer.name().generation, 0);
    assert_eq!(pool.reclaim(PEER), 2);
    drop(again);
    assert_eq!(pool.free_pages(), PAGES);
    assert_eq!(pool.alloc(1).unwrap().name().generation, 1, "generations went on");
}

#[test]
fn a_peer_that_writes_the_table_gets_no_area_twice() {
    let Rig { pool, peer, .. } = rig();
    let area = pool.alloc(2).unwrap();
    let name = area.name();
    let offer =
        |holder, pages: u16| OwnerEntry { holder, offered: 1, pages, generation: 0 }.to_word();
    table_word(&peer, 0).store(offer(2, 2), Ordering::Relaxed);
    assert_eq!(
        pool.take(name).unwrap_err(),
        AreaError::AlreadyHeld { name },
        "offered what is ours"
    );
    table_word(&peer, 1).store(offer(2, 1), Ordering::Relaxed);
    let inner = AreaName { page: 1, pages: 1, generation: 0 };
    assert!(matches!(pool.take(inner), Err(AreaError::Stale { .. })), "an area within an area");
    table_word(&peer, 5).store(offer(2, 1), Ordering::Relaxed);
    let free = AreaName { page: 5, pages: 1, generation: 0 };
    assert!(matches!(pool.take(free), Err(AreaError::Stale { .. })), "a free page");
    drop(area);
    assert_eq!(pool.free_pages(), PAGES);

    // The other side is guarded by what it covers itself.
    let theirs = peer.take(pool.alloc(2).unwrap().hand_over(PEER)).unwrap();
    let to_peer = OwnerEntry { holder: 1, offered: 2, pages: 1, generation: 0 }.to_word();
    table_word(&peer, 1).store(to_peer, Ordering::Relaxed);
    assert_eq!(peer.take(inner).unwrap_err(), AreaError::AlreadyHeld { name: inner });
    drop(theirs);
}

#[test]
fn what_a_scribbling_peer_had_is_reclaimed_all_the_same() {
    let Rig { pool, peer, .. } = rig();
    let area = peer.take(pool.alloc(2).unwrap().hand_over(PEER)).unwrap();
    table_word(&peer, area.name().page).store(u64::MAX, Ordering::Relaxed);
    assert_eq!(pool.reclaim(OTHER), 0);
    assert_eq!(pool.reclaim(PEER), 2);
    assert_eq!(pool.free_pages(), PAGES);
}

#[test]
fn a_read_only_party_borrows_and_takes_nothing() {
    let Rig { fd, pool, .. } = rig();
    let region = Region::map(fd.as_fd(), LEN, Access::ReadOnly).unwrap();
    let reader = PoolMap::attach(&region, PLACE, PEER).unwrap();
    let area = pool.alloc(1).unwrap();
    area.write(10, b"read me").unwrap();
    let at = reader.borrow(area.lend(), 10, 7).unwrap();
    let mut got = [0; 7];
    region.read(at, &mut got).unwrap();
    assert_eq!(&got, b"read me");
    let name = area.hand_over(PEER);
    assert_eq!(reader.take(name).unwrap_err(), AreaError::ReadOnly { name });
    assert!(Pool::create(&region, PLACE, PEER).is_err());
}

#[test]
fn a_pool_must_lie_in_its_region() {
    let region = map(&rig().fd);
    let whole = PLACE;
    let places = [
        PoolLayout { table: 4, ..whole },
        PoolLayout { table: LEN - 8, ..whole },
        PoolLayout { pages_at: PAGE + 8, ..whole },
        PoolLayout { pages_at: 2 * PAGE, ..whole },
        PoolLayout { pages: u32::MAX, ..whole },
        PoolLayout { table: usize::MAX & !7, ..whole },
    ];
    for place in places {
        assert!(PoolMap::attach(&region, place, PEER).is_err(), "{place:?}");
        assert!(Pool::create(&region, place, ME).is_err(), "{place:?}");
    }
}

#[test]
fn many_threads_share_a_pool() {
    let Rig { pool, peer, .. } = rig();
    std::thread::scope(|scope| {
        for number in 0..4_u8 {
            let (pool, peer) = (pool.clone(), peer.clone());
            scope.spawn(move || {
                for _ in 0..2_000 {
                    let Ok(mut area) = pool.alloc(1 + u16::from(number) % 3) else { continue };
                    area.bytes_mut().fill(number);
                    let area = peer.take(area.hand_over(PEER)).unwrap();
                    assert!(area.bytes().iter().all(|byte| *byte == number));
                    drop(pool.take(area.hand_over(ME)).unwrap());
                }
            });
        }
    });
    assert_eq!(pool.free_pages(), PAGES);
}
