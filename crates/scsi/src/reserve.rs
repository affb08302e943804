//! Reservations: RESERVE and RELEASE of SPC-2, and the persistent reservations of SPC-4.
//!
//! The two kinds exclude each other (SPC-4 5.13.3, SPC-2 7.12): while there is a registration,
//! RESERVE and RELEASE conflict; while there is a RESERVE, the persistent commands conflict.

use crate::call::{Call, Failure, Plan, Planned, Reply};

pub(crate) mod persistent_in;
pub(crate) mod persistent_out;
pub(crate) mod transport_id;

pub(crate) fn reserve(call: &mut Call<'_>) -> Planned {
    let nexus = call.origin.nexus;
    let unit = call.unit_mut()?;
    let taken = unit.reserved_by.is_some_and(|holder| holder != nexus);
    if taken || !unit.registry.registrations.is_empty() {
        return Err(Failure::Conflict);
    }
    unit.reserved_by = Some(nexus);
    Ok(Plan::Reply(Reply::good()))
}

/// RELEASE. By another nexus than the holder it changes nothing.
pub(crate) fn release(call: &mut Call<'_>) -> Planned {
    let nexus = call.origin.nexus;
    let unit = call.unit_mut()?;
    if !unit.registry.registrations.is_empty() {
        return Err(Failure::Conflict);
    }
    unit.reserved_by = unit.reserved_by.filter(|holder| *holder != nexus);
    Ok(Plan::Reply(Reply::good()))
}
