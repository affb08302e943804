//! The operator's end of an instance's socket for operators: one request, one reply.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use abi::control::{ClientReply, ClientRequest};
use abi::network::ResolverStatus;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{PidfdFlags, pidfd_open};
use shm::peer::Peer;
use shm::{Channel, ChannelError};
use sockets::Client;

use crate::exit::{Code, Failure};
use crate::runtime_dir::{InstanceName, RuntimeDir, operators_socket};

/// How long an instance may take to answer. It takes milliseconds, or some seconds on a busy
/// machine.
const ANSWER: Duration = Duration::from_secs(20);

/// Makes this process a client of the named instance; without a name, of the one that
/// [`Operator::connect_or_guess`] finds.
///
/// # Errors
/// As there; [`Code::NoInstance`] when the instance ends meanwhile, or why it admits no client.
pub fn join(net: Option<&InstanceName>) -> Result<Arc<Client>, Failure> {
    join_named(net).map(|(_, client)| client)
}

/// As [`join`], with the instance's name.
///
/// # Errors
/// As there.
pub fn join_named(net: Option<&InstanceName>) -> Result<(InstanceName, Arc<Client>), Failure> {
    let name = Operator::connect_or_guess(net)?.name;
    let socket = RuntimeDir::find(&name).ok_or_else(|| not_running(&name))?;
    let client = Client::connect(&socket)
        .map_err(|error| Failure::system(format!("join the instance {name}"), error))?;
    Ok((name, client))
}

/// A connection to a running instance.
pub struct Operator {
    name: InstanceName,
    channel: Channel,
    /// The supervisor's process.
    supervisor: Option<OwnedFd>,
}

impl Operator {
    /// Connects to the instance of this name.
    ///
    /// # Errors
    /// [`Code::NoInstance`], [`Code::Rights`]
    pub fn connect(name: &InstanceName) -> Result<Self, Failure> {
        match RuntimeDir::find(name) {
            Some(path) => Self::connect_to(name, &path),
            None => {
                let all = Self::connect_all();
                let names: Vec<&str> = all.iter().map(|(one, _)| one.name.as_str()).collect();
                let mut failure = not_running(name);
                if !names.is_empty() {
                    failure.sentence.push_str(&format!("; running: {}", names.join(", ")));
                }
                Err(failure)
            }
        }
    }

    /// Connects to the named instance. Without a name it is the one around this process, the only
    /// one, or `default`.
    ///
    /// # Errors
    /// As [`Operator::connect`], or [`Code::NoInstance`] when several run.
    pub fn connect_or_guess(name: Option<&InstanceName>) -> Result<Self, Failure> {
        if let Some(name) = name {
            return Self::connect(name);
        }
        let around = std::env::var_os("TASUKI_SOCKET");
        let mut all = Self::connect_all();
        let position = all.iter().position(|(operator, path)| match &around {
            Some(socket) => path.as_os_str() == socket.as_os_str(),
            None => operator.name.as_str() == "default",
        });
        match (position, all.len()) {
            (Some(index), _) => Ok(all.swap_remove(index).0),
            (None, 1) => Ok(all.swap_remove(0).0),
            (None, 0) => Err(Failure::new(
                Code::NoInstance,
                "no instance of this user is running; start one with `tasuki up`",
            )),
            _ => {
                let names: Vec<&str> = all.iter().map(|(one, _)| one.name.as_str()).collect();
                let names = names.join(", ");
                let sentence = format!("several instances are running ({names}): name one");
                Err(Failure::new(Code::NoInstance, sentence))
            }
        }
    }

    /// Connects to all instances that run, in order of name.
    pub fn connect_all() -> Vec<(Self, PathBuf)> {
        let all = RuntimeDir::list().into_iter();
        all.filter_map(|(name, path)| Some((Self::connect_to(&name, &path).ok()?, path))).collect()
    }

    /// Connects to the operators' socket beside this socket for programs.
    fn connect_to(name: &InstanceName, programs: &Path) -> Result<Self, Failure> {
        let (stream, peer) = connect(name, &operators_socket(name, programs))?;
        // A supervisor in a hidden PID namespace cannot be watched.
        let supervisor = peer.pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        let channel = Channel::from_fd(stream.into());
        Ok(Self { name: name.clone(), channel, supervisor })
    }

    /// The instance's name.
    pub fn name(&self) -> &InstanceName {
        &self.name
    }

    /// Asks, and waits for the reply.
    ///
    /// # Errors
    /// The instance's refusal, or that it ended meanwhile.
    pub fn ask(&mut self, request: &ClientRequest) -> Result<(ClientReply, Vec<OwnedFd>), Failure> {
        let failed = |error: &dyn std::fmt::Display| {
            Failure::system(format!("ask the instance {}", self.name), error)
        };
        let body = serde_json::to_vec(request).map_err(|error| failed(&error))?;
        match self.channel.send(&body, &[]) {
            // An instance that refuses a process says why, and hangs up without reading.
            Ok(()) | Err(ChannelError::Gone) => {}
            Err(error) => return Err(failed(&error)),
        }
        self.wait_for_answer()?;
        let message = self
            .channel
            .recv()
            .map_err(|error| failed(&error))?
            .ok_or_else(|| failed(&"it ended meanwhile"))?;
        match serde_json::from_slice(&message.body).map_err(|error| failed(&error))? {
            ClientReply::Error { message } => Err(failed(&message)),
            ClientReply::WrongSocket { socket } => {
                Err(failed(&format_args!("that is for programs, at {socket}")))
            }
            reply => Ok((reply, message.fds)),
        }
    }

    /// A supervisor that is stopped would never answer.
    fn wait_for_answer(&self) -> Result<(), Failure> {
        let most = Timespec { tv_sec: ANSWER.as_secs().cast_signed(), tv_nsec: 0 };
        let mut answer = [PollFd::new(&self.channel, PollFlags::IN)];
        if rustix::io::retry_on_intr(|| poll(&mut answer, Some(&most))) != Ok(0) {
            return Ok(());
        }
        let sentence = format!(
            "the supervisor of {} has not answered for {} s: if it is stopped (`ps` shows T), \
             continue it by kill -CONT",
            self.name,
            ANSWER.as_secs()
        );
        Err(Failure::new(Code::Internal, sentence))
    }

    /// Waits for the supervisor's process to end, at most so long.
    pub fn wait_for_end(&self, most: Duration) {
        let Some(supervisor) = &self.supervisor else { return };
        let mut death = [PollFd::new(supervisor, PollFlags::IN)];
        let most = Timespec { tv_sec: most.as_secs().cast_signed(), tv_nsec: 0 };
        if poll(&mut death, Some(&most)) != Ok(1) {
            tracing::warn!("the supervisor of {} has not ended yet", self.name);
        }
    }

    /// For poll: readable when the instance ends.
    pub fn line(&self) -> std::os::fd::BorrowedFd<'_> {
        self.channel.as_fd()
    }

    /// A reply that does not belong to the request.
    pub fn unexpected(&self, reply: &ClientReply) -> Failure {
        tracing::debug!(?reply, "the answer");
        let why = "its answer is one to another request; is it of another version?";
        Failure::system(format!("ask the instance {}", self.name), why)
    }
}

/// The programs' socket of the instance of this name, which lets this user in.
///
/// # Errors
/// [`Code::NoInstance`], [`Code::Rights`]
pub fn find_for_program(name: &InstanceName) -> Result<PathBuf, Failure> {
    let Some(path) = RuntimeDir::find(name) else {
        // It says which instances there are.
        return Operator::connect(name).and(Err(not_running(name)));
    };
    connect(name, &path).map(|_| path)
}

/// Where the programs of an instance look names up, asked for at its programs' socket.
///
/// # Errors
/// [`Code::NoInstance`], [`Code::Rights`], or the instance's refusal.
pub fn resolver(name: &InstanceName, socket: &Path) -> Result<ResolverStatus, Failure> {
    let (stream, _) = connect(name, socket)?;
    let channel = Channel::from_fd(stream.into());
    let mut program = Operator { name: name.clone(), channel, supervisor: None };
    match program.ask(&ClientRequest::Network)? {
        (ClientReply::Network(status), _) => Ok(status.resolver),
        (reply, _) => Err(program.unexpected(&reply)),
    }
}

/// Connects to a socket of an instance, and looks whose it is.
fn connect(name: &InstanceName, path: &Path) -> Result<(UnixStream, Peer), Failure> {
    use std::io::ErrorKind::{ConnectionRefused, NotFound, PermissionDenied};
    let stream = UnixStream::connect(path).map_err(|error| match error.kind() {
        ConnectionRefused | NotFound => not_running(name),
        PermissionDenied => Failure::new(
            Code::Rights,
            format!("instance {name} belongs to another user: run this as that user or as root"),
        ),
        _ => Failure::system(format!("connect to {}", path.display()), error),
    })?;
    let peer = shm::peer::peer(&stream)
        .map_err(|errno| Failure::system(format!("ask whose {} is", path.display()), errno))?;
    // Somebody else may have put it there, in a directory that others can write to.
    if !peer.uid.is_root() && peer.uid != rustix::process::geteuid() {
        let sentence =
            format!("instance {name} belongs to user {}: run this as that user", peer.uid);
        return Err(Failure::new(Code::Rights, sentence));
    }
    Ok((stream, peer))
}

fn not_running(name: &InstanceName) -> Failure {
    let sentence = format!("no instance {name} is running; start it with `tasuki up {name}`");
    Failure::new(Code::NoInstance, sentence)
}
