//! The host's own loopback, for `tasuki run --host-loopback`.
//!
//! An address of the programs' network stands for 127.0.0.1 of the host. The relay is in a network
//! namespace of its own, so it asks the *connector*: a process in the namespace that `tasuki run`
//! was started in. The connector gets the number of a port, begins a connection to 127.0.0.1, and
//! passes it on. It reads nothing else and connects nowhere else. It ends with the relay.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg,
};
use tokio::net::TcpStream;

use crate::detach;

/// The relay's end of the connector.
pub(crate) struct HostLoopback {
    address: Ipv4Addr,
    connector: OwnedFd,
}

impl HostLoopback {
    /// Starts the connector in this process's network namespace. `address` stands for the host.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn start(address: Ipv4Addr) -> io::Result<Self> {
        let (connector, line) = UnixStream::pair()?;
        detach::child(&line.into(), || serve(rustix::stdio::stdin()))?;
        Ok(Self { address, connector: connector.into() })
    }

    /// Does a connection to this address go to the host?
    pub(crate) fn is(&self, to: SocketAddr) -> bool {
        to.ip().to_canonical() == IpAddr::V4(self.address)
    }

    /// Connects to a port of the host.
    ///
    /// # Errors
    /// connect(2)'s: ECONNREFUSED where nobody listens.
    pub(crate) async fn connect(&self, port: u16) -> io::Result<TcpStream> {
        let stream = std::net::TcpStream::from(self.begin(port)?);
        let stream = TcpStream::from_std(stream)?;
        stream.writable().await?;
        match stream.take_error()? {
            Some(error) => Err(error),
            None => Ok(stream),
        }
    }

    /// The connector answers at once: it does not wait for connections.
    fn begin(&self, port: u16) -> io::Result<OwnedFd> {
        rustix::io::write(&self.connector, &port.to_ne_bytes())?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut code = [0; 4];
        let mut parts = [IoSliceMut::new(&mut code)];
        let received = rustix::io::retry_on_intr(|| {
            recvmsg(&self.connector, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
        });
        if received?.bytes != code.len() {
            return Err(Errno::NETDOWN.into());
        }
        let stream = ancillary.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
            _ => None,
        });
        stream.ok_or_else(|| io::Error::from_raw_os_error(i32::from_ne_bytes(code)))
    }
}

/// Is the connector until the relay has ended.
fn serve(relay: BorrowedFd<'_>) -> u8 {
    let _ = rustix::thread::set_name(c"tasuki-host");
    let _ = rustix::thread::set_no_new_privs(true);
    let mut port = [0; 2];
    loop {
        match rustix::io::retry_on_intr(|| rustix::io::read(relay, &mut port)) {
            Ok(2) => {}
            _ => return 0,
        }
        if answer(relay, &connect(u16::from_ne_bytes(port))).is_err() {
            return 0;
        }
    }
}

fn connect(port: u16) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let stream = rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    match rustix::net::connect(&stream, &to) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(stream),
        Err(errno) => Err(errno),
    }
}

fn answer(relay: BorrowedFd<'_>, made: &Result<OwnedFd, Errno>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let fds = made.as_ref().ok().map(|stream| [stream.as_fd()]);
    if let Some(fds) = &fds {
        ancillary.push(SendAncillaryMessage::ScmRights(fds));
    }
    let code = made.as_ref().err().map_or(0, |errno| errno.raw_os_error());
    let code = code.to_ne_bytes();
    let parts = [IoSlice::new(&code)];
    sendmsg(relay, &parts, &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}
