//! The inet server's memory after many lives of bad clients, counted by the allocator.
#![expect(unsafe_code, reason = "a global allocator cannot be written without")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicIsize, Ordering};

use tasuki_fuzz_targets::call_slots::ClientLives;

/// Counts what is allocated and not freed.
struct Counting;

static BLOCKS: AtomicIsize = AtomicIsize::new(0);
static BYTES: AtomicIsize = AtomicIsize::new(0);

fn count(blocks: isize, layout: Layout) {
    BLOCKS.fetch_add(blocks, Ordering::Relaxed);
    BYTES.fetch_add(blocks * layout.size().cast_signed(), Ordering::Relaxed);
}

// SAFETY: all is left to the system's allocator; the counts touch no memory of the caller's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, layout);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        count(-1, layout);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Lives between two counts.
const LIVES: u64 = 400;
/// Most further blocks and bytes: tables that have found one more entry at the same time.
const MORE: (isize, isize) = (8, 4096);

/// Bytes for one life. Few bytes often break no rule.
fn data(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    std::iter::repeat_with(next).take(40 + 20 * (seed % 40) as usize).collect()
}

#[test]
fn lives_of_clients_leave_nothing_behind() {
    let mut server = ClientLives::default();
    let mut counts = Vec::new();
    let mut sound = 0;
    for _ in 0..3 {
        sound = (0..LIVES).filter(|seed| server.live(&data(*seed))).count();
        server.wait();
        counts.push((BLOCKS.load(Ordering::Relaxed), BYTES.load(Ordering::Relaxed)));
    }
    println!("blocks and bytes after each {LIVES} lives: {counts:?}; {sound} broke no rule");
    assert!(sound > 20 && sound < LIVES as usize - 20, "{sound} of {LIVES} broke no rule");
    for pair in counts.windows(2) {
        let (blocks, bytes) = (pair[1].0 - pair[0].0, pair[1].1 - pair[0].1);
        assert!(blocks <= MORE.0 && bytes <= MORE.1, "{blocks} blocks, {bytes} bytes more");
    }
}
