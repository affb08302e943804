//! The two queues of frames to a driver, and which of them a frame takes.
//!
//! The driver serves the priority queue first. A frame takes it while its sender has little under
//! way and others have frames in the bulk queue. So a program that sends now and then waits behind
//! a few frames of each other sender, and not behind all that they send in bulk. The idea is that
//! of new flows in FQ-CoDel (RFC 8290 4.2), with senders in the place of flows.
//!
//! Frames of one sender stay in order: while one of them is in the bulk queue, those that follow
//! take it too. There is one exception, which TCP tolerates. The driver takes a bulk frame after
//! [`PRIORITY_BURST`](abi::nic::PRIORITY_BURST) others, and that frame may overtake the last
//! priority frames of its sender.

use std::collections::VecDeque;
use std::sync::Arc;

use abi::nic::{HEADS, NicLayout, PRIORITY_RING, RING};
use inet::OwnerId;
use shm::{AreaName, OutOfRange, Producer, PushError, Region, RingFault, Slot};

/// Most frames of a sender in the priority queue.
const PRIORITY_FRAMES: u32 = 8;
/// Bytes of a sender in the priority queue after which its next frame takes the other one.
const PRIORITY_BYTES: u32 = 16 * 1024;
/// Most frames of the priority queue whose heads were not taken back.
const PRIORITY_HEADS: usize = 2 * PRIORITY_RING as usize;

/// A frame that the driver has, or has passed, and whose head was not taken back.
#[derive(Debug, Clone, Copy)]
pub(super) struct SentFrame {
    pub(super) area: AreaName,
    pub(super) number: u64,
}

/// Names a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QueueKind {
    Priority,
    Bulk,
}

/// A queue of frames to the driver.
struct TxQueue {
    ring: Producer,
    /// Frames whose head was not taken back, oldest first.
    sent: VecDeque<SentFrame>,
    /// Most of them.
    most: usize,
    /// Frames whose head was taken back. The driver's consumer count at the last look.
    done: u64,
}

impl TxQueue {
    fn attach(
        region: &Arc<Region>,
        (offset, slots): (usize, u32),
        most: usize,
    ) -> Result<Self, OutOfRange> {
        let ring = Producer::attach(region, offset, slots)?;
        Ok(Self { ring, sent: VecDeque::with_capacity(slots as usize), most, done: 0 })
    }

    /// Puts a frame into it. Returns how many were put into it until now.
    #[inline]
    fn stage(&mut self, slot: &Slot, frame: SentFrame) -> Result<u64, PushError> {
        // A frame that is not in the ring must not be waited for.
        self.ring.stage(slot)?;
        self.sent.push_back(frame);
        Ok(self.done + self.sent.len() as u64)
    }

    /// A broken ring counts as room: its next use reports the fault.
    #[inline]
    fn has_room(&mut self) -> bool {
        self.sent.len() < self.most && !matches!(self.ring.has_room(1), Ok(false))
    }

    /// The driver's consumer count. Of a queue without frames it can be no other than before.
    #[inline]
    fn consumed(&mut self) -> Result<u64, RingFault> {
        if self.sent.is_empty() { Ok(self.done) } else { self.ring.consumed() }
    }

    /// Has the driver passed a frame since the last look?
    fn has_news(&mut self) -> bool {
        !matches!(self.consumed(), Ok(done) if done == self.done)
    }

    /// The next frame that the driver has passed; `consumed` is its count.
    fn pop_passed(&mut self, consumed: u64) -> Option<SentFrame> {
        if self.done == consumed {
            return None;
        }
        self.done += 1;
        self.sent.pop_front()
    }
}

/// What a sender has in the queues: frames whose heads were not taken back.
#[derive(Debug, Clone, Copy, Default)]
struct SenderUsage {
    /// Its last frame of each queue, counted as [`TxQueue::stage`] does.
    last_priority: u64,
    last_bulk: u64,
    /// Frames and bytes that it has put into the priority queue since it had none there.
    frames: u32,
    bytes: u32,
}

/// The two queues.
pub(super) struct Output {
    priority: TxQueue,
    bulk: TxQueue,
    /// By index.
    senders: Vec<SenderUsage>,
    /// The choice for a sender, as long as it holds: it is asked for twice for each frame.
    chosen: Option<(OwnerId, QueueKind)>,
}

impl Output {
    pub(super) fn attach(region: &Arc<Region>, layout: &NicLayout) -> Result<Self, OutOfRange> {
        let bulk_heads = HEADS as usize - PRIORITY_HEADS;
        Ok(Self {
            priority: TxQueue::attach(region, (layout.tx_priority, PRIORITY_RING), PRIORITY_HEADS)?,
            bulk: TxQueue::attach(region, (layout.tx, RING), bulk_heads)?,
            senders: Vec::new(),
            chosen: None,
        })
    }

    /// Slots of the priority and the bulk ring, and those that the driver has not passed.
    pub(super) fn fill(&mut self) -> [Result<(u32, u32), RingFault>; 2] {
        [self.priority.ring.fill(), self.bulk.ring.fill()]
    }

    /// The queue that the next frame of a sender takes; `None` if it has no room.
    #[inline]
    pub(super) fn choose(&mut self, sender: OwnerId) -> Option<QueueKind> {
        match self.chosen {
            Some((chosen_for, queue)) if chosen_for == sender => Some(queue),
            _ => {
                let queue = self.choose_anew(sender);
                self.chosen = queue.map(|queue| (sender, queue));
                queue
            }
        }
    }

    fn choose_anew(&mut self, sender: OwnerId) -> Option<QueueKind> {
        // An empty queue is as good.
        let is_sparse = !self.bulk.sent.is_empty() && self.is_sparse(sender);
        if is_sparse && self.priority.has_room() {
            return Some(QueueKind::Priority);
        }
        self.bulk.has_room().then_some(QueueKind::Bulk)
    }

    fn is_sparse(&self, sender: OwnerId) -> bool {
        let Some(usage) = self.senders.get(sender.index()) else { return true };
        let has_few = usage.frames < PRIORITY_FRAMES && usage.bytes < PRIORITY_BYTES;
        usage.last_bulk <= self.bulk.done && (has_few || usage.last_priority <= self.priority.done)
    }

    /// Puts a frame of `len` bytes into a queue that [`Output::choose`] has named. The driver sees
    /// it after [`Output::publish`].
    #[inline]
    pub(super) fn stage(
        &mut self,
        (queue, sender): (QueueKind, OwnerId),
        slot: &Slot,
        frame: SentFrame,
        len: usize,
    ) -> Result<(), PushError> {
        if self.senders.len() <= sender.index() {
            self.senders.resize(sender.index() + 1, SenderUsage::default());
        }
        let usage = &mut self.senders[sender.index()];
        match queue {
            QueueKind::Priority => {
                if usage.last_priority <= self.priority.done {
                    (usage.frames, usage.bytes) = (0, 0);
                }
                usage.frames += 1;
                usage.bytes = usage.bytes.saturating_add(u32::try_from(len).unwrap_or(u32::MAX));
                usage.last_priority = self.priority.stage(slot, frame)?;
                self.chosen = None;
            }
            QueueKind::Bulk => {
                usage.last_bulk = self.bulk.stage(slot, frame)?;
                // The sender's next frame follows this one.
                if !self.bulk.has_room() {
                    self.chosen = None;
                }
            }
        }
        Ok(())
    }

    /// Calls `each` with every frame that the driver has passed. Returns whether there was one.
    pub(super) fn complete(&mut self, mut each: impl FnMut(SentFrame)) -> Result<bool, RingFault> {
        let before = self.unpassed();
        let consumed = self.priority.consumed()?;
        while let Some(frame) = self.priority.pop_passed(consumed) {
            each(frame);
        }
        let consumed = self.bulk.consumed()?;
        while let Some(frame) = self.bulk.pop_passed(consumed) {
            each(frame);
        }
        let some = self.unpassed() < before;
        if some {
            self.chosen = None;
        }
        Ok(some)
    }

    /// Frames whose head was not taken back.
    fn unpassed(&self) -> usize {
        self.priority.sent.len() + self.bulk.sent.len()
    }

    /// Number of the oldest frame whose head was not taken back.
    pub(super) fn oldest(&self) -> Option<u64> {
        let fronts = [self.priority.sent.front(), self.bulk.sent.front()];
        fronts.into_iter().flatten().map(|frame| frame.number).min()
    }

    /// Has the driver passed a frame since the last look?
    pub(super) fn has_news(&mut self) -> bool {
        self.priority.has_news() || self.bulk.has_news()
    }

    /// Frames that the driver does not see yet.
    pub(super) fn staged(&self) -> u32 {
        self.priority.ring.staged() + self.bulk.ring.staged()
    }

    /// Makes the staged frames visible. Returns whether there were any.
    pub(super) fn publish(&mut self) -> bool {
        // The priority queue first, so that a sender's first bulk frame does not overtake those.
        let priority = self.priority.ring.staged() > 0;
        if priority {
            self.priority.ring.publish();
        }
        let bulk = self.bulk.ring.staged() > 0;
        if bulk {
            self.bulk.ring.publish();
        }
        priority || bulk
    }

    /// Forgets all frames: the driver is gone.
    pub(super) fn clear(&mut self) {
        self.priority.sent.clear();
        self.bulk.sent.clear();
        self.senders.clear();
    }
}
