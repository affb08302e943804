//! Random histories of a pool with three parties against a naive list of areas.

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Alloc(u16),
    /// Pages, receiver.
    Offer(u16, usize),
    /// Area (of those there are, modulo), receiver.
    HandOver(usize, usize),
    /// Area, by whom.
    Take(usize, usize),
    Drop(usize),
    TakeBack(usize),
    /// Area, by whom, offset, length.
    Borrow(usize, usize, u32, u32),
    /// A name of any time, by whom.
    Stale(usize, usize),
    /// A party that is not the allocator dies; the allocator reclaims.
    Die(usize),
    /// The allocator dies; a successor recovers and reclaims.
    AllocatorDies,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (area, party) = (0_usize..1000, 0_usize..3);
    let step = prop_oneof![
        8 => (1_u16..5).prop_map(Step::Alloc),
        4 => (1_u16..5, party.clone()).prop_map(|(n, p)| Step::Offer(n, p)),
        6 => (area.clone(), party.clone()).prop_map(|(a, p)| Step::HandOver(a, p)),
        8 => (area.clone(), party.clone()).prop_map(|(a, p)| Step::Take(a, p)),
        4 => area.clone().prop_map(Step::Drop),
        4 => area.clone().prop_map(Step::TakeBack),
        3 => (area.clone(), party.clone(), 0_u32..20_000, 0_u32..20_000)
            .prop_map(|(a, p, o, l)| Step::Borrow(a, p, o, l)),
        3 => (area, party).prop_map(|(a, p)| Step::Stale(a, p)),
        1 => (1_usize..3).prop_map(Step::Die),
        1 => Just(Step::AllocatorDies),
    ];
    prop::collection::vec(step, 0..150)
}

const PARTIES: [Owner; 3] = [ME, PEER, OTHER];

/// Where an area is, by number of the party.
#[derive(Debug, PartialEq, Clone, Copy)]
enum Where {
    Held(usize),
    Offered(usize, usize),
}

struct Model {
    name: AreaName,
    at: Where,
    /// The holder's; none while offered, and after a holder that cannot free it has dropped it.
    value: Option<Area>,
    content: u64,
}

struct World {
    fd: OwnedFd,
    pool: Pool,
    maps: [PoolMap; 2],
    areas: Vec<Model>,
    names: Vec<AreaName>,
}

impl World {
    fn new() -> Self {
        let Rig { fd, pool, peer } = rig();
        let other = PoolMap::attach(&map(&fd), PLACE, OTHER).unwrap();
        Self { fd, pool, maps: [peer, other], areas: Vec::new(), names: Vec::new() }
    }

    fn map(&self, party: usize) -> &PoolMap {
        party.checked_sub(1).map_or(self.pool.map(), |n| &self.maps[n])
    }

    fn taken(&self) -> Vec<bool> {
        let mut taken = vec![false; PAGES as usize];
        for area in &self.areas {
            for page in area.name.page..area.name.page + u32::from(area.name.pages) {
                let before = std::mem::replace(&mut taken[page as usize], true);
                assert!(!before, "two owners of {page}");
            }
        }
        taken
    }

    fn alloc(&mut self, pages: u16) {
        let fits = self.taken().windows(pages.into()).position(|w| w.iter().all(|t| !t));
        let got = self.pool.alloc(pages);
        assert_eq!(got.as_ref().ok().map(|area| area.name().page as usize), fits);
        let Ok(area) = got else { return };
        let (name, content) = (area.name(), self.names.len() as u64);
        assert!(!self.names.contains(&name), "{name} was used before");
        self.names.push(name);
        area.write(area.len() - 8, &content.to_ne_bytes()).unwrap();
        self.areas.push(Model { name, at: Where::Held(0), value: Some(area), content });
    }

    fn offer(&mut self, pages: u16, to: usize) {
        let fits = self.taken().windows(pages.into()).position(|w| w.iter().all(|t| !t));
        let got = self.pool.offer(pages, PARTIES[to]);
        assert_eq!(got.ok().map(|name| name.page as usize), fits);
        let Ok(name) = got else { return };
        let content = self.names.len() as u64;
        assert!(!self.names.contains(&name), "{name} was used before");
        self.names.push(name);
        let end = PLACE.pages_at + (name.page as usize + usize::from(pages)) * PAGE;
        self.pool.map().region().write(end - 8, &content.to_ne_bytes()).unwrap();
        self.areas.push(Model { name, at: Where::Offered(0, to), value: None, content });
    }

    fn take_back(&mut self, index: usize) {
        let Some(area) = self.areas.get(index) else { return };
        let got = self.pool.take_back(area.name);
        let wanted = matches!(area.at, Where::Offered(_, 0));
        assert_eq!(got.is_ok(), wanted, "{}: {:?}, {got:?}", area.name, area.at);
        if wanted {
            self.areas.swap_remove(index);
        }
    }

    fn hand_over(&mut self, index: usize, to: usize) {
        let Some(area) = self.areas.get_mut(index) else { return };
        if let (Where::Held(from), Some(value)) = (area.at, area.value.take()) {
            assert_eq!(value.hand_over(PARTIES[to]), area.name);
            area.at = Where::Offered(from, to);
        }
    }

    fn take(&mut self, index: usize, by: usize) {
        let Some(area) = self.areas.get(index) else { return };
        let got = self.map(by).take(area.name);
        let wanted = matches!(area.at, Where::Offered(_, to) if to == by);
        assert_eq!(got.is_ok(), wanted, "{} by {by}: {:?}, {got:?}", area.name, area.at);
        if let Ok(value) = got {
            let mut content = [0; 8];
            value.read(value.len() - 8, &mut content).unwrap();
            assert_eq!(u64::from_ne_bytes(content), area.content);
            let area = &mut self.areas[index];
            (area.value, area.at) = (Some(value), Where::Held(by));
        }
    }

    fn drop_area(&mut self, index: usize) {
        let Some(area) = self.areas.get_mut(index) else { return };
        // Dropped here in any case; whose process can free it, frees it.
        if area.value.take().is_some() && area.at == Where::Held(0) {
            self.areas.swap_remove(index);
        }
    }

    fn borrow(&self, index: usize, by: usize, offset: u32, len: u32) {
        let Some(area) = self.areas.get(index) else { return };
        let inside = offset + len <= u32::from(area.name.pages) * 4096;
        let at = PLACE.pages_at + area.name.page as usize * PAGE + offset as usize;
        assert_eq!(self.map(by).borrow(area.name, offset, len).ok(), inside.then_some(at));
    }

    fn stale(&self, index: usize, by: usize) {
        let Some(name) = self.names.get(index) else { return };
        if self.areas.iter().all(|area| area.name != *name) {
            assert!(self.map(by).take(*name).is_err());
            assert!(self.pool.take_back(*name).is_err());
            assert!(self.map(by).borrow(*name, 0, 0).is_err());
        }
    }

    /// Removes the areas of `party` from the model, as its death does. Returns the number of pages.
    fn forget(&mut self, party: usize) -> u32 {
        let mut pages = 0;
        for area in std::mem::take(&mut self.areas) {
            let theirs = match area.at {
                Where::Held(by) => by == party,
                Where::Offered(from, to) => from == party || to == party,
            };
            if theirs {
                pages += u32::from(area.name.pages);
                std::mem::forget(area.value);
            } else {
                self.areas.push(area);
            }
        }
        pages
    }

    fn die(&mut self, party: usize) {
        let pages = self.forget(party);
        // A new process takes its place.
        self.maps[party - 1] = PoolMap::attach(&map(&self.fd), PLACE, PARTIES[party]).unwrap();
        assert_eq!(self.pool.reclaim(PARTIES[party]), pages);
    }

    fn allocator_dies(&mut self) {
        let pages = self.forget(0);
        self.pool = Pool::recover(&map(&self.fd), PLACE, ME).unwrap();
        assert_eq!(self.pool.reclaim(ME), pages);
    }

    fn step(&mut self, step: &Step) {
        let area = |n: usize| n % self.areas.len().max(1);
        match *step {
            Step::Alloc(pages) => self.alloc(pages),
            Step::Offer(pages, to) => self.offer(pages, to),
            Step::TakeBack(n) => self.take_back(area(n)),
            Step::HandOver(n, to) => self.hand_over(area(n), to),
            Step::Take(n, by) => self.take(area(n), by),
            Step::Drop(n) => self.drop_area(area(n)),
            Step::Borrow(n, by, offset, len) => self.borrow(area(n), by, offset, len),
            Step::Stale(n, by) => self.stale(n % self.names.len().max(1), by),
            Step::Die(party) => self.die(party),
            Step::AllocatorDies => self.allocator_dies(),
        }
        let free = self.taken().iter().filter(|taken| !**taken).count();
        assert_eq!(self.pool.free_pages() as usize, free, "after {step:?}");
    }
}

proptest! {
    /// No double owner, no leak, no stale name accepted, and everything of the dead comes back.
    #[test]
    fn agrees_with_a_list_of_areas(steps in steps()) {
        let mut world = World::new();
        for step in &steps {
            world.step(step);
        }
        world.die(1);
        world.die(2);
        world.allocator_dies();
        prop_assert_eq!(world.pool.free_pages(), PAGES);
    }

    /// A table full of anything, rewritten all the time: no panic, nothing out of range, and no two
    /// areas of one process over the same page.
    #[test]
    fn garbage_in_the_table_is_survived(
        words in prop::collection::vec(word(), PAGES as usize),
        steps in prop::collection::vec((0_u32..PAGES, word(), name(), 0_u8..10), 0..100),
    ) {
        let Rig { fd, pool, peer } = rig();
        let write = |page: u32, word| table_word(&peer, page).store(word, Ordering::Relaxed);
        for (page, word) in (0..).zip(words) {
            write(page, word);
        }
        drop(pool);
        let pool = Pool::recover(&map(&fd), PLACE, ME).unwrap();
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for (page, word, name, step) in steps {
            write(page, word);
            match step {
                0 | 1 => ours.extend(pool.take(name).ok()),
                2 => theirs.extend(peer.take(name).ok()),
                3 => ours.extend(pool.alloc(name.pages % 4).ok()),
                4 => drop(ours.pop()),
                5 => drop(ours.pop().map(|area| area.hand_over(PEER))),
                7 => _ = pool.take_back(name),
                8 => _ = pool.offer(name.pages % 4, PEER),
                6 => drop(theirs.pop().map(|area: Area| area.hand_over(ME))),
                _ => drop(pool.reclaim(Owner(1 + name.pages % 3))),
            }
            for map in [&peer, pool.map()] {
                if let Ok(at) = map.borrow(name, 0, 4096) {
                    prop_assert!(at >= PLACE.pages_at && at + PAGE <= LEN);
                }
            }
            for areas in [&ours, &theirs] {
                let mut taken = [false; PAGES as usize];
                for name in areas.iter().map(Area::name) {
                    for page in name.page..name.page + u32::from(name.pages) {
                        prop_assert!(!std::mem::replace(&mut taken[page as usize], true));
                    }
                }
            }
        }
    }
}

/// Table words: mostly nearly sensible ones.
fn word() -> impl Strategy<Value = u64> {
    let entry = (0_u8..4, 0_u8..4, 0_u16..6, 0_u32..3);
    let entry = entry.prop_map(|(holder, offered, pages, generation)| {
        OwnerEntry { holder, offered, pages, generation }.to_word()
    });
    prop_oneof![8 => entry, 1 => any::<u64>()]
}

fn name() -> impl Strategy<Value = AreaName> {
    let near = (0..PAGES + 2, 0_u16..6, 0_u32..3);
    let any = (any::<u32>(), any::<u16>(), any::<u32>());
    let name = |(page, pages, generation)| AreaName { page, pages, generation };
    prop_oneof![8 => near.prop_map(name), 1 => any.prop_map(name)]
}
