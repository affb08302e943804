//! From a command to its handler: the checks that all commands share, and the choice.

use crate::attention::Attention;
use crate::block::{capacity, compare, provision, transfer};
use crate::call::{Call, Failure, Plan, Planned, Reply, no_such_lun};
use crate::copy;
use crate::inquiry;
use crate::mode;
use crate::removal;
use crate::report;
use crate::reserve::{self, persistent_in, persistent_out};
use crate::rights::UnitRight;
use crate::sense::{Sense, SenseCode, SenseKey};
use crate::state::LogicalUnit;
use crate::table::{Needs, Operation, Row};

/// Checks a command whose row is known, and begins it. The order of the checks is SAM-5 5.4's:
/// what waits for the nexus, then reservations, then the command's own fields, then the medium.
pub(crate) fn begin(call: &mut Call<'_>) -> Planned {
    attentions(call)?;
    call.admitted(call.origin.row.under)?;
    fields(call.origin.row, &call.origin.cdb)?;
    allowed(call)?;
    ready(call)?;
    handle(call)
}

/// A nexus that may only read changes nothing that other nexuses find.
fn allowed(call: &Call<'_>) -> Result<(), Failure> {
    let changes = match call.origin.row.operation {
        Operation::ModeSelect | Operation::PersistentOut | Operation::Reserve => true,
        // It ejects or loads the medium.
        Operation::StartStop => call.bit(4, 1),
        _ => false,
    };
    let right = call.state.right(call.origin.nexus, call.origin.lun);
    match changes && right < Some(UnitRight::Write) {
        true => Err(Sense::illegal(SenseCode::NO_ACCESS_RIGHTS).into()),
        false => Ok(()),
    }
}

/// A unit attention ends every command but those that report it or must work regardless
/// (SAM-5 5.14).
pub(crate) fn attentions(call: &mut Call<'_>) -> Result<(), Failure> {
    let exempt = [Operation::Inquiry, Operation::ReportLuns, Operation::RequestSense];
    if exempt.contains(&call.origin.row.operation) {
        return Ok(());
    }
    let nexus = call.origin.nexus;
    let unit = call.unit_mut()?;
    match unit.take_attention(nexus) {
        Some(attention) => Err(attention.sense().into()),
        // The one that the nexus means is gone.
        None if unit.is_strange_to(nexus) => Err(no_such_lun()),
        None => Ok(()),
    }
}

/// A set bit outside of the usage map is an invalid field (SPC-4 4.3.3: reserved fields).
pub(crate) fn fields(row: &Row, cdb: &[u8; 16]) -> Result<(), Failure> {
    for (at, (byte, usage)) in cdb.iter().zip(row.usage).enumerate().skip(1) {
        let service = if at == 1 && row.service.is_some() { 0x1f } else { 0 };
        let wrong = byte & !(usage | service);
        if wrong != 0 {
            let bit = u8::try_from(wrong.ilog2()).ok();
            return Err(Sense::cdb_field(u16::try_from(at).unwrap_or(0), bit).into());
        }
    }
    Ok(())
}

/// Whether the unit can do what the command needs.
fn ready(call: &Call<'_>) -> Result<(), Failure> {
    let needs = call.origin.row.needs;
    let unit = call.unit()?;
    if needs == Needs::Unit {
        return Ok(());
    }
    if needs == Needs::Thin && !unit.is_thin() {
        return Err(Sense::illegal(SenseCode::INVALID_OPCODE).into());
    }
    medium(unit)?;
    if needs != Needs::Medium {
        writable(call, unit)?;
    }
    Ok(())
}

/// Whether the medium is there.
fn medium(unit: &LogicalUnit) -> Result<(), Failure> {
    match unit.loaded {
        true => Ok(()),
        false => Err(Sense::new(SenseKey::NotReady, SenseCode::NO_MEDIUM).into()),
    }
}

/// Whether the unit takes writes of the nexus (SBC-3 4.12).
fn writable(call: &Call<'_>, unit: &LogicalUnit) -> Result<(), Failure> {
    let read_only = call.state.is_read_only(call.origin.nexus, call.origin.lun);
    let code = match (read_only, unit.mode.write_protect) {
        (true, _) => SenseCode::WRITE_PROTECTED,
        (false, true) => SenseCode::SOFTWARE_WRITE_PROTECTED,
        (false, false) => return Ok(()),
    };
    Err(Sense::new(SenseKey::DataProtect, code).into())
}

fn handle(call: &mut Call<'_>) -> Planned {
    match call.origin.row.operation {
        Operation::TestUnitReady => test_unit_ready(call),
        Operation::RequestSense => request_sense(call),
        Operation::Inquiry => inquiry::inquiry(call),
        Operation::ReportLuns => report_luns(call),
        Operation::ReportOpcodes => report::opcodes(call),
        Operation::ReportTaskManagement => report::task_management(call),
        Operation::ReportPortGroups => report::port_groups(call),
        Operation::ModeSense => mode::sense(call),
        Operation::ModeSelect => mode::select(call),
        Operation::StartStop => removal::start_stop(call),
        Operation::PreventAllow => removal::prevent_allow(call),
        Operation::ReadCapacity10 => capacity::read_capacity10(call),
        Operation::ReadCapacity16 => capacity::read_capacity16(call),
        Operation::ReadDefects => capacity::read_defects(call),
        Operation::Read => transfer::read(call),
        Operation::Write => transfer::write(call),
        Operation::Prefetch => transfer::prefetch(call),
        Operation::SynchronizeCache => transfer::synchronize_cache(call),
        Operation::Verify => compare::verify(call),
        Operation::WriteAndVerify => compare::write_and_verify(call),
        Operation::OrWrite => compare::or_write(call),
        Operation::CompareAndWrite => compare::compare_and_write(call),
        Operation::Unmap => provision::unmap(call),
        Operation::WriteSame => provision::write_same(call),
        Operation::GetLbaStatus => provision::get_lba_status(call),
        Operation::Reserve => reserve::reserve(call),
        Operation::Release => reserve::release(call),
        Operation::PersistentIn => persistent_in::persistent_in(call),
        Operation::PersistentOut => persistent_out::persistent_out(call),
        Operation::ExtendedCopy => copy::extended_copy(call),
        Operation::CopyResults => copy::results(call),
    }
}

/// TEST UNIT READY (SPC-4 6.47).
fn test_unit_ready(call: &Call<'_>) -> Planned {
    medium(call.unit()?)?;
    Ok(Plan::Reply(Reply::good()))
}

/// REQUEST SENSE (SPC-4 6.39): a unit attention that waits, or why the unit is not ready.
fn request_sense(call: &mut Call<'_>) -> Planned {
    let (descriptor, allocation) = (call.bit(1, 0), u64::from(call.byte(4)));
    let nexus = call.origin.nexus;
    let unit = call.unit_mut()?;
    let sense = match (unit.take_attention(nexus), medium(unit)) {
        (Some(attention), _) => attention.sense(),
        (None, Err(Failure::Check(sense))) => sense,
        (None, _) => Sense::new(SenseKey::NoSense, SenseCode::NONE),
    };
    call.data(sense.to_bytes(descriptor), allocation)
}

/// REPORT LUNS (SPC-4 6.33). It also ends the condition that units came or went.
fn report_luns(call: &mut Call<'_>) -> Planned {
    let (select, allocation) = (call.byte(2), u64::from(call.be32(6)));
    // SPC-4 6.33: at least 16.
    if allocation < 16 {
        return Err(Sense::cdb_field(6, None).into());
    }
    let list =
        inquiry::luns(call.state, call.origin.nexus, select).ok_or(Sense::cdb_field(2, None))?;
    let nexus = call.origin.nexus;
    for unit in call.state.units.values_mut() {
        unit.drop_attention(nexus, Attention::LunsChanged);
    }
    call.data(list, allocation)
}
