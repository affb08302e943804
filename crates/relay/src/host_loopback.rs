//! The host's own loopback, for `tasuki run --host-loopback`.
//!
//! An address of the programs' network stands for 127.0.0.1 of the host, another one for ::1. The
//! relay is in a network namespace of its own, so it asks the *connector*: a process in the
//! namespace that `tasuki run` was started in. The connector gets the kind of a socket, a family
//! and a port, begins a connection to that port of the loopback address, and passes it on. It reads
//! nothing else and connects nowhere else. It is in a sandbox of its own before the program starts,
//! and ends with the relay, which collects it.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg,
};
use rustix::process::{Pid, WaitOptions, waitpid};
use tokio::net::{TcpStream, UdpSocket};

use crate::detach;

/// The relay's end of the connector.
pub(crate) struct HostLoopback {
    addresses: Vec<IpAddr>,
    connector: OwnedFd,
}

/// A server of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct HostServer {
    datagrams: bool,
    v6: bool,
    port: u16,
}

impl HostServer {
    /// As the connector is asked for it.
    fn to_bytes(self) -> [u8; 4] {
        let [high, low] = self.port.to_be_bytes();
        [self.datagrams.into(), self.v6.into(), high, low]
    }

    fn from_bytes([datagrams, v6, high, low]: [u8; 4]) -> Self {
        let port = u16::from_be_bytes([high, low]);
        Self { datagrams: datagrams != 0, v6: v6 != 0, port }
    }
}

impl HostLoopback {
    /// Starts the connector in this process's network namespace, and waits until `restrict` has
    /// taken it into its sandbox. `addresses` stand for the host; without any there is none.
    ///
    /// # Errors
    /// The system's; or the connector has ended, after a sentence of its own.
    pub(crate) fn start(
        addresses: Vec<IpAddr>,
        restrict: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<Option<(Self, RunningConnector)>> {
        if addresses.is_empty() {
            return Ok(None);
        }
        let (connector, line) = UnixStream::pair()?;
        let line = line.into();
        let pid = detach::child(&line, || serve(rustix::stdio::stdin(), restrict))?;
        drop(line);
        let connector = OwnedFd::from(connector);
        let running = RunningConnector { pid, line: connector.try_clone()? };
        let mut ready = [0];
        match rustix::io::retry_on_intr(|| rustix::io::read(&connector, &mut ready)) {
            Ok(1) => Ok(Some((Self { addresses, connector }, running))),
            _ => Err(io::Error::other("the connector of --host-loopback has ended")),
        }
    }

    /// Does a connection or datagram to this address go to the host?
    pub(crate) fn is(&self, to: SocketAddr) -> bool {
        self.addresses.contains(&to.ip().to_canonical())
    }

    /// Connects to the host's port that `to` stands for.
    ///
    /// # Errors
    /// connect(2)'s: ECONNREFUSED where nobody listens.
    pub(crate) async fn connect(&self, to: SocketAddr) -> io::Result<TcpStream> {
        let stream = std::net::TcpStream::from(self.begin(to, false)?);
        let stream = TcpStream::from_std(stream)?;
        stream.writable().await?;
        match stream.take_error()? {
            Some(error) => Err(error),
            None => Ok(stream),
        }
    }

    /// A socket for datagrams to the host's port that `to` stands for, and from there.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn datagrams(&self, to: SocketAddr) -> io::Result<UdpSocket> {
        UdpSocket::from_std(self.begin(to, true)?.into())
    }

    /// The connector answers at once: it does not wait for connections.
    fn begin(&self, to: SocketAddr, datagrams: bool) -> io::Result<OwnedFd> {
        let (v6, port) = (to.ip().to_canonical().is_ipv6(), to.port());
        rustix::io::write(&self.connector, &HostServer { datagrams, v6, port }.to_bytes())?;
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

/// The connector's process. It has ended and is collected when this is dropped.
pub(crate) struct RunningConnector {
    pid: Pid,
    line: OwnedFd,
}

impl Drop for RunningConnector {
    fn drop(&mut self) {
        // It ends when it has read the end of this.
        let _ = rustix::net::shutdown(&self.line, rustix::net::Shutdown::Both);
        let _ = rustix::io::retry_on_intr(|| waitpid(Some(self.pid), WaitOptions::empty()));
    }
}

/// Is the connector until the relay has ended.
fn serve(relay: BorrowedFd<'_>, restrict: impl FnOnce() -> io::Result<()>) -> u8 {
    let _ = rustix::thread::set_name(c"tasuki-host");
    if let Err(error) = restrict() {
        tracing::error!(%error, "the connector of --host-loopback cannot enter its sandbox");
        return 1;
    }
    if rustix::io::write(relay, &[0]).is_err() {
        return 1;
    }
    let mut server = [0; 4];
    loop {
        match rustix::io::retry_on_intr(|| rustix::io::read(relay, &mut server)) {
            Ok(4) => {}
            _ => return 0,
        }
        if answer(relay, &connect(HostServer::from_bytes(server))).is_err() {
            return 0;
        }
    }
}

fn connect(HostServer { datagrams, v6, port }: HostServer) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let kind = if datagrams { SocketType::DGRAM } else { SocketType::STREAM };
    let (family, to): (_, IpAddr) = match v6 {
        true => (AddressFamily::INET6, Ipv6Addr::LOCALHOST.into()),
        false => (AddressFamily::INET, Ipv4Addr::LOCALHOST.into()),
    };
    let socket = rustix::net::socket_with(family, kind, flags, None)?;
    match rustix::net::connect(&socket, &SocketAddr::new(to, port)) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
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
