//! Shared sockets: sockets of which several processes may hold a descriptor.
//!
//! A socket becomes shared before its process forks, executes a program or passes the socket on.
//! The supervisor makes a pair of Unix sockets (SOCK_SEQPACKET) for it. The program puts one end
//! under the socket's descriptor numbers; the inet server has the other end. So the kernel counts
//! the holders: the server's end hangs up when the last copy of the program's end is closed.
//!
//! * **Mark.** The program's end has the option SO_RCVLOWAT at [`MARK`]. The option survives
//!   `fork`, `exec`, `dup` and passing, so any process recognises such a descriptor by one call.
//! * **Name.** The end's SO_COOKIE names the shared socket. The kernel gives each number once.
//! * **Possession.** A cookie can be guessed. So a process that takes up a shared socket
//!   ([`Request::Adopt`](crate::call::Request::Adopt)) writes a permit for its client into the
//!   descriptor first. Only a holder of the descriptor can.

/// SO_RCVLOWAT of the programs' ends of shared sockets.
pub const MARK: i32 = 0x54_53_4b_31;

/// Most sockets that one request shares: as many descriptors fit into a message.
pub const MOST_SHARED: usize = 8;

/// Bytes of a permit.
pub const PERMIT_BYTES: usize = 4;

const PERMIT: u16 = 0x4854;

/// The permit for a client, as the holder of a descriptor writes it.
#[must_use]
pub fn permit(client: u16) -> [u8; PERMIT_BYTES] {
    let ([a, b], [c, d]) = (PERMIT.to_le_bytes(), client.to_le_bytes());
    [a, b, c, d]
}

/// The client that a message permits; `None` if the message is no permit.
#[must_use]
pub fn permitted(message: &[u8]) -> Option<u16> {
    match *message {
        [a, b, c, d] if u16::from_le_bytes([a, b]) == PERMIT => Some(u16::from_le_bytes([c, d])),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permits_are_read_as_they_are_written() {
        for client in [0, 1, 257, u16::MAX] {
            assert_eq!(permitted(&permit(client)), Some(client));
        }
        assert_eq!(permitted(&[]), None);
        assert_eq!(permitted(&permit(1)[..3]), None);
        assert_eq!(permitted(&[0; 4]), None);
        assert_eq!(permitted(&[0x54, 0x48, 1, 0, 0]), None);
    }
}
