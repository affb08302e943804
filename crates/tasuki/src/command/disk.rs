//! `tasuki disk`: logical units of iSCSI targets, from an instance.

mod bench;
mod luks;
mod mount;

use std::ffi::OsStr;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::sync::Arc;

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use storage::{
    CopyEnd, CopyError, DiskError, DiskUrl, Initiator, InitiatorError, IscsiName, UrlError, copy,
};
use user::{DiskAccess, DiskPlace, Encryption, on_instance};

use super::{print, print_json, table};
use crate::cli::{DiskArgs, DiskCommand, DiskCopyArgs, DiskLsArgs};
use crate::exit::{Code, Failure};
use crate::output_file;

/// Carries out the command.
///
/// # Errors
/// As each.
pub(crate) fn disk(args: &DiskArgs) -> Result<u8, Failure> {
    match &args.command {
        DiskCommand::Ls(ls) => list(ls),
        DiskCommand::Copy(copy) => copy_disk(copy),
        DiskCommand::Mount(args) => mount::mount(args),
        DiskCommand::Format(args) => luks::format(args),
        DiskCommand::Bench(args) => bench::bench_disk(args),
    }
}

/// A unit, as `tasuki disk ls` shows it.
#[derive(Debug, Serialize)]
struct UnitRow {
    target: String,
    lun: u16,
    /// `None` without a medium; the block size also.
    bytes: Option<u64>,
    block_size: Option<u32>,
    product: String,
    url: String,
}

fn list(args: &DiskLsArgs) -> Result<u8, Failure> {
    let access = DiskAccess::new(&args.access)?;
    let rows = on_instance(args.net.as_ref(), units(&args.url, &access))??;
    if args.json {
        print_json(&rows)?;
        return Ok(0);
    }
    let head = ["Target", "LUN", "Bytes", "Block", "Product", "URL"];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    lines.extend(rows.into_iter().map(|row| {
        let UnitRow { target, lun, bytes, block_size, product, url } = row;
        let number = |number: Option<u64>| number.map_or("-".to_owned(), |n| n.to_string());
        let block_size = number(block_size.map(u64::from));
        vec![target, lun.to_string(), number(bytes), block_size, product, url]
    }));
    print(&table(&lines, &[false, true, true, true]))?;
    Ok(0)
}

async fn units(url: &DiskUrl, access: &DiskAccess) -> Result<Vec<UnitRow>, Failure> {
    let targets = match &url.target {
        Some(target) => vec![target.clone()],
        None => {
            let portal = access.connect(url, None).await?;
            let found = portal.targets().await.map_err(|error| access.failure(&error))?;
            portal.logout().await;
            found.into_iter().map(|target| target.name).collect()
        }
    };
    let mut rows = Vec::new();
    for target in targets {
        let session = access.connect(url, Some(&target)).await?;
        let listed = units_of(&session, url, &target, &mut rows).await;
        session.logout().await;
        listed.map_err(|error| access.failure(&error))?;
    }
    Ok(rows)
}

async fn units_of(
    session: &Initiator,
    url: &DiskUrl,
    target: &IscsiName,
    rows: &mut Vec<UnitRow>,
) -> Result<(), InitiatorError> {
    for lun in session.luns().await?.into_iter().filter(|lun| url.lun.is_none_or(|it| it == *lun)) {
        let inquiry = session.inquiry(lun).await?;
        if !inquiry.is_disk {
            // The controller of a storage array, a tape.
            continue;
        }
        let capacity = session.capacity_of_medium(lun).await?;
        let unit = DiskUrl { target: Some(target.clone()), lun: Some(lun), ..url.clone() };
        rows.push(UnitRow {
            target: target.to_string(),
            lun,
            bytes: capacity.map(|capacity| capacity.bytes()),
            block_size: capacity.map(|capacity| capacity.block_size),
            product: inquiry.product,
            url: unit.to_string(),
        });
    }
    Ok(())
}

fn copy_disk(args: &DiskCopyArgs) -> Result<u8, Failure> {
    let access = Arc::new(DiskAccess::new(&args.session.access)?);
    let place = |word| PlaceOfDisk::parse(args, &access, word);
    let (from, to) = (place(&args.from)?, place(&args.to)?);
    if args.luks.key.luks && !from.is_unit() && !to.is_unit() {
        return Err(Failure::new(Code::Usage, "--luks is for units, and both ends are files"));
    }
    let encryption = Encryption::new(&args.luks)?;
    let copied = async {
        let from = from.open(&access, &encryption, true).await?;
        let to = to.open(&access, &encryption, false).await?;
        let size = from.size().map_err(|error| copy_failure(&access, &error))?;
        let bar = progress_bar(args.progress, size);
        let shown = bar.clone();
        let copied = copy(&from, &to, move |bytes| shown.set_position(bytes)).await;
        bar.finish_and_clear();
        for end in [from, to] {
            if let CopyEnd::Unit(disk) = end {
                disk.close().await;
            }
        }
        copied.map_err(|error| copy_failure(&access, &error))
    };
    on_instance(args.session.net.as_ref(), copied)?.map(|_| 0)
}

fn copy_failure(access: &DiskAccess, error: &CopyError) -> Failure {
    match error {
        CopyError::Unit(DiskError::Unit(error)) => access.failure(error),
        CopyError::Unit(_) => Failure::new(Code::Internal, error.to_string()),
        CopyError::File { .. } => Failure::new(Code::Output, error.to_string()),
        CopyError::TooSmall { .. } | CopyError::SameFile(_) => {
            Failure::new(Code::Configuration, error.to_string())
        }
    }
}

fn progress_bar(wanted: bool, size: u64) -> ProgressBar {
    if !wanted && !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let form = "{bytes} of {total_bytes} [{bar:30}] {bytes_per_sec}, {eta} left";
    let style = ProgressStyle::with_template(form).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(size).with_style(style)
}

/// Where a copy comes from, or goes to.
enum PlaceOfDisk {
    File(PathBuf),
    Unit(DiskPlace),
}

impl PlaceOfDisk {
    fn parse(args: &DiskCopyArgs, access: &Arc<DiskAccess>, word: &OsStr) -> Result<Self, Failure> {
        let Some(text) = word.to_str().filter(|text| text.contains("://")) else {
            return Ok(Self::File(word.into()));
        };
        let url: DiskUrl =
            text.parse().map_err(|error: UrlError| Failure::new(Code::Usage, error.to_string()))?;
        Ok(Self::Unit(DiskPlace::new(&url, access, args.session.give_up)?))
    }

    fn is_unit(&self) -> bool {
        matches!(self, Self::Unit(_))
    }

    async fn open(
        &self,
        access: &DiskAccess,
        encryption: &Encryption,
        source: bool,
    ) -> Result<CopyEnd, Failure> {
        let end = match self {
            Self::File(path) if source => CopyEnd::source(path),
            Self::File(path) => {
                let file = output_file::open(path)?;
                return Ok(CopyEnd::File(Arc::new(file), path.clone()));
            }
            Self::Unit(place) => {
                return encryption.open(access, place.open().await?).await.map(CopyEnd::Unit);
            }
        };
        end.map_err(|error| copy_failure(access, &error))
    }
}
