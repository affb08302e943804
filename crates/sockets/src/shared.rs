//! Sockets of which several processes hold a descriptor ([`abi::shared`]).
//!
//! A process that is about to fork, to execute a program or to pass sockets on makes them shared
//! ([`Client::share`]): it puts the descriptors that it gets under the sockets' own numbers. A
//! process that finds such a descriptor takes the socket up ([`Client::adopt`]). From then on the
//! socket is in its region. In the process that had it before, the socket has moved
//! ([`Socket::is_moved`]); it can be taken up again there. A listener may be in several regions.

use std::os::fd::{AsFd, OwnedFd};

use abi::Errno;
use abi::call::{Op, Reply, Request};
use abi::shared::permit;
use rustix::net::{SendFlags, send, sockopt};

pub use abi::shared::{MARK, MOST_SHARED};

use crate::client::Client;
use crate::membership::{NewCall, RawBatch};
use crate::socket::Socket;

impl Client {
    /// Makes sockets of this client shared ones, at most [`MOST_SHARED`]. The descriptors stand for
    /// them from now on, one each, in their order; [`MARK`] is not set yet. When the last copy of
    /// one is closed, the socket is closed as by close(2). A close in this process only ends this
    /// process's use of the socket.
    ///
    /// # Errors
    /// EPERM when the instance refuses: there is too little room, or it is of mode `library`.
    /// ENETDOWN when the instance is gone; ENOTCONN in a forked child.
    pub fn share(&self, sockets: &[&Socket]) -> Result<Vec<OwnedFd>, Errno> {
        let server = &self.membership().server;
        server.check_memory()?;
        let names = sockets.iter().map(|socket| socket.id()).collect();
        server.share(names)?.ok_or(Errno::PERM)
    }

    /// Takes up the shared socket that a descriptor stands for.
    ///
    /// # Errors
    /// EBADF when it stands for none, or for one of another instance. EMFILE without a free socket
    /// place. Otherwise as [`Client::share`].
    pub fn adopt(&self, descriptor: impl AsFd) -> Result<Socket, Errno> {
        let membership = self.membership();
        membership.server.check_memory()?;
        membership.reap();
        let cookie = sockopt::socket_cookie(&descriptor)?;
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        // Without room a holder has written nonsense; the call makes room.
        let _ = send(&descriptor, &permit(self.number()), flags);
        let call = NewCall::new(Request::Adopt { cookie });
        let words = match RawBatch::call(membership, &call) {
            Err(Errno::PERM) => {
                send(&descriptor, &permit(self.number()), flags).map_err(|_| Errno::BADF)?;
                RawBatch::call(membership, &call)
            }
            other => other,
        };
        let words = words.map_err(|errno| match errno {
            Errno::NOENT | Errno::PERM => Errno::BADF,
            errno => errno,
        })?;
        let Ok(Reply::Adopted { socket, kind, family }) = Reply::decode(Op::Adopt, &words) else {
            return Err(membership.server.fault());
        };
        Socket::admit(membership, socket, family, kind)
    }
}
