//! What the loops compute, and their results by another way than a loop.

use serde::{Deserialize, Serialize};

/// A prime: the divisor of [`LoopKind::Modulo`].
pub(super) const DIVISOR: u32 = 97;

/// What a loop computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LoopKind {
    /// A number of Fibonacci, modulo 2^64: a step is an addition.
    Fibonacci,
    /// The numbers of all steps, each joined by exclusive or to the rest of those before, modulo a
    /// prime. Sums would not do: compilers take their divisions out of the order of the steps.
    Modulo,
}

impl LoopKind {
    /// All.
    pub(crate) const ALL: [Self; 2] = [Self::Fibonacci, Self::Modulo];

    /// As results and options have it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Fibonacci => "fibonacci",
            Self::Modulo => "modulo",
        }
    }

    /// The lower 32 bits of the result, computed in another way.
    pub(super) fn expected(self, steps: u32) -> u32 {
        match self {
            Self::Fibonacci => fibonacci_pair(steps).0 as u32,
            Self::Modulo => {
                let step = |rest: u64, step: u64| (rest ^ step) % u64::from(DIVISOR);
                (0..u64::from(steps)).fold(0, step) as u32
            }
        }
    }
}

/// A number of Fibonacci and the next one, modulo 2^64, by doubling.
fn fibonacci_pair(at: u32) -> (u64, u64) {
    if at == 0 {
        return (0, 1);
    }
    let (now, next) = fibonacci_pair(at / 2);
    let twice = now.wrapping_mul(next.wrapping_mul(2).wrapping_sub(now));
    let behind = now.wrapping_mul(now).wrapping_add(next.wrapping_mul(next));
    if at.is_multiple_of(2) { (twice, behind) } else { (behind, twice.wrapping_add(behind)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_fibonacci_are_known() {
        for (at, expected) in [(0, 0), (1, 1), (2, 1), (10, 55), (93, 12_200_160_415_121_876_738)] {
            assert_eq!(fibonacci_pair(at).0, expected, "{at}");
        }
    }
}
