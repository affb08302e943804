//! Bytes from one party to another, each way that a machine has: the giver writes them all, the
//! taker reads them all, and says so in a word of memory. Areas are handed over; pipes and Unix
//! sockets copy. Both parties stay awake on a processor of their own in all ways, so that no
//! wake-up is compared.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use abi::data::DataDescriptor;
use anyhow::{Context as _, Result, anyhow};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use shm::{Consumer, Pool, PoolMap, Producer};

use super::mapping::Mapping;
use super::parties::{self, BACK, GIVER, SLOTS, TAKER, THERE, slot};
use super::timing::timed;
use crate::calls::server::pin;
use crate::median::median;

/// Most bytes of one read(2).
const READ: usize = 256 << 10;

/// Nanoseconds until the other party has read all bytes.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct TransferTimes {
    pub(crate) shared: f64,
    pub(crate) strict: f64,
    /// `None`: not enough huge pages are free.
    pub(crate) huge: Option<f64>,
    pub(crate) pipe: f64,
    pub(crate) socket: f64,
}

impl TransferTimes {
    /// Medians of so many rounds.
    pub(super) fn measure(size: usize, rounds: usize, there: usize) -> Result<Self> {
        let area = |mapping| by_area(size, rounds, there, mapping);
        let (reader, writer) = io::pipe()?;
        let (near, far) = UnixStream::pair()?;
        Ok(Self {
            shared: area(Mapping::Shared)?.context("a region")?,
            strict: area(Mapping::Strict)?.context("a region")?,
            huge: area(Mapping::Huge)?,
            pipe: by_copies(size, rounds, there, writer, reader)?,
            socket: by_copies(size, rounds, there, near, far)?,
        })
    }
}

/// What both parties know of the rounds.
#[derive(Default)]
struct TransferProgress {
    /// Rounds that the taker has seen whole.
    taken: AtomicUsize,
    over: AtomicBool,
}

impl TransferProgress {
    /// The taker has all bytes. Their sum keeps the compiler from leaving out the reading.
    fn take(&self, sum: u64) {
        std::hint::black_box(sum);
        self.taken.fetch_add(1, Ordering::Release);
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

/// Rounds of `give`, beside a thread that takes. The first round finds nothing in the caches.
fn rounds(
    count: usize,
    there: usize,
    mut give: impl FnMut(u8) -> Result<()>,
    take: impl FnOnce(&TransferProgress) -> Result<()> + Send,
) -> Result<f64> {
    let progress = TransferProgress::default();
    let times = std::thread::scope(|scope| {
        let taker = scope.spawn(|| {
            pin(there)?;
            take(&progress)
        });
        let mut times = Vec::new();
        let given = (0..=count).try_for_each(|round| {
            let (nanos, done) = timed(|| {
                give(round as u8)?;
                // A taker that failed ends, and takes nothing any more.
                while progress.taken.load(Ordering::Acquire) <= round && !taker.is_finished() {
                    std::hint::spin_loop();
                }
                Ok::<_, anyhow::Error>(())
            });
            times.extend((round > 0).then_some(nanos));
            done
        });
        progress.over.store(true, Ordering::Relaxed);
        let taken = taker.join().map_err(|_| anyhow!("the taker panicked"))?;
        taken.and(given).map(|()| times)
    })?;
    median(times).context("no rounds")
}

/// Reads all bytes.
fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    let rest = rest.iter().map(|byte| u64::from(*byte));
    words.chain(rest).fold(0, u64::wrapping_add)
}

fn by_area(size: usize, count: usize, there: usize, mapping: Mapping) -> Result<Option<f64>> {
    let pages = u16::try_from(size.div_ceil(shm::PAGE))?;
    let layout = parties::pool(pages.into());
    let len = layout.pages_at + usize::from(pages) * shm::PAGE;
    let Some([ours, theirs]) = mapping.regions(len)? else { return Ok(None) };
    let pool = Pool::create(&ours, layout, GIVER)?;
    let mut there_ring = Producer::attach(&ours, THERE, SLOTS)?;
    let mut back_ring = Consumer::attach(&ours, BACK, SLOTS)?;
    let give = |byte| {
        if let Some(slot) = back_ring.pop()? {
            pool.take_back(DataDescriptor::decode(&slot)?.area)?;
        }
        let mut area = pool.alloc(pages)?;
        area.bytes_mut()[..size].fill(byte);
        Ok(there_ring.push(&slot(area.hand_over(TAKER)))?)
    };
    let take = |progress: &TransferProgress| {
        let pool = PoolMap::attach(&theirs, layout, TAKER)?;
        let mut coming = Consumer::attach(&theirs, THERE, SLOTS)?;
        let mut back = Producer::attach(&theirs, BACK, SLOTS)?;
        while !progress.is_over() {
            let Some(given) = coming.pop()? else {
                std::hint::spin_loop();
                continue;
            };
            let area = pool.take(DataDescriptor::decode(&given)?.area)?;
            let all = sum(&area.bytes()[..size]);
            back.push(&slot(area.hand_over(GIVER)))?;
            progress.take(all);
        }
        Ok(())
    };
    rounds(count, there, give, take).map(Some)
}

/// Through the kernel, which copies in and out.
fn by_copies(
    size: usize,
    count: usize,
    there: usize,
    mut to: impl Write + AsFd,
    mut from: impl Read + AsFd + Send,
) -> Result<f64> {
    set_nonblocking(&to)?;
    set_nonblocking(&from)?;
    let mut bytes = vec![0; size];
    let give = |byte| {
        bytes.fill(byte);
        let mut left = &bytes[..];
        while !left.is_empty() {
            left = &left[moved(to.write(left))?..];
        }
        Ok(())
    };
    let take = |progress: &TransferProgress| {
        let mut room = vec![0; size.min(READ)];
        let (mut done, mut all) = (0, 0_u64);
        while !progress.is_over() {
            let most = room.len().min(size - done);
            let now = moved(from.read(&mut room[..most]))?;
            all = all.wrapping_add(sum(&room[..now]));
            done += now;
            if done == size {
                progress.take(all);
                done = 0;
            }
        }
        Ok(())
    };
    rounds(count, there, give, take)
}

/// Bytes that a call has moved; 0 if it would have waited.
fn moved(result: io::Result<usize>) -> io::Result<usize> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            std::hint::spin_loop();
            Ok(0)
        }
        other => other,
    }
}

fn set_nonblocking(end: &impl AsFd) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(end)?;
    Ok(rustix::fs::fcntl_setfl(end, flags | OFlags::NONBLOCK)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_are_read() {
        assert_eq!(sum(&[1; 9]), 0x0101_0101_0101_0101 + 1);
        assert_eq!(sum(&[]), 0);
    }

    #[test]
    fn each_way_moves_bytes() {
        let times = TransferTimes::measure(5000, 3, 0).expect("times");
        for time in [times.shared, times.strict, times.pipe, times.socket] {
            assert!(time > 0.0, "{times:?}");
        }
    }
}
