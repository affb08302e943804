//! Values of keys (RFC 7143 6.1).

use base64ct::{Base64, Base64Unpadded, Encoding};

/// A numerical value, decimal or hexadecimal.
pub(crate) fn number(text: &str) -> Option<u32> {
    let (digits, radix) = match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    let plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u32::from_str_radix(digits, radix).ok().filter(|_| plain)
}

/// A boolean value.
pub(crate) fn boolean(text: &str) -> Option<bool> {
    match text {
        "Yes" => Some(true),
        "No" => Some(false),
        _ => None,
    }
}

/// A large binary value of at most `most` bytes: `0x` with hexadecimal digits, or `0b` with base64.
pub(crate) fn binary(text: &str, most: usize) -> Option<Vec<u8>> {
    let (form, digits) = text.split_at_checked(2)?;
    if digits.is_empty() || digits.len() > 2 * most + 4 {
        return None;
    }
    let bytes = match form {
        "0x" | "0X" => unhex(digits)?,
        "0b" | "0B" => {
            Base64::decode_vec(digits).or_else(|_| Base64Unpadded::decode_vec(digits)).ok()?
        }
        _ => return None,
    };
    (bytes.len() <= most).then_some(bytes)
}

/// An odd number of digits has a zero before it.
fn unhex(digits: &str) -> Option<Vec<u8>> {
    let digit =
        |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let digits: Option<Vec<u8>> = digits.as_bytes().iter().map(digit).collect();
    let digits = digits?;
    let (first, rest) = digits.split_at(digits.len() % 2);
    let pairs = rest.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]);
    Some(first.iter().copied().chain(pairs).collect())
}

/// `0x` and hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(u32::from(value), 16).unwrap_or('0');
    let digits = bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]);
    "0x".chars().chain(digits).collect()
}
