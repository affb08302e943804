//! iSCSI names (RFC 7143 4.2.7): the formats `iqn.`, `eui.` and `naa.`.
//!
//! A name is kept in lower case, as names are compared after case folding (RFC 3722). Only ASCII
//! names are taken.

use std::fmt;
use std::str::FromStr;

/// The longest name in bytes (RFC 7143 4.2.7.1).
pub const MAX_NAME: usize = 223;

/// The name of an initiator or a target.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IscsiName(String);

/// Why a text is no iSCSI name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The text is empty or longer than [`MAX_NAME`].
    #[error("an iSCSI name has 1 to {MAX_NAME} bytes, not {0}")]
    Length(usize),
    /// The text begins with no known format.
    #[error("an iSCSI name begins with iqn., eui. or naa.")]
    Format,
    /// A character that names do not have.
    #[error("an iSCSI name has letters, digits, '-', '.' and ':', not {0:?}")]
    Character(char),
    /// `iqn.` without a date `yyyy-mm` and a reversed domain.
    #[error("an iqn. name is iqn.yyyy-mm.reversed.domain[:anything]")]
    Iqn,
    /// `eui.` without 16, or `naa.` without 16 or 32 hexadecimal digits.
    #[error("an eui. name has 16 hexadecimal digits, a naa. name 16 or 32")]
    Digits,
}

impl IscsiName {
    /// The name in lower case.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for IscsiName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        if text.is_empty() || text.len() > MAX_NAME {
            return Err(NameError::Length(text.len()));
        }
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-.:".contains(c);
        if let Some(wrong) = text.chars().find(|c| !allowed(*c)) {
            return Err(NameError::Character(wrong));
        }
        let name = text.to_ascii_lowercase();
        let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
        match name.split_at_checked(4) {
            // RFC 7143 4.2.7.4
            Some(("iqn.", rest)) if is_iqn(rest) => {}
            Some(("iqn.", _)) => return Err(NameError::Iqn),
            // RFC 7143 4.2.7.5
            Some(("eui.", rest)) if rest.len() == 16 && is_hex(rest) => {}
            // RFC 7143 4.2.7.6
            Some(("naa.", rest)) if [16, 32].contains(&rest.len()) && is_hex(rest) => {}
            Some(("eui." | "naa.", _)) => return Err(NameError::Digits),
            _ => return Err(NameError::Format),
        }
        Ok(Self(name))
    }
}

/// `yyyy-mm.domain[:text]`.
fn is_iqn(rest: &str) -> bool {
    let Some((date, domain)) = rest.split_once('.') else { return false };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let dated = match date.split_once('-') {
        Some((year, month)) => {
            year.len() == 4
                && digits(year)
                && month.len() == 2
                && digits(month)
                && ("01"..="12").contains(&month)
        }
        None => false,
    };
    let domain = domain.split(':').next().unwrap_or_default();
    dated && !domain.is_empty() && domain.split('.').all(|label| !label.is_empty())
}

impl fmt::Display for IscsiName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for IscsiName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_three_formats_are_taken() {
        for name in [
            "iqn.2007-10.com.github:sahlberg:libiscsi:iscsi-test",
            "iqn.1993-08.org.debian:01:abcdef",
            "iqn.2001-04.com.example",
            "eui.02004567a425678d",
            "naa.52004567ba64678d",
            "naa.62004567ba64678d0123456789abcdef",
        ] {
            assert_eq!(name.parse::<IscsiName>().map(|name| name.0), Ok(name.to_owned()));
        }
        let upper: IscsiName = "IQN.2001-04.COM.Example".parse().expect("a name");
        assert_eq!(upper.as_str(), "iqn.2001-04.com.example");
    }

    #[test]
    fn other_texts_are_refused() {
        let long = format!("iqn.2001-04.com.example:{}", "a".repeat(200));
        for (text, error) in [
            ("", NameError::Length(0)),
            (&long[..], NameError::Length(224)),
            ("disk", NameError::Format),
            ("iqn.2001-04.com.exa mple", NameError::Character(' ')),
            ("iqn.2001-04.com.exämple", NameError::Character('ä')),
            ("iqn.2001-13.com.example", NameError::Iqn),
            ("iqn.01-04.com.example", NameError::Iqn),
            ("iqn.2001-04", NameError::Iqn),
            ("iqn.2001-04.:disks", NameError::Iqn),
            ("iqn.2001-04.com..example", NameError::Iqn),
            ("eui.0200", NameError::Digits),
            ("naa.52004567ba64678g", NameError::Digits),
        ] {
            assert_eq!(text.parse::<IscsiName>(), Err(error), "{text}");
        }
    }
}
