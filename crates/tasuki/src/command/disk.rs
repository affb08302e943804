//! `tasuki disk`: logical units of iSCSI targets, from an instance.

mod bench;

use std::ffi::OsStr;
use std::future::Future;
use std::io::IsTerminal as _;
use std::path::PathBuf;

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use storage::{
    AUTHORITY, BenchError, CopyEnd, CopyError, DiskUrl, Initiator, InitiatorError, IscsiName,
    UrlError, copy,
};

use super::{print, print_json, table};
use crate::cli::{DiskArgs, DiskBenchArgs, DiskCommand, DiskCopyArgs, DiskLsArgs};
use crate::exit::{Code, Failure};
use crate::operator::join;
use crate::runtime_dir::InstanceName;

/// Carries out the command.
///
/// # Errors
/// As each.
pub(crate) fn disk(args: &DiskArgs) -> Result<u8, Failure> {
    match &args.command {
        DiskCommand::Ls(ls) => list(ls),
        DiskCommand::Copy(copy) => copy_disk(copy),
        DiskCommand::Bench(bench) => bench_disk(bench),
    }
}

/// A unit, as `tasuki disk ls` shows it.
#[derive(Debug, Serialize)]
struct UnitRow {
    target: String,
    lun: u16,
    bytes: u64,
    block_size: u32,
    product: String,
    url: String,
}

fn list(args: &DiskLsArgs) -> Result<u8, Failure> {
    let name = initiator_name(args.initiator.as_deref())?;
    let rows = on_instance(args.net.as_ref(), units(&args.url, &name))??;
    if args.json {
        print_json(&rows)?;
        return Ok(0);
    }
    let head = ["Target", "LUN", "Bytes", "Block", "Product", "URL"];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    lines.extend(rows.into_iter().map(|row| {
        let UnitRow { target, lun, bytes, block_size, product, url } = row;
        vec![target, lun.to_string(), bytes.to_string(), block_size.to_string(), product, url]
    }));
    print(&table(&lines, &[false, true, true, true]))?;
    Ok(0)
}

async fn units(url: &DiskUrl, name: &IscsiName) -> Result<Vec<UnitRow>, Failure> {
    let targets = match &url.target {
        Some(target) => vec![target.clone()],
        None => {
            let portal =
                Initiator::connect(url.portal, name, None).await.map_err(|e| failure(&e))?;
            let found = portal.targets().await.map_err(|error| failure(&error))?;
            portal.logout().await;
            found.into_iter().map(|target| target.name).collect()
        }
    };
    let mut rows = Vec::new();
    for target in targets {
        let session = Initiator::connect(url.portal, name, Some(&target)).await;
        let session = session.map_err(|error| failure(&error))?;
        let listed = units_of(&session, url, &target, &mut rows).await;
        session.logout().await;
        listed.map_err(|error| failure(&error))?;
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
        let capacity = session.capacity(lun).await?;
        let unit = DiskUrl { portal: url.portal, target: Some(target.clone()), lun: Some(lun) };
        rows.push(UnitRow {
            target: target.to_string(),
            lun,
            bytes: capacity.bytes(),
            block_size: capacity.block_size,
            product: session.inquiry(lun).await?,
            url: unit.to_string(),
        });
    }
    Ok(())
}

fn copy_disk(args: &DiskCopyArgs) -> Result<u8, Failure> {
    let name = initiator_name(args.initiator.as_deref())?;
    let (from, to) = (PlaceOfDisk::parse(&args.from)?, PlaceOfDisk::parse(&args.to)?);
    let copied = async {
        let (from, to) = (from.open(&name, true).await?, to.open(&name, false).await?);
        let bar = progress_bar(args.progress, from.size()?);
        let shown = bar.clone();
        let copied = copy(&from, &to, move |bytes| shown.set_position(bytes)).await;
        bar.finish_and_clear();
        for end in [from, to] {
            if let CopyEnd::Unit(session, ..) = end {
                session.logout().await;
            }
        }
        copied
    };
    let copied = on_instance(args.net.as_ref(), copied)?;
    copied.map(|_| 0).map_err(|error| match &error {
        CopyError::Unit(error) => failure(error),
        CopyError::File { .. } => Failure::new(Code::Output, error.to_string()),
        CopyError::TooSmall { .. } | CopyError::SameFile(_) => {
            Failure::new(Code::Configuration, error.to_string())
        }
    })
}

fn bench_disk(args: &DiskBenchArgs) -> Result<u8, Failure> {
    let plan = bench::plan(args)?;
    let name = initiator_name(args.initiator.as_deref())?;
    let (target, lun) = unit_of(&args.url)?;
    let measured = async {
        let session = Initiator::connect(args.url.portal, &name, Some(&target)).await?;
        let measured = bench::measure(&session, lun, plan).await;
        session.logout().await;
        measured
    };
    let outcome = on_instance(args.net.as_ref(), measured)?.map_err(|error| match &error {
        BenchError::Unit(error) => failure(error),
        BenchError::Block { .. } | BenchError::TooSmall { .. } => usage(&error),
    })?;
    bench::show(args, &outcome)
}

/// The unit that a URL names.
fn unit_of(url: &DiskUrl) -> Result<(IscsiName, u16), Failure> {
    match (&url.target, url.lun) {
        (Some(target), Some(lun)) => Ok((target.clone(), lun)),
        _ => Err(usage(&format!("`{url}` names no unit: see `tasuki disk ls {url}`"))),
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
    Unit(DiskUrl, IscsiName, u16),
}

impl PlaceOfDisk {
    fn parse(word: &OsStr) -> Result<Self, Failure> {
        let Some(text) = word.to_str().filter(|text| text.contains("://")) else {
            return Ok(Self::File(word.into()));
        };
        let url: DiskUrl = text.parse().map_err(|error: UrlError| usage(&error))?;
        let (target, lun) = unit_of(&url)?;
        Ok(Self::Unit(url, target, lun))
    }

    async fn open(&self, name: &IscsiName, source: bool) -> Result<CopyEnd, CopyError> {
        match self {
            Self::File(path) if source => CopyEnd::source(path),
            Self::File(path) => CopyEnd::destination(path),
            Self::Unit(url, target, lun) => {
                let session = Initiator::connect(url.portal, name, Some(target)).await?;
                CopyEnd::unit(&session, *lun).await
            }
        }
    }
}

fn usage(error: &impl std::fmt::Display) -> Failure {
    Failure::new(Code::Usage, error.to_string())
}

fn failure(error: &InitiatorError) -> Failure {
    let code = match error {
        InitiatorError::Refused(_) => Code::Rights,
        InitiatorError::Connect { .. } => Code::Configuration,
        _ => Code::Internal,
    };
    Failure::new(code, error.to_string())
}

/// The name that is asked for, or one of this machine.
fn initiator_name(given: Option<&str>) -> Result<IscsiName, Failure> {
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
fn on_instance<F: Future>(net: Option<&InstanceName>, future: F) -> Result<F::Output, Failure> {
    let client = join(net)?;
    let failed = |error: std::io::Error| Failure::system("use the instance", error);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(failed)?;
    let run = tasuki_tokio::run(&client, future);
    tokio::task::LocalSet::new().block_on(&runtime, run).map_err(failed)
}
