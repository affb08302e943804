//! A target's process.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rustix::rand::{GetRandomFlags, getrandom};
use sockets::Client;
use tasuki_tokio::TcpListener;

use crate::connection;
use crate::definition::TargetDefinition;
use crate::device::{Device, DeviceError};
use crate::handle::TargetHandle;
use crate::portal::Portal;
use crate::session::Ends;

/// A hundred years.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// Why a target does not serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Its units.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Its address.
    #[error("cannot listen at {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The instance or io_uring.
    #[error("the target ended: {0}")]
    Ended(#[from] io::Error),
}

/// Serves the target on an instance, until `TargetHandle::end`. `ready` is called once before the
/// first initiator is heard, within the target's tokio runtime. All files are open then, so it may
/// take the process into a sandbox.
///
/// # Errors
/// Why it does not begin, or has ended.
pub fn serve(
    client: &Arc<Client>,
    definition: TargetDefinition,
    ready: impl FnOnce(TargetHandle),
) -> Result<(), ServeError> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    // One thread for what takes long, which stays: see `TargetHandle::begin_thread`.
    let runtime = runtime.max_blocking_threads(1).thread_keep_alive(FOR_EVER);
    let runtime = runtime.enable_all().build()?;
    let served = async {
        let device = Device::new(&definition)?;
        let address = definition.portal;
        let listener = TcpListener::bind(address).await;
        let listener = listener.map_err(|source| ServeError::Listen { address, source })?;
        let portal = Portal::new(device.clone(), definition);
        let handle = TargetHandle::new(Rc::clone(&portal));
        ready(handle.clone());
        tokio::select! {
            () = handle.ended() => Ok(()),
            ended = device.run() => ended.map_err(ServeError::Ended),
            ended = accept(&portal, client, &listener, address) => ended.map_err(ServeError::Ended),
        }
    };
    tokio::task::LocalSet::new().block_on(&runtime, tasuki_tokio::run(client, served))?
}

/// Accepts connections until the instance ends.
async fn accept(
    portal: &Rc<Portal>,
    client: &Arc<Client>,
    listener: &TcpListener,
    address: SocketAddr,
) -> io::Result<()> {
    loop {
        let (stream, peer) = listener.accept().await?;
        let _ = stream.set_nodelay(true).await;
        let mut random = [0; 64];
        getrandom(&mut random, GetRandomFlags::empty())?;
        let local = stream.as_aio().as_socket().local_addr().unwrap_or(address);
        let canonical = |end: SocketAddr| SocketAddr::new(end.ip().to_canonical(), end.port());
        let ends = Ends { local: canonical(local), peer: canonical(peer) };
        let (portal, client) = (Rc::clone(portal), Arc::clone(client));
        tokio::task::spawn_local(async move {
            connection::serve(&portal, &client, stream, ends, random).await;
        });
    }
}
