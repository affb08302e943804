//! The cost of a wake-up, estimated from samples, and the bound of spins that follows from it.
//!
//! A sample is the time by which a sleeper ran too late. It contains the wake-up of the processor,
//! and sometimes more: another thread had the processor, or the hypervisor had taken it. So the
//! estimate is the lower quartile of the latest [`SAMPLES`]. Up to three quarters of them may be
//! inflated at any time.
//!
//! A wait for others contains their wake-ups: of the program, of the other server, of the far host.
//! A spin of [`TIMES`] wake-ups covers these three and ends when sleeping would have cost as much
//! again. The result lies between [`LEAST`] and [`MOST`], whatever the samples are.

/// So many samples count.
const SAMPLES: usize = 16;
/// Fewer samples are no estimate.
const ENOUGH: usize = 4;
/// The bound is so many wake-ups.
const TIMES: u64 = 4;
/// The least bound, nanoseconds. It covers the work of others, where wake-ups cost little.
pub(super) const LEAST: u64 = 50_000;
/// The greatest bound, nanoseconds.
pub(super) const MOST: u64 = 400_000;

/// The latest samples.
#[derive(Debug, Default)]
pub(super) struct WakeCost {
    /// Nanoseconds. The first `count` are valid.
    samples: [u64; SAMPLES],
    count: usize,
    /// The place of the next sample.
    next: usize,
}

impl WakeCost {
    /// Takes a sample, nanoseconds.
    pub(super) fn note(&mut self, nanos: u64) {
        self.samples[self.next] = nanos;
        self.next = (self.next + 1) % SAMPLES;
        self.count = (self.count + 1).min(SAMPLES);
    }

    /// Are there enough samples for an estimate?
    pub(super) fn is_known(&self) -> bool {
        self.count >= ENOUGH
    }

    /// The estimate, nanoseconds.
    pub(super) fn nanos(&self) -> Option<u64> {
        let mut sorted = self.samples;
        let sorted = sorted.get_mut(..self.count)?;
        sorted.sort_unstable();
        sorted.get(self.count / 4).copied().filter(|_| self.is_known())
    }

    /// The longest spin that pays, nanoseconds: [`LEAST`] to [`MOST`].
    pub(super) fn bound(&self) -> u64 {
        self.nanos().map_or(LEAST, |nanos| nanos.saturating_mul(TIMES).clamp(LEAST, MOST))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(samples: &[u64]) -> WakeCost {
        let mut cost = WakeCost::default();
        samples.iter().for_each(|&nanos| cost.note(nanos));
        cost
    }

    #[test]
    fn few_samples_are_no_estimate() {
        let few = of(&[90_000; ENOUGH - 1]);
        assert_eq!((few.nanos(), few.bound(), few.is_known()), (None, LEAST, false));
        let enough = of(&[90_000; ENOUGH]);
        assert_eq!((enough.nanos(), enough.bound()), (Some(90_000), 360_000));
    }

    #[test]
    fn the_bound_follows_the_cost_of_a_wake_up() {
        for (cost, bound) in [
            (0, LEAST),
            (5_000, LEAST),
            (12_500, LEAST),
            (25_000, 100_000),
            (60_000, 240_000),
            (100_000, MOST),
            (u64::MAX, MOST),
        ] {
            assert_eq!(of(&[cost; SAMPLES]).bound(), bound, "{cost}");
        }
    }

    /// A processor that others compute on, or that the hypervisor took, does not count.
    #[test]
    fn a_few_quick_samples_are_believed_among_slow_ones() {
        let mut samples = [3_000_000; SAMPLES];
        for at in [1, 6, 7, 11, 15] {
            samples[at] = 20_000 + at as u64;
        }
        assert_eq!(of(&samples).nanos(), Some(20_015));
        assert_eq!(of(&samples).bound(), 80_060);
    }

    #[test]
    fn a_machine_that_changes_its_state_is_found_out() {
        let mut cost = of(&[5_000; 100]);
        let changes = |cost: &mut WakeCost, nanos| {
            (1..).find(|_| {
                cost.note(nanos);
                cost.nanos() == Some(nanos)
            })
        };
        assert_eq!(changes(&mut cost, 60_000), Some(SAMPLES - SAMPLES / 4));
        assert_eq!(changes(&mut cost, 4_000), Some(SAMPLES / 4 + 1));
    }

    proptest! {
        /// Whatever happened: the bound is in its range, and the estimate is one of the samples.
        #[test]
        fn every_bound_is_in_its_range(samples in prop::collection::vec(any::<u64>(), 0..60)) {
            let cost = of(&samples);
            prop_assert!((LEAST..=MOST).contains(&cost.bound()));
            let latest = &samples[samples.len().saturating_sub(SAMPLES)..];
            match cost.nanos() {
                Some(nanos) => {
                    let less = latest.iter().filter(|&&sample| sample < nanos).count();
                    prop_assert!(latest.contains(&nanos) && less <= latest.len() / 4);
                }
                None => prop_assert!(samples.len() < ENOUGH),
            }
        }

        /// Slower samples never give a shorter spin.
        #[test]
        fn the_bound_is_monotonic(
            samples in prop::collection::vec(0..1_000_000_u64, 0..40),
            more in 0..1_000_000_u64,
        ) {
            let slower: Vec<u64> = samples.iter().map(|nanos| nanos + more).collect();
            prop_assert!(of(&slower).bound() >= of(&samples).bound());
        }
    }
}
