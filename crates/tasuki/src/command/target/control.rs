//! The socket by which a target is managed: one request and one reply, each a line of JSON.
//!
//! A target opens no file. The file of a unit that is added is opened by the operator's command,
//! with the operator's rights, and passed with the request (SCM_RIGHTS).

use std::io::{self, BufRead as _, BufReader, IoSlice, IoSliceMut, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use abi::control::SandboxStatus;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};
use storage::{LunDefinition, LunNumber, NoIdentity, OpenedVolume, TargetHandle, TargetStatus};
use tokio::io::{AsyncWriteExt as _, Interest};
use tokio::net::{UnixListener as AsyncUnixListener, UnixStream as AsyncUnixStream};
use tokio::signal::unix::{SignalKind, signal};

use super::access_message::AccessMessage;
use super::broker_messages::unit;
use crate::exit::{Code, Failure};
use crate::runtime_dir::{InstanceName, RuntimeDir};

/// Longest line, bytes.
const LONGEST: usize = 1 << 20;
/// How long a target may take to answer.
const ANSWER: Duration = Duration::from_secs(5);
/// How long it may take to change a unit's size: commands that are under way end before.
const RESIZED: Duration = Duration::from_secs(60);

/// What an operator asks.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Request {
    /// What the target is and does.
    Status,
    /// End.
    Down,
    /// Add a unit. Its file comes with the request, if it has one.
    AddLun { lun: u16, definition: String, identity: String },
    /// Remove a unit.
    RemoveLun { lun: u16 },
    /// Change the keys of all sealed sessions.
    Rekey,
    /// What are the units, as a configuration has them?
    Units,
    /// Set who may use the target.
    SetAccess { access: AccessMessage },
    /// Give a unit another size; without one, that of its file or device.
    ResizeLun { lun: u16, bytes: Option<u64> },
}

/// What a target tells of itself beside its status.
#[derive(Debug, Clone)]
pub(super) struct TargetNames {
    /// Its name, as commands have it.
    pub(super) target: String,
    /// Its instance.
    pub(super) instance: String,
    /// Its process, as others see it.
    pub(super) pid: u32,
    /// Its sandbox.
    pub(super) sandbox: SandboxStatus,
}

/// A target and where it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TargetReport {
    /// Its name, as commands have it.
    pub(crate) target: String,
    /// Its instance.
    pub(crate) instance: String,
    /// Its sandbox.
    pub(crate) sandbox: SandboxStatus,
    /// What it is and does.
    #[serde(flatten)]
    pub(crate) status: TargetStatus,
}

/// A unit, as a configuration has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct UnitReport {
    /// Its number.
    pub(super) lun: u16,
    /// As `--lun` has it.
    pub(super) definition: String,
    /// Its size.
    pub(super) bytes: u64,
}

/// What the target answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Reply {
    Status(Box<TargetReport>),
    Units(Vec<UnitReport>),
    /// How many sessions have ended.
    Sessions(usize),
    Done,
    Failed(String),
}

impl Reply {
    /// The reply to a request that tells nothing.
    pub(super) fn done(self) -> Result<u8, Failure> {
        match self {
            Self::Failed(sentence) => Err(Failure::new(Code::Configuration, sentence)),
            _ => Ok(0),
        }
    }
}

/// Asks a target.
///
/// # Errors
/// It does not run, or does not answer.
pub(super) fn ask(name: &InstanceName, request: &Request) -> Result<Reply, Failure> {
    ask_with(name, request, None)
}

/// As [`ask`], and passes a file.
///
/// # Errors
/// As there.
pub(super) fn ask_with(
    name: &InstanceName,
    request: &Request,
    file: Option<&OwnedFd>,
) -> Result<Reply, Failure> {
    let mut stream = connect(name)?;
    let failed =
        |error: &dyn std::fmt::Display| Failure::system(format!("ask the target {name}"), error);
    let patience = if matches!(request, Request::ResizeLun { .. }) { RESIZED } else { ANSWER };
    stream.set_read_timeout(Some(patience)).map_err(|error| failed(&error))?;
    let mut line = serde_json::to_vec(request).map_err(|error| failed(&error))?;
    line.push(b'\n');
    let sent = send(&stream, &line, file).map_err(|error| failed(&error))?;
    stream.write_all(&line[sent..]).map_err(|error| failed(&error))?;
    let mut reply = String::new();
    BufReader::new(stream).read_line(&mut reply).map_err(|error| failed(&error))?;
    serde_json::from_str(&reply).map_err(|error| failed(&error))
}

/// Sends the begin of a line, and a file with it. How many bytes.
fn send(stream: &UnixStream, line: &[u8], file: Option<&OwnedFd>) -> io::Result<usize> {
    let files: Vec<BorrowedFd<'_>> = file.iter().map(|file| file.as_fd()).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&files)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(sendmsg(stream, &[IoSlice::new(line)], &mut control, SendFlags::NOSIGNAL)?)
}

fn connect(name: &InstanceName) -> Result<UnixStream, Failure> {
    let all = RuntimeDir::targets();
    let found = all.iter().find(|(one, _)| one == name);
    let stream = found.and_then(|(_, path)| UnixStream::connect(path).ok()).ok_or_else(|| {
        let sentence = format!("target {name} is not running; start it with `tasuki target up`");
        Failure::new(Code::NoInstance, sentence)
    })?;
    Ok(stream)
}

/// The process that made the target's socket: its broker.
///
/// # Errors
/// The target does not run.
pub(super) fn broker_of(name: &InstanceName) -> Result<u32, Failure> {
    let peer = rustix::net::sockopt::socket_peercred(connect(name)?);
    let peer = peer.map_err(|errno| Failure::system("find the target's broker", errno))?;
    Ok(peer.pid.as_raw_nonzero().get().cast_unsigned())
}

/// Lets a target end, and waits for it.
///
/// # Errors
/// It does not run, or does not end.
pub(super) fn end(name: &InstanceName, patience: Duration) -> Result<(), Failure> {
    let _ = ask(name, &Request::Down)?.done()?;
    let begun = Instant::now();
    while connect(name).is_ok() {
        if begun.elapsed() > patience {
            let sentence = format!("target {name} does not end");
            return Err(Failure::new(Code::Internal, sentence));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Ends the target at SIGINT and SIGTERM. Within a tokio runtime, before the sandbox.
///
/// # Errors
/// The system's.
pub(super) fn catch_signals(handle: &TargetHandle) -> Result<(), Failure> {
    for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
        let mut signal = signal(kind).map_err(|error| Failure::system("catch signals", error))?;
        let handle = handle.clone();
        tokio::task::spawn_local(async move {
            signal.recv().await;
            handle.end();
        });
    }
    Ok(())
}

/// Answers operators of a target. Within a tokio runtime.
///
/// # Errors
/// The system's.
pub(super) fn start(
    listener: UnixListener,
    names: TargetNames,
    handle: TargetHandle,
) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::system("manage the target", error);
    let listener = AsyncUnixListener::from_std(listener).map_err(failed)?;
    tokio::task::spawn_local(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::task::spawn_local(answer(stream, names.clone(), handle.clone()));
        }
    });
    Ok(())
}

async fn answer(mut stream: AsyncUnixStream, names: TargetNames, handle: TargetHandle) {
    let Ok((line, file)) = receive(&stream).await else { return };
    let reply = match serde_json::from_slice(&line) {
        Ok(request) => carry_out(request, file, names, &handle).await,
        Err(error) => Reply::Failed(format!("the target does not understand: {error}")),
    };
    if let Ok(mut line) = serde_json::to_vec(&reply) {
        line.push(b'\n');
        let _ = stream.write_all(&line).await;
    }
}

/// Receives a line, and the file that came with its first byte.
async fn receive(stream: &AsyncUnixStream) -> io::Result<(Vec<u8>, Option<OwnedFd>)> {
    let (mut line, mut file) = (Vec::new(), None);
    while !line.ends_with(b"\n") && line.len() < LONGEST {
        stream.readable().await?;
        let mut bytes = [0; 4096];
        let some =
            stream.try_io(Interest::READABLE, || receive_some(stream, &mut bytes, &mut file));
        match some {
            Ok(0) => break,
            Ok(count) => line.extend_from_slice(&bytes[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok((line, file))
}

fn receive_some(
    stream: &AsyncUnixStream,
    into: &mut [u8],
    file: &mut Option<OwnedFd>,
) -> io::Result<usize> {
    // The kernel closes those that do not fit.
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let received = recvmsg(stream, &mut [IoSliceMut::new(into)], &mut control, flags)?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(mut files) = message {
            *file = files.next();
        }
    }
    Ok(received.bytes)
}

fn units(handle: &TargetHandle) -> Vec<UnitReport> {
    let sizes = handle.status().luns;
    let size = |lun: u16| sizes.iter().find(|unit| unit.lun == lun).map_or(0, |unit| unit.bytes);
    let report = |(number, definition): (LunNumber, LunDefinition)| UnitReport {
        lun: number.get(),
        definition: definition.to_string(),
        bytes: size(number.get()),
    };
    handle.definitions().into_iter().map(report).collect()
}

async fn carry_out(
    request: Request,
    file: Option<OwnedFd>,
    names: TargetNames,
    handle: &TargetHandle,
) -> Reply {
    let done = match request {
        Request::Status => {
            let TargetNames { target, instance, pid, sandbox } = names;
            let status = TargetStatus { pid, ..handle.status() };
            let report = TargetReport { target, instance, sandbox, status };
            return Reply::Status(Box::new(report));
        }
        Request::Down => {
            handle.end();
            Ok(())
        }
        Request::Units => return Reply::Units(units(handle)),
        Request::SetAccess { access } => match access.policy() {
            Ok(access) => return Reply::Sessions(handle.set_access(access)),
            Err(sentence) => Err(sentence),
        },
        Request::Rekey => handle.rekey().map(drop).map_err(|error| error.to_string()),
        Request::AddLun { lun, definition, identity } => unit(lun).and_then(|lun| {
            let definition: LunDefinition =
                definition.parse().map_err(|error: storage::LunError| error.to_string())?;
            let identity = identity.parse().map_err(|error: NoIdentity| error.to_string())?;
            // The operator's command has said what there is to say.
            let opened = OpenedVolume { file, identity, notices: Vec::new() };
            handle.add_lun(lun, &definition, opened).map_err(|error| error.to_string())
        }),
        Request::ResizeLun { lun, bytes } => match unit(lun) {
            Ok(lun) => {
                let resized = handle.resize_lun(lun, bytes).await;
                resized.map(drop).map_err(|error| error.to_string())
            }
            Err(sentence) => Err(sentence),
        },
        Request::RemoveLun { lun } => {
            unit(lun).and_then(|lun| handle.remove_lun(lun).map_err(|error| error.to_string()))
        }
    };
    done.map_or_else(Reply::Failed, |()| Reply::Done)
}
