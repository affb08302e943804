//! START STOP UNIT, PREVENT ALLOW MEDIUM REMOVAL (SBC-3 5.10, 5.25).
//!
//! A unit has nothing that spins, so starting, stopping and power conditions change nothing. Only
//! ejecting and loading the medium of a removable unit do.

use crate::attention::Attention;
use crate::call::{Call, Plan, Planned, Reply, Then, Work};
use crate::sense::{Sense, SenseCode};
use crate::step::{Effect, MediumOperation, MediumOutput};
use crate::table::Under;

pub(crate) fn start_stop(call: &mut Call<'_>) -> Planned {
    let condition = call.byte(4) >> 4;
    let (no_flush, load_eject, start) = (call.bit(4, 2), call.bit(4, 1), call.bit(4, 0));
    // SBC-3 table 14: to start a unit, a reservation is no obstacle.
    let harmless = condition == 0 && start && !load_eject;
    call.admitted(if harmless { Under::Persistent } else { Under::Writer })?;
    // SBC-3 5.25: with a power condition, START and LOEJ are ignored.
    let load_eject = load_eject && condition == 0;
    let unit = call.unit()?;
    if load_eject && !unit.config.removable {
        return Err(Sense::cdb_field(4, Some(1)).into());
    }
    if load_eject && !unit.prevents.is_empty() {
        return Err(Sense::illegal(SenseCode::REMOVAL_PREVENTED).into());
    }
    let flushes = unit.loaded && !start && !no_flush && condition == 0;
    match (load_eject, start) {
        (true, true) => load(call),
        (true, false) if flushes => {
            call.on_medium(MediumOperation::Flush, Then::Work(Box::new(EjectNext)))
        }
        (true, false) => eject(call),
        (false, _) if flushes => call.on_medium(MediumOperation::Flush, Then::Reply(Reply::good())),
        (false, _) => Ok(Plan::Reply(Reply::good())),
    }
}

fn load(call: &mut Call<'_>) -> Planned {
    let (lun, nexus) = (call.origin.lun, call.origin.nexus);
    let unit = call.unit_mut()?;
    if !unit.loaded {
        unit.loaded = true;
        call.state.attend_others(lun, Some(nexus), Attention::MediumChanged);
        call.origin.effects.push(Effect::Loaded(lun));
    }
    Ok(Plan::Reply(Reply::good()))
}

fn eject(call: &mut Call<'_>) -> Planned {
    let lun = call.origin.lun;
    let unit = call.unit_mut()?;
    if unit.loaded {
        unit.loaded = false;
        call.origin.effects.push(Effect::Ejected(lun));
    }
    Ok(Plan::Reply(Reply::good()))
}

#[derive(Debug)]
struct EjectNext;

impl Work for EjectNext {
    fn medium(self: Box<Self>, call: &mut Call<'_>, _: MediumOutput) -> Planned {
        // Another nexus may have prevented removal during the flush.
        match call.unit()?.prevents.is_empty() {
            true => eject(call),
            false => Err(Sense::illegal(SenseCode::REMOVAL_PREVENTED).into()),
        }
    }
}

pub(crate) fn prevent_allow(call: &mut Call<'_>) -> Planned {
    let prevent = match call.byte(4) & 3 {
        0 => false,
        1 => true,
        // SBC-3 table 64: 10b and 11b are obsolete.
        _ => return Err(Sense::cdb_field(4, Some(1)).into()),
    };
    call.admitted(if prevent { Under::Writer } else { Under::Persistent })?;
    let nexus = call.origin.nexus;
    let unit = call.unit_mut()?;
    match prevent {
        true => unit.prevents.insert(nexus),
        false => unit.prevents.remove(&nexus),
    };
    Ok(Plan::Reply(Reply::good()))
}
