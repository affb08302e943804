//! A unit that a user names, and the instance by which it is reached.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use storage::{Disk, DiskPortal, DiskUrl, Initiator, IscsiName, random_isid};

use super::access::DiskAccess;
use crate::exit::{Code, Failure};
use crate::operator::join;
use crate::runtime_dir::InstanceName;

/// A unit that a command line names.
#[derive(Debug)]
pub struct DiskPlace {
    access: Arc<DiskAccess>,
    portal: Arc<DiskPortal>,
    target: IscsiName,
    lun: u16,
    give_up: Option<Duration>,
}

impl DiskPlace {
    /// # Errors
    /// The URL names no unit, or what the sessions need of keys is not there.
    pub fn new(
        url: &DiskUrl,
        access: &Arc<DiskAccess>,
        give_up: Option<u32>,
    ) -> Result<Self, Failure> {
        let (target, lun) = unit_of(url)?;
        let portal = Arc::new(access.portal(url)?);
        let give_up = give_up.map(|seconds| Duration::from_secs(seconds.into()));
        Ok(Self { access: Arc::clone(access), portal, target, lun, give_up })
    }

    /// How its sessions are made.
    pub fn access(&self) -> &DiskAccess {
        &self.access
    }

    /// Opens it, within [`on_instance`]. All of its sessions have one ISID and one identity: by
    /// both the target knows that a later one replaces the one before.
    ///
    /// # Errors
    /// The target's.
    pub async fn open(&self) -> Result<Disk, Failure> {
        let isid = random_isid().map_err(|error| self.access.failure(&error))?;
        loop {
            let (portal, target) = (Arc::clone(&self.portal), self.target.clone());
            let identity = self.access.identity().clone();
            let connect = move || {
                let (portal, target) = (Arc::clone(&portal), target.clone());
                let identity = identity.clone();
                async move { Initiator::connect_as(&portal, &identity, Some(&target), isid).await }
            };
            match Disk::open(connect, self.lun, self.give_up).await {
                Err(error) if self.access.is_settled(&error)? => {}
                opened => return opened.map_err(|error| self.access.failure(&error)),
            }
        }
    }
}

/// The unit that a URL names.
///
/// # Errors
/// It names none.
pub fn unit_of(url: &DiskUrl) -> Result<(IscsiName, u16), Failure> {
    match (&url.target, url.lun) {
        (Some(target), Some(lun)) => Ok((target.clone(), lun)),
        _ => {
            let sentence = format!("`{url}` names no unit: see `tasuki disk ls {url}`");
            Err(Failure::new(Code::Usage, sentence))
        }
    }
}

/// Runs the future as a client of the instance.
pub fn on_instance<F: Future>(net: Option<&InstanceName>, future: F) -> Result<F::Output, Failure> {
    let client = join(net)?;
    let failed = |error: std::io::Error| Failure::system("use the instance", error);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(failed)?;
    let run = tasuki_tokio::run(&client, future);
    tokio::task::LocalSet::new().block_on(&runtime, run).map_err(failed)
}
