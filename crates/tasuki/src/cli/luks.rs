//! The options of new LUKS headers.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// What a new LUKS header is
#[derive(Debug, Args)]
pub(crate) struct LuksFormatArgs {
    /// Write a LUKS header; there is no other format
    #[arg(long, required = true)]
    pub(crate) luks: bool,
    /// Version of the header; QEMU reads luks1 only
    #[arg(long = "type", value_enum, value_name = "TYPE", default_value_t = LuksType::Luks2)]
    pub(crate) kind: LuksType,
    /// The passphrase is this file as it is, or standard input if `-` [default: ask twice]
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// Bytes of a sector: 512, 1024, 2048, 4096 [default: 4096, and 512 for luks1]
    #[arg(long, value_name = "BYTES")]
    pub(crate) sector_size: Option<u64>,
    /// How a key is made out of the passphrase [default: argon2id, and pbkdf2 for luks1]
    #[arg(long, value_enum, value_name = "KIND")]
    pub(crate) pbkdf: Option<Pbkdf>,
    /// How long that takes on this machine
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 2000)]
    pub(crate) iter_time: u32,
    /// How many iterations it takes, instead of a time
    #[arg(long, value_name = "COUNT", conflicts_with = "iter_time")]
    pub(crate) pbkdf_force_iterations: Option<u32>,
    /// Destroy what the unit has
    #[arg(long)]
    pub(crate) force: bool,
}

/// Versions of LUKS headers
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LuksType {
    /// The first version
    Luks1,
    /// The second version
    Luks2,
}

/// Key derivations
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Pbkdf {
    /// Takes time and memory
    Argon2id,
    /// Takes time
    Pbkdf2,
}
