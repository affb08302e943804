//! The command lines of `tasuki target` and `tasuki disk`.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use storage::{DiskUrl, LunDefinition, PORT};

use super::disk_bench::DiskBenchArgs;
use crate::runtime_dir::InstanceName;

/// Serve disks over iSCSI
///
/// A target is a process of its own on a running instance. Its logical units are files, block
/// devices or memory; any iSCSI initiator can use them.
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  tasuki target up disks --plain --lun file:/srv/a.img
  tasuki target ls --json | jq '.[].luns'
  tasuki target down disks")]
pub(crate) struct TargetArgs {
    #[command(subcommand)]
    pub(crate) command: TargetCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TargetCommand {
    Up(TargetUpArgs),
    /// End a target
    ///
    /// Initiators are told. Returns when all that was written is on stable storage.
    Down(TargetNameArgs),
    Add(TargetLunArgs),
    Remove(TargetUnitArgs),
    /// Show targets and their logical units
    Ls(TargetPsArgs),
    /// Show the sessions of targets
    Ps(TargetPsArgs),
}

/// Start a target
///
/// Returns when initiators can connect; the target then runs in the background until `tasuki target
/// down` or the end of its instance. Messages go to NAME.target.log beside the instance's socket.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tasuki target up disks --plain --lun file:/srv/a.img
  tasuki target up disks --plain --lun block:/dev/vg/a --lun file:/srv/b.img,ro --net web
  tasuki target up scratch --plain --lun memory:1G,block=4096")]
pub(crate) struct TargetUpArgs {
    /// Name of the target: a-z, 0-9 and -, at most 32
    #[arg(value_name = "NAME")]
    pub(crate) name: InstanceName,
    /// A logical unit, the first is LUN 0: file:PATH, block:PATH, memory:SIZE or null:SIZE, with
    /// options after commas: ro, removable, writethrough, block=4096, serial=TEXT
    #[arg(long = "lun", value_name = "VOLUME[,OPTION...]", required = true)]
    pub(crate) luns: Vec<LunDefinition>,
    /// Accept initiators without encryption or authentication
    #[arg(long)]
    pub(crate) plain: bool,
    /// The instance [default: the one that runs]
    #[arg(long, value_name = "NAME")]
    pub(crate) net: Option<InstanceName>,
    /// Listen at this address of the instance [default: all]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) address: Option<IpAddr>,
    /// Listen at this port
    #[arg(long, value_name = "PORT", default_value_t = PORT)]
    pub(crate) port: u16,
    /// iSCSI name of the target [default: iqn.2026-11.tasuki:NAME]
    #[arg(long, value_name = "IQN")]
    pub(crate) iqn: Option<String>,
    /// Keep persistent reservations and mode pages in this directory
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) state: Option<PathBuf>,
    /// Stay in the foreground; tell systemd when ready (NOTIFY_SOCKET)
    #[arg(long)]
    pub(crate) foreground: bool,
}

/// A target
#[derive(Debug, Args)]
pub(crate) struct TargetNameArgs {
    /// Name of the target
    #[arg(value_name = "NAME")]
    pub(crate) name: InstanceName,
}

/// Add a logical unit to a running target
///
/// Initiators learn it by a unit attention.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tasuki target add disks 1 file:/srv/b.img,ro")]
pub(crate) struct TargetLunArgs {
    /// Name of the target
    #[arg(value_name = "NAME")]
    pub(crate) name: InstanceName,
    /// Number of the unit
    #[arg(value_name = "LUN")]
    pub(crate) lun: u16,
    /// Its bytes, as `tasuki target up --lun` has them
    #[arg(value_name = "VOLUME[,OPTION...]")]
    pub(crate) definition: LunDefinition,
}

/// Remove a logical unit of a running target
///
/// Its commands are aborted; initiators learn it by a unit attention.
#[derive(Debug, Args)]
pub(crate) struct TargetUnitArgs {
    /// Name of the target
    #[arg(value_name = "NAME")]
    pub(crate) name: InstanceName,
    /// Number of the unit
    #[arg(value_name = "LUN")]
    pub(crate) lun: u16,
}

#[derive(Debug, Args)]
pub(crate) struct TargetPsArgs {
    /// Print JSON: an array with one object per target
    #[arg(long)]
    pub(crate) json: bool,
    /// Only this target
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<InstanceName>,
}

/// Use disks of iSCSI targets
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  tasuki disk ls iscsi://10.9.0.2/
  tasuki disk copy big.img iscsi://10.9.0.2/iqn.2026-11.tasuki:disks/0 --progress
  tasuki disk bench iscsi://10.9.0.2/iqn.2026-11.tasuki:disks/0 --rw randread --iodepth 32")]
pub(crate) struct DiskArgs {
    #[command(subcommand)]
    pub(crate) command: DiskCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DiskCommand {
    Ls(DiskLsArgs),
    Copy(DiskCopyArgs),
    Bench(DiskBenchArgs),
}

/// Show targets and logical units, as iscsi-ls does
#[derive(Debug, Args)]
pub(crate) struct DiskLsArgs {
    /// iscsi://ADDRESS, with :PORT, /TARGET and /LUN if wanted
    #[arg(value_name = "URL")]
    pub(crate) url: DiskUrl,
    /// The instance [default: the one that runs]
    #[arg(long, value_name = "NAME")]
    pub(crate) net: Option<InstanceName>,
    /// iSCSI name of this initiator [default: one with the machine's id]
    #[arg(long, value_name = "IQN")]
    pub(crate) initiator: Option<String>,
    /// Print JSON: an array with one object per unit
    #[arg(long)]
    pub(crate) json: bool,
}

/// Copy a disk: a file to a unit, a unit to a file, or a unit to another one
///
/// A file is made, or emptied before. All is on stable storage when the command returns.
#[derive(Debug, Args)]
pub(crate) struct DiskCopyArgs {
    /// A file, or iscsi://ADDRESS/TARGET/LUN
    #[arg(value_name = "FROM")]
    pub(crate) from: OsString,
    /// A file, or iscsi://ADDRESS/TARGET/LUN
    #[arg(value_name = "TO")]
    pub(crate) to: OsString,
    /// Show the progress, also where standard error is no terminal
    #[arg(long)]
    pub(crate) progress: bool,
    /// The instance [default: the one that runs]
    #[arg(long, value_name = "NAME")]
    pub(crate) net: Option<InstanceName>,
    /// iSCSI name of this initiator [default: one with the machine's id]
    #[arg(long, value_name = "IQN")]
    pub(crate) initiator: Option<String>,
}
