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
    pub(super) sender: OwnerId,
    /// Its length, bytes.
    pub(super) len: u32,
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
    /// The driver's consumer count at the last look.
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

    /// A broken ring counts as room: its next use reports the fault.
    fn has_room(&mut self) -> bool {
        self.sent.len() < self.most && !matches!(self.ring.has_room(1), Ok(false))
    }

    /// Has the driver passed a frame since the last look?
    fn has_news(&mut self) -> bool {
        !matches!(self.ring.consumed(), Ok(done) if done == self.done)
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

/// A sender's frames whose heads were not taken back.
#[derive(Debug, Clone, Copy, Default)]
struct SenderUsage {
    priority_frames: u32,
    priority_bytes: u32,
    bulk_frames: u32,
}

/// The two queues.
pub(super) struct Output {
    priority: TxQueue,
    bulk: TxQueue,
    /// By index.
    senders: Vec<SenderUsage>,
    /// The choice for a sender, as long as nothing has changed: it is asked for several times for
    /// each frame.
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
        let usage = self.senders.get(sender.index()).copied().unwrap_or_default();
        // An empty queue is as good.
        let is_sparse = usage.bulk_frames == 0
            && !self.bulk.sent.is_empty()
            && usage.priority_frames < PRIORITY_FRAMES
            && usage.priority_bytes < PRIORITY_BYTES;
        if is_sparse && self.priority.has_room() {
            return Some(QueueKind::Priority);
        }
        self.bulk.has_room().then_some(QueueKind::Bulk)
    }

    /// Puts a frame into a queue that [`Output::choose`] has named. The driver sees it after
    /// [`Output::publish`].
    pub(super) fn stage(
        &mut self,
        queue: QueueKind,
        slot: &Slot,
        frame: SentFrame,
    ) -> Result<(), PushError> {
        self.chosen = None;
        let to = match queue {
            QueueKind::Priority => &mut self.priority,
            QueueKind::Bulk => &mut self.bulk,
        };
        // A frame that is not in the ring must not be waited for.
        to.ring.stage(slot)?;
        to.sent.push_back(frame);
        let index = frame.sender.index();
        if self.senders.len() <= index {
            self.senders.resize(index + 1, SenderUsage::default());
        }
        let usage = &mut self.senders[index];
        match queue {
            QueueKind::Priority => {
                usage.priority_frames += 1;
                usage.priority_bytes += frame.len;
            }
            QueueKind::Bulk => usage.bulk_frames += 1,
        }
        Ok(())
    }

    /// Calls `each` with every frame that the driver has passed. Returns whether there was one.
    pub(super) fn complete(&mut self, mut each: impl FnMut(SentFrame)) -> Result<bool, RingFault> {
        let (priority, bulk) = (self.priority.ring.consumed()?, self.bulk.ring.consumed()?);
        if priority == self.priority.done && bulk == self.bulk.done {
            return Ok(false);
        }
        self.chosen = None;
        while let Some(frame) = self.priority.pop_passed(priority) {
            if let Some(usage) = self.senders.get_mut(frame.sender.index()) {
                usage.priority_frames -= 1;
                usage.priority_bytes -= frame.len;
            }
            each(frame);
        }
        while let Some(frame) = self.bulk.pop_passed(bulk) {
            if let Some(usage) = self.senders.get_mut(frame.sender.index()) {
                usage.bulk_frames -= 1;
            }
            each(frame);
        }
        Ok(true)
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
