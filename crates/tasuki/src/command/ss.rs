//! `tasuki ss`: the sockets of an instance.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

use abi::control::{ClientReply, ClientRequest, ProcessStatus, SocketStatus};
use abi::tcp::TcpStatus;

use super::ps::status;
use super::{print, print_json, table};
use crate::cli::SsArgs;
use crate::exit::Failure;
use crate::operator::Operator;

/// The slow-start threshold of a connection that has none.
const NO_SSTHRESH: u32 = 0x7fff_ffff;

/// Shows the sockets.
///
/// # Errors
/// When the instance does not run.
pub(crate) fn ss(args: &SsArgs) -> Result<u8, Failure> {
    let mut operator = Operator::connect_or_guess(args.net.as_ref())?;
    let mut sockets = all_sockets(&mut operator, args.info)?;
    sockets.retain(|socket| wanted(args, socket));
    if args.json {
        print_json(&sockets)?;
    } else {
        let processes = if args.processes { status(&mut operator)?.processes } else { Vec::new() };
        print(&text(&sockets, args, &processes))?;
    }
    Ok(0)
}

/// Asks for one page after the other.
fn all_sockets(operator: &mut Operator, info: bool) -> Result<Vec<SocketStatus>, Failure> {
    let mut all = Vec::new();
    loop {
        match operator.ask(&ClientRequest::Ss { info, from: all.len() })? {
            (ClientReply::Sockets { sockets, more }, _) => {
                let over = !more || sockets.is_empty();
                all.extend(sockets);
                if over {
                    return Ok(all);
                }
            }
            (other, _) => return Err(operator.unexpected(&other)),
        }
    }
}

fn wanted(args: &SsArgs, socket: &SocketStatus) -> bool {
    let kind = if socket.netid == "tcp" { args.tcp } else { args.udp };
    let listens = matches!(&socket.state[..], "LISTEN" | "UNCONN");
    let ipv4 = match socket.local.ip() {
        IpAddr::V4(_) => true,
        // Of an IPv4 connection of an AF_INET6 socket, as ss has it.
        IpAddr::V6(v6) => v6.to_ipv4_mapped().is_some(),
    };
    let family = if ipv4 { args.ipv4 } else { args.ipv6 };
    (kind || args.tcp == args.udp)
        && (family || args.ipv4 == args.ipv6)
        && (listens || !args.listening)
}

/// As `ss -tuna` writes them, with -p the programs.
fn text(sockets: &[SocketStatus], args: &SsArgs, processes: &[ProcessStatus]) -> String {
    let head = ["Netid", "State", "Recv-Q", "Send-Q", "Local Address:Port", "Peer Address:Port"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    if args.processes {
        rows[0].push("Process".to_owned());
    }
    for socket in sockets {
        let mut row = vec![
            socket.netid.clone(),
            socket.state.clone(),
            socket.recv_q.to_string(),
            socket.send_q.to_string(),
            end(Some(socket.local)),
            end(socket.peer),
        ];
        let of = |process: &&ProcessStatus| process.client == socket.client;
        if let Some(process) = processes.iter().find(of).filter(|_| socket.client.is_some()) {
            row.push(format!("users:((\"{}\",pid={}))", process.name, process.pid));
        }
        rows.push(row);
    }
    if args.no_header {
        rows.remove(0);
    }
    let text = table(&rows, &[false, false, true, true, true, true]);
    if !args.info {
        return text;
    }
    // The inside of a connection is a line of its own below it.
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let first = rows.len() - sockets.len();
    for (line, socket) in lines.iter_mut().skip(first).zip(sockets) {
        if let Some(tcp) = &socket.tcp {
            let _ = write!(line, "\n\t {}", inside(tcp));
        }
    }
    lines.join("\n") + "\n"
}

/// The inside of a connection in the words of `ss -i`. As there, values that are 0 and would mean
/// nothing are left out.
fn inside(tcp: &TcpStatus) -> String {
    let mut words = Words(Vec::new());
    let flags = [
        ("ts", tcp.ts),
        ("sack", tcp.sack),
        ("ecn", tcp.ecn),
        ("ecnseen", tcp.ecnseen),
        ("fastopen", tcp.fastopen),
        (tcp.congestion.as_str(), !tcp.congestion.is_empty()),
    ];
    words.0.extend(flags.iter().filter(|(_, on)| *on).map(|(word, _)| (*word).to_owned()));
    words.0.extend(tcp.wscale.map(|(snd, rcv)| format!("wscale:{snd},{rcv}")));
    words.0.push(format!("rto:{}", millis(tcp.rto_us)));
    words.count("backoff", tcp.backoff);
    if tcp.rtt_us > 0 {
        words.0.push(format!("rtt:{}/{}", millis(tcp.rtt_us), millis(tcp.rttvar_us)));
    }
    words.time("ato", tcp.ato_us);
    words.count("mss", tcp.mss);
    words.count("pmtu", tcp.pmtu);
    words.count("rcvmss", tcp.rcvmss);
    words.count("advmss", tcp.advmss);
    words.count("cwnd", tcp.cwnd);
    words.count("ssthresh", Some(tcp.ssthresh).filter(|&sent| sent < NO_SSTHRESH).unwrap_or(0));
    transferred(tcp, &mut words);
    words.count("unacked", tcp.unacked);
    if tcp.retrans_total > 0 {
        words.0.push(format!("retrans:{}/{}", tcp.retrans, tcp.retrans_total));
    }
    words.count("lost", tcp.lost);
    words.count("sacked", tcp.sacked);
    words.count("dsack_dups", tcp.dsack_dups);
    // Every connection starts with three.
    words.count("reordering", if tcp.reordering == 3 { 0 } else { tcp.reordering });
    words.count("reord_seen", tcp.reord_seen);
    words.time("rcv_rtt", tcp.rcv_rtt_us);
    words.count("rcv_space", tcp.rcv_space);
    words.count("rcv_ssthresh", tcp.rcv_ssthresh);
    words.count("notsent", tcp.notsent);
    words.time("minrtt", tcp.minrtt_us);
    words.count("snd_wnd", tcp.snd_wnd);
    words.count("rcv_wnd", tcp.rcv_wnd);
    words.0.join(" ")
}

/// The middle of [`inside`]: the bytes and segments transferred, how fast, and when last.
fn transferred(tcp: &TcpStatus, words: &mut Words) {
    words.count("bytes_sent", tcp.bytes_sent);
    words.count("bytes_retrans", tcp.bytes_retrans);
    words.count("bytes_acked", tcp.bytes_acked);
    words.count("bytes_received", tcp.bytes_received);
    words.count("segs_out", tcp.segs_out);
    words.count("segs_in", tcp.segs_in);
    words.count("data_segs_out", tcp.data_segs_out);
    words.count("data_segs_in", tcp.data_segs_in);
    if tcp.rtt_us > 0 {
        // A window in each round trip.
        let bytes = u128::from(tcp.cwnd) * u128::from(tcp.mss) * 1_000_000;
        words.rate("send", bytes / u128::from(tcp.rtt_us));
    }
    words.count("lastsnd", tcp.lastsnd_ms);
    words.count("lastrcv", tcp.lastrcv_ms);
    words.count("lastack", tcp.lastack_ms);
    words.rate("pacing_rate", Some(tcp.pacing_rate).filter(|&r| r != u64::MAX).unwrap_or(0));
    words.rate("delivery_rate", tcp.delivery_rate);
    words.count("delivered", tcp.delivered);
    for (name, micros) in [
        ("busy", tcp.busy_us),
        ("rwnd_limited", tcp.rwnd_limited_us),
        ("sndbuf_limited", tcp.sndbuf_limited_us),
    ] {
        words.0.extend((micros > 0).then(|| format!("{name}:{}ms", micros / 1000)));
    }
}

/// The words of a line of `ss -i`.
struct Words(Vec<String>);

impl Words {
    fn count(&mut self, name: &str, value: impl Into<u64>) {
        let value = value.into();
        self.0.extend((value > 0).then(|| format!("{name}:{value}")));
    }

    fn time(&mut self, name: &str, micros: u32) {
        self.0.extend((micros > 0).then(|| format!("{name}:{}", millis(micros))));
    }

    /// Bytes each second, shown as bits.
    fn rate(&mut self, name: &str, bytes: impl Into<u128>) {
        let bits = bytes.into() * 8;
        self.0.extend((bits > 0).then(|| format!("{name} {bits}bps")));
    }
}

/// Microseconds as milliseconds, with as many places as there are: `0.25`, `204`.
fn millis(micros: u32) -> String {
    let text = format!("{}.{:03}", micros / 1000, micros % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// An end of a connection; port 0 and no end at all are `*`.
fn end(address: Option<SocketAddr>) -> String {
    match address {
        Some(address) if address.port() != 0 => address.to_string(),
        Some(address) => format!("{}:*", address.ip()),
        None => "0.0.0.0:*".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> SsArgs {
        use clap::Parser;
        let line = format!("tasuki ss {line}");
        match crate::cli::Cli::parse_from(line.split_whitespace()).command {
            crate::cli::Command::Ss(args) => args,
            other => panic!("{other:?}"),
        }
    }

    fn socket(netid: &str, state: &str, peer: Option<&str>) -> SocketStatus {
        SocketStatus {
            netid: netid.to_owned(),
            state: state.to_owned(),
            recv_q: 0,
            send_q: 128,
            local: "10.219.0.2:80".parse().unwrap(),
            peer: peer.map(|peer| peer.parse().unwrap()),
            client: Some(3),
            tcp: None,
        }
    }

    #[test]
    fn the_inside_as_ss_writes_it() {
        let tcp = TcpStatus {
            congestion: "cubic".to_owned(),
            ts: true,
            sack: true,
            wscale: Some((8, 7)),
            rto_us: 204_000,
            rtt_us: 500,
            rttvar_us: 250,
            mss: 1448,
            cwnd: 10,
            ssthresh: NO_SSTHRESH,
            bytes_acked: 7,
            pacing_rate: u64::MAX,
            busy_us: 4200,
            retrans_total: 3,
            reordering: 3,
            minrtt_us: 111,
            ..TcpStatus::default()
        };
        assert_eq!(
            inside(&tcp),
            "ts sack cubic wscale:8,7 rto:204 rtt:0.5/0.25 mss:1448 cwnd:10 bytes_acked:7 \
             send 231680000bps busy:4ms retrans:0/3 minrtt:0.111"
        );
        let status = SocketStatus { tcp: Some(tcp), ..socket("tcp", "ESTAB", Some("[::1]:80")) };
        let shown = text(std::slice::from_ref(&status), &args("-Hi"), &[]);
        let lines: Vec<&str> = shown.lines().collect();
        assert!(lines[0].ends_with("[::1]:80") && lines[1].starts_with("\t ts sack cubic"));
        assert_eq!(lines.len(), 2);
        crate::command::tests::every_key_is_documented(&[status]);
    }

    #[test]
    fn the_table() {
        let peer = Some("10.219.0.1:40000");
        let sockets = [socket("tcp", "LISTEN", None), socket("tcp", "ESTAB", peer)];
        assert_eq!(
            text(&sockets, &args(""), &[]),
            "\
Netid  State   Recv-Q  Send-Q  Local Address:Port  Peer Address:Port
tcp    LISTEN       0     128       10.219.0.2:80          0.0.0.0:*
tcp    ESTAB        0     128       10.219.0.2:80   10.219.0.1:40000
"
        );
        let process = ProcessStatus {
            role: "client".to_owned(),
            pid: 42,
            name: "nginx".to_owned(),
            client: Some(3),
            memory: "4k".to_owned(),
            sandbox: None,
        };
        assert_eq!(
            text(&sockets[..1], &args("-Hp"), &[process]),
            "tcp  LISTEN  0  128  10.219.0.2:80  0.0.0.0:*  users:((\"nginx\",pid=42))\n"
        );
        assert_eq!(end(Some("0.0.0.0:0".parse().unwrap())), "0.0.0.0:*");
        crate::command::tests::every_key_is_documented(&sockets);
    }

    #[test]
    fn the_filters() {
        let all = [
            socket("tcp", "LISTEN", None),
            socket("tcp", "ESTAB", None),
            socket("udp", "UNCONN", None),
            socket("udp", "ESTAB", None),
        ];
        let table = [
            ("", [true; 4]),
            ("-tuna", [true; 4]),
            ("-t", [true, true, false, false]),
            ("-ua", [false, false, true, true]),
            ("-l", [true, false, true, false]),
            ("-tln", [true, false, false, false]),
            ("-4", [true; 4]),
            ("-6", [false; 4]),
            ("-46", [true; 4]),
        ];
        for (line, expected) in table {
            let args = args(line);
            assert_eq!(all.each_ref().map(|socket| wanted(&args, socket)), expected, "{line}");
        }
    }
}
