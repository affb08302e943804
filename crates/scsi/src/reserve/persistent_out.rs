//! PERSISTENT RESERVE OUT (SPC-4 5.13, 6.16): all service actions but REPLACE LOST RESERVATION.
//!
//! SPEC_I_PT is not there: REPORT CAPABILITIES says so (SIP_C).

use bytes::Bytes;

use crate::attention::Attention;
use crate::call::{Call, Failure, Plan, Planned, Reply, Then, Work};
use crate::registry::{MOST, Registrant, Registry, Reservation, ReservationType};
use crate::reserve::transport_id;
use crate::sense::{Sense, SenseCode};
use crate::step::{Effect, StoredState};
use crate::wire::{be16, be32, be64};

/// Service actions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Action {
    Register { ignore: bool },
    Reserve(ReservationType),
    Release(ReservationType),
    Clear,
    Preempt { kind: ReservationType, abort: bool },
    Move,
}

impl Action {
    fn of(call: &Call<'_>) -> Result<Self, Sense> {
        let kind = || {
            // SPC-4 table 67: only the scope of a logical unit is there.
            if call.byte(2) >> 4 != 0 {
                return Err(Sense::cdb_field(2, Some(7)));
            }
            ReservationType::parse(call.byte(2) & 0x0f).ok_or(Sense::cdb_field(2, Some(3)))
        };
        Ok(match call.byte(1) & 0x1f {
            0 => Self::Register { ignore: false },
            1 => Self::Reserve(kind()?),
            2 => Self::Release(kind()?),
            3 => Self::Clear,
            4 => Self::Preempt { kind: kind()?, abort: false },
            5 => Self::Preempt { kind: kind()?, abort: true },
            6 => Self::Register { ignore: true },
            7 => Self::Move,
            _ => return Err(Sense::cdb_field(1, Some(4))),
        })
    }
}

/// Bytes of the parameter list, without a TransportID.
const LIST: u32 = 24;
/// Most bytes of the parameter list of REGISTER AND MOVE.
const MOST_LIST: u32 = LIST + 4 + 256;

pub(crate) fn persistent_out(call: &mut Call<'_>) -> Planned {
    if call.unit()?.reserved_by.is_some() {
        return Err(Failure::Conflict);
    }
    let action = Action::of(call)?;
    let length = call.be32(5);
    // SPC-4 6.16.1: 24 bytes, or more for REGISTER AND MOVE.
    let fits = match action {
        Action::Move => (LIST..=MOST_LIST).contains(&length),
        _ => length == LIST,
    };
    if !fits {
        return Err(Sense::list_length().into());
    }
    call.parameters(length, Box::new(ReserveList { action }))
}

#[derive(Debug)]
struct ReserveList {
    action: Action,
}

/// The fields of the parameter list.
#[derive(Debug)]
struct Keys {
    who: Registrant,
    key: u64,
    service_key: u64,
    kept: bool,
    all_ports: bool,
}

impl Work for ReserveList {
    fn data_out(self: Box<Self>, call: &mut Call<'_>, list: Bytes) -> Planned {
        let was_kept = call.unit()?.registry.kept;
        let who = call.registrant()?;
        let field = |at| be64(&list, at).ok_or(Failure::from(Sense::list_length()));
        let (key, service_key) = (field(0)?, field(8)?);
        let flags = list.get(20).copied().unwrap_or(0);
        let (kept, all_ports) = (flags & 1 != 0, flags & 4 != 0);
        let keys = Keys { who, key, service_key, kept, all_ports };
        check_survival(call, self.action, &list)?;
        if self.action == Action::Move {
            register_and_move(call, &keys, &list)?;
        } else {
            // SPC-4 6.16.3: SPEC_I_PT, and reserved bits.
            let wrong = flags & !0x05;
            if wrong != 0 {
                let bit = u8::try_from(wrong.ilog2()).ok();
                return Err(Sense::list_field(20, bit).into());
            }
        }
        match self.action {
            Action::Register { ignore } => register(call, &keys, ignore)?,
            Action::Reserve(kind) => reserve(call, &keys, kind)?,
            Action::Release(kind) => release(call, &keys, kind)?,
            Action::Clear => clear(call, &keys)?,
            Action::Preempt { kind, abort } => preempt(call, &keys, kind, abort)?,
            Action::Move => {}
        }
        let registry = &call.unit()?.registry;
        if !was_kept && !registry.kept {
            return Ok(Plan::Reply(Reply::good()));
        }
        // SPC-4 5.13.4: what survives a loss of power is stored before the answer.
        let state = StoredState::Reservations(registry.save());
        Ok(Plan::Store { lun: call.origin.lun, state, then: Then::Reply(Reply::good()) })
    }
}

/// The unit's registry, for a nexus that is registered with the key it names (SPC-4 5.13.6 and
/// others: a conflict otherwise).
fn registered<'a>(call: &'a mut Call<'_>, keys: &Keys) -> Result<&'a mut Registry, Failure> {
    let registry = &mut call.unit_mut()?.registry;
    match registry.find(&keys.who) {
        Some(found) if found.key == keys.key => Ok(registry),
        _ => Err(Failure::Conflict),
    }
}

/// REGISTER, REGISTER AND IGNORE EXISTING KEY (SPC-4 5.13.7).
fn register(call: &mut Call<'_>, keys: &Keys, ignore: bool) -> Result<(), Failure> {
    let ports = call.state.config.ports.clone();
    let registry = &mut call.unit_mut()?.registry;
    let known = registry.find(&keys.who).map(|found| found.key);
    // A nexus that is not registered names key 0.
    if !ignore && known.unwrap_or(0) != keys.key {
        return Err(Failure::Conflict);
    }
    if keys.service_key == 0 {
        if known.is_some() {
            unregister(call, keys)?;
        }
        return Ok(());
    }
    let with_port = |target_port| Registrant { target_port, ..keys.who.clone() };
    let all = match keys.all_ports {
        true => ports.into_iter().map(with_port).collect(),
        false => vec![keys.who.clone()],
    };
    let new = all.iter().filter(|who| registry.find(who).is_none()).count();
    if registry.registrations.len() + new > MOST {
        return Err(Sense::illegal(SenseCode::NO_REGISTRATION_ROOM).into());
    }
    for who in &all {
        registry.enter(who, keys.service_key);
    }
    registry.kept = keys.kept;
    registry.generation = registry.generation.wrapping_add(1);
    Ok(())
}

/// APTPL asks for what a unit whose state nobody keeps cannot do. SPC-4 6.16.3, 6.16.4: other
/// service actions than these ignore the bit.
fn check_survival(call: &Call<'_>, action: Action, list: &[u8]) -> Result<(), Failure> {
    let byte: u16 = match action {
        Action::Register { .. } => 20,
        Action::Move => 17,
        _ => return Ok(()),
    };
    let asked = list.get(usize::from(byte)).is_some_and(|flags| flags & 1 != 0);
    match asked && !call.unit()?.config.keeps_state {
        true => Err(Sense::list_field(byte, Some(0)).into()),
        false => Ok(()),
    }
}

fn unregister(call: &mut Call<'_>, keys: &Keys) -> Result<(), Failure> {
    let (lun, nexus) = (call.origin.lun, call.origin.nexus);
    let registry = &mut call.unit_mut()?.registry;
    let ended = registry.remove(&keys.who);
    registry.kept = keys.kept;
    registry.generation = registry.generation.wrapping_add(1);
    let others = registry.registrants();
    // SPC-4 5.13.11.3: the other registrants learn that the reservation ended.
    if ended.is_some_and(ReservationType::admits_registrants) {
        let attention = Attention::ReservationsReleased;
        call.state.attend_registrants(lun, &others, nexus, attention);
    }
    Ok(())
}

/// A reservation of a type for a nexus.
fn held_by(who: &Registrant, kind: ReservationType) -> Option<Reservation> {
    let holder = (!kind.is_all()).then(|| who.clone());
    Some(Reservation { kind, holder })
}

/// RESERVE (SPC-4 5.13.9).
fn reserve(call: &mut Call<'_>, keys: &Keys, kind: ReservationType) -> Result<(), Failure> {
    let registry = registered(call, keys)?;
    match &registry.reservation {
        None => registry.reservation = held_by(&keys.who, kind),
        // To reserve again the same is no error.
        Some(held) if held.kind == kind && registry.is_holder(&keys.who) => {}
        Some(_) => return Err(Failure::Conflict),
    }
    Ok(())
}

/// RELEASE (SPC-4 5.13.11.2). By a registrant that is no holder it changes nothing.
fn release(call: &mut Call<'_>, keys: &Keys, kind: ReservationType) -> Result<(), Failure> {
    let (lun, nexus) = (call.origin.lun, call.origin.nexus);
    let registry = registered(call, keys)?;
    let Some(held) = &registry.reservation else { return Ok(()) };
    if !registry.is_holder(&keys.who) {
        return Ok(());
    }
    if held.kind != kind {
        return Err(Sense::illegal(SenseCode::INVALID_RELEASE).into());
    }
    registry.reservation = None;
    let others = registry.registrants();
    if kind.admits_registrants() {
        let attention = Attention::ReservationsReleased;
        call.state.attend_registrants(lun, &others, nexus, attention);
    }
    Ok(())
}

/// CLEAR (SPC-4 5.13.11.6).
fn clear(call: &mut Call<'_>, keys: &Keys) -> Result<(), Failure> {
    let (lun, nexus) = (call.origin.lun, call.origin.nexus);
    let registry = registered(call, keys)?;
    let all = registry.registrants();
    registry.registrations.clear();
    registry.reservation = None;
    registry.generation = registry.generation.wrapping_add(1);
    call.state.attend_registrants(lun, &all, nexus, Attention::ReservationsPreempted);
    Ok(())
}

/// PREEMPT, PREEMPT AND ABORT (SPC-4 5.13.11.4, 5.13.11.5). The registration of the nexus itself
/// stays.
fn preempt(
    call: &mut Call<'_>,
    keys: &Keys,
    kind: ReservationType,
    abort: bool,
) -> Result<(), Failure> {
    let (lun, nexus) = (call.origin.lun, call.origin.nexus);
    let registry = registered(call, keys)?;
    let held = registry.reservation.clone();
    let holder_key = held.as_ref().and_then(|held| held.holder.as_ref());
    let holder_key = holder_key.and_then(|holder| registry.find(holder)).map(|found| found.key);
    let by_all = held.as_ref().is_some_and(|held| held.kind.is_all());
    let takes = match by_all {
        true => keys.service_key == 0,
        false => holder_key == Some(keys.service_key),
    };
    let named = |key: u64| key == keys.service_key || (takes && by_all);
    if !takes {
        // SPC-4 5.13.11.4.2: key 0 names nobody.
        if keys.service_key == 0 {
            return Err(Sense::list_field(8, None).into());
        }
        if !registry.registrations.iter().any(|found| named(found.key)) {
            return Err(Failure::Conflict);
        }
    }
    let gone =
        |found: &crate::registry::Registration| named(found.key) && found.registrant != keys.who;
    let removed: Vec<Registrant> = registry
        .registrations
        .iter()
        .filter(|found| gone(found))
        .map(|found| found.registrant.clone())
        .collect();
    registry.registrations.retain(|found| !gone(found));
    registry.generation = registry.generation.wrapping_add(1);
    if takes {
        registry.reservation = held_by(&keys.who, kind);
    }
    let left = registry.registrants();
    call.state.attend_registrants(lun, &removed, nexus, Attention::RegistrationsPreempted);
    if takes && held.is_some_and(|held| held.kind != kind) {
        call.state.attend_registrants(lun, &left, nexus, Attention::ReservationsReleased);
    }
    if abort {
        let nexuses = call.state.nexuses_of(&removed).into_iter();
        call.origin.effects.extend(nexuses.map(|nexus| Effect::AbortTasks { nexus, lun }));
    }
    Ok(())
}

/// REGISTER AND MOVE (SPC-4 5.13.8, 6.16.4).
fn register_and_move(call: &mut Call<'_>, keys: &Keys, list: &[u8]) -> Result<(), Failure> {
    let ports = call.state.config.ports.clone();
    let registry = registered(call, keys)?;
    let kind = registry.reservation.as_ref().map(|held| held.kind);
    let movable = kind.is_some_and(|kind| !kind.is_all()) && registry.is_holder(&keys.who);
    if !movable {
        return Err(Failure::Conflict);
    }
    if keys.service_key == 0 {
        return Err(Sense::list_field(8, None).into());
    }
    let flags = list.get(17).copied().unwrap_or(0);
    if flags & !0x03 != 0 {
        return Err(Sense::list_field(17, None).into());
    }
    let target_port = be16(list, 18).unwrap_or(0);
    if !ports.contains(&target_port) {
        return Err(Sense::list_field(18, None).into());
    }
    let length = be32(list, 20).unwrap_or(0) as usize;
    let id = list.get(24..).and_then(|rest| rest.get(..length));
    let id = id.ok_or(Sense::list_length())?;
    let port = transport_id::decode(id).ok_or(Sense::list_field(24, None))?;
    let to = Registrant { port, target_port };
    if to == keys.who {
        return Err(Sense::list_field(24, None).into());
    }
    if !registry.enter(&to, keys.service_key) {
        return Err(Sense::illegal(SenseCode::NO_REGISTRATION_ROOM).into());
    }
    if let Some(held) = &mut registry.reservation {
        held.holder = Some(to);
    }
    if flags & 2 != 0 {
        registry.remove(&keys.who);
    }
    registry.kept = flags & 1 != 0;
    registry.generation = registry.generation.wrapping_add(1);
    Ok(())
}
