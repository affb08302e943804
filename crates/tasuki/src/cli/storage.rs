//! The command lines of `tasuki target` and `tasuki disk`.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use storage::{DiskUrl, LunDefinition, parse_size};
use user::{CredentialArgs, Digest, DiskAccessArgs, DiskSessionArgs, LuksArgs};

use super::disk_bench::DiskBenchArgs;
use super::luks::LuksFormatArgs;
use crate::runtime_dir::InstanceName;

/// Serve disks over iSCSI
///
/// A target is a process of its own on a running instance. Its logical units are files, block
/// devices or memory. Sealed sessions are with `tasuki disk`; any iSCSI initiator can use a portal
/// that is plain.
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  tasuki target up disks --lun file:/srv/a.img
  tasuki target ls --json | jq '.[].luns'
  tasuki target down disks")]
pub(crate) struct TargetArgs {
    #[command(subcommand)]
    pub(crate) command: TargetCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TargetCommand {
    Up(Box<TargetUpArgs>),
    /// End a target
    ///
    /// Initiators are told. Returns when all that was written is on stable storage.
    Down(TargetNameArgs),
    Add(TargetLunArgs),
    Remove(TargetUnitArgs),
    /// Read the configuration of a running target again: rules, users, secrets, units
    ///
    /// It is that of the command line by which the target was started. Units that it does not have
    /// go, also those of `tasuki target add`. Sessions go on, unless their right was withdrawn. A
    /// configuration with an error changes nothing. Name, transport and address take a restart.
    Reload(TargetNameArgs),
    /// Change the keys of all sealed sessions of a target now
    Rekey(TargetNameArgs),
    Resize(TargetResizeArgs),
    /// Show targets and their logical units
    Ls(TargetPsArgs),
    /// Show the sessions of targets
    Ps(TargetPsArgs),
}

/// Start a target
///
/// Sessions are sealed, unless --tls or --plain is given: a portal speaks one of these and nothing
/// else. Sealed sessions are with initiators whose keys are known, see `tasuki key`.
///
/// Returns when initiators can connect; the target then runs in the background until `tasuki target
/// down` or the end of its instance. Messages go to NAME.target.log beside the instance's socket.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tasuki target up disks --lun file:/srv/a.img
  tasuki target up disks --lun block:/dev/vg/a --lun file:/srv/b.img,ro --net web
  tasuki target up disks --tls --cert host.pem --key host.key --ca ca.pem --lun file:/srv/a.img
  tasuki target up scratch --plain --lun memory:1G,block=4096
  tasuki target up -f /etc/tasuki/disks.toml")]
pub(crate) struct TargetUpArgs {
    /// Name of the target: a-z, 0-9 and -, at most 32 [default: that of the file, without .toml]
    #[arg(value_name = "NAME", required_unless_present = "config")]
    pub(crate) name: Option<InstanceName>,
    /// Read the configuration from FILE (TOML): units, users, who may use which; options win
    #[arg(short = 'f', long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// A logical unit, the first is LUN 0: file:PATH, block:PATH, memory:SIZE or null:SIZE, with
    /// options after commas: ro, removable, writethrough, block=4096, serial=TEXT; instead of those
    /// of the file
    #[arg(long = "lun", value_name = "VOLUME[,OPTION...]", required_unless_present = "config")]
    pub(crate) luns: Vec<LunDefinition>,
    /// Accept initiators without encryption or authentication, instead of sealed ones
    #[arg(long)]
    pub(crate) plain: bool,
    /// Accept initiators by TLS 1.3, instead of sealed ones
    #[arg(long, conflicts_with = "plain")]
    pub(crate) tls: bool,
    /// CRC32C of iSCSI's headers and data [default: what the initiator offers first]
    #[arg(long, value_name = "DIGEST", value_enum)]
    pub(crate) digest: Option<Digest>,
    #[command(flatten)]
    pub(crate) credentials: CredentialArgs,
    /// The instance [default: the one that runs]
    #[arg(long, value_name = "NAME")]
    pub(crate) net: Option<InstanceName>,
    /// Listen at this address of the instance [default: all]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) address: Option<IpAddr>,
    /// Listen at this port [default: 3260]
    #[arg(long, value_name = "PORT")]
    pub(crate) port: Option<u16>,
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
/// Its commands fail; initiators learn it by a unit attention.
#[derive(Debug, Args)]
pub(crate) struct TargetUnitArgs {
    /// Name of the target
    #[arg(value_name = "NAME")]
    pub(crate) name: InstanceName,
    /// Number of the unit
    #[arg(value_name = "LUN")]
    pub(crate) lun: u16,
}

/// Change the size of a logical unit of a running target
///
/// With SIZE a file grows or shrinks; what is behind the new end is lost. Without SIZE the unit
/// gets the size that its file or block device has now. Commands that are under way end before,
/// and initiators learn it by a unit attention.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tasuki target resize disks 0 2G
  lvextend -L 2G vg/a && tasuki target resize disks 1")]
pub(crate) struct TargetResizeArgs {
    /// Name of the target
    #[arg(value_name = "NAME")]
    pub(crate) name: InstanceName,
    /// Number of the unit
    #[arg(value_name = "LUN")]
    pub(crate) lun: u16,
    /// Its bytes, or with K, M, G or T; a whole number of blocks
    #[arg(value_name = "SIZE", value_parser = parse_size)]
    pub(crate) size: Option<u64>,
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
  tasuki disk ls iscsi+sealed://10.9.0.2/
  tasuki disk mount iscsi+sealed://10.9.0.2/iqn.2026-11.tasuki:disks/0 /mnt/a
  tasuki disk copy big.img iscsi+sealed://10.9.0.2/iqn.2026-11.tasuki:disks/0 --progress
  tasuki disk bench iscsi+sealed://10.9.0.2/iqn.2026-11.tasuki:disks/0 --rw randread --iodepth 32")]
pub(crate) struct DiskArgs {
    #[command(subcommand)]
    pub(crate) command: DiskCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DiskCommand {
    Ls(DiskLsArgs),
    Copy(DiskCopyArgs),
    Mount(DiskMountArgs),
    Format(DiskFormatArgs),
    Bench(DiskBenchArgs),
}

/// Show targets and their disks, as iscsi-ls does
#[derive(Debug, Args)]
pub(crate) struct DiskLsArgs {
    /// iscsi+sealed://ADDRESS, iscsi+tls://ADDRESS or iscsi://ADDRESS (plain), with :PORT, /TARGET
    /// and /LUN if wanted
    #[arg(value_name = "URL")]
    pub(crate) url: DiskUrl,
    /// The instance [default: the one that runs]
    #[arg(long, value_name = "NAME")]
    pub(crate) net: Option<InstanceName>,
    #[command(flatten)]
    pub(crate) access: DiskAccessArgs,
    /// Print JSON: an array with one object per disk
    #[arg(long)]
    pub(crate) json: bool,
}

/// Copy a disk: a file to a unit, a unit to a file, or a unit to another one
///
/// A file is made, or emptied before. All is on stable storage when the command returns.
#[derive(Debug, Args)]
pub(crate) struct DiskCopyArgs {
    /// A file, or iscsi+sealed://ADDRESS/TARGET/LUN, or the same with iscsi+tls or iscsi (plain)
    #[arg(value_name = "FROM")]
    pub(crate) from: OsString,
    /// A file, or iscsi+sealed://ADDRESS/TARGET/LUN, or the same with iscsi+tls or iscsi (plain)
    #[arg(value_name = "TO")]
    pub(crate) to: OsString,
    /// Show the progress, also where standard error is no terminal
    #[arg(long)]
    pub(crate) progress: bool,
    #[command(flatten)]
    pub(crate) luks: LuksArgs,
    #[command(flatten)]
    pub(crate) session: DiskSessionArgs,
}

/// Mount a disk as a file, for loop devices, mkfs, QEMU
///
/// On a directory the disk is the file `disk` in it, on a regular file it is that file. The command
/// returns when the file can be used. The mount runs in the background until umount or fusermount3
/// -u, or SIGTERM. Messages go to a log beside the instance's socket. While the target is away,
/// requests wait; the session comes back by itself.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tasuki disk mount iscsi+sealed://10.9.0.2/iqn.2026-11.tasuki:disks/0 /mnt/a
  losetup --direct-io=on --find --show /mnt/a/disk
  umount /mnt/a")]
pub(crate) struct DiskMountArgs {
    /// iscsi+sealed://ADDRESS/TARGET/LUN, or the same with iscsi+tls or iscsi (plain)
    #[arg(value_name = "URL")]
    pub(crate) url: DiskUrl,
    /// A directory or a regular file
    #[arg(value_name = "MOUNTPOINT")]
    pub(crate) point: PathBuf,
    /// Refuse writes
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Let other users reach the file, as its mode (chmod) allows
    #[arg(long)]
    pub(crate) allow_other: bool,
    /// Let programs give storage back and make ranges zero (fallocate, discard, fstrim)
    #[arg(long)]
    pub(crate) unmap: bool,
    /// Stay in the foreground; tell systemd when ready (NOTIFY_SOCKET)
    #[arg(long)]
    pub(crate) foreground: bool,
    #[command(flatten)]
    pub(crate) luks: LuksArgs,
    #[command(flatten)]
    pub(crate) session: DiskSessionArgs,
}

/// Make a disk ready: write a LUKS header with a new key
///
/// A unit that has data is refused. What the header is made of can be seen by `cryptsetup
/// luksDump`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tasuki disk format --luks iscsi://10.9.0.2/iqn.2026-11.tasuki:disks/0
  tasuki disk copy --luks big.img iscsi://10.9.0.2/iqn.2026-11.tasuki:disks/0")]
pub(crate) struct DiskFormatArgs {
    /// iscsi://ADDRESS/TARGET/LUN
    #[arg(value_name = "URL")]
    pub(crate) url: DiskUrl,
    #[command(flatten)]
    pub(crate) luks: LuksFormatArgs,
    #[command(flatten)]
    pub(crate) session: DiskSessionArgs,
}
