//! The rows of `tasuki ss`: the core's sockets, with the shell's knowledge of them.

use abi::control::{SOCKET_PAGE, SocketStatus};
use abi::tcp::TcpStatus;
use inet::tcp::TcpInfo;
use inet::{OptionName, SockOption, SocketInfo, SocketKind};

use crate::engine::{Engine, SocketOwner};
use crate::socket::Socket;

use super::Server;

impl Server {
    /// A page of rows, one for each socket, from the row of this number on, and whether more rows
    /// follow. With `info` a row has the state of a TCP connection that a program has. A socket
    /// that is opened or closed between two pages may move the rows of others, as in /proc/net/tcp.
    pub(crate) fn sockets(&mut self, info: bool, from: usize) -> (Vec<SocketStatus>, bool) {
        let Self { engine, clients, .. } = self;
        // As Linux: a stream without a port is in none of the tables that ss reads.
        let shown = |row: &SocketInfo| row.kind != SocketKind::Stream || row.local.port() != 0;
        let mut rows: Vec<SocketInfo> =
            engine.stack.sockets().filter(shown).skip(from).take(SOCKET_PAGE + 1).collect();
        let more = rows.len() > SOCKET_PAGE;
        rows.truncate(SOCKET_PAGE);
        let status = |row: SocketInfo| {
            let owner = SocketOwner::from_tag(row.tag);
            let client = clients.get_mut(usize::from(owner.client)).and_then(Option::as_mut);
            let socket = client.and_then(|client| client.sockets.at(owner.index));
            let socket = socket.filter(|socket| socket.serial == owner.serial);
            let live = socket.is_some();
            let tcp = socket.as_ref().filter(|_| info).and_then(|socket| inside(engine, socket));
            // The core counts the unread bytes of a stream. Datagrams it has handed to the shell.
            let unread = |socket: &&mut Socket| !socket.is_stream();
            let datagrams = socket.filter(unread).map_or(0, |socket| socket.rx.unread_bytes());
            let netid = match row.kind {
                SocketKind::Stream => "tcp",
                SocketKind::Datagram => "udp",
                SocketKind::UdpLite => "udplite",
                SocketKind::Echo => "icmp",
            };
            SocketStatus {
                netid: netid.to_owned(),
                state: row.state.to_owned(),
                recv_q: row.recv_q as u64 + datagrams,
                send_q: row.send_q as u64,
                local: row.local,
                peer: Some(row.peer).filter(|peer| peer.port() != 0),
                client: live.then_some(owner.client),
                tcp,
            }
        };
        (rows.into_iter().map(status).collect(), more)
    }
}

fn inside(engine: &Engine, socket: &Socket) -> Option<TcpStatus> {
    let info = engine.stack.tcp_info(engine.now, socket.handle).ok()?;
    let congestion = match engine.stack.option(socket.handle, OptionName::Congestion) {
        Ok(SockOption::Congestion(kind)) => kind.name().to_owned(),
        _ => String::new(),
    };
    Some(status(&info, congestion))
}

fn status(info: &TcpInfo, congestion: String) -> TcpStatus {
    let has = |bit: u8| info.options & bit != 0;
    TcpStatus {
        congestion,
        ts: has(1),
        sack: has(2),
        ecn: has(8),
        ecnseen: has(16),
        fastopen: has(32),
        wscale: has(4).then_some((info.snd_wscale, info.rcv_wscale)),
        rto_us: info.rto,
        backoff: info.backoff,
        rtt_us: info.rtt,
        rttvar_us: info.rttvar,
        minrtt_us: info.min_rtt,
        ato_us: info.ato,
        mss: info.snd_mss,
        pmtu: info.pmtu,
        rcvmss: info.rcv_mss,
        advmss: info.advmss,
        cwnd: info.snd_cwnd,
        ssthresh: info.snd_ssthresh,
        bytes_sent: info.bytes_sent,
        bytes_retrans: info.bytes_retrans,
        bytes_acked: info.bytes_acked,
        bytes_received: info.bytes_received,
        segs_out: info.segs_out,
        segs_in: info.segs_in,
        data_segs_out: info.data_segs_out,
        data_segs_in: info.data_segs_in,
        lastsnd_ms: info.last_data_sent,
        lastrcv_ms: info.last_data_recv,
        lastack_ms: info.last_ack_recv,
        pacing_rate: info.pacing_rate,
        delivery_rate: info.delivery_rate,
        delivered: info.delivered,
        busy_us: info.busy_time,
        rwnd_limited_us: info.rwnd_limited,
        sndbuf_limited_us: info.sndbuf_limited,
        unacked: info.unacked,
        retrans: info.retrans,
        retrans_total: info.total_retrans,
        lost: info.lost,
        sacked: info.sacked,
        dsack_dups: info.dsack_dups,
        reordering: info.reordering,
        reord_seen: info.reord_seen,
        rcv_rtt_us: info.rcv_rtt,
        rcv_space: info.rcv_space,
        rcv_ssthresh: info.rcv_ssthresh,
        notsent: info.notsent_bytes,
        snd_wnd: info.snd_wnd,
        rcv_wnd: info.rcv_wnd,
    }
}
