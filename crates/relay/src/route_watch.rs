//! Programs that change what rtnetlink(7) shows them.
//!
//! The interfaces and routes of the relay's namespace show those of the instance, and nothing reads
//! them but programs. A program whose user is the relay's, or root, may change them: its command
//! succeeds, and changes nothing of the instance. So the relay listens to such changes, and says so
//! once on standard error.

use std::io;

use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// linux/rtnetlink.h: links, neighbours, addresses, routes and rules of both families.
const GROUPS: u32 = 0x1 | 0x4 | 0x10 | 0x40 | 0x80 | 0x100 | 0x400;
/// Where a message has its number for the program that asked for it; the kernel's own have 0.
const ASKED_BY: std::ops::Range<usize> = 12..16;
/// Messages of one change are shorter.
const LONGEST: usize = 8192;
const SENTENCE: &str = "a program changes interfaces or routes that it sees; those of the instance \
                        stay: `tasuki addr` and `tasuki route` show them, its configuration sets \
                        them";

/// Listens to changes in the namespace that it was made in.
pub(crate) struct RouteWatch(Socket);

impl RouteWatch {
    /// In this network namespace.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn new() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind(&SocketAddr::new(0, GROUPS))?;
        socket.set_non_blocking(true)?;
        Ok(Self(socket))
    }

    /// Says so when a program changes something. `own` is the number of the relay's own socket.
    pub(crate) async fn tell(self, own: u32) {
        #[expect(deprecated, reason = "what replaces it is unsafe; an owned descriptor stays open")]
        let Ok(ready) = AsyncFd::with_interest(self.0, Interest::READABLE) else { return };
        let mut message = vec![0; LONGEST];
        loop {
            let Ok(mut guard) = ready.readable().await else { return };
            match ready.get_ref().recv(&mut &mut message[..], 0) {
                Ok(len) if is_asked(&message[..len], own) => {
                    tracing::warn!("{SENTENCE}");
                    return;
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => guard.clear_ready(),
                // Some messages were lost, as there were too many.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
                Err(_) => return,
            }
        }
    }
}

/// Has a program asked for it?
fn is_asked(message: &[u8], own: u32) -> bool {
    let by = message.get(ASKED_BY).and_then(|bytes| bytes.try_into().ok());
    by.map(u32::from_ne_bytes).is_some_and(|by| by != 0 && by != own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_who_asked() {
        let message = |by: u32| [&[0; 12][..], &by.to_ne_bytes(), &[1; 20]].concat();
        assert!(is_asked(&message(7), 8));
        for by in [0, 8] {
            assert!(!is_asked(&message(by), 8), "{by}");
        }
        assert!(!is_asked(&[0; 12], 8), "too short");
    }
}
