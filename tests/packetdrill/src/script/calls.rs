//! Socket calls of scripts. They are translated from their notation to the host's, and their
//! results are compared.

use std::net::SocketAddr;

use super::run::Run;
use super::state::{PORT, PacketOwner, PendingCall};
use super::symbols;
use super::syntax::{Call, Fault, Value};
use crate::host::{EpollEvent, Outcome, PollFd, Progress, Stop};

/// The outer error is the script's or the comparison's, the inner one the call's.
type Attempt = Result<Outcome<i64>, String>;

impl Run {
    /// Makes a call; one with an `end` may wait.
    pub(super) fn call(&mut self, call: &Call, begun: i64, end: Option<i64>) -> Result<(), Fault> {
        let mut progress = Progress::default();
        let attempt = self.attempt(call, &mut progress).or_else(|text| self.fault(text))?;
        match (attempt, end) {
            (Err(Stop::Wait(until)), Some(end)) => {
                if self.pending.is_some() {
                    return self.fault("another call waits already");
                }
                let (call, line) = (call.clone(), self.line);
                self.pending = Some(PendingCall { call, line, begun, end, progress, until });
                Ok(())
            }
            (Err(Stop::Wait(_)), None) => self.fault(format!("{} waits", call.name)),
            (outcome, end) => {
                if let Some(end) = end {
                    self.check_time(self.clock(self.host.now()), (end, end), "the return")?;
                }
                self.conclude(call, outcome)
            }
        }
    }

    /// Lets a waiting call look whether it can return.
    pub(super) fn retry(&mut self) -> Result<(), Fault> {
        let Some(mut pending) = self.pending.take() else { return Ok(()) };
        let line = std::mem::replace(&mut self.line, pending.line);
        let attempt = self.attempt(&pending.call, &mut pending.progress);
        match attempt.or_else(|text| self.fault(text))? {
            Err(Stop::Wait(until)) => {
                pending.until = until;
                self.pending = Some(pending);
            }
            outcome => {
                let now = self.clock(self.host.now());
                let wanted = (pending.end, pending.end);
                self.check_time_since(pending.begun, now, wanted, "the return")?;
                self.conclude(&pending.call, outcome)?;
            }
        }
        self.line = line;
        Ok(())
    }

    /// Compares the result of a call with that in the script.
    fn conclude(&mut self, call: &Call, outcome: Outcome<i64>) -> Result<(), Fault> {
        let wanted = integer(&call.result).or_else(|text| self.fault(text))?;
        let makes_fd = ["socket", "accept", "epoll_create"].contains(&&call.name[..]);
        let (found, errno) = match outcome {
            Ok(value) => (value, None),
            Err(Stop::Errno(errno)) => (-1, Some(errno)),
            Err(Stop::Wait(_)) => return self.fault("a call waits"),
        };
        if makes_fd && wanted >= 0 && found >= 0 {
            let fd = i32::try_from(found).unwrap_or(-1);
            self.fds.insert(wanted, fd);
            if call.name != "epoll_create" {
                self.tested = Some(fd);
            }
            return Ok(());
        }
        let named = errno.map(symbols::errno_name).unwrap_or_default();
        if found != wanted {
            let message = format!("{} gives {found} {named}, not {wanted}", call.name);
            return self.fault(message.replace("  ", " ").replace(" ,", ","));
        }
        match &call.errno {
            Some(wanted) if *wanted != named => {
                self.fault(format!("{} fails with {named}, not {wanted}", call.name))
            }
            _ => Ok(()),
        }
    }

    fn fd(&self, value: &Value) -> Result<i32, String> {
        let number = integer(value)?;
        self.fds.get(&number).copied().ok_or_else(|| format!("{number} is no descriptor"))
    }

    fn attempt(&mut self, call: &Call, progress: &mut Progress) -> Attempt {
        let arguments = &call.arguments;
        let argument = |place: usize| {
            arguments.get(place).ok_or_else(|| format!("{} needs more arguments", call.name))
        };
        if call.name == "socket" {
            return self.attempt_socket(arguments);
        }
        if call.name == "epoll_create" {
            let size = small(argument(0)?)?;
            return Ok(self.host.epoll_create(size).map(i64::from));
        }
        if call.name == "poll" {
            return self.attempt_poll(arguments, progress);
        }
        let fd = self.fd(argument(0)?)?;
        Ok(match &call.name[..] {
            "bind" => done(self.host.bind(fd, SocketAddr::new(self.local, PORT))),
            "listen" => {
                let outcome = self.host.listen(fd, small(argument(1)?)?);
                if outcome.is_ok() {
                    self.owner = PacketOwner::Listener;
                }
                done(outcome)
            }
            "accept" => self.host.accept(fd).map(|(fd, _)| fd.into()),
            "connect" => {
                if self.owner != PacketOwner::Flow && !progress.has_begun() {
                    self.connecting();
                }
                done(self.host.connect(fd, SocketAddr::new(self.remote, PORT), progress))
            }
            "close" => {
                let outcome = self.host.close(fd);
                if let (Ok(()), Value::Int(number)) = (&outcome, argument(0)?) {
                    self.fds.remove(number);
                }
                done(outcome)
            }
            "shutdown" => done(self.host.shutdown(fd, small(argument(1)?)?)),
            "fcntl" => {
                let value = arguments.get(2).map_or(Ok(0), integer)?;
                self.host.fcntl(fd, small(argument(1)?)?, value).map(i64::from)
            }
            "ioctl" => {
                let request = integer(argument(1)?)?.cast_unsigned();
                let outcome = self.host.ioctl(fd, request);
                if let (Ok(found), Some(wanted)) = (&outcome, arguments.get(2)) {
                    compare(integer(wanted)?, (*found).into(), "the value")?;
                }
                outcome.map(|_| 0)
            }
            "getsockopt" => self.attempt_getsockopt(fd, arguments)?,
            "setsockopt" => {
                let (level, name) = (small(argument(1)?)?, small(argument(2)?)?);
                let mut value = bytes(argument(3)?)?;
                value.resize(length(argument(4)?)?, 0);
                done(self.host.setsockopt(fd, level, name, &value))
            }
            "epoll_ctl" | "epoll_wait" => self.attempt_epoll(fd, call, progress)?,
            _ => return self.attempt_transfer(fd, call, progress),
        })
    }

    fn attempt_socket(&mut self, arguments: &[Value]) -> Attempt {
        let [domain, kind, protocol] = arguments else {
            return Err("socket needs three arguments".to_owned());
        };
        let domain = if *domain == Value::Any { self.domain } else { small(domain)? };
        let outcome = self.host.socket(domain, small(kind)?, small(protocol)?);
        if outcome.is_ok() {
            self.owner = PacketOwner::Nothing;
        }
        Ok(outcome.map(i64::from))
    }

    fn attempt_getsockopt(&mut self, fd: i32, arguments: &[Value]) -> Attempt {
        let [_, level, name, wanted, len] = arguments else {
            return Err("getsockopt needs five arguments".to_owned());
        };
        let (found, wanted) =
            (self.host.getsockopt(fd, small(level)?, small(name)?), bytes(wanted)?);
        if let Ok(mut found) = found.clone() {
            found.truncate(length(len)?);
            compare(length(len)?, found.len(), "the length")?;
            if found != wanted {
                return Err(format!("the value is {}, not {}", shown(&found), shown(&wanted)));
            }
        }
        Ok(found.map(|_| 0))
    }

    fn attempt_poll(&mut self, arguments: &[Value], progress: &mut Progress) -> Attempt {
        let [Value::List(polled), _, timeout] = arguments else {
            return Err("poll needs a list, its length and a timeout".to_owned());
        };
        let mut fds = Vec::new();
        let mut wanted = Vec::new();
        for poll in polled {
            let bits = |value: &Value| i16::try_from(integer(value)?).map_err(|e| e.to_string());
            let fd = self.fd(field(poll, "fd")?)?;
            fds.push(PollFd { fd, events: bits(field(poll, "events")?)?, revents: 0 });
            wanted.push(field(poll, "revents").map_or(Ok(0), bits)?);
        }
        let outcome = self.host.poll(&mut fds, small(timeout)?, progress);
        if outcome.is_ok() {
            for (poll, wanted) in fds.iter().zip(wanted) {
                compare(wanted, poll.revents, "what there is")?;
            }
        }
        Ok(count(outcome))
    }

    fn attempt_epoll(&mut self, epfd: i32, call: &Call, progress: &mut Progress) -> Attempt {
        let read = |value: &Value, run: &Self| -> Result<EpollEvent, String> {
            let events = integer(field(value, "events")?)?;
            let events = u32::try_from(events).map_err(|e| e.to_string())?;
            let data = match field(value, "fd") {
                Ok(fd) => u64::try_from(run.fd(fd)?).unwrap_or_default(),
                Err(_) => 0,
            };
            Ok(EpollEvent { events, data })
        };
        match (&call.name[..], &call.arguments[..]) {
            ("epoll_ctl", [_, op, fd, event]) => {
                let (op, fd, event) = (small(op)?, self.fd(fd)?, read(event, self)?);
                Ok(done(self.host.epoll_ctl(epfd, op, fd, event)))
            }
            ("epoll_wait", [_, event, most, timeout]) => {
                let (most, timeout) = (small(most)?, small(timeout)?);
                let outcome = self.host.epoll_wait(epfd, most, timeout, progress);
                if let Ok([found, ..]) = outcome.as_deref() {
                    let wanted = read(event, self)?;
                    compare(wanted.events, found.events, "what there is")?;
                    compare(wanted.data, found.data, "the descriptor")?;
                }
                Ok(count(outcome.map(|found| found.len())))
            }
            _ => Err(format!("{} has other arguments", call.name)),
        }
    }

    fn attempt_transfer(&mut self, fd: i32, call: &Call, progress: &mut Progress) -> Attempt {
        let arguments = &call.arguments;
        let rest = arguments.get(1..).unwrap_or_default();
        let to = Some(SocketAddr::new(self.remote, PORT));
        match (&call.name[..], rest) {
            ("write", [data, len]) => {
                let data = payload(data, len)?;
                Ok(count(self.host.write(fd, &data, progress)))
            }
            ("send", [data, len, flags]) => {
                let (data, flags) = (payload(data, len)?, small(flags)?);
                Ok(count(self.host.send(fd, &data, None, flags, progress)))
            }
            ("sendto", [data, len, flags, ..]) => {
                if self.owner != PacketOwner::Flow && !progress.has_begun() {
                    self.connecting();
                }
                let (data, flags) = (payload(data, len)?, small(flags)?);
                Ok(count(self.host.send(fd, &data, to, flags, progress)))
            }
            ("writev", [pieces, _]) => {
                let data = vec![0; room(pieces)?];
                Ok(count(self.host.write(fd, &data, progress)))
            }
            ("sendmsg", [message, flags]) => {
                let data = vec![0; room(field(message, "msg_iov")?)?];
                Ok(count(self.host.send(fd, &data, None, small(flags)?, progress)))
            }
            ("read", [_, len]) => {
                let outcome = self.host.read(fd, length(len)?, progress);
                Ok(count(outcome.map(|bytes| bytes.len())))
            }
            ("recv" | "recvfrom", [_, len, flags, ..]) => {
                let outcome = self.host.recv(fd, length(len)?, small(flags)?, progress);
                Ok(count(outcome.map(|message| message.length)))
            }
            ("readv", [pieces, _]) => {
                let outcome = self.host.read(fd, room(pieces)?, progress);
                Ok(count(outcome.map(|bytes| bytes.len())))
            }
            ("recvmsg", [message, flags]) => {
                let most = room(field(message, "msg_iov")?)?;
                let outcome = self.host.recv(fd, most, small(flags)?, progress);
                Ok(count(outcome.map(|message| message.length)))
            }
            (name, _) => Err(format!("the call {name} with these arguments is not known")),
        }
    }
}

fn done(outcome: Outcome<()>) -> Outcome<i64> {
    outcome.map(|()| 0)
}

fn count(outcome: Outcome<usize>) -> Outcome<i64> {
    outcome.map(|count| i64::try_from(count).unwrap_or(i64::MAX))
}

fn compare<T: PartialEq + Copy + std::fmt::Display>(
    wanted: T,
    found: T,
    what: &str,
) -> Result<(), String> {
    if wanted == found { Ok(()) } else { Err(format!("{what} is {found}, not {wanted}")) }
}

/// A number; a list of one counts as that one.
fn integer(value: &Value) -> Result<i64, String> {
    match value {
        Value::Int(value) => Ok(*value),
        Value::Word(name) => {
            symbols::value(name).ok_or_else(|| format!("the constant {name} is not known"))
        }
        Value::Or(a, b) => Ok(integer(a)? | integer(b)?),
        Value::List(list) if list.len() == 1 => integer(&list[0]),
        _ => Err("a number is wanted".to_owned()),
    }
}

/// An `int`, which may be written unsigned.
fn small(value: &Value) -> Result<i32, String> {
    let value = integer(value)?;
    let signed = i32::try_from(value).ok();
    let unsigned = || u32::try_from(value).ok().map(u32::cast_signed);
    signed.or_else(unsigned).ok_or_else(|| format!("{value} is out of range"))
}

fn length(value: &Value) -> Result<usize, String> {
    usize::try_from(integer(value)?).map_err(|error| error.to_string())
}

/// The bytes to send: those written out, or zeros.
fn payload(data: &Value, len: &Value) -> Result<Vec<u8>, String> {
    let mut bytes = match data {
        Value::Bytes(bytes) => bytes.clone(),
        _ => Vec::new(),
    };
    bytes.resize(length(len)?, 0);
    Ok(bytes)
}

/// How many bytes a list of `{..., length}` has room for.
fn room(pieces: &Value) -> Result<usize, String> {
    let Value::List(pieces) = pieces else { return Err("a list of pieces is wanted".to_owned()) };
    pieces.iter().try_fold(0, |sum, piece| match piece {
        Value::Fields(fields) if fields.len() == 2 => Ok(sum + length(&fields[1].1)?),
        _ => Err("a piece is {..., length}".to_owned()),
    })
}

fn field<'a>(value: &'a Value, name: &str) -> Result<&'a Value, String> {
    let Value::Fields(fields) = value else { return Err(format!("{{{name}=...}} is wanted")) };
    let found = fields.iter().find(|(known, _)| known == name);
    found.map(|(_, value)| value).ok_or_else(|| format!("{name} is missing"))
}

/// An option's value: an `int`, a string, or `struct linger`.
fn bytes(value: &Value) -> Result<Vec<u8>, String> {
    match value {
        Value::Bytes(bytes) => Ok(bytes.clone()),
        Value::Fields(_) => {
            let fields = [field(value, "onoff")?, field(value, "linger")?];
            let ints: Result<Vec<i32>, String> = fields.into_iter().map(small).collect();
            Ok(ints?.into_iter().flat_map(i32::to_ne_bytes).collect())
        }
        _ => Ok(small(value)?.to_ne_bytes().to_vec()),
    }
}

/// An option's value for a message.
fn shown(bytes: &[u8]) -> String {
    match bytes.try_into() {
        Ok(int) => i32::from_ne_bytes(int).to_string(),
        Err(_) => format!("{bytes:?}"),
    }
}
