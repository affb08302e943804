//! smoltcp as a peer: its stack in this process over a TAP device, with blocking streams on top.
//!
//! The calling thread polls the interface whenever it waits. smoltcp is meant to be used so, and it
//! is the quickest it can be: there is no other process and no other thread.

use std::cell::RefCell;
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::rc::Rc;

use anyhow::Context;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Medium, TunTapInterface, wait};
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, IpCidr, Ipv4Address};

use crate::transport::{Bulk, Connect};

/// Bytes of each socket buffer: Tasuki's and the kernel's grow to as much in these measurements.
const BUFFER: usize = 4 << 20;

struct Stack {
    device: TunTapInterface,
    fd: RawFd,
    iface: Interface,
    sockets: SocketSet<'static>,
    port: u16,
}

impl Stack {
    fn poll(&mut self) {
        self.iface.poll(Instant::now(), &mut self.device, &mut self.sockets);
    }

    /// Polls until `done` says something, sleeping in between.
    fn until<T>(
        &mut self,
        handle: SocketHandle,
        mut done: impl FnMut(&mut Socket<'static>) -> Option<T>,
    ) -> io::Result<T> {
        loop {
            self.poll();
            if let Some(value) = done(self.sockets.get_mut(handle)) {
                // Bytes that were just queued or consumed go to the device, as segments and
                // windows, at once.
                self.poll();
                return Ok(value);
            }
            wait(self.fd, self.iface.poll_delay(Instant::now(), &self.sockets))?;
        }
    }
}

/// smoltcp over a TAP device.
pub(crate) struct Smoltcp(Rc<RefCell<Stack>>);

impl Smoltcp {
    /// Takes up the TAP device `tap`, which is there and up.
    pub(crate) fn open(tap: &str) -> anyhow::Result<Self> {
        let mut device = TunTapInterface::new(tap, Medium::Ethernet)
            .with_context(|| format!("opening the TAP device {tap}"))?;
        let mut config = Config::new(EthernetAddress([2, 0, 0, 0, 0, 1]).into());
        config.random_seed = u64::from(std::process::id());
        let mut iface = Interface::new(config, &mut device, Instant::now());
        let address = IpCidr::new(Ipv4Address::new(10, 218, 1, 2).into(), 24);
        iface.update_ip_addrs(|addresses| {
            // There is room for one.
            let _ = addresses.push(address);
        });
        // The device's other end forwards to further hosts. There is room for one route.
        let _ = iface.routes_mut().add_default_ipv4_route(Ipv4Address::new(10, 218, 1, 1));
        // The kernel's device answers on a port that is not in its TIME-WAIT.
        let port = u16::try_from(std::process::id() % 16_384).unwrap_or(0) + 49_152 - 1;
        let (fd, sockets) = (device.as_raw_fd(), SocketSet::new(Vec::new()));
        Ok(Self(Rc::new(RefCell::new(Stack { device, fd, iface, sockets, port }))))
    }
}

impl Connect for Smoltcp {
    type Stream = Stream;

    fn connect(&mut self, to: SocketAddr) -> io::Result<Stream> {
        let stack = &mut *self.0.borrow_mut();
        let buffer = || SocketBuffer::new(vec![0; BUFFER]);
        let mut socket = Socket::new(buffer(), buffer());
        socket.set_nagle_enabled(false);
        socket.set_congestion_control(CongestionControl::Cubic);
        stack.port = if stack.port == u16::MAX { 49_152 } else { stack.port + 1 };
        let SocketAddr::V4(to) = to else { return Err(ErrorKind::Unsupported.into()) };
        socket
            .connect(stack.iface.context(), (*to.ip(), to.port()), stack.port)
            .map_err(|error| io::Error::other(error.to_string()))?;
        let handle = stack.sockets.add(socket);
        let open = stack.until(handle, |socket| match socket.is_active() {
            true => socket.may_send().then_some(true),
            false => Some(false),
        })?;
        if !open {
            return Err(ErrorKind::ConnectionRefused.into());
        }
        Ok(Stream { stack: Rc::clone(&self.0), handle })
    }
}

/// A connection that blocks.
pub(crate) struct Stream {
    stack: Rc<RefCell<Stack>>,
    handle: SocketHandle,
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.stack.borrow_mut().until(self.handle, |socket| {
            if socket.can_recv() {
                return socket.recv_slice(into).ok();
            }
            (!socket.may_recv()).then_some(0)
        })
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.stack.borrow_mut().until(self.handle, |socket| {
            if socket.can_send() {
                return socket.send_slice(bytes).ok();
            }
            (!socket.may_send()).then_some(0)
        })?;
        if sent == 0 { Err(ErrorKind::BrokenPipe.into()) } else { Ok(sent) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let stack = &mut *self.stack.borrow_mut();
        stack.sockets.get_mut::<Socket<'_>>(self.handle).close();
        stack.poll();
        // The FIN has left. As with the kernel, the program does not wait for the rest of the
        // close.
        stack.sockets.remove(self.handle);
    }
}

impl Bulk for Stream {}
