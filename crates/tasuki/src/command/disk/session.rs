//! Sessions with targets, for the commands of `tasuki disk`.

use std::future::Future;
use std::time::Duration;

use storage::{AUTHORITY, Disk, DiskUrl, Initiator, InitiatorError, IscsiName, random_isid};

use crate::cli::DiskSessionArgs;
use crate::exit::{Code, Failure};
use crate::operator::join;
use crate::runtime_dir::InstanceName;

/// A unit that a command line names.
pub(super) struct DiskPlace {
    url: DiskUrl,
    target: IscsiName,
    lun: u16,
    initiator: IscsiName,
    give_up: Option<Duration>,
}

impl DiskPlace {
    /// # Errors
    /// The URL names no unit, or the initiator's name is none.
    pub(super) fn new(url: &DiskUrl, args: &DiskSessionArgs) -> Result<Self, Failure> {
        let (Some(target), Some(lun)) = (url.target.clone(), url.lun) else {
            let sentence = format!("`{url}` names no unit: see `tasuki disk ls {url}`");
            return Err(Failure::new(Code::Usage, sentence));
        };
        let initiator = initiator_name(args.initiator.as_deref())?;
        let give_up = args.give_up.map(|seconds| Duration::from_secs(seconds.into()));
        Ok(Self { url: url.clone(), target, lun, initiator, give_up })
    }

    /// Opens it, within [`on_instance`]. All of its sessions have one ISID.
    ///
    /// # Errors
    /// The target's.
    pub(super) async fn open(&self) -> Result<Disk, InitiatorError> {
        let isid = random_isid()?;
        let (portal, target, name) = (self.url.portal, self.target.clone(), self.initiator.clone());
        let connect = move || {
            let (target, name) = (target.clone(), name.clone());
            async move { Initiator::connect_as(portal, &name, Some(&target), isid).await }
        };
        Disk::open(connect, self.lun, self.give_up).await
    }
}

pub(super) fn failure(error: &InitiatorError) -> Failure {
    let code = match error {
        InitiatorError::Refused(_) => Code::Rights,
        InitiatorError::Connect { .. } => Code::Configuration,
        _ => Code::Internal,
    };
    Failure::new(code, error.to_string())
}

/// The name that is asked for, or one of this machine.
pub(super) fn initiator_name(given: Option<&str>) -> Result<IscsiName, Failure> {
    let machine = || {
        let id = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
        let id: String = id.chars().filter(char::is_ascii_hexdigit).take(12).collect();
        format!("{AUTHORITY}:host{id}")
    };
    let name = given.map_or_else(machine, str::to_owned);
    name.parse().map_err(|error| {
        Failure::new(Code::Usage, format!("`{name}` is no name of an initiator: {error}"))
    })
}

/// Runs the future as a client of the instance.
pub(super) fn on_instance<F: Future>(
    net: Option<&InstanceName>,
    future: F,
) -> Result<F::Output, Failure> {
    let client = join(net)?;
    let failed = |error: std::io::Error| Failure::system("use the instance", error);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(failed)?;
    let run = tasuki_tokio::run(&client, future);
    tokio::task::LocalSet::new().block_on(&runtime, run).map_err(failed)
}
