//! Does a thread that waits for the first result of its calls look for it for some µs, or sleep at
//! once?
//!
//! To sleep and to be woken takes 5 to 60 µs. A batch of some ten calls takes the server 1 to 5 µs,
//! if it is awake on another processor: looking is shorter. On the server's own processor, or while
//! it sleeps, or where calls wait for the network, nothing comes: looking is in vain, and takes the
//! processor from the server.
//!
//! So the past tells. After looks in vain the next 1, 3, 7, … up to 63 waits begin with a sleep.
//! One look that finds results lets each wait begin with one.

/// Most waits that begin with a sleep after looks in vain.
const MOST_ASLEEP: u32 = 63;

/// What the waits of one batch have shown.
#[derive(Debug, Default)]
pub(super) struct FirstLook {
    /// Waits between two looks.
    between: u32,
    /// Waits that begin with a sleep before the next look.
    asleep: u32,
}

impl FirstLook {
    /// A wait begins. True: look first, and say what came of it ([`FirstLook::was`]).
    pub(super) fn is_due(&mut self) -> bool {
        let is_due = self.asleep == 0;
        self.asleep = self.asleep.saturating_sub(1);
        is_due
    }

    /// The look has found results, or was in vain.
    pub(super) fn was(&mut self, found: bool) {
        self.between = if found { 0 } else { (2 * self.between + 1).min(MOST_ASLEEP) };
        self.asleep = self.between;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of so many waits begin with a look, if all looks end so.
    fn looks(first_look: &mut FirstLook, waits: u32, found: bool) -> usize {
        let looked = (0..waits).filter(|_| {
            let is_due = first_look.is_due();
            if is_due {
                first_look.was(found);
            }
            is_due
        });
        looked.count()
    }

    #[test]
    fn looks_in_vain_become_rare() {
        let mut first_look = FirstLook::default();
        assert_eq!(looks(&mut first_look, 1, false), 1);
        // After 1, 3, 7, 15, 31 and 63 waits, then after each 63.
        assert_eq!(looks(&mut first_look, 126, false), 6);
        assert_eq!(looks(&mut first_look, 6400, false), 100);
    }

    #[test]
    fn one_that_finds_results_brings_them_back() {
        let mut first_look = FirstLook::default();
        // The last one that was in vain is the 959th, so the next is 64 later.
        looks(&mut first_look, 1000, false);
        assert_eq!(looks(&mut first_look, 64, true), 42);
        assert_eq!(looks(&mut first_look, 100, true), 100);
    }
}
