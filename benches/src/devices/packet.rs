//! Ways to move frames over an end of a veth pair: by packet sockets, and by AF_XDP.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use anyhow::Result;
use nic_driver::{packet, xdp};
use rustix::net::{RecvFlags, SendFlags};

use super::frames::{
    Parcel, Places, Source, TOGETHER, packet_socket, receive_together, send_together, set_option,
};
use super::method::{Contender, DriverDevice, Method, sh, timed};
use super::shared::Shared;
use super::uring::{Batch, Ring};

/// The hardware address that frames are for.
const STATION: [u8; 6] = [2, 0, 0, 0, 0, 2];
const MTU: u16 = 1500;

/// All ways, for both kinds of frames where there are both.
pub(super) fn all() -> Result<Vec<Contender>> {
    let mut pairs = 0;
    let mut pair = || -> Result<[String; 2]> {
        pairs += 1;
        let [near, far] = ["near", "far"].map(|end| format!("{end}{pairs}"));
        sh(&format!(
            "ip link add {near} type veth peer name {far} && ip link set {near} up && \
             ip link set {far} up"
        ))?;
        Ok([near, far])
    };
    let mut all = Vec::new();
    for parcel in [false, true].map(Parcel::new) {
        for (name, how, bypass) in [
            ("sendmsg(2), recvmsg(2) one by one", PacketMethod::Calls, false),
            ("the same, PACKET_QDISC_BYPASS", PacketMethod::Calls, true),
            ("sendmmsg(2), recvmmsg(2), 64 together", PacketMethod::Together, false),
            ("the same, PACKET_QDISC_BYPASS", PacketMethod::Together, true),
            ("io_uring, 64 together, DEFER_TASKRUN", PacketMethod::Uring, false),
            ("PACKET_TX_RING, 64 together", PacketMethod::ToSend, false),
            ("TPACKET_V3, when its blocks are there", PacketMethod::ToReceive, false),
        ] {
            let ring = matches!(how, PacketMethod::ToSend | PacketMethod::ToReceive);
            if ring && parcel.is_super() {
                continue;
            }
            let [near, far] = pair()?;
            let socket = Socket::new(&near, &parcel, how, bypass)?;
            let source = Source::new(&far, &parcel)?;
            all.push(match bypass {
                true => Contender::new("packet", name, &parcel, Sender(socket), source),
                false => Contender::new("packet", name, &parcel, socket, source),
            });
        }
        let [near, far] = pair()?;
        let socket = packet::open(&near, STATION, MTU)?;
        let device = packet::Packet::new(socket, MTU, true)?;
        let (source, way) = (Source::new(&far, &parcel)?, DriverDevice::new(device, &parcel, 64));
        all.push(Contender::new("packet", "Tasuki's driver", &parcel, way, source));
    }
    let parcel = Parcel::new(false);
    for (name, batch) in [("Tasuki's driver, one by one", 1), ("Tasuki's driver, 64 a batch", 64)] {
        let [near, far] = pair()?;
        let device = xdp::Xdp::new(xdp::open(&near, MTU, None)?, xdp::Memory::Own)?;
        let (source, way) =
            (Source::new(&far, &parcel)?, DriverDevice::new(device, &parcel, batch));
        all.push(Contender::new("xdp", name, &parcel, way, source));
    }
    Ok(all)
}

/// PacketMethod frames are moved.
#[derive(Debug, Clone, Copy)]
enum PacketMethod {
    /// A system call for each.
    Calls,
    /// One for [`TOGETHER`].
    Together,
    Uring,
    /// By memory that is shared with the kernel.
    ToSend,
    ToReceive,
}

/// A packet socket, and how it is used.
enum Socket {
    Calls { socket: OwnedFd, parcel: Parcel, places: Places },
    Together { socket: OwnedFd, parcel: Parcel, places: Places },
    Uring(Box<Ring>),
    ToSend(Shared, Parcel),
    ToReceive(Shared, Places),
}

/// A packet socket of which only the sending is measured.
struct Sender(Socket);

impl Method for Sender {
    fn send(&mut self, count: usize) -> io::Result<Duration> {
        self.0.send(count)
    }
}

impl Socket {
    fn new(interface: &str, parcel: &Parcel, how: PacketMethod, bypass: bool) -> Result<Self> {
        let receives = !matches!(how, PacketMethod::ToSend) && !bypass;
        let socket = packet_socket(interface, if receives { libc::ETH_P_ALL as u16 } else { 0 })?;
        set_option(&socket, libc::PACKET_QDISC_BYPASS, &i32::from(bypass))?;
        let (bytes, parcel) = (parcel.bytes(true), parcel.clone());
        let places = Places::new(bytes.len());
        Ok(match how {
            PacketMethod::Calls => Self::Calls { socket, places, parcel },
            PacketMethod::Together => Self::Together { socket, places, parcel },
            PacketMethod::Uring => {
                let batch = Batch { together: TOGETHER, fixed: false, defer: true };
                Self::Uring(Box::new(Ring::new(&socket, bytes, batch)?))
            }
            PacketMethod::ToSend => Self::ToSend(Shared::to_send(socket)?, parcel),
            PacketMethod::ToReceive => Self::ToReceive(Shared::to_receive(socket)?, places),
        })
    }
}

impl Method for Socket {
    fn send(&mut self, count: usize) -> io::Result<Duration> {
        match self {
            Self::Calls { socket, parcel, .. } => timed(|| {
                (0..count).try_for_each(|_| {
                    rustix::net::send(&*socket, parcel.bytes(true), SendFlags::empty())?;
                    Ok(())
                })
            }),
            Self::Together { socket, parcel, .. } => timed(|| {
                let mut left = count;
                while left > 0 {
                    let frames = std::iter::repeat_n(parcel.bytes(true), left);
                    left -= send_together(socket, frames)?;
                }
                Ok(())
            }),
            Self::Uring(ring) => timed(|| ring.write(count)),
            Self::ToSend(shared, parcel) => timed(|| shared.send(parcel.bytes(true), count)),
            Self::ToReceive(..) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn receive(&mut self, count: usize) -> io::Result<Duration> {
        match self {
            Self::Calls { socket, places, .. } => timed(|| {
                (0..count).try_for_each(|_| {
                    rustix::net::recv(&*socket, places.next(), RecvFlags::empty())?;
                    Ok(())
                })
            }),
            Self::Together { socket, places, .. } => timed(|| {
                let mut left = count;
                while left > 0 {
                    left -= receive_together(socket, places.all().take(left))?;
                }
                Ok(())
            }),
            Self::Uring(ring) => timed(|| ring.read(count)),
            Self::ToSend(..) => Err(io::ErrorKind::Unsupported.into()),
            Self::ToReceive(shared, places) => {
                shared.wait(count);
                timed(|| match shared.receive(places) {
                    all if all == count => Ok(()),
                    other => Err(io::Error::other(format!("{other} frames came"))),
                })
            }
        }
    }
}
