//! `tasuki run --trace`: a line for each call that the relay is told of.
//!
//! The lines are like those of programs with the library, and end with `(relay)`. Pointers are
//! numbers, since the relay reads no memory of a program.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::io::Errno;

use crate::call::Notification;

/// Stands for standard error in place of a file.
pub const STDERR: &str = "-";

/// Where the lines go.
#[derive(Debug)]
pub struct CallTrace(File);

/// What became of a call.
pub(crate) enum Answer {
    /// The kernel makes it.
    LetThrough,
    Descriptor(i32),
    Done(Result<(), Errno>),
}

impl CallTrace {
    /// To the end of this file, which is there already; or to standard error ([`STDERR`]).
    ///
    /// # Errors
    /// The system's.
    pub fn open(path: &Path) -> io::Result<Self> {
        if path == Path::new(STDERR) {
            return Ok(Self(rustix::stdio::stderr().as_fd().try_clone_to_owned()?.into()));
        }
        File::options().append(true).open(path).map(Self)
    }

    /// One line. A line that cannot be written is lost.
    pub(crate) fn line(&self, call: &Notification, answer: &Answer) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let took = call.begun.elapsed();
        let begun = now.saturating_sub(took);
        let mut line = format!("{} {}.{:06} ", call.thread, begun.as_secs(), begun.subsec_micros());
        line += &call_text(call);
        let _ = match answer {
            Answer::LetThrough => write!(line, " = ?"),
            Answer::Descriptor(number) => write!(line, " = {number}"),
            Answer::Done(Ok(())) => write!(line, " = 0"),
            Answer::Done(Err(errno)) => {
                let text = io::Error::from(*errno).to_string();
                let text = text.split(" (os error").next().unwrap_or_default();
                write!(line, " = -1 {} ({text})", error_name(*errno))
            }
        };
        let _ = writeln!(line, " <{}.{:06}> (relay)", took.as_secs(), took.subsec_micros());
        let _ = (&self.0).write(line.as_bytes());
    }
}

fn call_text(call: &Notification) -> String {
    let [first, second, third, ..] = call.arguments;
    // Of an int, the kernel reads 32 bits.
    let int = |value: u64| (value as u32).cast_signed();
    match call.call {
        libc::SYS_socket => {
            let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
            let mut text = format!("socket({}, ", or(family(int(first)), int(first)));
            text += &or(kind(int(second) & !flags), int(second) & !flags);
            for (flag, name) in
                [(libc::SOCK_NONBLOCK, "|SOCK_NONBLOCK"), (libc::SOCK_CLOEXEC, "|SOCK_CLOEXEC")]
            {
                text += if int(second) & flag == 0 { "" } else { name };
            }
            let name = protocol(int(third)).filter(|_| int(first) != libc::AF_NETLINK);
            text + &format!(", {})", or(name, int(third)))
        }
        libc::SYS_bind => format!("bind({}, {second:#x}, {})", int(first), int(third)),
        libc::SYS_listen => format!("listen({}, {})", int(first), int(second)),
        other => format!("syscall_{other}({first:#x}, {second:#x}, {third:#x})"),
    }
}

fn or(name: Option<&str>, number: i32) -> String {
    name.map_or_else(|| number.to_string(), str::to_owned)
}

macro_rules! names {
    ($function:ident: $($name:ident)*) => {
        fn $function(value: i32) -> Option<&'static str> {
            match value {
                $(libc::$name => Some(stringify!($name)),)*
                _ => None,
            }
        }
    };
}

names!(family: AF_INET AF_INET6 AF_NETLINK);
names!(kind: SOCK_STREAM SOCK_DGRAM SOCK_RAW SOCK_SEQPACKET);
names!(protocol: IPPROTO_IP IPPROTO_ICMP IPPROTO_TCP IPPROTO_UDP IPPROTO_UDPLITE IPPROTO_ICMPV6);
names!(error: EPERM EACCES EINVAL EMFILE ENFILE ENOBUFS ENOMEM EADDRINUSE EADDRNOTAVAIL ENETDOWN
    EAFNOSUPPORT EPROTONOSUPPORT ESOCKTNOSUPPORT EOPNOTSUPP EIO);

fn error_name(errno: Errno) -> String {
    or(error(errno.raw_os_error()), errno.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_as_those_of_the_library() {
        let path = std::env::temp_dir().join(format!("tasuki-trace-{}", std::process::id()));
        let file = File::create(&path).unwrap();
        let trace = CallTrace::open(&path).unwrap();
        let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
        let call = |call, arguments| Notification::example(call, arguments);
        let arguments = [2, u64::from(kind.cast_unsigned()), 17, 0, 0, 0];
        trace.line(&call(libc::SYS_socket, arguments), &Answer::Descriptor(5));
        let refused = Answer::Done(Err(Errno::ADDRINUSE));
        trace.line(&call(libc::SYS_listen, [5, 128, 0, 0, 0, 0]), &refused);
        trace.line(&call(libc::SYS_bind, [5, 0x7000, 16, 0, 0, 0]), &Answer::LetThrough);
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for (line, expected) in lines.iter().zip([
            "socket(AF_INET, SOCK_DGRAM|SOCK_CLOEXEC, IPPROTO_UDP) = 5 <",
            "listen(5, 128) = -1 EADDRINUSE (Address already in use) <",
            "bind(5, 0x7000, 16) = ? <",
        ]) {
            assert!(line.starts_with("7 ") && line.contains(expected), "{line}");
            assert!(line.ends_with("> (relay)"), "{line}");
        }
        assert_eq!(lines.len(), 3);
        drop(file);
        std::fs::remove_file(path).unwrap();
    }
}
