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
    ModeSelect,
    ModeSense,
    Reserve,
    Release,
    StartStop,
    PreventAllow,
    ReadCapacity10,
    ReadCapacity16,
    Read,
    Write,
    WriteAndVerify,
    Verify,
    OrWrite,
    CompareAndWrite,
    Prefetch,
    SynchronizeCache,
    ReadDefects,
    WriteSame,
    Unmap,
    GetLbaStatus,
    PersistentIn,
    PersistentOut,
    ExtendedCopy,
    CopyResults,
    ReportLuns,
    ReportPortGroups,
    ReportOpcodes,
    ReportTaskManagement,
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
    /// The medium is there.
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
    plain  [0x08, 0x1f, B, B, B, 0]                           Read In Reader Medium;
    plain  [0x0a, 0x1f, B, B, B, 0]                           Write Out Writer Writable;
    plain  [0x12, 1, B, B, B, 0]                              Inquiry In Anything Unit;
    plain  [0x15, 0x11, 0, 0, B, 0]                           ModeSelect Out Writer Unit;
    plain  [0x16, 0, 0, 0, 0, 0]                              Reserve No Itself Unit;
    plain  [0x17, 0, 0, 0, 0, 0]                              Release No Itself Unit;
    plain  [0x1a, 0x08, B, B, B, 0]                           ModeSense In Reader Unit;
    plain  [0x1b, 1, 0, 0x0f, 0xf7, 0]                        StartStop No Itself Unit;
    plain  [0x1e, 0, 0, 0, 3, 0]                              PreventAllow No Itself Unit;
    plain  [0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0]                  ReadCapacity10 In Persistent Medium;
    plain  [0x28, 0x1a, B, B, B, B, 0x1f, B, B, 0]            Read In Reader Medium;
    plain  [0x2a, 0x1a, B, B, B, B, 0x1f, B, B, 0]            Write Out Writer Writable;
    plain  [0x2e, 0x16, B, B, B, B, 0x1f, B, B, 0]            WriteAndVerify Out Writer Writable;
    plain  [0x2f, 0x16, B, B, B, B, 0x1f, B, B, 0]            Verify Out Reader Medium;
    plain  [0x34, 0x02, B, B, B, B, 0x1f, B, B, 0]            Prefetch No Reader Medium;
    plain  [0x35, 0x06, B, B, B, B, 0x1f, B, B, 0]            SynchronizeCache No Writer Medium;
    plain  [0x37, 0, 0x1f, 0, 0, 0, 0, B, B, 0]               ReadDefects In Reader Medium;
    plain  [0x41, 0x18, B, B, B, B, 0x1f, B, B, 0]            WriteSame Out Writer Writable;
    plain  [0x42, 0x01, 0, 0, 0, 0, 0x1f, B, B, 0]            Unmap Out Writer Thin;
    plain  [0x55, 0x11, 0, 0, 0, 0, 0, B, B, 0]               ModeSelect Out Writer Unit;
    plain  [0x56, 0, 0, 0, 0, 0, 0, 0, 0, 0]                  Reserve No Itself Unit;
    plain  [0x57, 0, 0, 0, 0, 0, 0, 0, 0, 0]                  Release No Itself Unit;
    plain  [0x5a, 0x18, B, B, 0, 0, 0, B, B, 0]               ModeSense In Reader Unit;
    action [0x5e, 0, 0, 0, 0, 0, 0, B, B, 0]                  PersistentIn In Itself Unit;
    action [0x5e, 1, 0, 0, 0, 0, 0, B, B, 0]                  PersistentIn In Itself Unit;
    action [0x5e, 2, 0, 0, 0, 0, 0, B, B, 0]                  PersistentIn In Itself Unit;
    action [0x5e, 3, 0, 0, 0, 0, 0, B, B, 0]                  PersistentIn In Itself Unit;
    action [0x5f, 0, B, 0, 0, B, B, B, B, 0]                  PersistentOut Out Itself Unit;
    action [0x5f, 1, B, 0, 0, B, B, B, B, 0]                  PersistentOut Out Itself Unit;
    action [0x5f, 2, B, 0, 0, B, B, B, B, 0]                  PersistentOut Out Itself Unit;
    action [0x5f, 3, B, 0, 0, B, B, B, B, 0]                  PersistentOut Out Itself Unit;
    action [0x5f, 4, B, 0, 0, B, B, B, B, 0]                  PersistentOut Out Itself Unit;
    action [0x5f, 5, B, 0, 0, B, B, B, B, 0]                  PersistentOut Out Itself Unit;
    action [0x5f, 6, B, 0, 0, B, B, B, B, 0]                  PersistentOut Out Itself Unit;
    action [0x5f, 7, B, 0, 0, B, B, B, B, 0]                  PersistentOut Out Itself Unit;
    action [0x83, 0, 0, 0, 0, 0, 0, 0, 0, 0, B, B, B, B, 0, 0] ExtendedCopy Out Writer Unit;
    action [0x84, 0, B, 0, 0, 0, 0, 0, 0, 0, B, B, B, B, 0, 0] CopyResults In Reader Unit;
    action [0x84, 1, B, 0, 0, 0, 0, 0, 0, 0, B, B, B, B, 0, 0] CopyResults In Reader Unit;
    action [0x84, 3, B, 0, 0, 0, 0, 0, 0, 0, B, B, B, B, 0, 0] CopyResults In Reader Unit;
    action [0x84, 4, B, 0, 0, 0, 0, 0, 0, 0, B, B, B, B, 0, 0] CopyResults In Reader Unit;
    plain  [0x88, 0x1a, B, B, B, B, B, B, B, B, B, B, B, B, 0x1f, 0] Read In Reader Medium;
    plain  [0x89, 0x1a, B, B, B, B, B, B, B, B, 0, 0, 0, B, 0x1f, 0]
                                                              CompareAndWrite Out Writer Writable;
    plain  [0x8a, 0x1a, B, B, B, B, B, B, B, B, B, B, B, B, 0x1f, 0] Write Out Writer Writable;
    plain  [0x8b, 0x1a, B, B, B, B, B, B, B, B, B, B, B, B, 0x1f, 0] OrWrite Out Writer Writable;
    plain  [0x8e, 0x16, B, B, B, B, B, B, B, B, B, B, B, B, 0x1f, 0]
                                                              WriteAndVerify Out Writer Writable;
    plain  [0x8f, 0x16, B, B, B, B, B, B, B, B, B, B, B, B, 0x1f, 0] Verify Out Reader Medium;
    plain  [0x90, 0x02, B, B, B, B, B, B, B, B, B, B, B, B, 0x1f, 0] Prefetch No Reader Medium;
    plain  [0x91, 0x06, B, B, B, B, B, B, B, B, B, B, B, B, 0x1f, 0]
                                                              SynchronizeCache No Writer Medium;
    plain  [0x93, 0x19, B, B, B, B, B, B, B, B, B, B, B, B, 0x1f, 0] WriteSame Out Writer Writable;
    action [0x9e, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, B, B, B, B, 0, 0]
                                                              ReadCapacity16 In Persistent Medium;
    action [0x9e, 0x12, B, B, B, B, B, B, B, B, B, B, B, B, 0, 0] GetLbaStatus In Reader Medium;
    plain  [0xa0, 0, B, 0, 0, 0, B, B, B, B, 0, 0]            ReportLuns In Anything Unit;
    action [0xa3, 0x2a, 0, 0, 0, 0, B, B, B, B, 0, 0]         ReportPortGroups In Persistent Unit;
    action [0xa3, 0x0c, 0x87, B, B, B, B, B, B, B, 0, 0]      ReportOpcodes In Reader Unit;
    action [0xa3, 0x0d, 0x80, 0, 0, 0, B, B, B, B, 0, 0]      ReportTaskManagement In Reader Unit;
    plain  [0xa8, 0x1a, B, B, B, B, B, B, B, B, 0x1f, 0]      Read In Reader Medium;
    plain  [0xaa, 0x1a, B, B, B, B, B, B, B, B, 0x1f, 0]      Write Out Writer Writable;
    plain  [0xae, 0x16, B, B, B, B, B, B, B, B, 0x1f, 0]      WriteAndVerify Out Writer Writable;
    plain  [0xaf, 0x16, B, B, B, B, B, B, B, B, 0x1f, 0]      Verify Out Reader Medium;
    plain  [0xb7, 0x1f, B, B, B, B, B, B, B, B, 0, 0]         ReadDefects In Reader Medium;
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
        assert!(matches!(find(0xa3, 0x1f), Lookup::NoService));
        assert!(matches!(find(0xff, 0), Lookup::Unknown));
    }
}
