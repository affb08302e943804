//! Who is let in: the token, and the names by which the page may be reached.
//!
//! * **Token.** The first request of a browser has it in its address. The answer moves it into a
//!   cookie that scripts cannot read and other sites' pages cannot use, and redirects to an address
//!   without it. So it is in no history, and in no `Referer`. Programs send it as a bearer token.
//! * **Host.** A foreign site may let its own name lead to this machine (DNS rebinding): the
//!   browser then takes our page for one of that site. Its requests have that name in `Host`. An
//!   address and `localhost` are nobody's names, so requests with anything else are refused.
//! * **Origin.** A browser says which site's page made a request. It must be our own.
//!
//! The port in `Host` may be another than ours: a tunnel may have changed it.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::net::{IpAddr, Ipv6Addr};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use base64ct::{Base64UrlUnpadded, Encoding as _};
use hyper::header::{AUTHORIZATION, COOKIE, HOST, HeaderMap, HeaderName, ORIGIN};
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use crate::exit::{Code, Failure};

/// Random bytes of a token.
const TOKEN_BYTES: usize = 32;
/// Characters of a token out of a file.
const TOKEN_CHARACTERS: std::ops::RangeInclusive<usize> = 32..=256;

/// What everybody must have who wants something.
pub(super) struct Token(Zeroizing<String>);

impl Token {
    /// A new one.
    pub(super) fn draw() -> Result<Self, Failure> {
        let mut bytes = Zeroizing::new([0; TOKEN_BYTES]);
        let flags = rustix::rand::GetRandomFlags::empty();
        let got = rustix::rand::getrandom(&mut bytes[..], flags);
        match got {
            Ok(TOKEN_BYTES) => {
                Ok(Self(Zeroizing::new(Base64UrlUnpadded::encode_string(&bytes[..]))))
            }
            Ok(few) => Err(Failure::system("draw a token", format!("only {few} random bytes"))),
            Err(errno) => Err(Failure::system("draw a token", errno)),
        }
    }

    /// The one in a file that nobody else can read.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        let wrong =
            |why: String| Failure::new(Code::Configuration, format!("--token-file {shown}: {why}"));
        let mut options = File::options();
        // A pipe that has no writer would make us wait.
        let nonblock = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let file = options.read(true).custom_flags(nonblock).open(path);
        let file = file.map_err(|error| wrong(error.to_string()))?;
        let about = file.metadata().map_err(|error| wrong(error.to_string()))?;
        let own = rustix::process::geteuid().as_raw();
        if !about.is_file() || about.mode() & 0o077 != 0 || ![own, 0].contains(&about.uid()) {
            let why = "it is to be a file of this user that others cannot read: chmod 600";
            return Err(wrong(why.to_owned()));
        }
        let mut text = Zeroizing::new(String::new());
        let most = *TOKEN_CHARACTERS.end() as u64 + 2;
        let read = file.take(most).read_to_string(&mut text);
        read.map_err(|error| wrong(error.to_string()))?;
        let token = text.trim_end_matches(['\r', '\n']);
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
        if !TOKEN_CHARACTERS.contains(&token.len()) || !token.chars().all(is_plain) {
            let why = "a token is a line of 32 to 256 letters, digits and -._~, such as that of \
                       `openssl rand -hex 32`";
            return Err(wrong(why.to_owned()));
        }
        Ok(Self(Zeroizing::new(token.to_owned())))
    }

    /// As text, which is safe in an address and in a cookie.
    pub(super) fn as_text(&self) -> &str {
        &self.0
    }

    /// Is it this one? The time says nothing about how much of it was right.
    fn is(&self, other: &str) -> bool {
        self.0.as_bytes().ct_eq(other.as_bytes()).into()
    }
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// `Host` is missing, or there are several.
    NoHost,
    /// `Host` is a name that may be another site's.
    ForeignHost,
    /// The page that made the request is another site's.
    ForeignOrigin,
    /// The token is missing or wrong.
    NoToken,
}

/// Decides on requests.
pub(super) struct Access {
    token: Token,
    /// Cookies are shared by all ports of a host.
    cookie: String,
}

impl Access {
    /// With this token, for a server at this port.
    pub(super) fn new(token: Token, port: u16) -> Self {
        Self { token, cookie: format!("tasuki-web-{port}") }
    }

    /// Is the request made by our own page, a program, or a person?
    pub(super) fn check_site(&self, headers: &HeaderMap) -> Result<(), Refused> {
        let host = only(headers, &HOST).map_err(|_| Refused::NoHost)?.ok_or(Refused::NoHost)?;
        if !is_nobodys_name(host) {
            return Err(Refused::ForeignHost);
        }
        match only(headers, &ORIGIN) {
            Ok(None) => Ok(()),
            Ok(Some(origin)) if origin.strip_prefix("http://") == Some(host) => Ok(()),
            _ => Err(Refused::ForeignOrigin),
        }
    }

    /// Does the request have the token, in a cookie or as a bearer token?
    pub(super) fn check_token(&self, headers: &HeaderMap) -> Result<(), Refused> {
        let bearer = only(headers, &AUTHORIZATION).ok().flatten();
        let bearer = bearer.and_then(|value| {
            let (scheme, token) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
        });
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let cookies = cookies.flat_map(|value| value.split(';')).filter_map(|pair| {
            let (name, value) = pair.trim().split_once('=')?;
            (name == self.cookie).then_some(value)
        });
        let found = bearer.into_iter().chain(cookies).any(|token| self.token.is(token));
        if found { Ok(()) } else { Err(Refused::NoToken) }
    }

    /// Does the address of the request have the token? `None` if it has none at all.
    pub(super) fn check_query(&self, query: Option<&str>) -> Option<Result<(), Refused>> {
        let mut pairs = query?.split('&').filter_map(|pair| pair.split_once('='));
        let (_, token) = pairs.find(|(name, _)| *name == "token")?;
        Some(if self.token.is(token) { Ok(()) } else { Err(Refused::NoToken) })
    }

    /// The cookie that has the token, for `Set-Cookie`.
    pub(super) fn cookie(&self) -> Zeroizing<String> {
        let mut cookie = Zeroizing::new(String::with_capacity(self.cookie.len() + 320));
        // Writing to a string does not fail.
        let _ = write!(cookie, "{}={}", self.cookie, self.token.as_text());
        cookie.push_str("; Path=/; HttpOnly; SameSite=Strict");
        cookie
    }
}

/// The value of a header that there is at most once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, ()> {
    let mut all = headers.get_all(name).iter();
    let first = all.next().map(|value| value.to_str().map_err(|_| ())).transpose()?;
    if all.next().is_some() { Err(()) } else { Ok(first) }
}

/// An address or `localhost`, with or without a port: nobody can have a DNS name that is so.
fn is_nobodys_name(host: &str) -> bool {
    if let Some(rest) = host.strip_prefix('[') {
        let Some((address, port)) = rest.split_once(']') else { return false };
        return address.parse::<Ipv6Addr>().is_ok() && (port.is_empty() || is_port(port));
    }
    let (name, port) = match host.find(':') {
        Some(at) => host.split_at(at),
        None => (host, ""),
    };
    let is_address = matches!(name.parse(), Ok(IpAddr::V4(_)));
    (is_address || name.eq_ignore_ascii_case("localhost")) && (port.is_empty() || is_port(port))
}

/// A colon and a number.
fn is_port(text: &str) -> bool {
    text.strip_prefix(':').is_some_and(|number| {
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) && number.len() <= 5
    })
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn headers(all: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in all {
            map.append(*name, HeaderValue::from_str(value).unwrap());
        }
        map
    }

    fn access() -> Access {
        Access::new(Token(Zeroizing::new("right".to_owned())), 8642)
    }

    #[test]
    fn names_that_nobody_can_have() {
        for good in
            ["127.0.0.1", "127.0.0.1:8642", "localhost:9000", "LocalHost", "[::1]:1", "[fd00::2]"]
        {
            assert!(is_nobodys_name(good), "{good}");
        }
        for bad in [
            "",
            "evil.example",
            "evil.example:8642",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "127.0.0.1:",
            "127.0.0.1:x",
            "127.0.0.1:8642:1",
            "[::1",
            "[::1]x",
            "::1",
            "[evil.example]:80",
            "2130706433",
            "user@127.0.0.1",
        ] {
            assert!(!is_nobodys_name(bad), "{bad}");
        }
    }

    #[test]
    fn sites() {
        let access = access();
        for (given, expected) in [
            (&[("host", "127.0.0.1:8642")][..], Ok(())),
            (&[("host", "localhost:1"), ("origin", "http://localhost:1")], Ok(())),
            (&[], Err(Refused::NoHost)),
            (&[("host", "127.0.0.1"), ("host", "127.0.0.1")], Err(Refused::NoHost)),
            (&[("host", "evil.example:8642")], Err(Refused::ForeignHost)),
            (
                &[("host", "127.0.0.1:8642"), ("origin", "http://evil.example")],
                Err(Refused::ForeignOrigin),
            ),
            (&[("host", "127.0.0.1:8642"), ("origin", "null")], Err(Refused::ForeignOrigin)),
            (
                &[("host", "127.0.0.1:8642"), ("origin", "http://127.0.0.1:1")],
                Err(Refused::ForeignOrigin),
            ),
            (
                &[("host", "127.0.0.1:1"), ("origin", "https://127.0.0.1:1")],
                Err(Refused::ForeignOrigin),
            ),
        ] {
            assert_eq!(access.check_site(&headers(given)), expected, "{given:?}");
        }
    }

    #[test]
    fn tokens() {
        let access = access();
        for (given, is_right) in [
            (&[("authorization", "Bearer right")][..], true),
            (&[("authorization", "bearer right")], true),
            (&[("authorization", "Basic right")], false),
            (&[("authorization", "Bearer wrong")], false),
            (&[("authorization", "Bearer ")], false),
            (&[("cookie", "tasuki-web-8642=right")], true),
            (&[("cookie", "a=b; tasuki-web-8642=right; c=d")], true),
            (&[("cookie", "a=b"), ("cookie", "tasuki-web-8642=right")], true),
            (&[("cookie", "tasuki-web-8642=righ")], false),
            (&[("cookie", "tasuki-web-1=right")], false),
            (&[], false),
        ] {
            assert_eq!(access.check_token(&headers(given)).is_ok(), is_right, "{given:?}");
        }
        assert_eq!(access.check_query(None), None);
        assert_eq!(access.check_query(Some("a=b")), None);
        assert_eq!(access.check_query(Some("token=right")), Some(Ok(())));
        assert_eq!(access.check_query(Some("a=b&token=right")), Some(Ok(())));
        assert_eq!(access.check_query(Some("token=")), Some(Err(Refused::NoToken)));
        let cookie = access.cookie();
        assert_eq!(&cookie[..], "tasuki-web-8642=right; Path=/; HttpOnly; SameSite=Strict");
    }

    #[test]
    fn drawn_tokens_differ_and_are_long() {
        let (one, other) = (Token::draw().unwrap(), Token::draw().unwrap());
        assert_eq!(one.as_text().len(), 43);
        assert!(!one.is(other.as_text()) && one.is(one.as_text()));
    }

    #[test]
    fn tokens_of_files() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        let write = |text: &str, mode: u32| {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            Token::read(&path)
        };
        let good = "a".repeat(32);
        assert_eq!(write(&format!("{good}\n"), 0o600).unwrap().as_text(), good);
        for (text, mode) in [
            (&good[..], 0o640),
            ("short", 0o600),
            (&"a".repeat(257), 0o600),
            (&"a b".repeat(20), 0o600),
            (&format!("{good}\n{good}"), 0o600),
        ] {
            let failure = write(text, mode).err().expect("a failure");
            assert_eq!(failure.code, Code::Configuration, "{failure}");
        }
        assert!(Token::read(directory.path()).is_err());
    }
}
