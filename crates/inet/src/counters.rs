//! What the core counts: each drop by its cause, and what is worth watching.

use crate::tcp::TcpStats;

/// Declares a struct `Counters` of named, documented counters; the shell around the core declares
/// its own with it.
#[macro_export]
macro_rules! counters {
    ($($field:ident $name:literal $doc:literal)*) => {
        /// What is counted, since the start.
        #[derive(Debug, Clone, Default)]
        pub(crate) struct Counters {
            $(#[doc = $doc] pub(crate) $field: u64,)*
        }

        impl Counters {
            /// Name and value of each.
            pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$(($name, self.$field),)*].into_iter()
            }
        }
    };
}

counters! {
    frames_in "link.frames-in" "Frames given to the core."
    bytes_in "link.bytes-in" "Their bytes."
    frames_out "link.frames-out" "Frames given to the egress."
    no_room "link.answers-without-room" "Answers dropped because the egress was full."
    eth_malformed "eth.malformed" "Frames too short or from a group address."
    eth_not_ours "eth.not-ours" "Frames to somebody else's hardware address."
    eth_unknown "eth.unknown-type" "Frames of other protocols."
    arp_malformed "arp.malformed" "ARP packets of other kinds, or with impossible addresses."
    arp_conflicts "arp.conflicts" "ARP packets whose sender claims one of our addresses."
    arp_lost "arp.addresses-lost" "Addresses given up because somebody else has them."
    arp_failed "arp.failed" "Neighbours that did not answer."
    arp_dropped "arp.dropped-waiting" "Packets dropped because their neighbour was unknown."
    ip_malformed "ip.malformed" "IPv4 packets with a bad version or length."
    ip_bad_checksum "ip.bad-checksum" "IPv4 packets with a bad header checksum."
    ip_bad_options "ip.bad-options" "IPv4 packets with malformed options."
    ip_source_routes "ip.source-routes" "IPv4 packets with a source route."
    ip_martians "ip.martians" "IPv4 packets from an impossible source."
    ip_reverse_path "ip.reverse-path" "IPv4 packets by another interface than their source's."
    ip_not_ours "ip.not-ours" "IPv4 packets to somebody else."
    ip_fragments "ip.fragments" "Fragments received."
    ip_fragments_bad "ip.bad-fragments" "Fragments that are empty, too long, or contradict others."
    ip_reassembled "ip.reassembled" "Packets put together of fragments."
    ip_reassembly_timeouts "ip.reassembly-timeouts" "Packets whose fragments did not all come."
    copied_joined "copy.joined-bytes" "Bytes copied to put packets together of fragments."
    loopback_packets "loopback.packets" "Packets sent to ourselves."
    copied_loopback "copy.loopback-bytes" "Payload bytes copied to be sent to ourselves."
    loopback_no_room "loopback.dropped" "Answers to ourselves dropped because too many waited."
    ip_unknown "ip.unknown-protocol" "IPv4 packets of other protocols."
    ip_no_route "ip.no-route" "Packets not sent for want of a route."
    ip6_malformed "ip6.malformed" "IPv6 packets with a bad version, length or option."
    ip6_excessive "ip6.excessive-headers" "IPv6 packets with too many extension headers or options."
    ip6_martians "ip6.martians" "IPv6 packets from or to an impossible address."
    ip6_not_ours "ip6.not-ours" "IPv6 packets to somebody else."
    ip6_nothing "ip6.empty" "IPv6 packets without payload, or with an option that forbids to look."
    ip6_problems "ip6.parameter-problems" "IPv6 packets with a header that cannot be."
    ip6_unknown "ip6.unknown-protocol" "IPv6 packets of other protocols."
    nd_malformed "nd.malformed" "Neighbour Discovery messages that fail a check."
    nd_ignored "nd.ignored" "Redirects, questions to routers, and unwanted advertisements."
    nd_conflicts "nd.conflicts" "Advertisements whose sender claims one of our addresses."
    nd_duplicates "nd.duplicates" "Addresses not used because somebody else has them."
    nd_looped "nd.looped" "Our own probes that came back."
    nd_refused "nd.refused" "Routers, prefixes and addresses of routers that there was no room for."
    nd_solicits "nd.router-solicits" "Questions for routers."
    nd_router_adverts "nd.router-adverts" "Router advertisements followed."
    igmp_malformed "igmp.malformed" "IGMP and MLD messages that are malformed or came from afar."
    group_messages "groups.messages-in" "Queries and reports about multicast groups."
    group_reports "groups.reports-out" "Reports about multicast groups sent."
    icmp_malformed "icmp.malformed" "ICMP messages too short or with an impossible quotation."
    icmp_bad_checksum "icmp.bad-checksum" "ICMP messages with a bad checksum."
    icmp_echoes "icmp.echo-replies" "Echo requests answered."
    icmp_in "icmp.errors-in" "ICMP errors that concern a socket."
    icmp_stray "icmp.errors-stray" "ICMP errors that match no socket or are not acted upon."
    icmp_out "icmp.errors-out" "ICMP errors sent."
    icmp_limited "icmp.errors-limited" "ICMP errors not sent because of the rate limit."
    ip_fragments_out "ip.fragments-out" "Fragments sent."
    copied_groups "copy.group-bytes" "Payload copied because several sockets receive it."
    dhcp_in "dhcp.messages-in" "Answers of DHCP servers acted upon."
    dhcp_ignored "dhcp.ignored" "Messages of DHCP servers that are malformed or were not asked for."
    dhcp_out "dhcp.messages-out" "Messages sent to DHCP servers."
    udp_in "udp.datagrams-in" "Datagrams queued to a socket."
    udp_out "udp.datagrams-out" "Datagrams sent."
    udp_malformed "udp.malformed" "UDP packets with a bad length or port 0."
    udp_bad_checksum "udp.bad-checksum" "UDP packets with a bad checksum."
    udp_no_port "udp.no-port" "Datagrams to a port without a socket."
    udp_overflow "udp.overflows" "Datagrams dropped because the socket's receive queue was full."
    tcp_in "tcp.segments-in" "Well-formed segments, joined ones counted singly."
    tcp_out "tcp.segments-out" "Segments sent."
    tcp_malformed "tcp.malformed" "Segments that cannot be parsed."
    tcp_bad_checksum "tcp.bad-checksum" "Segments with a bad checksum."
    tcp_resets_in "tcp.resets-in" "Segments with RST."
    tcp_resets_out "tcp.resets-out" "RST segments sent."
    tcp_no_port "tcp.no-port" "Segments to a port without a socket."
    tcp_syn_dropped "tcp.syn-drops" "Connection requests dropped for a full queue or table."
    tcp_listen_overflows "tcp.listen-overflows" "Handshakes held up by a full accept queue."
    tcp_cookies_sent "tcp.cookies-sent" "Connection requests answered with a SYN cookie."
    tcp_cookies_good "tcp.cookies-good" "Handshakes completed by a SYN cookie."
    tcp_cookies_bad "tcp.cookies-bad" "ACKs that should have brought a SYN cookie and did not."
    tcp_syn_ack_repeats "tcp.syn-ack-repeats" "SYN-ACKs sent again."
    tcp_requests_expired "tcp.requests-expired" "Connection requests whose handshake did not end."
    tcp_fast_accepted "tcp.fast-opens" "Connections accepted with the data in their SYN."
    tcp_fast_refused "tcp.fast-open-bad-cookies" "Requests with a wrong Fast Open cookie."
    tcp_fast_other_keys "tcp.fast-open-other-keys" "Fast opens by a cookie of the former key."
    tcp_fast_asked "tcp.fast-open-cookies-asked" "Requests that ask for a Fast Open cookie."
    tcp_fast_black_holes "tcp.fast-open-black-holes" "Pauses of Fast Open as a client."
    tcp_fast_overflows "tcp.fast-open-overflows" "Fast opens beyond a listener's bound."
    tcp_accepted "tcp.passive-opens" "Connections put into an accept queue."
    tcp_connects "tcp.active-opens" "Connection attempts."
    tcp_time_wait_reused "tcp.time-wait-reused" "TIME-WAIT connections replaced by a new one."
    tcp_time_wait_overflow "tcp.time-wait-overflow" "Connections that found no room for TIME-WAIT."
    held_dropped "memory.frames-refused" "Payload dropped because the core held too many frames."
}

macro_rules! totals {
    ($($field:ident $name:literal)*) => {
        /// What happened on all connections of one stack.
        #[derive(Debug, Clone, Copy, Default)]
        pub(crate) struct TcpTotals(TcpStats);

        impl TcpTotals {
            pub(crate) fn add(&mut self, stats: TcpStats) {
                $(self.0.$field += stats.$field;)*
            }

            /// Name and value of each.
            pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$(($name, self.0.$field),)*].into_iter()
            }
        }
    };
}

totals! {
    retransmits "tcp.retransmits"
    fast_retransmits "tcp.fast-retransmits"
    timeout_retransmits "tcp.timeout-retransmits"
    timeouts "tcp.timeouts"
    spurious_timeouts "tcp.spurious-timeouts"
    fast_recoveries "tcp.fast-recoveries"
    undos "tcp.undos"
    rack_lost "tcp.rack-lost"
    tail_loss_probes "tcp.tail-loss-probes"
    probe_recoveries "tcp.probe-recoveries"
    dsacks_in "tcp.dsacks-in"
    dsacks_out "tcp.dsacks-out"
    sack_discards "tcp.sack-discards"
    sack_reneges "tcp.sack-reneges"
    reorderings "tcp.reorderings"
    ecn_marks_in "tcp.ecn-marks-in"
    duplicate_acks "tcp.duplicate-acks"
    out_of_order "tcp.out-of-order"
    unacceptable "tcp.unacceptable"
    old_timestamps "tcp.old-timestamps"
    challenges "tcp.challenges"
    mtu_probes "tcp.mtu-probes"
    mtu_probe_successes "tcp.mtu-probe-successes"
    mtu_probe_failures "tcp.mtu-probe-failures"
    black_holes "tcp.black-holes"
    window_probes "tcp.window-probes"
    keep_alive_probes "tcp.keep-alive-probes"
    resets "tcp.resets-believed"
    fast_connects "tcp.fast-connects"
    fast_connect_fails "tcp.fast-connect-fails"
}
