//! Memory of the sending pool: the holders of each area, and for how long they hold it.
//!
//! * [`TxPool`] gives areas to sockets and to the program.
//! * [`TxArea`] and [`TxSlice`] are areas that the program itself fills and sends.
//! * [`SendQueue`] holds the areas that a socket has sent, until the server has released them.
//! * [`ClosedSendHalves`] holds them after the socket was closed.

mod closed;
mod send_queue;
mod tx_area;
mod tx_pool;

pub(crate) use self::closed::ClosedSendHalves;
pub(crate) use self::send_queue::{SendBuffers, SendQueue};
pub use self::tx_area::{MOST_AREA, TxArea, TxSlice};
pub(crate) use self::tx_pool::TxPool;
