//! Cancellation: a waiting call leaves its socket and ends with ECANCELED.
//!
//! A call either waits on its socket, or its result is posted. So the caller of a cancellation
//! always learns which of the two it was; there is no answer such as "too late to say". Work that
//! the call had begun goes on. Closing the socket ends a connection attempt.

use abi::Errno;
use abi::call::ReturnPath;

use crate::client::Client;
use crate::engine::Engine;
use crate::socket::Socket;

use super::outcome::{CallAnswer, DONE};

impl Client {
    /// `Op::Cancel`.
    pub(crate) fn cancel(
        &mut self,
        engine: &mut Engine,
        socket: &mut Socket,
        ring: u16,
        tag: u32,
    ) -> CallAnswer {
        // It is only compared with return paths of this client, which were checked before.
        let path = ReturnPath { client: self.number, ring, tag };
        if !socket.waiting.remove(path) {
            return Err(Errno::NOENT.into());
        }
        self.finish(engine, Some(path), Err(Errno::CANCELED))?;
        DONE
    }
}
