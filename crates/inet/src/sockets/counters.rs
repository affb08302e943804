//! Counters of TCP.

use crate::tcp::TcpStats;

counters! { TcpCounters:
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
}

macro_rules! totals {
    ($($field:ident $name:literal)*) => {
        /// Sums over all connections of one stack.
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
