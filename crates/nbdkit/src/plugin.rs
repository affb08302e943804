//! The table of functions that nbdkit calls, after version 2 of nbdkit-plugin.h.
//!
//! Each function turns nbdkit's pointers into slices and values, calls the safe half of this
//! library, and tells a failure by nbdkit_error and nbdkit_set_error. No panic goes to nbdkit: it
//! is told as a failure of this library.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, OsStr, c_char, c_void};
use std::io::Write as _;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

use libc::c_int;

use crate::connection::{Connection, RequestFlags};
use crate::failure::PluginError;
use crate::nbdkit;
use crate::parameters::{self, MAGIC_KEY};
use crate::state;

/// `NBDKIT_API_VERSION`, `NBDKIT_THREAD_MODEL_PARALLEL`, `NBDKIT_FUA_NATIVE`.
const API_VERSION: c_int = 2;
const PARALLEL: c_int = 3;
const FUA_NATIVE: c_int = 2;
/// `NBDKIT_FLAG_MAY_TRIM`, `NBDKIT_FLAG_FUA`, `NBDKIT_FLAG_FAST_ZERO`.
const MAY_TRIM: u32 = 1;
const FUA: u32 = 2;
const FAST_ZERO: u32 = 8;

/// A function of a connection that answers with a number.
type Ask = unsafe extern "C" fn(*mut c_void) -> c_int;
/// One that changes bytes: how many, from where, flags.
type Change = unsafe extern "C" fn(*mut c_void, u32, u64, u32) -> c_int;
/// One of the process.
type Step = extern "C" fn() -> c_int;
/// Least, preferred and most bytes of a request: nbdkit gives three places for numbers.
type BlockSize = unsafe extern "C" fn(
    *mut c_void,
    &mut MaybeUninit<u32>,
    &mut MaybeUninit<u32>,
    &mut MaybeUninit<u32>,
) -> c_int;
/// One that this library does not have.
type Absent = Option<extern "C" fn()>;

/// `struct nbdkit_plugin`. nbdkit takes as much of it as it knows, by its size.
#[repr(C)]
struct PluginTable {
    struct_size: u64,
    api_version: c_int,
    thread_model: c_int,
    name: *const c_char,
    longname: *const c_char,
    version: *const c_char,
    description: *const c_char,
    load: Absent,
    unload: Absent,
    config: unsafe extern "C" fn(*const c_char, *const c_char) -> c_int,
    config_complete: Step,
    config_help: *const c_char,
    open: extern "C" fn(c_int) -> *mut c_void,
    close: unsafe extern "C" fn(*mut c_void),
    get_size: unsafe extern "C" fn(*mut c_void) -> i64,
    can_write: Ask,
    can_flush: Absent,
    is_rotational: Absent,
    can_trim: Ask,
    of_version_1: [Absent; 5],
    errno_is_preserved: c_int,
    dump_plugin: extern "C" fn(),
    can_zero: Absent,
    can_fua: Ask,
    pread: unsafe extern "C" fn(*mut c_void, *mut c_void, u32, u64, u32) -> c_int,
    pwrite: unsafe extern "C" fn(*mut c_void, *const c_void, u32, u64, u32) -> c_int,
    flush: unsafe extern "C" fn(*mut c_void, u32) -> c_int,
    trim: Change,
    zero: Change,
    magic_config_key: *const c_char,
    can_multi_conn: Ask,
    can_extents: Absent,
    extents: unsafe extern "C" fn(*mut c_void, u32, u64, u32, *mut c_void) -> c_int,
    can_cache: Absent,
    cache: Absent,
    thread_model_now: Absent,
    can_fast_zero: Ask,
    preconnect: Absent,
    get_ready: Step,
    after_fork: Step,
    list_exports: Absent,
    default_export: Absent,
    export_description: Absent,
    cleanup: extern "C" fn(),
    block_size: BlockSize,
}

// SAFETY: its pointers lead to constants and to text that is never freed.
unsafe impl Send for PluginTable {}
// SAFETY: as above; and it is never written to.
unsafe impl Sync for PluginTable {}

static TABLE: OnceLock<PluginTable> = OnceLock::new();

/// nbdkit looks this function up, and calls it first.
#[unsafe(no_mangle)]
extern "C" fn plugin_init() -> *const PluginTable {
    TABLE.get_or_init(|| PluginTable {
        struct_size: size_of::<PluginTable>() as u64,
        api_version: API_VERSION,
        thread_model: PARALLEL,
        name: c"tasuki".as_ptr(),
        longname: c"nbdkit tasuki plugin".as_ptr(),
        version: for_ever(env!("CARGO_PKG_VERSION")),
        description: c"Units of iSCSI targets, by Tasuki: sealed, TLS or plain".as_ptr(),
        load: None,
        unload: None,
        config,
        config_complete,
        config_help: for_ever(&parameters::help()),
        open,
        close,
        get_size,
        can_write,
        can_flush: None,
        is_rotational: None,
        can_trim,
        of_version_1: [None; 5],
        errno_is_preserved: 0,
        dump_plugin,
        can_zero: None,
        can_fua,
        pread,
        pwrite,
        flush,
        trim,
        zero,
        magic_config_key: MAGIC_KEY.as_ptr(),
        can_multi_conn,
        can_extents: None,
        extents,
        can_cache: None,
        cache: None,
        thread_model_now: None,
        can_fast_zero,
        preconnect: None,
        get_ready,
        after_fork,
        list_exports: None,
        default_export: None,
        export_description: None,
        cleanup,
        block_size,
    })
}

/// Text for nbdkit, which it may read until the process ends.
fn for_ever(text: &str) -> *const c_char {
    CString::new(text).map_or(null(), |text| text.into_raw().cast_const())
}

/// Does a callback's work, and tells its failure.
fn told<T>(failed: T, work: impl FnOnce() -> Result<T, PluginError>) -> T {
    let done = catch_unwind(AssertUnwindSafe(work));
    let error = match done {
        Ok(Ok(result)) => return result,
        Ok(Err(error)) => error,
        Err(_) => PluginError::new(libc::EIO, "the plug-in has a fault of its own (a panic)"),
    };
    match error.errno {
        // nbdkit writes zeroes by itself then.
        libc::EOPNOTSUPP => nbdkit::debug(&error.sentence),
        _ => nbdkit::error(&error.sentence),
    }
    nbdkit::set_error(error.errno);
    failed
}

/// As [`told`], for a callback without a result of its own.
fn done(work: impl FnOnce() -> Result<(), PluginError>) -> c_int {
    told(-1, || work().map(|()| 0))
}

/// The connection of a handle.
///
/// # Safety
/// The handle is one of [`open`]'s that has not been closed.
unsafe fn connection<'a>(handle: *mut c_void) -> &'a Connection {
    // SAFETY: it is a connection, and is only shared until it is closed.
    unsafe { &*handle.cast::<Connection>() }
}

fn request_flags(flags: u32) -> RequestFlags {
    RequestFlags {
        durable: flags & FUA != 0,
        may_trim: flags & MAY_TRIM != 0,
        fast: flags & FAST_ZERO != 0,
    }
}

unsafe extern "C" fn config(key: *const c_char, value: *const c_char) -> c_int {
    // SAFETY: nbdkit gives a string, which lives until the call returns.
    let key = unsafe { CStr::from_ptr(key) };
    // SAFETY: as above.
    let value = unsafe { CStr::from_ptr(value) };
    done(|| state::config(&key.to_string_lossy(), OsStr::from_bytes(value.to_bytes())))
}

extern "C" fn config_complete() -> c_int {
    done(state::config_complete)
}

extern "C" fn get_ready() -> c_int {
    done(state::get_ready)
}

extern "C" fn after_fork() -> c_int {
    done(state::after_fork)
}

extern "C" fn cleanup() {
    let _ = done(|| {
        state::cleanup();
        Ok(())
    });
}

extern "C" fn dump_plugin() {
    // Standard output may be closed.
    let _ = writeln!(std::io::stdout(), "tasuki_transports=plain,tls,sealed\ntasuki_luks=yes");
}

extern "C" fn open(_read_only: c_int) -> *mut c_void {
    told(null_mut(), || Ok(Box::into_raw(Box::new(state::open()?)).cast()))
}

unsafe extern "C" fn close(handle: *mut c_void) {
    // SAFETY: nbdkit closes a handle of `open` once, when none of its other calls runs.
    drop(unsafe { Box::from_raw(handle.cast::<Connection>()) });
}

unsafe extern "C" fn get_size(handle: *mut c_void) -> i64 {
    // SAFETY: nbdkit gives a handle that is open.
    let connection = unsafe { connection(handle) };
    i64::try_from(connection.size()).unwrap_or(i64::MAX)
}

unsafe extern "C" fn block_size(
    handle: *mut c_void,
    least: &mut MaybeUninit<u32>,
    preferred: &mut MaybeUninit<u32>,
    most: &mut MaybeUninit<u32>,
) -> c_int {
    // SAFETY: nbdkit gives a handle that is open.
    let sizes = unsafe { connection(handle) }.block_sizes();
    least.write(sizes.0);
    preferred.write(sizes.1);
    most.write(sizes.2);
    0
}

unsafe extern "C" fn can_write(handle: *mut c_void) -> c_int {
    // SAFETY: nbdkit gives a handle that is open.
    c_int::from(!unsafe { connection(handle) }.is_read_only())
}

unsafe extern "C" fn can_trim(handle: *mut c_void) -> c_int {
    // SAFETY: nbdkit gives a handle that is open.
    c_int::from(unsafe { connection(handle) }.can_trim())
}

unsafe extern "C" fn can_fast_zero(handle: *mut c_void) -> c_int {
    // SAFETY: nbdkit gives a handle that is open.
    c_int::from(unsafe { connection(handle) }.can_zero_fast())
}

/// One disk does what all connections ask for.
unsafe extern "C" fn can_multi_conn(_handle: *mut c_void) -> c_int {
    1
}

unsafe extern "C" fn can_fua(_handle: *mut c_void) -> c_int {
    FUA_NATIVE
}

unsafe extern "C" fn pread(
    handle: *mut c_void,
    into: *mut c_void,
    count: u32,
    offset: u64,
    _flags: u32,
) -> c_int {
    // SAFETY: nbdkit gives a handle that is open.
    let connection = unsafe { connection(handle) };
    done(|| {
        let bytes = connection.read(offset, count as usize)?;
        let into = into.cast::<u8>();
        // SAFETY: nbdkit gives memory for `count` bytes, so many as there are, for this call alone.
        unsafe { into.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(())
    })
}

unsafe extern "C" fn pwrite(
    handle: *mut c_void,
    bytes: *const c_void,
    count: u32,
    offset: u64,
    flags: u32,
) -> c_int {
    // SAFETY: nbdkit gives a handle that is open.
    let connection = unsafe { connection(handle) };
    // SAFETY: nbdkit gives `count` bytes, which do not change during this call.
    let bytes = unsafe { std::slice::from_raw_parts(bytes.cast(), count as usize) };
    done(|| connection.write(bytes, offset, request_flags(flags)))
}

unsafe extern "C" fn flush(handle: *mut c_void, _flags: u32) -> c_int {
    // SAFETY: nbdkit gives a handle that is open.
    let connection = unsafe { connection(handle) };
    done(|| connection.flush())
}

unsafe extern "C" fn trim(handle: *mut c_void, count: u32, offset: u64, flags: u32) -> c_int {
    // SAFETY: nbdkit gives a handle that is open.
    let connection = unsafe { connection(handle) };
    done(|| connection.trim(offset, count.into(), request_flags(flags)))
}

unsafe extern "C" fn zero(handle: *mut c_void, count: u32, offset: u64, flags: u32) -> c_int {
    // SAFETY: nbdkit gives a handle that is open.
    let connection = unsafe { connection(handle) };
    done(|| connection.zero(offset, count.into(), request_flags(flags)))
}

unsafe extern "C" fn extents(
    handle: *mut c_void,
    count: u32,
    offset: u64,
    _flags: u32,
    into: *mut c_void,
) -> c_int {
    // SAFETY: nbdkit gives a handle that is open.
    let connection = unsafe { connection(handle) };
    done(|| {
        let mut at = offset;
        for extent in connection.extents(offset, count.into())? {
            let kind = if extent.allocated { 0 } else { nbdkit::HOLE };
            if !nbdkit::add_extent(into, at, extent.len, kind) {
                return Err(PluginError::new(libc::ENOMEM, "nbdkit takes no more extents"));
            }
            at += extent.len;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_as_the_header_has_it() {
        // Of a C compiler with nbdkit-plugin.h 1.32 on a 64-bit machine.
        assert_eq!(std::mem::offset_of!(PluginTable, config_help), SIZES[0]);
        assert_eq!(std::mem::offset_of!(PluginTable, pread), SIZES[1]);
        assert_eq!(std::mem::offset_of!(PluginTable, block_size), SIZES[2]);
        assert_eq!(size_of::<PluginTable>(), SIZES[3]);
    }

    const SIZES: [usize; 4] = [80, 216, 376, 384];

    #[test]
    fn failures_and_panics_are_told() {
        let failed = || Err(PluginError::new(libc::ENOSPC, "it is full"));
        assert_eq!(done(failed), -1);
        assert_eq!(nbdkit::told(), ["error: it is full", &format!("errno: {}", libc::ENOSPC)]);
        let absent = || Err(PluginError::new(libc::EOPNOTSUPP, "it cannot"));
        assert_eq!(done(absent), -1);
        assert_eq!(nbdkit::told(), ["debug: it cannot", &format!("errno: {}", libc::EOPNOTSUPP)]);
        assert_eq!(told(7, || panic!("on purpose")), 7);
        assert!(nbdkit::told()[0].contains("a fault of its own"));
        assert_eq!(done(|| Ok(())), 0);
        assert!(nbdkit::told().is_empty());
    }

    #[test]
    fn a_connection_needs_a_start() {
        assert!(open(0).is_null());
        assert!(nbdkit::told()[0].contains("not made the unit ready"));
    }

    /// Standard input is a client's here.
    #[test]
    fn a_passphrase_is_not_read_from_a_client() {
        let unit = c"iscsi://10.9.0.2/iqn.2026-11.tasuki:a/0";
        for (key, value) in [(c"uri", unit), (c"luks", c"true"), (c"key-file", c"-")] {
            // SAFETY: two constants.
            assert_eq!(unsafe { config(key.as_ptr(), value.as_ptr()) }, 0);
        }
        assert_eq!(config_complete(), -1);
        assert!(nbdkit::told()[0].contains("key-file=-"));
        assert_eq!(get_ready(), -1);
    }
}
