//! Bytes without a copy in this process: areas that the program fills itself, and areas that it
//! reads where they were received.
//!
//! * [`TxArea`] is memory of the sending pool that the program writes; [`TxArea::freeze`] makes it
//!   a [`TxSlice`], which can be cut, cloned and sent as often as one likes
//!   ([`Socket::send_slices`](crate::Socket::send_slices)). No byte is moved: a descriptor names
//!   the bytes, the device gathers them from there, and so does a retransmission.
//! * A slice that was sent counts as read until nobody needs it any more: of a stream, until the
//!   peer has acknowledged it and the drivers have passed the last frame with it. Slices are
//!   numbered per socket, as with MSG_ZEROCOPY; how many are over is a counter
//!   ([`Socket::slices_done`](crate::Socket::slices_done)), and one can wait for it. Then
//!   [`TxSlice::reclaim`] gives the area back for writing, if nobody else holds a slice of it;
//!   otherwise it goes back to the pool with its last slice.
//!
//! * [`RxArea`] is bytes received, where they are: in their frame, if the instance shares frames
//!   (`[memory] share_frames`), else where the inet server has put them for this program. Dropping
//!   it gives them back ([`Socket::recv_area`](crate::Socket::recv_area)).
//!
//! What is sent is the program's memory and nobody else's burden: it is cut from its own pool,
//! which keeps what every socket was promised.

mod area;
mod file;
mod recv;
mod send;

pub use self::area::{MOST_AREA, TxArea, TxSlice};
pub use self::recv::RxArea;
pub(crate) use self::recv::{Kept, KeptList};
pub use self::send::MOST_SLICES;
