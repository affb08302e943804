//! TCP_INFO as Linux lays it out.

use inet::tcp::TcpInfo;

/// Room for Linux's `struct tcp_info`, of which the last fields stay 0.
const SIZE: usize = 280;

/// The bytes of `struct tcp_info` (include/uapi/linux/tcp.h).
pub(super) fn bytes(info: &TcpInfo) -> Vec<u8> {
    let mut out = vec![
        info.state,
        info.ca_state,
        info.retransmits,
        info.probes,
        info.backoff,
        info.options,
        info.snd_wscale & 15 | info.rcv_wscale << 4,
        u8::from(info.delivery_rate_app_limited) | (info.fastopen_client_fail & 3) << 1,
    ];
    let head = [
        info.rto,
        info.ato,
        info.snd_mss,
        info.rcv_mss,
        info.unacked,
        info.sacked,
        info.lost,
        info.retrans,
        0, // fackets: no more counted by Linux either
        info.last_data_sent,
        0, // last_ack_sent: Linux does not remember
        info.last_data_recv,
        info.last_ack_recv,
        info.pmtu,
        info.rcv_ssthresh,
        info.rtt,
        info.rttvar,
        info.snd_ssthresh,
        info.snd_cwnd,
        info.advmss,
        info.reordering,
        info.rcv_rtt,
        info.rcv_space,
        info.total_retrans,
    ];
    let mut words = |values: &[u32]| {
        for value in values {
            out.extend_from_slice(&value.to_ne_bytes());
        }
    };
    let long = |value: u64| {
        let bytes = value.to_ne_bytes();
        let half = |at: usize| {
            u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        [half(0), half(4)]
    };
    words(&head);
    for value in [info.pacing_rate, info.max_pacing_rate, info.bytes_acked, info.bytes_received] {
        words(&long(value));
    }
    words(&[info.segs_out, info.segs_in, info.notsent_bytes, info.min_rtt]);
    words(&[info.data_segs_in, info.data_segs_out]);
    for value in [info.delivery_rate, info.busy_time, info.rwnd_limited, info.sndbuf_limited] {
        words(&long(value));
    }
    words(&[info.delivered, info.delivered_ce]);
    for value in [info.bytes_sent, info.bytes_retrans] {
        words(&long(value));
    }
    words(&[info.dsack_dups, info.reord_seen, info.rcv_ooopack, info.snd_wnd, info.rcv_wnd, 0]);
    out.extend_from_slice(&info.total_rto.to_ne_bytes());
    out.extend_from_slice(&info.total_rto_recoveries.to_ne_bytes());
    out.extend_from_slice(&info.total_rto_time.to_ne_bytes());
    out.resize(SIZE, 0);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_lie_where_linux_has_them() {
        let info = TcpInfo {
            state: 1,
            snd_wscale: 7,
            rcv_wscale: 8,
            rto: 2,
            snd_cwnd: 3,
            total_retrans: 4,
            pacing_rate: 5,
            segs_out: 6,
            delivery_rate: 7,
            delivered: 8,
            bytes_sent: 9,
            dsack_dups: 10,
            total_rto: 11,
            total_rto_time: 12,
            ..TcpInfo::default()
        };
        let bytes = bytes(&info);
        let at = |place: usize| u32::from_ne_bytes(*bytes[place..].first_chunk().expect("4 bytes"));
        assert_eq!((bytes[0], bytes[6]), (1, 0x87));
        let found = [8, 80, 100, 104, 136, 160, 192, 200, 216, 240, 244].map(at);
        assert_eq!(found, [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    }
}
