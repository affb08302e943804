//! Ciphers by the names of their algorithms.

use std::net::IpAddr;

use abi::xfrm::{XfrmAlgorithm, XfrmAlgorithms, XfrmVectors};
use aws_lc_rs::aead::{AES_128_GCM, AES_192_GCM, AES_256_GCM, CHACHA20_POLY1305};
use aws_lc_rs::digest::{SHA256 as SHA_256, digest};
use aws_lc_rs::hmac::{self, HMAC_SHA1_FOR_LEGACY_USE_ONLY, HMAC_SHA256};
use inet::EspCipher;

use crate::combined::{Combined, SALT};
use crate::error::CipherRefusal;
use crate::iv::Counted;
use crate::separate::{BlockCipher, Separate};

const GCM: &str = "rfc4106(gcm(aes))";
const CHACHA: &str = "rfc7539esp(chacha20,poly1305)";
const CBC: &str = "cbc(aes)";
const TRIPLE_DES: &str = "cbc(des3_ede)";
const NULL: &str = "cipher_null";
const SHA256: &str = "hmac(sha256)";
const SHA1: &str = "hmac(sha1)";

/// A name for the key whose vectors are counted, if there is one: 64 hexadecimal digits, which tell
/// nothing of the key. A block of vectors is reserved under it.
#[must_use]
pub fn counted_key(algorithms: &XfrmAlgorithms) -> Option<String> {
    let key = algorithms.aead.as_ref()?.key.as_ref()?;
    let hash = digest(&SHA_256, &[b"tasuki esp vectors ", key.bytes()].concat());
    Some(hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The cipher of an association for packets from `source` to `destination`. One that counts its
/// vectors takes those of `vectors`, which nobody else may use with the same key.
///
/// # Errors
/// See [`CipherRefusal`].
pub fn make(
    algorithms: &XfrmAlgorithms,
    vectors: Option<XfrmVectors>,
    source: IpAddr,
    destination: IpAddr,
) -> Result<Box<dyn EspCipher>, CipherRefusal> {
    let insecure = algorithms.insecure;
    match (&algorithms.aead, &algorithms.enc, &algorithms.auth) {
        (Some(aead), None, None) => {
            let reserved = vectors.ok_or(CipherRefusal::NoVectors)?;
            let vectors = Counted::new(reserved, source, destination);
            combined(aead, vectors).map(|cipher| Box::new(cipher) as Box<dyn EspCipher>)
        }
        (None, Some(enc), Some(auth)) => {
            let cipher = block_cipher(enc, insecure)?;
            let (key, icv) = integrity(auth, insecure)?;
            Ok(Box::new(Separate::new(cipher, key, icv)))
        }
        _ => Err(CipherRefusal::Combination),
    }
}

/// As [`make`], with the refusal as a sentence.
///
/// # Errors
/// Those of [`make`].
pub fn cipher(
    algorithms: &XfrmAlgorithms,
    vectors: Option<XfrmVectors>,
    source: IpAddr,
    destination: IpAddr,
) -> Result<Box<dyn EspCipher>, String> {
    make(algorithms, vectors, source, destination).map_err(|refusal| refusal.to_string())
}

fn key<'a>(algorithm: &'a XfrmAlgorithm, kind: &'static str) -> Result<&'a [u8], CipherRefusal> {
    algorithm.key.as_ref().map(|key| key.bytes()).ok_or(CipherRefusal::NoKey(kind))
}

/// A combined cipher with these vectors.
pub(crate) fn combined(aead: &XfrmAlgorithm, vectors: Counted) -> Result<Combined, CipherRefusal> {
    let key = key(aead, "aead")?;
    let (name, right, algorithm) = match (aead.name.as_str(), key.len()) {
        (GCM, 20) => (GCM, "", Some(&AES_128_GCM)),
        (GCM, 28) => (GCM, "", Some(&AES_192_GCM)),
        (GCM, 36) => (GCM, "", Some(&AES_256_GCM)),
        (GCM, _) => (GCM, "20, 28 or 36", None),
        (CHACHA, 36) => (CHACHA, "", Some(&CHACHA20_POLY1305)),
        (CHACHA, _) => (CHACHA, "36", None),
        (other, _) => {
            let known = "rfc4106(gcm(aes)) and rfc7539esp(chacha20,poly1305)";
            return Err(CipherRefusal::Unknown { kind: "aead", name: other.to_owned(), known });
        }
    };
    check_icv(aead, name, 128)?;
    let given = key.len();
    debug_assert!(algorithm.is_none() || given > SALT);
    let made = algorithm.and_then(|algorithm| Combined::new(algorithm, key, vectors));
    made.ok_or(CipherRefusal::KeyLength { name, right, given })
}

/// The encryption apart; `None` is none.
fn block_cipher(enc: &XfrmAlgorithm, insecure: bool) -> Result<Option<BlockCipher>, CipherRefusal> {
    let wrong = |name, right, given| CipherRefusal::KeyLength { name, right, given };
    match enc.name.as_str() {
        CBC | "aes" => {
            let key = key(enc, "enc")?;
            let cipher = BlockCipher::aes(key);
            cipher.map(Some).ok_or(wrong(CBC, "16 or 32", key.len()))
        }
        TRIPLE_DES | "des3_ede" if !insecure => Err(CipherRefusal::Insecure(TRIPLE_DES)),
        TRIPLE_DES | "des3_ede" => {
            let key = key(enc, "enc")?;
            if key.len() != 24 {
                return Err(wrong(TRIPLE_DES, "24", key.len()));
            }
            BlockCipher::triple_des(key).map(Some).ok_or(CipherRefusal::Key(TRIPLE_DES))
        }
        NULL | "ecb(cipher_null)" if !insecure => Err(CipherRefusal::Insecure(NULL)),
        NULL | "ecb(cipher_null)" => match enc.key.as_ref().map_or(0, |key| key.bytes().len()) {
            0 => Ok(None),
            given => Err(wrong(NULL, "0", given)),
        },
        other => {
            let known = "cbc(aes), and with insecure cbc(des3_ede) and cipher_null";
            Err(CipherRefusal::Unknown { kind: "enc", name: other.to_owned(), known })
        }
    }
}

/// The integrity apart, and the length of its check value, bytes.
fn integrity(auth: &XfrmAlgorithm, insecure: bool) -> Result<(hmac::Key, usize), CipherRefusal> {
    let (name, algorithm, bits, len) = match auth.name.as_str() {
        SHA256 | "sha256" => (SHA256, HMAC_SHA256, 128, 32),
        SHA1 | "sha1" if !insecure => return Err(CipherRefusal::Insecure(SHA1)),
        SHA1 | "sha1" => (SHA1, HMAC_SHA1_FOR_LEGACY_USE_ONLY, 96, 20),
        other => {
            let known = "hmac(sha256), and with insecure hmac(sha1)";
            return Err(CipherRefusal::Unknown { kind: "auth", name: other.to_owned(), known });
        }
    };
    check_icv(auth, name, bits)?;
    let key = key(auth, "auth")?;
    if key.len() != len {
        let right = if len == 32 { "32" } else { "20" };
        return Err(CipherRefusal::KeyLength { name, right, given: key.len() });
    }
    Ok((hmac::Key::new(algorithm, key), usize::from(bits / 8)))
}

fn check_icv(
    algorithm: &XfrmAlgorithm,
    name: &'static str,
    right: u16,
) -> Result<(), CipherRefusal> {
    match algorithm.icv {
        Some(given) if given != right => Err(CipherRefusal::CheckLength { name, right, given }),
        _ => Ok(()),
    }
}
