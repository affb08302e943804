//! What the arguments of each traced call are.

/// How an argument is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Argument {
    /// An `int`, or a length.
    Number,
    Hexadecimal,
    Family,
    SocketType,
    /// SOCK_NONBLOCK and SOCK_CLOEXEC alone.
    SocketFlags,
    Protocol,
    MessageFlags,
    /// A `struct sockaddr` of the program; its length is the next argument.
    AddressIn,
    /// One that the call writes; the next argument points to its length.
    AddressOut,
    /// Bytes of the program, as many as the next argument says.
    BytesIn,
    /// Bytes that the call writes, as many as it returns.
    BytesOut,
    Level,
    /// An option of the level before it.
    OptionName,
    /// An option's value; its length is the next argument.
    ValueIn,
    /// One that the call writes; the next argument points to its length.
    ValueOut,
    /// A pointer to a `socklen_t`.
    LengthOut,
    Direction,
    EpollOperation,
    EpollEvent,
    /// Events that the call writes, as many as it returns.
    EpollEvents,
    /// Entries of poll(2), as many as the next argument says.
    PollEntries,
}

/// The arguments of a traced call; `None` for calls that have no line.
pub(super) fn kinds(name: &str) -> Option<&'static [Argument]> {
    use Argument::{
        AddressIn, AddressOut, BytesIn, BytesOut, Direction, EpollEvent, EpollEvents,
        EpollOperation, Family, Hexadecimal, LengthOut, Level, MessageFlags, Number, OptionName,
        PollEntries, Protocol, SocketFlags, SocketType, ValueIn, ValueOut,
    };
    Some(match name {
        "socket" => &[Family, SocketType, Protocol],
        "bind" | "connect" => &[Number, AddressIn, Number],
        "listen" | "dup2" => &[Number, Number],
        "close" | "dup" | "epoll_create" => &[Number],
        "dup3" => &[Number, Number, Hexadecimal],
        "accept" | "getsockname" | "getpeername" => &[Number, AddressOut, LengthOut],
        "accept4" => &[Number, AddressOut, LengthOut, SocketFlags],
        "shutdown" => &[Number, Direction],
        "read" => &[Number, BytesOut, Number],
        "write" => &[Number, BytesIn, Number],
        "recv" => &[Number, BytesOut, Number, MessageFlags],
        "send" => &[Number, BytesIn, Number, MessageFlags],
        "recvfrom" => &[Number, BytesOut, Number, MessageFlags, AddressOut, LengthOut],
        "sendto" => &[Number, BytesIn, Number, MessageFlags, AddressIn, Number],
        "__read_chk" => &[Number, BytesOut, Number, Number],
        "__recv_chk" => &[Number, BytesOut, Number, Number, MessageFlags],
        "readv" | "writev" => &[Number, Hexadecimal, Number],
        "preadv2" | "pwritev2" => &[Number, Hexadecimal, Number, Number, Hexadecimal],
        "sendmsg" | "recvmsg" => &[Number, Hexadecimal, MessageFlags],
        "sendmmsg" => &[Number, Hexadecimal, Number, MessageFlags],
        "recvmmsg" => &[Number, Hexadecimal, Number, MessageFlags, Hexadecimal],
        "sendfile" => &[Number, Number, Hexadecimal, Number],
        "splice" => &[Number, Hexadecimal, Number, Hexadecimal, Number, Hexadecimal],
        "getsockopt" => &[Number, Level, OptionName, ValueOut, LengthOut],
        "setsockopt" => &[Number, Level, OptionName, ValueIn, Number],
        "poll" => &[PollEntries, Number, Number],
        "ppoll" => &[PollEntries, Number, Hexadecimal, Hexadecimal],
        "select" => &[Number, Hexadecimal, Hexadecimal, Hexadecimal, Hexadecimal],
        "pselect" => &[Number, Hexadecimal, Hexadecimal, Hexadecimal, Hexadecimal, Hexadecimal],
        "epoll_create1" => &[Hexadecimal],
        "epoll_ctl" => &[Number, EpollOperation, Number, EpollEvent],
        "epoll_wait" => &[Number, EpollEvents, Number, Number],
        "epoll_pwait" => &[Number, EpollEvents, Number, Number, Hexadecimal],
        "epoll_pwait2" => &[Number, EpollEvents, Number, Hexadecimal, Hexadecimal],
        "fcntl" | "ioctl" => &[Number, Hexadecimal, Hexadecimal],
        _ => return None,
    })
}

/// Arguments of one call.
pub(super) type Arguments = [Option<(Argument, u64)>; MOST];

/// Most arguments of a call.
const MOST: usize = 6;

/// Each with its kind.
pub(super) fn with_kinds(kinds: &[Argument], values: &[u64]) -> Arguments {
    let mut all = [None; MOST];
    for (place, both) in all.iter_mut().zip(kinds.iter().copied().zip(values.iter().copied())) {
        *place = Some(both);
    }
    all
}
