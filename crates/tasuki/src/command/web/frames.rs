//! A captured frame in a line: who to whom, and what. The crate etherparse takes the headers apart.
//!
//! Frames come off the network, and only their first bytes are captured. What cannot be parsed is
//! shown by its length alone.

use etherparse::{LaxPacketHeaders, NetHeaders, TcpHeader, TransportHeader};
use serde::Serialize;

/// Bytes of an Ethernet header.
const ETHERNET: u32 = 14;

/// A frame on the page's time axis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct FrameReport {
    /// Nanoseconds after the begin of the recording.
    pub(super) at_ns: i64,
    /// Sent by the stack (otherwise received).
    pub(super) sent: bool,
    /// Bytes of the whole frame.
    pub(super) len: u32,
    /// Frames before this one that found no room.
    pub(super) missed: u64,
    #[serde(flatten)]
    pub(super) headers: HeaderReport,
}

/// The headers of a frame.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct HeaderReport {
    /// `tcp`, `udp`, `icmp`, `icmpv6`, `igmp`, `arp`, or `other`.
    pub(super) protocol: &'static str,
    /// Addresses, with ports where there are some.
    pub(super) from: String,
    pub(super) to: String,
    /// Bytes above the transport's header.
    pub(super) payload: u32,
    pub(super) tcp: Option<TcpReport>,
}

/// The part of a TCP header that is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct TcpReport {
    /// Such as `SYN ACK`.
    pub(super) flags: String,
    pub(super) seq: u32,
    /// `null` without the flag.
    pub(super) ack: Option<u32>,
    /// As it is in the header, not scaled.
    pub(super) window: u16,
}

/// The headers of a frame of `len` bytes, of which these were captured.
pub(super) fn headers(captured: &[u8], len: u32) -> HeaderReport {
    let other = HeaderReport { protocol: "other", payload: len, ..HeaderReport::default() };
    let Ok(parsed) = LaxPacketHeaders::from_ethernet(captured) else { return other };
    let on_link = len.saturating_sub(ETHERNET);
    // A short frame is padded, and what is behind the packet is no payload.
    let (from, to, above) = match &parsed.net {
        Some(NetHeaders::Ipv4(header, extensions)) => {
            let whole = u32::from(header.total_len).min(on_link);
            let own = header.header_len() + extensions.header_len();
            let (from, to) = (header.source.into(), header.destination.into());
            (std::net::IpAddr::V4(from), std::net::IpAddr::V4(to), whole.saturating_sub(small(own)))
        }
        Some(NetHeaders::Ipv6(header, extensions)) => {
            let whole = u32::from(header.payload_length).min(on_link);
            let (from, to) = (header.source.into(), header.destination.into());
            let own = small(extensions.header_len());
            (std::net::IpAddr::V6(from), std::net::IpAddr::V6(to), whole.saturating_sub(own))
        }
        Some(NetHeaders::Arp(_)) => {
            return HeaderReport { protocol: "arp", payload: on_link, ..HeaderReport::default() };
        }
        None => return other,
    };
    let ends = |from_port: u16, to_port: u16| {
        let of = |address, port| std::net::SocketAddr::new(address, port).to_string();
        (of(from, from_port), of(to, to_port))
    };
    let (protocol, (from, to), own, tcp) = match &parsed.transport {
        Some(TransportHeader::Tcp(tcp)) => {
            let ends = ends(tcp.source_port, tcp.destination_port);
            ("tcp", ends, tcp.header_len(), Some(tcp_report(tcp)))
        }
        Some(TransportHeader::Udp(udp)) => {
            ("udp", ends(udp.source_port, udp.destination_port), udp.header_len(), None)
        }
        Some(TransportHeader::Icmpv4(icmp)) => {
            ("icmp", (from.to_string(), to.to_string()), icmp.header_len(), None)
        }
        Some(TransportHeader::Icmpv6(icmp)) => {
            ("icmpv6", (from.to_string(), to.to_string()), icmp.header_len(), None)
        }
        Some(TransportHeader::Igmp(_)) => ("igmp", (from.to_string(), to.to_string()), 0, None),
        None => ("other", (from.to_string(), to.to_string()), 0, None),
    };
    HeaderReport { protocol, from, to, payload: above.saturating_sub(small(own)), tcp }
}

/// Lengths of headers are far below this.
fn small(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

fn tcp_report(tcp: &TcpHeader) -> TcpReport {
    let flags = [
        ("SYN", tcp.syn),
        ("FIN", tcp.fin),
        ("RST", tcp.rst),
        ("PSH", tcp.psh),
        ("URG", tcp.urg),
        ("ECE", tcp.ece),
        ("CWR", tcp.cwr),
        ("ACK", tcp.ack),
    ];
    let set: Vec<&str> = flags.iter().filter(|(_, set)| *set).map(|(name, _)| *name).collect();
    TcpReport {
        flags: set.join(" "),
        seq: tcp.sequence_number,
        ack: tcp.ack.then_some(tcp.acknowledgment_number),
        window: tcp.window_size,
    }
}

#[cfg(test)]
mod tests {
    use etherparse::PacketBuilder;

    use super::*;

    fn tcp(payload: usize) -> Vec<u8> {
        let builder = PacketBuilder::ethernet2([2; 6], [4; 6])
            .ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
            .tcp(80, 40_000, 1000, 512)
            .ack(77)
            .psh();
        let mut frame = Vec::new();
        builder.write(&mut frame, &vec![7; payload]).unwrap();
        frame
    }

    #[test]
    fn a_segment() {
        let frame = tcp(100);
        let report = headers(&frame, 154);
        let flags = "PSH ACK".to_owned();
        let tcp = TcpReport { flags, seq: 1000, ack: Some(77), window: 512 };
        let expected = HeaderReport {
            protocol: "tcp",
            from: "10.0.0.1:80".to_owned(),
            to: "10.0.0.2:40000".to_owned(),
            payload: 100,
            tcp: Some(tcp),
        };
        assert_eq!(report, expected);
        // Captured in part.
        assert_eq!(headers(&frame[..60], 154), expected);
    }

    #[test]
    fn padding_is_no_payload() {
        let mut frame = tcp(1);
        frame.resize(60, 0);
        assert_eq!(headers(&frame, 60).payload, 1);
    }

    #[test]
    fn other_protocols() {
        let mut frame = Vec::new();
        let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv6([1; 16], [2; 16], 64);
        builder.udp(53, 9).write(&mut frame, &[0; 20]).unwrap();
        let report = headers(&frame, u32::try_from(frame.len()).unwrap());
        assert_eq!((report.protocol, report.payload), ("udp", 20));
        assert!(report.from.ends_with("]:53"), "{report:?}");
        let mut frame = Vec::new();
        let builder =
            PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
        builder.icmpv4_echo_request(1, 2).write(&mut frame, &[0; 56]).unwrap();
        let report = headers(&frame, 98);
        assert_eq!((report.protocol, report.payload), ("icmp", 56));
    }

    #[test]
    fn every_cut_and_every_flipped_byte_is_borne() {
        let frame = tcp(30);
        for end in 0..frame.len() {
            let _ = headers(&frame[..end], 84);
        }
        for at in 0..frame.len() {
            for value in [0, 0x0f, 0xf0, 0xff] {
                let mut bad = frame.clone();
                bad[at] = value;
                let report = headers(&bad, 84);
                assert!(report.payload <= 84, "{report:?}");
            }
        }
    }
}
