//! Pointers that a program cannot mean: null, and the rest of the first page.
//!
//! The kernel answers EFAULT to any address that is not mapped. Here only the first page is
//! refused, which is never mapped (`vm.mmap_min_addr`). Any other bad pointer faults in the
//! program, as it would in an ordinary library function.

/// Bytes of the smallest page.
const PAGE: usize = 4096;

/// Does it point into the first page?
#[inline]
pub(crate) fn is_bad<T: ?Sized>(pointer: *const T) -> bool {
    pointer.addr() < PAGE
}
