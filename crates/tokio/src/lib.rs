//! Tasuki's sockets for tokio programs: [`TcpStream`] is a tokio [`AsyncRead`] and [`AsyncWrite`],
//! and [`run`] drives Tasuki's reactor inside of tokio's.
//!
//! The reactor iterates after the tasks that can run, so their calls leave together. While none can
//! run, tokio sleeps in its own poll, where the thread's bell is one descriptor among others. So
//! timers, files, kernel sockets and Tasuki's sockets go on side by side.
//!
//! Tasuki's sockets belong to their thread: tasks are spawned by [`tokio::task::spawn_local`], and
//! the runtime is a current-thread one with a [`LocalSet`]; [`block_on`] makes both.
//!
//! [`AsyncRead`]: tokio::io::AsyncRead
//! [`AsyncWrite`]: tokio::io::AsyncWrite
#![forbid(unsafe_code)]

use std::future::{Future, poll_fn};
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd as _, OwnedFd};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use sockets::aio::{self, Reactor};
use sockets::{Client, instance};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::task::LocalSet;

pub use sockets::aio::UdpSocket;

/// Runs `future` in a tokio runtime of this thread's own, on the process's own client
/// ([`sockets::instance`]).
///
/// # Errors
/// Why this process has no client; the system's, when there can be no runtime; as [`run`].
pub fn block_on<F: Future>(future: F) -> io::Result<F::Output> {
    let client = instance()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, run(&client, future))
}

/// Runs `future` as `client`, inside of a current-thread runtime. Until it is over the sockets of
/// all tasks of this thread can be used.
///
/// # Errors
/// As [`Reactor::new`]; ENETDOWN when the instance ends before `future` does.
pub async fn run<F: Future>(client: &Arc<Client>, future: F) -> io::Result<F::Output> {
    let reactor = Reactor::new(client)?;
    let _entered = reactor.enter();
    let bell = reactor.as_fd().try_clone_to_owned()?;
    #[expect(deprecated, reason = "what replaces it is unsafe; an owned descriptor stays open")]
    let bell = AsyncFd::with_interest(bell, Interest::READABLE)?;
    let mut future = pin!(future);
    poll_fn(|context| {
        if let Poll::Ready(done) = future.as_mut().poll(context) {
            // The last calls still leave.
            let _ = reactor.poll_iteration(context);
            return Poll::Ready(Ok(done));
        }
        match poll_drive(&reactor, &bell, context) {
            // Tasks that were woken to see it go first; the future may be one that does.
            Err(error) => match future.as_mut().poll(context) {
                Poll::Ready(done) => Poll::Ready(Ok(done)),
                Poll::Pending => Poll::Ready(Err(error)),
            },
            Ok(()) => Poll::Pending,
        }
    })
    .await
}

/// Iterates the reactor until it waits for the bell.
fn poll_drive(
    reactor: &Reactor,
    bell: &AsyncFd<OwnedFd>,
    context: &mut Context<'_>,
) -> io::Result<()> {
    loop {
        if reactor.poll_iteration(context)?.is_ready() {
            // Once more after the other tasks have run.
            context.waker().wake_by_ref();
            return Ok(());
        }
        let Poll::Ready(guard) = bell.poll_read_ready(context) else { return Ok(()) };
        let mut guard = guard?;
        guard.clear_ready();
        reactor.rung()?;
    }
}

/// A TCP connection.
#[derive(Debug)]
pub struct TcpStream(aio::TcpStream);

impl TcpStream {
    /// Connects to `addr`. Dropping the future ends the attempt.
    ///
    /// # Errors
    /// As [`aio::TcpStream::connect`].
    pub async fn connect(addr: SocketAddr) -> io::Result<Self> {
        aio::TcpStream::connect(addr).await.map(Self)
    }

    /// Connects from `local`, where port 0 is any. Dropping the future ends the attempt.
    ///
    /// # Errors
    /// As [`aio::TcpStream::connect_from`].
    pub async fn connect_from(local: SocketAddr, addr: SocketAddr) -> io::Result<Self> {
        aio::TcpStream::connect_from(local, addr).await.map(Self)
    }

    /// Ends the connection with a reset.
    pub fn abort(self) {
        self.0.abort();
    }

    /// Sends small writes at once instead of gathering them (TCP_NODELAY).
    ///
    /// # Errors
    /// As [`aio::TcpStream::set_nodelay`].
    pub async fn set_nodelay(&self, on: bool) -> io::Result<()> {
        self.0.set_nodelay(on).await
    }

    /// Ends reading, writing or both.
    ///
    /// # Errors
    /// As [`aio::TcpStream::shutdown`].
    pub async fn shut_down(&self, how: Shutdown) -> io::Result<()> {
        self.0.shutdown(how).await
    }

    /// The stream underneath.
    #[must_use]
    pub fn as_aio(&self) -> &aio::TcpStream {
        &self.0
    }
}

impl AsyncRead for &TcpStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let room = into.initialize_unfilled();
        let mut stream = &self.0;
        let stream = Pin::new(&mut stream);
        let len = ready!(futures_io::AsyncRead::poll_read(stream, context, room))?;
        into.advance(len);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for &TcpStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        futures_io::AsyncWrite::poll_write(Pin::new(&mut &self.0), context, from)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        futures_io::AsyncWrite::poll_flush(Pin::new(&mut &self.0), context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        futures_io::AsyncWrite::poll_close(Pin::new(&mut &self.0), context)
    }
}

impl AsyncRead for TcpStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut &*self).poll_read(context, into)
    }
}

impl AsyncWrite for TcpStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut &*self).poll_write(context, from)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut &*self).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut &*self).poll_shutdown(context)
    }
}

/// A socket that accepts connections.
#[derive(Debug)]
pub struct TcpListener(aio::TcpListener);

impl TcpListener {
    /// Listens on `addr`, with SO_REUSEADDR.
    ///
    /// # Errors
    /// As [`aio::TcpListener::bind`].
    pub async fn bind(addr: SocketAddr) -> io::Result<Self> {
        aio::TcpListener::bind(addr).await.map(Self)
    }

    /// As [`TcpListener::bind`]; for IPv6 only, where `addr` is IPv6's.
    ///
    /// # Errors
    /// As [`aio::TcpListener::bind`].
    pub async fn bind_only(addr: SocketAddr) -> io::Result<Self> {
        aio::TcpListener::bind_only(addr).await.map(Self)
    }

    /// The next connection and its peer's address.
    ///
    /// # Errors
    /// As [`aio::TcpListener::accept`].
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (stream, peer) = self.0.accept().await?;
        Ok((TcpStream(stream), peer))
    }

    /// The local end.
    ///
    /// # Errors
    /// As [`aio::TcpListener::local_addr`].
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}
