//! What a user has: instances, keys, and disks of targets.
//!
//! The command and the nbdkit plug-in share it: both find the same instances and keys, take options
//! of the same names, and say the same sentences when something is wrong.
//!
//! ```text layers
//! disk: units of targets, by these options
//! operator credentials: a user's end of an instance; what an end shows of itself
//! parameters: the words of the nbdkit plug-in
//! options: how sessions with targets are made
//! runtime_dir keys: where instances are found; keys and known peers
//! pictures whole_file output_file: pictures of pixels beside drawings; files: whole, named ones
//! exit state_dir: failures and their exit codes; what outlives instances
//! ```

#![forbid(unsafe_code)]

mod credentials;
mod disk;
pub mod exit;
pub mod keys;
pub mod operator;
mod options;
pub mod output_file;
pub mod parameters;
pub mod pictures;
pub mod runtime_dir;
mod state_dir;
pub mod whole_file;

pub use credentials::{credentials, forbid_dumps};
pub use disk::{
    DiskAccess, DiskPlace, Encryption, Secret, encryption_failure, on_instance, unit_of,
};
pub use options::{
    ChapArgs, Cipher, CredentialArgs, Digest, DiskAccessArgs, DiskSessionArgs, LuksArgs,
    LuksKeyArgs, clap_sentence,
};
pub use state_dir::state_directory;
