//! REPORT SUPPORTED OPERATION CODES, REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS, REPORT TARGET PORT
//! GROUPS (SPC-4 6.35 to 6.37).

use crate::call::{Call, Planned};
use crate::sense::Sense;
use crate::state::LogicalUnit;
use crate::table::{Lookup, Needs, Row, TABLE, find, rows_of};
use crate::wire::clamp16;

/// A command timeouts descriptor without times (SPC-4 6.35.4).
const TIMEOUTS: [u8; 12] = [0, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

pub(crate) fn opcodes(call: &mut Call<'_>) -> Planned {
    let (timeouts, option) = (call.bit(2, 7), call.byte(2) & 7);
    let (opcode, service) = (call.byte(3), call.be16(4));
    let allocation = u64::from(call.be32(6));
    let unit = call.unit()?;
    let data = match option {
        0 => all(unit, timeouts),
        1..=3 => one(unit, option, opcode, service, timeouts)?,
        // SPC-4 table 290: the others are reserved.
        _ => return Err(Sense::cdb_field(2, Some(2)).into()),
    };
    call.data(data, allocation)
}

/// Whether the unit has the command.
fn has(unit: &LogicalUnit, row: &Row) -> bool {
    row.needs != Needs::Thin || unit.is_thin()
}

/// All commands (SPC-4 6.35.2).
fn all(unit: &LogicalUnit, timeouts: bool) -> Vec<u8> {
    let mut data = vec![0; 4];
    for row in TABLE.iter().filter(|row| has(unit, row)) {
        let [high, low] = clamp16(row.usage.len()).to_be_bytes();
        let service = row.service.unwrap_or(0);
        let flags = u8::from(timeouts) << 1 | u8::from(row.service.is_some());
        data.extend([row.opcode(), 0, 0, service, 0, flags, high, low]);
        if timeouts {
            data.extend(TIMEOUTS);
        }
    }
    let length = u32::try_from(data.len() - 4).unwrap_or(u32::MAX);
    data[..4].copy_from_slice(&length.to_be_bytes());
    data
}

/// One command (SPC-4 6.35.3).
fn one(
    unit: &LogicalUnit,
    option: u8,
    opcode: u8,
    service: u16,
    timeouts: bool,
) -> Result<Vec<u8>, Sense> {
    let serviced = rows_of(opcode).any(|row| row.service.is_some());
    let known = rows_of(opcode).next().is_some();
    match option {
        // SPC-4 table 290: the operation code must not have service actions, or must have.
        1 if serviced => return Err(Sense::cdb_field(2, Some(2))),
        2 if known && !serviced => return Err(Sense::cdb_field(2, Some(2))),
        _ => {}
    }
    let row = match (u8::try_from(service), find(opcode, u8::try_from(service).unwrap_or(0))) {
        (Ok(_), Lookup::Found(row)) if has(unit, row) => row,
        (Err(_), Lookup::Found(row)) if !serviced && has(unit, row) => row,
        // SUPPORT 001b: the unit has no such command.
        _ => return Ok(vec![0, 1, 0, 0]),
    };
    let [high, low] = clamp16(row.usage.len()).to_be_bytes();
    // SUPPORT 011b: as the standard says.
    let mut data = vec![0, u8::from(timeouts) << 7 | 3, high, low];
    data.extend(row.usage);
    if timeouts {
        data.extend(TIMEOUTS);
    }
    Ok(data)
}

/// ABORT TASK, ABORT TASK SET, CLEAR TASK SET, LOGICAL UNIT RESET, and the target resets of iSCSI.
const TASK_MANAGEMENT: u8 = 0x80 | 0x40 | 0x10 | 0x08 | 0x02;

pub(crate) fn task_management(call: &mut Call<'_>) -> Planned {
    let extended = call.bit(2, 7);
    let allocation = u64::from(call.be32(6));
    // SPC-4 6.36: at least 4.
    if allocation < 4 {
        return Err(Sense::cdb_field(6, None).into());
    }
    let mut data = vec![0; if extended { 16 } else { 4 }];
    data[0] = TASK_MANAGEMENT;
    data[3] = if extended { 12 } else { 0 };
    call.data(data, allocation)
}

/// One group with all ports, active/optimized (SPC-4 6.37).
pub(crate) fn port_groups(call: &mut Call<'_>) -> Planned {
    let config = &call.state.config;
    let head = match call.byte(1) >> 5 {
        0 => Vec::new(),
        // The extended header: no time of transition is implied.
        1 => vec![0x10, 0, 0, 0],
        _ => return Err(Sense::cdb_field(1, Some(7)).into()),
    };
    let [high, low] = config.port_group.to_be_bytes();
    let ports = u8::try_from(config.ports.len()).unwrap_or(u8::MAX);
    // AO_SUP: no other state is possible.
    let mut group = vec![0, 0x01, high, low, 0, 0, 0, ports];
    for port in &config.ports {
        let [high, low] = port.to_be_bytes();
        group.extend([0, 0, high, low]);
    }
    let length = u32::try_from(head.len() + group.len()).unwrap_or(u32::MAX);
    let allocation = u64::from(call.be32(6));
    call.data([&length.to_be_bytes()[..], &head, &group].concat(), allocation)
}
