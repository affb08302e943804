//! Which blocks of a unit have storage: the answer to GET LBA STATUS (SBC-3 5.5).

/// Blocks that are stored alike, from where the ones before end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BlockRun {
    pub(super) blocks: u64,
    pub(super) allocated: bool,
}

/// The runs of the answer, from `first` on and up to `end`. `None`: it makes no sense. There is at
/// least one run, and no run is empty.
pub(super) fn runs(answer: &[u8], first: u64, end: u64) -> Option<Vec<BlockRun>> {
    let (head, descriptors) = answer.split_at_checked(8)?;
    // The length counts what is behind it.
    let told = usize::try_from(u32::from_be_bytes(head[..4].try_into().ok()?)).ok()?;
    let len = told.saturating_sub(4).min(descriptors.len());
    let mut runs: Vec<BlockRun> = Vec::new();
    let mut at = first;
    for descriptor in descriptors[..len].chunks_exact(16) {
        let start = u64::from_be_bytes(descriptor[..8].try_into().ok()?);
        let count = u32::from_be_bytes(descriptor[8..12].try_into().ok()?);
        let behind = start.checked_add(count.into())?.min(end);
        if at == end {
            break;
        }
        if start > at || behind <= at {
            return None;
        }
        let (blocks, allocated) = (behind - at, descriptor[12] & 0xf == 0);
        match runs.last_mut() {
            Some(run) if run.allocated == allocated => run.blocks += blocks,
            _ => runs.push(BlockRun { blocks, allocated }),
        }
        at = behind;
    }
    (!runs.is_empty()).then_some(runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(descriptors: &[(u64, u32, u8)]) -> Vec<u8> {
        let len = u32::try_from(4 + 16 * descriptors.len()).unwrap();
        let mut bytes = [len.to_be_bytes(), [0; 4]].concat();
        for (start, count, state) in descriptors {
            bytes.extend(start.to_be_bytes());
            bytes.extend(count.to_be_bytes());
            bytes.extend([*state, 0, 0, 0]);
        }
        bytes
    }

    #[test]
    fn runs_begin_where_they_are_asked_for_and_end_there() {
        let told = answer(&[(0, 10, 0), (10, 5, 0), (15, 5, 1), (20, 5, 2), (25, 100, 0)]);
        let run = |blocks, allocated| BlockRun { blocks, allocated };
        let all = [run(11, true), run(10, false), run(5, true)];
        assert_eq!(runs(&told, 4, 30).unwrap(), all);
        assert_eq!(runs(&told, 4, 6).unwrap(), [run(2, true)]);
        assert_eq!(runs(&told, 4, 15).unwrap(), [run(11, true)]);
    }

    #[test]
    fn answers_that_make_no_sense() {
        for (told, why) in [
            (vec![0; 7], "no head"),
            (answer(&[]), "nothing"),
            (answer(&[(5, 10, 0)]), "it begins behind"),
            (answer(&[(0, 4, 0)]), "it ends before"),
            (answer(&[(4, 0, 0)]), "an empty one"),
            (answer(&[(4, 1, 0), (9, 1, 0)]), "a gap"),
            (answer(&[(u64::MAX, 2, 0)]), "too large"),
        ] {
            assert_eq!(runs(&told, 4, 30), None, "{why}");
        }
        // A length that is larger than what came.
        let mut long = answer(&[(0, 100, 1)]);
        long[3] = 200;
        assert_eq!(runs(&long, 4, 30).unwrap().len(), 1);
    }
}
