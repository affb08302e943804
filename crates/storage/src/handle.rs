//! A running target, for the process that serves it: its state, its units, its end.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use iscsi::target::ConnectionCounters;
use scsi::LunNumber;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use crate::access::AccessPolicy;
use crate::counters::{Counts, LatencyHistogram};
use crate::definition::LunDefinition;
use crate::device::DeviceError;
use crate::portal::Portal;
use crate::resize::{ResizeError, resize};
use crate::transport::{PortalTransport, SealedCounts};
use crate::volume::OpenedVolume;

/// How long sessions have to end when the target does.
const LOGOUT_TIME: Duration = Duration::from_secs(1);

/// A running target.
#[derive(Debug, Clone)]
pub struct TargetHandle {
    portal: Rc<Portal>,
    stop: Rc<Notify>,
    ending: Rc<Cell<bool>>,
}

/// What a target is and does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetStatus {
    /// Its iSCSI name.
    pub name: String,
    /// Its process.
    pub pid: u32,
    /// `plain`.
    pub transport: String,
    /// Where it listens.
    pub portal: std::net::SocketAddr,
    /// Its units, in order of number.
    pub luns: Vec<LunStatus>,
    /// Its sessions.
    pub sessions: Vec<SessionStatus>,
    /// What it counts apart from units.
    pub counters: Counts,
}

/// A unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LunStatus {
    /// Its number.
    pub lun: u16,
    /// Its volume, as `--lun` has it.
    pub volume: String,
    /// Its size in bytes: whole blocks.
    pub bytes: u64,
    /// The identity of its volume.
    pub identity: String,
    /// What it counts.
    pub counters: Counts,
    /// How long its commands take.
    pub histograms: Vec<LatencyHistogram>,
}

/// A session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionStatus {
    /// The initiator's name.
    pub initiator: String,
    /// The initiator's part of the session's identifier, in hexadecimal.
    pub isid: String,
    /// Who it has proved to be by CHAP.
    pub user: Option<String>,
    /// The initiator's address.
    pub peer: std::net::SocketAddr,
    /// Commands that are under way.
    pub commands: usize,
    /// A name of the initiator's certificate, or the fingerprint of its key; `None` if the portal
    /// is plain.
    pub identity: Option<String>,
    /// What the sealed transport has done; `None` for others.
    pub sealed: Option<SealedCounts>,
    /// What it counts.
    pub counters: Counts,
}

/// The target's portal has no keys of records to be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the target's portal is not sealed, so there are no keys to change")]
pub struct NotSealed;

impl TargetHandle {
    pub(crate) fn new(portal: Rc<Portal>) -> Self {
        Self { portal, stop: Rc::default(), ending: Rc::default() }
    }

    /// What the target is and does now.
    #[must_use]
    pub fn status(&self) -> TargetStatus {
        let device = &self.portal.device;
        let luns = device.volumes.borrow();
        let luns = luns.iter().map(|(lun, volume)| {
            let counters = device.counters(*lun).unwrap_or_default();
            LunStatus {
                lun: lun.get(),
                volume: volume.specification().to_string(),
                bytes: volume.size(),
                identity: volume.identity().to_string(),
                counters: counters.counts(),
                histograms: counters.histograms(),
            }
        });
        let open = self.portal.sessions.borrow();
        let counted = open.values().map(|session| session.connection.borrow().counters());
        let counted = counted.fold(ConnectionCounters::default(), |all, one| all + one);
        let sessions = open.iter().map(|((initiator, isid), session)| SessionStatus {
            initiator: initiator.clone(),
            isid: isid.0.iter().map(|byte| format!("{byte:02x}")).collect(),
            user: session.user(),
            peer: session.ends.peer,
            commands: session.tasks.borrow().len(),
            identity: session.proven_name(),
            sealed: session.sealed().map(|state| state.counts()),
            counters: session.counters.counts(session.connection.borrow().counters()),
        });
        TargetStatus {
            name: self.portal.name().as_str().to_owned(),
            pid: std::process::id(),
            transport: self.portal.transport().name().to_owned(),
            portal: self.portal.address(),
            luns: luns.collect(),
            sessions: sessions.collect(),
            counters: self.portal.counters.counts(open.len(), counted),
        }
    }

    /// Adds a unit, with what [`LunDefinition::open`] has opened.
    ///
    /// # Errors
    /// Its number or its volume is in use, or its file is no volume.
    pub fn add_lun(
        &self,
        number: LunNumber,
        lun: &LunDefinition,
        opened: OpenedVolume,
    ) -> Result<(), DeviceError> {
        self.portal.device.add_lun(number, lun, opened)
    }

    /// Begins the one thread that the target ever has beside its own. Call it before a sandbox that
    /// lets none begin; within the target's tokio runtime.
    pub fn begin_thread(&self) {
        drop(tokio::task::spawn_blocking(|| ()));
    }

    /// Removes a unit. Its commands fail: there is no such unit.
    ///
    /// # Errors
    /// There is no such unit.
    pub fn remove_lun(&self, number: LunNumber) -> Result<(), DeviceError> {
        self.portal.device.remove_lun(number)?;
        let lun = iscsi::Lun::from_bytes(number.to_wire());
        for session in self.portal.sessions.borrow().values() {
            session.fail_all(lun);
        }
        Ok(())
    }

    /// What the target's units are now.
    #[must_use]
    pub fn definitions(&self) -> BTreeMap<LunNumber, LunDefinition> {
        self.portal.device.definitions()
    }

    /// Sets who may use the target. Sessions go on unless they lose a right. How many end.
    #[must_use]
    pub fn set_access(&self, access: AccessPolicy) -> usize {
        self.portal.set_access(access)
    }

    /// Lets all sealed sessions change the keys of both directions. How many there are.
    ///
    /// # Errors
    /// The portal is not sealed.
    pub fn rekey(&self) -> Result<usize, NotSealed> {
        if !matches!(self.portal.transport(), PortalTransport::Sealed(_)) {
            return Err(NotSealed);
        }
        let sessions = self.portal.sessions.borrow();
        let asked = sessions.values().filter_map(|session| {
            session.sealed()?.rekey.set(true);
            session.signals.output.notify_one();
            Some(())
        });
        Ok(asked.count())
    }

    /// Gives a unit `bytes`, or without them as many as its file or device has now. Sessions learn
    /// it by a unit attention. How many it has then.
    ///
    /// # Errors
    /// Why it keeps its size.
    pub async fn resize_lun(
        &self,
        number: LunNumber,
        bytes: Option<u64>,
    ) -> Result<u64, ResizeError> {
        resize(&self.portal.device, number, bytes).await
    }

    /// Lets the target end: it accepts no more connections, and tells initiators.
    pub fn end(&self) {
        self.ending.set(true);
        self.stop.notify_one();
    }

    /// Waits for [`TargetHandle::end`], then for the sessions, then for the volumes' caches.
    pub(crate) async fn ended(&self) {
        while !self.ending.get() {
            self.stop.notified().await;
        }
        let sessions: Vec<_> = self.portal.sessions.borrow().values().cloned().collect();
        for session in sessions {
            session.finish();
        }
        let all_gone = async {
            while !self.portal.sessions.borrow().is_empty() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let _ = tokio::time::timeout(LOGOUT_TIME, all_gone).await;
        self.portal.device.flush().await;
    }
}
