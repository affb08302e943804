//! PERSISTENT RESERVE IN (SPC-4 6.15).

use crate::call::{Call, Failure, Planned};
use crate::registry::{Registry, Reservation};
use crate::reserve::transport_id;
use crate::sense::Sense;
use crate::wire::clamp32;

pub(crate) fn persistent_in(call: &mut Call<'_>) -> Planned {
    let unit = call.unit()?;
    if unit.reserved_by.is_some() {
        return Err(Failure::Conflict);
    }
    let registry = &unit.registry;
    let data = match call.byte(1) & 0x1f {
        0 => counted(registry, &keys(registry)),
        1 => counted(registry, &reservation(registry)),
        2 => capabilities(registry, unit.config.keeps_state),
        3 => counted(registry, &full_status(registry)),
        _ => return Err(Sense::cdb_field(1, Some(4)).into()),
    };
    let allocation = u64::from(call.be16(7));
    call.data(data, allocation)
}

/// PRGENERATION, ADDITIONAL LENGTH and what they stand before.
fn counted(registry: &Registry, body: &[u8]) -> Vec<u8> {
    let length = clamp32(body.len() as u64).to_be_bytes();
    [&registry.generation.to_be_bytes()[..], &length, body].concat()
}

fn keys(registry: &Registry) -> Vec<u8> {
    registry.registrations.iter().flat_map(|found| found.key.to_be_bytes()).collect()
}

/// SPC-4 6.15.3.3. The key is 0 if all registrants are holders.
fn reservation(registry: &Registry) -> Vec<u8> {
    let Some(Reservation { kind, holder }) = &registry.reservation else { return Vec::new() };
    let registration = holder.as_ref().and_then(|holder| registry.find(holder));
    let key = registration.map_or(0, |found| found.key);
    let mut data = key.to_be_bytes().to_vec();
    data.extend([0, 0, 0, 0, 0, *kind as u8, 0, 0]);
    data
}

/// SPC-4 6.15.4: ATP_C, PTPL_C of units whose state is kept; TMV; all six types.
fn capabilities(registry: &Registry, keeps_state: bool) -> Vec<u8> {
    let capable = 0x04 | u8::from(keeps_state);
    vec![0, 8, capable, 0x80 | u8::from(registry.kept), 0xea, 0x01, 0, 0]
}

/// SPC-4 6.15.5.
fn full_status(registry: &Registry) -> Vec<u8> {
    let mut data = Vec::new();
    for found in &registry.registrations {
        let holds = registry.is_holder(&found.registrant);
        let kind = registry.reservation.as_ref().map_or(0, |reservation| reservation.kind as u8);
        let transport = transport_id::encode(&found.registrant.port);
        data.extend(found.key.to_be_bytes());
        data.extend([0; 4]);
        data.extend([u8::from(holds), if holds { kind } else { 0 }, 0, 0, 0, 0]);
        data.extend(found.registrant.target_port.to_be_bytes());
        data.extend(clamp32(transport.len() as u64).to_be_bytes());
        data.extend(transport);
    }
    data
}
