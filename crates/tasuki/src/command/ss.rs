//! `tasuki ss`: the sockets of an instance.

use std::net::SocketAddr;

use abi::control::{ClientReply, ClientRequest, SocketStatus};

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
    match operator.ask(&ClientRequest::Ss)? {
        (ClientReply::Sockets { sockets }, _) => {
            if args.json {
                print_json(&sockets)?;
            } else {
                print(&text(&sockets))?;
            }
            Ok(0)
        }
        (other, _) => Err(operator.unexpected(&other)),
    }
}

/// As `ss -tuna` writes them.
fn text(sockets: &[SocketStatus]) -> String {
    let head = ["Netid", "State", "Recv-Q", "Send-Q", "Local Address:Port", "Peer Address:Port"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for socket in sockets {
        rows.push(vec![
            socket.netid.clone(),
            socket.state.clone(),
            socket.recv_q.to_string(),
            socket.send_q.to_string(),
            end(Some(socket.local)),
            end(socket.peer),
        ]);
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

    #[test]
    fn the_table() {
        let socket = |state: &str, peer: Option<&str>| SocketStatus {
            netid: "tcp".to_owned(),
            state: state.to_owned(),
            recv_q: 0,
            send_q: 128,
            local: "10.219.0.2:80".parse().unwrap(),
            peer: peer.map(|peer| peer.parse().unwrap()),
            client: None,
        };
        let sockets = [socket("LISTEN", None), socket("ESTAB", Some("10.219.0.1:40000"))];
        assert_eq!(
            text(&sockets),
            "\
Netid  State   Recv-Q  Send-Q  Local Address:Port  Peer Address:Port
tcp    LISTEN       0     128       10.219.0.2:80          0.0.0.0:*
tcp    ESTAB        0     128       10.219.0.2:80   10.219.0.1:40000
"
        );
        assert_eq!(end(Some("0.0.0.0:0".parse().unwrap())), "0.0.0.0:*");
    }
}
