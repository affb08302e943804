use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType};

use super::*;
use crate::device::Device;
use crate::interface::Interface;
use crate::tap::Tap;
use crate::testing::{isolated, skip};
use crate::{packet_socket, tap, vnet};

/// The program's result for a frame, as the kernel would run it.
fn run(frame: &[u8]) -> i32 {
    let program = assemble();
    let mut registers = [0_i32; 10];
    let mut at = 0;
    for _ in 0..100 {
        let Instruction { code, registers: names, offset, immediate } = program[at];
        let (to, from) = (usize::from(names & 0xf), usize::from(names >> 4));
        let load = |place: i32, len: usize| {
            let place = usize::try_from(place).unwrap();
            let bytes = frame.get(place..place + len)?;
            Some(bytes.iter().fold(0, |sum, byte| sum << 8 | i32::from(*byte)))
        };
        at += 1;
        let jump = usize::try_from(offset).expect("forwards");
        match code {
            0xbf => registers[to] = registers[from],
            0xb7 => registers[to] = immediate,
            0x57 => registers[to] &= immediate,
            0x67 => registers[to] <<= immediate,
            0x28 | 0x30 | 0x50 => {
                let place = immediate + if code == 0x50 { registers[from] } else { 0 };
                let Some(value) = load(place, if code == 0x28 { 2 } else { 1 }) else { return 0 };
                registers[0] = value;
            }
            0x05 => at += jump,
            0x15 if registers[to] == immediate => at += jump,
            0x55 if registers[to] != immediate => at += jump,
            0x15 | 0x55 => {}
            0x95 => return registers[0],
            _ => panic!("{code:#x} is not known"),
        }
    }
    panic!("it does not end");
}

fn ethernet(kind: u16, packet: &[u8]) -> Vec<u8> {
    [&[0xff; 6][..], &[2, 0, 0, 0, 0, 9], &kind.to_be_bytes(), packet].concat()
}

/// An IPv4 packet with so many words of options.
fn v4(options: u8, fragment: u16, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut head = vec![0; 20 + 4 * usize::from(options)];
    (head[0], head[8], head[9]) = (0x45 + options, 64, protocol);
    head[6..8].copy_from_slice(&fragment.to_be_bytes());
    ethernet(0x0800, &[&head, payload].concat())
}

fn v6(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut head = vec![0; 40];
    (head[0], head[6], head[7]) = (0x60, next, 64);
    ethernet(0x86dd, &[&head, payload].concat())
}

fn tcp(flags: u8) -> Vec<u8> {
    let mut head = vec![0; 20];
    (head[12], head[13]) = (0x50, flags);
    head
}

fn message(kind: u8) -> Vec<u8> {
    [&[kind][..], &[0; 23]].concat()
}

/// A hop-by-hop header with a router alert, before an ICMPv6 message.
fn alert(next: u8, kind: u8) -> Vec<u8> {
    [&[next, 0, 5, 2, 0, 0, 1, 0][..], &message(kind)].concat()
}

/// Frames, and the queue that each one takes.
fn table() -> Vec<(&'static str, Vec<u8>, i32)> {
    const DF: u16 = 0x4000;
    let odd = v4(0, 0, 6, &tcp(2));
    vec![
        ("a SYN", v4(0, DF, 6, &tcp(0x02)), 1),
        ("a SYN behind options", v4(5, DF, 6, &tcp(0x02)), 1),
        ("a SYN with ECN", v4(0, DF, 6, &tcp(0xc2)), 1),
        ("a SYN with ACK", v4(0, DF, 6, &tcp(0x12)), 0),
        ("an ACK", v4(0, DF, 6, &tcp(0x10)), 0),
        ("data", v4(0, DF, 6, &tcp(0x18)), 0),
        ("a reset", v4(0, DF, 6, &tcp(0x04)), 0),
        ("a reset with ACK", v4(3, DF, 6, &tcp(0x14)), 0),
        ("an echo request", v4(0, 0, 1, &message(8)), 1),
        ("an echo request behind options", v4(10, 0, 1, &message(8)), 1),
        ("an echo reply", v4(0, 0, 1, &message(0)), 2),
        ("an ICMP error", v4(0, 0, 1, &message(3)), 2),
        ("a datagram", v4(0, DF, 17, &[0; 40]), 2),
        ("IGMP", v4(1, 0, 2, &[0x11; 8]), 0),
        ("a first fragment", v4(0, 0x2000, 17, &[0; 40]), 2),
        ("a fragment in the middle", v4(0, 0x2009, 6, &tcp(0x10)), 2),
        ("a last fragment", v4(0, 9, 17, &[0; 40]), 2),
        ("SYN over IPv6", v6(6, &tcp(0x02)), 1),
        ("data over IPv6", v6(6, &tcp(0x18)), 0),
        ("an ICMPv6 echo request", v6(58, &message(128)), 1),
        ("an ICMPv6 echo reply", v6(58, &message(129)), 0),
        ("an ICMPv6 error", v6(58, &message(2)), 0),
        ("a router advertisement", v6(58, &message(134)), 0),
        ("a neighbour solicitation", v6(58, &message(135)), 0),
        ("a datagram over IPv6", v6(17, &[0; 40]), 2),
        ("a fragment over IPv6", v6(44, &[0; 40]), 2),
        ("a routing header", v6(43, &[0; 40]), 1),
        ("destination options", v6(60, &[0; 40]), 1),
        ("a query of MLD", v6(0, &alert(58, 130)), 0),
        ("a report of MLD", v6(0, &alert(58, 143)), 0),
        ("an echo request behind options of each hop", v6(0, &alert(58, 128)), 1),
        ("a datagram behind options of each hop", v6(0, &alert(17, 130)), 1),
        ("long options", v6(0, &[&[58, 1][..], &[0; 40]].concat()), 1),
        ("ARP", ethernet(0x0806, &[0; 28]), 0),
        ("no IP packet", ethernet(0x88cc, &[2; 46]), 0),
        ("a SYN without its flags", odd[..14 + 20 + 13].to_vec(), 0),
        ("half an IPv4 header", odd[..14 + 8].to_vec(), 0),
    ]
}

#[test]
fn each_frame_takes_its_queue() {
    for (what, frame, queue) in table() {
        assert_eq!(run(&frame), queue, "{what}");
    }
    // Less than any header.
    for len in 0..14 {
        assert_eq!(run(&[0; 14][..len]), 0, "{len}");
    }
}

/// A socket by which the host sends whole frames on the device.
fn host_of(name: &str) -> OwnedFd {
    tap::configure(name, &[], 1500).unwrap();
    let index = Interface::find(name).unwrap().unwrap().index.cast_signed();
    let (family, kind) = (AddressFamily::PACKET, SocketType::RAW);
    let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None).unwrap();
    packet_socket::bind(&socket, index, libc::ETH_P_LOOPBACK).unwrap();
    socket
}

/// As above, by the kernel: the host sends the frames on a packet socket.
#[test]
fn the_kernel_runs_the_program() {
    if isolated().is_none() {
        return;
    }
    for offload in [true, false] {
        let queues = match tap::open_queues("steered", offload) {
            Err(error) => return skip(&error.to_string()),
            Ok(queues) if queues.len() < 3 => return skip("no program can be loaded"),
            Ok(queues) => queues,
        };
        let socket = host_of("steered");
        let header = if offload { vnet::HEADER } else { 0 };
        let next = |queue: usize| {
            let mut bytes = [0; 4096];
            let len = rustix::io::read(queues[queue].as_fd(), &mut bytes).ok()?;
            Some(bytes[header..len].to_vec())
        };
        for (what, frame, queue) in table() {
            rustix::net::send(&socket, &frame, SendFlags::empty()).unwrap();
            // The kernel itself announces a new device.
            let found = |queue| std::iter::from_fn(|| next(queue)).any(|got| got == frame);
            let queue = usize::try_from(queue).unwrap();
            assert!(found(queue), "{what}: not in queue {queue} (offload: {offload})");
        }
    }
}

/// More datagrams than a queue holds, and then a segment.
#[test]
fn a_segment_behind_a_flood_of_datagrams_is_received_within_a_turn() {
    if isolated().is_none() {
        return;
    }
    for offload in [true, false] {
        let queues = match tap::open_queues("flooded", offload) {
            Err(error) => return skip(&error.to_string()),
            Ok(queues) if queues.len() < 3 => return skip("no program can be loaded"),
            Ok(queues) => queues,
        };
        let mut device = Tap::from_queues(queues, offload).unwrap();
        let socket = host_of("flooded");
        let mut page = [0; 4096];
        let mut next = || {
            let received = device.receive(&mut page).unwrap()?;
            Some(page[..received.len].to_vec())
        };
        // What the kernel itself announces.
        while next().is_some() {}
        let datagram = v4(0, 0x4000, 17, &[1; 40]);
        for _ in 0..20_000 {
            // Where the queue is full the kernel drops it.
            let _ = rustix::net::send(&socket, &datagram, SendFlags::empty());
        }
        // A segment of the kernel's own may come as well: then there are pauses.
        let (start, mut flood) = (Instant::now(), 0);
        while flood < 90 {
            flood += usize::from(next().is_some_and(|frame| frame == datagram));
            assert!(start.elapsed() < Duration::from_secs(60), "{flood} datagrams");
        }
        let segment = v4(0, 0x4000, 6, &tcp(0x18));
        rustix::net::send(&socket, &segment, SendFlags::empty()).unwrap();
        let soon = (0..40).any(|_| next().is_some_and(|frame| frame == segment));
        assert!(soon, "offload: {offload}");
    }
}
