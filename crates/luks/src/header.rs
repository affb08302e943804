//! Headers of LUKS1 and LUKS2.
//!
//! libcryptsetup reads and writes headers in files. Ours is in memory (memfd_create(2)). It takes
//! the memory of what is put into it.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;

use rustix::fs::{MemfdFlags, memfd_create};
use serde::Deserialize;

use crate::cryptsetup::{CryptDevice, c_path};
use crate::error::LuksError;
use crate::secret::Passphrase;
use crate::sector::{KEY_LEN, SectorCipher, SectorSize};

/// Bytes of the storage that [`head_len`] wants: a header of LUKS1, or the smallest of LUKS2 with
/// the copy behind it.
pub const HEAD_LEN: usize = 32 << 10;
/// What a header begins with, and the copy of a LUKS2 header.
const MAGIC: [u8; 6] = *b"LUKS\xba\xbe";
const COPY_MAGIC: [u8; 6] = *b"SKUL\xba\xbe";
/// Bytes of a LUKS2 header without its copy (LUKS2 On-Disk Format 2.1): a power of two.
const LUKS2_LENGTHS: Range<u64> = 16 << 10..(4 << 20) + 1;
/// The cipher of the sectors and of the key slots.
const CIPHER: &str = "aes-xts-plain64";
/// No header reaches so far: two of the largest, and 128 MiB of key slots.
const FARTHEST: u64 = 256 << 20;

/// A version of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LuksVersion {
    /// LUKS1, the one that QEMU knows.
    Luks1,
    /// LUKS2.
    Luks2,
}

impl LuksVersion {
    fn kind(self) -> &'static CStr {
        match self {
            Self::Luks1 => c"LUKS1",
            Self::Luks2 => c"LUKS2",
        }
    }
}

/// How a key slot's key is made out of a passphrase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyDerivation {
    /// Argon2id: takes memory as well as time. Only LUKS2.
    Argon2id,
    /// PBKDF2 with SHA-256.
    Pbkdf2,
}

/// How much work it is to make a key out of a passphrase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DerivationCost {
    /// So many milliseconds on this machine, which is measured.
    Milliseconds(u32),
    /// So many iterations. libcryptsetup refuses less than 1000 of PBKDF2 and 4 of Argon2id.
    Iterations(u32),
}

impl Default for DerivationCost {
    /// As cryptsetup.
    fn default() -> Self {
        Self::Milliseconds(2000)
    }
}

/// What a new header is.
#[derive(Debug, Clone, Copy)]
pub struct FormatOptions {
    /// The version.
    pub version: LuksVersion,
    /// Bytes of a sector. LUKS1 has 512 only.
    pub sector: SectorSize,
    /// How the key is derived.
    pub derivation: KeyDerivation,
    /// How much work that is.
    pub cost: DerivationCost,
}

/// An open volume: the key, and where the sectors are.
#[derive(Debug)]
pub struct LuksVolume {
    /// Encrypts and decrypts the sectors.
    pub cipher: SectorCipher,
    /// Where the first sector is, in bytes.
    pub data_offset: u64,
    /// Bytes of the sectors; `None`: all that are behind the header.
    pub data_len: Option<u64>,
    /// The header's version.
    pub version: LuksVersion,
    /// The header's UUID.
    pub uuid: String,
}

/// A header that has been read.
#[derive(Debug)]
pub struct LuksHeader {
    version: LuksVersion,
    device: CryptDevice,
    memory: File,
    data: DataArea,
    areas: Vec<Range<u64>>,
}

/// Where the sectors are, and of what size.
#[derive(Debug, Clone, Copy)]
struct DataArea {
    offset: u64,
    len: Option<u64>,
    sector: SectorSize,
}

/// How many bytes of the storage [`LuksHeader::load`] takes. `head` is the first [`HEAD_LEN`].
///
/// # Errors
/// There is no header, or one of a version that we do not know.
pub fn head_len(head: &[u8]) -> Result<usize, LuksError> {
    match version_of(head)? {
        LuksVersion::Luks1 => Ok(HEAD_LEN),
        LuksVersion::Luks2 => {
            // A copy that is found is the one of the smallest header.
            let field = head.get(8..16).filter(|_| head.starts_with(&MAGIC));
            let len = field.and_then(|bytes| bytes.try_into().ok()).map(u64::from_be_bytes);
            let len = len.unwrap_or(LUKS2_LENGTHS.start);
            if !len.is_power_of_two() || !LUKS2_LENGTHS.contains(&len) {
                return Err(LuksError::Damaged(format!("it has {len} bytes")));
            }
            Ok(usize::try_from(len).unwrap_or(HEAD_LEN) * 2)
        }
    }
}

/// The version of the header, or of its copy.
fn version_of(head: &[u8]) -> Result<LuksVersion, LuksError> {
    let copy = head.len() >= HEAD_LEN && head[HEAD_LEN / 2..].starts_with(&COPY_MAGIC);
    let field = match head.get(6..8) {
        Some(field) if head.starts_with(&MAGIC) => field,
        _ if copy => &head[HEAD_LEN / 2 + 6..HEAD_LEN / 2 + 8],
        _ => return Err(LuksError::NoHeader),
    };
    match u16::from_be_bytes([field[0], field[1]]) {
        1 => Ok(LuksVersion::Luks1),
        2 => Ok(LuksVersion::Luks2),
        other => Err(LuksError::Version(other)),
    }
}

impl LuksHeader {
    /// Reads a header. `head` has [`head_len`] bytes, and the storage `size`.
    ///
    /// # Errors
    /// It is damaged, or wants another cipher, or the storage is too short.
    pub fn load(head: &[u8], size: u64) -> Result<Self, LuksError> {
        let version = version_of(head)?;
        let (memory, mut device) = in_memory(FARTHEST)?;
        put(&memory, 0, head)?;
        device.load(version.kind())?;
        let data = data_area(version, &device)?;
        let end = data.len.unwrap_or(data.sector.bytes() as u64);
        let needed = data.offset.saturating_add(end);
        if needed > size {
            return Err(LuksError::Truncated { needed, size });
        }
        let mut areas = Vec::new();
        for (begin, len) in device.slot_areas(version.kind())? {
            let end = begin.saturating_add(len);
            if end > data.offset.min(FARTHEST) {
                return Err(LuksError::Damaged(format!("a key slot ends at {end}")));
            }
            areas.push(begin..end);
        }
        Ok(Self { version, device, memory, data, areas })
    }

    /// Where the key slots are, in bytes of the storage.
    #[must_use]
    pub fn areas(&self) -> &[Range<u64>] {
        &self.areas
    }

    /// Puts bytes of the storage into the header.
    ///
    /// # Errors
    /// There is no memory.
    pub fn put(&mut self, offset: u64, bytes: &[u8]) -> Result<(), LuksError> {
        put(&self.memory, offset, bytes)
    }

    /// Finds the key. That takes seconds and up to 1 GiB of memory, as the header says.
    ///
    /// # Errors
    /// The passphrase is wrong.
    pub fn unlock(mut self, passphrase: &Passphrase) -> Result<LuksVolume, LuksError> {
        let uuid = self.device.uuid()?;
        let key = self.device.key::<KEY_LEN>(passphrase)?;
        let cipher = SectorCipher::new(&key, self.data.sector);
        let cipher = cipher.ok_or_else(|| LuksError::Damaged("its key is no key".to_owned()))?;
        let (data_offset, data_len) = (self.data.offset, self.data.len);
        Ok(LuksVolume { cipher, data_offset, data_len, version: self.version, uuid })
    }
}

/// Makes a header with a new key for storage of `size` bytes. What comes back is to be the begin of
/// the storage.
///
/// # Errors
/// The storage is too small, or libcryptsetup fails.
pub fn format(
    size: u64,
    options: FormatOptions,
    passphrase: &Passphrase,
) -> Result<Vec<u8>, LuksError> {
    let sector = match (options.version, options.derivation) {
        (LuksVersion::Luks2, _) => u32::try_from(options.sector.bytes()).ok(),
        (LuksVersion::Luks1, _) if options.sector != SectorSize::SMALL => {
            let why = "LUKS1 has sectors of 512 bytes only: leave the sector size away, or take \
                       LUKS2";
            return Err(LuksError::Options(why));
        }
        (LuksVersion::Luks1, KeyDerivation::Argon2id) => {
            let why = "LUKS1 has no Argon2: take PBKDF2, or LUKS2";
            return Err(LuksError::Options(why));
        }
        (LuksVersion::Luks1, KeyDerivation::Pbkdf2) => None,
    };
    if !size.is_multiple_of(options.sector.bytes() as u64) {
        let why = "the unit ends within a sector: take sectors of 512 bytes (--sector-size 512)";
        return Err(LuksError::Options(why));
    }
    let (memory, mut device) = in_memory(FARTHEST)?;
    let kind = match options.derivation {
        KeyDerivation::Argon2id => c"argon2id",
        KeyDerivation::Pbkdf2 => c"pbkdf2",
    };
    match options.cost {
        DerivationCost::Milliseconds(ms) => device.set_derivation(kind, ms, None)?,
        DerivationCost::Iterations(count) => device.set_derivation(kind, 0, Some(count))?,
    }
    device.format(options.version.kind(), KEY_LEN, sector)?;
    let len = device.data_offset()?;
    let needed = len + options.sector.bytes() as u64;
    if size < needed {
        return Err(LuksError::TooSmall { needed, size });
    }
    device.add_slot(passphrase)?;
    let mut header = vec![0; usize::try_from(len).unwrap_or(0)];
    memory.read_exact_at(&mut header, 0).map_err(|error| no_memory(&error))?;
    Ok(header)
}

/// An empty header in memory.
fn in_memory(size: u64) -> Result<(File, CryptDevice), LuksError> {
    let memory = memfd_create("luks-header", MemfdFlags::CLOEXEC);
    let memory = File::from(memory.map_err(|errno| no_memory(&errno.into()))?);
    memory.set_len(size).map_err(|error| no_memory(&error))?;
    let path = c_path(format!("/proc/self/fd/{}", memory.as_raw_fd()));
    Ok((memory, CryptDevice::new(&path)?))
}

fn put(memory: &File, offset: u64, bytes: &[u8]) -> Result<(), LuksError> {
    memory.write_all_at(bytes, offset).map_err(|error| no_memory(&error))
}

fn no_memory(error: &std::io::Error) -> LuksError {
    LuksError::Failed { doing: "have the header in memory", why: error.to_string() }
}

fn data_area(version: LuksVersion, device: &CryptDevice) -> Result<DataArea, LuksError> {
    let (cipher, key_len) = device.cipher()?;
    let (area, cipher) = match version {
        LuksVersion::Luks1 => {
            let (offset, sector) = (device.data_offset()?, SectorSize::SMALL);
            (DataArea { offset, len: None, sector }, cipher)
        }
        LuksVersion::Luks2 => segment(&device.json()?)?,
    };
    if cipher != CIPHER || key_len != KEY_LEN {
        return Err(LuksError::Unsupported(format!("{cipher} with a key of {} bits", key_len * 8)));
    }
    Ok(area)
}

/// What we need of the metadata of LUKS2 (LUKS2 On-Disk Format 3).
#[derive(Deserialize)]
struct Metadata {
    keyslots: BTreeMap<String, KeySlot>,
    segments: BTreeMap<String, Segment>,
    config: Config,
}

#[derive(Deserialize)]
struct KeySlot {
    area: KeySlotArea,
}

#[derive(Deserialize)]
struct KeySlotArea {
    #[serde(default)]
    encryption: String,
}

#[derive(Deserialize)]
struct Segment {
    #[serde(rename = "type")]
    kind: String,
    offset: String,
    size: String,
    #[serde(default)]
    iv_tweak: String,
    #[serde(default)]
    encryption: String,
    #[serde(default)]
    sector_size: u64,
    integrity: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct Config {
    requirements: Option<serde_json::Value>,
}

/// The one segment of LUKS2 metadata, and its cipher.
fn segment(json: &str) -> Result<(DataArea, String), LuksError> {
    let damaged = |what: &str| LuksError::Damaged(format!("its metadata has {what}"));
    let metadata: Metadata =
        serde_json::from_str(json).map_err(|error| damaged(&error.to_string()))?;
    let unsupported = |what: &str| Err(LuksError::Unsupported(what.to_owned()));
    if metadata.config.requirements.is_some() {
        return unsupported("something that has begun and not ended, such as re-encryption");
    }
    // The key in a slot without a cipher is known to whoever wrote the header: the target.
    let mut slots = metadata.keyslots.into_values().map(|slot| slot.area.encryption);
    if let Some(cipher) = slots.find(|cipher| cipher != CIPHER) {
        return unsupported(&format!("`{cipher}` in a key slot"));
    }
    let mut segments = metadata.segments.into_values();
    let (Some(segment), None) = (segments.next(), segments.next()) else {
        return unsupported("several segments");
    };
    if segment.kind != "crypt" || segment.integrity.is_some() {
        return unsupported("integrity tags or encryption by the device");
    }
    if segment.iv_tweak != "0" {
        return unsupported("a tweak that does not begin with zero");
    }
    let offset = segment.offset.parse().map_err(|_| damaged("no offset"))?;
    let len = match &*segment.size {
        "dynamic" => None,
        size => Some(size.parse().map_err(|_| damaged("no size"))?),
    };
    let sector = SectorSize::new(segment.sector_size).ok_or_else(|| damaged("no sector size"))?;
    Ok((DataArea { offset, len, sector }, segment.encryption))
}
