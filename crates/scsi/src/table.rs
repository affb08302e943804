//! The table of commands: the one place that the dispatcher, the checks before it and REPORT
//! SUPPORTED OPERATION CODES read.
//!
//! A row's usage map has the bits of the command descriptor block that the device server
//! evaluates (SPC-4 6.35.3). A set bit outside of it is an invalid field. FUA_NV (bit 1 of byte 1)
//! is in the maps of reads and writes, though SBC-3 made it obsolete: initiators still set it, and
//! FUA promises more. The group number is in the maps and has no effect.

/// What a row's command does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operation {
    TestUnitReady,
    RequestSense,
    Inquiry,
    ReportLuns,
}

/// What reservations of other nexuses mean for a command (SPC-4 table 66, SBC-3 table 14).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Under {
    /// Every reservation allows it.
    Anything,
    /// Every persistent reservation allows it. RESERVE of another nexus forbids it.
    Persistent,
    /// It reads: the Write Exclusive types allow it.
    Reader,
    /// It writes, or changes the unit.
    Writer,
    /// Its handler decides.
    Itself,
}

/// What a command needs of its unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Needs {
    /// Nothing.
    Unit,
    /// The medium is there and started.
    Medium,
    /// As `Medium`, and the unit is not write-protected.
    Writable,
    /// As `Writable`, and the unit is thin. Other units have no such command.
    Thin,
}

/// Which way a command's bytes go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    /// It has none.
    No,
    In,
    Out,
}

/// A row.
#[derive(Debug)]
pub(crate) struct Row {
    /// Byte 1's low five bits, for an operation code that has service actions.
    pub(crate) service: Option<u8>,
    pub(crate) usage: &'static [u8],
    pub(crate) operation: Operation,
    pub(crate) direction: Direction,
    pub(crate) under: Under,
    pub(crate) needs: Needs,
}

impl Row {
    pub(crate) const fn opcode(&self) -> u8 {
        self.usage[0]
    }
}

macro_rules! rows {
    ($($service:ident [$($usage:expr),+] $operation:ident $direction:ident $under:ident
        $needs:ident;)+) => {
        &[$(Row {
            service: $service(&[$($usage),+]),
            usage: &[$($usage),+],
            operation: Operation::$operation,
            direction: Direction::$direction,
            under: Under::$under,
            needs: Needs::$needs,
        }),+]
    };
}

/// A row without service action.
const fn plain(_: &[u8]) -> Option<u8> {
    None
}

/// A row whose usage map has its service action in byte 1.
const fn action(usage: &[u8]) -> Option<u8> {
    Some(usage[1] & 0x1f)
}

/// A byte whose bits all count.
const B: u8 = 0xff;

/// Every command, by operation code and then service action.
pub(crate) static TABLE: &[Row] = rows! {
    plain  [0x00, 0, 0, 0, 0, 0]                              TestUnitReady No Persistent Unit;
    plain  [0x03, 1, 0, 0, B, 0]                              RequestSense In Anything Unit;
    plain  [0x12, 1, B, B, B, 0]                              Inquiry In Anything Unit;
    plain  [0xa0, 0, B, 0, 0, 0, B, B, B, B, 0, 0]            ReportLuns In Anything Unit;
};

/// Where each operation code's rows begin; `TABLE.len()` for one without.
static FIRST: [u8; 256] = {
    let mut first = [0; 256];
    let mut opcode = 0;
    while opcode < 256 {
        let mut at = 0;
        while at < TABLE.len() && TABLE[at].usage[0] as usize != opcode {
            at += 1;
        }
        first[opcode] = at as u8;
        opcode += 1;
    }
    first
};

/// What a look-up finds.
#[derive(Debug)]
pub(crate) enum Lookup {
    Found(&'static Row),
    /// The operation code is known, its service action is not.
    NoService,
    Unknown,
}

/// The rows of an operation code.
pub(crate) fn rows_of(opcode: u8) -> impl Iterator<Item = &'static Row> {
    let rows = TABLE.get(usize::from(FIRST[usize::from(opcode)])..).unwrap_or_default();
    rows.iter().take_while(move |row| row.opcode() == opcode)
}

/// The row of an operation code and, if it has service actions, of one.
pub(crate) fn find(opcode: u8, service: u8) -> Lookup {
    let mut found = Lookup::Unknown;
    for row in rows_of(opcode) {
        if row.service.is_none_or(|own| own == service) {
            return Lookup::Found(row);
        }
        found = Lookup::NoService;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted_and_have_the_length_of_their_group() {
        for pair in TABLE.windows(2) {
            let key = |row: &Row| (row.opcode(), row.service);
            assert!(key(&pair[0]) < key(&pair[1]), "{pair:?}");
        }
        for row in TABLE {
            // SPC-4 4.2.5.1.
            let length = match row.opcode() >> 5 {
                0 => 6,
                1 | 2 => 10,
                4 => 16,
                _ => 12,
            };
            assert_eq!(row.usage.len(), length, "{:#x}", row.opcode());
            // NACA and all other bits of CONTROL are not evaluated.
            assert_eq!(row.usage[length - 1], 0, "{:#x}", row.opcode());
        }
    }

    #[test]
    fn every_row_is_found() {
        for row in TABLE {
            let Lookup::Found(found) = find(row.opcode(), row.service.unwrap_or(31)) else {
                panic!("{:#x} {:?}", row.opcode(), row.service);
            };
            assert!(std::ptr::eq(found, row));
        }
        assert!(matches!(find(0xa3, 0x1f), Lookup::Unknown));
        assert!(matches!(find(0xff, 0), Lookup::Unknown));
    }
}
