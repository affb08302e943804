//! The numbers of the operations.

/// The operations. The first ten are P1's, with the paper's names. [`Request`](super::Request)
/// documents the arguments of each one, [`Reply`](super::Reply) its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Op {
    /// Makes a socket.
    Socket = 1,
    /// Gives a socket an address.
    Bind = 2,
    /// Makes a socket a listener.
    Listen = 3,
    /// Connects a socket.
    Connect = 4,
    /// Takes a connection from a listener.
    Accept = 5,
    /// Closes a socket.
    Close = 6,
    /// Sends bytes on a stream.
    Send = 7,
    /// Waits for something to receive.
    Recv = 8,
    /// A driver registers its interface ([`DriverCall`](crate::frame::DriverCall)).
    IfAttach = 9,
    /// A driver hands over a frame ([`DriverCall`](crate::frame::DriverCall)).
    EthInput = 10,
    /// Ends one direction of a socket, or both.
    Shutdown = 11,
    /// Reads an option.
    GetSockOpt = 12,
    /// Sets an option.
    SetSockOpt = 13,
    /// Asks for a socket's own address.
    GetSockName = 14,
    /// Asks for the peer's address.
    GetPeerName = 15,
    /// Does nothing.
    Null = 16,
    /// Takes the descriptors that are queued to be sent.
    Flush = 17,
    /// Cancels a waiting call.
    Cancel = 18,
    /// Takes up a socket that another process holds too.
    Adopt = 19,
}

impl Op {
    /// All, in the order of their numbers.
    const ALL: [Op; 19] = [
        Op::Socket,
        Op::Bind,
        Op::Listen,
        Op::Connect,
        Op::Accept,
        Op::Close,
        Op::Send,
        Op::Recv,
        Op::IfAttach,
        Op::EthInput,
        Op::Shutdown,
        Op::GetSockOpt,
        Op::SetSockOpt,
        Op::GetSockName,
        Op::GetPeerName,
        Op::Null,
        Op::Flush,
        Op::Cancel,
        Op::Adopt,
    ];

    #[inline]
    pub(super) fn from_number(number: u16) -> Option<Self> {
        Self::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }
}
