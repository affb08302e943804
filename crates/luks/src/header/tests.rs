//! Headers that are made, opened, damaged. Those of cryptsetup and QEMU are in the tests with real
//! processes.

use std::io::Write as _;

use zeroize::Zeroizing;

use super::*;

const SIZE: u64 = 32 << 20;
const QUICK: FormatOptions = FormatOptions {
    version: LuksVersion::Luks2,
    sector: SectorSize::LARGE,
    derivation: KeyDerivation::Pbkdf2,
    cost: DerivationCost::Iterations(1000),
};
const LUKS1: FormatOptions =
    FormatOptions { version: LuksVersion::Luks1, sector: SectorSize::SMALL, ..QUICK };

fn passphrase(text: &str) -> Passphrase {
    Passphrase::new(Zeroizing::new(text.as_bytes().to_vec()))
}

/// A storage with a header. `None` without libcryptsetup.
fn formatted(options: FormatOptions) -> Option<Vec<u8>> {
    match format(SIZE, options, &passphrase("right")) {
        Err(LuksError::Library(why)) => {
            // The test runner would capture what the macros print.
            let line = format!("SKIP: no libcryptsetup ({why})\n");
            let _ = std::io::stderr().write_all(line.as_bytes());
            None
        }
        other => Some(other.unwrap()),
    }
}

fn load(storage: &[u8], size: u64) -> Result<LuksHeader, LuksError> {
    let len = head_len(&storage[..HEAD_LEN])?;
    let mut header = LuksHeader::load(&storage[..len], size)?;
    for area in header.areas().to_vec() {
        let bytes = &storage[area.start as usize..area.end as usize];
        header.put(area.start, bytes)?;
    }
    Ok(header)
}

fn open(storage: &[u8], text: &str) -> Result<LuksVolume, LuksError> {
    load(storage, SIZE)?.unlock(&passphrase(text))
}

#[test]
fn what_is_made_can_be_opened() {
    for options in [QUICK, FormatOptions { sector: SectorSize::SMALL, ..QUICK }, LUKS1] {
        let Some(storage) = formatted(options) else { return };
        let mut volume = open(&storage, "right").unwrap();
        assert_eq!(volume.version, options.version);
        assert_eq!(volume.cipher.sector(), options.sector);
        assert_eq!(volume.data_offset, storage.len() as u64);
        assert_eq!((volume.data_len, volume.uuid.len()), (None, 36));
        // The key is one and the same.
        let mut sector = vec![1; options.sector.bytes()];
        volume.cipher.encrypt(0, &mut sector);
        open(&storage, "right").unwrap().cipher.decrypt(0, &mut sector);
        assert!(sector.iter().all(|byte| *byte == 1));
    }
}

#[test]
fn headers_have_keys_of_their_own() {
    let (Some(one), Some(other)) = (formatted(QUICK), formatted(QUICK)) else { return };
    let mut sectors = [vec![0; 4096], vec![0; 4096]];
    for (storage, sector) in [one, other].iter().zip(&mut sectors) {
        open(storage, "right").unwrap().cipher.encrypt(0, sector);
    }
    assert_ne!(sectors[0], sectors[1]);
}

#[test]
fn a_wrong_passphrase() {
    for options in [QUICK, LUKS1] {
        let Some(storage) = formatted(options) else { return };
        for text in ["wrong", "", "right\n"] {
            assert_eq!(open(&storage, text).unwrap_err(), LuksError::Passphrase);
        }
    }
}

#[test]
fn no_header_and_foreign_ones() {
    assert_eq!(head_len(&vec![0; HEAD_LEN]), Err(LuksError::NoHeader));
    assert_eq!(head_len(b"LUKS"), Err(LuksError::NoHeader));
    let mut head = vec![0; HEAD_LEN];
    head[..8].copy_from_slice(b"LUKS\xba\xbe\0\x03");
    assert_eq!(head_len(&head), Err(LuksError::Version(3)));
    // LUKS2 of an impossible length.
    head[7] = 2;
    assert!(matches!(head_len(&head), Err(LuksError::Damaged(_))));
}

#[test]
fn a_truncated_storage() {
    for options in [QUICK, LUKS1] {
        let Some(storage) = formatted(options) else { return };
        let size = storage.len() as u64;
        let needed = size + options.sector.bytes() as u64;
        assert_eq!(load(&storage, size).unwrap_err(), LuksError::Truncated { needed, size });
        assert!(load(&storage, needed).is_ok());
    }
}

#[test]
fn a_damaged_header() {
    // The copy replaces the header of LUKS2.
    let Some(mut storage) = formatted(QUICK) else { return };
    storage[..4096].fill(0);
    assert!(open(&storage, "right").is_ok());
    storage[HEAD_LEN / 2 + 4096..HEAD_LEN].fill(1);
    assert!(matches!(open(&storage, "right"), Err(LuksError::Damaged(_))));
    // A key slot of which a bit is flipped.
    let Some(mut storage) = formatted(QUICK) else { return };
    storage[HEAD_LEN + 100] ^= 1;
    assert_eq!(open(&storage, "right").unwrap_err(), LuksError::Passphrase);
}

#[test]
fn a_storage_without_room() {
    if formatted(QUICK).is_none() {
        return;
    }
    let made = format(8 << 20, QUICK, &passphrase("right"));
    assert!(matches!(made, Err(LuksError::TooSmall { size: 8_388_608, .. })), "{made:?}");
}

#[test]
fn options_that_do_not_fit() {
    for options in [
        FormatOptions { sector: SectorSize::LARGE, ..LUKS1 },
        FormatOptions { derivation: KeyDerivation::Argon2id, ..LUKS1 },
    ] {
        let made = format(SIZE, options, &passphrase("right"));
        assert!(matches!(made, Err(LuksError::Options(_))), "{made:?}");
    }
    let made = format(SIZE + 512, QUICK, &passphrase("right"));
    assert!(matches!(made, Err(LuksError::Options(_))), "{made:?}");
}

/// Metadata as the format's specification has it, with one change each.
#[test]
fn metadata_that_is_not_ours_to_open() {
    let json = |change: &str, config: &str| {
        format!(
            r#"{{"keyslots":{{"0":{{"type":"luks2","area":{{"encryption":"aes-xts-plain64"}}}}}},
            "segments":{{"0":{{"type":"crypt","offset":"16777216","size":"dynamic",
            "iv_tweak":"0","encryption":"aes-xts-plain64","sector_size":512{change}}}}},
            "config":{{"json_size":"12288"{config}}}}}"#
        )
    };
    let (area, cipher) = segment(&json("", "")).unwrap();
    assert_eq!((area.offset, area.len, cipher.as_str()), (16 << 20, None, "aes-xts-plain64"));
    let tags = json(r#","integrity":{"type":"hmac(sha256)"}"#, "");
    let begun = json("", r#","requirements":{"mandatory":["online-reencrypt"]}"#);
    // Its key would be the target's.
    let null = json("", "").replacen("aes-xts-plain64", "cipher_null-ecb", 1);
    for json in [tags, begun, null] {
        assert!(matches!(segment(&json), Err(LuksError::Unsupported(_))), "{json}");
    }
    for damaged in ["", "{}", &json("", "").replace("dynamic", "many")] {
        assert!(matches!(segment(damaged), Err(LuksError::Damaged(_))), "{damaged}");
    }
    let fixed = json("", "").replace("dynamic", "1048576");
    assert_eq!(segment(&fixed).unwrap().0.len, Some(1 << 20));
    let linear = r#""segments":{"1":{"type":"linear","offset":"0","size":"1"},"#;
    let two = json("", "").replacen(r#""segments":{"#, linear, 1);
    assert!(matches!(segment(&two), Err(LuksError::Unsupported(_))));
}

#[test]
fn secrets_are_not_shown() {
    assert_eq!(format!("{:?}", passphrase("right")), "Passphrase");
    let Some(storage) = formatted(QUICK) else { return };
    let shown = format!("{:?}", open(&storage, "right").unwrap());
    assert!(!shown.contains("key"), "{shown}");
}
