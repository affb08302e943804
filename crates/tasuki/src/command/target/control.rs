//! The socket by which a target is managed: one request and one reply, each a line of JSON.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use storage::{LunDefinition, LunNumber, TargetHandle, TargetStatus};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream as AsyncUnixStream};
use tokio::signal::unix::{SignalKind, signal};

use crate::exit::{Code, Failure};
use crate::runtime_dir::{InstanceName, RuntimeDir, SocketFile};

/// Longest line, bytes.
const LONGEST: u64 = 64 << 10;
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
    /// Add a unit.
    AddLun { lun: u16, definition: String },
    /// Remove a unit.
    RemoveLun { lun: u16 },
    /// Change the keys of all sealed sessions.
    Rekey,
    /// Give a unit another size; without one, that of its file or device.
    ResizeLun { lun: u16, bytes: Option<u64> },
}

/// A target and where it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TargetReport {
    /// Its name, as commands have it.
    pub(crate) target: String,
    /// Its instance.
    pub(crate) instance: String,
    /// What it is and does.
    #[serde(flatten)]
    pub(crate) status: TargetStatus,
}

/// What the target answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Reply {
    Status(TargetReport),
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
    let mut stream = connect(name)?;
    let failed =
        |error: &dyn std::fmt::Display| Failure::system(format!("ask the target {name}"), error);
    let patience = if matches!(request, Request::ResizeLun { .. }) { RESIZED } else { ANSWER };
    stream.set_read_timeout(Some(patience)).map_err(|error| failed(&error))?;
    let mut line = serde_json::to_vec(request).map_err(|error| failed(&error))?;
    line.push(b'\n');
    stream.write_all(&line).map_err(|error| failed(&error))?;
    let mut reply = String::new();
    BufReader::new(stream).read_line(&mut reply).map_err(|error| failed(&error))?;
    serde_json::from_str(&reply).map_err(|error| failed(&error))
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

/// Answers operators of a target of this name on an instance, and ends the target at SIGINT and
/// SIGTERM. Within a tokio runtime.
///
/// # Errors
/// The system's.
pub(super) fn start(
    socket: &SocketFile,
    (name, instance): (InstanceName, InstanceName),
    handle: TargetHandle,
) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::system("manage the target", error);
    let listener = socket.listener().try_clone().map_err(failed)?;
    let listener = UnixListener::from_std(listener).map_err(failed)?;
    for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
        let mut signal = signal(kind).map_err(failed)?;
        let handle = handle.clone();
        tokio::task::spawn_local(async move {
            signal.recv().await;
            handle.end();
        });
    }
    tokio::task::spawn_local(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let names = (name.to_string(), instance.to_string());
            tokio::task::spawn_local(answer(stream, names, handle.clone()));
        }
    });
    Ok(())
}

async fn answer(stream: AsyncUnixStream, names: (String, String), handle: TargetHandle) {
    let (reader, mut writer) = stream.into_split();
    let mut line = String::new();
    let mut reader = tokio::io::BufReader::new(reader.take(LONGEST));
    if reader.read_line(&mut line).await.is_err() {
        return;
    }
    let reply = match serde_json::from_str(&line) {
        Ok(request) => carry_out(request, names, &handle).await,
        Err(error) => Reply::Failed(format!("the target does not understand: {error}")),
    };
    if let Ok(mut line) = serde_json::to_vec(&reply) {
        line.push(b'\n');
        let _ = writer.write_all(&line).await;
    }
}

async fn carry_out(request: Request, names: (String, String), handle: &TargetHandle) -> Reply {
    let number = |lun| LunNumber::new(lun).ok_or_else(|| format!("{lun} is no unit's number"));
    let done = match request {
        Request::Status => {
            let (target, instance) = names;
            return Reply::Status(TargetReport { target, instance, status: handle.status() });
        }
        Request::Down => {
            handle.end();
            Ok(())
        }
        Request::Rekey => handle.rekey().map(drop).map_err(|error| error.to_string()),
        Request::AddLun { lun, definition } => number(lun).and_then(|lun| {
            let definition: LunDefinition =
                definition.parse().map_err(|error: storage::LunError| error.to_string())?;
            handle.add_lun(lun, &definition).map_err(|error| error.to_string())
        }),
        Request::ResizeLun { lun, bytes } => match number(lun) {
            Ok(lun) => {
                let resized = handle.resize_lun(lun, bytes).await;
                resized.map(drop).map_err(|error| error.to_string())
            }
            Err(sentence) => Err(sentence),
        },
        Request::RemoveLun { lun } => {
            number(lun).and_then(|lun| handle.remove_lun(lun).map_err(|error| error.to_string()))
        }
    };
    done.map_or_else(Reply::Failed, |()| Reply::Done)
}
