//! The stream of snapshots to one viewer, as server-sent events.
//!
//! A task waits for the next snapshot and gives it to the connection. The connection takes it when
//! the last one is with the kernel. So a slow viewer has at most two snapshots here, which other
//! viewers share, and then gets the newest.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::channel::{Channel, Sender};
use tokio::time::timeout;

use super::watcher::Viewer;

/// Something is sent at least so often, so that a viewer that has gone is noticed.
const SIGN_OF_LIFE: Duration = Duration::from_secs(15);

/// Begins a stream for this viewer.
pub(super) fn stream(viewer: Viewer) -> Channel<Bytes, Infallible> {
    let (sender, body) = Channel::new(1);
    tokio::task::spawn_local(feed(viewer, sender));
    body
}

/// Ends with the connection: then nothing can be sent any more.
async fn feed(mut viewer: Viewer, mut sender: Sender<Bytes, Infallible>) {
    // The newest snapshot may be old: nobody looked. The next one comes at once.
    viewer.snapshots.mark_unchanged();
    // How long a browser waits before it tries again, milliseconds.
    if sender.send_data(Bytes::from_static(b"retry: 1000\n\n")).await.is_err() {
        return;
    }
    loop {
        let event = match timeout(SIGN_OF_LIFE, viewer.snapshots.changed()).await {
            Ok(Ok(())) => viewer.snapshots.borrow_and_update().event(),
            // The watcher has ended: the page says that it hears nothing.
            Ok(Err(_)) => return,
            Err(_) => Bytes::from_static(b": \n\n"),
        };
        if sender.send_data(event).await.is_err() {
            return;
        }
    }
}
