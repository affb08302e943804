//! Linux's names for the core's errors.

use inet::Error;

/// The number of `error`.
pub(crate) fn of(error: Error) -> i32 {
    match error {
        Error::Refused => libc::ECONNREFUSED,
        Error::Reset => libc::ECONNRESET,
        Error::TimedOut => libc::ETIMEDOUT,
        Error::HostUnreachable => libc::EHOSTUNREACH,
        Error::NetUnreachable => libc::ENETUNREACH,
        Error::AddrInUse => libc::EADDRINUSE,
        Error::AddrNotAvailable => libc::EADDRNOTAVAIL,
        Error::NotConnected => libc::ENOTCONN,
        Error::AlreadyConnected => libc::EISCONN,
        Error::InProgress => libc::EINPROGRESS,
        Error::Already => libc::EALREADY,
        Error::Invalid => libc::EINVAL,
        Error::Unsupported => libc::EOPNOTSUPP,
        Error::NoBuffers => libc::ENOBUFS,
        Error::MessageSize => libc::EMSGSIZE,
        Error::BrokenPipe => libc::EPIPE,
        Error::ProtocolUnreachable => libc::ENOPROTOOPT,
        Error::HostDown => libc::EHOSTDOWN,
        Error::NoDevice => libc::ENODEV,
        Error::AddressFamily => libc::EAFNOSUPPORT,
        Error::NotOnNetwork => libc::ENONET,
        Error::Protocol => libc::EPROTO,
        Error::DestinationRequired => libc::EDESTADDRREQ,
        Error::BadHandle => libc::EBADF,
        Error::Denied => libc::EACCES,
    }
}
