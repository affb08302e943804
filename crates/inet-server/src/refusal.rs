//! Failures of calls: an error number for the program, or a fault that drops its client.

use abi::Errno;
use abi::call::RequestError;
use inet::Error;

use crate::fault::ClientFault;

/// Why a call fails.
pub(crate) enum Refusal {
    /// The program gets the error number.
    Errno(Errno),
    /// The server drops the client.
    Fault(ClientFault),
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Errno(errno(error))
    }
}

impl From<ClientFault> for Refusal {
    fn from(fault: ClientFault) -> Self {
        Self::Fault(fault)
    }
}

impl From<RequestError> for Refusal {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::BadSlot(slot) => Self::Fault(slot.into()),
            RequestError::Unsupported(errno) => Self::Errno(errno),
        }
    }
}

/// The error number of an error of the core.
pub(crate) fn errno(error: Error) -> Errno {
    match error {
        Error::Refused => Errno::CONNREFUSED,
        Error::Reset => Errno::CONNRESET,
        Error::TimedOut => Errno::TIMEDOUT,
        Error::HostUnreachable => Errno::HOSTUNREACH,
        Error::NetUnreachable => Errno::NETUNREACH,
        Error::AddrInUse => Errno::ADDRINUSE,
        Error::AddrNotAvailable => Errno::ADDRNOTAVAIL,
        Error::NoDevice => Errno::NODEV,
        Error::AddressFamily => Errno::AFNOSUPPORT,
        Error::NotConnected => Errno::NOTCONN,
        Error::AlreadyConnected => Errno::ISCONN,
        Error::InProgress => Errno::INPROGRESS,
        Error::Already => Errno::ALREADY,
        Error::Invalid => Errno::INVAL,
        Error::Unsupported => Errno::OPNOTSUPP,
        Error::NoBuffers => Errno::NOBUFS,
        Error::MessageSize => Errno::MSGSIZE,
        Error::BrokenPipe => Errno::PIPE,
        Error::ProtocolUnreachable => Errno::NOPROTOOPT,
        Error::HostDown => Errno::HOSTDOWN,
        Error::NotOnNetwork => Errno::NONET,
        Error::Protocol => Errno::PROTO,
        Error::DestinationRequired => Errno::DESTADDRREQ,
        Error::BadHandle => Errno::BADF,
        Error::Denied => Errno::ACCESS,
    }
}
