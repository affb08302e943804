//! A hostile DHCP server.
//!
//! The input is a sequence of records: a byte of flags, two bytes of the address that is given, a
//! byte of length, and that many bytes of options. The record becomes an answer to the client's
//! last message. The flags' lowest three bits name its kind, and bit 3 chooses the server. With bit
//! 4, options that every client needs come first. The upper three bits let time pass.
//!
//! For any input there is no panic. The client has at most one address and a bounded number of
//! routes, and sends no more messages than a patient client.

use core::time::Duration;

use inet::{Config, Instant, InterfaceConfig, InterfaceId, Stack};

use crate::memory::{Chunk, Frame, Wire};
use crate::packet::{MAC, sum};

const ID: InterfaceId = InterfaceId(0);

/// The server's answer in a frame.
fn frame(flags: u8, address: [u8; 2], options: &[u8], xid: &[u8]) -> Vec<u8> {
    let server = [10, 0, 0, 1 + (flags >> 3 & 1)];
    let mut message = vec![0; 240];
    message[..4].copy_from_slice(&[2, 1, 6, 0]);
    message[4..8].copy_from_slice(xid);
    message[16..20].copy_from_slice(&[10, 0, address[0], address[1]]);
    message[28..34].copy_from_slice(&MAC);
    message[236..240].copy_from_slice(&[0x63, 0x82, 0x53, 0x63]);
    message.extend_from_slice(&[53, 1, flags & 7]);
    if flags & 16 != 0 {
        message.extend_from_slice(&[54, 4, server[0], server[1], server[2], server[3]]);
        message.extend_from_slice(&[51, 4, 0, 0, 1, 0, 1, 4, 255, 255, 0, 0]);
    }
    message.extend_from_slice(options);
    let udp = (8 + message.len() as u16).to_be_bytes();
    let total = (28 + message.len() as u16).to_be_bytes();
    let mut header =
        [&[0x45, 0][..], &total, &[0, 0, 0, 0, 64, 17, 0, 0], &server, &[255; 4]].concat();
    let right = !sum(&header);
    header[10..12].copy_from_slice(&right.to_be_bytes());
    let mut frame = [&[255; 6][..], &[2, 0, 0, 0, 0, 1, 8, 0], &header].concat();
    frame.extend_from_slice(&[0, 67, 0, 68, udp[0], udp[1], 0, 0]);
    frame.extend_from_slice(&message);
    frame
}

/// Runs the target.
pub fn run(data: &[u8]) {
    let mut stack: Stack<Chunk, Frame> = Stack::new(Config::default(), [7; 16]);
    let mut wire = Wire::default();
    let mut now = Instant::from_nanos(1_000_000_000);
    stack.add_interface(InterfaceConfig { mac: MAC, mtu: 1500 });
    stack.enable_dhcp(now, ID).expect("an interface");
    stack.poll(now, &mut wire);
    let mut xid = [0; 4];
    let mut rest = data;
    while let [flags, high, low, len, more @ ..] = rest {
        let (options, tail) = more.split_at(usize::from(*len).min(more.len()));
        rest = tail;
        for sent in wire.0.drain(..) {
            if sent.len() > 300 {
                xid.copy_from_slice(&sent[46..50]);
            }
        }
        let answer = frame(*flags, [*high, *low], options, &xid);
        stack.handle_frame(now, ID, Frame(answer), &mut wire);
        // Up to about five hours, in steps as the stack asks for them.
        let end = now + Duration::from_secs(1 << (2 * (flags >> 5)));
        for _ in 0..2000 {
            stack.poll(now, &mut wire);
            match stack.poll_at().filter(|at| *at <= end) {
                Some(at) => now = now.max(at),
                None => break,
            }
        }
        now = end;
        assert!(wire.0.len() < 600, "{} messages", wire.0.len());
        assert!(stack.addresses(ID).count() <= 1 && stack.routes().count() <= 40);
        if let Some(lease) = stack.dhcp_lease(ID) {
            assert!(!lease.address.is_unspecified() && (1..=32).contains(&lease.prefix));
        }
    }
}
