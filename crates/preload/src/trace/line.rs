//! One line of the trace, in a place of its own.
//!
//! Arguments that point to memory are read by a system call: a pointer that means nothing is then
//! shown as a number, and does no harm.

#![allow(unsafe_code)]

use core::ffi::c_int;
use core::fmt::Write as _;
use core::mem::size_of;

use libc::{epoll_event, iovec, pollfd};
use rustix::fs::Timespec;

use super::arguments::{Argument, Arguments};
use super::symbols::{self, Flags};
use crate::sockaddr::Name;

/// Bytes of a line; more are left out.
const LONGEST: usize = 1024;
/// Bytes of payload that are shown, as strace does.
const PAYLOAD: usize = 32;
/// Entries of poll and epoll that are shown.
const ENTRIES: usize = 8;

/// A result, as the line shows it.
pub(crate) trait Shown {
    /// Below zero: an error.
    fn value(&self) -> i64;
}

macro_rules! shown {
    ($($ty:ty)*) => {$(
        impl Shown for $ty {
            fn value(&self) -> i64 {
                i64::try_from(*self).unwrap_or(i64::MAX)
            }
        }
    )*};
}

shown!(i32 u32 isize);

impl Shown for () {
    fn value(&self) -> i64 {
        0
    }
}

impl<T> Shown for *mut T {
    fn value(&self) -> i64 {
        i64::try_from(self.addr()).unwrap_or(i64::MAX)
    }
}

/// An argument's bits, sign-extended.
pub(crate) trait Raw {
    fn raw(self) -> u64;
}

macro_rules! raw {
    ($($ty:ty)*) => {$(
        impl Raw for $ty {
            fn raw(self) -> u64 {
                #[allow(clippy::cast_sign_loss, reason = "bits, shown again as what they were")]
                let bits = self as u64;
                bits
            }
        }
    )*};
}

raw!(i32 u32 i64 u64 usize);

impl<T> Raw for *const T {
    fn raw(self) -> u64 {
        self.addr() as u64
    }
}

impl<T> Raw for *mut T {
    fn raw(self) -> u64 {
        self.addr() as u64
    }
}

/// See the module's head.
pub(super) struct Line {
    bytes: [u8; LONGEST],
    len: usize,
}

impl core::fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        // The last byte is the line's end.
        let room = LONGEST - 1 - self.len;
        let part = &text.as_bytes()[..text.len().min(room)];
        self.bytes[self.len..self.len + part.len()].copy_from_slice(part);
        self.len += part.len();
        Ok(())
    }
}

impl Line {
    /// Of this process, with the time of the call.
    pub(super) fn begin(at: Timespec) -> Self {
        let mut line = Self { bytes: [0; LONGEST], len: 0 };
        let pid = rustix::process::getpid().as_raw_nonzero();
        line.add(format_args!("{pid} {}.{:06} ", at.tv_sec, at.tv_nsec / 1000));
        line
    }

    fn add(&mut self, text: core::fmt::Arguments<'_>) {
        // Writing into a line fails never.
        let _ = self.write_fmt(text);
    }

    /// The call. `result` says how much of its output there is.
    pub(super) fn call(&mut self, name: &str, arguments: &Arguments, result: i64) {
        self.add(format_args!("{name}("));
        for (at, (kind, value)) in arguments.iter().flatten().enumerate() {
            if at > 0 {
                self.add(format_args!(", "));
            }
            let other = |at: Option<usize>| {
                let found = at.and_then(|at| *arguments.get(at)?);
                found.map_or(0, |(_, value)| value)
            };
            let (before, after) = (other(at.checked_sub(1)), other(at.checked_add(1)));
            self.argument(*kind, *value, (before, after), result);
        }
        self.add(format_args!(")"));
    }

    /// The result, and what an error means.
    pub(super) fn result(&mut self, result: i64, number: c_int) {
        if result >= 0 {
            return self.add(format_args!(" = {result}"));
        }
        match symbols::error(number) {
            Some(name) => self.add(format_args!(" = -1 {name}")),
            None => self.add(format_args!(" = -1 {number}")),
        }
        let mut text = [0; 128];
        // SAFETY: the buffer is as long as the call is told.
        let done = unsafe { libc::strerror_r(number, text.as_mut_ptr().cast(), text.len()) };
        if done == 0
            && let Some(end) = text.iter().position(|byte| *byte == 0)
            && let Ok(text) = core::str::from_utf8(&text[..end])
        {
            self.add(format_args!(" ({text})"));
        }
    }

    /// The call's time, and the line's end.
    pub(super) fn end(&mut self, nanos: i64) {
        self.add(format_args!(" <{}.{:06}>", nanos / 1_000_000_000, nanos / 1000 % 1_000_000));
        self.bytes[self.len] = b'\n';
        self.len += 1;
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn argument(&mut self, kind: Argument, value: u64, (before, after): (u64, u64), result: i64) {
        let number = int(value);
        // What an argument points to after the call.
        let written = usize::try_from(result).unwrap_or(0);
        match kind {
            Argument::Number => self.add(format_args!("{}", value.cast_signed())),
            Argument::Hexadecimal if value == 0 => self.add(format_args!("0")),
            Argument::Hexadecimal => self.add(format_args!("{value:#x}")),
            Argument::Family => self.name(symbols::family(number), number),
            Argument::SocketType => {
                let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
                self.name(symbols::socket_type(number & !flags), number & !flags);
                if number & flags != 0 {
                    self.add(format_args!("|"));
                    self.flags(number & flags, symbols::SOCKET_FLAGS);
                }
            }
            Argument::SocketFlags => self.flags(number, symbols::SOCKET_FLAGS),
            Argument::Protocol => self.name(symbols::protocol(number), number),
            Argument::MessageFlags => self.flags(number, symbols::MESSAGE_FLAGS),
            Argument::AddressIn => self.address(value, length(after)),
            Argument::AddressOut if result < 0 => self.pointer(value),
            Argument::AddressOut => self.address(value, pointed(after)),
            Argument::LengthOut if result < 0 => self.pointer(value),
            Argument::LengthOut => self.add(format_args!("[{}]", pointed(value))),
            Argument::BytesIn => self.payload(value, length(after)),
            Argument::BytesOut if result < 0 => self.pointer(value),
            Argument::BytesOut => self.payload(value, written.min(length(after))),
            Argument::Level => self.name(symbols::level(number), number),
            Argument::OptionName => self.name(symbols::option(int(before), number), number),
            Argument::ValueIn => self.option_value(value, length(after)),
            Argument::ValueOut if result < 0 => self.pointer(value),
            Argument::ValueOut => self.option_value(value, pointed(after)),
            Argument::Direction => self.name(symbols::direction(number), number),
            Argument::EpollOperation => self.name(symbols::epoll_operation(number), number),
            Argument::EpollEvent => self.epoll_events(value, 1),
            Argument::EpollEvents if result < 0 => self.pointer(value),
            Argument::EpollEvents => self.epoll_events(value, written),
            Argument::PollEntries => self.poll_entries(value, length(after)),
        }
    }

    fn name(&mut self, name: Option<&str>, number: c_int) {
        match name {
            Some(name) => self.add(format_args!("{name}")),
            None => self.add(format_args!("{number}")),
        }
    }

    fn flags(&mut self, value: c_int, known: &Flags) {
        if value == 0 {
            return self.add(format_args!("0"));
        }
        let (mut rest, mut first) = (value, true);
        for (flag, name) in known {
            if *flag != 0 && rest & flag == *flag {
                self.add(format_args!("{}{name}", if first { "" } else { "|" }));
                rest &= !flag;
                first = false;
            }
        }
        if rest != 0 {
            self.add(format_args!("{}{rest:#x}", if first { "" } else { "|" }));
        }
    }

    fn pointer(&mut self, value: u64) {
        match value {
            0 => self.add(format_args!("NULL")),
            value => self.add(format_args!("{value:#x}")),
        }
    }

    fn address(&mut self, at: u64, len: usize) {
        let mut bytes = [0; crate::sockaddr::LONGEST];
        let Some(bytes) = copy(at, &mut bytes, len) else { return self.pointer(at) };
        match Name::parse(bytes) {
            Ok(Name::V4(address)) => self.add(format_args!("{{AF_INET, {address}}}")),
            Ok(Name::V6(address)) => self.add(format_args!("{{AF_INET6, {address}}}")),
            Ok(Name::Unspecified(_)) => self.add(format_args!("{{AF_UNSPEC}}")),
            Ok(Name::ShortV6 | Name::Other) | Err(_) => self.pointer(at),
        }
    }

    fn payload(&mut self, at: u64, len: usize) {
        let mut bytes = [0; PAYLOAD];
        if len == 0 {
            return self.add(format_args!("\"\""));
        }
        let Some(shown) = copy(at, &mut bytes, len) else { return self.pointer(at) };
        self.add(format_args!("\"{}\"", shown.escape_ascii()));
        if shown.len() < len {
            self.add(format_args!("..."));
        }
    }

    fn option_value(&mut self, at: u64, len: usize) {
        let mut bytes = [0; PAYLOAD];
        match copy(at, &mut bytes, len) {
            Some(&mut [a, b, c, d]) => {
                self.add(format_args!("[{}]", c_int::from_ne_bytes([a, b, c, d])));
            }
            Some(_) => self.payload(at, len),
            None => self.pointer(at),
        }
    }

    fn poll_entries(&mut self, at: u64, count: usize) {
        const SIZE: usize = size_of::<pollfd>();
        self.entries(at, (count, SIZE), |line, entry| {
            let fd = c_int::from_ne_bytes(field(entry, 0));
            let events = |at| c_int::from(i16::from_ne_bytes(field(entry, at)));
            line.add(format_args!("{{fd={fd}, events="));
            line.flags(events(4), symbols::POLL_FLAGS);
            if events(6) != 0 {
                line.add(format_args!(", revents="));
                line.flags(events(6), symbols::POLL_FLAGS);
            }
            line.add(format_args!("}}"));
        });
    }

    fn epoll_events(&mut self, at: u64, count: usize) {
        const SIZE: usize = size_of::<epoll_event>();
        self.entries(at, (count, SIZE), |line, entry| {
            let data = u64::from_ne_bytes(field(entry, SIZE - 8));
            line.add(format_args!("{{"));
            line.flags(c_int::from_ne_bytes(field(entry, 0)), symbols::EPOLL_FLAGS);
            line.add(format_args!(", {data:#x}}}"));
        });
    }

    /// The first ones of `count` entries of `size` bytes.
    fn entries(&mut self, at: u64, (count, size): (usize, usize), show: fn(&mut Self, &[u8])) {
        let mut bytes = [0; ENTRIES * size_of::<epoll_event>()];
        let seen = count.min(ENTRIES);
        let copied = copy(at, &mut bytes, seen * size);
        if at == 0 || copied.is_none() && count > 0 {
            return self.pointer(at);
        }
        self.add(format_args!("["));
        for (index, entry) in copied.into_iter().flat_map(|all| all.chunks_exact(size)).enumerate()
        {
            if index > 0 {
                self.add(format_args!(", "));
            }
            show(self, entry);
        }
        self.add(format_args!("{}]", if seen < count { ", ..." } else { "" }));
    }
}

/// Bytes of a field of a structure.
fn field<const N: usize>(entry: &[u8], at: usize) -> [u8; N] {
    entry.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or([0; N])
}

fn int(value: u64) -> c_int {
    #[expect(clippy::cast_possible_truncation, reason = "it was an int")]
    let number = value as u32;
    number.cast_signed()
}

fn length(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

/// The `socklen_t` at an address.
fn pointed(at: u64) -> usize {
    let mut bytes = [0; 4];
    let len = copy(at, &mut bytes, 4).map_or(0, |bytes| u32::from_ne_bytes(field(bytes, 0)));
    usize::try_from(len).unwrap_or(0)
}

/// Copies the first of `len` bytes of this process, as many as fit. `None`: they cannot be read.
fn copy(at: u64, to: &mut [u8], len: usize) -> Option<&mut [u8]> {
    let len = len.min(to.len());
    let at = usize::try_from(at).ok().filter(|at| *at != 0)?;
    let to = &mut to[..len];
    let local = iovec { iov_base: to.as_mut_ptr().cast(), iov_len: len };
    let remote = iovec { iov_base: core::ptr::without_provenance_mut(at), iov_len: len };
    let own = rustix::process::getpid().as_raw_nonzero().get();
    // SAFETY: it writes into `to` only, at most its length. The other address may be any.
    let copied =
        unsafe { libc::process_vm_readv(own, &raw const local, 1, &raw const remote, 1, 0) };
    (usize::try_from(copied) == Ok(len)).then_some(to)
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::super::arguments::{kinds, with_kinds};
    use super::*;

    fn shown(name: &str, arguments: &[u64], result: i64, errno: Errno) -> String {
        let mut line = Line { bytes: [0; LONGEST], len: 0 };
        line.call(name, &with_kinds(kinds(name).unwrap(), arguments), result);
        line.result(result, errno.raw_os_error());
        String::from_utf8(line.bytes().to_vec()).unwrap()
    }

    const NONE: Errno = Errno::IO;

    #[test]
    fn constants_have_names() {
        let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        let line = shown("socket", &[libc::AF_INET.raw(), kind.raw(), 0], 3, NONE);
        let kind = "SOCK_STREAM|SOCK_NONBLOCK|SOCK_CLOEXEC";
        assert_eq!(line, format!("socket(AF_INET, {kind}, IPPROTO_IP) = 3"));
        let line = shown("socket", &[77, 99, 1], -1, Errno::AFNOSUPPORT);
        let why = "-1 EAFNOSUPPORT (Address family not supported by protocol)";
        assert_eq!(line, format!("socket(77, 99, IPPROTO_ICMP) = {why}"));
        let on = 1_i32;
        let value = (&raw const on).raw();
        let arguments = [3, libc::IPPROTO_TCP.raw(), libc::TCP_NODELAY.raw(), value, 4];
        let line = shown("setsockopt", &arguments, 0, NONE);
        assert_eq!(line, "setsockopt(3, IPPROTO_TCP, TCP_NODELAY, [1], 4) = 0");
    }

    #[test]
    fn addresses_and_payload_are_readable() {
        let mut address = [0_u8; 16];
        address[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
        address[2..8].copy_from_slice(&[0, 80, 10, 0, 0, 1]);
        let at = (&raw const address).raw();
        let line = shown("connect", &[3, at, 16], -1, Errno::CONNREFUSED);
        let why = "-1 ECONNREFUSED (Connection refused)";
        assert_eq!(line, format!("connect(3, {{AF_INET, 10.0.0.1:80}}, 16) = {why}"));
        let bytes = *b"GET / HTTP/1.1\r\nHost: somewhere.example";
        let line = shown("send", &[3, (&raw const bytes).raw(), 39, 0x4000], 39, NONE);
        let text = "\"GET / HTTP/1.1\\r\\nHost: somewhere.\"...";
        assert_eq!(line, format!("send(3, {text}, 39, MSG_NOSIGNAL) = 39"));
        let line = shown("recv", &[3, (&raw const bytes).raw(), 99, 0], 3, NONE);
        assert_eq!(line, "recv(3, \"GET\", 99, 0) = 3");
    }

    #[test]
    fn pointers_that_mean_nothing_do_no_harm() {
        let line = shown("connect", &[3, 0x10, 16], -1, Errno::FAULT);
        assert_eq!(line, "connect(3, 0x10, 16) = -1 EFAULT (Bad address)");
        assert_eq!(shown("accept", &[3, 0, 0], 4, NONE), "accept(3, NULL, [0]) = 4");
        assert_eq!(shown("poll", &[0, 0, 5], 0, NONE), "poll(NULL, 0, 5) = 0");
        assert_eq!(
            shown("send", &[3, 1 << 60, 8, 0], 8, NONE),
            "send(3, 0x1000000000000000, 8, 0) = 8"
        );
    }

    #[test]
    fn lists_are_cut() {
        let entry = pollfd { fd: 5, events: libc::POLLIN, revents: libc::POLLIN | libc::POLLHUP };
        let all = [entry; 20];
        let line = shown("poll", &[(&raw const all).raw(), 20, u64::MAX], 20, NONE);
        assert!(
            line.starts_with("poll([{fd=5, events=POLLIN, revents=POLLIN|POLLHUP}, "),
            "{line}"
        );
        assert!(line.ends_with("}, ...], 20, -1) = 20"), "{line}");
        let one = epoll_event { events: (libc::EPOLLIN | libc::EPOLLET).cast_unsigned(), u64: 7 };
        let line = shown("epoll_ctl", &[3, 1, 4, (&raw const one).raw()], 0, NONE);
        assert_eq!(line, "epoll_ctl(3, EPOLL_CTL_ADD, 4, [{EPOLLIN|EPOLLET, 0x7}]) = 0");
        let long = shown("write", &[3, (&raw const all).raw(), 160], 160, NONE);
        assert!(long.len() < LONGEST, "{long}");
    }
}
