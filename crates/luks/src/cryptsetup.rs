//! libcryptsetup, loaded when it is first needed: a machine without encrypted disks need not have
//! it, and building takes no header files.
//!
//! [`CryptDevice`] is the library's handle on a header in a file. The library is called by one
//! thread at a time. It talks to a callback; the last message of an error becomes ours.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::{NonNull, null, null_mut};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use libloading::Library;
use zeroize::Zeroizing;

use crate::error::LuksError;
use crate::secret::Passphrase;

/// The file of the interface that has stood since version 2.0.
const LIBRARY: &str = "libcryptsetup.so.12";
/// Any key slot, or the first free one.
const ANY_SLOT: c_int = -1;
/// Values of the library's `crypt_keyslot_info` for slots in use.
const ACTIVE: std::ops::RangeInclusive<c_int> = 2..=3;
/// The library's `CRYPT_PBKDF_NO_BENCHMARK`.
const NO_BENCHMARK: u32 = 2;
/// The level of messages about errors.
const LOG_ERROR: c_int = 1;

/// The library's `struct crypt_device`.
#[repr(C)]
struct RawDevice {
    _opaque: [u8; 0],
}

/// The library's `struct crypt_params_luks2`.
#[repr(C)]
struct Luks2Parameters {
    key_derivation: *const c_void,
    integrity: *const c_char,
    integrity_parameters: *const c_void,
    data_alignment: usize,
    data_device: *const c_char,
    sector_size: u32,
    label: *const c_char,
    subsystem: *const c_char,
}

/// The library's `struct crypt_pbkdf_type`.
#[repr(C)]
struct DerivationParameters {
    kind: *const c_char,
    hash: *const c_char,
    milliseconds: u32,
    iterations: u32,
    most_memory_kib: u32,
    threads: u32,
    flags: u32,
}

type Device = *mut RawDevice;
type Text = unsafe extern "C" fn(Device) -> *const c_char;
type Log = unsafe extern "C" fn(c_int, *const c_char, *mut c_void);

/// Loads functions by their names in the library.
macro_rules! functions {
    ($($name:ident: $kind:ty,)*) => {
        struct Functions {
            $($name: $kind,)*
            /// Keeps the functions.
            _library: Library,
        }

        impl Functions {
            fn load() -> Result<Self, libloading::Error> {
                // SAFETY: the library's initialisers have no conditions.
                let library = unsafe { Library::new(LIBRARY) }?;
                Ok(Self {
                    $(
                        // SAFETY: the type is the one of the library's header file.
                        $name: *unsafe {
                            library.get(concat!("crypt_", stringify!($name)).as_bytes())
                        }?,
                    )*
                    _library: library,
                })
            }
        }
    };
}

functions! {
    init: unsafe extern "C" fn(*mut Device, *const c_char) -> c_int,
    free: unsafe extern "C" fn(Device),
    set_log_callback: unsafe extern "C" fn(Device, Log, *mut c_void),
    load: unsafe extern "C" fn(Device, *const c_char, *mut c_void) -> c_int,
    format: unsafe extern "C" fn(
        Device, *const c_char, *const c_char, *const c_char, *const c_char, *const c_char, usize,
        *mut c_void,
    ) -> c_int,
    set_pbkdf_type: unsafe extern "C" fn(Device, *const DerivationParameters) -> c_int,
    keyslot_add_by_volume_key: unsafe extern "C" fn(
        Device, c_int, *const c_char, usize, *const c_char, usize,
    ) -> c_int,
    volume_key_get: unsafe extern "C" fn(
        Device, c_int, *mut c_char, *mut usize, *const c_char, usize,
    ) -> c_int,
    keyslot_max: unsafe extern "C" fn(*const c_char) -> c_int,
    keyslot_status: unsafe extern "C" fn(Device, c_int) -> c_int,
    keyslot_area: unsafe extern "C" fn(Device, c_int, *mut u64, *mut u64) -> c_int,
    get_data_offset: unsafe extern "C" fn(Device) -> u64,
    get_cipher: Text,
    get_cipher_mode: Text,
    get_volume_key_size: unsafe extern "C" fn(Device) -> c_int,
    get_uuid: Text,
    dump_json: unsafe extern "C" fn(Device, *mut *const c_char, u32) -> c_int,
}

thread_local! {
    /// The messages about errors, of the call that runs.
    static MESSAGES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Keeps a message of the library.
///
/// # Safety
/// `message` is null or a string that ends with a zero.
unsafe extern "C" fn log(level: c_int, message: *const c_char, _context: *mut c_void) {
    if level != LOG_ERROR || message.is_null() {
        return;
    }
    // SAFETY: the caller's promise.
    let message = unsafe { CStr::from_ptr(message) }.to_string_lossy().trim().to_owned();
    MESSAGES.with_borrow_mut(|messages| messages.push(message));
}

/// The library, for one thread at a time.
///
/// # Errors
/// It cannot be loaded.
fn library() -> Result<(&'static Functions, MutexGuard<'static, ()>), LuksError> {
    static LOADED: OnceLock<Result<Functions, String>> = OnceLock::new();
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let load = || {
        let functions = Functions::load().map_err(|error| error.to_string())?;
        // SAFETY: null is the default of all devices; `log` may be called at any time.
        unsafe { (functions.set_log_callback)(null_mut(), log, null_mut()) };
        Ok(functions)
    };
    let functions = LOADED.get_or_init(load).as_ref();
    MESSAGES.with_borrow_mut(Vec::clear);
    functions.map(|functions| (functions, turn)).map_err(|why| LuksError::Library(why.clone()))
}

/// A negative error number and the messages about it, in words.
fn reason(result: c_int) -> String {
    let messages = MESSAGES.with_borrow_mut(std::mem::take);
    if messages.is_empty() {
        return std::io::Error::from_raw_os_error(-result).to_string();
    }
    messages.join(" ")
}

/// What the library's calls return: an error if it is negative.
fn check(doing: &'static str, result: c_int) -> Result<c_int, LuksError> {
    if result < 0 { Err(LuksError::Failed { doing, why: reason(result) }) } else { Ok(result) }
}

/// A header in a file, as the library sees it.
pub(crate) struct CryptDevice(NonNull<RawDevice>);

impl CryptDevice {
    /// Begins with a file.
    ///
    /// # Errors
    /// The library's.
    pub(crate) fn new(path: &CStr) -> Result<Self, LuksError> {
        let (library, _turn) = library()?;
        let mut device = null_mut();
        // SAFETY: both pointers are valid for the call.
        let result = unsafe { (library.init)(&raw mut device, path.as_ptr()) };
        check("open the header", result)?;
        let device = NonNull::new(device).map(Self);
        device.ok_or_else(|| LuksError::Failed { doing: "open the header", why: String::new() })
    }

    /// Reads the header in the file.
    ///
    /// # Errors
    /// It is damaged.
    pub(crate) fn load(&mut self, kind: &CStr) -> Result<(), LuksError> {
        let (library, _turn) = library()?;
        // SAFETY: the device is ours; no parameters are asked for.
        let result = unsafe { (library.load)(self.raw(), kind.as_ptr(), null_mut()) };
        if result < 0 { Err(LuksError::Damaged(reason(result))) } else { Ok(()) }
    }

    /// Makes a header with a new random key, for AES-XTS. A `sector` in bytes is for LUKS2.
    ///
    /// # Errors
    /// The library's.
    pub(crate) fn format(
        &mut self,
        kind: &CStr,
        key_len: usize,
        sector: Option<u32>,
    ) -> Result<(), LuksError> {
        let (library, _turn) = library()?;
        let mut parameters = Luks2Parameters {
            key_derivation: null(),
            integrity: null(),
            integrity_parameters: null(),
            data_alignment: 0,
            data_device: null(),
            sector_size: sector.unwrap_or(0),
            label: null(),
            subsystem: null(),
        };
        let parameters = match sector {
            Some(_) => (&raw mut parameters).cast(),
            None => null_mut(),
        };
        // SAFETY: the device is ours; the strings end with zeroes; null asks for a new UUID, a new
        // key, and for the defaults of LUKS1. The parameters are those of LUKS2.
        let result = unsafe {
            (library.format)(
                self.raw(),
                kind.as_ptr(),
                c"aes".as_ptr(),
                c"xts-plain64".as_ptr(),
                null(),
                null(),
                key_len,
                parameters,
            )
        };
        check("make the header", result).map(drop)
    }

    /// How keys of later slots are derived: in so many milliseconds, or by so many iterations.
    ///
    /// # Errors
    /// The header's version has no such derivation.
    pub(crate) fn set_derivation(
        &mut self,
        kind: &CStr,
        milliseconds: u32,
        iterations: Option<u32>,
    ) -> Result<(), LuksError> {
        let (library, _turn) = library()?;
        let pbkdf2 = kind == c"pbkdf2";
        let parameters = DerivationParameters {
            kind: kind.as_ptr(),
            hash: c"sha256".as_ptr(),
            milliseconds,
            iterations: iterations.unwrap_or(0),
            most_memory_kib: if pbkdf2 { 0 } else { 1 << 20 },
            threads: if pbkdf2 { 0 } else { 4 },
            flags: if iterations.is_some() { NO_BENCHMARK } else { 0 },
        };
        // SAFETY: the device is ours; the library copies the parameters.
        let result = unsafe { (library.set_pbkdf_type)(self.raw(), &raw const parameters) };
        check("derive keys so", result).map(drop)
    }

    /// Fills the first key slot. The device has its key from [`CryptDevice::format`].
    ///
    /// # Errors
    /// The library's.
    pub(crate) fn add_slot(&mut self, passphrase: &Passphrase) -> Result<(), LuksError> {
        let (library, _turn) = library()?;
        let bytes = passphrase.bytes();
        // SAFETY: the device is ours; no key means the device's; the passphrase is as long as said.
        let result = unsafe {
            let place = bytes.as_ptr().cast();
            (library.keyslot_add_by_volume_key)(self.raw(), 0, null(), 0, place, bytes.len())
        };
        check("fill the key slot", result).map(drop)
    }

    /// The key that the passphrase opens.
    ///
    /// # Errors
    /// It opens none.
    pub(crate) fn key<const LEN: usize>(
        &mut self,
        passphrase: &Passphrase,
    ) -> Result<Zeroizing<[u8; LEN]>, LuksError> {
        let (library, _turn) = library()?;
        let (bytes, mut key, mut len) = (passphrase.bytes(), Zeroizing::new([0; LEN]), LEN);
        // SAFETY: the device is ours; the key's memory and the passphrase are as long as said.
        let result = unsafe {
            let (key, phrase) = (key.as_mut_ptr().cast(), bytes.as_ptr().cast());
            let len = &raw mut len;
            (library.volume_key_get)(self.raw(), ANY_SLOT, key, len, phrase, bytes.len())
        };
        let refused = [rustix::io::Errno::PERM, rustix::io::Errno::NOENT];
        if refused.iter().any(|errno| errno.raw_os_error() == -result) {
            return Err(LuksError::Passphrase);
        }
        check("find the key", result)?;
        match len == LEN {
            true => Ok(key),
            false => Err(LuksError::Unsupported(format!("a key of {} bits", len * 8))),
        }
    }

    /// Where the key slots in use are, in bytes: begin and length.
    ///
    /// # Errors
    /// The library's.
    pub(crate) fn slot_areas(&self, kind: &CStr) -> Result<Vec<(u64, u64)>, LuksError> {
        let (library, _turn) = library()?;
        // SAFETY: the string ends with a zero.
        let most = unsafe { (library.keyslot_max)(kind.as_ptr()) };
        let mut areas = Vec::new();
        for slot in 0..check("count the key slots", most)? {
            // SAFETY: the device is ours.
            let status = unsafe { (library.keyslot_status)(self.raw(), slot) };
            if !ACTIVE.contains(&status) {
                continue;
            }
            let (mut begin, mut len) = (0, 0);
            // SAFETY: the device is ours; both results are valid for the call.
            let result =
                unsafe { (library.keyslot_area)(self.raw(), slot, &raw mut begin, &raw mut len) };
            check("find the key slots", result)?;
            areas.push((begin, len));
        }
        Ok(areas)
    }

    /// Where the data begins, in bytes.
    ///
    /// # Errors
    /// The library is missing.
    pub(crate) fn data_offset(&self) -> Result<u64, LuksError> {
        let (library, _turn) = library()?;
        // SAFETY: the device is ours.
        Ok(unsafe { (library.get_data_offset)(self.raw()) }.saturating_mul(512))
    }

    /// Cipher and mode, as dm-crypt names them, and bytes of the key.
    ///
    /// # Errors
    /// The library is missing.
    pub(crate) fn cipher(&self) -> Result<(String, usize), LuksError> {
        let (library, _turn) = library()?;
        let (cipher, mode) = (self.text(library.get_cipher), self.text(library.get_cipher_mode));
        // SAFETY: the device is ours.
        let len = unsafe { (library.get_volume_key_size)(self.raw()) };
        Ok((format!("{cipher}-{mode}"), usize::try_from(len).unwrap_or(0)))
    }

    /// The header's UUID.
    ///
    /// # Errors
    /// The library is missing.
    pub(crate) fn uuid(&self) -> Result<String, LuksError> {
        let (library, _turn) = library()?;
        Ok(self.text(library.get_uuid))
    }

    /// The metadata of LUKS2.
    ///
    /// # Errors
    /// The library's.
    pub(crate) fn json(&self) -> Result<String, LuksError> {
        let (library, _turn) = library()?;
        let mut json = null();
        // SAFETY: the device is ours; the result is valid for the call.
        let result = unsafe { (library.dump_json)(self.raw(), &raw mut json, 0) };
        check("tell the metadata", result)?;
        // SAFETY: the result is null or a string of the device's.
        Ok(unsafe { text(json) })
    }

    /// A string of the device's. The library is ours for now.
    fn text(&self, get: Text) -> String {
        // SAFETY: the device is ours.
        let place = unsafe { get(self.raw()) };
        // SAFETY: the result is null or a string of the device's.
        unsafe { text(place) }
    }

    fn raw(&self) -> Device {
        self.0.as_ptr()
    }
}

impl std::fmt::Debug for CryptDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CryptDevice")
    }
}

impl Drop for CryptDevice {
    fn drop(&mut self) {
        if let Ok((library, _turn)) = library() {
            // SAFETY: the device is ours, and not used after this.
            unsafe { (library.free)(self.raw()) };
        }
    }
}

// SAFETY: a device has no ties to a thread; one thread at a time calls the library.
unsafe impl Send for CryptDevice {}

/// A copy of a string of the library's; empty for null.
///
/// # Safety
/// The pointer is null or a string that ends with a zero.
unsafe fn text(place: *const c_char) -> String {
    if place.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(place) }.to_string_lossy().into_owned()
}

/// A path for the library.
pub(crate) fn c_path(path: String) -> CString {
    CString::new(path).unwrap_or_default()
}
