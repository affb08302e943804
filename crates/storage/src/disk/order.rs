//! The order of writes to the same blocks: each waits for the earlier ones.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use tokio::sync::Notify;

/// The writes that run or wait, in the order of their coming.
#[derive(Debug, Default)]
pub(super) struct WriteOrder {
    next: Cell<u64>,
    writes: RefCell<BTreeMap<u64, OrderedWrite>>,
}

/// A write's blocks, and what is told when it is over.
type OrderedWrite = (Range<u64>, Rc<Notify>);

impl WriteOrder {
    /// Waits until no earlier write has one of these blocks. The blocks are free again when the
    /// turn is dropped.
    pub(super) async fn enter(self: &Rc<Self>, blocks: Range<u64>) -> WriteTurn {
        let key = self.next.replace(self.next.get() + 1);
        let over = Rc::new(Notify::new());
        self.writes.borrow_mut().insert(key, (blocks.clone(), over));
        let turn = WriteTurn { order: Rc::clone(self), key };
        while let Some(over) = self.earlier(key, &blocks) {
            over.notified().await;
        }
        turn
    }

    /// An earlier write that has one of the blocks.
    fn earlier(&self, key: u64, blocks: &Range<u64>) -> Option<Rc<Notify>> {
        let writes = self.writes.borrow();
        let mut earlier = writes.range(..key).map(|(_, write)| write);
        let found = earlier.find(|(one, _)| one.start < blocks.end && blocks.start < one.end);
        found.map(|(_, over)| Rc::clone(over))
    }
}

/// A write that may run.
#[derive(Debug)]
pub(super) struct WriteTurn {
    order: Rc<WriteOrder>,
    key: u64,
}

impl Drop for WriteTurn {
    fn drop(&mut self) {
        if let Some((_, over)) = self.order.writes.borrow_mut().remove(&self.key) {
            over.notify_waiters();
        }
    }
}
