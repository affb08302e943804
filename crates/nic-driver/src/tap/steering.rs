//! Which queue of a TAP device the host's frames take: a BPF program.
//!
//! A TAP device has no queueing discipline that could help: the host puts each frame into the
//! device's queue, and drops it where that is full. With one queue for all, a flood that any host
//! can send makes the connections of all programs lose frames. So the device has three queues,
//! and the kernel runs this program for each frame (TUNSETSTEERINGEBPF).
//!
//! | queue | frames |
//! |---|---|
//! | 1, unsolicited | echo requests, SYNs without ACK, IPv6 routing headers, options |
//! | 2, datagrams | fragments, and IP packets that are not TCP, but for the others here |
//! | 0, regular | TCP, IGMP, ICMPv6, frames that are no IP packets |
//!
//! Frames of queue 1 come from senders that need not be anybody's peer, and their loss ends no
//! connection. Nothing slows the sender of datagrams down, so these have their own queue 2.
//! Fragments are there with whole datagrams, since these keep their order. ARP, neighbour
//! discovery, router advertisements, MLD and IGMP stay in queue 0: without them no address lasts.
//! A frame that is too short to be classified is regular.
//!
//! The program knows frames from their Ethernet header on. Loads of packet bytes (BPF_LD) end it
//! with 0, thus with the regular queue, where a frame is too short.

use std::os::fd::OwnedFd;

use rustix::io::Errno;

use crate::bpf::{self, Instruction};

/// A place in the program that jumps lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Label {
    Ipv6,
    Options,
    Tcp,
    Regular,
    Unsolicited,
    Datagrams,
}

/// A line of the program.
#[derive(Debug, Clone, Copy)]
enum Line {
    Do(Instruction),
    /// Jumps if register 0 is the number (`true`), or if it is not.
    If(bool, i32, Label),
    Goto(Label),
    At(Label),
}

const ETHERTYPE_IPV4: i32 = 0x0800;
const ETHERTYPE_IPV6: i32 = 0x86dd;
const ICMP: i32 = 1;
const IGMP: i32 = 2;
const TCP: i32 = 6;
const ICMPV6: i32 = 58;
/// IPv6 extension headers.
const HOP_BY_HOP: i32 = 0;
const ROUTING: i32 = 43;
const DESTINATION: i32 = 60;
const ECHO_REQUEST: i32 = 8;
const ECHO_REQUEST_V6: i32 = 128;

/// The IP header, behind the Ethernet header.
const IP: i32 = 14;
const IPV6_PAYLOAD: i32 = IP + 40;
/// More fragments, or the offset of a fragment.
const FRAGMENTED: i32 = 0x3fff;
/// The flags SYN and ACK, and where they are in a TCP header.
const SYN: i32 = 0x02;
const SYN_ACK: i32 = 0x12;
const TCP_FLAGS: i32 = 13;

const fn op(code: u8, registers: u8, immediate: i32) -> Line {
    Line::Do(Instruction { code, registers, offset: 0, immediate })
}

/// r0 = the 8 or 16 bits at the place.
const fn byte(at: i32) -> Line {
    op(0x30, 0, at)
}

const fn half(at: i32) -> Line {
    op(0x28, 0, at)
}

/// r0 = the 8 bits at the place behind r7.
const fn byte_behind(at: i32) -> Line {
    op(0x50, 0x70, at)
}

const fn and(mask: i32) -> Line {
    op(0x57, 0, mask)
}

const PROGRAM: &[Line] = &[
    // r6 = r1: loads take the frame from there.
    op(0xbf, 0x16, 0),
    half(12),
    Line::If(true, ETHERTYPE_IPV6, Label::Ipv6),
    Line::If(false, ETHERTYPE_IPV4, Label::Regular),
    half(IP + 6),
    and(FRAGMENTED),
    Line::If(false, 0, Label::Datagrams),
    // r7 = the length of the header.
    byte(IP),
    and(0xf),
    op(0x67, 0, 2),
    op(0xbf, 0x07, 0),
    byte(IP + 9),
    Line::If(true, TCP, Label::Tcp),
    Line::If(true, IGMP, Label::Regular),
    Line::If(false, ICMP, Label::Datagrams),
    byte_behind(IP),
    Line::If(true, ECHO_REQUEST, Label::Unsolicited),
    Line::Goto(Label::Datagrams),
    Line::At(Label::Ipv6),
    // r7 = 40
    op(0xb7, 7, 40),
    byte(IP + 6),
    Line::If(true, TCP, Label::Tcp),
    Line::If(true, ROUTING, Label::Unsolicited),
    Line::If(true, DESTINATION, Label::Unsolicited),
    Line::If(true, HOP_BY_HOP, Label::Options),
    Line::If(false, ICMPV6, Label::Datagrams),
    byte(IPV6_PAYLOAD),
    Line::If(true, ECHO_REQUEST_V6, Label::Unsolicited),
    Line::Goto(Label::Regular),
    Line::At(Label::Options),
    // Messages of MLD have a router alert: options of 8 bytes.
    byte(IPV6_PAYLOAD),
    Line::If(false, ICMPV6, Label::Unsolicited),
    byte(IPV6_PAYLOAD + 1),
    Line::If(false, 0, Label::Unsolicited),
    byte(IPV6_PAYLOAD + 8),
    Line::If(true, ECHO_REQUEST_V6, Label::Unsolicited),
    Line::Goto(Label::Regular),
    Line::At(Label::Tcp),
    byte_behind(IP + TCP_FLAGS),
    and(SYN_ACK),
    Line::If(true, SYN, Label::Unsolicited),
    Line::At(Label::Regular),
    op(0xb7, 0, 0),
    op(0x95, 0, 0),
    Line::At(Label::Unsolicited),
    op(0xb7, 0, 1),
    op(0x95, 0, 0),
    Line::At(Label::Datagrams),
    op(0xb7, 0, 2),
    op(0x95, 0, 0),
];

/// The program with its jumps, which all lead forwards.
fn assemble() -> Vec<Instruction> {
    let distance = |rest: &[Line], to| {
        let before = rest.iter().take_while(|line| !matches!(line, Line::At(at) if *at == to));
        before.filter(|line| !matches!(line, Line::At(_))).count() as i16
    };
    let mut all = Vec::new();
    for (at, line) in PROGRAM.iter().enumerate() {
        let rest = &PROGRAM[at + 1..];
        let jump = |code, immediate, to| Instruction {
            code,
            registers: 0,
            offset: distance(rest, to),
            immediate,
        };
        all.extend(match *line {
            Line::Do(instruction) => Some(instruction),
            Line::If(true, number, to) => Some(jump(0x15, number, to)),
            Line::If(false, number, to) => Some(jump(0x55, number, to)),
            Line::Goto(to) => Some(jump(0x05, 0, to)),
            Line::At(_) => None,
        });
    }
    all
}

/// Loads the program.
///
/// # Errors
/// The system's: often that the right to is missing.
pub(super) fn load() -> Result<OwnedFd, Errno> {
    bpf::socket_filter(&assemble())
}

#[cfg(test)]
mod tests;
