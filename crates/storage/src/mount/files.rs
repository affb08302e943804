//! What the kernel sees: the file, and the directory around it if there is one.
//!
//! The methods run in the FUSE threads. What needs the disk goes to the disk's thread.

use std::ffi::OsStr;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::{FallocateFlags, OFlags};
use tokio::sync::mpsc;

use super::request::FileRequest;
use crate::disk::{Disk, DiskSize};

/// How long the kernel may believe attributes: the size can change.
const BELIEVED: Duration = Duration::from_secs(1);
/// The file's name in the directory.
const NAME: &str = "disk";
/// The file's number where the root is a directory.
const FILE: INodeNo = INodeNo(2);
/// Bytes of one request: the kernel's own bound, unless its administrator has raised it.
const MOST_BYTES: u32 = 1 << 20;
/// Requests that the kernel makes in the background at a time.
const BACKGROUND: u16 = 128;
/// The block size that programs are told.
const PREFERRED: u32 = 4096;

/// The file system.
#[derive(Debug)]
pub(super) struct DiskFiles {
    /// The root is a directory; else it is the file.
    directory: bool,
    read_only: bool,
    unmap: bool,
    size: DiskSize,
    made: SystemTime,
    access: Mutex<FileAccess>,
    requests: mpsc::Sender<FileRequest>,
}

/// Whose the file is, and who may use it.
#[derive(Debug, Clone, Copy)]
struct FileAccess {
    mode: u16,
    uid: u32,
    gid: u32,
}

impl DiskFiles {
    pub(super) fn new(
        disk: &Disk,
        directory: bool,
        read_only: bool,
        unmap: bool,
        requests: mpsc::Sender<FileRequest>,
    ) -> Self {
        let access = FileAccess {
            mode: if read_only { 0o400 } else { 0o600 },
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
        };
        Self {
            directory,
            read_only,
            unmap,
            size: disk.size(),
            made: SystemTime::now(),
            access: Mutex::new(access),
            requests,
        }
    }

    fn is_file(&self, inode: INodeNo) -> bool {
        inode == if self.directory { FILE } else { INodeNo::ROOT }
    }

    fn size(&self) -> u64 {
        self.size.bytes()
    }

    fn attributes(&self, inode: INodeNo) -> FileAttr {
        let access = *self.access.lock().unwrap_or_else(PoisonError::into_inner);
        let file = self.is_file(inode);
        let size = if file { self.size() } else { 0 };
        FileAttr {
            ino: inode,
            size,
            blocks: size / 512,
            atime: self.made,
            mtime: self.made,
            ctime: self.made,
            crtime: self.made,
            kind: if file { FileType::RegularFile } else { FileType::Directory },
            // A directory lets others in: who may reach it at all is the mount's business.
            perm: if file { access.mode } else { 0o555 },
            nlink: if file { 1 } else { 2 },
            uid: access.uid,
            gid: access.gid,
            rdev: 0,
            blksize: PREFERRED,
            flags: 0,
        }
    }

    /// Hands a request to the disk's thread. Without it the request is dropped, which answers EIO.
    fn hand_over(&self, request: FileRequest) {
        drop(self.requests.blocking_send(request));
    }
}

impl Filesystem for DiskFiles {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        for wanted in [
            // Many requests of one program at a time.
            InitFlags::FUSE_ASYNC_DIO,
            // O_TRUNC comes with open: a disk cannot be truncated, and ignores it.
            InitFlags::FUSE_ATOMIC_O_TRUNC,
            // Programs may map the file.
            InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
        ] {
            // Older kernels lack some of them.
            let _ = config.add_capabilities(wanted);
        }
        let _ = config.set_max_write(MOST_BYTES);
        let _ = config.set_max_background(BACKGROUND);
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if self.directory && parent == INodeNo::ROOT && name == NAME {
            reply.entry(&BELIEVED, &self.attributes(FILE), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        reply.attr(&BELIEVED, &self.attributes(inode));
    }

    /// Mode and owner can be changed; so can times, without effect. The size cannot.
    fn setattr(
        &self,
        _request: &Request,
        inode: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _handle: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        if !self.is_file(inode) || size.is_some_and(|size| size != self.size()) {
            return reply.error(Errno::EPERM);
        }
        {
            let mut access = self.access.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(mode) = mode {
                access.mode = u16::try_from(mode & 0o777).unwrap_or(access.mode);
            }
            access.uid = uid.unwrap_or(access.uid);
            access.gid = gid.unwrap_or(access.gid);
        }
        reply.attr(&BELIEVED, &self.attributes(inode));
    }

    fn open(&self, _request: &Request, _inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let flags = FopenFlags::FOPEN_DIRECT_IO
            | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES
            | FopenFlags::FOPEN_NOFLUSH;
        reply.opened(FileHandle(0), flags);
    }

    fn read(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.hand_over(FileRequest::Read { offset, len: size as usize, reply });
    }

    fn write(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        // The kernel leaves O_SYNC and O_DSYNC of such a file to us. O_SYNC includes O_DSYNC.
        let flags = OFlags::from_bits_retain(flags.0.cast_unsigned());
        let durable = flags.contains(OFlags::DSYNC);
        let bytes = Bytes::copy_from_slice(data);
        self.hand_over(FileRequest::Write { offset, bytes, durable, reply });
    }

    /// A descriptor is closed, maybe one of many: also when a program starts another one. That must
    /// not wait for the target, nor for writes that do: with FOPEN_NOFLUSH kernels since 5.16 do
    /// not even ask. What was written is durable after fsync, as on a block device.
    fn flush(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        _owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        reply.ok();
    }

    /// The last descriptor is closed. No program waits for this.
    fn release(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.hand_over(FileRequest::Flush { reply });
    }

    fn fsync(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        _data_only: bool,
        reply: ReplyEmpty,
    ) {
        self.hand_over(FileRequest::Flush { reply });
    }

    fn fallocate(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let mode = FallocateFlags::from_bits_retain(mode.cast_unsigned());
        let holes = mode.contains(FallocateFlags::PUNCH_HOLE);
        if self.read_only {
            return reply.error(Errno::EROFS);
        }
        if !self.unmap || !(holes || mode.contains(FallocateFlags::ZERO_RANGE)) {
            return reply.error(Errno::EOPNOTSUPP);
        }
        // Nothing is behind the end.
        let len = length.min(self.size().saturating_sub(offset));
        if len == 0 {
            return reply.ok();
        }
        self.hand_over(FileRequest::Zero { offset, len, unmap: holes, reply });
    }

    fn readdir(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let entries = [
            (INodeNo::ROOT, FileType::Directory, "."),
            (INodeNo::ROOT, FileType::Directory, ".."),
            (FILE, FileType::RegularFile, NAME),
        ];
        let first = usize::try_from(offset).unwrap_or(usize::MAX);
        for (place, (inode, kind, name)) in (1..).zip(entries).skip(first) {
            if reply.add(inode, place, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _request: &Request, _inode: INodeNo, reply: ReplyStatfs) {
        let blocks = self.size() / u64::from(PREFERRED);
        reply.statfs(blocks, 0, 0, 1, 0, PREFERRED, 255, PREFERRED);
    }
}
