//! The stack: owns the layers, and routes frames, time and the layers' results between them.
//!
//! The owner moves three things: frames in ([`Stack::handle_frame`]), frames out (an
//! [`Egress`](crate::Egress)), and time. Input only changes state and sends small answers; all else
//! leaves in [`Stack::poll`], which serves the sockets with output in turn.
//! [`Stack::poll_event`] tells the owner what happened. Nothing here looks at all sockets, but for
//! [`Stack::sockets`] and the end of a listener.
//!
//! ```text
//!   state       the layers, the queues of sockets, bounds
//!   input       frames: from the link to the protocol that they are for
//!   poll        timers, neighbours, scheduling of the sockets
//!   interfaces  interfaces, addresses and routes at run time
//!   calls       calls of a socket's owner; connections, too
//!   dhcp        DHCP and its leases
//!   esp         security associations and policies, packets of ESP
//! ```

mod calls;
mod connections;
mod dhcp;
mod esp;
mod input;
mod interfaces;
mod poll;
pub(crate) mod state;

pub use state::Stack;
