//! Cancellation: a waiting call is taken off its socket and ends with ECANCELED.
//!
//! A call either waits on its socket or its result is posted, so there is no third answer such as
//! "too late to say": whoever cancels learns which it was. What the call had begun goes on: a
//! connection attempt is ended by closing its socket.

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
        // Only ever compared with return paths of this client that were checked when they came.
        let path = ReturnPath { client: self.number, ring, tag };
        if !socket.waiting.remove(path) {
            return Err(Errno::NOENT.into());
        }
        self.finish(engine, Some(path), Err(Errno::CANCELED))?;
        DONE
    }
}
