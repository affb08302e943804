//! Persistent reservations of a unit: registrations, the reservation, and their stored form
//! (SPC-4 5.13).
//!
//! A registration belongs to an I_T nexus by the name of its initiator port and the number of its
//! target port, so it outlives the session. The table knows no session; its user turns
//! [`Registrant`]s into nexuses that are there.

use bytes::Bytes;

use crate::id::InitiatorPort;
use crate::wire::{be16, be32, be64, clamp16};

/// Most registrations of a unit.
pub(crate) const MOST: usize = 256;

/// An I_T nexus by the names of its ports.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Registrant {
    pub(crate) port: InitiatorPort,
    /// Relative number of the target port.
    pub(crate) target_port: u16,
}

/// A registration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Registration {
    pub(crate) registrant: Registrant,
    pub(crate) key: u64,
}

/// The type of a reservation (SPC-4 table 68).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum ReservationType {
    WriteExclusive = 1,
    ExclusiveAccess = 3,
    WriteExclusiveRegistrants = 5,
    ExclusiveAccessRegistrants = 6,
    WriteExclusiveAll = 7,
    ExclusiveAccessAll = 8,
}

impl ReservationType {
    pub(crate) const fn parse(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::WriteExclusive,
            3 => Self::ExclusiveAccess,
            5 => Self::WriteExclusiveRegistrants,
            6 => Self::ExclusiveAccessRegistrants,
            7 => Self::WriteExclusiveAll,
            8 => Self::ExclusiveAccessAll,
            _ => return None,
        })
    }

    /// Every registrant is a holder.
    pub(crate) const fn is_all(self) -> bool {
        matches!(self, Self::WriteExclusiveAll | Self::ExclusiveAccessAll)
    }

    /// Registrants may do what the holder may.
    pub(crate) const fn admits_registrants(self) -> bool {
        !matches!(self, Self::WriteExclusive | Self::ExclusiveAccess)
    }

    /// Others may read.
    pub(crate) const fn admits_readers(self) -> bool {
        matches!(
            self,
            Self::WriteExclusive | Self::WriteExclusiveRegistrants | Self::WriteExclusiveAll
        )
    }
}

/// The reservation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Reservation {
    pub(crate) kind: ReservationType,
    /// The holder; `None` if every registrant is one.
    pub(crate) holder: Option<Registrant>,
}

/// Registrations and reservation of a unit.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Registry {
    /// PRGENERATION.
    pub(crate) generation: u32,
    pub(crate) registrations: Vec<Registration>,
    pub(crate) reservation: Option<Reservation>,
    /// The table survives a loss of power.
    pub(crate) kept: bool,
}

impl Registry {
    pub(crate) fn find(&self, who: &Registrant) -> Option<&Registration> {
        self.registrations.iter().find(|registration| registration.registrant == *who)
    }

    /// Whether the nexus holds the reservation.
    pub(crate) fn is_holder(&self, who: &Registrant) -> bool {
        match &self.reservation {
            Some(Reservation { holder: Some(holder), .. }) => holder == who,
            Some(Reservation { holder: None, .. }) => self.find(who).is_some(),
            None => false,
        }
    }

    /// Whether the reservation lets a nexus do something that only reads (`reads`) or that writes.
    pub(crate) fn admits(&self, who: &Registrant, reads: bool) -> bool {
        let Some(reservation) = &self.reservation else { return true };
        let kind = reservation.kind;
        (reads && kind.admits_readers())
            || self.is_holder(who)
            || (kind.admits_registrants() && self.find(who).is_some())
    }

    /// Enters a registration, or changes its key. `false` if there is no room.
    pub(crate) fn enter(&mut self, who: &Registrant, key: u64) -> bool {
        let full = self.registrations.len() >= MOST;
        let found = self.registrations.iter_mut().find(|found| found.registrant == *who);
        match found {
            Some(found) => {
                found.key = key;
                true
            }
            None if full => false,
            None => {
                let registrant = who.clone();
                self.registrations.push(Registration { registrant, key });
                true
            }
        }
    }

    /// Removes a registration. A reservation ends if the nexus was its only holder; its type is the
    /// result.
    pub(crate) fn remove(&mut self, who: &Registrant) -> Option<ReservationType> {
        let ends = match &self.reservation {
            Some(Reservation { holder: Some(holder), .. }) => holder == who,
            Some(Reservation { holder: None, .. }) => {
                self.registrations.iter().all(|found| found.registrant == *who)
            }
            None => false,
        };
        self.registrations.retain(|found| found.registrant != *who);
        if ends { self.reservation.take().map(|reservation| reservation.kind) } else { None }
    }

    /// Everybody who is registered.
    pub(crate) fn registrants(&self) -> Vec<Registrant> {
        self.registrations.iter().map(|found| found.registrant.clone()).collect()
    }
}

/// Begin and version of the stored form.
const MAGIC: [u8; 4] = *b"TPR1";

impl Registry {
    /// The stored form; `None` if the table does not survive a loss of power.
    pub(crate) fn save(&self) -> Option<Bytes> {
        if !self.kept {
            return None;
        }
        let mut bytes = MAGIC.to_vec();
        bytes.extend(self.generation.to_be_bytes());
        let kind = self.reservation.as_ref().map_or(0, |reservation| reservation.kind as u8);
        bytes.push(kind);
        bytes.extend(clamp16(self.registrations.len()).to_be_bytes());
        for found in &self.registrations {
            let holder = self.reservation.as_ref().and_then(|held| held.holder.as_ref());
            bytes.push(u8::from(holder == Some(&found.registrant)));
            bytes.extend(found.key.to_be_bytes());
            bytes.extend(found.registrant.target_port.to_be_bytes());
            bytes.extend(found.registrant.port.isid());
            let name = found.registrant.port.name().as_bytes();
            bytes.push(u8::try_from(name.len()).unwrap_or(0));
            bytes.extend(name);
        }
        Some(bytes.into())
    }

    /// Reads the stored form; `None` if it is none.
    pub(crate) fn load(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes.strip_prefix(&MAGIC)?;
        let mut registry = Self { kept: true, generation: be32(rest, 0)?, ..Self::default() };
        let kind = *rest.get(4)?;
        let count = be16(rest, 5)?;
        rest = rest.get(7..)?;
        let mut holder = None;
        for _ in 0..count {
            let flags = *rest.first()?;
            let key = be64(rest, 1)?;
            let target_port = be16(rest, 9)?;
            let isid = *rest.get(11..)?.first_chunk()?;
            let length = usize::from(*rest.get(17)?);
            let name = rest.get(18..)?.get(..length)?;
            rest = rest.get(18 + length..)?;
            let port = InitiatorPort::new(std::str::from_utf8(name).ok()?, isid)?;
            let who = Registrant { port, target_port };
            if flags > 1 || registry.find(&who).is_some() {
                return None;
            }
            if flags == 1 && holder.replace(who.clone()).is_some() {
                return None;
            }
            if !registry.enter(&who, key) {
                return None;
            }
        }
        registry.reservation = match (ReservationType::parse(kind), holder) {
            (None, None) if kind == 0 => None,
            (Some(kind), holder) if kind.is_all() == holder.is_none() => {
                Some(Reservation { kind, holder })
            }
            _ => return None,
        };
        let lost = registry.reservation.is_some() && registry.registrations.is_empty();
        (rest.is_empty() && !lost).then_some(registry)
    }
}

#[cfg(test)]
mod tests;
