//! The loops of user mode. The compiler may unroll them, as it would anywhere. It knows neither the
//! steps nor the divisor, so it computes nothing in advance.

use std::hint::black_box;
use std::num::NonZeroU32;

use super::kind::{DIVISOR, LoopKind};

/// The lower 32 bits of what the loop computes.
pub(super) fn looped(kind: LoopKind, steps: u32) -> u32 {
    let steps = black_box(steps);
    black_box(match kind {
        LoopKind::Fibonacci => fibonacci(steps) as u32,
        LoopKind::Modulo => {
            black_box(NonZeroU32::new(DIVISOR)).map_or(0, |divisor| modulo(steps, divisor))
        }
    })
}

#[inline(never)]
fn fibonacci(steps: u32) -> u64 {
    let (mut now, mut next) = (0_u64, 1_u64);
    for _ in 0..steps {
        (now, next) = (next, now.wrapping_add(next));
    }
    now
}

#[inline(never)]
fn modulo(steps: u32, divisor: NonZeroU32) -> u32 {
    let mut rest = 0_u32;
    for step in 0..steps {
        rest = (rest ^ step) % divisor;
    }
    rest
}
