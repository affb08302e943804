//! The Fast Open option of a SYN (RFC 7413 4.1.1).

/// Longest cookie, bytes (RFC 7413 4.1.1).
pub const MAX_COOKIE: usize = 16;

/// A Fast Open option: a cookie with an even number of bytes, 4 to 16. An empty one asks for a
/// cookie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FastOpenOption {
    /// In the form of before the option had a number (RFC 7413, appendix of its drafts; RFC 6994).
    pub experimental: bool,
    len: u8,
    bytes: [u8; MAX_COOKIE],
}

impl FastOpenOption {
    /// An option that asks for a cookie.
    pub fn request(experimental: bool) -> Self {
        Self { experimental, ..Self::default() }
    }

    /// An option with a cookie; `None` if its length is impossible.
    pub fn new(experimental: bool, cookie: &[u8]) -> Option<Self> {
        let legal = cookie.len().is_multiple_of(2) && (4..=MAX_COOKIE).contains(&cookie.len());
        let mut option =
            Self { experimental, len: u8::try_from(cookie.len()).ok()?, bytes: [0; 16] };
        option.bytes.get_mut(..cookie.len())?.copy_from_slice(cookie);
        legal.then_some(option)
    }

    /// The cookie; empty if one is asked for.
    pub fn cookie(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }
}
