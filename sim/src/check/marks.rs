//! The marks that an application sets in its stream. No segment has bytes from both sides of the
//! end of a record (MSG_EOR). The urgent pointer names the byte after the urgent one (RFC 9293
//! 3.8.5, RFC 6093 5), and appears nowhere else.

use super::Check;
use super::side::{MarkCheck, Side};
use super::status::{RelativeSegment, WriteMark};

impl Check {
    /// Notes that `side` has written up to `end` bytes and has put `mark` on the last one.
    pub fn marked(&mut self, side: usize, end: u64, mark: WriteMark) {
        let marks = &mut self.sides[side].marks;
        let position = end as i64 + 1;
        if mark.record {
            marks.records.insert(position);
        }
        if mark.urgent {
            marks.urgent.insert(position);
        }
    }

    /// Looks at a segment's marks.
    pub(super) fn check_marks(
        &mut self,
        side: usize,
        relative: &RelativeSegment<'_>,
    ) -> Result<(), String> {
        let own = &mut self.sides[side];
        let &RelativeSegment { segment, start, text, .. } = relative;
        let after = text + segment.len as i64;
        if let Some(end) = own.marks.records.range(text + 1..).next().filter(|end| **end < after) {
            return Err(format!("{text}..{after} across the end of a record at {end}"));
        }
        match segment.urgent {
            Some(pointer) => own.check_pointer(start, pointer),
            None if segment.len > 0 => own.check_silence(start),
            None => Ok(()),
        }
    }

    /// Checks the urgent mark that the application of `side` sees when it has read `received`
    /// bytes.
    ///
    /// # Errors
    /// The fault of it.
    pub fn told_urgent(
        &mut self,
        side: usize,
        byte: Option<u64>,
        received: u64,
    ) -> Result<(), String> {
        let position = byte.map(|byte| byte as i64 + 2);
        let MarkCheck { urgent, named, .. } = &self.sides[1 - side].marks;
        let is_mark = |position: &i64| urgent.contains(position) || named.contains(position);
        if let Some(position) = position.filter(|position| !is_mark(position)) {
            return Err(format!("told of an urgent byte before {position}, which is none"));
        }
        let seen = self.sides[side].marks.seen.max(position);
        let passed = urgent.range(..=received as i64 + 1).next_back().copied();
        if passed > seen {
            return Err(format!("read past the urgent byte before {passed:?}, told of {seen:?}"));
        }
        self.sides[side].marks.seen = seen;
        Ok(())
    }
}

impl Side {
    /// The pointer names the newest mark, or has the largest value because the mark is farther
    /// away.
    fn check_pointer(&mut self, start: i64, pointer: u16) -> Result<(), String> {
        let newest = self.marks.urgent.last().copied();
        let said = start + i64::from(pointer);
        let is_far = pointer == u16::MAX && newest.is_some_and(|newest| newest > said);
        if is_far {
            self.marks.named.insert(said);
        } else if newest != Some(said) {
            return Err(format!("an urgent pointer to {said}, the newest mark is {newest:?}"));
        }
        Ok(())
    }

    /// Data before an unacknowledged mark has the urgent pointer, if the field can hold it.
    fn check_silence(&self, start: i64) -> Result<(), String> {
        let newest = self.marks.urgent.last().copied();
        match newest.filter(|newest| *newest > self.una && *newest > start) {
            Some(newest) if newest - start <= i64::from(u16::MAX) => {
                Err(format!("no urgent pointer at {start}, the newest mark is {newest}"))
            }
            _ => Ok(()),
        }
    }
}
