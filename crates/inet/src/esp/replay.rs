//! The receiver's side of sequence numbers: the replay window, and the upper half of 64-bit
//! numbers (RFC 4303 3.4.3, A2).
//!
//! The window is a ring of blocks of 64 bits, one more than the window needs, so that it moves by
//! clearing whole blocks (RFC 6479 gives the reasons).

use alloc::vec;
use alloc::vec::Vec;

/// Bits of a block.
const BLOCK: u64 = 64;
/// Largest window, packets.
pub(crate) const MOST_WINDOW: u32 = 4096;
/// Smallest window (RFC 4303 3.4.3), packets. 0 is none at all.
pub(crate) const LEAST_WINDOW: u32 = 32;

/// The window of one association.
#[derive(Debug, Clone)]
pub(crate) struct ReplayWindow {
    /// Highest number that was authenticated; 0 before the first.
    top: u64,
    size: u64,
    /// Bit `n % 64` of block `n / 64` modulo their number: packet `n` was received.
    blocks: Vec<u64>,
    extended: bool,
}

impl ReplayWindow {
    /// A window of `size` packets; 0 lets every packet through.
    pub(crate) fn new(size: u32, extended: bool) -> Self {
        let blocks = if size == 0 { 0 } else { size.div_ceil(BLOCK as u32) as usize + 1 };
        Self { top: 0, size: size.into(), blocks: vec![0; blocks], extended }
    }

    /// The window after a packet of number `top` from before.
    pub(crate) fn after(mut self, top: u64) -> Self {
        if top > 0 {
            self.mark(top);
        }
        self
    }

    /// The highest number received.
    pub(crate) fn top(&self) -> u64 {
        self.top
    }

    /// Size, packets.
    pub(crate) fn size(&self) -> u32 {
        u32::try_from(self.size).unwrap_or(u32::MAX)
    }

    /// The whole number of a packet that carries `low`, if it may be new. `None` if it was received
    /// before, is older than the window, or is impossible.
    pub(crate) fn check(&self, low: u32) -> Option<u64> {
        let number = if self.extended { self.infer(low)? } else { low.into() };
        // RFC 4303 3.3.3: the first packet has number 1.
        (number != 0 && !self.was_received(number)).then_some(number)
    }

    /// RFC 4303 A2.2.
    fn infer(&self, low: u32) -> Option<u64> {
        let (high, top) = (self.top >> 32, (self.top & u64::from(u32::MAX)) as u32);
        let reach = self.size().saturating_sub(1);
        let bottom = top.wrapping_sub(reach);
        let high = match (top >= reach, low >= bottom) {
            // The window lies within one subspace.
            (true, true) => high,
            (true, false) => high.checked_add(1).filter(|high| *high <= u32::MAX.into())?,
            // It spans two.
            (false, true) => high.checked_sub(1)?,
            (false, false) => high,
        };
        Some(high << 32 | u64::from(low))
    }

    fn was_received(&self, number: u64) -> bool {
        if self.size == 0 || number > self.top {
            return false;
        }
        if self.top - number >= self.size {
            return true;
        }
        let (index, bit) = self.place(number);
        self.blocks.get(index).is_some_and(|block| block & bit != 0)
    }

    /// Marks a packet whose integrity was verified as received.
    pub(crate) fn mark(&mut self, number: u64) {
        if self.size == 0 {
            self.top = self.top.max(number);
            return;
        }
        if number > self.top {
            let (from, to) = (self.top / BLOCK, number / BLOCK);
            let steps = (to - from).min(self.blocks.len() as u64);
            for step in 0..steps {
                let (index, _) = self.place((to - step) * BLOCK);
                if let Some(block) = self.blocks.get_mut(index) {
                    *block = 0;
                }
            }
            self.top = number;
        }
        let (index, bit) = self.place(number);
        if let Some(block) = self.blocks.get_mut(index) {
            *block |= bit;
        }
    }

    fn place(&self, number: u64) -> (usize, u64) {
        let blocks = self.blocks.len().max(1) as u64;
        ((number / BLOCK % blocks) as usize, 1 << (number % BLOCK))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn take(window: &mut ReplayWindow, low: u32) -> bool {
        let number = window.check(low);
        number.map(|number| window.mark(number)).is_some()
    }

    #[test]
    fn a_packet_is_let_through_once_and_not_when_it_is_old() {
        let mut window = ReplayWindow::new(32, false);
        assert!(!take(&mut window, 0));
        for low in [1, 5, 3, 40] {
            assert!(take(&mut window, low), "{low}");
            assert!(!take(&mut window, low), "{low} again");
        }
        // 40 - 31 = 9 is the oldest number in the window.
        assert!(take(&mut window, 9));
        assert!(!take(&mut window, 8));
        assert!(take(&mut window, u32::MAX));
        assert!(!take(&mut window, 39));
        assert_eq!(window.top(), u32::MAX.into());
    }

    #[test]
    fn without_a_window_everything_passes() {
        let mut window = ReplayWindow::new(0, false);
        assert!(take(&mut window, 7) && take(&mut window, 7) && take(&mut window, 1));
        assert_eq!(window.top(), 7);
    }

    #[test]
    fn sixty_four_bit_numbers_go_on_after_the_lower_half_is_used_up() {
        let mut window = ReplayWindow::new(64, true);
        // Nothing may come from before the first subspace.
        assert_eq!(window.check(u32::MAX), None);
        window.mark(u64::from(u32::MAX) - 1);
        assert_eq!(window.check(u32::MAX), Some(u32::MAX.into()));
        assert_eq!(window.check(3), Some(1 << 32 | 3));
        window.mark(1 << 32 | 3);
        // Late packets of the first subspace are still in the window.
        assert_eq!(window.check(u32::MAX), Some(u32::MAX.into()));
        assert_eq!(window.check(u32::MAX - 1), None);
        assert_eq!(window.check(2), Some(1 << 32 | 2));
        window.mark(1 << 32 | 1000);
        assert_eq!(window.check(u32::MAX), Some(1 << 32 | u64::from(u32::MAX)));
        // The last subspace has no successor.
        let mut last = ReplayWindow::new(64, true);
        last.mark(u64::MAX - 10);
        assert_eq!(last.check(5), None);
        assert_eq!(last.check(u32::MAX), Some(u64::MAX));
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_set_of_all_numbers(
            size in 32..=4096_u32,
            steps in prop::collection::vec((0..6_u32, 0..5000_u32), 1..400),
        ) {
            let mut window = ReplayWindow::new(size, false);
            let (mut seen, mut top) = (BTreeSet::new(), 0_u32);
            for (kind, step) in steps {
                let low = if kind < 3 { top.saturating_sub(step) } else { top + step % 300 };
                let fresh = low != 0
                    && !seen.contains(&low)
                    && (low > top || top - low < size);
                prop_assert_eq!(take(&mut window, low), fresh, "{} at {}", low, top);
                if fresh {
                    seen.insert(low);
                    top = top.max(low);
                }
            }
        }

        #[test]
        fn the_upper_half_is_inferred_for_all_numbers_near_the_top(
            top in any::<u32>().prop_map(|low| u64::from(low) | 5 << 32),
            size in 32..=4096_u32,
            back in 0..4096_u64,
            on in 0..=u64::from(u32::MAX) - 4096,
        ) {
            let mut window = ReplayWindow::new(size, true);
            window.mark(top);
            let next = top + 1 + on;
            prop_assert_eq!(window.infer((next & 0xffff_ffff) as u32), Some(next));
            let late = top - back.min(u64::from(size) - 1);
            prop_assert_eq!(window.infer((late & 0xffff_ffff) as u32), Some(late));
        }
    }
}
