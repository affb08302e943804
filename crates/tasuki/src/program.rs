//! The program to run on the stack: its path, and whether the shim can get into it.
//!
//! With a filter of system calls ([`Reach::Filter`]) all programs for this machine will do. The
//! rest is about programs without one.
//!
//! The shim is a shared library that the dynamic loader puts before all others (LD_PRELOAD). Three
//! kinds of programs cannot have it. A static program has no dynamic loader. A program that gains
//! rights by being executed (setuid, setgid, capabilities) makes the loader ignore LD_PRELOAD. A
//! program for another machine type cannot load it. All three would silently use the kernel's
//! network instead, so they are refused. Of a script, the interpreter is judged.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::exit::{Code, Failure};

/// Interpreters of interpreters that are followed, as many as the kernel does.
const MAX_SCRIPTS: usize = 5;
/// Bytes of a script's first line that the kernel looks at.
const SCRIPT_HEAD: usize = 256;
/// Where programs are searched when PATH is not set.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";
const SETUID: u32 = 0o4000;
const SETGID: u32 = 0o2000;
const EXECUTE: u32 = 0o111;

/// The programs whose sockets can become Tasuki's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Those that load the shim.
    Shim,
    /// All that are built for this machine: their system calls are filtered.
    Filter,
}

/// A program that can be run.
#[derive(Debug)]
pub(crate) struct FoundProgram {
    pub(crate) path: PathBuf,
    /// It has a dynamic loader.
    pub(crate) dynamic: bool,
}

/// Finds the program as a shell would and checks it.
///
/// # Errors
/// [`Code::NotFound`], [`Code::NotExecutable`], [`Code::Unsupported`]
pub(crate) fn find(name: &OsStr, reach: Reach) -> Result<FoundProgram, Failure> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
    let found = search(name, &path)?;
    if !Path::new("/proc/self").exists() {
        let sentence = "/proc is not mounted, and Tasuki needs it: `mount -t proc proc /proc`";
        return Err(Failure::new(Code::Internal, sentence));
    }
    let shims = Elf::read(&open(Path::new("/proc/self/exe"))?)
        .map_err(|error| Failure::system("read /proc/self/exe", error))?
        .ok_or_else(|| Failure::system("read /proc/self/exe", "it is not an ELF file"))?;
    let dynamic = check(&found, shims.machine, reach)?;
    Ok(FoundProgram { path: found, dynamic })
}

/// The program's path: `name` itself if it has a slash, otherwise the first executable of that name
/// in the directories of `path`.
fn search(name: &OsStr, path: &OsStr) -> Result<PathBuf, Failure> {
    let shown = Path::new(name).display();
    if name.is_empty() {
        return Err(Failure::new(Code::NotFound, "the program's name is empty"));
    }
    let direct = name.as_bytes().contains(&b'/');
    let candidates: Vec<PathBuf> = if direct {
        vec![PathBuf::from(name)]
    } else {
        std::env::split_paths(path).map(|directory| directory.join(name)).collect()
    };
    let mut refused = None;
    for candidate in candidates {
        match executable(&candidate) {
            Ok(()) => return Ok(candidate),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                let sentence = format!("cannot execute {}: {error}", candidate.display());
                refused = refused.or(Some(Failure::new(Code::NotExecutable, sentence)));
            }
        }
    }
    Err(refused.unwrap_or_else(|| {
        let place = if direct { "" } else { " in the directories of PATH" };
        Failure::new(Code::NotFound, format!("program {shown} was not found{place}"))
    }))
}

/// Is it a file that this process may execute?
fn executable(path: &Path) -> io::Result<()> {
    let metadata = std::fs::metadata(path)?;
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if metadata.mode() & EXECUTE == 0 {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    rustix::fs::access(path, rustix::fs::Access::EXEC_OK).map_err(io::Error::from)
}

/// Can the shim or the filter, made for `machine`, get into the program? Returns whether it has a
/// dynamic loader.
fn check(program: &Path, machine: Machine, reach: Reach) -> Result<bool, Failure> {
    let mut path = program.to_owned();
    for _ in 0..MAX_SCRIPTS {
        let file = open(&path)?;
        let shown = path.display().to_string();
        let read =
            |error| Failure::new(Code::NotExecutable, format!("cannot read {shown}: {error}"));
        if let Some(elf) = Elf::read(&file).map_err(read)? {
            if reach == Reach::Shim {
                check_rights(&path, &file)?;
            }
            return elf.check(&path, machine, reach).map(|()| elf.dynamic);
        }
        match interpreter(&file).map_err(read)? {
            Some(interpreter) => {
                executable(&interpreter).map_err(|error| {
                    let name = interpreter.display();
                    let sentence = format!("cannot execute {name}, which {shown} names: {error}");
                    Failure::new(Code::NotExecutable, sentence)
                })?;
                path = interpreter;
            }
            None => {
                return Err(Failure::new(
                    Code::NotExecutable,
                    format!("{shown} is neither an ELF program nor a script that begins with #!"),
                ));
            }
        }
    }
    let sentence = format!("{}: too many interpreters of interpreters", program.display());
    Err(Failure::new(Code::NotExecutable, sentence))
}

/// A program that may be executed but not read cannot be checked. It is refused, so that it does
/// not run on the kernel's network by surprise.
fn open(path: &Path) -> Result<File, Failure> {
    File::open(path).map_err(|error| {
        let sentence =
            format!("cannot read {} to see whether it is dynamic: {error}", path.display());
        Failure::new(Code::NotExecutable, sentence)
    })
}

/// The loader ignores LD_PRELOAD when execution changes the user, the group or adds capabilities.
fn check_rights(path: &Path, file: &File) -> Result<(), Failure> {
    let metadata = file
        .metadata()
        .map_err(|error| Failure::system(format!("stat {}", path.display()), error))?;
    let user = rustix::process::geteuid();
    let setuid = metadata.mode() & SETUID != 0 && metadata.uid() != user.as_raw();
    let setgid =
        metadata.mode() & SETGID != 0 && metadata.gid() != rustix::process::getegid().as_raw();
    let capable = !user.is_root()
        && rustix::fs::fgetxattr(file, "security.capability", &mut [0_u8; 64][..]).is_ok();
    let what = match (setuid, setgid, capable) {
        (true, _, _) => "setuid",
        (_, true, _) => "setgid",
        (_, _, true) => "given capabilities",
        _ => return Ok(()),
    };
    Err(Failure::new(
        Code::Unsupported,
        format!(
            "{} is {what}: the system keeps the shim out of programs that gain rights; run it as \
             root or use a copy without those rights",
            path.display()
        ),
    ))
}

/// The interpreter that a script's first line names; `None` when it is no script.
fn interpreter(mut file: &File) -> io::Result<Option<PathBuf>> {
    let mut head = Vec::with_capacity(SCRIPT_HEAD);
    io::Seek::rewind(&mut file)?;
    file.take(SCRIPT_HEAD as u64).read_to_end(&mut head)?;
    let Some(line) = head.strip_prefix(b"#!") else { return Ok(None) };
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let name: Vec<u8> = line
        .iter()
        .copied()
        .skip_while(blank)
        .take_while(|byte| !blank(byte) && *byte != b'\n' && *byte != 0)
        .collect();
    Ok((!name.is_empty()).then(|| PathBuf::from(OsStr::from_bytes(&name))))
}

/// Word size, byte order and machine number of an ELF file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Machine {
    class: u8,
    order: u8,
    number: u16,
}

/// The relevant fields of an ELF file's headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Elf {
    machine: Machine,
    /// It names a dynamic loader (PT_INTERP).
    dynamic: bool,
}

impl Elf {
    /// Reads the headers; `None` when the file is no ELF file. A header that points outside of the
    /// file counts as missing.
    fn read(file: &File) -> io::Result<Option<Self>> {
        const INTERPRETER: u64 = 3;
        let mut head = [0; 64];
        let len = read_at(file, &mut head, 0)?;
        let view = View { bytes: &head[..len], wide: head[4] == 2, big: head[5] == 2 };
        if !head.starts_with(b"\x7fELF") || !matches!((head[4], head[5]), (1 | 2, 1 | 2)) {
            return Ok(None);
        }
        let number = view.at(18, 2).and_then(|number| u16::try_from(number).ok());
        let (table, size, count) = if view.wide {
            (view.at(32, 8), view.at(54, 2), view.at(56, 2))
        } else {
            (view.at(28, 4), view.at(42, 2), view.at(44, 2))
        };
        let (Some(number), Some(table), Some(size), Some(count)) = (number, table, size, count)
        else {
            return Ok(None);
        };
        let machine = Machine { class: head[4], order: head[5], number };
        let mut dynamic = false;
        for index in 0..count {
            let mut kind = [0; 4];
            let Some(at) = table.checked_add(index * size) else { return Ok(None) };
            if read_at(file, &mut kind, at)? < kind.len() {
                return Ok(None);
            }
            let kind = View { bytes: &kind, ..view }.at(0, 4);
            dynamic |= kind == Some(INTERPRETER);
        }
        Ok(Some(Self { machine, dynamic }))
    }

    fn check(&self, path: &Path, machine: Machine, reach: Reach) -> Result<(), Failure> {
        let sentence = if self.machine != machine {
            format!(
                "{} is built for another machine type than Tasuki: the shim cannot be loaded into \
                 it",
                path.display()
            )
        } else if reach == Reach::Shim && !self.dynamic {
            format!(
                "{} is a static program, into which the shim cannot get: leave --intercept and \
                 --mode at their defaults, or use a dynamically linked build of it",
                path.display()
            )
        } else {
            return Ok(());
        };
        Err(Failure::new(Code::Unsupported, sentence))
    }
}

/// Numbers in the file's byte order.
#[derive(Clone, Copy)]
struct View<'a> {
    bytes: &'a [u8],
    wide: bool,
    big: bool,
}

impl View<'_> {
    fn at(&self, offset: usize, len: usize) -> Option<u64> {
        let bytes = self.bytes.get(offset..offset + len)?;
        let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
        Some(if self.big { bytes.iter().fold(0, add) } else { bytes.iter().rev().fold(0, add) })
    }
}

/// As much as there is, up to the buffer's length.
fn read_at(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], at.saturating_add(done as u64)) {
            Ok(0) => break,
            Ok(len) => done += len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // An offset that no file can have.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => break,
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// The value of LD_PRELOAD with the shim before the libraries that are there already.
///
/// # Errors
/// [`Code::Unsupported`] when there is no shim, or the loader could not read its path.
pub(crate) fn preload() -> Result<OsString, Failure> {
    let exe = std::env::current_exe()
        .map_err(|error| Failure::system("find the path of this program", error))?;
    let shim = find_shim(&exe, std::env::var_os("TASUKI_PRELOAD").map(PathBuf::from))?;
    prepend(&shim, std::env::var_os("LD_PRELOAD").as_deref())
}

/// AddressSanitizer's options.
pub(crate) const ASAN_OPTIONS: &str = "ASAN_OPTIONS";
const LINK_ORDER: &str = "verify_asan_link_order";

/// AddressSanitizer's options for the program: those that are given, and one that lets the shim
/// stand before its library. A given value of that one stays.
pub(crate) fn asan_options(given: Option<OsString>) -> OsString {
    let mut all = given.unwrap_or_default();
    let names = |text: &[u8]| text.windows(LINK_ORDER.len()).any(|at| at == LINK_ORDER.as_bytes());
    if !names(all.as_bytes()) {
        let separator = if all.is_empty() { "" } else { ":" };
        all.push(format!("{separator}{LINK_ORDER}=0"));
    }
    all
}

fn find_shim(exe: &Path, named: Option<PathBuf>) -> Result<PathBuf, Failure> {
    const NAME: &str = "libtasuki_preload.so";
    let directory = exe.parent().unwrap_or(Path::new("/"));
    let beside = directory.join(NAME);
    let installed = directory.parent().map(|up| up.join("lib/tasuki").join(NAME));
    [Some(beside.clone()), installed.clone(), named]
        .into_iter()
        .flatten()
        .find(|path| path.is_file())
        .ok_or_else(|| {
            let installed = installed.unwrap_or_default();
            Failure::new(
                Code::Unsupported,
                format!(
                    "the shim {NAME} is neither {} nor {}: install it there, or name it with \
                     TASUKI_PRELOAD",
                    beside.display(),
                    installed.display()
                ),
            )
        })
}

fn prepend(shim: &Path, others: Option<&OsStr>) -> Result<OsString, Failure> {
    let separator = |byte: &u8| matches!(byte, b' ' | b':' | b'\t' | b'\n');
    let mut value = shim.as_os_str().to_owned();
    if value.as_bytes().iter().any(separator) {
        let sentence = format!(
            "the loader cannot read the path {} (space or colon): install Tasuki elsewhere",
            shim.display()
        );
        return Err(Failure::new(Code::Unsupported, sentence));
    }
    for other in others.iter().flat_map(|all| all.as_bytes().split(|byte| separator(byte))) {
        if !other.is_empty() && other != shim.as_os_str().as_bytes() {
            value.push(":");
            value.push(OsStr::from_bytes(other));
        }
    }
    Ok(value)
}

#[cfg(test)]
mod tests;
