//! `tasuki ss`: the sockets of an instance.

use std::net::SocketAddr;

use abi::control::{ClientReply, ClientRequest, ProcessStatus, SocketStatus};

use super::ps::status;
use super::{print, print_json, table};
use crate::cli::SsArgs;
use crate::exit::Failure;
use crate::operator::Operator;

/// Shows the sockets.
///
/// # Errors
/// When the instance does not run.
pub(crate) fn ss(args: &SsArgs) -> Result<u8, Failure> {
    let mut operator = Operator::connect_or_guess(args.net.as_ref())?;
    let mut sockets = match operator.ask(&ClientRequest::Ss)? {
        (ClientReply::Sockets { sockets }, _) => sockets,
        (other, _) => return Err(operator.unexpected(&other)),
    };
    sockets.retain(|socket| wanted(args, socket));
    if args.json {
        print_json(&sockets)?;
    } else {
        let processes = if args.processes { status(&mut operator)?.processes } else { Vec::new() };
        print(&text(&sockets, args, &processes))?;
    }
    Ok(0)
}

fn wanted(args: &SsArgs, socket: &SocketStatus) -> bool {
    let kind = if socket.netid == "tcp" { args.tcp } else { args.udp };
    let listens = matches!(&socket.state[..], "LISTEN" | "UNCONN");
    (kind || args.tcp == args.udp) && (listens || !args.listening)
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
    table(&rows, &[false, false, true, true, true, true])
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
        }
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
        ];
        for (line, expected) in table {
            let args = args(line);
            assert_eq!(all.each_ref().map(|socket| wanted(&args, socket)), expected, "{line}");
        }
    }
}
