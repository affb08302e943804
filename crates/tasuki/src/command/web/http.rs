//! Connections: how many, how long, how large.
//!
//! | what a client could do | what bounds it |
//! |---|---|
//! | make connections without end | [`MOST_CONNECTIONS`]: [`OpenConnections::make_room`] |
//! | send its request slowly, or none | [`HEAD_PATIENCE`] for each head, idle time included |
//! | send a long head or address | [`MOST_HEAD`]: 431 |
//! | send a body | it is not read: the connection ends after the answer |
//! | not read | nothing is sent for [`READ_PATIENCE`]: the system ends the connection |

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::net::TcpListener;
use std::rc::Rc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::net::sockopt;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::task::AbortHandle;

use super::routes::Site;
use crate::exit::Failure;

/// Open connections.
const MOST_CONNECTIONS: usize = 64;
/// For the head of a request, from the end of the one before.
const HEAD_PATIENCE: Duration = Duration::from_secs(30);
/// Bytes of a request's head.
const MOST_HEAD: usize = 16 * 1024;
/// Headers of a request.
const MOST_HEADERS: usize = 64;
/// For a client that takes nothing.
const READ_PATIENCE: Duration = Duration::from_secs(30);
/// After accept has failed for want of descriptors or memory.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
/// The answer to one connection too many.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain\r\n\
    connection: close\r\nretry-after: 5\r\ncontent-length: 44\r\n\r\n\
    too many connections: close some pages first";

/// Serves until the listener fails.
pub(super) async fn serve(listener: TcpListener, site: Site) -> Failure {
    let failed = |error: io::Error| Failure::system("accept connections", error);
    let listener =
        listener.set_nonblocking(true).and_then(|()| tokio::net::TcpListener::from_std(listener));
    let listener = match listener {
        Ok(listener) => listener,
        Err(error) => return failed(error),
    };
    let open = OpenConnections::default();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            // A connection that ended before it was accepted, or a lack that passes.
            Err(error) => {
                tracing::debug!(%error, "accept");
                tokio::time::sleep(ACCEPT_AGAIN).await;
                continue;
            }
        };
        if open.make_room() {
            open.add(stream, site.clone());
        } else {
            refuse(stream);
        }
    }
}

/// The open connections, oldest first.
#[derive(Clone, Default)]
struct OpenConnections(Rc<RefCell<VecDeque<OpenConnection>>>);

struct OpenConnection {
    has_token: Rc<Cell<bool>>,
    task: AbortHandle,
}

impl OpenConnections {
    /// Is there room for one more? The oldest one whose client has not shown the token makes room:
    /// anybody can open those, and they must not keep the page's owner out.
    fn make_room(&self) -> bool {
        let mut open = self.0.borrow_mut();
        open.retain(|one| !one.task.is_finished());
        if open.len() < MOST_CONNECTIONS {
            return true;
        }
        let stranger = open.iter().position(|one| !one.has_token.get());
        let ended = stranger.and_then(|at| open.remove(at));
        ended.iter().for_each(|one| one.task.abort());
        ended.is_some()
    }

    fn add(&self, stream: TcpStream, site: Site) {
        let has_token = Rc::new(Cell::new(false));
        let shown = Rc::clone(&has_token);
        let task = tokio::task::spawn_local(connection(stream, site, shown)).abort_handle();
        self.0.borrow_mut().push_back(OpenConnection { has_token, task });
    }
}

/// Says why, as far as the system takes it at once.
fn refuse(mut stream: TcpStream) {
    tokio::task::spawn_local(async move {
        let said = tokio::time::timeout(Duration::from_secs(1), stream.write_all(FULL));
        let _ = said.await;
    });
}

async fn connection(stream: TcpStream, site: Site, has_token: Rc<Cell<bool>>) {
    let patience = u32::try_from(READ_PATIENCE.as_millis()).unwrap_or(u32::MAX);
    // Where the system does not know it, other bounds remain.
    let _ = sockopt::set_tcp_user_timeout(&stream, patience);
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let (site, has_token) = (site.clone(), Rc::clone(&has_token));
        async move { Ok::<_, std::convert::Infallible>(site.answer(&request, &has_token).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_PATIENCE)
        .max_buf_size(MOST_HEAD)
        .max_headers(MOST_HEADERS)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        // A client that has gone, or broke the protocol.
        tracing::debug!(%error, "connection");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fixed_answer_is_whole() {
        let text = std::str::from_utf8(FULL).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.ends_with(&format!("content-length: {}", body.len())), "{}", body.len());
        assert!(head.lines().all(|line| !line.starts_with(' ')));
    }
}
