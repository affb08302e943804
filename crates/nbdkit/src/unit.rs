//! The unit that is served: how it is reached and opened.

use std::sync::Arc;
use std::thread;

use storage::Disk;
use user::exit::Failure;
use user::parameters::UnitArgs;
use user::runtime_dir::InstanceName;
use user::{DiskAccess, DiskPlace, Encryption, on_instance};

/// A unit, with all that its sessions need of files.
#[derive(Debug)]
pub(crate) struct Unit {
    net: Option<InstanceName>,
    place: DiskPlace,
    encryption: Encryption,
}

impl Unit {
    /// By these parameters.
    ///
    /// # Errors
    /// The URL names no unit, or a key or passphrase cannot be read.
    pub(crate) fn new(args: &UnitArgs) -> Result<Self, Failure> {
        let access = Arc::new(DiskAccess::new(&args.session.access)?);
        let place = DiskPlace::new(&args.uri, &access, args.session.give_up)?;
        Ok(Self { net: args.session.net.clone(), place, encryption: Encryption::new(&args.luks)? })
    }

    /// The instance; `None`: the one that runs.
    pub(crate) fn net(&self) -> Option<&InstanceName> {
        self.net.as_ref()
    }

    /// Opens it, as a client of the instance.
    ///
    /// # Errors
    /// The target's, or the passphrase is wrong.
    pub(crate) async fn open(&self) -> Result<Disk, Failure> {
        self.encryption.open(self.place.access(), self.place.open().await?).await
    }

    /// Opens it and ends the session, to see whether it can be opened. Nothing is left in this
    /// process, which may fork then.
    ///
    /// # Errors
    /// As [`Self::open`], or the instance's.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let checked = thread::scope(|scope| {
            let opened = || {
                on_instance(self.net(), async {
                    self.open().await?.close().await;
                    Ok(())
                })
            };
            scope.spawn(opened).join()
        });
        checked
            .unwrap_or_else(|_| Err(Failure::system("open the unit", "its thread has failed")))?
    }
}
