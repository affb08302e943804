//! Carries bytes between a kernel connection and one of the instance, until both have ended.

use std::io;
use std::net::Shutdown;
use std::rc::Rc;

use rustix::net::sockopt;
use tasuki_tokio::TcpStream as TasukiStream;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional_with_sizes};
use tokio::net::TcpStream as KernelStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};

use crate::state::Relay;

/// Bytes that are carried at a time, in each direction.
const CHUNK: usize = 256 << 10;

/// An end of one direction that came with an error.
enum Broken {
    /// The program's side failed: it reset the connection, or ended.
    Program,
    /// The peer's side.
    Peer,
}

/// Carries bytes both ways. The end of one direction is passed on as such. A reset of either side
/// becomes one of the other.
pub(crate) async fn carry(relay: Rc<Relay>, mut kernel: KernelStream, tasuki: TasukiStream) {
    relay.carried.set(relay.carried.get() + 1);
    let broken = {
        let (from_program, to_program) = kernel.split();
        tokio::try_join!(upload(from_program, &tasuki), download(&tasuki, to_program)).err()
    };
    match broken {
        None => {}
        Some(Broken::Program) => tasuki.abort(),
        Some(Broken::Peer) => reset(kernel),
    }
    relay.carried.set(relay.carried.get() - 1);
}

/// The same for a connection to a server of the host.
pub(crate) async fn carry_to_host(
    relay: Rc<Relay>,
    mut program: KernelStream,
    mut server: KernelStream,
) {
    relay.carried.set(relay.carried.get() + 1);
    let _ = server.set_nodelay(true);
    if copy_bidirectional_with_sizes(&mut program, &mut server, CHUNK, CHUNK).await.is_err() {
        reset(program);
        reset(server);
    }
    relay.carried.set(relay.carried.get() - 1);
}

/// Ends a kernel connection with a reset.
pub(crate) fn reset(stream: KernelStream) {
    // Without it the program sees the end of the stream, which is worse but no hang.
    let _ = sockopt::set_socket_linger(&stream, Some(std::time::Duration::ZERO));
    drop(stream);
}

async fn upload(mut from: ReadHalf<'_>, to: &TasukiStream) -> Result<(), Broken> {
    let mut buffer = vec![0; CHUNK];
    loop {
        let len = from.read(&mut buffer).await.map_err(|_| Broken::Program)?;
        if len == 0 {
            // The peer may have reset the connection just now: the other direction says so.
            let _ = to.shut_down(Shutdown::Write).await;
            return Ok(());
        }
        write_all(to, &buffer[..len]).await.map_err(|_| Broken::Peer)?;
    }
}

async fn write_all(mut to: &TasukiStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let len = to.write(bytes).await?;
        bytes = &bytes[len..];
    }
    Ok(())
}

async fn download(mut from: &TasukiStream, mut to: WriteHalf<'_>) -> Result<(), Broken> {
    let mut buffer = vec![0; CHUNK];
    loop {
        let len = from.read(&mut buffer).await.map_err(|_| Broken::Peer)?;
        if len == 0 {
            let _ = to.shutdown().await;
            return Ok(());
        }
        to.write_all(&buffer[..len]).await.map_err(|_| Broken::Program)?;
    }
}
