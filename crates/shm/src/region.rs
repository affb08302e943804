//! One mapping of one sealed memfd.
//!
//! A region's memfd is created with its full length. It is sealed against shrinking, growing and
//! further seals before another process sees it. So no peer can take pages away under a mapping,
//! and no access inside a region raises SIGBUS. Pages are 4 KiB and are allocated when touched.
//! With [`Backing::Huge`] they are 2 MiB and all are allocated at creation, since a huge page that
//! is missing later *would* raise SIGBUS. When there are not enough huge pages the region quietly
//! has small ones.
//!
//! Other processes write into a region at any time. Therefore bytes go in and out by raw copies,
//! and no reference to them is ever made here. Single values that both sides use are atomics
//! ([`Word32`], [`Word64`]). Every offset is checked against the mapping.
//!
//! **Strict mode** ([`Region::map_strict`]) makes ownership visible to the hardware: pages of a
//! pool that this process does not own are inaccessible in its mapping (see [`crate::pool`]).

#![allow(unsafe_code)]

mod sum;

use std::fmt;
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::fs::{FallocateFlags, MemfdFlags, Mode, OFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};

use crate::layout::PAGE;
pub use sum::{checksum, fold};

use sum::ones_complement_sum;

const HUGE_PAGE: usize = 2 << 20;
/// `f_type` of hugetlbfs, statfs(2).
const HUGETLBFS_MAGIC: u64 = 0x9584_58f6;

/// Size of the pages under a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backing {
    /// 4 KiB pages, allocated when first touched.
    Small,
    /// 2 MiB pages, allocated at creation. Only for regions whose mappers trust each other not to
    /// punch holes into the memfd: a hole that cannot be filled again is a SIGBUS for the process
    /// that touches it.
    Huge,
}

impl fmt::Display for Backing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Small => "4k",
            Self::Huge => "2M",
        })
    }
}

/// The access that a mapping allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reading and writing.
    ReadWrite,
    /// Reading; every write through the mapping is refused with [`OutOfRange`].
    ReadOnly,
}

/// A range that does not lie in a region, is not aligned as its use needs, or may not be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{len} bytes at offset {offset} are not within the {region} usable bytes of the region")]
pub struct OutOfRange {
    /// First byte, from the region's start.
    pub offset: usize,
    /// Number of bytes.
    pub len: usize,
    /// Bytes with that access: the region's length, or 0 for a write to a read-only region.
    pub region: usize,
}

/// Why there is no region.
#[derive(Debug, thiserror::Error)]
pub enum RegionError {
    /// The system refused. The limits that matter are memory, RLIMIT_FSIZE and the number of
    /// mappings.
    #[error("{action} of a region of {len} bytes: {errno}")]
    System {
        /// The operation that failed.
        action: &'static str,
        /// Length of the region, bytes.
        len: usize,
        /// The system's error.
        errno: Errno,
    },
    /// The descriptor is no memfd sealed against shrinking. That is the sender's fault.
    #[error("the descriptor is not a memfd sealed against shrinking")]
    Unsealed,
    /// The memfd is shorter than announced. That is the sender's fault.
    #[error("the memfd has {have} bytes where {want} were announced")]
    TooShort {
        /// Bytes needed.
        want: usize,
        /// Bytes there are.
        have: u64,
    },
    /// Strict mode takes single 4 KiB pages away, which huge pages do not allow.
    #[error("a region on huge pages cannot be mapped in strict mode: create it with small pages")]
    StrictHuge,
}

/// One mapping of one sealed memfd in this process; unmapped on drop.
pub struct Region {
    base: NonNull<u8>,
    len: usize,
    backing: Backing,
    access: Access,
    strict: bool,
}

// SAFETY: a region is an address range; all access through it is by raw copies, by atomics, or by
// areas, which the owner table makes exclusive. Nothing in it belongs to one thread.
unsafe impl Send for Region {}
// SAFETY: as for Send; the fields never change after creation.
unsafe impl Sync for Region {}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region")
            .field("len", &self.len)
            .field("backing", &self.backing)
            .field("access", &self.access)
            .field("strict", &self.strict)
            .finish_non_exhaustive()
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: base..base + len is this region's own mapping; words, areas and rings in it hold
        // an Arc of it, so none of them is left.
        let unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "munmap of a whole mapping: {unmapped:?}");
    }
}

impl Region {
    /// A new region of `len` bytes (rounded up to whole pages), all zero, and the descriptor by
    /// which other processes map it. `name` is for people (`/proc/PID/maps`) and has at most 249
    /// bytes. If huge pages are wanted but not available, the pages are small; see
    /// [`Region::backing`].
    ///
    /// # Errors
    /// [`RegionError::System`].
    pub fn create(
        name: &str,
        len: usize,
        want: Backing,
    ) -> Result<(Arc<Self>, OwnedFd), RegionError> {
        let (region, fd) = Self::create_unsealed(name, len, want)?;
        let system = |errno| RegionError::System { action: "sealing", len, errno };
        rustix::fs::fcntl_add_seals(&fd, SealFlags::SEAL).map_err(system)?;
        Ok((region, fd))
    }

    /// As [`Region::create`], but more processes may map it for writing until
    /// [`Region::seal_writers`]. After that it can be mapped for reading only.
    ///
    /// # Errors
    /// [`RegionError::System`].
    pub fn create_unsealed(
        name: &str,
        len: usize,
        want: Backing,
    ) -> Result<(Arc<Self>, OwnedFd), RegionError> {
        if want == Backing::Huge
            && let Ok(made) = Self::create_on(name, len, Backing::Huge)
        {
            return Ok(made);
        }
        Self::create_on(name, len, Backing::Small)
    }

    /// From now on no process can map this memory for writing or write to its descriptor. Existing
    /// writable mappings stay.
    ///
    /// # Errors
    /// The system's; EPERM for a region of [`Region::create`].
    pub fn seal_writers(fd: BorrowedFd<'_>) -> Result<(), Errno> {
        rustix::fs::fcntl_add_seals(fd, SealFlags::FUTURE_WRITE | SealFlags::SEAL)
    }

    /// Another descriptor of the same memfd. It allows mappings for reading only, and cannot be
    /// written to. A process of another user that has no other descriptor cannot get one for
    /// writing out of it.
    ///
    /// # Errors
    /// The system's; ENOENT where no /proc is mounted.
    pub fn read_only(fd: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
    }

    fn create_on(
        name: &str,
        len: usize,
        backing: Backing,
    ) -> Result<(Arc<Self>, OwnedFd), RegionError> {
        let system = |action| move |errno| RegionError::System { action, len, errno };
        let (flags, unit) = match backing {
            Backing::Small => (MemfdFlags::empty(), PAGE),
            Backing::Huge => (MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB, HUGE_PAGE),
        };
        let whole = round_up(len, unit)?;
        let flags = flags | MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = rustix::fs::memfd_create(name, flags).map_err(system("memfd_create"))?;
        // By default everybody may open the memfd of a descriptor again, for writing, too.
        rustix::fs::fchmod(&fd, Mode::RUSR).map_err(system("fchmod"))?;
        rustix::fs::ftruncate(&fd, whole as u64).map_err(system("ftruncate"))?;
        // Mapping reserves huge pages or fails. Then fallocate allocates them, so that neither
        // another user of huge pages nor a cgroup's limit can make a later access fail.
        let region = Self::map_whole(fd.as_fd(), whole, backing, Access::ReadWrite, false)?;
        if backing == Backing::Huge {
            rustix::fs::fallocate(&fd, FallocateFlags::empty(), 0, whole as u64)
                .map_err(system("allocation of huge pages"))?;
        }
        let seals = SealFlags::SHRINK | SealFlags::GROW;
        rustix::fs::fcntl_add_seals(&fd, seals).map_err(system("sealing"))?;
        Ok((Arc::new(region), fd))
    }

    /// Maps the first `len` bytes (rounded up to whole pages) of another's region.
    ///
    /// # Errors
    /// [`RegionError::Unsealed`] and [`RegionError::TooShort`] for a descriptor that no supervisor
    /// sends; [`RegionError::System`].
    pub fn map(fd: BorrowedFd<'_>, len: usize, access: Access) -> Result<Arc<Self>, RegionError> {
        let (whole, backing) = Self::inspect(fd, len)?;
        Self::map_whole(fd, whole, backing, access, false).map(Arc::new)
    }

    /// As [`Region::map`] with [`Access::ReadWrite`], in strict mode. As soon as a pool is
    /// attached, this mapping allows access to those pages of the pool that its owner holds, and to
    /// no others. The first access to pages handed over is a SIGSEGV.
    ///
    /// # Errors
    /// As [`Region::map`], and [`RegionError::StrictHuge`].
    pub fn map_strict(fd: BorrowedFd<'_>, len: usize) -> Result<Arc<Self>, RegionError> {
        let (whole, backing) = Self::inspect(fd, len)?;
        if backing == Backing::Huge {
            return Err(RegionError::StrictHuge);
        }
        Self::map_whole(fd, whole, backing, Access::ReadWrite, true).map(Arc::new)
    }

    /// Checks a received descriptor. Returns the length to map and the size of its pages.
    fn inspect(fd: BorrowedFd<'_>, len: usize) -> Result<(usize, Backing), RegionError> {
        let system = |action| move |errno| RegionError::System { action, len, errno };
        let seals = rustix::fs::fcntl_get_seals(fd).map_err(|_| RegionError::Unsealed)?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(RegionError::Unsealed);
        }
        let kind = rustix::fs::fstatfs(fd).map_err(system("fstatfs"))?;
        let (backing, unit) = if kind.f_type as u64 & 0xffff_ffff == HUGETLBFS_MAGIC {
            (Backing::Huge, usize::try_from(kind.f_bsize).unwrap_or(HUGE_PAGE).max(PAGE))
        } else {
            (Backing::Small, PAGE)
        };
        let whole = round_up(len, unit)?;
        let stat = rustix::fs::fstat(fd).map_err(system("fstat"))?;
        let have = u64::try_from(stat.st_size).unwrap_or(0);
        if have < whole as u64 {
            return Err(RegionError::TooShort { want: whole, have });
        }
        Ok((whole, backing))
    }

    fn map_whole(
        fd: BorrowedFd<'_>,
        len: usize,
        backing: Backing,
        access: Access,
        strict: bool,
    ) -> Result<Self, RegionError> {
        let prot = match access {
            Access::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
            Access::ReadOnly => ProtFlags::READ,
        };
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
        let mapped =
            unsafe { rustix::mm::mmap(ptr::null_mut(), len, prot, MapFlags::SHARED, fd, 0) };
        let refused = |errno| RegionError::System { action: "mmap", len, errno };
        let base: NonNull<u8> =
            NonNull::new(mapped.map_err(refused)?.cast()).ok_or(refused(Errno::INVAL))?;
        // A core dump would read, and so allocate, every page that nobody has touched.
        // SAFETY: the new mapping; the advice changes no memory.
        let _ = unsafe { rustix::mm::madvise(base.as_ptr().cast(), len, Advice::LinuxDontDump) };
        Ok(Self { base, len, backing, access, strict })
    }

    /// Length in bytes, whole pages.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Always false: no region is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Size of the pages it really has.
    #[must_use]
    pub fn backing(&self) -> Backing {
        self.backing
    }

    /// The access that this mapping allows.
    #[must_use]
    pub fn access(&self) -> Access {
        self.access
    }

    /// Is this a mapping in strict mode?
    #[must_use]
    pub fn is_strict(&self) -> bool {
        self.strict
    }

    /// The 32-bit atomic at `offset`.
    ///
    /// # Errors
    /// [`OutOfRange`] when it is not inside, not 4-byte aligned, or the region is mapped read-only.
    pub fn word32(self: &Arc<Self>, offset: usize) -> Result<Word32, OutOfRange> {
        let at = self.aligned(offset, 4, 4)?;
        Ok(Word32 { at: at.cast(), region: Arc::clone(self) })
    }

    /// The 64-bit atomic at `offset`.
    ///
    /// # Errors
    /// [`OutOfRange`] when it is not inside, not 8-byte aligned, or the region is mapped read-only.
    pub fn word64(self: &Arc<Self>, offset: usize) -> Result<Word64, OutOfRange> {
        let at = self.aligned(offset, 8, 8)?;
        Ok(Word64 { at: at.cast(), region: Arc::clone(self) })
    }

    /// Copies bytes out of the region. Peers may be writing them, so the copy may mix old and new
    /// bytes. Once made, the copy does not change any more.
    ///
    /// # Errors
    /// [`OutOfRange`]; nothing is copied then.
    pub fn read(&self, offset: usize, into: &mut [u8]) -> Result<(), OutOfRange> {
        let from = self.inside(offset, into.len())?;
        // SAFETY: `from` is valid for that many bytes while the region lives; `into` is private
        // memory, so the two do not overlap.
        unsafe { copy(from.as_ptr(), into.as_mut_ptr(), into.len()) };
        Ok(())
    }

    /// A private copy of `N` bytes, as [`Region::read`].
    ///
    /// # Errors
    /// [`OutOfRange`].
    #[inline]
    pub(crate) fn array<const N: usize>(&self, offset: usize) -> Result<[u8; N], OutOfRange> {
        let from = self.inside(offset, N)?;
        // SAFETY: `from` is valid for that many bytes while the region lives.
        Ok(unsafe { copy_array(from.as_ptr()) })
    }

    /// Copies bytes into the region.
    ///
    /// # Errors
    /// [`OutOfRange`], also when the region is mapped read-only; nothing is copied then.
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<(), OutOfRange> {
        let into = self.writable(offset, from.len())?;
        // SAFETY: `into` is valid for that many bytes while the region lives and is mapped
        // writable; `from` is private memory, so the two do not overlap.
        unsafe { copy(from.as_ptr(), into.as_ptr(), from.len()) };
        Ok(())
    }

    /// Copies bytes of this region to the offset `at` of another one. Peers may be writing them, as
    /// with [`Region::read`].
    ///
    /// # Errors
    /// [`OutOfRange`], also when the other region is mapped read-only; nothing is copied then.
    pub fn copy_to(
        &self,
        offset: usize,
        len: usize,
        into: &Region,
        at: usize,
    ) -> Result<(), OutOfRange> {
        let from = self.inside(offset, len)?;
        if ptr::eq(self, into) {
            return Err(OutOfRange { offset: at, len, region: 0 });
        }
        let into = into.writable(at, len)?;
        // SAFETY: both are valid for that many bytes while their regions live, `into` is mapped
        // writable, and two mappings do not overlap.
        unsafe { copy(from.as_ptr(), into.as_ptr(), len) };
        Ok(())
    }

    /// The one's complement sum (RFC 1071) of bytes in the region, folded to 16 bits and not
    /// inverted. Bytes are taken in network order, as if the first stood on an even offset.
    ///
    /// # Errors
    /// [`OutOfRange`].
    pub fn checksum(&self, offset: usize, len: usize) -> Result<u16, OutOfRange> {
        let from = self.inside(offset, len)?;
        // SAFETY: `from` is valid for `len` bytes while the region lives.
        Ok(unsafe { ones_complement_sum(from.as_ptr(), len) })
    }

    /// Address of bytes in this process, for system calls that read or write them in place. The
    /// caller must know the allowed access: a read-only mapping cannot be written. The pointer is
    /// good as long as the region lives.
    ///
    /// # Errors
    /// [`OutOfRange`].
    pub fn as_ptr(&self, offset: usize, len: usize) -> Result<*mut u8, OutOfRange> {
        self.inside(offset, len).map(NonNull::as_ptr)
    }

    /// The pointer to `len` bytes at `offset`, which are all inside.
    pub(crate) fn inside(&self, offset: usize, len: usize) -> Result<NonNull<u8>, OutOfRange> {
        match offset.checked_add(len) {
            // SAFETY: offset <= end <= self.len, so the result is inside of the mapping or at its
            // end.
            Some(end) if end <= self.len => Ok(unsafe { self.base.add(offset) }),
            _ => Err(OutOfRange { offset, len, region: self.len }),
        }
    }

    fn writable(&self, offset: usize, len: usize) -> Result<NonNull<u8>, OutOfRange> {
        match self.access {
            Access::ReadWrite => self.inside(offset, len),
            Access::ReadOnly => Err(OutOfRange { offset, len, region: 0 }),
        }
    }

    /// As [`Region::inside`], for writing, at an offset that `align` divides. Mappings start on a
    /// page, so the pointer is aligned as the offset is, up to [`PAGE`].
    pub(crate) fn aligned(
        &self,
        offset: usize,
        len: usize,
        align: usize,
    ) -> Result<NonNull<u8>, OutOfRange> {
        if offset.is_multiple_of(align) {
            self.writable(offset, len)
        } else {
            Err(OutOfRange { offset, len, region: self.len })
        }
    }

    /// In strict mode, allows or forbids access to whole pages; otherwise nothing.
    pub(crate) fn protect(
        &self,
        offset: usize,
        len: usize,
        allow: PageAccess,
    ) -> Result<(), Errno> {
        if !self.strict || len == 0 {
            return Ok(());
        }
        let at = self.inside(offset, len).map_err(|_| Errno::INVAL)?;
        let prot = match allow {
            PageAccess::Nothing => MprotectFlags::empty(),
            PageAccess::Reading => MprotectFlags::READ,
            PageAccess::All => MprotectFlags::READ | MprotectFlags::WRITE,
        };
        // SAFETY: the range is inside of this region's own mapping. References into it exist only
        // from areas; the pool calls this with `Nothing` or `Reading` only where no area value is
        // left.
        unsafe { rustix::mm::mprotect(at.as_ptr().cast(), len, prot) }
    }
}

/// The access to pages that strict mode gives this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageAccess {
    Nothing,
    Reading,
    All,
}

fn round_up(len: usize, unit: usize) -> Result<usize, RegionError> {
    len.max(1)
        .checked_next_multiple_of(unit)
        .filter(|whole| isize::try_from(*whole).is_ok())
        .ok_or(RegionError::System { action: "rounding to pages", len, errno: Errno::OVERFLOW })
}

/// Bytes that memcpy copies by itself, and not by `rep movsb`. glibc takes that for more than
/// 2,112, where the processor says that it is fast.
const PIECE: usize = 2048;
/// Some processors of AMD are slow at `rep movsb` where the destination lies 1 to 31 bytes behind
/// the source, but for whole pages (docs/log/2026-11-26-large-receives.md). With some room.
const NEAR: usize = 64;

/// Copies between private and shared memory. Never inlined, so that the compiler cannot see both
/// sides and read the shared bytes a second time in place of the copy.
///
/// # Safety
/// `from` and `into` are valid for `len` bytes and do not overlap.
#[inline(never)]
unsafe fn copy(from: *const u8, into: *mut u8, len: usize) {
    let behind = into.addr().wrapping_sub(from.addr()) % PAGE;
    if len > PIECE && (1..NEAR).contains(&behind) {
        // SAFETY: passed on to the caller.
        return unsafe { copy_in_pieces(from, into, len) };
    }
    // SAFETY: passed on to the caller. A peer that writes at the same time makes the bytes
    // arbitrary, not the access invalid.
    unsafe { ptr::copy_nonoverlapping(from, into, len) }
}

/// As [`copy`], which is short so that other copies cost no more than memcpy.
///
/// # Safety
/// As there.
#[inline(never)]
unsafe fn copy_in_pieces(from: *const u8, into: *mut u8, len: usize) {
    for at in (0..len).step_by(PIECE) {
        let (from, into) = (from.wrapping_add(at), into.wrapping_add(at));
        // SAFETY: the piece ends at `len` at most; the rest is passed on to the caller.
        unsafe { ptr::copy_nonoverlapping(from, into, PIECE.min(len - at)) };
    }
}

/// A private copy of `N` bytes. Never inlined, for the reason that [`copy`] is not.
///
/// # Safety
/// `from` is valid for reads of `N` bytes.
#[inline(never)]
unsafe fn copy_array<const N: usize>(from: *const u8) -> [u8; N] {
    // SAFETY: passed on to the caller; an array of bytes needs no alignment and has any value.
    unsafe { from.cast::<[u8; N]>().read() }
}

macro_rules! word {
    ($(#[$doc:meta])* $name:ident, $atomic:ty) => {
        $(#[$doc])*
        #[derive(Clone)]
        pub struct $name {
            at: NonNull<$atomic>,
            region: Arc<Region>,
        }

        // SAFETY: an address in a region, which is Send and Sync, used as an atomic only.
        unsafe impl Send for $name {}
        // SAFETY: as for Send.
        unsafe impl Sync for $name {}

        impl $name {
            /// The region that it lies in.
            #[must_use]
            pub fn region(&self) -> &Arc<Region> {
                &self.region
            }
        }

        impl Deref for $name {
            type Target = $atomic;

            fn deref(&self) -> &$atomic {
                // SAFETY: `at` was checked to be inside and aligned, and the region is mapped for
                // writing and lives as long as `self`. All processes use these bytes as an atomic.
                unsafe { self.at.as_ref() }
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&**self, f)
            }
        }
    };
}

word!(
    /// A 32-bit atomic in a region, which it keeps mapped.
    Word32,
    AtomicU32
);
word!(
    /// A 64-bit atomic in a region, which it keeps mapped.
    Word64,
    AtomicU64
);

#[cfg(test)]
mod tests;
