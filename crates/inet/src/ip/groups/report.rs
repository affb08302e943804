//! Reports about groups, as frames.

use core::net::IpAddr;

use super::wire::GroupReport;
use crate::bytes::{Egress, TxBytes};
use crate::interface_id::InterfaceId;
use crate::ip::{v4, v6};
use crate::link::LinkLayer;
use crate::link::ethernet::{self, EtherPayload};
use crate::link::interfaces::Interface;
use crate::offload::TxOffload;
use crate::sockaddr::wildcard;

/// Room for the IP header with its router alert, bytes: IPv6's is the longer one.
const HEADERS: usize = 48;

/// Sends a report of either family; gives the number of its packets.
pub(crate) fn send_report<T: TxBytes>(
    link: &mut LinkLayer,
    id: InterfaceId,
    report: &GroupReport,
    out: &mut dyn Egress<T>,
) -> u64 {
    let Some(interface) = link.interface(id) else { return 0 };
    let (mac, mtu) = (interface.mac(), usize::from(interface.link_mtu()));
    let to = report.destination();
    // RFC 3376 4.2.13, RFC 3590: without an address the report has none, either.
    let source = source(interface, to);
    let mut sent = 0;
    for message in report.emit(mtu.saturating_sub(HEADERS)) {
        let (carries, packet) = match (source, to) {
            (IpAddr::V4(source), IpAddr::V4(to)) => {
                (EtherPayload::Ipv4, v4::with_router_alert(source, to, &message))
            }
            (IpAddr::V6(source), IpAddr::V6(to)) => {
                (EtherPayload::Ipv6, v6::with_router_alert(source, to, &message))
            }
            _ => break,
        };
        let mut frame = alloc::vec![0; ethernet::HEADER];
        ethernet::emit(carries, mac, ethernet::multicast(to), &mut frame);
        frame.extend_from_slice(&packet);
        sent += 1;
        link.emit(id, &frame, &[], TxOffload::NONE, out);
    }
    sent
}

/// The source of a report to `to`: for IPv6 a link-local address.
fn source(interface: &Interface, to: IpAddr) -> IpAddr {
    let fits = |ip: &IpAddr| match ip {
        IpAddr::V4(_) => to.is_ipv4(),
        IpAddr::V6(ip) => to.is_ipv6() && ip.is_unicast_link_local(),
    };
    interface.usable().find(fits).unwrap_or(wildcard(to))
}
