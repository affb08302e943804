//! The ECN field of IP packets (RFC 3168 5), and whether connections use it.

/// The ECN field of an IP packet (RFC 3168 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum EcnField {
    /// The transport does not know ECN.
    #[default]
    NotEct = 0,
    /// ECN-capable, of the experimental kind (RFC 9331).
    Ect1 = 1,
    /// ECN-capable.
    Ect0 = 2,
    /// Congestion experienced.
    Ce = 3,
}

impl EcnField {
    /// The field in the low bits of the IPv4 TOS or IPv6 traffic class.
    pub const fn from_tos(tos: u8) -> Self {
        match tos & 3 {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }
}

/// Whether a connection asks for ECN and accepts it, as the values of Linux's `tcp_ecn`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum EcnPolicy {
    /// Neither.
    Off = 0,
    /// Both.
    On = 1,
    /// The side accepts ECN.
    #[default]
    Accept = 2,
}
