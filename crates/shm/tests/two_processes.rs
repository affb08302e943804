//! Two real processes: a region by descriptor passing, pages handed over and back, bells on both
//! sides, and the death of one of them in the middle.

use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, poll};
use tasuki_shm::{
    Access, AreaName, Backing, Channel, Consumer, Owner, PAGE, Pool, PoolLayout, PoolMap, Producer,
    Region, Ringer, Sleep, Sleeper, Slot, drain, eventfd, ring_bytes,
};

const CHILD: &str = "TASUKI_SHM_CHILD";
const SERVER: Owner = Owner(1);
const DRIVER: Owner = Owner(2);
const RING: u32 = 16;
const THERE: usize = 128;
const BACK: usize = THERE + ring_bytes(RING);
const PAGES: u32 = 32;
const PLACE: PoolLayout = PoolLayout { table: PAGE, pages_at: 2 * PAGE, pages: PAGES };
const LEN: usize = 2 * PAGE + PAGES as usize * PAGE;

fn to_slot(name: AreaName) -> Slot {
    [name.page.into(), name.pages.into(), name.generation.into(), 0, 0, 0, 0, 0]
}

fn to_name(slot: &Slot) -> AreaName {
    let [page, pages, generation, ..] = *slot;
    AreaName {
        page: page.try_into().unwrap(),
        pages: pages.try_into().unwrap(),
        generation: generation.try_into().unwrap(),
    }
}

/// One side of the conversation.
struct Side {
    tx: Producer,
    rx: Consumer,
    ringer: Ringer,
    sleeper: Sleeper,
    fd: OwnedFd,
}

impl Side {
    /// `bells`: ours, theirs.
    fn new(
        region: &Arc<Region>,
        rings: (usize, usize),
        bells: (usize, usize),
        fds: [OwnedFd; 2],
    ) -> Self {
        let [fd, theirs] = fds;
        Self {
            tx: Producer::attach(region, rings.0, RING).unwrap(),
            rx: Consumer::attach(region, rings.1, RING).unwrap(),
            ringer: Ringer::new(region.word32(bells.1).unwrap(), theirs),
            sleeper: Sleeper::new(region.word32(bells.0).unwrap()),
            fd,
        }
    }

    fn send(&mut self, name: AreaName) {
        self.tx.push(&to_slot(name)).unwrap();
        self.ringer.ring();
    }

    /// The next name; sleeps until there is one.
    fn receive(&mut self, how: Sleep) -> AreaName {
        loop {
            if let Some(slot) = self.rx.pop().unwrap() {
                return to_name(&slot);
            }
            self.sleeper.announce(how);
            if self.rx.is_empty().unwrap() {
                match how {
                    Sleep::Futex => self.sleeper.wait_futex(None).unwrap(),
                    Sleep::Fd | Sleep::FdQuiet | Sleep::Driving => {
                        poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], None).unwrap();
                        drain(&self.fd);
                    }
                }
            }
            self.sleeper.awake();
        }
    }
}

/// The driver: adds 1 to every byte of each area and gives the area back. It dies by abort on a
/// byte 255.
fn driver() {
    let stdin = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    let mut channel = Channel::from_fd(stdin);
    let message = channel.recv().unwrap().unwrap();
    assert_eq!(message.body, b"region and bells");
    let [memfd, ours, theirs] = <[OwnedFd; 3]>::try_from(message.fds).unwrap();
    let region = Region::map(memfd.as_fd(), LEN, Access::ReadWrite).unwrap();
    let pool = PoolMap::attach(&region, PLACE, DRIVER).unwrap();
    let mut side = Side::new(&region, (BACK, THERE), (64, 0), [ours, theirs]);
    channel.send(b"ready", &[]).unwrap();
    loop {
        let mut area = pool.take(side.receive(Sleep::Futex)).unwrap();
        for byte in area.bytes_mut() {
            *byte = byte.checked_add(1).unwrap_or_else(|| std::process::abort());
        }
        side.send(area.hand_over(SERVER));
    }
}

fn spawn_driver(region: &Arc<Region>, memfd: &OwnedFd) -> (Child, Channel, Side) {
    let (mut channel, theirs) = Channel::pair().unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "pages_travel_and_the_dead_give_theirs_back"])
        .env(CHILD, "1")
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let (ours, drivers) = (eventfd().unwrap(), eventfd().unwrap());
    let fds = [memfd.as_fd(), drivers.as_fd(), ours.as_fd()];
    channel.send(b"region and bells", &fds).unwrap();
    assert_eq!(channel.recv().unwrap().unwrap().body, b"ready");
    let side = Side::new(region, (THERE, BACK), (0, 64), [ours, drivers]);
    (child, channel, side)
}

#[test]
fn pages_travel_and_the_dead_give_theirs_back() {
    if std::env::var_os(CHILD).is_some() {
        return driver();
    }
    let (region, memfd) = Region::create("two-processes", LEN, Backing::Small).unwrap();
    let pool = Pool::create(&region, PLACE, SERVER).unwrap();
    let (mut child, mut channel, mut side) = spawn_driver(&region, &memfd);
    for round in 0..2_000_u32 {
        let mut area = pool.alloc(1 + (round % 3) as u16).unwrap();
        let value = (round % 255) as u8;
        area.bytes_mut().fill(value);
        side.send(area.hand_over(DRIVER));
        let back = pool.take(side.receive(Sleep::Fd)).unwrap();
        assert!(back.bytes().iter().all(|byte| *byte == value + 1), "round {round}");
    }
    assert_eq!(pool.free_pages(), PAGES);

    // Three areas, of which the first kills it.
    for pages in [2, 3, 4] {
        let mut area = pool.alloc(pages).unwrap();
        area.bytes_mut().fill(255);
        side.send(area.hand_over(DRIVER));
    }
    assert!(!child.wait().unwrap().success());
    assert!(channel.recv().unwrap().is_none(), "the channel tells of the death");
    assert_eq!(pool.free_pages(), PAGES - 9);
    assert_eq!(pool.reclaim(DRIVER), 9);
    assert_eq!(pool.free_pages(), PAGES);
}
