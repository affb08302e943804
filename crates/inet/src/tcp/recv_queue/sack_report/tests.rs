use alloc::vec::Vec;
use proptest::prelude::*;

use super::*;

const LEN: usize = 240;

/// What was received, byte by byte.
struct Model {
    base: Seq,
    /// When each byte's block last changed; `None` if it has not come.
    got: Vec<bool>,
    next: usize,
}

impl Model {
    fn block(&self, start: usize, end: usize) -> SackBlock {
        SackBlock { start: self.base + start as u32, end: self.base + end as u32 }
    }

    /// The block around `at`.
    fn around(&self, at: usize) -> SackBlock {
        let start = (0..at).rev().take_while(|i| self.got[*i]).last().unwrap_or(at);
        let end = (at..LEN).take_while(|i| self.got[*i]).last().unwrap_or(at) + 1;
        self.block(start, end)
    }

    /// All blocks beyond the first gap.
    fn blocks(&self) -> Vec<SackBlock> {
        let mut all = Vec::new();
        for i in self.next..LEN {
            if self.got[i] && (i == 0 || !self.got[i - 1]) {
                all.push(self.around(i));
            }
        }
        all
    }
}

proptest! {
    /// RFC 2018 4, for one segment and one ACK at a time: the first block is the one around the
    /// segment; every block is one that there is; those left out are the ones reported longest ago.
    #[test]
    fn the_option_tells_what_was_received(
        base: u32,
        most in 1_usize..=4,
        arrivals in prop::collection::vec((1_usize..LEN, 1_usize..20), 1..60),
    ) {
        let mut model = Model { base: Seq::new(base), got: alloc::vec![false; LEN], next: 0 };
        let mut report = SackReport::default();
        let mut recent: Vec<SackBlock> = Vec::new();
        for (start, len) in arrivals {
            let end = (start + len).min(LEN);
            if model.got[start..end].iter().any(|got| *got) {
                continue;
            }
            model.got[start..end].fill(true);
            let block = model.block(start, end);
            report.add(block);
            let whole = model.around(start);
            recent.retain(|old| old.start.before(whole.start) || old.end.after(whole.end));
            recent.insert(0, whole);
            let (option, duplicate) = report.take(most, true);
            prop_assert!(!duplicate);
            let told: Vec<SackBlock> = option.as_slice().to_vec();
            let wanted: Vec<SackBlock> = recent.iter().take(most).copied().collect();
            prop_assert_eq!(told, wanted);
            let all = model.blocks();
            prop_assert!(recent.iter().all(|block| all.contains(block)));
            prop_assert!(!report.has_unreported());
        }
        // What is filled up to some place is not told of any more.
        report.forget_before(model.base + LEN as u32);
        prop_assert!(report.take(most, true).0.is_empty());
    }

    /// Many segments before the first ACK: as many ACKs as are owed tell of all.
    #[test]
    fn several_options_tell_of_all(
        most in 1_usize..=4,
        places in prop::collection::btree_set(1_usize..60, 1..30),
    ) {
        let mut report = SackReport::default();
        for place in &places {
            let start = Seq::new(*place as u32 * 10);
            report.add(SackBlock { start, end: start + 5 });
        }
        let mut told = alloc::collections::BTreeSet::new();
        let mut options = 0;
        while report.has_unreported() {
            let (option, _) = report.take(most, true);
            prop_assert!(option.as_slice().len() <= most);
            told.extend(option.as_slice().iter().map(|block| block.start.get() as usize / 10));
            options += 1;
            prop_assert!(options <= places.len());
        }
        prop_assert_eq!(options, places.len().div_ceil(most));
        prop_assert_eq!(told, places);
    }
}

fn block(start: u32, end: u32) -> SackBlock {
    SackBlock { start: Seq::new(start), end: Seq::new(end) }
}

/// RFC 2883 4.1, 4.2.
#[test]
fn a_duplicate_is_told_once_and_first() {
    let mut report = SackReport::default();
    report.add(block(10, 20));
    report.add(block(30, 40));
    report.take(4, true);
    report.add_duplicate(block(12, 15));
    let (option, duplicate) = report.take(4, true);
    assert!(duplicate);
    assert_eq!(option.as_slice(), [block(12, 15), block(10, 20), block(30, 40)]);
    let (option, duplicate) = report.take(4, true);
    assert!(!duplicate);
    assert_eq!(option.as_slice(), [block(10, 20), block(30, 40)]);
}

#[test]
fn duplicates_that_touch_are_one() {
    let mut report = SackReport::default();
    report.add_duplicate(block(1, 3));
    report.add_duplicate(block(3, 5));
    report.add_duplicate(block(9, 9));
    assert_eq!(report.take(4, true).0.as_slice(), [block(1, 5)]);
    report.add_duplicate(block(1, 3));
    report.add_duplicate(block(7, 8));
    assert_eq!(report.take(4, true).0.as_slice(), [block(7, 8)]);
}

#[test]
fn without_room_or_permission_a_duplicate_waits_or_goes() {
    let mut report = SackReport::default();
    report.add_duplicate(block(1, 3));
    assert_eq!(report.take(0, true), (SackBlocks::default(), false));
    assert_eq!(report.take(1, true).0.as_slice(), [block(1, 3)]);
    report.add_duplicate(block(1, 3));
    assert!(report.take(4, false).0.is_empty());
    assert!(report.take(4, true).0.is_empty());
}

#[test]
fn no_more_than_the_bound_is_remembered() {
    let mut report = SackReport::default();
    for i in 0..1000 {
        report.add(block(i * 10, i * 10 + 5));
    }
    assert_eq!(report.blocks.len(), REMEMBERED);
}
