//! Results of finished EXTENDED COPY commands, which RECEIVE COPY RESULTS asks for by list
//! identifier (SPC-4 6.4.6, 6.20).

use std::collections::VecDeque;

use crate::id::NexusId;
use crate::sense::Sense;

/// Most results that a target keeps. The oldest makes room.
pub(crate) const MOST: usize = 64;

/// The result of a copy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CopyResult {
    pub(crate) nexus: NexusId,
    pub(crate) list: u8,
    /// Segments that were done.
    pub(crate) segments: u16,
    /// Bytes that were written.
    pub(crate) bytes: u64,
    /// Why the copy failed.
    pub(crate) failure: Option<Sense>,
}

/// The results that are kept.
#[derive(Debug, Default)]
pub(crate) struct CopyTable(VecDeque<CopyResult>);

impl CopyTable {
    /// Enters a result. It replaces an earlier one of the same list.
    pub(crate) fn enter(&mut self, result: CopyResult) {
        self.0.retain(|known| (known.nexus, known.list) != (result.nexus, result.list));
        if self.0.len() >= MOST {
            self.0.pop_front();
        }
        self.0.push_back(result);
    }

    /// The result of a list.
    pub(crate) fn find(&self, nexus: NexusId, list: u8) -> Option<&CopyResult> {
        self.0.iter().find(|known| (known.nexus, known.list) == (nexus, list))
    }

    /// Takes out the result of a list.
    pub(crate) fn take(&mut self, nexus: NexusId, list: u8) -> Option<CopyResult> {
        let at = self.0.iter().position(|known| (known.nexus, known.list) == (nexus, list))?;
        self.0.remove(at)
    }

    /// The nexus is gone.
    pub(crate) fn forget(&mut self, nexus: NexusId) {
        self.0.retain(|known| known.nexus != nexus);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_result_makes_room() {
        let mut table = CopyTable::default();
        let result = |nexus, list| CopyResult {
            nexus: NexusId(nexus),
            list,
            segments: 1,
            bytes: 1,
            failure: None,
        };
        for nexus in 0..=MOST as u64 {
            table.enter(result(nexus, 1));
        }
        assert_eq!(table.find(NexusId(0), 1), None);
        assert_eq!(table.find(NexusId(1), 1), Some(&result(1, 1)));
        table.enter(CopyResult { bytes: 2, ..result(2, 1) });
        assert_eq!(table.0.len(), MOST);
        assert_eq!(table.take(NexusId(2), 1).map(|found| found.bytes), Some(2));
        table.forget(NexusId(3));
        assert_eq!((table.0.len(), table.find(NexusId(3), 1)), (MOST - 2, None));
    }
}
