//! A frame in memory that a hostile driver writes while the stack looks at it: the stack makes one
//! private copy of the headers, and no slice of the frame.

use core::cell::Cell;

use super::*;

/// A frame whose bytes are others at each look.
struct Changing {
    frames: Vec<Vec<u8>>,
    looks: Cell<usize>,
}

impl Changing {
    fn look(&self) -> &[u8] {
        let look = self.looks.get();
        self.looks.set(look + 1);
        &self.frames[look % self.frames.len()]
    }
}

impl RxBytes for Changing {
    fn bytes(&self) -> &[u8] {
        panic!("a slice of memory that others write")
    }

    fn frame_len(&self) -> usize {
        self.frames[0].len()
    }

    fn head(&self) -> [u8; HEAD] {
        let mut head = [0; HEAD];
        head.iter_mut().zip(self.look()).for_each(|(to, from)| *to = *from);
        head
    }

    fn read(&self, at: usize, out: &mut [u8]) {
        let bytes = self.look().get(at..).unwrap_or_default();
        out.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    }

    fn checksum(&self, range: Range<usize>) -> u16 {
        checksum::data(self.look().get(range).unwrap_or_default())
    }

    fn offload(&self) -> RxOffload {
        RxOffload { verified: true, ..RxOffload::NONE }
    }
}

/// Frames of all kinds, all of the same length.
fn kinds(len: usize) -> Vec<Vec<u8>> {
    let syn = tcp::SegmentRepr { dst_port: 80, syn: true, ..tcp::SegmentRepr::default() };
    let full = std::vec![0x55; 1400];
    let mut frames = std::vec![
        tcp_frame(&syn, &full),
        udp_frame(1000, 2000, &full),
        udp_frame(67, 68, &full),
        echo_frame(&full),
        ip_frame(2, &full),
        ip_frame(99, &full),
        arp_frame(MAC_A, IP_A, IP_B, true),
        std::vec![0xff; 1500],
        std::vec![0; 1500],
    ];
    // Longest headers, and IPv6 with a chain of extension headers.
    frames.push(ip_frame_with(IP_A, IP_B, 6, &[1; 40], &[0xf0; 1300]));
    let mut v6 = std::vec![0; 14];
    ethernet::emit(EtherPayload::Ipv6, MAC_A, MAC_B, &mut v6);
    v6.extend_from_slice(&[0x60, 0, 0, 0, 5, 0, 0, 64]);
    v6.extend_from_slice(&[0; 1400]);
    frames.push(v6);
    frames.iter_mut().for_each(|frame| frame.resize(len, 0));
    frames
}

#[test]
fn a_frame_that_changes_is_one_of_its_versions() {
    for len in [20, 60, 143, 144, 145, 300, 1514] {
        let kinds = kinds(len);
        for first in &kinds {
            for second in &kinds {
                let config = Config::default();
                let mut stack: Stack<Chunk, Changing> = Stack::new(config, [2; 16]);
                let id = stack.add_interface(InterfaceConfig { mac: MAC_B.0, mtu: 1500 });
                stack.add_address(id, Cidr::new(IP_B, 24)).unwrap();
                stack.enable_dhcp(Instant::ZERO, id).unwrap();
                let udp = stack.open(SocketKind::Datagram, 1).unwrap();
                stack.bind(udp, at(IP_B, 2000)).unwrap();
                let mut wire = Wire { room: 1000, ..Wire::default() };
                let frames = std::vec![first.clone(), second.clone()];
                let frame = Changing { frames, looks: Cell::new(0) };
                let now = Instant::from_nanos(1_000_000_000);
                stack.handle_frame(now, id, frame, &mut wire);
                stack.poll(now, &mut wire);
                if let Some(received) = stack.recv(udp) {
                    assert!(received.piece.range.end <= len);
                }
            }
        }
    }
}
