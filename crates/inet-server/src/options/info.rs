//! `struct tcp_info`: the core's [`TcpInfo`] in Linux's layout (include/uapi/linux/tcp.h).

use inet::tcp::TcpInfo;

use super::value::OptionBytes;

/// The structure's bytes, in the machine's order.
pub(super) fn encode(info: &TcpInfo) -> OptionBytes {
    let mut bytes = Bytes(Vec::with_capacity(248));
    let scales = info.snd_wscale & 15 | info.rcv_wscale << 4;
    let limits = u8::from(info.delivery_rate_app_limited) | (info.fastopen_client_fail & 3) << 1;
    let TcpInfo { state, ca_state, retransmits, probes, backoff, options, .. } = *info;
    bytes.0.extend([state, ca_state, retransmits, probes, backoff, options, scales, limits]);
    bytes.u32s(&[info.rto, info.ato, info.snd_mss, info.rcv_mss]);
    // The fifth was the forward acknowledgement count, which Linux leaves 0 now.
    bytes.u32s(&[info.unacked, info.sacked, info.lost, info.retrans, 0]);
    // Linux has no time of the last acknowledgement sent.
    bytes.u32s(&[info.last_data_sent, 0, info.last_data_recv, info.last_ack_recv]);
    bytes.u32s(&[info.pmtu, info.rcv_ssthresh, info.rtt, info.rttvar]);
    bytes.u32s(&[info.snd_ssthresh, info.snd_cwnd, info.advmss, info.reordering]);
    bytes.u32s(&[info.rcv_rtt, info.rcv_space, info.total_retrans]);
    bytes.u64s(&[info.pacing_rate, info.max_pacing_rate, info.bytes_acked, info.bytes_received]);
    bytes.u32s(&[info.segs_out, info.segs_in, info.notsent_bytes, info.min_rtt]);
    bytes.u32s(&[info.data_segs_in, info.data_segs_out]);
    bytes.u64s(&[info.delivery_rate, info.busy_time, info.rwnd_limited, info.sndbuf_limited]);
    bytes.u32s(&[info.delivered, info.delivered_ce]);
    bytes.u64s(&[info.bytes_sent, info.bytes_retrans]);
    bytes.u32s(&[info.dsack_dups, info.reord_seen, info.rcv_ooopack, info.snd_wnd]);
    // There is no multipath hash to change.
    bytes.u32s(&[info.rcv_wnd, 0]);
    bytes.0.extend(info.total_rto.to_ne_bytes());
    bytes.0.extend(info.total_rto_recoveries.to_ne_bytes());
    bytes.u32s(&[info.total_rto_time]);
    OptionBytes::new(&bytes.0)
}

struct Bytes(Vec<u8>);

impl Bytes {
    fn u32s(&mut self, values: &[u32]) {
        self.0.extend(values.iter().flat_map(|value| value.to_ne_bytes()));
    }

    fn u64s(&mut self, values: &[u64]) {
        self.0.extend(values.iter().flat_map(|value| value.to_ne_bytes()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Offsets as the C compiler gives them for the structure of Linux 6.7 and later.
    #[test]
    fn the_layout_is_linux() {
        let info = TcpInfo {
            state: 1,
            snd_wscale: 8,
            rcv_wscale: 7,
            delivery_rate_app_limited: true,
            fastopen_client_fail: 2,
            rto: 204_000,
            retrans: 3,
            last_data_recv: 44,
            rtt: 500,
            snd_cwnd: 10,
            total_retrans: 9,
            bytes_acked: 1 << 40,
            segs_in: 77,
            min_rtt: 123,
            sndbuf_limited: 5,
            delivered: 6,
            bytes_sent: 8,
            rcv_wnd: 65_535,
            total_rto: 2,
            total_rto_time: 400,
            ..TcpInfo::default()
        };
        let value = encode(&info);
        let bytes = value.bytes();
        let u32_at = |at: usize| u32::from_ne_bytes(*bytes[at..].first_chunk().unwrap());
        let u64_at = |at: usize| u64::from_ne_bytes(*bytes[at..].first_chunk().unwrap());
        assert_eq!(bytes.len(), 248);
        assert_eq!((bytes[0], bytes[6], bytes[7]), (1, 0x78, 0b101));
        let words = [(8, 204_000), (36, 3), (52, 44), (68, 500), (80, 10), (100, 9), (140, 77)];
        for (at, value) in words.into_iter().chain([(148, 123), (192, 6), (232, 65_535)]) {
            assert_eq!(u32_at(at), value, "at {at}");
        }
        assert_eq!((u64_at(120), u64_at(184), u64_at(200)), (1 << 40, 5, 8));
        assert_eq!((u16::from_ne_bytes([bytes[240], bytes[241]]), u32_at(244)), (2, 400));
    }
}
