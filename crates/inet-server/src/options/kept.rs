//! Options that the server keeps without effect, most of them of SOL_SOCKET, and those with the
//! same answer for every socket: socket(7), and what Linux 6.18 does.
//!
//! They tune what this stack does not have: marks for policy routing, priorities of queues, polling
//! of devices, filters. Values are checked as Linux does, so that a program sees its own again.

use abi::Errno;
use abi::option::OptionKey;

use super::numbers::*;
use super::value::{OptionBytes, SetValue};
use crate::socket::Socket;

/// The values that an option takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeptForm {
    /// All.
    Any,
    /// As a flag: what is not 0 reads as 1.
    Flag,
    /// As a flag that stays.
    Lock,
    NotNegative,
}

/// The form of an option that is kept without effect, and its value at first.
fn form(key: OptionKey) -> Option<(KeptForm, i32)> {
    use KeptForm::{Any, Flag, Lock, NotNegative};
    Some(match (key.level, key.name) {
        (SOL_SOCKET, SO_PRIORITY | SO_MARK) => (Any, 0),
        // The stack hands on neither IP options nor extension headers.
        (
            IPPROTO_IP,
            IP_BIND_ADDRESS_NO_PORT | IP_RECVOPTS | IP_RETOPTS | IP_PASSSEC | IP_CHECKSUM,
        )
        | (
            IPPROTO_IPV6,
            IPV6_2292HOPOPTS | IPV6_2292DSTOPTS | IPV6_2292RTHDR | IPV6_FLOWINFO
            | IPV6_FLOWINFO_SEND | IPV6_RECVHOPOPTS | IPV6_RECVRTHDR | IPV6_RECVDSTOPTS
            | IPV6_RECVPATHMTU,
        ) => (Flag, 0),
        (SOL_SOCKET, SO_INCOMING_CPU) => (Any, -1),
        (
            SOL_SOCKET,
            SO_DEBUG | SO_DONTROUTE | SO_NO_CHECK | SO_RXQ_OVFL | SO_WIFI_STATUS | SO_NOFCS
            | SO_SELECT_ERR_QUEUE | SO_PREFER_BUSY_POLL,
        ) => (Flag, 0),
        (SOL_SOCKET, SO_LOCK_FILTER) => (Lock, 0),
        (SOL_SOCKET, SO_BUSY_POLL) => (NotNegative, 0),
        _ => return None,
    })
}

/// The value of an option that only says how the machine is, or that inet sockets do not have.
///
/// # Errors
/// Linux's.
fn fixed(socket: &Socket, name: i32) -> Result<Option<OptionBytes>, Errno> {
    Ok(Some(match name {
        SO_PEERCRED => {
            let nobody = [0, -1, -1_i32].map(i32::to_ne_bytes);
            OptionBytes::new(nobody.as_flattened())
        }
        SO_PEERGROUPS | SO_PEERPIDFD => return Err(Errno::NODATA),
        SO_PASSCRED | SO_PASSSEC | SO_PASSPIDFD | SO_PASSRIGHTS | SO_PEEK_OFF => {
            return Err(Errno::OPNOTSUPP);
        }
        // There is no filter.
        SO_ATTACH_FILTER => OptionBytes::new(&[]),
        SO_BPF_EXTENSIONS => OptionBytes::int(64),
        SO_INCOMING_NAPI_ID => OptionBytes::int(0),
        SO_MEMINFO => {
            let (recv, send) = (socket.rx.capacity() as u64, 2 * socket.tx.limit);
            let count = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
            let counts = [0, count(2 * recv), 0, count(send), 0, 0, 0, 0, 0].map(u32::to_ne_bytes);
            OptionBytes::new(counts.as_flattened())
        }
        _ => return Ok(None),
    }))
}

/// Is it an option of SOL_SOCKET, or one of another level that is kept?
pub(super) fn may_keep(key: OptionKey) -> bool {
    key.level == SOL_SOCKET || form(key).is_some()
}

/// getsockopt; `None` if it is no such option.
///
/// # Errors
/// Linux's for an option that inet sockets do not have.
pub(super) fn get(socket: &Socket, key: OptionKey) -> Result<Option<OptionBytes>, Errno> {
    if let Some((_, first)) = form(key) {
        return Ok(Some(OptionBytes::int(value(socket, key).unwrap_or(first))));
    }
    if key.level == SOL_SOCKET { fixed(socket, key.name) } else { Ok(None) }
}

/// setsockopt; false if it is no such option.
///
/// # Errors
/// Linux's.
pub(super) fn set(socket: &mut Socket, key: OptionKey, given: SetValue<'_>) -> Result<bool, Errno> {
    let OptionKey { level, name } = key;
    // As Linux: first of all.
    let int = if (level, name) == (SOL_SOCKET, SO_BINDTODEVICE) { 0 } else { given.int(level)? };
    if let Some((form, first)) = form(key) {
        let value = match form {
            KeptForm::Any => int,
            KeptForm::NotNegative if int < 0 => return Err(Errno::INVAL),
            KeptForm::NotNegative => int,
            KeptForm::Lock if int == 0 && value(socket, key).unwrap_or(first) != 0 => {
                return Err(Errno::PERM);
            }
            KeptForm::Flag | KeptForm::Lock => (int != 0).into(),
        };
        keep(socket, key, value);
        return Ok(true);
    }
    if level != SOL_SOCKET {
        return Ok(false);
    }
    match name {
        SO_PASSCRED | SO_PASSSEC | SO_PASSPIDFD | SO_PASSRIGHTS | SO_PEEK_OFF => {
            Err(Errno::OPNOTSUPP)
        }
        SO_DETACH_FILTER => Err(Errno::NOENT),
        // A `struct sock_fprog`. There are no filters.
        SO_ATTACH_FILTER if given.len != 16 => Err(Errno::INVAL),
        SO_BUSY_POLL_BUDGET if !(0..=0xffff).contains(&int) => Err(Errno::INVAL),
        SO_CNX_ADVICE | SO_BUSY_POLL_BUDGET => Ok(true),
        _ => Ok(false),
    }
}

/// The value that is kept of an option.
pub(super) fn value(socket: &Socket, key: OptionKey) -> Option<i32> {
    socket.hints.iter().find(|(hint, _)| *hint == key).map(|(_, value)| *value)
}

/// Keeps a value of an option.
pub(super) fn keep(socket: &mut Socket, key: OptionKey, value: i32) {
    socket.hints.retain(|(hint, _)| *hint != key);
    socket.hints.push((key, value));
}
