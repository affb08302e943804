//! A client by the control protocol itself, for kinds that no library would do.

use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;

use abi::client::ClientLayout;
use abi::control::{ClientReply, ClientRequest, VERSION};
use anyhow::{Context as _, Result, bail};
use shm::{Access, Channel, Message, Region};

/// An admitted client with one thread.
pub(super) struct Member {
    pub(super) control: Channel,
    pub(super) region: Arc<Region>,
    pub(super) layout: ClientLayout,
    /// The server's bell for this client.
    pub(super) bell: OwnedFd,
    pub(super) thread: u16,
    pub(super) thread_bell: OwnedFd,
}

/// A fresh control connection.
pub(super) fn connect(socket: &Path) -> Result<Channel> {
    Ok(Channel::from_fd(UnixStream::connect(socket)?.into()))
}

/// Asks, and waits for the reply.
pub(super) fn ask(
    control: &mut Channel,
    request: &ClientRequest,
) -> Result<(ClientReply, Message)> {
    control.send(&serde_json::to_vec(request)?, &[])?;
    let message = control.recv()?.context("the supervisor closed the connection")?;
    Ok((serde_json::from_slice(&message.body)?, message))
}

/// Asks for one more thread: its number and bell.
pub(super) fn attach(control: &mut Channel) -> Result<(u16, OwnedFd)> {
    let (reply, message) = ask(control, &ClientRequest::AttachThread)?;
    let ClientReply::Thread { thread } = reply else { bail!("no thread: {reply:?}") };
    Ok((thread, message.fds.into_iter().next().context("a bell")?))
}

impl Member {
    /// Admission in order.
    pub(super) fn admit(socket: &Path) -> Result<Self> {
        let mut control = connect(socket)?;
        let hello = ClientRequest::Hello { version: VERSION, program: "worst".to_owned() };
        let (reply, message) = ask(&mut control, &hello)?;
        let ClientReply::Welcome { params, .. } = reply else { bail!("refused: {reply:?}") };
        let mut fds = message.fds.into_iter();
        let (memory, bell) = (fds.next().context("a region")?, fds.next().context("a bell")?);
        let layout = params.layout()?;
        let region = Region::map(memory.as_fd(), layout.len, Access::ReadWrite)?;
        let (thread, thread_bell) = attach(&mut control)?;
        Ok(Self { control, region, layout, bell, thread, thread_bell })
    }

    /// Rings the server.
    pub(super) fn ring(&self) {
        // A full eventfd has rung.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }
}
