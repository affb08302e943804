//! State that all clients share: the protocol core, the interfaces, the time of this iteration, and
//! the releases that wait for a driver.

use std::collections::VecDeque;
use std::time::Duration;

use abi::control::{CongestionControl, InetConfig, TcpDefaults};
use abi::fastopen::FastopenKeys;
use abi::network::Ipv6Mode;
use abi::offload::Features;
use inet::tcp::{CongestionKind, EcnPolicy, TcpConfig};
use inet::{Config, Handle, Instant, InterfaceId, InterfaceSet, SockOption, Stack};

use crate::nic::Nics;
use crate::nic::frame::ReceivedFrame;
use crate::nic::offload;
use crate::observe::counters::{BatchSizes, Counters};
use crate::rx::sharing::FrameQuota;
use crate::shared::SharedSockets;
pub(crate) use crate::socket_owner::SocketOwner;
use crate::tx::chunk::ClientChunk;

/// Receive buffer that streams start with, bytes: see `ClientParams::rx_usual_areas`.
pub(crate) const FIRST_WINDOW: u32 = 65_536;

/// A release of sent bytes, due once the drivers of `exits` have passed `awaited_frame`.
pub(crate) struct PendingRelease {
    pub(crate) awaited_frame: u64,
    /// Interfaces that may have got frames with the bytes.
    pub(crate) exits: InterfaceSet,
    pub(crate) owner: SocketOwner,
}

/// The releases that wait, by the interface whose driver they wait for. Each socket has one at
/// most.
#[derive(Default)]
pub(crate) struct Releases {
    interfaces: Vec<VecDeque<PendingRelease>>,
    /// All of them.
    len: usize,
}

impl Releases {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a release that waits for the driver of this interface, and then perhaps for others.
    pub(crate) fn add(&mut self, interface: InterfaceId, release: PendingRelease) {
        let at = usize::from(interface.0);
        if self.interfaces.len() <= at {
            self.interfaces.resize_with(at + 1, VecDeque::new);
        }
        if let Some(queue) = self.interfaces.get_mut(at) {
            queue.push_back(release);
            self.len += 1;
        }
    }

    /// The next release that is due.
    pub(crate) fn poll(&mut self, nics: &Nics) -> Option<SocketOwner> {
        for at in 0..self.interfaces.len() {
            let interface = InterfaceId(u16::try_from(at).ok()?);
            while let Some(release) = self.interfaces[at].front() {
                if release.awaited_frame > nics.passed(interface) {
                    break;
                }
                let release = self.interfaces[at].pop_front()?;
                self.len -= 1;
                match nics.awaited(release.exits, release.awaited_frame) {
                    Some(next) => self.add(next, release),
                    None => return Some(release.owner),
                }
            }
        }
        None
    }

    /// The sockets that wait.
    pub(crate) fn owners(&self) -> impl Iterator<Item = SocketOwner> {
        self.interfaces.iter().flatten().map(|release| release.owner)
    }
}

/// See the module's head.
pub(crate) struct Engine {
    pub(crate) stack: Stack<ClientChunk, ReceivedFrame>,
    pub(crate) nics: Nics,
    pub(crate) counters: Counters,
    pub(crate) batches: BatchSizes,
    pub(crate) now: Instant,
    pub(crate) releases: Releases,
    /// Sockets of which several processes may hold a descriptor.
    pub(crate) shared: SharedSockets,
    /// The quota of frames lent to programs; `None`: programs may not read frames.
    pub(crate) frame_quota: Option<FrameQuota>,
    serial: u32,
    /// A connect of a program has succeeded since the event loop last asked.
    pub(crate) connect_succeeded: bool,
}

impl Engine {
    /// Without interfaces and sockets.
    pub(crate) fn new(secret: [u8; 16], settings: &InetConfig) -> Self {
        let mut config = Config::default();
        set_defaults(&mut config.tcp, &settings.tcp);
        if let Some(most) = settings.tcp.max_tw_buckets {
            config.max_tw_buckets = most as usize;
        }
        config.rp_filter = settings.rp_filter;
        config.held_frames = abi::nic::CORE_AREAS as usize;
        // Each socket is sure of this much. The shell grants more out of its client's pool.
        config.tcp.recv_buffer = FIRST_WINDOW as usize;
        config.tcp.recv_buffer_granted = FIRST_WINDOW as usize;
        // Each interface has its own number: `InterfaceSettings::dad_transmits`.
        config.v6.dad_transmits = 0;
        // Announcements tell bridges, switches and peers at once that another stack has the
        // addresses now.
        config.arp_notify = true;
        config.v6.ndisc_notify = true;
        config.v6.accept_ra = settings.ipv6 == Ipv6Mode::Auto;
        let mut stack = Stack::new(config, secret);
        if let Some(keys) = settings.tcp.fastopen_key {
            let FastopenKeys { current, other } = keys;
            stack.set_fast_open_keys(inet::FastOpenKeys { current, other });
        }
        Self {
            stack,
            nics: Nics::default(),
            counters: Counters::default(),
            batches: BatchSizes::default(),
            now: Instant::ZERO,
            releases: Releases::default(),
            shared: SharedSockets::default(),
            frame_quota: settings.share_frames.then(FrameQuota::new),
            serial: 0,
            connect_succeeded: false,
        }
    }

    /// A number for a new socket.
    pub(crate) fn next_serial(&mut self) -> u32 {
        self.serial = self.serial.wrapping_add(1);
        self.serial
    }

    /// Sets the offloads of a port's device for its interface.
    pub(crate) fn set_features(&mut self, port: usize, id: InterfaceId, features: Features) {
        self.nics.set_features(port, features);
        // The interface was added before.
        let _ = self.stack.set_features(id, offload::features(features));
    }

    /// Sets a socket's receive buffer in the core.
    pub(crate) fn set_recv_buffer(&mut self, handle: Handle, bytes: usize) {
        // A new handle takes any size. If it does not, its default stays.
        let _ = self.stack.set_option(self.now, handle, SockOption::RecvBuffer(bytes));
    }
}

/// Sets the initial settings of connections, as far as they are given.
fn set_defaults(config: &mut TcpConfig, given: &TcpDefaults) {
    fn set<T>(place: &mut T, given: Option<T>) {
        if let Some(given) = given {
            *place = given;
        }
    }
    config.congestion_control = match given.congestion {
        CongestionControl::Cubic => CongestionKind::Cubic,
        CongestionControl::Reno => CongestionKind::Reno,
    };
    let ecn = given.ecn.map(|ecn| match ecn {
        0 => EcnPolicy::Off,
        1 => EcnPolicy::On,
        _ => EcnPolicy::Accept,
    });
    set(&mut config.ecn, ecn);
    set(&mut config.sack, given.sack);
    set(&mut config.dsack, given.dsack);
    set(&mut config.timestamps, given.timestamps);
    set(&mut config.window_scaling, given.window_scaling);
    set(&mut config.syncookies, given.syncookies);
    set(&mut config.max_syn_backlog, given.max_syn_backlog);
    set(&mut config.abort_on_overflow, given.abort_on_overflow);
    set(&mut config.syn_retries, given.syn_retries);
    set(&mut config.synack_retries, given.synack_retries);
    set(&mut config.retries, given.retries2);
    set(&mut config.retries1, given.retries1);
    set(&mut config.mtu_probing, given.mtu_probing);
    set(&mut config.base_mss, given.base_mss);
    set(&mut config.mtu_probe_floor, given.mtu_probe_floor);
    set(&mut config.probe_threshold, given.probe_threshold);
    let seconds = |seconds: u32| Duration::from_secs(seconds.into());
    set(&mut config.probe_interval, given.probe_interval.map(seconds));
    set(&mut config.slow_start_after_idle, given.slow_start_after_idle);
    set(&mut config.frto, given.frto);
    set(&mut config.moderate_rcvbuf, given.moderate_rcvbuf);
    set(&mut config.tw_reuse, given.tw_reuse);
    set(&mut config.fastopen, given.fastopen);
    let pause = given.fastopen_blackhole_timeout_sec.map(|s| Duration::from_secs(s.into()));
    set(&mut config.fastopen_blackhole_timeout, pause);
}
