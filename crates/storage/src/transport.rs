//! How the bytes of a stream are protected. A portal speaks exactly one transport, and so does an
//! initiator's session; none of them is ever changed or negotiated, so there is no downgrade.
//!
//! | transport | records | who comes in |
//! |---|---|---|
//! | plain | none | everybody |
//! | TLS | TLS 1.3's, 16 KiB | a certificate or raw key that [`Judge`] takes |
//! | sealed | docs/reference/sealed-transport.md, 16 to 256 KiB | the same |
//!
//! ```text
//!   stream ◀──▶ reader, writer ◀── TcpStream          plain
//!                              ◀── TLS ◀── TcpStream
//!                              ◀── opener, sealer ◀── TcpStream
//! ```
//!
//! **Copies.** Plain: one into or out of the socket. TLS: one more in each direction, within
//! rustls. Sealed, sending: the pieces of a chunk are gathered into an area of the sending pool,
//! sealed there, and sent from there. Sealed, receiving: one out of the socket; the record is
//! opened where it lies.

mod buffer;
mod credentials;
mod ends;
mod error;
mod halves;
mod sealed;
mod sealed_reader;
mod sealed_state;
mod sealed_writer;

pub use self::credentials::{Credentials, Judge, Refusal};
pub use self::ends::{DiskTransport, PortalTransport};
pub use self::error::TransportError;
pub(crate) use self::halves::{Opened, Reader, Writer};
pub use self::sealed_state::SealedCounts;
pub(crate) use self::sealed_state::SealedState;
