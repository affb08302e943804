//! ESP (RFC 4303) between IP and the transport protocols, keyed by hand (RFC 4301).
//!
//! A *security policy* says what happens to the packets of some flows: they pass, they are dropped,
//! or a *security association* protects them. An association has the key, the sequence numbers and
//! the replay window. The names and the rules of choice are those of Linux's `ip xfrm`. Keys come
//! from the owner of the stack; there is no IKE.
//!
//! ```text
//!   socket ─ segment ─▶ Context::emit ─ policy (out) ─▶ association ─ seal ─▶ link
//!   link ─▶ ip ─ reassembly ─▶ association ─ open ─▶ ip, once more ─ policy (in) ─▶ socket
//! ```
//!
//! The core has no cryptography: an association holds an [`EspCipher`]. Messages of Neighbour
//! Discovery, ARP, IGMP, MLD and DHCP are exempt from policies, and so are packets to ourselves.
//! ESP protects whole packets: the packets of ESP are fragmented, not what is in them.
//!
//! [`EspCipher`]: crate::EspCipher

pub(crate) mod association;
pub(crate) mod cipher;
pub(crate) mod flow;
mod layer;
pub(crate) mod lifetime;
pub(crate) mod notice;
mod packet;
pub(crate) mod policy;
mod replay;

pub(crate) use association::SecuredBy;
pub(crate) use flow::EspFlow;
pub(crate) use layer::{Admission, EspLayer, PROTOCOL, SealedPacket, Treatment};
