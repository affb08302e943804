//! Which volume a unit has. An identity is made once, by chance, and stays with the volume. So
//! another volume of the same name, number and size is another unit, and two machines never have
//! the same one.
//!
//! | volume | its identity is |
//! |---|---|
//! | file | in the extended attribute `user.tasuki.identity` ([`attribute`]) |
//! | file without such attributes, block device | in a file of this machine ([`register`]) |
//! | neither can be had, memory, null | made anew each time that it is opened |
//!
//! An identity of a file names the file that it was made for. A copy with all its attributes is
//! another file, and gets another identity. A block device is known by what the kernel tells of it
//! ([`device`]).

mod attribute;
mod device;
mod mark;
mod register;
mod volume_identity;

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::FileType;

use self::attribute::Attribute;
use self::mark::FileMark;
pub use self::register::IdentityRegister;
pub use self::volume_identity::{NoIdentity, VolumeIdentity};

/// An identity, and what a user is to know about it.
#[derive(Debug)]
pub(crate) struct Identified {
    pub(crate) identity: VolumeIdentity,
    pub(crate) notice: Option<String>,
}

/// The identity of the volume in an open file or device. One is made if it has none.
///
/// # Errors
/// The system's.
pub(crate) fn identify(
    file: &OwnedFd,
    path: &Path,
    register: &IdentityRegister,
) -> io::Result<Identified> {
    let stat = rustix::fs::fstat(file)?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice {
        let key = device::key(stat.st_rdev);
        let key = key.ok_or_else(|| io::Error::other("the kernel tells no name of the device"));
        return kept_in(register, path, key);
    }
    let mark = FileMark::of(file)?;
    let held = Attribute::read(file);
    match held {
        Ok(Some(Attribute { identity, made_for })) if made_for.is_of(&mark) => {
            if made_for != mark {
                // It was set by hand, or before the file system knew as much.
                let _ = Attribute { identity, made_for: mark }.write(file);
            }
            Ok(Identified { identity, notice: None })
        }
        Ok(other) => {
            let identity = VolumeIdentity::random()?;
            let copied = other.map(|other| {
                format!(
                    "{} is a copy of the volume {}: it gets the identity {identity}",
                    path.display(),
                    other.identity
                )
            });
            match (Attribute { identity, made_for: mark.clone() }).write(file) {
                Ok(()) => Ok(Identified { identity, notice: copied }),
                Err(_) => kept_in(register, path, mark.key()),
            }
        }
        Err(_) => kept_in(register, path, mark.key()),
    }
}

/// The identity that the register has for this key. If it can have none, one for this time.
fn kept_in(
    register: &IdentityRegister,
    path: &Path,
    key: io::Result<String>,
) -> io::Result<Identified> {
    match key.and_then(|key| register.identity(&key)) {
        Ok(identity) => Ok(Identified { identity, notice: None }),
        Err(error) => {
            let identity = VolumeIdentity::random()?;
            let notice = format!(
                "no identity of {} can be kept ({error}): it is {identity} until the target ends, \
                 and then initiators that wait take the volume for another one",
                path.display()
            );
            Ok(Identified { identity, notice: Some(notice) })
        }
    }
}

#[cfg(test)]
mod tests;
