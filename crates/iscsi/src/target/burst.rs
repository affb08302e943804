//! A sequence of Data-Out PDUs: unsolicited data, or the answer to one R2T (RFC 7143 11.7).

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::pdu::{DataOut, NO_TAG};

/// What is wrong with data-out, as the initiator hears it in sense data (RFC 7143 11.4.7.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DataFault {
    /// Unsolicited data that was not agreed.
    Unexpected,
    /// More or less data than agreed, or in the wrong place.
    Amount,
    /// A digest is wrong, or a PDU is missing.
    Damaged,
}

impl DataFault {
    /// ASC and ASCQ of ABORTED COMMAND.
    pub(super) const fn additional_sense(self) -> [u8; 2] {
        match self {
            Self::Unexpected => [0x0c, 0x0c],
            Self::Amount => [0x0c, 0x0d],
            Self::Damaged => [0x47, 0x05],
        }
    }
}

/// A sequence that is under way.
#[derive(Debug)]
pub(super) struct Burst {
    /// Of its R2T, or [`NO_TAG`].
    pub(super) transfer_tag: u32,
    pub(super) offset: u32,
    pub(super) length: u32,
    in_order: bool,
    received: u32,
    next_data_sn: u32,
    pieces: BTreeMap<u32, Bytes>,
    /// The PDU with the F bit was there.
    pub(super) is_over: bool,
}

impl Burst {
    pub(super) fn new(transfer_tag: u32, offset: u32, length: u32, in_order: bool) -> Self {
        Self {
            transfer_tag,
            offset,
            length,
            in_order,
            received: 0,
            next_data_sn: 0,
            pieces: BTreeMap::new(),
            is_over: false,
        }
    }

    pub(super) fn received(&self) -> u32 {
        self.received
    }

    /// The pieces in order; together they are contiguous if the burst is complete.
    pub(super) fn into_pieces(self) -> impl Iterator<Item = Bytes> {
        self.pieces.into_values()
    }

    /// Most pieces. Payloads below 512 bytes are not agreed upon by anybody, but for the last.
    fn most_pieces(&self) -> usize {
        self.length as usize / 512 + 16
    }

    /// Takes a PDU. `is_whole` says that the F bit needs all bytes. After a fault the burst keeps
    /// nothing, and waits for its F bit.
    pub(super) fn take(
        &mut self,
        pdu: &DataOut,
        data: Bytes,
        is_whole: bool,
    ) -> Result<(), DataFault> {
        self.is_over |= pdu.is_final;
        let result = self.check(pdu, &data).and_then(|()| {
            self.next_data_sn = self.next_data_sn.wrapping_add(1);
            if !data.is_empty() {
                self.received += u32::try_from(data.len()).unwrap_or(0);
                self.pieces.insert(pdu.offset, data);
            }
            match pdu.is_final && is_whole && self.received != self.length {
                // RFC 7143 11.4.7.2
                true => Err(DataFault::Amount),
                false => Ok(()),
            }
        });
        if result.is_err() {
            self.pieces.clear();
        }
        result
    }

    fn check(&self, pdu: &DataOut, data: &Bytes) -> Result<(), DataFault> {
        // RFC 7143 7.9: a gap of DataSN is a PDU whose digest was wrong.
        if pdu.data_sn.get() != self.next_data_sn {
            return Err(DataFault::Damaged);
        }
        let length = u32::try_from(data.len()).map_err(|_| DataFault::Amount)?;
        let end = pdu.offset.checked_add(length).ok_or(DataFault::Amount)?;
        let outside = pdu.offset < self.offset || end > self.offset.saturating_add(self.length);
        // RFC 7143 13.18
        let skips = self.in_order && pdu.offset != self.offset.saturating_add(self.received);
        let before = self.pieces.range(..=pdu.offset).next_back();
        let overlaps =
            before.is_some_and(|(at, piece)| {
                u64::from(*at) + piece.len() as u64 > u64::from(pdu.offset) && length > 0
            }) || self.pieces.range(pdu.offset..).next().is_some_and(|(at, _)| *at < end);
        let too_many = self.pieces.len() >= self.most_pieces();
        match outside || skips || overlaps || too_many {
            true => Err(DataFault::Amount),
            false => Ok(()),
        }
    }

    /// Whether the burst is unsolicited data.
    pub(super) fn is_unsolicited(&self) -> bool {
        self.transfer_tag == NO_TAG
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lun::Lun;
    use crate::serial::SerialNumber;

    fn pdu(data_sn: u32, offset: u32, is_final: bool) -> DataOut {
        DataOut {
            is_final,
            lun: Lun::default(),
            task_tag: 1,
            transfer_tag: 2,
            exp_stat_sn: SerialNumber::new(0),
            data_sn: SerialNumber::new(data_sn),
            offset,
        }
    }

    fn bytes(length: usize) -> Bytes {
        Bytes::from(vec![1; length])
    }

    #[test]
    fn a_burst_takes_its_bytes() {
        let mut burst = Burst::new(2, 100, 1000, true);
        assert_eq!(burst.take(&pdu(0, 100, false), bytes(600), true), Ok(()));
        assert_eq!(burst.take(&pdu(1, 700, true), bytes(400), true), Ok(()));
        assert!(burst.is_over && burst.received() == 1000);
        let mut burst = Burst::new(2, 100, 1000, false);
        assert_eq!(burst.take(&pdu(0, 600, false), bytes(500), true), Ok(()));
        assert_eq!(burst.take(&pdu(1, 100, true), bytes(500), true), Ok(()));
        assert_eq!(burst.into_pieces().map(|piece| piece.len()).sum::<usize>(), 1000);
    }

    #[test]
    fn faults_are_told_apart() {
        let fault = |in_order, steps: &[(u32, u32, usize, bool)]| {
            let mut burst = Burst::new(2, 100, 1000, in_order);
            let mut last = Ok(());
            for (data_sn, offset, length, is_final) in steps {
                last = burst.take(&pdu(*data_sn, *offset, *is_final), bytes(*length), true);
            }
            (last, burst.pieces.is_empty())
        };
        let damaged = (Err(DataFault::Damaged), true);
        let amount = (Err(DataFault::Amount), true);
        // What libiscsi's test_iscsi_datasn_invalid.c sends.
        assert_eq!(fault(true, &[(0, 100, 500, false), (0, 600, 500, true)]), damaged);
        assert_eq!(fault(true, &[(27, 100, 1000, true)]), damaged);
        assert_eq!(fault(true, &[(u32::MAX, 100, 1000, true)]), damaged);
        assert_eq!(fault(true, &[(1, 100, 500, false)]), damaged);
        assert_eq!(fault(true, &[(0, 100, 500, true)]), amount);
        assert_eq!(fault(true, &[(0, 99, 10, false)]), amount);
        assert_eq!(fault(true, &[(0, 100, 1001, true)]), amount);
        assert_eq!(fault(true, &[(0, 200, 10, false)]), amount);
        assert_eq!(fault(false, &[(0, u32::MAX, 10, false)]), amount);
        assert_eq!(fault(false, &[(0, 200, 10, false), (1, 209, 10, false)]), amount);
        assert_eq!(fault(false, &[(0, 200, 10, false), (1, 191, 10, false)]), amount);
        let (ok, kept) = fault(false, &[(0, 200, 10, false), (1, 190, 10, false)]);
        assert!(ok.is_ok() && !kept);
        let many: Vec<_> = (0..18).map(|n| (n, 100 + n, 1, false)).collect();
        assert_eq!(fault(true, &many), amount);
    }
}
