//! A session with a unit's target, as [`super::link`] needs it.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use bytes::Bytes;

use crate::data_in::in_one_piece;
use crate::initiator::{Initiator, InitiatorError};

/// A future of this thread.
pub(crate) type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Makes a session.
pub(crate) type Connect =
    Box<dyn Fn() -> LocalFuture<'static, Result<Rc<dyn UnitSession>, InitiatorError>>>;

/// A session with a target.
pub(crate) trait UnitSession {
    /// Carries out a command. It is made again while it finds unit attentions, but not if one says
    /// that the unit may be another one: that is its error.
    fn command<'a>(
        &'a self,
        lun: u16,
        cdb: &'a [u8],
        data_out: &'a [Bytes],
        expected_in: u32,
    ) -> LocalFuture<'a, Result<Bytes, InitiatorError>>;

    /// Asks something. The command is made again while it finds unit attentions of any kind.
    fn probe<'a>(
        &'a self,
        lun: u16,
        cdb: &'a [u8],
        expected_in: u32,
    ) -> LocalFuture<'a, Result<Bytes, InitiatorError>>;

    /// The codes of unit attentions since the last call.
    fn take_attentions(&self) -> Vec<u16>;

    /// Ends it, and all of its commands.
    fn close(&self);

    /// Logs out.
    fn logout(&self) -> LocalFuture<'_, ()>;
}

impl UnitSession for Initiator {
    fn command<'a>(
        &'a self,
        lun: u16,
        cdb: &'a [u8],
        data_out: &'a [Bytes],
        expected_in: u32,
    ) -> LocalFuture<'a, Result<Bytes, InitiatorError>> {
        Box::pin(async move {
            let data_out = data_out.to_vec();
            let done = self.command_of_known(lun, cdb, data_out, expected_in).await;
            done.map(in_one_piece)
        })
    }

    fn probe<'a>(
        &'a self,
        lun: u16,
        cdb: &'a [u8],
        expected_in: u32,
    ) -> LocalFuture<'a, Result<Bytes, InitiatorError>> {
        Box::pin(async move {
            Self::command(self, lun, cdb, Vec::new(), expected_in).await.map(in_one_piece)
        })
    }

    fn take_attentions(&self) -> Vec<u16> {
        Self::take_attentions(self)
    }

    fn close(&self) {
        Self::close(self);
    }

    fn logout(&self) -> LocalFuture<'_, ()> {
        Box::pin(Self::logout(self.clone()))
    }
}
