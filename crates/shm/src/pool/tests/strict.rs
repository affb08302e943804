//! Strict mode, seen from outside: a child process does one thing and lives, or dies of SIGSEGV.

#![allow(unsafe_code)]

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use super::*;

const CHILD: &str = "TASUKI_SHM_STRICT_CHILD";
const SIGSEGV: i32 = 11;

/// What a child does, and whether it survives that.
const ACTIONS: [(&str, bool); 11] = [
    ("write an owned area", true),
    ("write after hand-over", false),
    ("read after hand-over", false),
    ("write after the area came back", true),
    ("write after drop", false),
    ("read a page of the pool that nobody owns", false),
    ("use the region outside of the pool", true),
    ("read a borrowed area", true),
    ("write a borrowed area", false),
    ("write after reclaim by a successor", false),
    ("write through a read-only mapping", false),
];

#[test]
fn access_ends_with_ownership() {
    if let Ok(action) = std::env::var(CHILD) {
        perform(&action);
        return;
    }
    let exe = std::env::current_exe().unwrap();
    for (action, lives) in ACTIONS {
        let status = Command::new(&exe)
            .args(["--exact", "pool::tests::strict::access_ends_with_ownership"])
            .env(CHILD, action)
            .stdout(Stdio::null())
            .status()
            .unwrap();
        let (signal, success) = (status.signal(), status.success());
        assert_eq!((signal, success), ((!lives).then_some(SIGSEGV), lives), "{action}");
    }
}

fn perform(action: &str) {
    let (_, fd) = Region::create("strict-test", LEN, Backing::Small).unwrap();
    let region = Region::map_strict(fd.as_fd(), LEN).unwrap();
    let pool = Pool::create(&region, PLACE, ME).unwrap();
    let peer = PoolMap::attach(&map(&fd), PLACE, PEER).unwrap();
    let area = pool.alloc(2).unwrap();
    let at = area.region_offset() + PAGE;
    let poke = || region.write(at, b"x").unwrap();
    let peek = || region.read(at, &mut [0]).unwrap();
    match action {
        "write an owned area" => poke(),
        "write after hand-over" => {
            let _ = area.hand_over(PEER);
            poke();
        }
        "read after hand-over" => {
            let _ = area.hand_over(PEER);
            peek();
        }
        "write after the area came back" => {
            let theirs = peer.take(area.hand_over(PEER)).unwrap();
            let _ours = pool.take(theirs.hand_over(ME)).unwrap();
            poke();
        }
        "write after drop" => {
            drop(area);
            poke();
        }
        "read a page of the pool that nobody owns" => region.read(LEN - 1, &mut [0]).unwrap(),
        "use the region outside of the pool" => region.write(0, b"x").unwrap(),
        "read a borrowed area" | "write a borrowed area" => {
            let theirs = peer.take(area.hand_over(PEER)).unwrap();
            assert_eq!(pool.borrow(theirs.lend(), 4096, 1), Ok(at));
            if action.starts_with("read") { peek() } else { poke() }
        }
        "write after reclaim by a successor" => {
            std::mem::forget((area, pool));
            let pool = Pool::recover(&region, PLACE, ME).unwrap();
            assert_eq!(pool.reclaim(ME), 2);
            poke();
        }
        "write through a read-only mapping" => {
            let region = Region::map(fd.as_fd(), LEN, Access::ReadOnly).unwrap();
            let byte = region.as_ptr(at, 1).unwrap();
            // SAFETY: mapped; the system refuses the write, which is what this tests.
            unsafe { byte.write_volatile(1) };
        }
        other => panic!("no such action: {other}"),
    }
}

#[test]
fn a_whole_pool_can_be_taken_page_by_page() {
    let (_, fd) = Region::create("strict-test", LEN, Backing::Small).unwrap();
    let region = Region::map_strict(fd.as_fd(), LEN).unwrap();
    let pool = Pool::create(&region, PLACE, ME).unwrap();
    let mut areas: Vec<Area> = (0..PAGES).map(|_| pool.alloc(1).unwrap()).collect();
    for (n, area) in (0..).zip(&mut areas) {
        area.bytes_mut().fill(n);
    }
    let kept: Vec<Area> = areas.into_iter().step_by(2).collect();
    for (n, area) in (0..).step_by(2).zip(&kept) {
        assert!(area.bytes().iter().all(|byte| *byte == n));
    }
}
