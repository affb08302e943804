//! Pointers of the program that lead to no memory: EFAULT, as the kernel answers.
//!
//! The kernel finds out while it copies. Here a fault would end the program, and a handler for it
//! is the program's to have. So the pages are asked for before: by a system call that reads or
//! writes there and changes nothing. Pages that were good are remembered, and programs use the same
//! buffers again and again, so nearly always one load says that all is well.
//!
//! * Of what is sent, the first and the last page are looked at; of what is received into, the
//!   first, since a program may announce more room than it has.
//! * Below valgrind nothing is asked for: it looks at every access itself, and would report the
//!   asking.
//! * munmap(2) and mprotect(2) pass through here, and what is remembered is then forgotten. Memory
//!   that loses its rights in another way is taken for good once more.

#![allow(unsafe_code)]

use core::ffi::{CStr, c_int, c_long, c_void};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::{errno, real};

/// Bytes of the smallest page.
const PAGE_BITS: u32 = 12;
/// Pages that are remembered.
const PAGES: usize = 256;
/// In an entry: the page may be written to.
const WRITABLE: u64 = 1;
/// The bits above it are the number of the memory's last change, and then the page's number.
const CHANGE_BITS: u32 = 16;

static GOOD: [AtomicU64; PAGES] = [const { AtomicU64::new(0) }; PAGES];
/// Changes of the memory, in the place that they have in an entry. Not 0, which no entry has.
static CHANGES: AtomicU64 = AtomicU64::new(WRITABLE << 1);

/// Can `len` bytes be read, as far as their first and last page say?
#[inline]
pub(crate) fn can_read<T: ?Sized>(pointer: *const T, len: usize) -> bool {
    let first = pointer.addr();
    let Some(more) = len.checked_sub(1) else { return true };
    let Some(last) = first.checked_add(more) else { return false };
    is_good(first, 0) && (first >> PAGE_BITS == last >> PAGE_BITS || is_good(last, 0))
}

/// Can the first byte be written?
#[inline]
pub(crate) fn can_write<T: ?Sized>(pointer: *const T) -> bool {
    is_good(pointer.addr(), WRITABLE)
}

/// Can a whole value be written, as far as its first and last page say? What can be written can be
/// read as well.
pub(crate) fn can_fill<T>(pointer: *const T) -> bool {
    let last = pointer.addr().checked_add(size_of::<T>().saturating_sub(1));
    can_write(pointer) && last.is_some_and(|last| is_good(last, WRITABLE))
}

#[inline]
fn is_good(address: usize, access: u64) -> bool {
    let page = address >> PAGE_BITS;
    let change = CHANGES.load(Ordering::Relaxed) & ((1 << CHANGE_BITS) - 1);
    let entry = (page as u64) << CHANGE_BITS | change;
    let place = &GOOD[page % PAGES];
    let found = place.load(Ordering::Relaxed);
    if found == entry | WRITABLE || found == entry | access {
        return true;
    }
    let good = ask(address, access);
    if good {
        place.store(entry | access, Ordering::Relaxed);
    }
    good
}

/// Asks the kernel. No program has the first page, and to the calls below null means no memory.
#[cold]
fn ask(address: usize, access: u64) -> bool {
    if address >> PAGE_BITS == 0 {
        return false;
    }
    if is_checked() {
        return true;
    }
    let number = errno::number();
    let done = if access == WRITABLE { write_nothing(address) } else { read_word(address) };
    let good = done == 0 || errno::number() != libc::EFAULT;
    errno::set_number(number);
    good
}

/// Does valgrind look at each access? It loads its libraries by LD_PRELOAD.
fn is_checked() -> bool {
    // SAFETY: a C string; as each use of the environment, it relies on the program not to change it
    // in another thread meanwhile.
    let preloaded = unsafe { libc::getenv(c"LD_PRELOAD".as_ptr()) };
    // SAFETY: the C library gives null or a C string.
    let preloaded = (!preloaded.is_null()).then(|| unsafe { CStr::from_ptr(preloaded) });
    preloaded.is_some_and(|list| memchr::memmem::find(list.to_bytes(), b"vgpreload_").is_some())
}

/// rt_sigprocmask(2) reads its set, and then finds that it is to do nothing known.
fn read_word(address: usize) -> c_long {
    let set = (address & !7).cast_signed() as c_long;
    // SAFETY: the call changes nothing; it judges the address.
    unsafe { real::syscall(libc::SYS_rt_sigprocmask, -1, set, 0, 8, 0, 0) }
}

/// FUTEX_WAKE_OP: "or 0" to a word, and wakes nobody, for none waits there.
fn write_nothing(address: usize) -> c_long {
    const OR_NOTHING: c_long = (libc::FUTEX_OP_OR as c_long) << 28;
    static NOBODY: AtomicU32 = AtomicU32::new(0);
    let (word, nobody) = ((address & !3).cast_signed() as c_long, NOBODY.as_ptr() as c_long);
    let operation = c_long::from(libc::FUTEX_WAKE_OP | libc::FUTEX_PRIVATE_FLAG);
    // SAFETY: the call leaves every bit as it is; it judges the address.
    unsafe { real::syscall(libc::SYS_futex, nobody, operation, 0, 0, word, OR_NOTHING) }
}

/// The program changes its memory.
fn changes() {
    CHANGES.fetch_add(WRITABLE << 1, Ordering::Relaxed);
}

// These two may be called before this library is ready, by allocators that begin. Then they are
// system calls: looking for the C library's own function may allocate.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn munmap(place: *mut c_void, len: usize) -> c_int {
    changes();
    if real::is_resolved() {
        // SAFETY: passed on from the program.
        return unsafe { real::munmap(place, len) };
    }
    // SAFETY: as above.
    done(unsafe { rustix::mm::munmap(place, len) })
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn mprotect(place: *mut c_void, len: usize, access: c_int) -> c_int {
    changes();
    if real::is_resolved() {
        // SAFETY: passed on from the program.
        return unsafe { real::mprotect(place, len, access) };
    }
    let flags = rustix::mm::MprotectFlags::from_bits_retain(access.cast_unsigned());
    // SAFETY: as above.
    done(unsafe { rustix::mm::mprotect(place, len, flags) })
}

fn done(outcome: rustix::io::Result<()>) -> c_int {
    match outcome {
        Ok(()) => 0,
        Err(errno) => {
            errno::set(errno);
            -1
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous};

    use super::*;

    #[test]
    fn memory_is_asked_for_and_left_as_it_is() {
        let nowhere = core::ptr::without_provenance::<u8>;
        for address in [0, 7, 8, 4095] {
            assert!(!can_read(nowhere(address), 1) && !can_write(nowhere(address)), "{address}");
        }
        assert!(can_read(nowhere(8), 0), "nothing is read");
        assert!(!can_read(nowhere(usize::MAX - 4), 1) && !can_read(nowhere(usize::MAX), 9));
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let len = 2 << PAGE_BITS;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let place =
            unsafe { mmap_anonymous(core::ptr::null_mut(), len, access, MapFlags::PRIVATE) };
        let place: *mut u8 = place.unwrap().cast();
        // SAFETY: mapped above.
        unsafe { place.write(7) };
        assert!(can_write(place) && can_read(place, len) && !can_read(place, len + 1));
        // SAFETY: mapped above, and nothing else uses it.
        assert_eq!(unsafe { mprotect(place.cast(), len, libc::PROT_READ) }, 0);
        assert!(!can_write(place) && can_read(place, len));
        // SAFETY: as above.
        unsafe { rustix::mm::mprotect(place.cast(), len, MprotectFlags::empty()) }.unwrap();
        assert!(can_read(place, len), "it passed by, and is not known");
        // SAFETY: as above.
        assert_eq!(unsafe { mprotect(place.cast(), 1 << PAGE_BITS, libc::PROT_READ) }, 0);
        assert!(can_read(place, 1) && !can_read(place, len));
        // SAFETY: readable.
        assert_eq!(unsafe { place.read() }, 7);
        // SAFETY: as above.
        assert_eq!(unsafe { munmap(place.cast(), len) }, 0);
        assert!(!can_read(place, 1));
    }
}
