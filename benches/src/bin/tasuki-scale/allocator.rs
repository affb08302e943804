//! The allocator that counts allocated bytes.

use std::alloc::System;

use cap::Cap;

/// Counts allocated bytes.
#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// Bytes allocated now.
pub(crate) fn allocated() -> usize {
    ALLOCATOR.allocated()
}
