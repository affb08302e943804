//! `tasuki disk mount`: a unit as a file.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;

use storage::{MountError, MountOptions, Mounted};
use tokio::signal::unix::{SignalKind, signal};
use user::{DiskAccess, DiskPlace, Encryption, Secret, on_instance};

use crate::cli::DiskMountArgs;
use crate::command::background::{self, Ready};
use crate::exit::{Code, Failure};
use crate::runtime_dir::RuntimeDir;

/// Bytes of a log's name: the end of the mount point's path.
const LOG_NAME: usize = 100;

/// Carries out the command.
///
/// # Errors
/// The unit's, or the mount point's.
pub(super) fn mount(args: &DiskMountArgs) -> Result<u8, Failure> {
    // Here, so that what is wrong with keys is said at once, and a new key is told.
    let access = Arc::new(DiskAccess::new(&args.session.access)?);
    let place = DiskPlace::new(&args.url, &access, args.session.give_up)?;
    if let Some(log) = background::log_path() {
        return background::work(&log, |ready| {
            let secret = args.luks.key.luks.then(Secret::receive).transpose()?;
            serve(args, &place, &Encryption::with(&args.luks, secret), ready)
        });
    }
    let secret = args.luks.key.luks.then(|| Secret::of(&args.luks.key)).transpose()?;
    if args.foreground {
        let encryption = Encryption::with(&args.luks, secret);
        return serve(args, &place, &encryption, Box::new(background::notify));
    }
    let log = RuntimeDir::make()?.make_log(&log_name(&args.point))?;
    match secret {
        // The terminal, and standard input, are this process's.
        Some(secret) => background::detach_with(log, |input| secret.hand_over(input)),
        None => background::detach(log),
    }
}

fn serve(
    args: &DiskMountArgs,
    place: &DiskPlace,
    encryption: &Encryption,
    ready: Ready,
) -> Result<u8, Failure> {
    let options = MountOptions {
        read_only: args.read_only,
        allow_other: args.allow_other,
        unmap: args.unmap || args.luks.discard,
        source: args.url.to_string(),
    };
    let served = async {
        let end = end_signal()?;
        let disk = encryption.open(place.access(), place.open().await?).await?;
        let mounted = Mounted::new(&disk, &args.point, &options);
        let mounted = mounted.map_err(|error| mount_failure(&error))?;
        ready()?;
        mounted.serve(&disk, end).await.map_err(|error| mount_failure(&error))
    };
    on_instance(args.session.net.as_ref(), served)?.map(|()| 0)
}

/// SIGINT or SIGTERM.
fn end_signal() -> Result<impl Future<Output = ()>, Failure> {
    let failed = |error: std::io::Error| Failure::system("wait for signals", error);
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

fn mount_failure(error: &MountError) -> Failure {
    let code = match error {
        MountError::Point { .. } => Code::Configuration,
        MountError::Mount { source, .. }
            if source.kind() == std::io::ErrorKind::PermissionDenied =>
        {
            Code::Rights
        }
        _ => Code::Internal,
    };
    Failure::new(code, error.to_string())
}

/// The log of a mount, named after its mount point.
fn log_name(point: &Path) -> String {
    let path = std::path::absolute(point).unwrap_or_else(|_| point.to_path_buf());
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
    let name: String = path.to_string_lossy().trim_matches('/').chars().map(plain).collect();
    let begin = name.len().saturating_sub(LOG_NAME);
    format!("{}.mount", &name[begin..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_are_named_after_mount_points() {
        assert_eq!(log_name(Path::new("/mnt/a b/ü")), "mnt-a-b--.mount");
        assert_eq!(log_name(&Path::new("/").join("x".repeat(300))).len(), LOG_NAME + 6);
    }
}
