//! The context of the protocols above IP: the layers below them, timers, random numbers, and the
//! count of held frames.
//!
//! A packet leaves in three steps. [`Context::find`] gives the path to its destination.
//! [`Context::next_hop`] gives the hardware address to send it to, or starts asking for it.
//! [`Context::emit`] hands the frame over. A socket does the steps itself, so that it keeps its
//! data until the frame really leaves. Answers without a socket go through [`Context::answer`] and
//! may be dropped.
//!
//! Security policies act between the second and the third step: see the module `protected`.

mod protected;

use alloc::vec;
use core::net::{IpAddr, SocketAddr};

use crate::bytes::{Egress, TxBytes};
use crate::config::Config;
use crate::error::Error;
use crate::esp::EspLayer;
use crate::held::HeldFrames;
use crate::interface_id::{InterfaceId, NeighbourKey};
use crate::ip::route::{Hop, Path};
use crate::ip::{self, IpLayer, frame_headers, ndp};
use crate::link::ethernet::{self, Mac};
use crate::link::{Ipv6Target, LOOPBACK_MAC, LinkLayer, Resolution};
use crate::offload::TxOffload;
use crate::owner_id::OwnerId;
use crate::secret::Secret;
use crate::time::Instant;
use crate::timers::Timers;

/// The layers below the protocols of one stack, and what all layers share.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) link: LinkLayer,
    pub(crate) ip: IpLayer,
    pub(crate) esp: EspLayer,
    pub(crate) timers: Timers,
    pub(crate) secret: Secret,
    pub(crate) held: HeldFrames,
    /// The time of the last call that had one.
    pub(crate) clock: Instant,
}

/// Whether a packet can leave over its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextHop {
    /// To this hardware address.
    Ready(Mac),
    /// This neighbour is being asked for it.
    Asking(NeighbourKey),
    /// There is no room to ask.
    Full,
}

impl Context {
    pub(crate) fn new(config: &Config, secret: Secret) -> Self {
        Self {
            link: LinkLayer::new(config, &secret),
            ip: IpLayer::new(config, &secret),
            esp: EspLayer::new(config, &secret),
            timers: Timers::new(),
            held: HeldFrames::new(config.held_frames, config.joined_bytes),
            secret,
            clock: Instant::ZERO,
        }
    }

    /// The path to `destination`, over the interface `via` if one is given. The port does not
    /// matter.
    ///
    /// # Errors
    /// `NetUnreachable` if there is none, `Invalid` for a link-local address without its link.
    pub(crate) fn find(
        &mut self,
        destination: &SocketAddr,
        via: Option<InterfaceId>,
    ) -> Result<Path, Error> {
        if self.esp.is_active() {
            return self.find_protected(destination, via);
        }
        self.ip.find(destination, via, self.link.interfaces())
    }

    /// The hardware address of the first hop of `path`; starts to resolve it for `owner` if it is
    /// unknown. `progress`: an earlier packet to it has arrived.
    #[inline]
    pub(crate) fn next_hop<T: TxBytes>(
        &mut self,
        now: Instant,
        (path, progress): (&Path, bool),
        owner: OwnerId,
        out: &mut dyn Egress<T>,
    ) -> NextHop {
        match self.resolve(now, path, progress) {
            Ok(mac) => NextHop::Ready(mac),
            Err(key) => self.ask(now, key, owner, out),
        }
    }

    /// The hardware address of the first hop, or the neighbour that is to be asked for it.
    #[inline(never)]
    fn resolve(&mut self, now: Instant, path: &Path, progress: bool) -> Result<Mac, NeighbourKey> {
        let address = match path.hop {
            Hop::Group(mac) => return Ok(mac),
            Hop::Local => return Ok(LOOPBACK_MAC),
            Hop::Neighbour(address) => address,
        };
        let key = NeighbourKey { interface: path.interface, address };
        self.link.resolve(now, key, progress, &mut self.timers).ok_or(key)
    }

    /// Asks a neighbour for its hardware address, unless it is being asked. It counts for an owner.
    #[cold]
    fn ask<T: TxBytes>(
        &mut self,
        now: Instant,
        key: NeighbourKey,
        owner: OwnerId,
        out: &mut dyn Egress<T>,
    ) -> NextHop {
        match self.link.resolve_unknown(now, key, owner, &mut self.timers, out) {
            Resolution::Asking => {}
            Resolution::Full => return NextHop::Full,
            Resolution::Solicit => self.solicit(Ipv6Target { neighbour: key, mac: None }, out),
        }
        NextHop::Asking(key)
    }

    /// Sends a Neighbour Solicitation.
    pub(crate) fn solicit<T: TxBytes>(&mut self, target: Ipv6Target, out: &mut dyn Egress<T>) {
        let Ipv6Target { neighbour, mac } = target;
        if let IpAddr::V6(address) = neighbour.address {
            ndp::send_solicitation(&mut self.link, neighbour.interface, address, mac, out);
        }
    }

    /// Hops of IPv6 packets that leave by an interface.
    pub(crate) fn hop_limit(&self, id: InterfaceId) -> u8 {
        self.ip.hop_limit(self.link.interfaces(), id)
    }

    /// Sends a packet to `to`. `header` is its header; `fill` writes its `header.payload_len` bytes
    /// of payload. It waits for its neighbour if need be, and is dropped if there is no path or no
    /// room.
    pub(crate) fn answer<T: TxBytes>(
        &mut self,
        now: Instant,
        to: &SocketAddr,
        header: &ip::Header,
        fill: impl FnOnce(&mut [u8]),
        out: &mut dyn Egress<T>,
    ) {
        let Ok(path) = self.find(to, None) else { return };
        let headers = frame_headers(header.destination);
        if headers - ethernet::HEADER + header.payload_len > usize::from(path.mtu) {
            self.link.count_no_room();
            return;
        }
        let hop = self.next_hop(now, (&path, false), OwnerId::default(), out);
        let to = match hop {
            NextHop::Ready(mac) => mac,
            NextHop::Asking(_) => Mac::BROADCAST,
            NextHop::Full => {
                self.link.count_unresolved(1);
                return;
            }
        };
        let mut head = vec![0; headers + header.payload_len];
        ip::write_headers(&self.link, &path, to, header, &mut head);
        if let Some(payload) = head.get_mut(headers..) {
            fill(payload);
        }
        match hop {
            NextHop::Asking(key) => self.park(now, key, head, out),
            _ => self.emit(path.exit(), &head, &[], TxOffload::NONE, out),
        }
    }
}
